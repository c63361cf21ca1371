/* SPDX-License-Identifier: Apache-2.0 */
#include "media/log_lines.h"

#include <stdio.h>

#include "tests/support/unit.h"

static const char *text_of(const struct stk_log_lines *lines)
{
    static char text[STK_LOG_TEXT_BYTES];
    stk_log_lines_text(lines, text);
    return text;
}

static void test_nothing_said_is_no_text(void **state)
{
    (void)state;
    struct stk_log_lines lines = {0};
    assert_string_equal(text_of(&lines), "");
    stk_log_lines_keep(&lines, " .\n");
    assert_string_equal(text_of(&lines), "");
}

static void test_repeats_are_counted_and_the_newest_comes_last(void **state)
{
    (void)state;
    struct stk_log_lines lines = {0};
    stk_log_lines_keep(&lines, "no frame!\n");
    stk_log_lines_keep(&lines, "bad \x1b[31mNAL.\n");
    stk_log_lines_keep(&lines, "no frame!");
    stk_log_lines_keep(&lines, "end of file");
    assert_string_equal(text_of(&lines), "no frame! (2 times); bad [31mNAL; end of file");
}

static void test_only_the_last_different_lines_are_kept(void **state)
{
    (void)state;
    struct stk_log_lines lines = {0};
    char line[16];
    for (int i = 0; i < 9; i++) {
        (void)snprintf(line, sizeof line, "line %d", i);
        stk_log_lines_keep(&lines, line);
    }
    assert_string_equal(text_of(&lines), "line 5; line 6; line 7; line 8");
}

static void test_long_lines_are_cut_and_what_does_not_fit_is_the_oldest(void **state)
{
    (void)state;
    struct stk_log_lines lines = {0};
    char line[400];
    for (int i = 0; i < 4; i++) {
        memset(line, 'a' + i, sizeof line - 1);
        line[sizeof line - 1] = 0;
        stk_log_lines_keep(&lines, line);
    }
    const char *text = text_of(&lines);
    assert_true(strlen(text) < STK_LOG_TEXT_BYTES);
    assert_int_equal(text[0], 'b'); /* three of 119 bytes fit */
    assert_int_equal(text[strlen(text) - 1], 'd');
}

static void test_of_a_flood_only_some_lines_are_looked_at(void **state)
{
    (void)state;
    struct stk_log_lines lines = {0};
    int wanted = 0;
    for (int i = 0; i < 100000; i++) wanted += stk_log_lines_wanted(&lines);
    assert_int_equal(lines.said, 100000);
    assert_in_range(wanted, 256, 256 + 100000 / 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said_is_no_text),
        cmocka_unit_test(test_repeats_are_counted_and_the_newest_comes_last),
        cmocka_unit_test(test_only_the_last_different_lines_are_kept),
        cmocka_unit_test(test_long_lines_are_cut_and_what_does_not_fit_is_the_oldest),
        cmocka_unit_test(test_of_a_flood_only_some_lines_are_looked_at),
    };
    return stk_run_tests(tests);
}
