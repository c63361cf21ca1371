/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of the engine and what its files call of one another:
 *
 *     engine.c           the block, the step, what events do to lanes and requests
 *     engine_task.c      tasks and their seats (where they are being made)
 *     engine_server.c    hosts, servers, their backlog and the heaps that find the least busy
 *     engine_deadline.c  groups, windows and deadlines
 *     engine_place.c     candidates, scores, held tasks, second copies
 *
 * A seat is one placement of a task; a straggler may have two. Work is predicted nanoseconds of one core.
 */
#ifndef STK_SCHED_ENGINE_INTERNAL_H
#define STK_SCHED_ENGINE_INTERNAL_H

#include "sched/budget.h"
#include "sched/engine.h"
#include "sched/heap.h"
#include "sched/link.h"
#include "sched/share.h"
#include "sched/window.h"

#define NONE UINT32_MAX
#define SEATS 2u
#define STRETCH_ONE 1024u
#define STRETCH_MAX (16u * STRETCH_ONE)
#define WORK_NS_MAX (UINT64_C(1) << 46) /* of one task: 19 hours */
#define BYTES_MAX (UINT64_C(1) << 40)   /* of one task */
/* Sums over tasks end here, 36 years: a sixteenth of what fits, whatever was asked for and however many tasks. */
#define HORIZON_NS (UINT64_C(1) << 60)
_Static_assert(2 * WORK_NS_MAX * (STRETCH_MAX / STRETCH_ONE) <= HORIZON_NS, "one task's work is no longer than a sum");

enum server_heap { HEAP_IDLE, HEAP_BUSY, HEAP_NEW, HEAP_COUNT }; /* idle: a worker is free; new: not proven */

struct host {
    uint32_t servers, first_server;
    uint64_t in_free_ns, out_free_ns; /* when what was promised will have crossed its network */
    uint32_t speed;                   /* time of a task here, in 1/1024 of the time elsewhere */
};

struct server {
    bool joined, saturated, accepts;
    bool proven;      /* has answered since it joined, or since it was last suspected */
    bool suspect;     /* was much slower than predicted */
    uint32_t answers; /* since it joined; eight are as good as more */
    uint32_t host, pool, workers;
    uint32_t heap, root; /* HEAP_COUNT: in none */
    uint32_t host_prev, host_next;
    uint32_t first_seat;
    uint32_t tasks;
    uint64_t items, work_ns; /* placed and not answered */
    uint64_t free_ns;        /* when that is predicted to be done */
    uint64_t extra_ns;       /* work of others, as reported */
    uint64_t latency_ns;
    uint32_t stretch;
};

struct lane {
    bool open;
    uint32_t server, host, group, job, rank; /* the local server; slot of the group */
    uint64_t pools;
    uint32_t next_in_group;
    uint32_t iteration; /* begins so far, counted as the group does */
    uint32_t pauses_in_a_row;
    uint32_t first, last; /* tasks, in order of request */
    uint32_t last_remote;
    struct stk_engine_lane shown; /* its last placement, for status */
    uint32_t tasks;
};

struct group {
    uint32_t key, lanes, first_lane; /* lanes == 0: free slot */
    uint32_t live_at;
    uint32_t job;
    uint32_t iteration;
    struct stk_window window;
    uint64_t next, next_ns, pace_ns; /* the line of deadlines: batch `next` at next_ns, then one a pace */
    uint64_t paused_until_ns;        /* 0: the ranks do not pause */
    uint64_t last_step_ns;
    bool changed;  /* deadlines must be looked at */
    uint32_t held; /* root of the heap of held tasks */
};

struct job {
    uint32_t lanes;
    struct stk_budget budget;
};

struct seat {
    uint32_t server; /* NONE: not taken */
    uint32_t prev, next;
    uint64_t placed_ns, total_ns;
    uint64_t work_ns; /* as it counts in the server's sum: less where that ends */
    uint32_t stretch; /* that work_ns was predicted with */
};

struct task {
    uint32_t lane, part, items;
    uint32_t class_id, data_host, avoid, tries; /* avoid: the server that failed */
    bool featured, held;
    uint32_t fresh_next; /* chain of those that a step must place */
    uint64_t sequence, deadline_ns, order;
    uint64_t cpu_ns, io_ns, margin_ns, output_bytes;
    struct stk_cost_features features;
    uint32_t prev, next; /* in the lane; next is also the chain of free slots */
    uint32_t bucket_next;
    uint32_t copy; /* the seat of the second copy, or NONE */
    struct seat seats[SEATS];
};

