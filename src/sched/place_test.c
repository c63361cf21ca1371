/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/place.h"

#include <string.h>

#include "tests/support/unit.h"

#define MS (STK_SECOND_NS / 1000)

static struct stk_place_options options;

static struct stk_candidate local(uint32_t server, uint64_t cpu_ms, uint64_t queue_ms)
{
    return (struct stk_candidate){.server = server,
                                  .own = server == 0,
                                  .local = true,
                                  .accepts = true,
                                  .cpu_ns = cpu_ms * MS,
                                  .queue_ns = queue_ms * MS,
                                  .workers = 1};
}

static struct stk_candidate remote(uint32_t server, uint64_t cpu_ms, uint64_t queue_ms, uint64_t net_ms)
{
    struct stk_candidate c = local(server, cpu_ms, queue_ms);
    c.own = c.local = false;
    c.net_ns = net_ms * MS;
    return c;
}

static struct stk_place_answer choose(const struct stk_candidate *c, uint32_t count, uint64_t left_ms)
{
    struct stk_place_question question = {
        .left_ns = left_ms * MS, .affordable = true, .last_remote = STK_PLACE_NONE, .items = 1};
    return stk_place_choose(&options, c, count, &question);
}

static int set_up(void **state)
{
    (void)state;
    options = (struct stk_place_options){0};
    return 0;
}

static void test_local_on_time_wins_over_a_faster_remote(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 40), remote(1, 5, 0, 1)};
    struct stk_place_answer answer = choose(c, 2, 180); /* half of it is to spare */
    assert_int_equal(answer.index, 0);
    assert_int_equal(answer.reason, STK_REASON_LOCAL_ON_TIME);
    assert_int_equal(answer.total_ns, 90 * MS);
    assert_int_equal(answer.late_ns, 0);
}

/* The model's error counts in the test: it takes 90 ms, and 95 if the model errs. */
static void test_the_error_of_the_model_enters_the_on_time_test(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 40), remote(1, 5, 0, 1)};
    c[0].margin_ns = 5 * MS;
    struct stk_place_answer answer = choose(c, 2, 188);
    assert_int_equal(answer.index, 1);
    assert_int_equal(answer.reason, STK_REASON_REMOTE_ON_TIME);
    assert_int_equal(choose(c, 2, 190).index, 0);
}

static void test_local_late_goes_to_the_best_remote_with_enough_gain(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 60), remote(1, 50, 20, 5), remote(2, 50, 10, 5), remote(3, 50, 10, 9)};
    struct stk_place_answer answer = choose(c, 4, 100);
    assert_int_equal(answer.index, 2);
    assert_int_equal(answer.reason, STK_REASON_REMOTE_ON_TIME);
    options.gain_min_ns = STK_SECOND_NS;
    answer = choose(c, 4, 100);
    assert_int_equal(answer.index, 0);
    assert_int_equal(answer.reason, STK_REASON_NO_GAIN);
    assert_int_equal(answer.late_ns, 10 * MS);
}

static void test_all_late_goes_to_the_earliest_finish(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 300), remote(1, 50, 200, 5), remote(2, 50, 100, 5)};
    struct stk_place_answer answer = choose(c, 3, 0);
    assert_int_equal(answer.index, 2);
    assert_int_equal(answer.reason, STK_REASON_EARLIEST);
    assert_int_equal(answer.late_ns, 155 * MS);
    c[0].queue_ns = 90 * MS;
    answer = choose(c, 3, 0);
    assert_int_equal(answer.index, 0);
    assert_int_equal(answer.reason, STK_REASON_EARLIEST);
}

static void test_transfers_weigh(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 60), remote(1, 50, 0, 50)};
    assert_int_equal(choose(c, 2, 105).index, 0); /* 10 ms sooner, for 50 ms of network */
    options.transfer_weight = 1;
    assert_int_equal(choose(c, 2, 105).index, 1);
}

static void test_bytes_beyond_the_budget_stay_local(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 500), remote(1, 50, 0, 5)};
    struct stk_place_question question = {.left_ns = 100 * MS, .items = 1};
    struct stk_place_answer answer = stk_place_choose(&options, c, 2, &question);
    assert_int_equal(answer.index, 0);
    assert_int_equal(answer.reason, STK_REASON_BUDGET);
    /* Without a local server there is no other way. */
    assert_int_equal(stk_place_choose(&options, &c[1], 1, &question).index, 0);
}

