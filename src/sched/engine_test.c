/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/engine.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

#define MS (STK_SECOND_NS / 1000)

static struct stk_engine *engine;
static void *block;
static struct stk_action actions[256];
static size_t action_count;

static int make(const struct stk_engine_options *options)
{
    const struct stk_engine_limits limits = {.servers = 4, .lanes = 4, .tasks = 16};
    size_t size = stk_engine_bytes(&limits);
    block = aligned_alloc(16, size);
    if (!block) return -1;
    memset(block, 0xa5, size);
    engine = stk_engine_init(block, size, &limits, options);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return make(NULL);
}

static int set_up_least_request(void **state)
{
    (void)state;
    const struct stk_engine_options options = {.place = {.policy = STK_POLICY_LEAST_REQUEST}};
    return make(&options);
}

static int tear_down(void **state)
{
    (void)state;
    free(block);
    return 0;
}

static void step(uint64_t now, struct stk_event event)
{
    size_t applied;
    assert_int_equal(stk_engine_step(engine, now, &event, 1, actions, 256, &action_count, &applied, NULL), STOKER_OK);
    assert_int_equal(applied, 1);
}

static void join(uint32_t server, uint32_t workers)
{
    step(0, (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = server, .workers = workers});
}

static void begin_lane(uint64_t now, uint32_t lane, uint32_t server, uint32_t group)
{
    step(now, (struct stk_event){.type = STK_EVENT_LANE_OPEN, .lane = lane, .server = server, .group = group});
    step(now, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = lane});
}

static struct stk_action request(uint64_t now, uint32_t lane, uint64_t sequence, uint32_t items)
{
    step(now, (struct stk_event){.type = STK_EVENT_REQUEST, .lane = lane, .sequence = sequence, .items = items});
    assert_int_equal(action_count, 1);
    assert_int_equal(actions[0].type, STK_ACTION_PLACE);
    assert_int_equal(actions[0].lane, lane);
    assert_int_equal(actions[0].sequence, sequence);
    return actions[0];
}

static void result(uint64_t now, uint32_t lane, uint64_t sequence)
{
    step(now, (struct stk_event){.type = STK_EVENT_RESULT, .lane = lane, .sequence = sequence});
}

static void took(uint64_t now, uint32_t lane, uint64_t sequence, uint64_t window)
{
    step(now, (struct stk_event){.type = STK_EVENT_STEP, .lane = lane, .sequence = sequence, .window_ns = window});
}

static void test_the_least_loaded_server_gets_the_batch(void **state)
{
    (void)state;
    join(0, 2);
    begin_lane(0, 0, 0, 1);
    assert_int_equal(request(0, 0, 0, 8).reason, STK_REASON_ONLY);
    join(1, 4);
    struct stk_action action = request(0, 0, 1, 8);
    assert_int_equal(action.server, 1);
    assert_int_equal(action.reason, STK_REASON_LEAST_LOADED);
    assert_int_equal(request(0, 0, 2, 8).server, 1); /* 16 on 4 workers against 16 on 2 */
    action = request(0, 0, 3, 16);                   /* 24 on 2 against 32 on 4 */
    assert_int_equal(action.server, 1);
    action = request(0, 0, 4, 8); /* 16 on 2 against 40 on 4 */
    assert_int_equal(action.server, 0);
    result(0, 0, 0);
    result(0, 0, 4);
    assert_int_equal(request(0, 0, 5, 4).server, 0);
}

static void test_ties_go_to_the_local_server_then_to_the_lowest(void **state)
{
    (void)state;
    join(0, 2);
    join(1, 2);
    join(2, 0); /* a delivery end point makes nothing */
    begin_lane(0, 0, 1, 1);
    begin_lane(0, 1, 2, 2);
    struct stk_action action = request(0, 0, 0, 4);
    assert_int_equal(action.server, 1);
    assert_int_equal(action.reason, STK_REASON_TIE_LOCAL);
    result(0, 0, 0);
    assert_int_equal(request(0, 1, 0, 4).server, 0);
}

