/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/share.h"

#include "tests/support/unit.h"

static struct stk_share share;
static struct stk_share_flow flows[4];
static struct stk_heap_node nodes[4];

static int set_up(void **state)
{
    (void)state;
    stk_share_init(&share, flows, nodes);
    return 0;
}

/* Gives the flow whose turn it is `work`, and says which it was. */
static uint32_t serve(uint64_t work)
{
    uint32_t flow = stk_share_first(&share);
    stk_share_charge(&share, flow, work);
    return flow;
}

static void test_flows_take_turns_by_weight(void **state)
{
    (void)state;
    uint32_t count[2] = {0};
    stk_share_open(&share, 0, 1);
    stk_share_open(&share, 1, 3);
    stk_share_wake(&share, 0);
    stk_share_wake(&share, 1);
    stk_share_wake(&share, 1); /* said twice */
    for (int i = 0; i < 400; i++) count[serve(10)]++;
    assert_int_equal(count[0], 100);
    assert_int_equal(count[1], 300);
}

static void test_work_counts_not_turns(void **state)
{
    (void)state;
    uint64_t work[2] = {0};
    stk_share_open(&share, 0, 0);
    stk_share_open(&share, 1, 1);
    stk_share_wake(&share, 0);
    stk_share_wake(&share, 1);
    for (int i = 0; i < 1000; i++) {
        uint32_t flow = stk_share_first(&share);
        uint64_t cost = flow == 0 ? 1 : 50;
        stk_share_charge(&share, flow, cost);
        work[flow] += cost;
    }
    assert_in_range(work[0] + 50, work[1], work[1] + 100);
}

static void test_sleep_saves_nothing_up(void **state)
{
    (void)state;
    stk_share_open(&share, 0, 1);
    stk_share_open(&share, 1, 1);
    stk_share_wake(&share, 0);
    for (int i = 0; i < 100; i++) assert_int_equal(serve(10), 0);
    stk_share_wake(&share, 1);
    uint32_t count = 0;
    for (int i = 0; i < 10; i++) count += serve(10);
    assert_in_range(count, 5, 6);
    stk_share_sleep(&share, 0);
    stk_share_sleep(&share, 0);
    for (int i = 0; i < 10; i++) assert_int_equal(serve(10), 1);
    stk_share_sleep(&share, 1);
    assert_int_equal(stk_share_first(&share), STK_SHARE_NONE);
}

static void test_a_late_comer_starts_where_the_others_are(void **state)
{
    (void)state;
    stk_share_open(&share, 3, 1000000); /* counts as the maximum */
    stk_share_wake(&share, 3);
    for (int i = 0; i < 1000; i++) assert_int_equal(serve(UINT64_MAX), 3);
    stk_share_open(&share, 2, 1);
    stk_share_wake(&share, 2);
    uint32_t turn = 0;
    while (serve(1) != 2) assert_true(++turn < 3 * STK_SHARE_WEIGHT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_flows_take_turns_by_weight, set_up),
        cmocka_unit_test_setup(test_work_counts_not_turns, set_up),
        cmocka_unit_test_setup(test_sleep_saves_nothing_up, set_up),
        cmocka_unit_test_setup(test_a_late_comer_starts_where_the_others_are, set_up),
    };
    return stk_run_tests(tests);
}
