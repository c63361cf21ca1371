/* SPDX-License-Identifier: Apache-2.0
 *
 * The Coordinator's state machine: events in, actions out. It decides on which DataServer a batch is made and by when
 * it is needed; workers of that server then follow sched/dispatch. This first engine routes to the least-loaded server;
 * deadlines are learned from the ranks' windows.
 *
 * Windows (rule D1): the running median of the last STK_WINDOW_SAMPLES intervals of a group (the ranks of one
 * synchronised loader); an interval above five medians is a pause and is not learned; while a rank pauses, its
 * deadlines are "now plus one window". Deadline of sequence s = now + (time left of the window in progress) + (s -
 * next) * window, never before now, never falling with s, one per (group, generation-relative step) so that ranks of a
 * group share it. Messages carry durations; only the owner of the engine adds them to its clock.
 *
 * Pure: one block sized at creation, integer nanoseconds, ties by id. Same events, same actions, on every machine.
 */
#ifndef STK_SCHED_ENGINE_H
#define STK_SCHED_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "base/limits.h"

#define STK_WINDOW_SAMPLES 15u
#define STK_WINDOW_PAUSE_FACTOR 5u
#define STK_WINDOW_DEFAULT_NS (STK_SECOND_NS / 10)

struct stk_engine;

struct stk_engine_limits {
    uint32_t servers, lanes, tasks;
};

enum stk_event_type {
    STK_EVENT_SERVER_JOIN,  /* server, workers */
    STK_EVENT_SERVER_LEAVE, /* server: its tasks are placed again */
    STK_EVENT_LANE_OPEN,    /* lane, server (the local one), group */
    STK_EVENT_LANE_BEGIN,   /* lane: a new iteration; outstanding tasks of the lane are forgotten, sequences restart at
                               0 */
    STK_EVENT_LANE_CLOSE,   /* lane */
    STK_EVENT_REQUEST,      /* lane, sequence, items */
    STK_EVENT_RESULT,       /* lane, sequence: made (or failed) */
    STK_EVENT_STEP          /* lane, sequence, wait_ns, window_ns: the rank took batch `sequence` */
};

struct stk_event {
    enum stk_event_type type;
    uint32_t server, lane, group;
    uint32_t workers;
    uint32_t items;
    uint64_t sequence;
    uint64_t wait_ns, window_ns;
};

enum stk_action_type {
    STK_ACTION_PLACE,   /* lane, sequence -> server, deadline_ns, reason */
    STK_ACTION_DEADLINE /* lane, sequence: deadline_ns changed */
};

enum stk_place_reason { STK_REASON_ONLY, STK_REASON_LEAST_LOADED, STK_REASON_TIE_LOCAL };

struct stk_action {
    enum stk_action_type type;
    uint32_t server, lane;
    uint64_t sequence;
    uint64_t deadline_ns;
    enum stk_place_reason reason;
};

size_t stk_engine_bytes(const struct stk_engine_limits *limits);
struct stk_engine *stk_engine_init(void *block, size_t size, const struct stk_engine_limits *limits);

/* The only way in: applies n events in order at time now_ns (never falling) and writes the actions that follow. Returns
 * LIMIT when a table is full, INVALID_ARGUMENT for a request of a lane that is not open or a lane that is opened twice:
 * the event is refused, named in err, later events are not applied; *out_applied says how many were, and the actions of
 * those are written. Other events of unknown lanes and servers are late news and change nothing. A task waits while no
 * server has joined. `cap` must be at least n + limits.tasks. */
stoker_status stk_engine_step(struct stk_engine *engine, uint64_t now_ns, const struct stk_event *events, size_t n,
                              struct stk_action *actions, size_t cap, size_t *out_actions, size_t *out_applied,
                              stoker_error *err);

/* The learned window of a lane's group, for status and tests. */
uint64_t stk_engine_window_ns(const struct stk_engine *engine, uint32_t lane);

#endif
