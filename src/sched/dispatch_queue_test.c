/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "sched/dispatch.h"
#include "tests/support/unit.h"

#define MS (STK_SECOND_NS / 1000)

static struct stk_dispatch *dispatch;
static void *block;
static uint64_t next[4]; /* sequence of each lane */

static int set_up(void **state)
{
    (void)state;
    const struct stk_dispatch_limits limits = {.lanes = 4, .batches = 64, .items = 256};
    size_t size = stk_dispatch_bytes(&limits);
    block = aligned_alloc(16, size);
    if (!block) return -1;
    memset(block, 0xa5, size);
    memset(next, 0, sizeof next);
    dispatch = stk_dispatch_init(block, size, &limits);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(block);
    return 0;
}

static void open_lane(uint32_t lane, uint32_t pool)
{
    const struct stk_lane_options options = {.pool = pool};
    assert_int_equal(stk_dispatch_lane_open(dispatch, lane, &options, NULL), STOKER_OK);
}

static uint32_t add(uint32_t lane, uint32_t items, uint64_t deadline_ns, uint64_t item_ns, uint64_t window_ns)
{
    uint32_t batch;
    assert_int_equal(stk_dispatch_batch_add(dispatch, lane, 1, next[lane]++, items, deadline_ns, &batch, NULL),
                     STOKER_OK);
    stk_dispatch_granted(dispatch, batch);
    stk_dispatch_set_cost(dispatch, batch, item_ns, window_ns);
    return batch;
}

static bool pick(uint32_t pool, struct stk_item *item) { return stk_dispatch_pick(dispatch, pool, item); }

static uint32_t lane_of(const struct stk_item *item)
{
    struct stk_batch_state state;
    stk_dispatch_read(dispatch, item->batch, &state);
    return state.lane;
}

static void finish(const struct stk_item *item)
{
    uint32_t batch;
    (void)stk_dispatch_finish(dispatch, item->item_id, STK_OUTCOME_OK, &batch);
}

static void test_d1_loaders_take_turns_by_weight_before_deadlines(void **state)
{
    (void)state;
    struct stk_item item;
    uint32_t count[3] = {0};
    for (uint32_t lane = 0; lane < 3; lane++) open_lane(lane, STK_POOL_NATIVE);
    stk_dispatch_lane_share(dispatch, 0, 70, 1); /* two ranks of one loader, and another loader of thrice the weight */
    stk_dispatch_lane_share(dispatch, 1, 70, 1);
    stk_dispatch_lane_share(dispatch, 2, 71, 3);
    (void)add(0, 40, 5, 10 * MS, 0);
    (void)add(1, 40, 6, 10 * MS, 0);
    (void)add(2, 80, 1000, 10 * MS, 0);
    for (int i = 0; i < 80; i++) {
        assert_true(pick(STK_POOL_NATIVE, &item));
        count[lane_of(&item)]++;
        finish(&item);
    }
    assert_int_equal(count[0], 20); /* the earlier deadline of its loader */
    assert_int_equal(count[1], 0);
    assert_int_equal(count[2], 60);
}

static void test_d1_without_loaders_the_earliest_deadline_is_first(void **state)
{
    (void)state;
    struct stk_item item;
    open_lane(0, STK_POOL_NATIVE);
    open_lane(1, STK_POOL_NATIVE);
    (void)add(0, 10, 500, 0, 0);
    (void)add(1, 10, 400, 0, 0);
    for (int i = 0; i < 10; i++) {
        assert_true(pick(STK_POOL_NATIVE, &item));
        assert_int_equal(lane_of(&item), 1);
    }
}

static void test_d1_ties_go_to_the_largest_remaining_work(void **state)
{
    (void)state;
    struct stk_item item;
    for (uint32_t lane = 0; lane < 3; lane++) open_lane(lane, STK_POOL_NATIVE);
    (void)add(0, 8, 100, 1 * MS, 0);
    (void)add(1, 2, 100, 30 * MS, 0);
    (void)add(2, 4, 100, 10 * MS, 0);
    static const uint32_t expected[] = {1, 2, 1, 2, 2, 2, 0};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_true(pick(STK_POOL_NATIVE, &item));
        uint32_t lane = lane_of(&item);
        finish(&item);
        assert_int_equal(lane, expected[i]);
    }
}

