/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/engine_fixture.h"

static struct fixture f;

static int tear_down(void **state)
{
    (void)state;
    fixture_free(&f);
    return 0;
}

static void join_all(uint32_t workers)
{
    for (uint32_t i = 0; i < FIXTURE_SERVERS; i++) fixture_join(&f, i, workers);
    fixture_prove(&f, 0, FIXTURE_SERVERS);
}

static void test_local_servers_are_used_up_before_remote_ones(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    join_all(1);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 2; i++) {
        fixture_request(&f, 0, i, 200); /* late from the start */
        assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, i);
        assert_int_equal(f.actions[0].net_ns, 0);
    }
    fixture_request(&f, 0, 2, 200);
    const struct stk_action *action = fixture_only(&f, STK_ACTION_PLACE);
    assert_int_equal(action->server, 2);
    assert_int_equal(action->reason, STK_REASON_REMOTE_ON_TIME - (action->late_ns > 0) + 2 * (action->late_ns > 0));
    assert_int_equal(action->local_ns, 400 * MS);
    assert_true(action->net_ns > 0);
    assert_true(action->candidates > 2);
    assert_int_equal(fixture_stats(&f).remote, 1);
    assert_int_equal(fixture_stats(&f).cross_bytes, 1000);
}

static void test_candidates_never_leave_the_pools_of_a_lane(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    for (uint32_t i = 2; i < FIXTURE_SERVERS; i++)
        fixture_send(&f, (struct stk_event){
                             .type = STK_EVENT_SERVER_JOIN, .server = i, .host = i / 2, .pool = i % 3, .workers = 1});
    fixture_prove(&f, 0, FIXTURE_SERVERS);
    fixture_send(
        &f, (struct stk_event){.type = STK_EVENT_LANE_OPEN, .lane = 0, .pools = UINT64_C(1) << 2 | UINT64_C(1) << 40});
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = 0});
    for (uint64_t i = 0; i < 12; i++) {
        fixture_request(&f, 0, i, 500);
        uint32_t server = fixture_only(&f, STK_ACTION_PLACE)->server;
        assert_true(server == 0 || server % 3 == 2);
    }
    assert_true(fixture_server(&f, 2).tasks > 0 && fixture_server(&f, 5).tasks > 0);
}

/* The heads of the heaps always hold the best server, so none is better in a full scan. */
static void test_the_least_busy_server_is_found(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    join_all(1);
    fixture_lane(&f, 0);
    /* The rank is far ahead, so that everything is late. */
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_STEP, .lane = 0, .sequence = 1000});
    for (uint64_t i = 0; i < FIXTURE_SERVERS; i++) { /* all answer once: from then on they may queue */
        fixture_request(&f, 0, i, 1000);
        assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, i);
    }
    for (uint64_t i = 0; i < FIXTURE_SERVERS; i++) fixture_result(&f, 0, i, (uint32_t)i, 1000);
    for (uint64_t i = 8; i < 24; i++) {
        uint64_t least = UINT64_MAX;
        for (uint32_t s = 0; s < FIXTURE_SERVERS; s++)
            if (fixture_server(&f, s).backlog_ns < least) least = fixture_server(&f, s).backlog_ns;
        fixture_request(&f, 0, i, 100 + i * 37 % 50);
        assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->queue_ns, least);
    }
}

static void test_a_new_server_proves_itself_by_second_copies(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    fixture_join(&f, 2, 4);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 0, 1000);
    fixture_request(&f, 0, 1, 1000);
    /* It waits behind the first one at home; the new server may show that it is faster. */
    assert_int_equal(f.count, 2);
    assert_int_equal(f.actions[0].server, 0);
    assert_int_equal(f.actions[1].server, 2);
    assert_int_equal(f.actions[1].reason, STK_REASON_PROBE);
    fixture_request(&f, 0, 2, 1000);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 0); /* one probe at a time */
    fixture_at(&f, 1000);
    fixture_result(&f, 0, 1, 2, 1000);
    assert_int_equal(fixture_stats(&f).copies_won, 1);
    fixture_request(&f, 0, 3, 1000);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 2);
    assert_int_not_equal(f.actions[0].reason, STK_REASON_PROBE);
    assert_int_equal(fixture_stats(&f).probes, 1);
}

static void test_a_new_server_that_does_not_answer_harms_nobody(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    fixture_join(&f, 2, 4);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 8; i++) fixture_request(&f, 0, i, 1000);
    for (uint64_t i = 0; i < 8; i++) {
        fixture_at(&f, 1000 * (i + 1));
        fixture_result(&f, 0, i, 0, 1000);
        fixture_request(&f, 0, i + 8, 1000);
        for (size_t k = 0; k < f.count; k++)
            assert_true(f.actions[k].server == 0 || f.actions[k].type == STK_ACTION_CANCEL ||
                        f.actions[k].reason == STK_REASON_PROBE);
    }
}

