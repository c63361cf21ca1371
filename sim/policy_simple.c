/* SPDX-License-Identifier: Apache-2.0
 *
 * Contenders without predictions: loaders of each rank's own, a pool of actors behind one queue, and least requests.
 */
#include "base/assert.h"
#include "sim/run_internal.h"

static stoker_status start_nothing(struct sim_run *run, struct sim_memory *memory, stoker_error *err)
{
    (void)run;
    (void)memory;
    (void)err;
    return STOKER_OK;
}

static uint64_t control_ns(const struct sim_run *run) { return sim_ns(run->config->system.overheads.control_s); }

/* Batch i is worker i mod n's, whatever that worker is at: so does the stock loader. */
static void local_place(struct sim_run *run, uint32_t number, uint32_t part, uint64_t delay_ns)
{
    uint32_t workers = run->local_count / run->ranks;
    const struct sim_batch *batch = &run->batches[number];
    uint32_t worker = batch->rank * workers + (uint32_t)(batch->step % workers);
    if (run->servers[worker].dead) /* its loader takes another one */
        worker = batch->rank * workers + (uint32_t)((batch->step + 1) % workers);
    sim_place(run, number, part, worker, 0, delay_ns);
}

static void local_request(struct sim_run *run, uint32_t number, uint32_t part) { local_place(run, number, part, 0); }

static void local_made(struct sim_run *run, uint32_t task, bool lost)
{
    if (lost) local_place(run, run->tasks[task].batch, run->tasks[task].part, SIM_AGAIN_NS);
}

const struct sim_policy sim_policy_rank_local = {.start = start_nothing, .request = local_request, .made = local_made};

/* The pool: parts wait in one line until a core is free. */
struct pool {
    uint64_t *line; /* ring of batch, part */
    uint32_t cap, head, count;
    uint32_t *idle; /* servers of one core without a task */
    uint32_t idle_count;
    bool *is_idle;
};

static stoker_status pool_start(struct sim_run *run, struct sim_memory *memory, stoker_error *err)
{
    (void)err;
    struct pool *pool = sim_memory_take(memory, 1, sizeof *pool);
    uint64_t *line = sim_memory_take(memory, run->task_cap, sizeof *line);
    uint32_t *idle = sim_memory_take(memory, run->server_count, sizeof *idle);
    bool *is_idle = sim_memory_take(memory, run->server_count, sizeof *is_idle);
    if (memory->measuring) return STOKER_OK;
    *pool = (struct pool){.line = line, .cap = run->task_cap, .idle = idle, .is_idle = is_idle};
    run->policy_state = pool;
    for (uint32_t server = run->server_count; server-- > 0;) {
        pool->idle[pool->idle_count++] = server;
        pool->is_idle[server] = true;
    }
    return STOKER_OK;
}

static void pool_feed(struct sim_run *run)
{
    struct pool *pool = run->policy_state;
    while (pool->count > 0 && pool->idle_count > 0) {
        uint32_t server = pool->idle[--pool->idle_count];
        pool->is_idle[server] = false;
        if (run->servers[server].dead) continue;
        uint64_t entry = pool->line[pool->head];
        pool->head = (pool->head + 1) % pool->cap;
        pool->count--;
        sim_place(run, (uint32_t)(entry >> 32), (uint32_t)entry, server, 0, control_ns(run));
    }
}

static void pool_request(struct sim_run *run, uint32_t number, uint32_t part)
{
    struct pool *pool = run->policy_state;
    STK_ASSERT(pool->count < pool->cap);
    pool->line[(pool->head + pool->count++) % pool->cap] = (uint64_t)number << 32 | part;
    pool_feed(run);
}

static void pool_made(struct sim_run *run, uint32_t task, bool lost)
{
    if (lost) pool_request(run, run->tasks[task].batch, run->tasks[task].part);
}

static void pool_idle(struct sim_run *run, uint32_t server)
{
    struct pool *pool = run->policy_state;
    if (pool->is_idle[server] || run->servers[server].dead) return;
    pool->is_idle[server] = true;
    pool->idle[pool->idle_count++] = server;
    pool_feed(run);
}

const struct sim_policy sim_policy_actor_pool = {
    .start = pool_start, .request = pool_request, .made = pool_made, .idle = pool_idle};

/* Least outstanding requests; among equals, those that come round. */
struct least {
    uint32_t turn;
};

static stoker_status least_start(struct sim_run *run, struct sim_memory *memory, stoker_error *err)
{
    (void)err;
    run->policy_state = sim_memory_take(memory, 1, sizeof(struct least));
    return STOKER_OK;
}

static void least_request(struct sim_run *run, uint32_t number, uint32_t part)
{
    struct least *least = run->policy_state;
    uint32_t best = SIM_NONE, count = run->server_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t server = (least->turn + i) % count;
        if (run->servers[server].dead) continue;
        if (best == SIM_NONE || run->servers[server].tasks < run->servers[best].tasks) best = server;
    }
    if (best == SIM_NONE) {
        sim_place(run, number, part, run->batches[number].rank, 0, SIM_AGAIN_NS);
        return;
    }
    least->turn = (best + 1) % count;
    sim_place(run, number, part, best, 0, control_ns(run));
}

static void least_made(struct sim_run *run, uint32_t task, bool lost)
{
    if (lost) least_request(run, run->tasks[task].batch, run->tasks[task].part);
}

const struct sim_policy sim_policy_least = {.start = least_start, .request = least_request, .made = least_made};