struct stk_engine {
    struct stk_engine_limits limits;
    struct stk_engine_options options;
    uint64_t now_ns;
    struct host *hosts;
    struct server *servers;
    struct lane *lanes;
    struct group *groups; /* one a lane at most */
    struct job *jobs;
    struct task *tasks;
    struct stk_heap_node *server_nodes, *held_nodes, *check_nodes, *share_nodes;
    struct stk_share_flow *share_flows;
    struct stk_share share; /* between groups, of held tasks */
    struct stk_links *links;
    struct stk_cost_model *cost;
    struct stk_candidate *candidates; /* scratch of a decision */
    uint32_t *live_groups;
    uint32_t live_group_count;
    uint32_t roots[STK_ENGINE_POOLS][HEAP_COUNT][STK_ENGINE_SHARDS];
    uint32_t working_servers, accepting_servers;
    bool room; /* a server accepts again: held tasks are looked at */
    uint32_t held_count, first_fresh, last_fresh;
    uint32_t round_robin;
    uint32_t *buckets; /* tasks by (lane, sequence, part) */
    uint32_t bucket_mask;
    uint32_t free_task, tasks_touched;
    uint32_t checks;     /* root: when to look for stragglers */
    uint32_t copies_now; /* tasks in two seats */
    uint64_t next_order;
    struct stk_engine_stats stats;
    /* of the step in progress */
    struct stk_action *actions;
    size_t action_count, action_cap;
};

struct stk_action *stk_engine_act(struct stk_engine *engine, enum stk_action_type type, const struct task *task,
                                  uint32_t server);

/* engine_task.c */
uint32_t stk_engine_task_find(const struct stk_engine *engine, uint32_t lane, uint64_t sequence, uint32_t part);
stoker_status stk_engine_task_add(struct stk_engine *engine, const struct stk_event *event, stoker_error *err);
/* Frees the task's seats and cancels them, but for that of the server `except`, which has answered; NONE: the task is
 * not wanted any more, which the lane's own server knows. */
void stk_engine_task_drop(struct stk_engine *engine, uint32_t task, uint32_t except);
void stk_engine_lane_drop_tasks(struct stk_engine *engine, uint32_t lane);
/* To be placed at the end of the step. */
void stk_engine_task_fresh(struct stk_engine *engine, uint32_t task);
/* Waits for a server: in the heap of its group. */
void stk_engine_task_hold(struct stk_engine *engine, uint32_t task);
void stk_engine_task_unhold(struct stk_engine *engine, uint32_t task);
uint32_t stk_engine_seat_of(const struct task *task, uint32_t server);
/* Another try after its server failed; forgets it at last. */
void stk_engine_task_again(struct stk_engine *engine, uint32_t task, uint32_t seat);

/* engine_server.c */
stoker_status stk_engine_server_join(struct stk_engine *engine, const struct stk_event *event, stoker_error *err);
void stk_engine_server_leave(struct stk_engine *engine, uint32_t server);
void stk_engine_heartbeat(struct stk_engine *engine, const struct stk_event *event);
void stk_engine_link(struct stk_engine *engine, const struct stk_event *event);
/* Puts the server into the heap where its state belongs. */
void stk_engine_server_settle(struct stk_engine *engine, uint32_t server);
/* The seat is taken: its work counts as the server's backlog. */
void stk_engine_seat_take(struct stk_engine *engine, uint32_t task, uint32_t seat, uint32_t server,
                          const struct stk_candidate *scores);
void stk_engine_seat_free(struct stk_engine *engine, uint32_t task, uint32_t seat);
/* What a result says of its server and host. */
void stk_engine_learn(struct stk_engine *engine, const struct task *task, uint32_t seat, const struct stk_event *event);
/* Until a worker of the server begins with `items` more. */
uint64_t stk_engine_queue_ns(const struct stk_engine *engine, const struct server *server, uint32_t items);

/* engine_deadline.c */
uint32_t stk_engine_group_join(struct stk_engine *engine, uint32_t key, const struct stk_event *event);
void stk_engine_group_leave(struct stk_engine *engine, uint32_t lane);
void stk_engine_group_begin(struct stk_engine *engine, struct group *group, uint32_t iteration);
void stk_engine_group_step(struct stk_engine *engine, const struct stk_event *event);
void stk_engine_look_for_pauses(struct stk_engine *engine);
uint64_t stk_engine_deadline_of(const struct stk_engine *engine, const struct task *task);
void stk_engine_write_deadlines(struct stk_engine *engine);

/* engine_place.c */
void stk_engine_write_placements(struct stk_engine *engine);
void stk_engine_check_stragglers(struct stk_engine *engine);
void stk_engine_check_at(struct stk_engine *engine, uint32_t task, uint64_t at_ns);
void stk_engine_check_drop(struct stk_engine *engine, uint32_t task);

#endif
