/* SPDX-License-Identifier: Apache-2.0
 *
 * The Coordinator's state machine: events in, actions out. It decides on which DataServer a task is made and by when it
 * is needed, over many hosts, DataServers, jobs and ranks; workers of a server then follow sched/dispatch. The embedded
 * plane, the Coordinator and the simulator run this code and have no scheduling code of their own.
 *
 *     host    a machine: its network is what transfers share
 *     server  a DataServer on a host, in one pool; local to the ranks of its host, a sidecar to all others
 *     lane    one (loader, rank) of a job: its own local server, and the pools that it is associated with. Candidates
 *             never leave them: the lane's server, and the servers of its pools
 *     group   the ranks of one synchronised loader: they share windows, and one deadline a step
 *     task    a batch or a part of it (fan-out): (lane, iteration, sequence, part)
 *
 * Deadlines (rule D1). Windows: sched/window; deadline of sequence s = now + (time left of the window in progress) +
 * (s - next) * window, never before now, never falling with s; during a pause "now plus one window". Messages carry
 * durations; only the owner of the engine adds them to its clock.
 *
 * Placement: sched/place chooses among the lane's own server, those of its host (STK_ENGINE_LOCAL_LOOK at most) and, of
 * each pool, the heads of a few heaps by earliest start: O(log servers) a decision. Costs come from sched/cost (limits
 * with models > 0 and requests with features), or from the request. With hold > 0 a task that no server accepts waits
 * in the engine, in order of weighted deficit between groups and earliest deadline inside, until a result makes room.
 *
 * A straggler gets a second copy where that is predicted to help; the first result wins and the other is cancelled
 * (rule C3). A server that has not answered yet gets second copies only (probes), unless there is nobody else: one that
 * cannot do its work harms nobody so, and more servers are never worse than fewer (docs/decisions/0182). What crosses
 * hosts is paid from a job's byte budget (sched/budget).
 *
 * Pure: one block sized at creation (rule D3), integers decide, ties by number. Same events, same actions, on every
 * machine.
 */
#ifndef STK_SCHED_ENGINE_H
#define STK_SCHED_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "base/limits.h"
#include "sched/cost.h"
#include "sched/place.h"

#define STK_WINDOW_SAMPLES 15u
#define STK_WINDOW_PAUSE_FACTOR 5u
#define STK_WINDOW_DEFAULT_NS (STK_SECOND_NS / 10)

#define STK_ENGINE_POOLS 64u
#define STK_ENGINE_LOCAL_LOOK 16u /* servers of the rank's host that are looked at */
#define STK_ENGINE_SHARDS 4u      /* heads looked at in each pool: idle and busy servers, of each shard */
#define STK_ENGINE_TRIES 4u       /* placements of a task whose servers fail, then it is given up */

struct stk_engine;

/* Rule D3: what does not fit is refused with LIMIT. */
struct stk_engine_limits {
    uint32_t servers, lanes, tasks;
    uint32_t hosts;  /* 0: one a server */
    uint32_t jobs;   /* 0: one a lane */
    uint32_t links;  /* host pairs whose speed is remembered (oldest out); 0: four a host */
    uint32_t models; /* of the cost model; 0: costs come with the requests */
};

/* Zero means the default throughout. */
struct stk_engine_options {
    struct stk_place_options place;
    uint32_t hold;              /* items a worker beyond which a server accepts no more; 0: no limit */
    uint32_t copy_percent;      /* a task is a straggler past this share of its predicted time; 0: 200; UINT32_MAX:
                                     never */
    uint64_t latency_ns;        /* of a transfer between hosts not measured yet; 0: 0.2 ms */
    uint64_t bytes_per_s;       /* likewise; 0: 1.25e9 (10 Gbit/s) */
    uint64_t overhead_ns;       /* of handing a task to a remote server and hearing of it; 0: 0.2 ms */
    uint64_t budget_step_bytes; /* a job's cross-host bytes a step; 0: no limit. LANE_OPEN may set it per job */
};

enum stk_event_type {
    STK_EVENT_SERVER_JOIN = 0,  /* server, host, pool, workers. A second join of a number: it restarted, with new
                                   figures; its tasks are placed again */
    STK_EVENT_SERVER_LEAVE = 1, /* server: its tasks are placed again */
    STK_EVENT_LANE_OPEN = 2,  /* lane, server (the local one), host (of the rank), group, job, pools (0: pool 0), rank,
                                   weight (0: 1), budget_bytes (0: the option's) */
    STK_EVENT_LANE_BEGIN = 3, /* lane: a new iteration; outstanding tasks of the lane are forgotten (those on other
                                   servers than its own are cancelled), sequences restart at 0 */
    STK_EVENT_LANE_CLOSE = 4, /* lane */
    STK_EVENT_REQUEST = 5,    /* lane, sequence, part, items; class_id and features, or cpu_ns, io_ns, margin_ns of the
                                   whole task; output_bytes; data_known and data_host: the host that holds the input */
    STK_EVENT_RESULT = 6,     /* lane, sequence, part, server: made (or failed for good, `failed`: teaches nothing);
                                   cpu_ns, wall_ns of the whole task, output_bytes, flags (enum stk_cost_flag) */
    STK_EVENT_STEP = 7,       /* lane, sequence, wait_ns, window_ns: the rank took batch `sequence` */
    STK_EVENT_HEARTBEAT = 8,  /* server: workers, load_ns (CPU time of queued work that this engine did not place),
                                   latency_ns (from task to start on an idle worker), saturated */
    STK_EVENT_LINK = 9,       /* host (from), to_host, bytes_per_s, latency_ns, inflight_bytes: as measured */
    STK_EVENT_FAILURE = 10,   /* lane, sequence, part, server: the server could not make it, another try is due */
    STK_EVENT_CANCEL = 11,    /* lane, sequence, part: not wanted any more */
    STK_EVENT_TICK = 12       /* time passed: pauses, stragglers and held tasks are looked at */
};

