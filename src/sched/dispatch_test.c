/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

static struct stk_dispatch *dispatch;
static void *block;

static int set_up(void **state)
{
    (void)state;
    const struct stk_dispatch_limits limits = {.lanes = 4, .batches = 8, .items = 64};
    size_t size = stk_dispatch_bytes(&limits);
    block = aligned_alloc(16, size);
    if (!block) return -1;
    memset(block, 0xa5, size); /* init must not rely on zeroes */
    dispatch = stk_dispatch_init(block, size, &limits);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(block);
    return 0;
}

static void open_lane(uint32_t lane, uint32_t pool, uint32_t policy, uint32_t retries)
{
    const struct stk_lane_options options = {.pool = pool, .policy = policy, .retries = retries};
    assert_int_equal(stk_dispatch_lane_open(dispatch, lane, &options, NULL), STOKER_OK);
}

static uint32_t add(uint32_t lane, uint64_t sequence, uint32_t items, uint64_t deadline)
{
    uint32_t batch = 99;
    assert_int_equal(stk_dispatch_batch_add(dispatch, lane, 1, sequence, items, deadline, &batch, NULL), STOKER_OK);
    return batch;
}

static uint32_t add_granted(uint32_t lane, uint64_t sequence, uint32_t items, uint64_t deadline)
{
    uint32_t batch = add(lane, sequence, items, deadline);
    stk_dispatch_granted(dispatch, batch);
    return batch;
}

static struct stk_item pick(uint32_t pool)
{
    struct stk_item item = {0};
    assert_true(stk_dispatch_pick(dispatch, pool, &item));
    return item;
}

static bool none_to_pick(uint32_t pool)
{
    struct stk_item item;
    return !stk_dispatch_pick(dispatch, pool, &item);
}

static enum stk_batch_verdict finish(struct stk_item item, enum stk_item_outcome outcome)
{
    uint32_t batch = 99;
    enum stk_batch_verdict verdict = stk_dispatch_finish(dispatch, item.item_id, outcome, &batch);
    if (verdict != STK_VERDICT_UNKNOWN) assert_int_equal(batch, item.batch);
    return verdict;
}

static struct stk_batch_state read_state(uint32_t batch)
{
    struct stk_batch_state state;
    stk_dispatch_read(dispatch, batch, &state);
    return state;
}

static void test_a_batch_is_done_when_its_last_item_is(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    uint32_t batch = add(0, 0, 3, 10);
    assert_true(none_to_pick(STK_POOL_NATIVE)); /* no memory yet */
    stk_dispatch_granted(dispatch, batch);
    struct stk_item a = pick(0), b = pick(0), c = pick(0);
    assert_int_equal(a.index, 0);
    assert_int_equal(b.index, 1);
    assert_int_equal(c.index, 2);
    assert_true(none_to_pick(0));
    assert_int_equal(finish(c, STK_OUTCOME_OK), STK_VERDICT_NONE);
    assert_int_equal(finish(c, STK_OUTCOME_OK), STK_VERDICT_UNKNOWN);
    assert_int_equal(finish(a, STK_OUTCOME_OK), STK_VERDICT_NONE);
    assert_int_equal(read_state(batch).items_left, 1);
    assert_int_equal(finish(b, STK_OUTCOME_OK), STK_VERDICT_DONE);
    stk_dispatch_remove(dispatch, batch);
    stk_dispatch_lane_close(dispatch, 0);
}

