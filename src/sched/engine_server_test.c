/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/engine_fixture.h"

static struct fixture f;

static int set_up(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_free(&f);
    return 0;
}

static void test_backlog_grows_with_placements_and_is_corrected_by_results(void **state)
{
    (void)state;
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 3; i++) fixture_request(&f, 0, i, 100);
    assert_int_equal(fixture_server(&f, 0).backlog_ns, 300 * MS);
    assert_int_equal(fixture_server(&f, 0).items, 3);
    fixture_at(&f, 40); /* twice as fast as predicted: what is left is at most 200 */
    fixture_result(&f, 0, 0, 0, 40);
    assert_int_equal(fixture_server(&f, 0).backlog_ns, 200 * MS);
    fixture_at(&f, 300); /* slower than predicted: one item cannot have begun */
    fixture_request(&f, 0, 3, 100);
    fixture_result(&f, 0, 1, 0, 260);
    assert_in_range(fixture_server(&f, 0).backlog_ns, 90 * MS, 200 * MS);
    fixture_result(&f, 0, 2, 0, 1);
    fixture_result(&f, 0, 3, 0, 1);
    assert_int_equal(fixture_server(&f, 0).backlog_ns, 0);
    assert_int_equal(fixture_server(&f, 0).tasks, 0);
}

static void test_a_free_worker_means_no_queue(void **state)
{
    (void)state;
    fixture_join(&f, 0, 2);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 0, 100);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->queue_ns, 0);
    fixture_request(&f, 0, 1, 100);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->queue_ns, 0);
    fixture_request(&f, 0, 2, 100);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->queue_ns, 100 * MS); /* 200 over two workers */
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->cpu_ns, 100 * MS);
}

static void test_a_slow_server_is_stretched_and_recovers(void **state)
{
    (void)state;
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 20; i++) {
        fixture_request(&f, 0, i, 10);
        fixture_at(&f, (i + 1) * 100);
        fixture_send(&f,
                     (struct stk_event){
                         .type = STK_EVENT_RESULT, .lane = 0, .sequence = i, .cpu_ns = 10 * MS, .wall_ns = 100 * MS});
    }
    uint32_t stretch = fixture_server(&f, 0).stretch_permille;
    assert_true(stretch > 3000);
    fixture_request(&f, 0, 20, 10);
    assert_true(fixture_only(&f, STK_ACTION_PLACE)->total_ns > 30 * MS);
    fixture_result(&f, 0, 20, 0, 10);
    for (int i = 0; i < 200; i++)
        fixture_send(&f, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 0, .workers = 1});
    assert_int_equal(fixture_server(&f, 0).stretch_permille, 1000);
}

static void test_hosts_have_speeds(void **state)
{
    (void)state;
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 40; i++) {
        fixture_request(&f, 0, i, 10);
        fixture_at(&f, (i + 1) * 20);
        fixture_result(&f, 0, i, 0, 20);
    }
    fixture_request(&f, 0, 40, 10);
    assert_in_range(fixture_only(&f, STK_ACTION_PLACE)->cpu_ns, 19 * MS, 21 * MS);
}

static void test_heartbeats_tell_of_workers_and_the_work_of_others(void **state)
{
    (void)state;
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    fixture_send(
        &f, (struct stk_event){
                .type = STK_EVENT_HEARTBEAT, .server = 0, .workers = 4, .load_ns = 400 * MS, .latency_ns = 3 * MS});
    fixture_request(&f, 0, 0, 10);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->queue_ns, 103 * MS);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 7, .workers = 4}); /* late news */
    assert_false(stk_engine_read_server(f.engine, 7, &(struct stk_engine_server){0}));
}

static void test_a_server_without_workers_gets_nothing_until_it_has_some(void **state)
{
    (void)state;
    fixture_join(&f, 0, 0);
    fixture_lane(&f, 0);
    fixture_request(&f, 0, 0, 10);
    assert_int_equal(f.count, 0);
    assert_int_equal(fixture_stats(&f).held, 1);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 0, .workers = 1});
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 0);
}

static void test_links_are_learned_and_transfers_queue(void **state)
{
    (void)state;
    fixture_join(&f, 2, 8);
    fixture_lane(&f, 0); /* its own server has not joined */
    for (int i = 0; i < 100; i++)
        fixture_send(&f,
                     (struct stk_event){
                         .type = STK_EVENT_LINK, .host = 1, .to_host = 0, .bytes_per_s = 1000000000, .latency_ns = MS});
    struct stk_event request = {.type = STK_EVENT_REQUEST, .lane = 0, .items = 1, .output_bytes = 100000000};
    fixture_send(&f, request);
    assert_in_range(fixture_only(&f, STK_ACTION_PLACE)->net_ns, 100 * MS, 102 * MS);
    request.sequence = 1; /* after the first, which has the network */
    fixture_send(&f, request);
    assert_in_range(fixture_only(&f, STK_ACTION_PLACE)->net_ns, 200 * MS, 202 * MS);
    fixture_at(&f, 1000);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_LINK, .host = 1, .to_host = 0, .inflight_bytes = 300000000});
    request.sequence = 2;
    fixture_send(&f, request);
    assert_in_range(fixture_only(&f, STK_ACTION_PLACE)->net_ns, 400 * MS, 402 * MS);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_LINK, .host = 1, .to_host = 99}); /* nobody's */
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    struct stk_event join = {.type = STK_EVENT_SERVER_JOIN, .server = FIXTURE_SERVERS};
    assert_int_equal(fixture_try(&f, join), STOKER_ERR_LIMIT);
    join = (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .host = FIXTURE_HOSTS};
    assert_int_equal(fixture_try(&f, join), STOKER_ERR_LIMIT);
    join = (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .pool = STK_ENGINE_POOLS};
    assert_int_equal(fixture_try(&f, join), STOKER_ERR_INVALID_ARGUMENT);
}

