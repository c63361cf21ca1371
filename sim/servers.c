/* SPDX-License-Identifier: Apache-2.0
 *
 * The servers of a run: tasks in their queues, pieces on their cores. Queues are first in, first out; those of the
 * shipped plane are sched/dispatch.
 */
#include "base/assert.h"
#include "sim/random.h"
#include "sim/run_internal.h"

static uint32_t pieces_of(const struct sim_run *run, uint32_t samples)
{
    const struct sim_config *config = run->config;
    uint32_t unit = config->system.piece == SIM_UNIT_BATCH   ? samples
                    : config->system.piece == SIM_UNIT_MICRO ? config->workload.micro
                                                             : 1;
    return (samples + unit - 1) / unit;
}

static bool measured(const struct sim_run *run, const struct sim_task *task)
{
    return task->wanted_step >= run->config->warmup;
}

uint32_t sim_place(struct sim_run *run, uint32_t number, uint32_t part, uint32_t server, uint64_t deadline_ns,
                   uint64_t delay_ns)
{
    struct sim_batch *batch = &run->batches[number];
    uint32_t index = run->task_free;
    if (index == SIM_NONE) {
        sim_fail(run, STOKER_ERR_LIMIT, "the table of tasks is full");
        return SIM_NONE;
    }
    struct sim_task *task = &run->tasks[index];
    run->task_free = task->next;
    uint32_t unit = (run->config->workload.batch + run->parts - 1) / run->parts;
    uint32_t first = part * unit, end = first + unit;
    if (end > run->config->workload.batch) end = run->config->workload.batch;
    *task = (struct sim_task){.live = true,
                              .batch = number,
                              .part = part,
                              .first = first,
                              .count = end - first,
                              .server = server,
                              .attempt = batch->part_tries[part]++,
                              .generation = ++run->generations,
                              .prev = SIM_NONE,
                              .next = SIM_NONE,
                              .handle = SIM_NONE,
                              .deadline_ns = deadline_ns,
                              .placed_ns = run->now_ns,
                              .wanted_step = batch->step,
                              .rank = batch->rank};
    for (uint32_t i = first; i < end; i++) {
        task->predicted_ns += batch->samples[i].predicted_ns;
        task->bytes += batch->samples[i].bytes;
    }
    task->pieces = task->pieces_left = pieces_of(run, task->count);
    run->tasks_live++;
    run->tasks_begun++;
    run->servers[server].tasks++;
    run->servers[server].load_ns += task->predicted_ns;
    if (measured(run, task)) {
        run->result->decisions++;
        run->result->remote += run->servers[server].host != run->rank[batch->rank].host;
    }
    sim_at(run, run->now_ns + delay_ns, SIM_HAPPENS_ARRIVE, index, task->generation);
    return index;
}

static void unlink_task(struct sim_run *run, struct sim_server *server, struct sim_task *task)
{
    if (!task->queued) return;
    task->queued = false;
    if (task->prev != SIM_NONE)
        run->tasks[task->prev].next = task->next;
    else
        server->queue_head = task->next;
    if (task->next != SIM_NONE)
        run->tasks[task->next].prev = task->prev;
    else
        server->queue_tail = task->prev;
    task->prev = task->next = SIM_NONE;
}

static void dispatch_remove(struct sim_run *run, struct sim_server *server, uint32_t handle)
{
    (void)run;
    server->tasks_of_handles[handle] = SIM_NONE;
    stk_dispatch_remove(server->dispatch, handle);
}

/* Takes the task from its server's queue; pieces that run go on in vain. */
static void withdraw(struct sim_run *run, struct sim_task *task)
{
    struct sim_server *server = &run->servers[task->server];
    unlink_task(run, server, task);
    if (!server->dispatch || task->handle == SIM_NONE) return;
    server->tasks_of_handles[task->handle] = SIM_NONE;
    if (stk_dispatch_fail(server->dispatch, task->handle) == STK_VERDICT_FAILED)
        dispatch_remove(run, server, task->handle);
    task->handle = SIM_NONE;
}

static void leave(struct sim_run *run, struct sim_task *task)
{
    run->servers[task->server].tasks--;
    run->servers[task->server].load_ns -= task->predicted_ns;
}