static void test_d1_long_items_leave_a_worker_to_short_ones(void **state)
{
    (void)state;
    struct stk_item items[4], item;
    open_lane(0, STK_POOL_NATIVE);
    open_lane(1, STK_POOL_NATIVE);
    stk_dispatch_lane_share(dispatch, 0, 1, 1);
    stk_dispatch_lane_share(dispatch, 1, 2, 1);
    stk_dispatch_set_workers(dispatch, STK_POOL_NATIVE, 3);
    uint32_t first = add(1, 1, 900, 1 * MS, 100 * MS);
    (void)add(0, 10, 1, 500 * MS, 100 * MS);
    assert_true(pick(STK_POOL_NATIVE, &item)); /* the short one goes, and its lane has no other now */
    while (item.batch != first) {
        finish(&item);
        assert_true(pick(STK_POOL_NATIVE, &item));
    }
    for (int i = 0; i < 2; i++) {
        assert_true(pick(STK_POOL_NATIVE, &items[i]));
        assert_int_equal(lane_of(&items[i]), 0);
    }
    assert_false(pick(STK_POOL_NATIVE, &items[2])); /* the third worker is for what is short */
    (void)add(1, 1, 900, 1 * MS, 100 * MS);
    assert_true(pick(STK_POOL_NATIVE, &items[2]));
    assert_int_equal(lane_of(&items[2]), 1);
    finish(&items[0]);
    assert_true(pick(STK_POOL_NATIVE, &items[0]));
    assert_int_equal(lane_of(&items[0]), 0);
    stk_dispatch_unpick(dispatch, items[0].item_id);
    assert_true(pick(STK_POOL_NATIVE, &items[0])); /* it came back from the count, too */
    assert_false(pick(STK_POOL_NATIVE, &items[3]));
}

static void test_long_items_among_themselves_use_all_workers(void **state)
{
    (void)state;
    struct stk_item item;
    open_lane(0, 1);
    stk_dispatch_set_workers(dispatch, 1, 2);
    (void)add(0, 4, 1, 500 * MS, 100 * MS);
    assert_true(pick(1, &item));
    assert_true(pick(1, &item));
    open_lane(1, STK_POOL_NATIVE); /* a single worker is never kept back */
    open_lane(2, STK_POOL_NATIVE);
    stk_dispatch_set_workers(dispatch, STK_POOL_NATIVE, 1);
    (void)add(1, 4, 1, 500 * MS, 100 * MS);
    assert_true(pick(STK_POOL_NATIVE, &item));
}

static void test_a_restart_gives_back_what_long_items_held(void **state)
{
    (void)state;
    struct stk_item item;
    open_lane(0, STK_POOL_NATIVE);
    open_lane(1, STK_POOL_NATIVE);
    stk_dispatch_set_workers(dispatch, STK_POOL_NATIVE, 2);
    uint32_t batch = add(0, 4, 1, 500 * MS, 100 * MS);
    assert_true(pick(STK_POOL_NATIVE, &item));
    assert_false(pick(STK_POOL_NATIVE, &item));
    stk_dispatch_restart(dispatch, batch);
    assert_true(pick(STK_POOL_NATIVE, &item));
    assert_false(pick(STK_POOL_NATIVE, &item));
}

static void test_flows_are_found_again_and_freed(void **state)
{
    (void)state;
    struct stk_item item;
    for (uint64_t round = 0; round < 100; round++) {
        for (uint32_t lane = 0; lane < 4; lane++) {
            open_lane(lane, STK_POOL_NATIVE);
            stk_dispatch_lane_share(dispatch, lane, round * 10 + lane, lane);
            uint32_t batch = add(lane, 1, 1, 0, 0);
            assert_true(pick(STK_POOL_NATIVE, &item));
            finish(&item);
            stk_dispatch_remove(dispatch, batch);
        }
        for (uint32_t lane = 0; lane < 4; lane++) stk_dispatch_lane_close(dispatch, lane);
        memset(next, 0, sizeof next);
    }
}

#define QUEUE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(test_d1_loaders_take_turns_by_weight_before_deadlines),
        QUEUE_TEST(test_d1_without_loaders_the_earliest_deadline_is_first),
        QUEUE_TEST(test_d1_ties_go_to_the_largest_remaining_work),
        QUEUE_TEST(test_d1_long_items_leave_a_worker_to_short_ones),
        QUEUE_TEST(test_long_items_among_themselves_use_all_workers),
        QUEUE_TEST(test_a_restart_gives_back_what_long_items_held),
        QUEUE_TEST(test_flows_are_found_again_and_freed),
    };
    return stk_run_tests(tests);
}