static void test_d1_earliest_deadline_then_remaining_work_then_age(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    open_lane(1, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    open_lane(2, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    uint32_t late = add_granted(0, 0, 5, 30), small = add_granted(1, 0, 2, 20), large = add_granted(2, 0, 3, 20);
    struct stk_item first = pick(0);
    assert_int_equal(first.batch, large);
    assert_int_equal(finish(first, STK_OUTCOME_OK),
                     STK_VERDICT_NONE); /* now both have two left: the older goes first */
    assert_int_equal(pick(0).batch, small);
    stk_dispatch_set_deadline(dispatch, late, 1);
    assert_int_equal(pick(0).batch, late);
    stk_dispatch_set_deadline(dispatch, late, 30);
    assert_int_equal(pick(0).batch, small);
    assert_int_equal(pick(0).batch, large);
    assert_int_equal(pick(0).batch, large);
    assert_int_equal(pick(0).batch, late);
}

static void test_b5_pools_are_apart(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    open_lane(1, 2, STK_POLICY_RAISE, 0);
    uint32_t python = add_granted(1, 0, 1, 1), native = add_granted(0, 0, 1, 9);
    assert_true(none_to_pick(1));
    assert_int_equal(pick(STK_POOL_NATIVE).batch, native);
    assert_int_equal(pick(2).batch, python);
}

static void test_a1_memory_strictly_in_plan_order(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    open_lane(1, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    uint32_t a0 = add(0, 0, 1, 50), a1 = add(0, 1, 1, 10), b0 = add(1, 0, 1, 40), got = 99;
    uint8_t blocked[1] = {0};
    assert_true(stk_dispatch_next_waiting(dispatch, blocked, &got));
    assert_int_equal(got, b0); /* a1 is earlier, but a0 comes before it in its lane */
    blocked[0] = 1u << 1;
    assert_true(stk_dispatch_next_waiting(dispatch, blocked, &got));
    assert_int_equal(got, a0);
    stk_dispatch_granted(dispatch, a0);
    assert_true(stk_dispatch_next_waiting(dispatch, NULL, &got));
    assert_int_equal(got, a1);
    blocked[0] = 3;
    assert_false(stk_dispatch_next_waiting(dispatch, blocked, &got));
    stk_dispatch_granted(dispatch, a1);
    stk_dispatch_granted(dispatch, b0);
    assert_false(stk_dispatch_next_waiting(dispatch, NULL, &got));
}

static void test_retries_come_first_then_raise_fails_and_names_the_item(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 1);
    uint32_t batch = add_granted(0, 0, 2, 1);
    struct stk_item a = pick(0), b = pick(0);
    assert_int_equal(finish(b, STK_OUTCOME_BAD_DATA), STK_VERDICT_NONE);
    b = pick(0);
    assert_int_equal(b.index, 1);
    assert_int_equal(b.attempt, 1);
    assert_int_equal(finish(b, STK_OUTCOME_BAD_DATA), STK_VERDICT_NONE); /* failed, but a is still running */
    assert_true(read_state(batch).failed);
    assert_int_equal(read_state(batch).failed_index, 1);
    assert_int_equal(read_state(batch).retried, 1);
    assert_true(none_to_pick(0));
    assert_int_equal(finish(a, STK_OUTCOME_OK), STK_VERDICT_FAILED);
    stk_dispatch_remove(dispatch, batch);
}

static void test_c1_skip_copies_the_good_one_before_else_after(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_SKIP, 0);
    uint32_t batch = add_granted(0, 0, 6, 1);
    static const bool good[6] = {false, false, true, false, true, false};
    static const uint32_t from[6] = {2, 2, 0, 2, 0, 4};
    for (int i = 0; i < 6; i++) {
        struct stk_item item = pick(0);
        assert_int_equal(finish(item, good[item.index] ? STK_OUTCOME_OK : STK_OUTCOME_BAD_DATA), STK_VERDICT_NONE);
    }
    assert_int_equal(read_state(batch).skipped, 4);
    assert_int_equal(read_state(batch).items_left, 4);
    for (int i = 0; i < 4; i++) {
        struct stk_item item = pick(0);
        assert_int_equal(item.kind, STK_ITEM_COPY);
        assert_false(good[item.index]);
        assert_int_equal(item.from_index, from[item.index]);
        assert_int_equal(finish(item, STK_OUTCOME_OK), i == 3 ? STK_VERDICT_DONE : STK_VERDICT_NONE);
    }
}

static void test_c1_skip_with_no_good_sample_fails(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_SKIP, 0);
    uint32_t batch = add_granted(0, 0, 2, 1);
    struct stk_item a = pick(0), b = pick(0);
    assert_int_equal(finish(b, STK_OUTCOME_BAD_DATA), STK_VERDICT_NONE);
    assert_int_equal(finish(a, STK_OUTCOME_BAD_DATA), STK_VERDICT_FAILED);
    assert_int_equal(read_state(batch).failed_index, 0);
}

