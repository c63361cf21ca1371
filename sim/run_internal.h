/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a run: ranks, servers, network, and the policy that stands between.
 *
 *     batch   one rank's samples of one step; in `parts`, which are placed apart
 *     task    one try to make a part on one server; a part may have a second one, the first result wins
 *     piece   what one core makes at a time: one sample, a micro-batch or a whole batch
 */
#ifndef SIM_RUN_INTERNAL_H
#define SIM_RUN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "sched/dispatch.h"
#include "sim/queue.h"
#include "sim/run.h"
#include "sim/workload.h"

#define SIM_NONE UINT32_MAX
/* After which a contender tries again when all that it could use is dead. */
#define SIM_AGAIN_NS (STK_SECOND_NS / 2)

struct sim_run;

struct sim_memory { /* bump */
    unsigned char *bytes;
    size_t used, size;
    bool measuring; /* nothing is given, only counted */
};
void *sim_memory_take(struct sim_memory *memory, size_t count, size_t size);

struct sim_batch {
    uint64_t step;
    uint64_t asked_ns, ready_ns;
    uint32_t rank;
    uint32_t parts_left;
    uint64_t bytes;
    uint64_t id_sum; /* of the samples that came */
    bool live, ready;
    bool *part_done;
    uint8_t *part_tries;
    struct sim_sample *samples; /* [batch] */
};

struct sim_task {
    bool live, made, queued;
    uint32_t batch, part, first, count; /* samples first ... of the batch */
    uint32_t server, attempt;
    uint64_t generation; /* of the record: old news of an earlier task carries another */
    uint32_t pieces, pieces_started, pieces_left;
    uint32_t prev, next; /* in the server's queue (FIFO), or the free list */
    uint32_t handle;     /* in the server's dispatcher */
    uint64_t predicted_ns, bytes, deadline_ns;
    uint64_t placed_ns, cpu_ns, wall_ns;
    uint64_t wanted_step; /* of its batch when it was placed */
    uint32_t rank;
};

struct sim_core { /* what it makes; task SIM_NONE: nothing */
    uint32_t task, server, piece;
    uint64_t task_generation, generation;
    uint64_t item_id;
};

struct sim_server {
    uint32_t host, cores, core_first, free_count;
    uint32_t *free_cores;
    uint32_t queue_head, queue_tail; /* FIFO */
    uint32_t tasks;                  /* on it, not answered */
    uint64_t load_ns;                /* predicted, of those */
    struct stk_dispatch *dispatch;   /* NULL: FIFO */
    uint32_t *tasks_of_handles;
    uint64_t sequence;
    double slow;
    bool dead, mute;
};

struct sim_host {
    uint64_t out_free_ns, in_free_ns;
    double slow;
    double bytes_per_ns;
};

struct sim_rank {
    uint32_t host, server;
    uint64_t asked, taken; /* steps */
    uint64_t want_ns;      /* when next() was called */
    bool wanting;
    uint64_t last_wait_ns, called_ns;
};

struct sim_policy {
    /* Called with memory.measuring set too, to learn what it needs. */
    stoker_status (*start)(struct sim_run *run, struct sim_memory *memory, stoker_error *err);
    void (*request)(struct sim_run *run, uint32_t batch, uint32_t part);
    /* A task was made, or (lost) its server died. It is still there to be read. */
    void (*made)(struct sim_run *run, uint32_t task, bool lost);
    void (*idle)(struct sim_run *run, uint32_t server); /* a core is free and its queue empty */
    void (*taken)(struct sim_run *run, uint32_t rank, uint64_t step, uint64_t wait_ns, uint64_t window_ns);
    void (*server)(struct sim_run *run, uint32_t server, bool alive);
    void (*heartbeat)(struct sim_run *run, uint32_t server); /* leaves the server now */
    void (*tick)(struct sim_run *run);
    void (*told)(struct sim_run *run, uint32_t slot);
    void (*arrived)(struct sim_run *run, uint32_t batch, uint32_t part); /* the part lies on its rank's host */
    void (*moved)(struct sim_run *run, uint32_t task, uint64_t took_ns); /* its bytes went from host to host */
};
extern const struct sim_policy sim_policy_rank_local, sim_policy_actor_pool, sim_policy_least, sim_policy_published,
    sim_policy_engine;