/* A host's number may mean another machine next time. */
static void test_what_was_learned_of_a_host_ends_with_its_last_server(void **state)
{
    (void)state;
    fixture_join(&f, 0, 1);
    fixture_lane(&f, 0);
    for (uint64_t i = 0; i < 40; i++) {
        fixture_request(&f, 0, i, 10);
        fixture_at(&f, (i + 1) * 40);
        fixture_result(&f, 0, i, 0, 40);
    }
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = 0});
    fixture_join(&f, 0, 1);
    fixture_request(&f, 0, 40, 10);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->cpu_ns, 10 * MS);
}

#define SERVER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* An engine of `tasks` tasks; its own server is number 0. */
static struct stk_action *make_large(uint32_t tasks, size_t *out_cap)
{
    const struct stk_engine_limits limits = {.servers = 2, .lanes = 1, .tasks = tasks, .hosts = 2};
    size_t size = stk_engine_bytes(&limits);
    fixture_free(&f);
    f = (struct fixture){.block = aligned_alloc(16, size)};
    assert_non_null(f.block);
    f.engine = stk_engine_init(f.block, size, &limits, NULL);
    *out_cap = stk_engine_actions_max(&limits, 1);
    struct stk_action *actions = malloc(*out_cap * sizeof *actions);
    assert_non_null(actions);
    return actions;
}

static const struct stk_action *send_large(struct stk_action *actions, size_t cap, struct stk_event event)
{
    size_t count, applied;
    assert_int_equal(stk_engine_step(f.engine, 0, &event, 1, actions, cap, &count, &applied, NULL), STOKER_OK);
    return count > 0 ? &actions[0] : NULL;
}

static void test_absurd_costs_do_not_overflow_the_backlog(void **state)
{
    (void)state;
    enum { TASKS = 16384 };
    size_t cap;
    struct stk_action *actions = make_large(TASKS, &cap);
    struct stk_event request = {.type = STK_EVENT_REQUEST, .items = 1, .cpu_ns = 1},
                     answer = {.type = STK_EVENT_RESULT, .cpu_ns = 1, .wall_ns = UINT64_MAX};
    send_large(actions, cap, (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .workers = 1});
    send_large(actions, cap, (struct stk_event){.type = STK_EVENT_LANE_OPEN});
    send_large(actions, cap, (struct stk_event){.type = STK_EVENT_LANE_BEGIN});
    send_large(actions, cap, request);
    send_large(actions, cap, answer);
    assert_int_equal(fixture_server(&f, 0).stretch_permille, 16000);
    request.cpu_ns = request.io_ns = request.margin_ns = UINT64_MAX;
    answer.flags = 1; /* teaches nothing */
    uint64_t before_ns = 0;
    for (uint64_t i = 1; i < TASKS; i++) {
        request.sequence = i;
        const struct stk_action *placed = send_large(actions, cap, request);
        assert_int_equal(placed->type, STK_ACTION_PLACE);
        assert_true(placed->queue_ns >= before_ns && placed->total_ns > placed->queue_ns);
        before_ns = placed->queue_ns;
    }
    for (uint64_t i = 1; i < TASKS; i++) {
        answer.sequence = i;
        send_large(actions, cap, answer);
        assert_true(fixture_server(&f, 0).backlog_ns <= before_ns * 2);
    }
    assert_int_equal(fixture_server(&f, 0).backlog_ns, 0);
    free(actions);
}

static void test_absurd_bytes_do_not_overflow_the_network(void **state)
{
    (void)state;
    enum { TASKS = 40000 };
    size_t cap;
    struct stk_action *actions = make_large(TASKS, &cap);
    send_large(actions, cap, (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = 1, .host = 1, .workers = 1});
    send_large(actions, cap, (struct stk_event){.type = STK_EVENT_LANE_OPEN});
    send_large(actions, cap, (struct stk_event){.type = STK_EVENT_LANE_BEGIN});
    for (int i = 0; i < 100; i++)
        send_large(actions, cap, (struct stk_event){.type = STK_EVENT_LINK, .host = 1, .bytes_per_s = 1});
    uint64_t before_ns = 0;
    for (uint64_t i = 0; i < TASKS; i++) {
        const struct stk_action *placed = send_large(
            actions, cap,
            (struct stk_event){.type = STK_EVENT_REQUEST, .sequence = i, .items = 1, .output_bytes = UINT64_MAX});
        assert_int_equal(placed->type, STK_ACTION_PLACE);
        assert_true(placed->net_ns >= before_ns);
        before_ns = placed->net_ns;
    }
    free(actions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(test_backlog_grows_with_placements_and_is_corrected_by_results),
        SERVER_TEST(test_a_free_worker_means_no_queue),
        SERVER_TEST(test_a_slow_server_is_stretched_and_recovers),
        SERVER_TEST(test_hosts_have_speeds),
        SERVER_TEST(test_heartbeats_tell_of_workers_and_the_work_of_others),
        SERVER_TEST(test_a_server_without_workers_gets_nothing_until_it_has_some),
        SERVER_TEST(test_links_are_learned_and_transfers_queue),
        SERVER_TEST(test_numbers_out_of_range_are_refused),
        SERVER_TEST(test_what_was_learned_of_a_host_ends_with_its_last_server),
        SERVER_TEST(test_absurd_costs_do_not_overflow_the_backlog),
        SERVER_TEST(test_absurd_bytes_do_not_overflow_the_network),
    };
    return stk_run_tests(tests);
}
