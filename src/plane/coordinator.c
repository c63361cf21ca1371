/* SPDX-License-Identifier: Apache-2.0
 *
 * See coordinator.h.
 */
#include "plane/coordinator.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/journal.h"

enum { EVENTS_QUEUED = 4096 };

struct journal {
    uint8_t *bytes; /* of one step; NULL: none is kept */
    uint64_t left, last_ns;
};

struct stk_coordinator {
    /* Fixed after create. */
    struct stk_engine *engine;
    const struct stk_coordinator_ops *ops;
    void *user;
    void *block;
    struct stk_action *actions;
    size_t action_cap;
    /* Owned by the loop. */
    uint64_t now_ns;
    bool stepping;
    struct journal journal;
    uint32_t filling; /* queue that takes events; the other one is being applied */
    size_t event_count[2];
    struct stk_event events[2][EVENTS_QUEUED];
};

/* ---- journal */

static void stop_recording(struct stk_coordinator *coordinator)
{
    free(coordinator->journal.bytes);
    coordinator->journal.bytes = NULL;
}

static void record(struct stk_coordinator *coordinator, size_t size)
{
    struct journal *journal = &coordinator->journal;
    if (size <= journal->left) {
        journal->left -= size;
        if (!coordinator->ops->record(coordinator->user, journal->bytes, size)) stop_recording(coordinator);
        return;
    }
    size = stk_journal_write_end(journal->bytes, true);
    (void)coordinator->ops->record(coordinator->user, journal->bytes, size); /* it is the last in any case */
    stop_recording(coordinator);
}

static stoker_status start_recording(struct stk_coordinator *coordinator, const struct stk_coordinator_options *options,
                                     stoker_error *err)
{
    struct journal *journal = &coordinator->journal;
    if (!coordinator->ops->record) return STOKER_OK;
    size_t size = STK_JOURNAL_STEP_BYTES_MAX(EVENTS_QUEUED);
    journal->bytes = malloc(size);
    if (!journal->bytes) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the journal: %zu bytes", size);
    journal->left = options->record_bytes_max ? options->record_bytes_max : STK_COORDINATOR_RECORD_BYTES;
    record(coordinator, stk_journal_write_head(journal->bytes, &options->limits, &options->engine));
    return STOKER_OK;
}

static void record_step(struct stk_coordinator *coordinator, const struct stk_event *events, size_t count,
                        size_t action_count)
{
    struct journal *journal = &coordinator->journal;
    if (!journal->bytes) return;
    size_t size = stk_journal_write_step(journal->bytes, journal->last_ns, coordinator->now_ns, events, count,
                                         coordinator->actions, action_count);
    journal->last_ns = coordinator->now_ns;
    record(coordinator, size);
}

/* ---- */

stoker_status stk_coordinator_create(const struct stk_coordinator_options *options,
                                     const struct stk_coordinator_ops *ops, void *user,
                                     struct stk_coordinator **out_coordinator, stoker_error *err)
{
    struct stk_coordinator *coordinator = calloc(1, sizeof *coordinator);
    if (!coordinator) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the coordinator");
    size_t size = stk_engine_bytes(&options->limits);
    coordinator->ops = ops;
    coordinator->user = user;
    coordinator->action_cap = stk_engine_actions_max(&options->limits, EVENTS_QUEUED);
    coordinator->block = malloc(size);
    coordinator->actions = calloc(coordinator->action_cap, sizeof *coordinator->actions);
    stoker_status status = STOKER_OK;
    if (!coordinator->block || !coordinator->actions)
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the engine: %zu bytes", size);
    else
        status = start_recording(coordinator, options, err);
    if (status != STOKER_OK) {
        stop_recording(coordinator);
        stk_coordinator_destroy(coordinator);
        return status;
    }
    coordinator->engine = stk_engine_init(coordinator->block, size, &options->limits, &options->engine);
    *out_coordinator = coordinator;
    return STOKER_OK;
}

void stk_coordinator_destroy(struct stk_coordinator *coordinator)
{
    if (!coordinator) return;
    if (coordinator->journal.bytes) record(coordinator, stk_journal_write_end(coordinator->journal.bytes, false));
    stop_recording(coordinator);
    free(coordinator->actions);
    free(coordinator->block);
    free(coordinator);
}

void stk_coordinator_event(struct stk_coordinator *coordinator, uint64_t now_ns, const struct stk_event *event)
{
    /* Inside a step the queue has room: it was empty at its start and takes one event for each that is applied.
     * Outside, what a step queued is no request, so the next step queues nothing. */
    while (!coordinator->stepping && coordinator->event_count[coordinator->filling] == EVENTS_QUEUED)
        stk_coordinator_step(coordinator, now_ns);
    size_t *count = &coordinator->event_count[coordinator->filling];
    STK_ASSERT(*count < EVENTS_QUEUED);
    coordinator->events[coordinator->filling][(*count)++] = *event;
}

static void apply(struct stk_coordinator *coordinator, const struct stk_event *events, size_t count)
{
    size_t next = 0;
    do {
        stoker_error err = {0};
        size_t action_count = 0, applied = 0;
        stoker_status status =
            stk_engine_step(coordinator->engine, coordinator->now_ns, events + next, count - next, coordinator->actions,
                            coordinator->action_cap, &action_count, &applied, &err);
        record_step(coordinator, events + next, applied + (status < 0 ? 1 : 0), action_count);
        for (size_t i = 0; i < action_count; i++) coordinator->ops->action(coordinator->user, &coordinator->actions[i]);
        next += applied;
        if (status < 0) {
            STK_ASSERT(next < count);
            coordinator->ops->refused(coordinator->user, &events[next], &err);
            next++;
        }
    } while (next < count);
}

void stk_coordinator_step(struct stk_coordinator *coordinator, uint64_t now_ns)
{
    STK_ASSERT(!coordinator->stepping);
    uint32_t full = coordinator->filling;
    if (coordinator->event_count[full] == 0 && stk_coordinator_next_ns(coordinator) > now_ns) return;
    if (now_ns > coordinator->now_ns) coordinator->now_ns = now_ns;
    coordinator->stepping = true;
    coordinator->filling = 1 - full;
    apply(coordinator, coordinator->events[full], coordinator->event_count[full]);
    coordinator->event_count[full] = 0;
    coordinator->stepping = false;
}

uint64_t stk_coordinator_next_ns(const struct stk_coordinator *coordinator)
{
    return stk_engine_next_check_ns(coordinator->engine);
}

const struct stk_engine *stk_coordinator_engine(const struct stk_coordinator *coordinator)
{
    return coordinator->engine;
}

uint64_t stk_coordinator_window_ns(const struct stk_coordinator *coordinator, uint32_t lane)
{
    return stk_engine_window_ns(coordinator->engine, lane);
}
