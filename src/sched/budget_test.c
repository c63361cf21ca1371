/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/budget.h"

#include "tests/support/unit.h"

static void test_no_limit_affords_everything_for_nothing(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 0);
    for (int i = 0; i < 3; i++) {
        assert_true(stk_budget_affords(&budget, UINT64_MAX));
        stk_budget_take(&budget, UINT64_MAX);
    }
    assert_int_equal(stk_budget_price_ns(&budget, 1000, 1000), 0);
}

static void test_each_step_adds_up_to_four(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 100);
    assert_true(stk_budget_affords(&budget, 100));
    assert_false(stk_budget_affords(&budget, 101));
    for (int i = 0; i < 10; i++) stk_budget_step(&budget);
    for (int i = 0; i < 4; i++) {
        assert_true(stk_budget_affords(&budget, 100));
        stk_budget_take(&budget, 100);
    }
    assert_false(stk_budget_affords(&budget, 1));
}

static void test_a_full_bucket_lets_a_large_transfer_through_on_credit(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 100);
    assert_false(stk_budget_affords(&budget, 1000));
    for (int i = 0; i < 3; i++) stk_budget_step(&budget);
    assert_true(stk_budget_affords(&budget, 1000));
    stk_budget_take(&budget, 1000); /* 600 below zero */
    for (int i = 0; i < 6; i++) stk_budget_step(&budget);
    assert_false(stk_budget_affords(&budget, 1));
    stk_budget_step(&budget);
    assert_true(stk_budget_affords(&budget, 100));
    stk_budget_init(&budget, UINT64_MAX);
    for (int i = 0; i < 1000; i++) stk_budget_take(&budget, UINT64_MAX);
    for (int i = 0; i < 1000; i++) stk_budget_step(&budget);
    assert_true(stk_budget_affords(&budget, 1));
}

static void test_the_price_rises_as_the_bucket_empties(void **state)
{
    (void)state;
    struct stk_budget budget;
    stk_budget_init(&budget, 1 << 20);
    for (int i = 0; i < 3; i++) stk_budget_step(&budget);
    assert_int_equal(stk_budget_price_ns(&budget, 1 << 20, 1000000), 0);
    uint64_t before = 0;
    for (int i = 0; i < 4; i++) {
        stk_budget_take(&budget, 1 << 20);
        uint64_t price = stk_budget_price_ns(&budget, 1 << 20, 1000000);
        assert_true(price > before);
        before = price;
    }
    assert_in_range(before, 490000, 500000); /* half of a step */
    assert_true(stk_budget_price_ns(&budget, UINT64_MAX, UINT64_MAX) > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_limit_affords_everything_for_nothing),
        cmocka_unit_test(test_each_step_adds_up_to_four),
        cmocka_unit_test(test_a_full_bucket_lets_a_large_transfer_through_on_credit),
        cmocka_unit_test(test_the_price_rises_as_the_bucket_empties),
    };
    return stk_run_tests(tests);
}
