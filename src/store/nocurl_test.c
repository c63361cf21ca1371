/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects without libcurl: a message that says so. Linked with nocurl.c in every build.
 */
#include <string.h>

#include "store/range.h"
#include "tests/support/unit.h"

static void test_nocurl_refuses_objects(void **state)
{
    (void)state;
    static const char *const urls[] = {"s3://bucket/k", "http://h/x", "https://h/x"};
    struct stk_range_retry retry = {0, 0};
    for (size_t i = 0; i < 3; i++) {
        struct stk_range *range = NULL;
        stoker_error err = {0};
        assert_int_equal(stk_range_open_url(urls[i], NULL, retry, &range, &err), STOKER_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, "without libcurl"));
        assert_null(range);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nocurl_refuses_objects)};
    return stk_run_tests(tests);
}