static void test_tasks_of_a_leaving_server_are_placed_again(void **state)
{
    (void)state;
    join(0, 1);
    begin_lane(0, 0, 0, 1);
    (void)request(0, 0, 0, 1);
    (void)request(0, 0, 1, 1);
    step(1, (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = 0});
    assert_int_equal(action_count, 0); /* nowhere to go yet */
    step(2, (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = 3, .workers = 1});
    assert_int_equal(action_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(actions[i].type, STK_ACTION_PLACE);
        assert_int_equal(actions[i].sequence, i);
        assert_int_equal(actions[i].server, 3);
    }
    result(2, 0, 0);
    result(2, 0, 0); /* a second answer changes nothing */
    step(2, (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = 3});
    step(2, (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = 3, .workers = 1});
    assert_int_equal(action_count, 1);
}

static void test_d1_deadlines_follow_the_window_and_never_fall_with_step(void **state)
{
    (void)state;
    join(0, 1);
    begin_lane(0, 0, 0, 1);
    assert_int_equal(request(0, 0, 0, 1).deadline_ns, 0);
    assert_int_equal(request(0, 0, 1, 1).deadline_ns, 100 * MS); /* the default window */
    assert_int_equal(request(0, 0, 2, 1).deadline_ns, 200 * MS);
    took(10 * MS, 0, 0, 0);
    assert_int_equal(action_count, 2);
    assert_int_equal(actions[0].type, STK_ACTION_DEADLINE);
    assert_int_equal(actions[0].deadline_ns, 110 * MS);
    assert_int_equal(actions[1].deadline_ns, 210 * MS);
    took(40 * MS, 0, 1, 30 * MS);
    assert_int_equal(stk_engine_window_ns(engine, 0), 30 * MS);
    assert_int_equal(actions[1].sequence, 2);
    assert_int_equal(actions[1].deadline_ns, 70 * MS);
    assert_int_equal(actions[0].sequence, 1); /* taken, but its result is not known here: as late as can be */
    assert_int_equal(actions[0].deadline_ns, 40 * MS);
    assert_int_equal(request(200 * MS, 0, 3, 1).deadline_ns, 200 * MS); /* past deadlines are now */
}

static void test_d1_ranks_of_a_group_share_one_deadline_a_step(void **state)
{
    (void)state;
    join(0, 1);
    begin_lane(0, 0, 0, 7);
    begin_lane(5 * MS, 1, 0, 7);
    begin_lane(5 * MS, 2, 0, 8);
    result(5 * MS, 0, 0);
    took(10 * MS, 0, 0, 0);
    took(12 * MS, 1, 0, 0);
    uint64_t deadline = request(13 * MS, 0, 3, 1).deadline_ns;
    assert_int_equal(deadline, 310 * MS);
    assert_int_equal(request(14 * MS, 1, 3, 1).deadline_ns, deadline);
    assert_int_equal(request(14 * MS, 2, 3, 1).deadline_ns, 305 * MS); /* another group, at its own pace */
    took(20 * MS, 2, 2, 0);
    assert_int_equal(action_count, 1);
    assert_int_equal(actions[0].lane, 2);
}

static void test_d1_during_a_pause_deadlines_are_now_plus_one_window(void **state)
{
    (void)state;
    join(0, 1);
    begin_lane(0, 0, 0, 1);
    took(0, 0, 0, 0);
    took(100 * MS, 0, 1, 100 * MS);
    (void)request(100 * MS, 0, 2, 1);
    (void)request(100 * MS, 0, 3, 1);
    result(700 * MS, 0, 77);
    assert_int_equal(action_count, 0); /* the batch wanted next is not made yet: no pause */
    result(700 * MS, 0, 2);
    assert_int_equal(action_count, 1);
    assert_int_equal(actions[0].sequence, 3);
    assert_int_equal(actions[0].deadline_ns, 800 * MS);
    result(740 * MS, 0, 77);
    assert_int_equal(action_count, 0); /* moved on by half windows only */
    result(760 * MS, 0, 77);
    assert_int_equal(actions[0].deadline_ns, 860 * MS);
    took(5000 * MS, 0, 2, 4900 * MS); /* not learned */
    assert_int_equal(stk_engine_window_ns(engine, 0), 100 * MS);
    assert_int_equal(actions[0].deadline_ns, 5100 * MS);
}

