/* SPDX-License-Identifier: Apache-2.0 */
#include "index/split.h"

#include <stdlib.h>

#include "tests/support/unit.h"

static void check_parse(const char *text, double a, double b, double c)
{
    double vector[STK_SPLITS];
    stoker_error err;
    assert_int_equal(stk_split_parse(text, vector, &err), STOKER_OK);
    if (vector[0] != a || vector[1] != b || vector[2] != c)
        fail_msg("'%s' is %.17g %.17g %.17g", text, vector[0], vector[1], vector[2]);
}

static void test_runs_of_digits_and_dots_are_numbers(void **state)
{
    (void)state;
    check_parse("99,1,0", 0.99, 0.01, 0.0);
    check_parse("98/2", 0.98, 0.02, 0.0);
    check_parse("-1,2", 1.0 / 3, 2.0 / 3, 0.0);
    check_parse("1e2", 1.0 / 3, 2.0 / 3, 0.0);
    check_parse("a .5 b 1. ", 0.5 / 1.5, 1.0 / 1.5, 0.0);
    check_parse("0,0,007", 0.0, 0.0, 1.0);
}

static void test_no_number_is_not_a_number(void **state)
{
    (void)state;
    double vector[STK_SPLITS];
    struct stk_split_range ranges[STK_SPLITS];
    uint64_t first, end;
    assert_int_equal(stk_split_parse("", vector, NULL), STOKER_OK);
    assert_true(vector[0] != vector[0]);
    stk_split_ranges(vector, ranges);
    assert_true(ranges[0].exists && ranges[0].start == 0.0 && ranges[0].end != ranges[0].end);
    assert_int_equal(stk_split_elements(&ranges[0], 10, &first, &end, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

static void refuse(const char *text, const char *part)
{
    double vector[STK_SPLITS] = {7, 7, 7};
    stoker_error err;
    assert_int_equal(stk_split_parse(text, vector, &err), STOKER_ERR_INVALID_ARGUMENT);
    if (!strstr(err.message, part)) fail_msg("'%s' does not say '%s'", err.message, part);
    assert_true(vector[0] == 7);
}

static void test_bad_texts_are_refused(void **state)
{
    (void)state;
    char digits[400];
    refuse("1,2,3,4", "more than 3 numbers");
    refuse("1.2.3", "'1.2.3' of the split is no number");
    refuse("5 .", "'.' of the split is no number");
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = 0;
    refuse(digits, "more than 300 digits");
    digits[300] = 0;
    check_parse(digits, 1.0, 0.0, 0.0);
}

/* A number N is read as N / (N + 0), so a pair is needed to see it: N and 1 give N / (N + 1). */
static void check_number(const char *text)
{
    char pair[400];
    double vector[STK_SPLITS], number = strtod(text, NULL);
    size_t size = strlen(text);
    memcpy(pair, text, size);
    memcpy(pair + size, ",1", 3);
    assert_int_equal(stk_split_parse(pair, vector, NULL), STOKER_OK);
    double sum = number + 1.0 + 0.0;
    if (vector[0] != number / sum || vector[1] != 1.0 / sum) fail_msg("'%s' is read wrongly", text);
}

static void test_numbers_are_the_nearest_doubles(void **state)
{
    (void)state;
    check_number("0.3333333333333333");
    check_number("0.33333333333333331483");
    check_number("0.1000000000000000055511151231257827021181583404541015625");
    check_number("9007199254740993");                   /* half way between two: the even one */
    check_number("9007199254740993.00000000000000001"); /* and just above */
    check_number("9007199254740995");
    check_number("18014398509481985");
    check_number("0.99999999999999994448884876874217297882");
    check_number("0.99999999999999994448884876874217297881");
    check_number("0.000000000000000000000000000000000000123456789012345678901234567890");
    check_number("123456789012345678901234567890123456789012345678901234567890");
}

static void test_common_part_of_two_cuts(void **state)
{
    (void)state;
    const double left[] = {0.9, 0.05, 0.05}, right[] = {0.8, 0.1, 0.1};
    struct stk_split_range a[STK_SPLITS], b[STK_SPLITS], common[STK_SPLITS];
    stk_split_ranges(left, a);
    stk_split_ranges(right, b);
    stk_split_common(a, b, common);
    assert_true(common[0].exists && common[0].start == 0.0 && common[0].end == 0.8);
    assert_false(common[1].exists);
    assert_true(common[2].exists && common[2].start == 0.9500000000000001 && common[2].end == 1.0);
}

static void test_borders_round_halves_to_even(void **state)
{
    (void)state;
    struct stk_split_range range = {true, 0.0, 0.5};
    uint64_t first, end;
    static const uint64_t ends[] = {0, 0, 1, 2, 2, 2, 3, 4};
    for (uint64_t n = 0; n < 8; n++) {
        assert_int_equal(stk_split_elements(&range, n, &first, &end, NULL), STOKER_OK);
        assert_int_equal(first, 0);
        assert_int_equal(end, ends[n]);
    }
    range = (struct stk_split_range){true, 0.5, 1.0};
    assert_int_equal(stk_split_elements(&range, UINT64_C(1) << 51, &first, &end, NULL), STOKER_OK);
    assert_true(first == UINT64_C(1) << 50 && end == UINT64_C(1) << 51);
    range.exists = false;
    assert_int_equal(stk_split_elements(&range, 5, &first, &end, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_requests_round_up_twice(void **state)
{
    (void)state;
    uint64_t target, buffer;
    stk_split_request(0.17661208902245712, 84627, 0.005, &target, &buffer);
    assert_int_equal(target, 14947);
    assert_int_equal(buffer, 15022);
    stk_split_request(1.0, 0, 0.005, &target, &buffer);
    assert_int_equal(target, 0);
    assert_int_equal(buffer, 0);
    stk_split_request(0.5, 200, 0.0, &target, &buffer);
    assert_int_equal(target, 100);
    assert_int_equal(buffer, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_of_digits_and_dots_are_numbers),
        cmocka_unit_test(test_no_number_is_not_a_number),
        cmocka_unit_test(test_bad_texts_are_refused),
        cmocka_unit_test(test_numbers_are_the_nearest_doubles),
        cmocka_unit_test(test_common_part_of_two_cuts),
        cmocka_unit_test(test_borders_round_halves_to_even),
        cmocka_unit_test(test_requests_round_up_twice),
    };
    return stk_run_tests(tests);
}
