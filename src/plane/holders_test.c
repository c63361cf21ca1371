/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/holders.h"

#include <string.h>

#include "tests/support/unit.h"

static struct stk_holders holders;

static void test_a4_counts_each_process_apart(void **state)
{
    (void)state;
    memset(&holders, 0, sizeof holders);
    stk_holders_init(&holders);
    uint32_t chain = STK_HOLDERS_NONE;
    assert_false(stk_holders_any(&holders, chain, 0));
    stk_holders_add(&holders, &chain, 7);
    stk_holders_add(&holders, &chain, 8);
    stk_holders_add(&holders, &chain, 7);
    assert_true(stk_holders_any(&holders, chain, 8));
    assert_true(stk_holders_drop(&holders, &chain, 7, false));
    assert_true(stk_holders_any(&holders, chain, 8));
    assert_true(stk_holders_drop(&holders, &chain, 7, false));
    assert_false(stk_holders_any(&holders, chain, 8));
    assert_false(stk_holders_drop(&holders, &chain, 7, false));
    stk_holders_add(&holders, &chain, 8);
    assert_true(stk_holders_drop(&holders, &chain, 8, true));
    assert_int_equal(chain, STK_HOLDERS_NONE);
}

static void test_slots_are_stable_and_used_again(void **state)
{
    (void)state;
    memset(&holders, 0, sizeof holders);
    stk_holders_init(&holders);
    uint32_t a = stk_holders_slot(&holders, 5), b = stk_holders_slot(&holders, 5 + STK_HOLDER_PROCESSES);
    assert_int_not_equal(a, b);
    assert_int_equal(stk_holders_forget(&holders, 5), a);
    assert_int_equal(stk_holders_slot(&holders, 5 + STK_HOLDER_PROCESSES), b);
    assert_int_equal(stk_holders_forget(&holders, 5), STK_HOLDERS_NONE);
    for (uint32_t i = 0; i < 10 * STK_HOLDER_PROCESSES; i++) {
        assert_true(stk_holders_slot(&holders, 10000 + i) < STK_HOLDER_PROCESSES);
        if (i >= 100) assert_int_not_equal(stk_holders_forget(&holders, 10000 + i - 100), STK_HOLDERS_NONE);
    }
    assert_int_equal(stk_holders_slot(&holders, 5 + STK_HOLDER_PROCESSES), b);
}

static void test_entries_are_used_again(void **state)
{
    (void)state;
    memset(&holders, 0, sizeof holders);
    stk_holders_init(&holders);
    uint32_t chain = STK_HOLDERS_NONE;
    for (uint32_t round = 0; round < 3 * STK_HOLDER_ENTRIES; round++) {
        stk_holders_add(&holders, &chain, round);
        if (round >= 50) assert_true(stk_holders_drop(&holders, &chain, round - 50, false));
    }
    assert_true(holders.entries_touched <= 51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a4_counts_each_process_apart),
        cmocka_unit_test(test_slots_are_stable_and_used_again),
        cmocka_unit_test(test_entries_are_used_again),
    };
    return stk_run_tests(tests);
}
