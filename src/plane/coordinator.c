/* SPDX-License-Identifier: Apache-2.0
 *
 * See coordinator.h.
 */
#include "plane/coordinator.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"

enum { EVENTS_QUEUED = 4096 };

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
    uint32_t filling; /* queue that takes events; the other one is being applied */
    size_t event_count[2];
    struct stk_event events[2][EVENTS_QUEUED];
};

stoker_status stk_coordinator_create(const struct stk_engine_limits *limits, const struct stk_coordinator_ops *ops,
                                     void *user, struct stk_coordinator **out_coordinator, stoker_error *err)
{
    struct stk_coordinator *coordinator = calloc(1, sizeof *coordinator);
    if (!coordinator) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the coordinator");
    size_t size = stk_engine_bytes(limits);
    coordinator->ops = ops;
    coordinator->user = user;
    coordinator->action_cap = stk_engine_actions_max(limits, EVENTS_QUEUED);
    coordinator->block = malloc(size);
    coordinator->actions = calloc(coordinator->action_cap, sizeof *coordinator->actions);
    if (!coordinator->block || !coordinator->actions) {
        stk_coordinator_destroy(coordinator);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the engine: %zu bytes", size);
    }
    coordinator->engine = stk_engine_init(coordinator->block, size, limits, NULL);
    *out_coordinator = coordinator;
    return STOKER_OK;
}

void stk_coordinator_destroy(struct stk_coordinator *coordinator)
{
    if (!coordinator) return;
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
    while (next < count) {
        stoker_error err = {0};
        size_t action_count = 0, applied = 0;
        stoker_status status =
            stk_engine_step(coordinator->engine, coordinator->now_ns, events + next, count - next, coordinator->actions,
                            coordinator->action_cap, &action_count, &applied, &err);
        for (size_t i = 0; i < action_count; i++) coordinator->ops->action(coordinator->user, &coordinator->actions[i]);
        next += applied;
        if (status < 0) {
            STK_ASSERT(next < count);
            coordinator->ops->refused(coordinator->user, &events[next], &err);
            next++;
        }
    }
}

void stk_coordinator_step(struct stk_coordinator *coordinator, uint64_t now_ns)
{
    STK_ASSERT(!coordinator->stepping);
    uint32_t full = coordinator->filling;
    if (coordinator->event_count[full] == 0) return;
    if (now_ns > coordinator->now_ns) coordinator->now_ns = now_ns;
    coordinator->stepping = true;
    coordinator->filling = 1 - full;
    apply(coordinator, coordinator->events[full], coordinator->event_count[full]);
    coordinator->event_count[full] = 0;
    coordinator->stepping = false;
}

uint64_t stk_coordinator_window_ns(const struct stk_coordinator *coordinator, uint32_t lane)
{
    return stk_engine_window_ns(coordinator->engine, lane);
}