void sim_task_end(struct sim_run *run, uint32_t index)
{
    struct sim_task *task = &run->tasks[index];
    STK_ASSERT(task->live);
    if (!task->made) leave(run, task);
    task->live = false;
    task->next = run->task_free;
    run->task_free = index;
    run->tasks_live--;
    run->tasks_ended++;
}

void sim_task_cancel(struct sim_run *run, uint32_t index)
{
    struct sim_task *task = &run->tasks[index];
    if (!task->live || task->made) return; /* on its way: it is dropped where it arrives */
    withdraw(run, task);
    sim_task_end(run, index);
}

void sim_task_deadline(struct sim_run *run, uint32_t index, uint64_t deadline_ns)
{
    struct sim_task *task = &run->tasks[index];
    task->deadline_ns = deadline_ns;
    struct sim_server *server = &run->servers[task->server];
    if (server->dispatch && task->handle != SIM_NONE)
        stk_dispatch_set_deadline(server->dispatch, task->handle, deadline_ns);
}

static double stall_s(const struct sim_run *run, const struct sim_sample *sample, uint32_t attempt)
{
    const struct sim_overheads *overheads = &run->config->system.overheads;
    if (overheads->stall_rate <= 0) return 0;
    /* A sticky stall is the data's: it meets every try. */
    bool sticky = sim_uniform(run->seed, SIM_STREAM_STALL, sample->id * 8 + 7) < overheads->stall_sticky;
    uint64_t key = sample->id * 8 + (sticky ? 0 : attempt % 7);
    if (sim_uniform(run->seed, SIM_STREAM_STALL, key) >= overheads->stall_rate) return 0;
    double times = sim_exp(overheads->stall_sigma * sim_normal(run->seed, SIM_STREAM_STALL_TIME, key));
    return overheads->stall_median_s * times * sim_stall_growth(run, sample->bytes);
}

static void start_piece(struct sim_run *run, struct sim_server *server, uint32_t task_index, uint32_t piece,
                        uint64_t item_id)
{
    struct sim_task *task = &run->tasks[task_index];
    const struct sim_batch *batch = &run->batches[task->batch];
    const struct sim_overheads *overheads = &run->config->system.overheads;
    uint32_t unit = (task->count + task->pieces - 1) / task->pieces;
    uint32_t first = task->first + piece * unit, end = first + unit;
    if (end > task->first + task->count) end = task->first + task->count;
    uint64_t cpu_ns = sim_ns(overheads->task_s);
    double stall = 0, handling = overheads->task_gbps > 0 ? 1 / overheads->task_gbps : 0;
    for (uint32_t i = first; i < end; i++) {
        cpu_ns += (uint64_t)((double)batch->samples[i].cost_ns * overheads->cost_factor);
        cpu_ns += (uint64_t)((double)batch->samples[i].bytes * handling);
        stall += stall_s(run, &batch->samples[i], task->attempt);
    }
    cpu_ns = (uint64_t)((double)cpu_ns * server->slow);
    uint64_t wall_ns = cpu_ns + sim_ns(stall);
    if (measured(run, task)) run->result->cpu_ns += cpu_ns;
    task->cpu_ns += cpu_ns;
    task->wall_ns += wall_ns;
    task->pieces_started++;
    uint32_t core_index = server->free_cores[--server->free_count];
    struct sim_core *core = &run->cores[core_index];
    core->task = task_index;
    core->task_generation = task->generation;
    core->piece = piece;
    core->item_id = item_id;
    core->generation++;
    sim_at(run, run->now_ns + wall_ns, SIM_HAPPENS_MADE, core_index, core->generation);
}

static bool next_piece(struct sim_run *run, struct sim_server *server)
{
    if (server->dispatch) {
        struct stk_item item;
        if (!stk_dispatch_pick(server->dispatch, STK_POOL_NATIVE, &item)) return false;
        STK_ASSERT(server->tasks_of_handles[item.batch] != SIM_NONE);
        start_piece(run, server, server->tasks_of_handles[item.batch], item.index, item.item_id);
        return true;
    }
    uint32_t index = server->queue_head;
    if (index == SIM_NONE) return false;
    struct sim_task *task = &run->tasks[index];
    uint32_t piece = task->pieces_started;
    if (piece + 1 == task->pieces) unlink_task(run, server, task);
    start_piece(run, server, index, piece, 0);
    return true;
}

static void pump(struct sim_run *run, struct sim_server *server)
{
    while (!server->dead && server->free_count > 0 && next_piece(run, server)) {
    }
}

