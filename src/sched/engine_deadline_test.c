/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/engine_fixture.h"

static struct fixture f;

static int set_up(void **state)
{
    (void)state;
    const struct stk_engine_options options = {.copy_percent = UINT32_MAX};
    fixture_make(&f, &options);
    fixture_join(&f, 0, 4);
    fixture_join(&f, 2, 4);
    fixture_lane(&f, 0);
    fixture_lane(&f, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_free(&f);
    return 0;
}

static void took(uint32_t lane, uint64_t sequence, uint64_t window_ms)
{
    fixture_send(&f, (struct stk_event){
                         .type = STK_EVENT_STEP, .lane = lane, .sequence = sequence, .window_ns = window_ms * MS});
}

/* Steps at a steady pace of 100 ms, both lanes, with two batches ahead. Returns the next sequence. */
static uint64_t settle(void)
{
    uint64_t sequence = 0;
    for (; sequence < 20; sequence++) {
        fixture_at(&f, sequence * 100);
        for (uint32_t lane = 0; lane < 2; lane++) {
            took(lane, sequence, sequence ? 100 : 0);
            fixture_request(&f, lane, sequence + 1, 1);
            fixture_result(&f, lane, sequence, lane * 2, 1);
        }
    }
    return sequence;
}

static void test_d1_a_line_that_proves_right_stays(void **state)
{
    (void)state;
    uint64_t next = settle();
    fixture_request(&f, 0, next + 1, 1);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->deadline_ns, (next + 1) * 100 * MS);
    for (uint32_t lane = 0; lane < 2; lane++) fixture_result(&f, lane, next, 2 * lane, 1);
    fixture_at(&f, next * 100 + 5); /* 5 ms late: within a sixteenth */
    took(0, next, 105);
    assert_int_equal(f.count, 0);
    took(1, next, 105);
    assert_int_equal(f.count, 0);
    fixture_at(&f, (next + 1) * 100 + 50);
    took(0, next + 1, 145); /* off by a half: a new line for both */
    fixture_request(&f, 1, next + 2, 1);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->deadline_ns, ((next + 1) * 100 + 150) * MS);
}

/* However many ranks tell of the same step, deadlines move once. */
static void test_d1_ranks_of_one_step_move_the_line_once(void **state)
{
    (void)state;
    uint64_t next = settle();
    fixture_request(&f, 0, next + 1, 1);
    fixture_request(&f, 1, next + 1, 1);
    for (uint32_t lane = 0; lane < 2; lane++) fixture_result(&f, lane, next, 2 * lane, 1);
    fixture_at(&f, next * 100 + 40);
    took(1, next, 140);
    size_t moved = f.count;
    assert_true(moved >= 2);
    took(0, next, 140);
    assert_int_equal(f.count, 0);
}

static void test_d1_a_rank_that_is_behind_wants_everything_now(void **state)
{
    (void)state;
    uint64_t next = settle();
    took(0, next + 3, 100);
    fixture_request(&f, 1, next + 1, 1);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->deadline_ns, f.now_ns);
}

static void test_d1_held_tasks_follow_the_line(void **state)
{
    (void)state;
    (void)settle();
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = 0});
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = 2});
    fixture_request(&f, 0, 30, 1);
    fixture_request(&f, 1, 29, 1);
    assert_int_equal(f.count, 0);
    took(0, 22, 100);
    fixture_join(&f, 0, 4);
    /* Batch 20 of both was lost with the servers; what is wanted first is placed first. */
    assert_true(f.count >= 2);
    uint64_t before = 0;
    for (size_t i = 0; i < f.count; i++) {
        assert_int_equal(f.actions[i].type, STK_ACTION_PLACE);
        assert_true(f.actions[i].deadline_ns >= before);
        before = f.actions[i].deadline_ns;
    }
    assert_int_equal(before, f.now_ns + 800 * MS);
}

#define DEADLINE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DEADLINE_TEST(test_d1_a_line_that_proves_right_stays),
        DEADLINE_TEST(test_d1_ranks_of_one_step_move_the_line_once),
        DEADLINE_TEST(test_d1_a_rank_that_is_behind_wants_everything_now),
        DEADLINE_TEST(test_d1_held_tasks_follow_the_line),
    };
    return stk_run_tests(tests);
}