static void test_replace_tries_eight_substitutes(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_REPLACE, 1);
    uint32_t batch = add_granted(0, 0, 1, 1);
    static const uint32_t substitutes[] = {0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    for (int i = 0; i < 10; i++) {
        struct stk_item item = pick(0);
        assert_int_equal(item.substitute, substitutes[i]);
        assert_int_equal(finish(item, STK_OUTCOME_BAD_DATA), i == 9 ? STK_VERDICT_FAILED : STK_VERDICT_NONE);
    }
    assert_int_equal(read_state(batch).skipped, 1);
    stk_dispatch_remove(dispatch, batch);
    batch = add_granted(0, 1, 1, 1);
    assert_int_equal(finish(pick(0), STK_OUTCOME_BAD_DATA), STK_VERDICT_NONE);
    assert_int_equal(finish(pick(0), STK_OUTCOME_BAD_DATA), STK_VERDICT_NONE);
    assert_int_equal(finish(pick(0), STK_OUTCOME_OK), STK_VERDICT_DONE);
}

static void test_c1_second_loss_of_an_item_fails_the_batch(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_SKIP, 5);
    uint32_t batch = add_granted(0, 0, 2, 1);
    struct stk_item a = pick(0), b = pick(0);
    assert_int_equal(finish(b, STK_OUTCOME_OK), STK_VERDICT_NONE);
    assert_int_equal(finish(a, STK_OUTCOME_LOST), STK_VERDICT_NONE);
    struct stk_item again = pick(0);
    assert_int_equal(again.index, 0);
    assert_int_not_equal(again.item_id, a.item_id);
    assert_int_equal(finish(a, STK_OUTCOME_OK), STK_VERDICT_UNKNOWN); /* rule C3: the late answer is dropped */
    assert_int_equal(finish(again, STK_OUTCOME_LOST), STK_VERDICT_FAILED);
    assert_int_equal(read_state(batch).failed_index, 0);
    assert_int_equal(read_state(batch).retried, 1);
}

static void test_fatal_fails_whatever_the_policy(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_SKIP, 5);
    (void)add_granted(0, 0, 2, 1);
    assert_int_equal(finish(pick(0), STK_OUTCOME_FATAL), STK_VERDICT_FAILED);
    assert_true(none_to_pick(0));
}

static void test_a4_cancel_waits_for_running_items(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    uint32_t running = add_granted(0, 0, 2, 1), idle = add_granted(0, 1, 2, 2), waiting = add(0, 2, 2, 3), ended[8];
    struct stk_item item = pick(0);
    assert_int_equal(stk_dispatch_cancel(dispatch, 0, ended, 8), 2);
    assert_int_equal(ended[0], idle);
    assert_int_equal(ended[1], waiting);
    assert_true(none_to_pick(0));
    uint32_t got, fresh;
    assert_false(stk_dispatch_next_waiting(dispatch, NULL, &got));
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 2, 0, 1, 5, &fresh, NULL), STOKER_OK); /* the new iteration */
    assert_true(stk_dispatch_next_waiting(dispatch, NULL, &got));
    assert_int_equal(got, fresh);
    assert_int_equal(stk_dispatch_cancel(dispatch, 0, ended, 8), 1); /* once each */
    assert_int_equal(ended[0], fresh);
    assert_int_equal(finish(item, STK_OUTCOME_OK), STK_VERDICT_CANCELED);
    uint32_t cursor = UINT32_MAX, seen = 0, batch;
    while (stk_dispatch_walk(dispatch, 0, &cursor, &batch)) {
        stk_dispatch_remove(dispatch, batch);
        seen++;
    }
    assert_int_equal(seen, 4);
    (void)running;
    stk_dispatch_lane_close(dispatch, 0);
}

