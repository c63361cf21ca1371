/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects without libcurl: a message that says so.
 */
#include <string.h>

#include "store/range.h"
#include "tests/support/unit.h"

static void test_object_needs_libcurl(void **state)
{
    (void)state;
    struct stk_range_retry retry = {0, 0};
    struct stk_range *range = NULL;
    stoker_error err = {0};
    assert_int_equal(stk_range_open_url("s3://b/k", NULL, retry, &range, &err), STOKER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "without libcurl"));
    assert_null(range);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_object_needs_libcurl)};
    return stk_run_tests(tests);
}
