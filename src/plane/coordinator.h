/* SPDX-License-Identifier: Apache-2.0
 *
 * The shell around the engine (sched/engine): collects events, steps once with the time of its owner, and hands every
 * action to a callback. It decides nothing. Embedded: it lives in the DataServer's loop, which is its only server.
 */
#ifndef STK_PLANE_COORDINATOR_H
#define STK_PLANE_COORDINATOR_H

#include <stdint.h>

#include "sched/engine.h"

struct stk_coordinator;

struct stk_coordinator_ops {
    void (*action)(void *user, const struct stk_action *action);
    /* The engine refused an event because a table is full. */
    void (*refused)(void *user, const struct stk_event *event, const stoker_error *err);
};

stoker_status stk_coordinator_create(const struct stk_engine_limits *limits, const struct stk_coordinator_ops *ops,
                                     void *user, struct stk_coordinator **out_coordinator, stoker_error *err);
void stk_coordinator_destroy(struct stk_coordinator *coordinator); /* NULL allowed */

/* Queues an event; a full queue is stepped first, at time now_ns. */
void stk_coordinator_event(struct stk_coordinator *coordinator, uint64_t now_ns, const struct stk_event *event);
/* Steps once if there are events. Callbacks run inside; each may queue one event, which the next step applies. */
void stk_coordinator_step(struct stk_coordinator *coordinator, uint64_t now_ns);

uint64_t stk_coordinator_window_ns(const struct stk_coordinator *coordinator, uint32_t lane);

#endif
