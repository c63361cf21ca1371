/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/journal.h"

#include "sched/engine_fixture.h"

enum { STEPS = 200, BYTES = 1 << 18 };

static const struct stk_engine_limits limits = {
    .servers = FIXTURE_SERVERS, .lanes = FIXTURE_LANES, .tasks = FIXTURE_TASKS, .hosts = FIXTURE_HOSTS};
static const struct stk_engine_options options = {.hold = 2, .copy_percent = 150, .budget_step_bytes = 3000};
static uint8_t bytes[BYTES];

/* The events of a small session, one a step, from a fixed rule. */
static struct stk_event event_of(uint32_t i)
{
    if (i < 6)
        return (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = i, .host = i / 2, .workers = 1 + i % 2};
    if (i == 6) return (struct stk_event){.type = STK_EVENT_LANE_OPEN, .lane = 1, .group = 9, .weight = 2, .rank = 3};
    if (i == 7) return (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = 1};
    uint64_t sequence = i / 3;
    switch (i % 3) {
    case 0:
        return (struct stk_event){.type = STK_EVENT_REQUEST,
                                  .lane = 1,
                                  .sequence = sequence,
                                  .items = 4,
                                  .cpu_ns = (50 + i * 37 % 400) * MS,
                                  .margin_ns = 5 * MS,
                                  .output_bytes = 1000,
                                  .data_known = i % 2 == 0,
                                  .features.bytes_in = 7};
    case 1:
        return (struct stk_event){.type = STK_EVENT_RESULT,
                                  .lane = 1,
                                  .sequence = sequence - i % 5,
                                  .server = i % 6,
                                  .cpu_ns = 100 * MS,
                                  .wall_ns = 110 * MS};
    default:
        return (struct stk_event){.type = STK_EVENT_STEP, .lane = 1, .sequence = sequence - 3, .window_ns = 90 * MS};
    }
}

static void make(struct fixture *f, const struct stk_engine_limits *size, const struct stk_engine_options *how)
{
    *f = (struct fixture){.block = aligned_alloc(16, stk_engine_bytes(size))};
    assert_non_null(f->block);
    f->engine = stk_engine_init(f->block, stk_engine_bytes(size), size, how);
}

static size_t record(void)
{
    static struct fixture f;
    size_t size = stk_journal_write_head(bytes, &limits, &options);
    uint64_t last = 0;
    make(&f, &limits, &options);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct stk_event event = event_of(i);
        fixture_at(&f, 10 * i);
        (void)fixture_try(&f, event);
        assert_true(size + STK_JOURNAL_STEP_BYTES_MAX(1) < BYTES);
        size += stk_journal_write_step(bytes + size, last, f.now_ns, &event, 1, f.actions, f.count);
        last = f.now_ns;
    }
    fixture_free(&f);
    return size + stk_journal_write_end(bytes + size, false);
}

/* Replays; returns the steps whose actions were the same. */
static uint32_t replay(size_t size)
{
    static struct fixture f;
    struct stk_journal_reader reader;
    struct stk_engine_limits read_limits;
    struct stk_engine_options read_options;
    struct stk_journal_step step;
    struct stk_event event;
    uint32_t same = 0;
    assert_int_equal(stk_journal_open(&reader, bytes, size, &read_limits, &read_options, NULL), STOKER_OK);
    assert_memory_equal(&read_limits, &limits, sizeof limits);
    make(&f, &read_limits, &read_options);
    while (stk_journal_next(&reader, &event, 1, &step, NULL) == STOKER_OK) {
        f.now_ns = step.now_ns;
        if (step.event_count > 0) (void)fixture_try(&f, event);
        same += f.count == step.action_count && stk_journal_digest(f.actions, f.count) == step.digest;
    }
    assert_true(reader.ended || reader.offset == size);
    fixture_free(&f);
    return same;
}

static void test_replay_gives_the_same_actions(void **state)
{
    (void)state;
    size_t size = record();
    assert_true(size < STEPS * 60);
    assert_int_equal(replay(size), STEPS);
}

static void test_another_policy_gives_other_actions(void **state)
{
    (void)state;
    size_t size = record();
    struct stk_engine_options other = options;
    other.place.policy = STK_POLICY_ROUND_ROBIN;
    (void)stk_journal_write_head(bytes, &limits, &other); /* of the same length */
    assert_true(replay(size) < STEPS);
}

static void test_a_journal_that_is_cut_off_ends_with_its_last_whole_step(void **state)
{
    (void)state;
    size_t size = record(), head = stk_journal_write_head(bytes, &limits, &options);
    uint32_t before = 0;
    for (size_t cut = head; cut < size; cut += 7) {
        uint32_t same = replay(cut);
        assert_true(same >= before);
        before = same;
    }
    assert_true(before >= STEPS - 1);
}

static stoker_status open_bytes(size_t size, stoker_error *err)
{
    struct stk_journal_reader reader;
    struct stk_engine_limits read_limits;
    struct stk_engine_options read_options;
    return stk_journal_open(&reader, bytes, size, &read_limits, &read_options, err);
}

