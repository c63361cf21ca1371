/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/coordinator.h"

#include "tests/support/unit.h"

struct seen {
    struct stk_coordinator *coordinator;
    uint64_t next;
    int places, deadlines, refused;
    bool answer;
};

static void on_action(void *user, const struct stk_action *action)
{
    struct seen *seen = user;
    if (action->type == STK_ACTION_DEADLINE) {
        seen->deadlines++;
        return;
    }
    assert_int_equal(action->sequence, seen->next++);
    seen->places++;
    if (!seen->answer) return;
    struct stk_event result = {.type = STK_EVENT_RESULT, .lane = action->lane, .sequence = action->sequence};
    stk_coordinator_event(seen->coordinator, 0, &result); /* allowed inside */
}

static void on_refused(void *user, const struct stk_event *event, const stoker_error *err)
{
    struct seen *seen = user;
    assert_int_equal(event->type, STK_EVENT_REQUEST);
    assert_int_equal(err->status, STOKER_ERR_LIMIT);
    seen->refused++;
}

static const struct stk_coordinator_ops ops = {on_action, on_refused};

static void create(struct seen *seen, uint32_t tasks)
{
    struct stk_engine_limits limits = {.servers = 1, .lanes = 2, .tasks = tasks};
    *seen = (struct seen){0};
    assert_int_equal(stk_coordinator_create(&limits, &ops, seen, &seen->coordinator, NULL), STOKER_OK);
    struct stk_event join = {.type = STK_EVENT_SERVER_JOIN, .workers = 1}, open = {.type = STK_EVENT_LANE_OPEN},
                     begin = {.type = STK_EVENT_LANE_BEGIN};
    stk_coordinator_event(seen->coordinator, 1, &join);
    stk_coordinator_event(seen->coordinator, 1, &open);
    stk_coordinator_event(seen->coordinator, 1, &begin);
    stk_coordinator_step(seen->coordinator, 1);
}

static void request(struct seen *seen, uint64_t sequence)
{
    struct stk_event event = {.type = STK_EVENT_REQUEST, .sequence = sequence, .items = 1};
    stk_coordinator_event(seen->coordinator, 2, &event);
}

static void test_requests_are_placed_at_the_step(void **state)
{
    (void)state;
    struct seen seen;
    create(&seen, 16);
    for (uint64_t i = 0; i < 3; i++) request(&seen, i);
    assert_int_equal(seen.places, 0); /* nothing is decided before */
    stk_coordinator_step(seen.coordinator, 5);
    assert_int_equal(seen.places, 3);
    stk_coordinator_step(seen.coordinator, 4); /* time that fell is time that stood still */
    assert_true(stk_coordinator_window_ns(seen.coordinator, 0) > 0);
    stk_coordinator_destroy(seen.coordinator);
    stk_coordinator_destroy(NULL);
}

static void test_full_table_refuses_only_what_does_not_fit(void **state)
{
    (void)state;
    struct seen seen;
    create(&seen, 4);
    for (uint64_t i = 0; i < 6; i++) request(&seen, i);
    stk_coordinator_step(seen.coordinator, 5);
    assert_int_equal(seen.places, 4);
    assert_int_equal(seen.refused, 2);
    stk_coordinator_destroy(seen.coordinator);
}

/* More events than the queue holds, each answered inside the step. */
static void test_flood_steps_by_itself(void **state)
{
    (void)state;
    struct seen seen;
    create(&seen, 8192);
    seen.answer = true;
    for (uint64_t i = 0; i < 10000; i++) request(&seen, i);
    stk_coordinator_step(seen.coordinator, 5);
    stk_coordinator_step(seen.coordinator, 6);
    assert_int_equal(seen.places, 10000);
    assert_int_equal(seen.refused, 0);
    stk_coordinator_destroy(seen.coordinator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_placed_at_the_step),
        cmocka_unit_test(test_full_table_refuses_only_what_does_not_fit),
        cmocka_unit_test(test_flood_steps_by_itself),
    };
    return stk_run_tests(tests);
}