static void test_hysteresis_keeps_the_remote_of_last_time(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 200), remote(1, 50, 0, 5), remote(2, 50, 0, 5)};
    struct stk_place_question question = {.affordable = true, .last_remote = 2, .items = 1};
    assert_int_equal(stk_place_choose(&options, c, 3, &question).index, 2);
    c[2].queue_ns = 20 * MS;
    assert_int_equal(stk_place_choose(&options, c, 3, &question).index, 1);
}

static void test_back_pressure_holds_what_nobody_accepts(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 50, 60), remote(1, 50, 0, 5)};
    c[0].accepts = c[1].accepts = false;
    assert_int_equal(choose(c, 2, 100).index, STK_PLACE_NONE);
    assert_int_equal(choose(c, 2, 220).index, 0); /* on time all the same */
    c[1].accepts = true;
    assert_int_equal(choose(c, 2, 100).index, 1);
    for (int policy = STK_POLICY_COST; policy <= STK_POLICY_ROUND_ROBIN; policy++) {
        options.policy = (enum stk_policy)policy;
        assert_int_equal(choose(c, 1, 100).index, STK_PLACE_NONE);
    }
}

static void test_policies_without_deadlines(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(3, 50, 60), remote(1, 10, 0, 5), remote(2, 10, 0, 5)};
    options.policy = STK_POLICY_COST;
    assert_int_equal(choose(c, 3, 1000).index, 1);
    assert_int_equal(choose(c, 3, 1000).reason, STK_REASON_CHEAPEST);
    options.policy = STK_POLICY_LEAST_REQUEST;
    c[0].load = c[1].load = 4;
    assert_int_equal(choose(c, 3, 1000).index, 2);
    assert_int_equal(choose(c, 3, 1000).reason, STK_REASON_LEAST_LOADED);
    c[2].load = 4;
    assert_int_equal(choose(c, 3, 1000).index, 0);
    assert_int_equal(choose(c, 3, 1000).reason, STK_REASON_TIE_LOCAL);
    c[1].workers = 2;
    assert_int_equal(choose(c, 3, 1000).index, 1);
    options.policy = STK_POLICY_ROUND_ROBIN;
    assert_int_equal(choose(c, 1, 1000).reason, STK_REASON_ROUND_ROBIN);
}

static void test_extreme_times_do_not_wrap(void **state)
{
    (void)state;
    struct stk_candidate c[] = {local(0, 1, 0), remote(1, 1, 0, 0)};
    c[0].cpu_ns = c[0].queue_ns = UINT64_MAX;
    struct stk_place_answer answer = choose(c, 2, 0);
    assert_int_equal(answer.index, 1);
    c[1].net_ns = UINT64_MAX;
    options.miss_weight = options.gain_weight = options.transfer_weight = UINT32_MAX;
    assert_int_equal(choose(c, 2, 0).index, 0);
    assert_true(stk_candidate_total_ns(&c[0]) == UINT64_MAX);
}

static void test_names_are_read_back(void **state)
{
    (void)state;
    enum stk_policy policy;
    for (int i = 0; i <= STK_POLICY_ROUND_ROBIN; i++) {
        assert_true(stk_policy_parse(stk_policy_name((enum stk_policy)i), &policy));
        assert_int_equal(policy, i);
    }
    assert_false(stk_policy_parse("", &policy));
    assert_false(stk_policy_parse("deadlines", &policy));
    assert_string_equal(stk_place_reason_name(STK_REASON_COPY), "copy of straggler");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_local_on_time_wins_over_a_faster_remote, set_up),
        cmocka_unit_test_setup(test_the_error_of_the_model_enters_the_on_time_test, set_up),
        cmocka_unit_test_setup(test_local_late_goes_to_the_best_remote_with_enough_gain, set_up),
        cmocka_unit_test_setup(test_all_late_goes_to_the_earliest_finish, set_up),
        cmocka_unit_test_setup(test_transfers_weigh, set_up),
        cmocka_unit_test_setup(test_bytes_beyond_the_budget_stay_local, set_up),
        cmocka_unit_test_setup(test_hysteresis_keeps_the_remote_of_last_time, set_up),
        cmocka_unit_test_setup(test_back_pressure_holds_what_nobody_accepts, set_up),
        cmocka_unit_test_setup(test_policies_without_deadlines, set_up),
        cmocka_unit_test_setup(test_extreme_times_do_not_wrap, set_up),
        cmocka_unit_test_setup(test_names_are_read_back, set_up),
    };
    return stk_run_tests(tests);
}
