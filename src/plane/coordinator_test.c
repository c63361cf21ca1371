/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "sched/journal.h"
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

static const struct stk_coordinator_ops ops = {.action = on_action, .refused = on_refused};

static void create_with(struct seen *seen, uint32_t tasks, const struct stk_coordinator_ops *how, uint64_t bytes_max)
{
    const struct stk_coordinator_options options = {.limits = {.servers = 1, .lanes = 2, .tasks = tasks},
                                                    .record_bytes_max = bytes_max};
    *seen = (struct seen){0};
    assert_int_equal(stk_coordinator_create(&options, how, seen, &seen->coordinator, NULL), STOKER_OK);
    struct stk_event join = {.type = STK_EVENT_SERVER_JOIN, .workers = 1}, open = {.type = STK_EVENT_LANE_OPEN},
                     begin = {.type = STK_EVENT_LANE_BEGIN};
    stk_coordinator_event(seen->coordinator, 1, &join);
    stk_coordinator_event(seen->coordinator, 1, &open);
    stk_coordinator_event(seen->coordinator, 1, &begin);
    stk_coordinator_step(seen->coordinator, 1);
}

static void create(struct seen *seen, uint32_t tasks) { create_with(seen, tasks, &ops, 0); }

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

/* ---- journal */

static uint8_t kept[1 << 20];
static size_t kept_size, kept_max;

static bool keep(void *user, const void *bytes, size_t size)
{
    (void)user;
    if (kept_size + size > kept_max) return false;
    memcpy(kept + kept_size, bytes, size);
    kept_size += size;
    return true;
}

static void count_action(void *user, const struct stk_action *action)
{
    struct seen *seen = user;
    seen->places += action->type == STK_ACTION_PLACE;
}

static const struct stk_coordinator_ops recording = {count_action, on_refused, keep};

/* Makes the same decisions again; the steps that were the same, or none if the journal cannot be read. */
static size_t replay(size_t *out_steps, bool *out_limit)
{
    static struct stk_event events[64];
    struct stk_journal_reader reader;
    struct stk_engine_limits limits;
    struct stk_engine_options options;
    struct stk_journal_step step;
    size_t same = 0, count, applied;
    assert_int_equal(stk_journal_open(&reader, kept, kept_size, &limits, &options, NULL), STOKER_OK);
    size_t size = stk_engine_bytes(&limits), cap = stk_engine_actions_max(&limits, 64);
    void *block = aligned_alloc(16, size);
    struct stk_action *actions = calloc(cap, sizeof *actions);
    assert_true(block && actions);
    struct stk_engine *engine = stk_engine_init(block, size, &limits, &options);
    for (*out_steps = 0; stk_journal_next(&reader, events, 64, &step, NULL) == STOKER_OK; ++*out_steps) {
        (void)stk_engine_step(engine, step.now_ns, events, step.event_count, actions, cap, &count, &applied, NULL);
        same += count == step.action_count && stk_journal_digest(actions, count) == step.digest;
    }
    *out_limit = reader.limit_reached;
    assert_true(reader.ended);
    free(actions);
    free(block);
    return same;
}

static void run_session(struct seen *seen)
{
    for (uint64_t i = 0; i < 30; i++) {
        request(seen, i);
        stk_coordinator_step(seen->coordinator, 10 * i + 5);
        struct stk_event result = {.type = STK_EVENT_RESULT, .sequence = i / 2},
                         step = {.type = STK_EVENT_STEP, .sequence = i / 2, .window_ns = 20};
        stk_coordinator_event(seen->coordinator, 10 * i + 7, &result);
        stk_coordinator_event(seen->coordinator, 10 * i + 7, &step);
        stk_coordinator_step(seen->coordinator, 10 * i + 7);
    }
}

static void test_what_is_recorded_is_decided_again(void **state)
{
    (void)state;
    struct seen seen;
    size_t steps;
    bool limit;
    kept_size = 0;
    kept_max = sizeof kept;
    create_with(&seen, 4, &recording, 0); /* a small table: some events are refused */
    run_session(&seen);
    stk_coordinator_destroy(seen.coordinator);
    assert_true(seen.refused > 0);
    size_t same = replay(&steps, &limit);
    assert_in_range(steps, 61, 200);
    assert_int_equal(same, steps);
    assert_false(limit);
}

static void test_the_journal_stops_at_its_limit(void **state)
{
    (void)state;
    struct seen seen;
    size_t steps;
    bool limit;
    kept_size = 0;
    kept_max = sizeof kept;
    create_with(&seen, 64, &recording, 500);
    run_session(&seen);
    stk_coordinator_destroy(seen.coordinator);
    assert_int_equal(seen.places, 30);
    assert_in_range(kept_size, 400, 502);
    size_t same = replay(&steps, &limit);
    assert_int_equal(same, steps);
    assert_true(limit);
}

static void test_a_journal_that_cannot_be_kept_harms_nobody(void **state)
{
    (void)state;
    struct seen seen;
    kept_size = 0;
    kept_max = 300;
    create_with(&seen, 64, &recording, 0);
    run_session(&seen);
    stk_coordinator_destroy(seen.coordinator);
    assert_int_equal(seen.places, 30);
    assert_true(kept_size <= 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_placed_at_the_step),
        cmocka_unit_test(test_full_table_refuses_only_what_does_not_fit),
        cmocka_unit_test(test_flood_steps_by_itself),
        cmocka_unit_test(test_what_is_recorded_is_decided_again),
        cmocka_unit_test(test_the_journal_stops_at_its_limit),
        cmocka_unit_test(test_a_journal_that_cannot_be_kept_harms_nobody),
    };
    return stk_run_tests(tests);
}
