/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects behind an address, in a build without libcurl: they are refused by name.
 */
#include "base/error.h"
#include "store/range.h"

stoker_status stk_range_open_url(const char *url, const stoker_object_options *options, struct stk_range_retry retry,
                                 struct stk_range **out_range, stoker_error *err)
{
    (void)options;
    (void)retry;
    (void)out_range;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "cannot open '%s': stoker was built without libcurl", url);
}
