/* SPDX-License-Identifier: Apache-2.0
 *
 * The shell around the engine (sched/engine): collects events, steps once with the time of its owner, and hands every
 * action to a callback. It decides nothing. Embedded: it lives in the DataServer's loop, which is its only server.
 *
 * On request it records what the engine is told (sched/journal), so that a fault can be replayed elsewhere.
 */
#ifndef STK_PLANE_COORDINATOR_H
#define STK_PLANE_COORDINATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/engine.h"

struct stk_coordinator;

struct stk_coordinator_ops {
    void (*action)(void *user, const struct stk_action *action);
    /* The engine refused an event because a table is full, or because it makes no sense. */
    void (*refused)(void *user, const struct stk_event *event, const stoker_error *err);
    /* A piece of the journal, in order; NULL: none is kept. False: it could not be kept, and nothing more is. */
    bool (*record)(void *user, const void *bytes, size_t size);
};

struct stk_coordinator_options {
    struct stk_engine_limits limits;
    struct stk_engine_options engine;
    uint64_t record_bytes_max; /* of the journal; 0: STK_COORDINATOR_RECORD_BYTES */
};
#define STK_COORDINATOR_RECORD_BYTES (UINT64_C(64) << 20)

/* `ops` is borrowed as long as the coordinator lives; `options` for the call. */
stoker_status stk_coordinator_create(const struct stk_coordinator_options *options,
                                     const struct stk_coordinator_ops *ops, void *user,
                                     struct stk_coordinator **out_coordinator, stoker_error *err);
/* Ends the journal. NULL allowed. */
void stk_coordinator_destroy(struct stk_coordinator *coordinator);

/* Queues an event; a full queue is stepped first, at time now_ns. */
void stk_coordinator_event(struct stk_coordinator *coordinator, uint64_t now_ns, const struct stk_event *event);
/* Steps once if there are events, or if the engine wants to look at its tasks by now. Callbacks run inside; each may
 * queue one event, which the next step applies. */
void stk_coordinator_step(struct stk_coordinator *coordinator, uint64_t now_ns);
/* When to step at the latest although there are no events; UINT64_MAX: never. */
uint64_t stk_coordinator_next_ns(const struct stk_coordinator *coordinator);

/* For status: the engine, to be read. */
const struct stk_engine *stk_coordinator_engine(const struct stk_coordinator *coordinator);
uint64_t stk_coordinator_window_ns(const struct stk_coordinator *coordinator, uint32_t lane);

#endif