static void test_heads_that_are_wrong_are_refused(void **state)
{
    (void)state;
    stoker_error err = {0};
    size_t size = stk_journal_write_head(bytes, &limits, &options);
    assert_int_equal(open_bytes(size, NULL), STOKER_OK);
    assert_int_equal(open_bytes(size - 1, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "budget_step_bytes"));
    bytes[8] = 2;
    assert_int_equal(open_bytes(size, &err), STOKER_ERR_UNSUPPORTED);
    bytes[0] = 'X';
    assert_int_equal(open_bytes(size, &err), STOKER_ERR_CORRUPT);
    const struct stk_engine_limits none = {.lanes = 1, .tasks = 1},
                                   huge = {.servers = 1 << 20, .lanes = 1 << 20, .tasks = 1 << 24};
    size = stk_journal_write_head(bytes, &none, NULL);
    assert_int_equal(open_bytes(size, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "servers"));
    size = stk_journal_write_head(bytes, &huge, NULL);
    assert_int_equal(open_bytes(size, &err), STOKER_ERR_LIMIT);
}

static void test_records_that_are_wrong_are_refused(void **state)
{
    (void)state;
    struct stk_journal_reader reader;
    struct stk_engine_limits read_limits;
    struct stk_engine_options read_options;
    struct stk_journal_step step;
    struct stk_event events[2] = {{.type = STK_EVENT_TICK}, {.type = STK_EVENT_TICK}};
    stoker_error err = {0};
    size_t head = stk_journal_write_head(bytes, &limits, NULL);
    size_t size = head + stk_journal_write_step(bytes + head, 5, 9, events, 2, NULL, 0);
    assert_int_equal(stk_journal_open(&reader, bytes, size, &read_limits, &read_options, NULL), STOKER_OK);
    struct stk_journal_reader start = reader;
    assert_int_equal(stk_journal_next(&reader, events, 2, &step, NULL), STOKER_OK);
    assert_int_equal(step.now_ns, 4);
    assert_int_equal(step.event_count, 2);
    assert_int_equal(stk_journal_next(&reader, events, 2, &step, NULL), STOKER_END);
    reader = start;
    assert_int_equal(stk_journal_next(&reader, events, 1, &step, &err), STOKER_ERR_LIMIT);
    bytes[head] = 7;
    reader = start;
    assert_int_equal(stk_journal_next(&reader, events, 2, &step, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "tag 7"));
    bytes[head] = 1;
    bytes[head + 3] = STK_EVENT_TICK + 1;
    reader = start;
    assert_int_equal(stk_journal_next(&reader, events, 2, &step, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "type"));
    size = head + stk_journal_write_end(bytes + head, true);
    reader = start;
    reader.size = size;
    assert_int_equal(stk_journal_next(&reader, events, 2, &step, NULL), STOKER_END);
    assert_true(reader.limit_reached && reader.closed);
}

static void test_a_cut_is_told_from_an_end(void **state)
{
    (void)state;
    struct stk_journal_reader reader;
    struct stk_engine_limits read_limits;
    struct stk_engine_options read_options;
    struct stk_journal_step step;
    struct stk_event events[2] = {{.type = STK_EVENT_TICK}, {.type = STK_EVENT_TICK}};
    size_t head = stk_journal_write_head(bytes, &limits, NULL);
    size_t whole = head + stk_journal_write_step(bytes + head, 5, 9, events, 2, NULL, 0);
    size_t size = whole + stk_journal_write_end(bytes + whole, false);
    for (size_t cut = head; cut <= size; cut++) {
        assert_int_equal(stk_journal_open(&reader, bytes, cut, &read_limits, &read_options, NULL), STOKER_OK);
        if (cut >= whole) assert_int_equal(stk_journal_next(&reader, events, 2, &step, NULL), STOKER_OK);
        assert_int_equal(stk_journal_next(&reader, events, 2, &step, NULL), STOKER_END);
        assert_int_equal(reader.closed, cut == size);
        assert_int_equal(reader.whole_bytes, cut == size ? size : cut >= whole ? whole : head);
    }
}

static void test_the_digest_covers_each_field(void **state)
{
    (void)state;
    struct stk_action action = {0};
    uint64_t none = stk_journal_digest(&action, 1);
    assert_true(none != stk_journal_digest(&action, 0));
    action.local_ns = 1;
    assert_true(none != stk_journal_digest(&action, 1));
    action = (struct stk_action){.part = 1};
    assert_true(none != stk_journal_digest(&action, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_gives_the_same_actions),
        cmocka_unit_test(test_another_policy_gives_other_actions),
        cmocka_unit_test(test_a_journal_that_is_cut_off_ends_with_its_last_whole_step),
        cmocka_unit_test(test_heads_that_are_wrong_are_refused),
        cmocka_unit_test(test_records_that_are_wrong_are_refused),
        cmocka_unit_test(test_a_cut_is_told_from_an_end),
        cmocka_unit_test(test_the_digest_covers_each_field),
    };
    return stk_run_tests(tests);
}
