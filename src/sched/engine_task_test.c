/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/engine_fixture.h"

static struct fixture f;

static int set_up(void **state)
{
    (void)state;
    fixture_make(&f, NULL);
    fixture_join(&f, 0, 1);
    fixture_join(&f, 2, 1);
    fixture_join(&f, 4, 1);
    for (uint32_t i = 0; i < 6; i += 2) fixture_prove(&f, i, i + 1);
    fixture_lane(&f, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_free(&f);
    return 0;
}

static void send_part(uint32_t part)
{
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_REQUEST, .lane = 0, .part = part, .items = 1});
}

static void fail_at(uint32_t server)
{
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_FAILURE, .lane = 0, .sequence = 0, .server = server});
}

static void test_parts_of_a_batch_are_tasks_of_their_own(void **state)
{
    (void)state;
    for (uint32_t part = 0; part < 3; part++) {
        send_part(part);
        assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->part, part);
    }
    send_part(1); /* again, after a reconnection */
    assert_int_equal(f.count, 0);
    assert_int_equal(fixture_stats(&f).tasks, 3);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_RESULT, .lane = 0, .part = 1});
    assert_int_equal(fixture_stats(&f).tasks, 2);
}

static void test_c3_the_first_result_wins_whoever_sent_it(void **state)
{
    (void)state;
    fixture_request(&f, 0, 0, 1000);
    fixture_request(&f, 0, 1, 1000);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 2); /* the own one is busy for long */
    fixture_result(&f, 0, 1, 4, 10);
    assert_int_equal(fixture_only(&f, STK_ACTION_CANCEL)->server, 2);
    fixture_result(&f, 0, 1, 2, 10); /* too late */
    assert_int_equal(f.count, 0);
}

static void test_a_failed_task_goes_elsewhere_and_is_given_up_at_last(void **state)
{
    (void)state;
    fixture_request(&f, 0, 0, 10);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 0);
    fail_at(2); /* not where it is */
    assert_int_equal(f.count, 0);
    uint32_t server = 0;
    for (uint32_t i = 1; i < STK_ENGINE_TRIES; i++) {
        fail_at(server);
        const struct stk_action *action = fixture_only(&f, STK_ACTION_PLACE);
        assert_int_not_equal(action->server, server);
        server = action->server;
    }
    fail_at(server);
    (void)fixture_only(&f, STK_ACTION_GIVE_UP);
    assert_int_equal(fixture_stats(&f).tasks, 0);
    assert_int_equal(fixture_stats(&f).failed, STK_ENGINE_TRIES);
}

static void test_the_one_that_failed_is_better_than_none(void **state)
{
    (void)state;
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = 2});
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = 4});
    fixture_request(&f, 0, 0, 10);
    fail_at(0);
    assert_int_equal(fixture_only(&f, STK_ACTION_PLACE)->server, 0);
}

static void test_what_is_not_wanted_any_more_is_cancelled_elsewhere(void **state)
{
    (void)state;
    fixture_request(&f, 0, 0, 1000);
    fixture_request(&f, 0, 1, 1000);
    fixture_request(&f, 0, 2, 1000);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_CANCEL, .lane = 0, .sequence = 1});
    assert_int_equal(fixture_only(&f, STK_ACTION_CANCEL)->server, 2);
    fixture_send(&f, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = 0});
    assert_int_equal(fixture_only(&f, STK_ACTION_CANCEL)->server, 4); /* its own server knows by itself */
    for (uint32_t i = 0; i < FIXTURE_SERVERS; i += 2)
        if (i < 6) assert_int_equal(fixture_server(&f, i).items, 0);
}

static void test_d3_a_full_table_refuses_and_room_is_found_again(void **state)
{
    (void)state;
    struct stk_event event = {.type = STK_EVENT_REQUEST, .lane = 0, .items = 1};
    for (; event.sequence < FIXTURE_TASKS; event.sequence++) fixture_send(&f, event);
    assert_int_equal(fixture_try(&f, event), STOKER_ERR_LIMIT);
    fixture_result(&f, 0, 7, 0, 1);
    assert_int_equal(fixture_try(&f, event), STOKER_OK);
}

#define TASK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TASK_TEST(test_parts_of_a_batch_are_tasks_of_their_own),
        TASK_TEST(test_c3_the_first_result_wins_whoever_sent_it),
        TASK_TEST(test_a_failed_task_goes_elsewhere_and_is_given_up_at_last),
        TASK_TEST(test_the_one_that_failed_is_better_than_none),
        TASK_TEST(test_what_is_not_wanted_any_more_is_cancelled_elsewhere),
        TASK_TEST(test_d3_a_full_table_refuses_and_room_is_found_again),
    };
    return stk_run_tests(tests);
}
