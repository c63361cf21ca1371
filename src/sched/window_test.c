/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/window.h"

#include "tests/support/unit.h"

static void test_d1_median_of_the_last_intervals(void **state)
{
    (void)state;
    struct stk_window window;
    stk_window_init(&window);
    assert_int_equal(window.median_ns, STK_WINDOW_DEFAULT_NS);
    assert_true(stk_window_learn(&window, 3000));
    assert_int_equal(window.median_ns, 3000);
    assert_true(stk_window_learn(&window, 100));
    assert_int_equal(window.median_ns, 100);
    assert_true(stk_window_learn(&window, 200));
    assert_int_equal(window.median_ns, 200);
    for (int i = 0; i < 15; i++) assert_true(stk_window_learn(&window, 500));
    assert_int_equal(window.median_ns, 500); /* all older ones have left the ring */
}

static void test_d1_a_pause_is_not_learned(void **state)
{
    (void)state;
    struct stk_window window;
    stk_window_init(&window);
    assert_true(stk_window_learn(&window, 100));
    assert_true(stk_window_learn(&window, 500)); /* exactly five medians is none */
    assert_false(stk_window_learn(&window, 501));
    assert_int_equal(window.median_ns, 100);
    assert_int_equal(window.count, 2);
}

static void test_extreme_intervals_are_bounded(void **state)
{
    (void)state;
    struct stk_window window;
    stk_window_init(&window);
    assert_true(stk_window_learn(&window, UINT64_MAX));
    assert_int_equal(window.median_ns, STK_WINDOW_NS_MAX);
    assert_true(stk_window_learn(&window, 1));
    assert_int_equal(window.median_ns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_d1_median_of_the_last_intervals),
        cmocka_unit_test(test_d1_a_pause_is_not_learned),
        cmocka_unit_test(test_extreme_intervals_are_bounded),
    };
    return stk_run_tests(tests);
}
