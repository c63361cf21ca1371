/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "tests/support/unit.h"

static void test_fail_fills_and_returns_status(void **state)
{
    (void)state;
    stoker_error err = {0};
    assert_int_equal(stk_fail(&err, STOKER_ERR_LIMIT, "%d of %d", 3, 2), STOKER_ERR_LIMIT);
    assert_int_equal(err.status, STOKER_ERR_LIMIT);
    assert_string_equal(err.message, "3 of 2");
    assert_string_equal(err.context, "");
    assert_int_equal(stk_fail(NULL, STOKER_ERR_IO, "unseen"), STOKER_ERR_IO);
}

static void test_fail_os_appends_system_text(void **state)
{
    (void)state;
    stoker_error err = {0};
    (void)stk_fail_os(&err, STOKER_ERR_NOT_FOUND, ENOENT, "cannot open '%s'", "a");
    assert_string_equal(err.message, "cannot open 'a': No such file or directory");
    assert_int_equal(err.os_error, ENOENT);
}

static void test_context_grows_outwards(void **state)
{
    (void)state;
    stoker_error err = {0};
    char text[1024];
    (void)stk_fail(&err, STOKER_ERR_CORRUPT, "bad");
    stk_error_context(&err, "file %s", "x");
    stk_error_context(&err, "sample %d", 7);
    stk_error_text(&err, text, sizeof text);
    assert_string_equal(text, "sample 7: file x: bad");
}

static void test_outside_text_is_cleaned_and_cut(void **state)
{
    (void)state;
    stoker_error err = {0};
    char big[2000];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = 0;
    (void)stk_fail(&err, STOKER_ERR_CORRUPT, "a\nb\x1b[0m %s", big);
    assert_int_equal(strlen(err.message), STOKER_ERROR_MESSAGE_BYTES - 1);
    assert_null(strchr(err.message, '\n'));
    assert_null(strchr(err.message, 0x1b));
    for (int i = 0; i < 5; i++) stk_error_context(&err, "%s", big);
    assert_int_equal(strlen(err.context), STOKER_ERROR_CONTEXT_BYTES - 1);
}

static void test_every_status_has_a_name(void **state)
{
    (void)state;
    static const int all[] = {0, 1, 2, -1, -2, -3, -10, -11, -12, -20, -21, -22, -23, -30, -31, -32, -33, -40};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        assert_string_not_equal(stoker_status_name((stoker_status)all[i]), "UNKNOWN");
    assert_string_equal(stoker_status_name((stoker_status)-999), "UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_fills_and_returns_status), cmocka_unit_test(test_fail_os_appends_system_text),
        cmocka_unit_test(test_context_grows_outwards),        cmocka_unit_test(test_outside_text_is_cleaned_and_cut),
        cmocka_unit_test(test_every_status_has_a_name),
    };
    return stk_run_tests(tests);
}