static void test_a_server_that_was_slow_is_probed_again(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    fixture_join(&f, 2, 1);
    fixture_prove(&f, 0, 1);
    fixture_prove(&f, 2, 3);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 0, 1000);
    fixture_request(&f, 0, 1, 1000);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 2);
    fixture_at(&f, 9000);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_RESULT,
                                        .lane = 0,
                                        .sequence = 1,
                                        .server = 2,
                                        .cpu_ns = 1000 * MS,
                                        .wall_ns = 9000 * MS});
    fixture_result(&f, 0, 0, 0, 1000);
    assert_true(fixture_server(&f, 2).stretch_permille > 2000);
    for (int i = 0; i < 200; i++)
        fixture_send(&f, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 2, .workers = 1});
    assert_int_equal(fixture_server(&f, 2).stretch_permille, 1000);
    fixture_request(&f, 0, 2, 1000);
    fixture_request(&f, 0, 3, 1000);
    assert_int_equal(f.count, 2);
    assert_int_equal(f.actions[1].reason, STK_REASON_PROBE);
}

static void test_a_new_server_is_better_than_holding(void **state)
{
    (void)state;
    const struct stk_engine_options options = {.hold = 1};
    fixture_make(&f, &options);
    fixture_join(&f, 0, 1);
    fixture_join(&f, 2, 1);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 0, 1000);
    assert_int_equal(f.actions[0].server, 0);
    fixture_request(&f, 0, 1, 1000);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 2);
}

static void test_with_nobody_else_a_new_server_is_used(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 2, 1);
    fixture_lane(&f, 0); /* whose own server has not joined */
    fixture_request(&f, 0, 0, 1000);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 2);
}

static void test_hold_keeps_tasks_back_until_there_is_room(void **state)
{
    (void)state;
    const struct stk_engine_options options = {.hold = 2};
    fixture_make(&f, &options);
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 5; i++) fixture_request(&f, 0, i, 1000);
    assert_int_equal(fixture_server(&f, 0).tasks, 2);
    assert_int_equal(fixture_stats(&f).held, 3);
    fixture_result(&f, 0, 0, 0, 1000);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->sequence, 2);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 0, .workers = 1, .saturated = true});
    fixture_result(&f, 0, 1, 0, 1000);
    assert_int_equal(f.count, 0);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 0, .workers = 1});
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->sequence, 3);
}

static void test_d1_held_groups_take_turns_by_weight(void **state)
{
    (void)state;
    const struct stk_engine_options options = {.hold = 1};
    fixture_make(&f, &options);
    fixture_join(&f, 0, 1);
    for (uint32_t lane = 0; lane < 2; lane++) {
        fixture_send(
            &f, (struct stk_event){
                    .type = STK_EVENT_LANE_OPEN, .lane = lane, .group = lane, .job = lane, .weight = lane ? 3 : 1});
        fixture_send(&f, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = lane});
    }
    for (uint64_t i = 0; i < 12; i++) fixture_request(&f, 0, i, 1000);
    for (uint64_t i = 0; i < 12; i++) fixture_request(&f, 1, i, 1000);
    uint32_t lane = 0, count[2] = {0};
    uint64_t sequence = 0;
    for (int i = 0; i < 8; i++) {
        fixture_result(&f, lane, sequence, 0, 1000);
        lane = fixture_only(&f, STK_ACTION_PLACE)->lane;
        sequence = f.actions[0].sequence;
        count[lane]++;
    }
    assert_int_equal(count[0], 2);
    assert_int_equal(count[1], 6);
}

static void test_a_straggler_gets_a_copy_and_the_loser_is_cancelled(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    fixture_join(&f, 2, 1);
    fixture_prove(&f, 2, 3);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 0, 100);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 0);
    assert_true(stk_engine_next_check_ns(f.engine) >= 200 * MS && stk_engine_next_check_ns(f.engine) <= 210 * MS);
    fixture_tick(&f, 150);
    assert_int_equal(f.count, 0);
    fixture_tick(&f, 300); /* 200 over its time: 100 elsewhere help */
    const struct stk_action *action = fixture_only(&f, STK_ACTION_PLACE);
    assert_int_equal(action->server, 2);
    assert_int_equal(action->reason, STK_REASON_COPY);
    fixture_tick(&f, 2000);
    assert_int_equal(f.count, 0); /* no third */
    fixture_result(&f, 0, 0, 0, 100);
    assert_int_equal(fixture_only(&f, STK_ACTION_CANCEL)->server, 2);
    assert_int_equal(fixture_stats(&f).copies, 1);
    assert_int_equal(fixture_stats(&f).copies_won, 0);
    assert_int_equal(fixture_server(&f, 2).tasks, 0);
}

/* The straggler is at home: it would be made to its end, with its memory, for nobody. */
static void test_c3_a_copy_that_wins_cancels_the_one_at_home(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    fixture_join(&f, 2, 1);
    fixture_prove(&f, 2, 3);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 0, 100);
    fixture_tick(&f, 300);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 2);
    fixture_result(&f, 0, 0, 2, 100);
    assert_int_equal(fixture_only(&f, STK_ACTION_CANCEL)->server, 0);
    assert_int_equal(fixture_stats(&f).copies_won, 1);
    assert_int_equal(fixture_stats(&f).canceled, 1);
    assert_int_equal(fixture_server(&f, 0).tasks, 0);
    assert_int_equal(fixture_server(&f, 0).backlog_ns, 0);
    /* Its answer comes all the same: late news. */
    fixture_result(&f, 0, 0, 0, 100);
    assert_int_equal(f.count, 0);
}