bool sim_server_has_room(const struct sim_run *run, uint32_t server)
{
    return !run->servers[server].dead && run->servers[server].tasks < run->servers[server].cores;
}

void sim_task_arrive(struct sim_run *run, uint32_t index)
{
    struct sim_task *task = &run->tasks[index];
    struct sim_server *server = &run->servers[task->server];
    if (server->dead) {
        run->policy->made(run, index, true);
        sim_task_end(run, index);
        return;
    }
    if (server->dispatch) {
        if (stk_dispatch_batch_add(server->dispatch, 0, 0, server->sequence, task->pieces, task->deadline_ns,
                                   &task->handle, &run->err) < 0) {
            sim_fail(run, STOKER_ERR_LIMIT, "the table of a dispatcher is full");
            return;
        }
        server->sequence++;
        server->tasks_of_handles[task->handle] = index;
        stk_dispatch_granted(server->dispatch, task->handle);
    } else {
        task->queued = true;
        task->prev = server->queue_tail;
        task->next = SIM_NONE;
        if (server->queue_tail != SIM_NONE)
            run->tasks[server->queue_tail].next = index;
        else
            server->queue_head = index;
        server->queue_tail = index;
    }
    pump(run, server);
}

static void free_core(struct sim_run *run, struct sim_core *core)
{
    core->task = SIM_NONE;
    core->generation++;
    struct sim_server *server = &run->servers[core->server];
    STK_ASSERT(server->free_count < server->cores);
    server->free_cores[server->free_count++] = (uint32_t)(core - run->cores);
}

void sim_core_made(struct sim_run *run, uint32_t core_index, uint64_t generation)
{
    struct sim_core *core = &run->cores[core_index];
    if (core->generation != generation) return; /* its server died meanwhile */
    struct sim_server *server = &run->servers[core->server];
    uint32_t index = core->task;
    struct sim_task *task = &run->tasks[index];
    bool wanted = task->live && task->generation == core->task_generation;
    if (server->dispatch) {
        uint32_t handle = SIM_NONE;
        enum stk_batch_verdict verdict = stk_dispatch_finish(server->dispatch, core->item_id, STK_OUTCOME_OK, &handle);
        if (verdict == STK_VERDICT_DONE || verdict == STK_VERDICT_FAILED || verdict == STK_VERDICT_CANCELED)
            dispatch_remove(run, server, handle);
        STK_ASSERT(verdict != STK_VERDICT_UNKNOWN);
    }
    free_core(run, core);
    if (wanted) {
        STK_ASSERT(task->pieces_left > 0);
        if (--task->pieces_left == 0) {
            task->handle = SIM_NONE;
            leave(run, task);
            task->made = true;
            run->tasks_made++;
            run->policy->made(run, index, false);
            sim_transfer(run, index);
        }
    }
    pump(run, server);
    if (run->policy->idle && server->free_count > 0) run->policy->idle(run, core->server);
}

void sim_server_die(struct sim_run *run, uint32_t number)
{
    struct sim_server *server = &run->servers[number];
    if (server->dead) return;
    server->dead = true;
    for (uint32_t index = 0; index < run->task_cap; index++) {
        struct sim_task *task = &run->tasks[index];
        if (task->live && !task->made && task->server == number) withdraw(run, task);
    }
    for (uint32_t i = server->core_first; i < server->core_first + server->cores; i++) {
        struct sim_core *core = &run->cores[i];
        if (core->task == SIM_NONE) continue;
        uint32_t handle = SIM_NONE;
        if (server->dispatch &&
            stk_dispatch_finish(server->dispatch, core->item_id, STK_OUTCOME_FATAL, &handle) == STK_VERDICT_FAILED)
            dispatch_remove(run, server, handle);
        free_core(run, core);
    }
    if (run->policy->server) run->policy->server(run, number, false);
    for (uint32_t index = 0; index < run->task_cap; index++) {
        struct sim_task *task = &run->tasks[index];
        if (!task->live || task->made || task->server != number) continue;
        run->policy->made(run, index, true);
        sim_task_end(run, index);
    }
}

void sim_server_return(struct sim_run *run, uint32_t number)
{
    run->servers[number].dead = false;
    run->servers[number].slow = 1;
    if (run->policy->server) run->policy->server(run, number, true);
    if (run->policy->idle) run->policy->idle(run, number);
}
