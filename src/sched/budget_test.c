/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/budget.h"

#include "tests/support/unit.h"

static void test_no_limit_affords_everything_for_nothing(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 0);
    for (int i = 0; i < 3; i++) {
        assert_true(stk_budget_affords(&budget, UINT64_MAX, 0));
        stk_budget_take(&budget, UINT64_MAX);
    }
}

static void test_each_step_adds_up_to_four(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 100);
    assert_true(stk_budget_affords(&budget, 200, 0));
    assert_false(stk_budget_affords(&budget, 201, 0));
    for (int i = 0; i < 10; i++) stk_budget_step(&budget);
    for (int i = 0; i < 4; i++) {
        assert_true(stk_budget_affords(&budget, 100, 0));
        stk_budget_take(&budget, 100);
    }
    assert_false(stk_budget_affords(&budget, 1, 0));
}

static void test_a_full_bucket_lets_a_large_transfer_through_on_credit(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 100);
    assert_false(stk_budget_affords(&budget, 1000, 0));
    for (int i = 0; i < 2; i++) stk_budget_step(&budget);
    assert_true(stk_budget_affords(&budget, 1000, 0));
    stk_budget_take(&budget, 1000); /* 600 below zero */
    for (int i = 0; i < 6; i++) stk_budget_step(&budget);
    assert_false(stk_budget_affords(&budget, 1, 0));
    stk_budget_step(&budget);
    assert_true(stk_budget_affords(&budget, 100, 0));
    for (int i = 0; i < 10; i++) stk_budget_step(&budget);
    assert_true(stk_budget_affords(&budget, STK_BUDGET_DEBT_STEPS * 100 - 1, 0));
    assert_false(stk_budget_affords(&budget, STK_BUDGET_DEBT_STEPS * 100, 0)); /* would take too long to pay back */
    stk_budget_init(&budget, UINT64_MAX);
    for (int i = 0; i < 1000; i++) stk_budget_take(&budget, UINT64_MAX);
    for (int i = 0; i < 1000; i++) stk_budget_step(&budget);
    assert_true(stk_budget_affords(&budget, 1, 0));
}

static void test_what_is_left_goes_to_the_most_work_for_a_byte(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 1 << 20);
    for (int i = 0; i < 2; i++) stk_budget_step(&budget);
    for (int i = 0; i < 100; i++) stk_budget_note(&budget, 1023, 1000);
    assert_true(stk_budget_affords(&budget, 1024, 0)); /* full: everything passes */
    stk_budget_take(&budget, 2 << 20);                 /* half full: what is worth the mean */
    assert_true(stk_budget_affords(&budget, 1 << 20, (1 << 20) + 1000));
    assert_false(stk_budget_affords(&budget, 1 << 20, 900000));
    stk_budget_take(&budget, 2 << 20);
    stk_budget_step(&budget); /* a quarter: one and a half times of it */
    assert_true(stk_budget_affords(&budget, 1 << 20, 1600000));
    assert_false(stk_budget_affords(&budget, 1 << 20, 1500000));
    stk_budget_note(&budget, 0, UINT64_MAX);
    assert_false(stk_budget_affords(&budget, 1024, 2000));
}

static void test_some_probes_go_beside_the_budget_in_the_first_steps(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 100);
    for (int i = 0; i < STK_BUDGET_PROBES; i++) {
        assert_true(stk_budget_allows_probe(&budget));
        stk_budget_take_probe(&budget, 1000);
    }
    assert_true(stk_budget_affords(&budget, 200, 0)); /* nothing was taken */
    assert_false(stk_budget_allows_probe(&budget));
    stk_budget_take_probe(&budget, 200);
    assert_false(stk_budget_affords(&budget, 1, 0));
    stk_budget_init(&budget, 100);
    for (int i = 0; i < STK_BUDGET_PROBE_STEPS; i++) {
        assert_true(stk_budget_allows_probe(&budget));
        stk_budget_step(&budget);
    }
    assert_false(stk_budget_allows_probe(&budget));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_limit_affords_everything_for_nothing),
        cmocka_unit_test(test_each_step_adds_up_to_four),
        cmocka_unit_test(test_a_full_bucket_lets_a_large_transfer_through_on_credit),
        cmocka_unit_test(test_some_probes_go_beside_the_budget_in_the_first_steps),
        cmocka_unit_test(test_what_is_left_goes_to_the_most_work_for_a_byte),
    };
    return stk_run_tests(tests);
}