static void test_no_copy_where_it_does_not_help_or_nobody_waits(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 2);
    fixture_join(&f, 2, 1);
    fixture_prove(&f, 2, 3);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 4, 100); /* wanted at 400 */
    fixture_tick(&f, 204);
    assert_int_equal(f.count, 0); /* in time all the same */
    fixture_send(
        &f, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 2, .workers = 1, .load_ns = STK_SECOND_NS * 60});
    fixture_tick(&f, 380);
    assert_int_equal(f.count, 0);
    assert_true(stk_engine_next_check_ns(f.engine) != UINT64_MAX); /* it is looked at again */
}

static void test_cross_host_bytes_stay_within_the_budget(void **state)
{
    (void)state;
    const struct stk_engine_options options = {.budget_step_bytes = 1000};
    fixture_make(&f, &options);
    join_all(1);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 16; i++) fixture_request(&f, 0, i, 1000);
    struct stk_engine_stats stats = fixture_stats(&f);
    assert_in_range(stats.cross_bytes, 1000, 2000);
    assert_true(stats.by_reason[STK_REASON_BUDGET] > 0);
    for (uint64_t i = 0; i < 12; i++) {
        for (uint32_t server = 0; server < 2; server++) fixture_result(&f, 0, i, server, 1000);
        fixture_send(&f, (struct stk_event){.type = STK_EVENT_STEP, .lane = 0, .sequence = i});
    }
    for (uint64_t i = 16; i < 28; i++) fixture_request(&f, 0, i, 1000);
    assert_in_range(fixture_stats(&f).cross_bytes, 3000, 6000);
}

static void test_data_on_another_host_must_be_fetched(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    struct stk_event request = {.type = STK_EVENT_REQUEST, .lane = 0, .items = 1, .data_known = true, .data_host = 0};
    request.features.bytes_in = 125000000;
    fixture_send(&f, request);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->io_ns, 0);
    request.sequence = 1;
    request.data_host = 3;
    fixture_send(&f, request);
    assert_in_range(fixture_only(&f, STK_ACTION_PLACE)->io_ns, 99 * MS, 102 * MS);
}

static void test_costs_are_predicted_from_features_and_learned(void **state)
{
    (void)state;
    fixture_make_limited(&f, NULL, 16);
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    struct stk_event request = {.type = STK_EVENT_REQUEST, .lane = 0, .items = 1, .class_id = STK_COST_H264};
    request.features =
        (struct stk_cost_features){.samples = 1, .pixels_in = 40000000, .bytes_in = 500000, .pixels_out = 800000};
    uint64_t first = 0, last = 0;
    for (uint64_t i = 0; i < 60; i++) {
        request.sequence = i;
        fixture_send(&f, request);
        last = fixture_only(&f, STK_ACTION_PLACE)->cpu_ns;
        if (i == 0) first = last;
        f.now_ns += 2 * first;
        struct stk_event result = {.type = STK_EVENT_RESULT,
                                   .lane = 0,
                                   .sequence = i,
                                   .cpu_ns = 2 * first,
                                   .wall_ns = 2 * first,
                                   .output_bytes = 1000};
        fixture_send(&f, result);
    }
    assert_in_range(first, 20 * MS, 300 * MS);
    assert_in_range(last, first * 3 / 2, first * 3);
    assert_non_null(stk_engine_cost(f.engine));
}

#define PLACE_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_local_servers_are_used_up_before_remote_ones),
        PLACE_TEST(test_candidates_never_leave_the_pools_of_a_lane),
        PLACE_TEST(test_the_least_busy_server_is_found),
        PLACE_TEST(test_a_new_server_proves_itself_by_second_copies),
        PLACE_TEST(test_a_new_server_that_does_not_answer_harms_nobody),
        PLACE_TEST(test_a_server_that_was_slow_is_probed_again),
        PLACE_TEST(test_with_nobody_else_a_new_server_is_used),
        PLACE_TEST(test_a_new_server_is_better_than_holding),
        PLACE_TEST(test_hold_keeps_tasks_back_until_there_is_room),
        PLACE_TEST(test_d1_held_groups_take_turns_by_weight),
        PLACE_TEST(test_a_straggler_gets_a_copy_and_the_loser_is_cancelled),
        PLACE_TEST(test_c3_a_copy_that_wins_cancels_the_one_at_home),
        PLACE_TEST(test_no_copy_where_it_does_not_help_or_nobody_waits),
        PLACE_TEST(test_cross_host_bytes_stay_within_the_budget),
        PLACE_TEST(test_data_on_another_host_must_be_fetched),
        PLACE_TEST(test_costs_are_predicted_from_features_and_learned),
    };
    return stk_run_tests(tests);
}
