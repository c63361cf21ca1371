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
    };
    return stk_run_tests(tests);
}