/* One flat record; each type reads the fields that are named with it. */
struct stk_event {
    enum stk_event_type type;
    uint32_t server, lane, group;
    uint32_t workers;
    uint32_t items;
    uint32_t host, to_host, pool, job, rank, part, weight;
    uint32_t class_id, flags;
    bool failed, saturated, data_known;
    uint32_t data_host;
    uint64_t pools; /* bit per pool */
    uint64_t sequence;
    uint64_t wait_ns, window_ns;
    uint64_t cpu_ns, io_ns, margin_ns, wall_ns;
    uint64_t output_bytes, budget_bytes, inflight_bytes;
    uint64_t load_ns, latency_ns, bytes_per_s;
    struct stk_cost_features features;
};

enum stk_action_type {
    STK_ACTION_PLACE = 0,    /* lane, sequence, part -> server, deadline_ns, reason, scores. A second PLACE of a live
                                task: with reason COPY or PROBE both go on; else the earlier server failed or left */
    STK_ACTION_DEADLINE = 1, /* lane, sequence, part on server: deadline_ns changed */
    STK_ACTION_CANCEL = 2,   /* lane, sequence, part on server: not wanted there any more. The lane's own server is told
                                of copies that lost; it knows of what its rank does not want */
    STK_ACTION_GIVE_UP = 3   /* lane, sequence, part: STK_ENGINE_TRIES servers failed; the task is forgotten */
};

struct stk_action {
    enum stk_action_type type;
    uint32_t server, lane, part;
    uint64_t sequence;
    uint64_t deadline_ns;
    enum stk_place_reason reason;
    uint32_t candidates;        /* that were compared */
    uint64_t total_ns, late_ns; /* T and M of the chosen server */
    uint64_t cpu_ns, io_ns, queue_ns, net_ns;
    uint64_t local_ns; /* T of the best local candidate; UINT64_MAX: there was none */
};

size_t stk_engine_bytes(const struct stk_engine_limits *limits);
/* `options` may be NULL. The block is aligned to 16. */
struct stk_engine *stk_engine_init(void *block, size_t size, const struct stk_engine_limits *limits,
                                   const struct stk_engine_options *options);

/* Actions that a step of n events can write at most. */
size_t stk_engine_actions_max(const struct stk_engine_limits *limits, size_t n);

/* The only way in: applies n events in order at time now_ns (never falling) and writes the actions that follow. Returns
 * LIMIT when a table is full, INVALID_ARGUMENT for an event that makes no sense (a request of a lane that is not open,
 * a lane that is opened twice, a number out of range): the event is refused, named in err, later events are not
 * applied; *out_applied says how many were, and the actions of those are written. Other events of unknown lanes and
 * servers are late news and change nothing. A task waits while no server with workers has joined. `cap` must be at
 * least stk_engine_actions_max(limits, n). */
stoker_status stk_engine_step(struct stk_engine *engine, uint64_t now_ns, const struct stk_event *events, size_t n,
                              struct stk_action *actions, size_t cap, size_t *out_actions, size_t *out_applied,
                              stoker_error *err);

/* When the engine wants a TICK at the latest although nothing happens (a straggler's check); UINT64_MAX: never. */
uint64_t stk_engine_next_check_ns(const struct stk_engine *engine);

/* The learned window of a lane's group, for status and tests. */
uint64_t stk_engine_window_ns(const struct stk_engine *engine, uint32_t lane);

/* What the engine expects of a lane, for status; false if it is not open. */
struct stk_engine_lane {
    uint64_t window_ns;
    uint64_t next;        /* the batch that its group is predicted to want next */
    uint64_t deadline_ns; /* when; now, if that is past; "now plus one window" in a pause */
    bool paused;
    uint32_t tasks; /* in flight */
    bool placed;    /* the rest is known: of the last placement of the lane */
    enum stk_place_reason reason;
    uint32_t server;
    uint64_t total_ns, late_ns;
};
bool stk_engine_read_lane(const struct stk_engine *engine, uint32_t lane, struct stk_engine_lane *out);
const struct stk_engine_options *stk_engine_read_options(const struct stk_engine *engine);

/* Counters since creation, for status and reports. */
struct stk_engine_stats {
    uint32_t servers, lanes, tasks, held; /* now */
    uint64_t placed, remote;              /* placements, and those across hosts */
    uint64_t by_reason[12];               /* enum stk_place_reason */
    uint64_t copies, copies_won, probes, canceled, failed;
    uint64_t late;        /* placements with M > 0 */
    uint64_t cross_bytes; /* of placements across hosts */
};
void stk_engine_read_stats(const struct stk_engine *engine, struct stk_engine_stats *out);

/* What the engine knows of a server, for status; false if it has not joined. */
struct stk_engine_server {
    uint32_t host, pool, workers, tasks;
    uint64_t items, backlog_ns;
    uint32_t stretch_permille; /* how much longer its tasks take than predicted; 1000 at least */
    bool saturated;
};
bool stk_engine_read_server(const struct stk_engine *engine, uint32_t server, struct stk_engine_server *out);

/* The cost model inside, or NULL (limits.models == 0): for status and to load profiles. */
struct stk_cost_model *stk_engine_cost(struct stk_engine *engine);

#endif
