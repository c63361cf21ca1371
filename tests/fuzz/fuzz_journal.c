/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for journals of the engine. What the reader accepts is replayed, if the engine is a small one: no event
 * may break an invariant of it, whatever a file says. What was read is written again and must be read as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/journal.h"
#include "tests/fuzz/fuzz.h"

enum { EVENTS = 64, ENGINE_BYTES_MAX = 1 << 20, ACTIONS_MAX = 1 << 14 };

struct replay {
    struct stk_engine *engine; /* NULL: too large to be made for each input */
    void *block;
    struct stk_action *actions;
};

static void start(struct replay *replay, const struct stk_engine_limits *limits,
                  const struct stk_engine_options *options)
{
    size_t size = stk_engine_bytes(limits);
    if (size > ENGINE_BYTES_MAX || stk_engine_actions_max(limits, EVENTS) > ACTIONS_MAX) return;
    replay->block = aligned_alloc(16, size);
    replay->actions = calloc(ACTIONS_MAX, sizeof *replay->actions);
    STK_FUZZ_CHECK(replay->block && replay->actions);
    replay->engine = stk_engine_init(replay->block, size, limits, options);
}

static void step(const struct replay *replay, const struct stk_event *events, const struct stk_journal_step *read)
{
    size_t done = 0;
    while (replay->engine && done < read->event_count) {
        size_t count = 0, applied = 0;
        stoker_error err = {0};
        stoker_status status = stk_engine_step(replay->engine, read->now_ns, events + done, read->event_count - done,
                                               replay->actions, ACTIONS_MAX, &count, &applied, &err);
        STK_FUZZ_CHECK(
            count <= stk_engine_actions_max(&(struct stk_engine_limits){.servers = 1, .lanes = 1, .tasks = ACTIONS_MAX},
                                            EVENTS));
        if (status == STOKER_OK) break;
        STK_FUZZ_CHECK(err.message[0] != 0);
        done += applied + 1;
    }
}

static void check_again(const struct stk_event *events, const struct stk_journal_step *read)
{
    static uint8_t bytes[STK_JOURNAL_HEAD_BYTES_MAX + STK_JOURNAL_STEP_BYTES_MAX(EVENTS)];
    static struct stk_event again[EVENTS];
    const struct stk_engine_limits limits = {.servers = 1, .lanes = 1, .tasks = 1};
    struct stk_engine_limits read_limits;
    struct stk_engine_options options;
    struct stk_journal_reader reader;
    struct stk_journal_step same;
    size_t size = stk_journal_write_head(bytes, &limits, NULL);
    size += stk_journal_write_step(bytes + size, 0, read->now_ns, events, read->event_count, NULL, 0);
    STK_FUZZ_CHECK(stk_journal_open(&reader, bytes, size, &read_limits, &options, NULL) == STOKER_OK);
    STK_FUZZ_CHECK(stk_journal_next(&reader, again, EVENTS, &same, NULL) == STOKER_OK);
    STK_FUZZ_CHECK(same.now_ns == read->now_ns && same.event_count == read->event_count);
    STK_FUZZ_CHECK(memcmp(again, events, read->event_count * sizeof *events) == 0);
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    static struct stk_event events[EVENTS];
    struct stk_engine_limits limits;
    struct stk_engine_options options;
    struct stk_journal_reader reader;
    struct stk_journal_step read;
    stoker_error err = {0};
    stoker_status status = stk_journal_open(&reader, data, size, &limits, &options, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(err.message[0] != 0);
        return 0;
    }
    struct replay replay = {0};
    start(&replay, &limits, &options);
    memset(events, 0, sizeof events); /* also what is between the fields, which check_again() compares */
    while ((status = stk_journal_next(&reader, events, EVENTS, &read, &err)) == STOKER_OK) {
        step(&replay, events, &read);
        check_again(events, &read);
    }
    STK_FUZZ_CHECK(status == STOKER_END || err.message[0] != 0);
    free(replay.actions);
    free(replay.block);
    return status == STOKER_END;
}