static void test_sequences_go_on_after_removals(void **state)
{
    (void)state;
    uint32_t got;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    (void)add_granted(0, 0, 1, 1);
    struct stk_item first = pick(0);
    uint32_t second = add_granted(0, 1, 1, 2);
    assert_int_equal(finish(pick(0), STK_OUTCOME_OK), STK_VERDICT_DONE);
    stk_dispatch_remove(dispatch, second);
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 1, 1, 1, 3, &got, NULL), STOKER_ERR_INVALID_ARGUMENT);
    (void)add(0, 2, 1, 3);
    assert_int_equal(finish(first, STK_OUTCOME_OK), STK_VERDICT_DONE);
}

static void test_cancel_leaves_delivered_batches_alone(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    uint32_t ended[8], batch = add_granted(0, 0, 1, 1);
    assert_int_equal(finish(pick(0), STK_OUTCOME_OK), STK_VERDICT_DONE);
    assert_int_equal(stk_dispatch_cancel(dispatch, 0, ended, 8), 0);
    assert_false(read_state(batch).canceled);
}

static void test_task_that_was_never_read_counts_as_no_try(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    (void)add_granted(0, 0, 1, 1);
    for (int i = 0; i < 5; i++) {
        struct stk_item item = pick(0);
        assert_int_equal(item.attempt, 0);
        assert_int_equal(finish(item, STK_OUTCOME_UNSTARTED), STK_VERDICT_NONE);
    }
    struct stk_item item = pick(0);
    assert_int_equal(finish(item, STK_OUTCOME_OK), STK_VERDICT_DONE);
    struct stk_batch_state batch;
    stk_dispatch_read(dispatch, item.batch, &batch);
    assert_int_equal(batch.retried, 0);
}

static void test_unpick_undoes_a_pick(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    (void)add_granted(0, 0, 2, 1);
    struct stk_item item = pick(0);
    stk_dispatch_unpick(dispatch, item.item_id);
    struct stk_item same = pick(0);
    assert_int_equal(same.index, item.index);
    assert_int_equal(same.attempt, 0);
    assert_int_equal(finish(item, STK_OUTCOME_OK), STK_VERDICT_UNKNOWN);
}

static void test_a4_restart_forgets_running_items_and_copies(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_SKIP, 0);
    uint32_t batch = add_granted(0, 0, 3, 1);
    struct stk_item a = pick(0), b = pick(0), c = pick(0);
    assert_int_equal(finish(a, STK_OUTCOME_OK), STK_VERDICT_NONE);
    assert_int_equal(finish(b, STK_OUTCOME_LOST), STK_VERDICT_NONE);
    stk_dispatch_restart(dispatch, batch);
    assert_int_equal(read_state(batch).retried, 2);
    assert_int_equal(read_state(batch).items_left, 3);
    assert_int_equal(finish(c, STK_OUTCOME_OK), STK_VERDICT_UNKNOWN);
    a = pick(0);
    b = pick(0);
    assert_int_equal(finish(a, STK_OUTCOME_OK), STK_VERDICT_NONE);
    assert_int_equal(finish(b, STK_OUTCOME_LOST), STK_VERDICT_FAILED); /* its second loss */
}

static void test_fail_from_outside(void **state)
{
    (void)state;
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    uint32_t waiting = add(0, 0, 1, 1), next = add(0, 1, 1, 2), got;
    assert_int_equal(stk_dispatch_fail(dispatch, waiting), STK_VERDICT_FAILED);
    assert_int_equal(read_state(waiting).failed_index, UINT32_MAX);
    assert_true(stk_dispatch_next_waiting(dispatch, NULL, &got));
    assert_int_equal(got, next);
    stk_dispatch_granted(dispatch, next);
    struct stk_item item = pick(0);
    assert_int_equal(stk_dispatch_fail(dispatch, next), STK_VERDICT_NONE);
    assert_int_equal(stk_dispatch_fail(dispatch, next), STK_VERDICT_NONE);
    assert_int_equal(finish(item, STK_OUTCOME_OK), STK_VERDICT_FAILED);
}