static void test_d1_a_new_pace_is_learned_at_last(void **state)
{
    (void)state;
    join(0, 1);
    begin_lane(0, 0, 0, 1);
    uint64_t now = 0, sequence = 0;
    for (int i = 0; i < 10; i++) took(now += MS, 0, sequence++, MS);
    for (int i = 0; i < 4; i++) took(now += 500 * MS, 0, sequence++, 500 * MS);
    assert_int_equal(stk_engine_window_ns(engine, 0), MS);
    took(now += 500 * MS, 0, sequence++, 500 * MS);
    assert_int_equal(stk_engine_window_ns(engine, 0), 500 * MS);
}

static void test_a_new_iteration_forgets_tasks_and_restarts_at_zero(void **state)
{
    (void)state;
    join(0, 1);
    begin_lane(0, 0, 0, 1);
    (void)request(0, 0, 0, 1);
    (void)request(0, 0, 1, 1);
    took(50 * MS, 0, 0, 0);
    step(60 * MS, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = 0});
    assert_int_equal(action_count, 0);
    assert_int_equal(request(60 * MS, 0, 0, 1).deadline_ns, 60 * MS);
    assert_int_equal(request(60 * MS, 0, 1, 1).deadline_ns, 160 * MS);
    result(60 * MS, 0, 0);
}

static void test_full_tables_refuse_by_limit(void **state)
{
    (void)state;
    stoker_error err = {0};
    size_t applied = 9;
    join(0, 1);
    begin_lane(0, 0, 0, 1);
    struct stk_event events[20];
    for (uint32_t i = 0; i < 20; i++)
        events[i] = (struct stk_event){.type = STK_EVENT_REQUEST, .lane = 0, .sequence = i, .items = 1};
    assert_int_equal(stk_engine_step(engine, 0, events, 20, actions, 256, &action_count, &applied, &err),
                     STOKER_ERR_LIMIT);
    assert_int_equal(applied, 16);
    assert_int_equal(action_count, 16);
    assert_non_null(strstr(err.message, "16"));
    struct stk_event event = {.type = STK_EVENT_LANE_OPEN, .lane = 4};
    assert_int_equal(stk_engine_step(engine, 0, &event, 1, actions, 256, &action_count, &applied, &err),
                     STOKER_ERR_LIMIT);
    event = (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = 4};
    assert_int_equal(stk_engine_step(engine, 0, &event, 1, actions, 256, &action_count, &applied, &err),
                     STOKER_ERR_LIMIT);
    event = (struct stk_event){.type = STK_EVENT_REQUEST, .lane = 3};
    assert_int_equal(stk_engine_step(engine, 0, &event, 1, actions, 256, &action_count, &applied, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    step(0, (struct stk_event){.type = STK_EVENT_STEP, .lane = 3}); /* late news */
    step(0, (struct stk_event){.type = STK_EVENT_LANE_CLOSE, .lane = 0});
    begin_lane(0, 0, 0, 1);
    assert_int_equal(stk_engine_step(engine, 0, events, 16, actions, 256, &action_count, &applied, &err), STOKER_OK);
}

#define ENGINE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define LEAST_REQUEST_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_least_request, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LEAST_REQUEST_TEST(test_the_least_loaded_server_gets_the_batch),
        LEAST_REQUEST_TEST(test_ties_go_to_the_local_server_then_to_the_lowest),
        ENGINE_TEST(test_tasks_of_a_leaving_server_are_placed_again),
        ENGINE_TEST(test_d1_deadlines_follow_the_window_and_never_fall_with_step),
        ENGINE_TEST(test_d1_ranks_of_a_group_share_one_deadline_a_step),
        ENGINE_TEST(test_d1_during_a_pause_deadlines_are_now_plus_one_window),
        ENGINE_TEST(test_d1_a_new_pace_is_learned_at_last),
        ENGINE_TEST(test_a_new_iteration_forgets_tasks_and_restarts_at_zero),
        ENGINE_TEST(test_full_tables_refuse_by_limit),
    };
    return stk_run_tests(tests);
}
