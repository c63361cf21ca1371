/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport of a build without libcurl: objects are refused when they are opened.
 */
#include "base/error.h"
#include "store/http.h"

stoker_status stk_http_start(stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                    "stoker was built without libcurl: it cannot read http(s):// or s3://");
}

void stk_http_stop(void) {}

stoker_status stk_http_perform(const struct stk_http_call *call, struct stk_http_answer *out_answer, stoker_error *err)
{
    (void)call;
    (void)out_answer;
    return stk_http_start(err);
}