struct sim_run {
    const struct sim_config *config;
    uint64_t seed, now_ns;
    stoker_status status; /* of a failure in the middle */
    stoker_error err;
    struct sim_queue queue;
    const struct sim_policy *policy;
    void *policy_state;
    /* Machines. */
    uint32_t host_count, server_count, local_count, core_count, remote_first_host;
    struct sim_host *hosts;
    struct sim_server *servers;
    struct sim_core *cores;
    /* Work in flight. */
    uint32_t ranks, parts, ring; /* parts of a batch; batches of a rank that are kept */
    struct sim_rank *rank;
    struct sim_batch *batches; /* [ranks x ring] */
    struct sim_task *tasks;
    uint32_t task_cap, task_free, tasks_live;
    uint64_t generations;
    uint64_t planned; /* steps whose samples are dealt */
    struct sim_sample *plan_samples;
    uint32_t *plan_order, *plan_room;
    uint64_t *plan_load;
    double mean_bytes;
    uint64_t *peer_used_ns; /* [rank hosts x servers]: 1 + when it last sent there; 0: never */
    /* The step in progress. */
    uint64_t step, taken_count, step_end_ns, step_wait_ns, step_window_ns, measure_from_ns;
    /* Conservation. */
    uint64_t asked_total, ready_total, taken_total, parts_accepted, parts_dropped, tasks_made, tasks_ended, tasks_begun;
    struct sim_result *result;
};

/* run.c */
uint64_t sim_ns(double seconds);
void sim_fail(struct sim_run *run, stoker_status status, const char *text);
void sim_at(struct sim_run *run, uint64_t at_ns, enum sim_happening type, uint32_t a, uint64_t b);

/* ranks.c */
void sim_ranks_start(struct sim_run *run);
void sim_ranks_want(struct sim_run *run);
void sim_rank_request(struct sim_run *run, uint32_t rank);
void sim_batch_ready(struct sim_run *run, uint32_t batch);
void sim_part_here(struct sim_run *run, const struct sim_task *task);
void sim_plan_step(struct sim_run *run, uint64_t step);
static inline uint32_t sim_batch_of(const struct sim_run *run, uint32_t rank, uint64_t step)
{
    return rank * run->ring + (uint32_t)(step % run->ring);
}
/* Whether the part is still wanted. */
bool sim_part_wanted(const struct sim_run *run, uint32_t batch, uint64_t step, uint32_t part);

/* servers.c */
/* A decision: the part goes to the server; it arrives after the control path. Returns the task. */
uint32_t sim_place(struct sim_run *run, uint32_t batch, uint32_t part, uint32_t server, uint64_t deadline_ns,
                   uint64_t delay_ns);
void sim_task_arrive(struct sim_run *run, uint32_t task);
void sim_task_cancel(struct sim_run *run, uint32_t task);
void sim_task_end(struct sim_run *run, uint32_t task);
void sim_task_deadline(struct sim_run *run, uint32_t task, uint64_t deadline_ns);
void sim_core_made(struct sim_run *run, uint32_t core, uint64_t generation);
void sim_server_die(struct sim_run *run, uint32_t server);
void sim_server_return(struct sim_run *run, uint32_t server);
bool sim_server_has_room(const struct sim_run *run, uint32_t server);
/* Between the server and the rank's host: seconds for those bytes when nothing else moves. */
double sim_transfer_s(const struct sim_run *run, uint32_t server, uint32_t rank, uint64_t bytes);
/* network.c */
void sim_transfer(struct sim_run *run, uint32_t task);
void sim_transfer_done(struct sim_run *run, uint32_t task, uint64_t generation);
/* How many times a stall of this sample is longer than the median for its bytes. */
double sim_stall_growth(const struct sim_run *run, uint64_t bytes);

#endif