static void test_full_tables_and_odd_requests_are_refused(void **state)
{
    (void)state;
    stoker_error err = {0};
    uint32_t batch;
    const struct stk_lane_options options = {0};
    assert_int_equal(stk_dispatch_lane_open(dispatch, 4, &options, &err), STOKER_ERR_LIMIT);
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 0);
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 1, 0, 0, 0, &batch, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 1, 0, 65, 0, &batch, &err), STOKER_ERR_LIMIT);
    (void)add(0, 0, 60, 0);
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 1, 2, 1, 0, &batch, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 1, 1, 5, 0, &batch, &err), STOKER_ERR_LIMIT);
    for (uint64_t i = 1; i < 5; i++) (void)add(0, i, 1, 0);
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 1, 5, 1, 0, &batch, &err), STOKER_ERR_LIMIT);
    uint32_t ended[8];
    assert_int_equal(stk_dispatch_cancel(dispatch, 0, ended, 8), 5);
    for (int i = 0; i < 5; i++) stk_dispatch_remove(dispatch, ended[i]);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 2, i, 8, 0, &batch, &err), STOKER_OK);
    assert_int_equal(stk_dispatch_batch_add(dispatch, 0, 2, 8, 1, 0, &batch, &err), STOKER_ERR_LIMIT);
}

#define DISPATCH_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void test_d1_items_in_the_order_that_was_set(void **state)
{
    (void)state;
    uint32_t scratch[5];
    open_lane(0, STK_POOL_NATIVE, STK_POLICY_RAISE, 1);
    uint32_t first = add_granted(0, 0, 3, 10), batch = add(0, 1, 5, 10);
    for (int i = 0; i < 3; i++) (void)finish(pick(0), STK_OUTCOME_OK);
    stk_dispatch_remove(dispatch, first);
    /* The next batch takes the slots of the first and new ones: a patchwork. */
    uint32_t third = add(0, 2, 5, 11);
    stk_dispatch_set_order(dispatch, batch, (const uint32_t[]){3, 0, 4, 1, 2}, scratch);
    stk_dispatch_set_order(dispatch, third, (const uint32_t[]){4, 3, 2, 1, 0}, scratch);
    stk_dispatch_granted(dispatch, batch);
    stk_dispatch_granted(dispatch, third);
    static const uint32_t expected[5] = {3, 0, 4, 1, 2};
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(pick(0).index, expected[i]);
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(pick(0).index, 4 - i);
    assert_true(none_to_pick(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DISPATCH_TEST(test_a_batch_is_done_when_its_last_item_is),
        DISPATCH_TEST(test_d1_earliest_deadline_then_remaining_work_then_age),
        DISPATCH_TEST(test_b5_pools_are_apart),
        DISPATCH_TEST(test_d1_items_in_the_order_that_was_set),
        DISPATCH_TEST(test_a1_memory_strictly_in_plan_order),
        DISPATCH_TEST(test_retries_come_first_then_raise_fails_and_names_the_item),
        DISPATCH_TEST(test_c1_skip_copies_the_good_one_before_else_after),
        DISPATCH_TEST(test_c1_skip_with_no_good_sample_fails),
        DISPATCH_TEST(test_replace_tries_eight_substitutes),
        DISPATCH_TEST(test_c1_second_loss_of_an_item_fails_the_batch),
        DISPATCH_TEST(test_fatal_fails_whatever_the_policy),
        DISPATCH_TEST(test_a4_cancel_waits_for_running_items),
        DISPATCH_TEST(test_sequences_go_on_after_removals),
        DISPATCH_TEST(test_cancel_leaves_delivered_batches_alone),
        DISPATCH_TEST(test_task_that_was_never_read_counts_as_no_try),
        DISPATCH_TEST(test_unpick_undoes_a_pick),
        DISPATCH_TEST(test_a4_restart_forgets_running_items_and_copies),
        DISPATCH_TEST(test_fail_from_outside),
        DISPATCH_TEST(test_full_tables_and_odd_requests_are_refused),
    };
    return stk_run_tests(tests);
}
