/* SPDX-License-Identifier: Apache-2.0
 *
 * See run.h: making the machines, and the loop over events.
 */
#include "sim/run.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sim/run_internal.h"

uint64_t sim_ns(double seconds) { return seconds > 0 ? (uint64_t)(seconds * 1e9 + 0.5) : 0; }

void *sim_memory_take(struct sim_memory *memory, size_t count, size_t size)
{
    size_t bytes = 0;
    STK_ASSERT(stk_mul_size(count, size, &bytes));
    bytes = (size_t)stk_align_up(bytes, 16);
    void *given = memory->measuring ? NULL : memory->bytes + memory->used;
    memory->used += bytes;
    if (memory->measuring) return NULL;
    STK_ASSERT(memory->used <= memory->size);
    memset(given, 0, bytes);
    return given;
}

void sim_fail(struct sim_run *run, stoker_status status, const char *text)
{
    if (run->status == STOKER_OK) run->status = stk_fail(&run->err, status, "%s", text);
}

void sim_at(struct sim_run *run, uint64_t at_ns, enum sim_happening type, uint32_t a, uint64_t b)
{
    if (at_ns < run->now_ns) at_ns = run->now_ns;
    if (!sim_queue_put(&run->queue, at_ns, type, a, b))
        sim_fail(run, STOKER_ERR_LIMIT, "the queue of events is full: the system cannot keep up with its requests");
}

static const struct sim_policy *policy_of(const struct sim_config *config)
{
    switch (config->system.policy) {
    case SIM_RANK_LOCAL: return &sim_policy_rank_local;
    case SIM_ACTOR_POOL: return &sim_policy_actor_pool;
    case SIM_LEAST: return &sim_policy_least;
    case SIM_PUBLISHED: return &sim_policy_published;
    case SIM_ENGINE: break;
    }
    return &sim_policy_engine;
}

/* A contender's own layout of the same cores: loaders and actors are servers of one core. */
static void count_machines(struct sim_run *run)
{
    const struct sim_machines *machines = &run->config->machines;
    const struct sim_system *system = &run->config->system;
    uint32_t per_host = machines->remote_per_host ? machines->remote_per_host : 1;
    uint32_t remote_hosts = (machines->remote + per_host - 1) / per_host;
    run->ranks = machines->ranks;
    run->remote_first_host = machines->rank_hosts;
    run->host_count = machines->rank_hosts + remote_hosts;
    if (system->policy == SIM_RANK_LOCAL) {
        run->local_count = machines->ranks * (system->workers ? system->workers : machines->cores);
        run->server_count = run->core_count = run->local_count;
    } else if (system->policy == SIM_ACTOR_POOL) {
        run->local_count = machines->ranks * machines->cores;
        uint32_t all = run->local_count + machines->remote * machines->cores;
        run->server_count = run->core_count = system->workers && system->workers < all ? system->workers : all;
    } else {
        run->local_count = machines->ranks;
        run->server_count = machines->ranks + machines->remote;
        run->core_count = run->server_count * machines->cores;
    }
}

static uint32_t host_of(const struct sim_run *run, uint32_t server)
{
    const struct sim_machines *machines = &run->config->machines;
    uint32_t per_rank = run->local_count / machines->ranks;
    if (server < run->local_count)
        return (uint32_t)((uint64_t)(server / per_rank) * machines->rank_hosts / machines->ranks);
    uint32_t remote = server - run->local_count;
    if (run->config->system.policy == SIM_ACTOR_POOL) remote /= machines->cores;
    return run->remote_first_host + remote / (machines->remote_per_host ? machines->remote_per_host : 1);
}

static void make_machines(struct sim_run *run, struct sim_memory *memory)
{
    const struct sim_machines *machines = &run->config->machines;
    run->hosts = sim_memory_take(memory, run->host_count, sizeof *run->hosts);
    run->servers = sim_memory_take(memory, run->server_count, sizeof *run->servers);
    run->cores = sim_memory_take(memory, run->core_count, sizeof *run->cores);
    uint32_t *free_cores = sim_memory_take(memory, run->core_count, sizeof *free_cores);
    struct stk_dispatch_limits limits = {1, run->task_cap < 1024 ? run->task_cap : 256, 0};
    limits.items = limits.batches * run->config->workload.batch;
    bool dispatched = run->config->system.policy == SIM_ENGINE, peers = machines->peers_free > 0;
    size_t dispatch_bytes = dispatched ? stk_dispatch_bytes(&limits) : 0;
    unsigned char *blocks = sim_memory_take(memory, run->server_count, (dispatch_bytes + 15) / 16 * 16);
    uint32_t *handles = sim_memory_take(memory, dispatched ? run->server_count : 0, limits.batches * sizeof *handles);
    run->peer_used_ns = sim_memory_take(memory, peers ? (size_t)machines->rank_hosts * run->server_count : 0,
                                        sizeof *run->peer_used_ns);
    if (memory->measuring) return;
    for (uint32_t host = 0; host < run->host_count; host++) {
        bool remote = host >= run->remote_first_host && machines->link_gbps_remote > 0;
        run->hosts[host].slow = 1;
        run->hosts[host].bytes_per_ns = remote ? machines->link_gbps_remote : machines->link_gbps;
    }
    uint32_t cores = run->core_count / run->server_count;
    for (uint32_t index = 0; index < run->server_count; index++) {
        struct sim_server *server = &run->servers[index];
        *server = (struct sim_server){.host = host_of(run, index),
                                      .cores = cores,
                                      .core_first = index * cores,
                                      .free_count = cores,
                                      .free_cores = free_cores + index * cores,
                                      .queue_head = SIM_NONE,
                                      .queue_tail = SIM_NONE,
                                      .slow = 1};
        for (uint32_t core = 0; core < cores; core++) {
            server->free_cores[core] = server->core_first + cores - 1 - core;
            run->cores[server->core_first + core] = (struct sim_core){.task = SIM_NONE, .server = index};
        }
        if (!dispatched) continue;
        server->dispatch =
            stk_dispatch_init(blocks + index * ((dispatch_bytes + 15) / 16 * 16), dispatch_bytes, &limits);
        server->tasks_of_handles = handles + (size_t)index * limits.batches;
        struct stk_lane_options options = {.pool = STK_POOL_NATIVE, .policy = STK_POLICY_RAISE};
        if (stk_dispatch_lane_open(server->dispatch, 0, &options, &run->err) < 0)
            sim_fail(run, STOKER_ERR_INTERNAL, "a dispatcher refuses its only lane");
    }
}

static void make_work(struct sim_run *run, struct sim_memory *memory)
{
    const struct sim_config *config = run->config;
    uint32_t batch = config->workload.batch, count = run->ranks * run->ring;
    run->rank = sim_memory_take(memory, run->ranks, sizeof *run->rank);
    run->batches = sim_memory_take(memory, count, sizeof *run->batches);
    run->plan_samples = sim_memory_take(memory, (size_t)run->ranks * batch, sizeof *run->plan_samples);
    run->plan_order = sim_memory_take(memory, (size_t)run->ranks * batch, sizeof *run->plan_order);
    run->plan_room = sim_memory_take(memory, run->ranks, sizeof *run->plan_room);
    run->plan_load = sim_memory_take(memory, run->ranks, sizeof *run->plan_load);
    struct sim_sample *samples = sim_memory_take(memory, (size_t)count * batch, sizeof *samples);
    bool *done = sim_memory_take(memory, (size_t)count * run->parts, sizeof *done);
    uint8_t *tries = sim_memory_take(memory, (size_t)count * run->parts, sizeof *tries);
    run->tasks = sim_memory_take(memory, run->task_cap, sizeof *run->tasks);
    if (memory->measuring) return;
    for (uint32_t i = 0; i < count; i++) {
        run->batches[i].samples = samples + (size_t)i * batch;
        run->batches[i].part_done = done + (size_t)i * run->parts;
        run->batches[i].part_tries = tries + (size_t)i * run->parts;
    }
    for (uint32_t i = 0; i < run->task_cap; i++) run->tasks[i].next = i + 1 < run->task_cap ? i + 1 : SIM_NONE;
    run->task_free = 0;
    uint32_t per_rank = run->local_count / run->ranks;
    for (uint32_t rank = 0; rank < run->ranks; rank++) {
        run->rank[rank].host = (uint32_t)((uint64_t)rank * config->machines.rank_hosts / run->ranks);
        run->rank[rank].server = rank * per_rank;
    }
}

/* Everything a run needs from memory, in the order of use; also to count it. */
static stoker_status make(struct sim_run *run, struct sim_memory *memory, stoker_error *err)
{
    const struct sim_config *config = run->config;
    run->policy = policy_of(config);
    uint32_t batch = config->workload.batch, micro = config->workload.micro;
    uint32_t unit = config->system.place == SIM_UNIT_BATCH ? batch : config->system.place == SIM_UNIT_MICRO ? micro : 1;
    run->parts = (batch + unit - 1) / unit;
    run->ring = config->system.depth + 2;
    count_machines(run);
    run->task_cap = run->ranks * run->ring * run->parts * 2 + 64;
    uint32_t event_cap = run->task_cap * 4 + run->core_count + run->server_count * 4 + SIM_FAULTS_MAX * 2 + 1024;
    struct sim_event *events = sim_memory_take(memory, event_cap, sizeof *events);
    if (!memory->measuring) sim_queue_init(&run->queue, events, event_cap);
    make_machines(run, memory);
    make_work(run, memory);
    run->mean_bytes = sim_mean_bytes(&config->workload);
    return run->policy->start(run, memory, err);
}

size_t sim_run_bytes(const struct sim_config *config)
{
    struct sim_run run = {.config = config};
    struct sim_memory memory = {.measuring = true};
    (void)make(&run, &memory, NULL); /* measuring does not fail */
    return memory.used + 64;
}

/* What must hold between any two events: what was asked for is taken, ready or in work, and nothing else is. */
static void check(const struct sim_run *run)
{
    STK_ASSERT(run->asked_total >= run->ready_total && run->ready_total >= run->taken_total);
    STK_ASSERT(run->asked_total - run->taken_total <= (uint64_t)run->ranks * run->config->system.depth);
    STK_ASSERT(run->tasks_begun - run->tasks_ended == run->tasks_live);
    STK_ASSERT(run->parts_accepted <= run->asked_total * run->parts);
}

static void fault(struct sim_run *run, const struct sim_fault *fault, bool ends)
{
    struct sim_server *server = &run->servers[fault->server];
    switch (fault->kind) {
    case SIM_FAULT_KILL:
        if (ends)
            sim_server_return(run, fault->server);
        else
            sim_server_die(run, fault->server);
        break;
    case SIM_FAULT_SLOW: server->slow = ends ? 1 : fault->factor; break;
    case SIM_FAULT_LINK: run->hosts[server->host].slow = ends ? 1 : fault->factor; break;
    case SIM_FAULT_MUTE: server->mute = !ends; break;
    }
}

static void apply(struct sim_run *run, const struct sim_event *event)
{
    const struct sim_policy *policy = run->policy;
    switch (event->type) {
    case SIM_HAPPENS_REQUEST: sim_rank_request(run, event->a); break;
    case SIM_HAPPENS_PLACE: {
        struct sim_batch *batch = &run->batches[event->a];
        for (uint32_t part = 0; part < run->parts; part++)
            if (batch->live && batch->step == event->b) policy->request(run, event->a, part);
        break;
    }
    case SIM_HAPPENS_ARRIVE:
        if (run->tasks[event->a].live && run->tasks[event->a].generation == event->b) sim_task_arrive(run, event->a);
        break;
    case SIM_HAPPENS_MADE: sim_core_made(run, event->a, event->b); break;
    case SIM_HAPPENS_MOVED: sim_transfer_done(run, event->a, event->b); break;
    case SIM_HAPPENS_READY: sim_batch_ready(run, event->a); break;
    case SIM_HAPPENS_WANT: sim_ranks_want(run); break;
    case SIM_HAPPENS_HEARTBEAT:
        if (!run->servers[event->a].dead && !run->servers[event->a].mute) policy->heartbeat(run, event->a);
        sim_at(run, run->now_ns + sim_ns(run->config->system.heartbeat_s), SIM_HAPPENS_HEARTBEAT, event->a, 0);
        break;
    case SIM_HAPPENS_TICK: policy->tick(run); break;
    case SIM_HAPPENS_FAULT: fault(run, &run->config->faults[event->a], event->b != 0); break;
    case SIM_HAPPENS_TOLD: policy->told(run, event->a); break;
    }
}

static void begin(struct sim_run *run)
{
    const struct sim_config *config = run->config;
    for (uint32_t i = 0; i < config->fault_count; i++) {
        if (config->faults[i].server >= run->server_count) continue; /* a contender without that server */
        sim_at(run, sim_ns(config->faults[i].at_s), SIM_HAPPENS_FAULT, i, 0);
        if (config->faults[i].until_s > 0) sim_at(run, sim_ns(config->faults[i].until_s), SIM_HAPPENS_FAULT, i, 1);
    }
    if (run->policy->heartbeat && config->system.heartbeat_s > 0)
        for (uint32_t server = 0; server < run->server_count; server++)
            sim_at(run, sim_ns(config->system.heartbeat_s * (server + 1) / (run->server_count + 1)),
                   SIM_HAPPENS_HEARTBEAT, server, 0);
    sim_ranks_start(run);
}

/* Of a scenario that kills who cannot be replaced, or a bug. */
static stoker_status stopped(const struct sim_run *run, uint64_t total, stoker_error *err)
{
    unsigned long long step = run->step, steps = total;
    for (uint32_t server = 0; server < run->server_count; server++)
        if (run->servers[server].dead)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "the ranks stopped at step %llu of %llu: a fault killed server %u, it did not come back "
                            "(until_s), and no other may make its batches",
                            step, steps, server);
    return stk_fail(err, STOKER_ERR_INTERNAL, "the ranks stopped at step %llu of %llu: a batch never came", step,
                    steps);
}

stoker_status sim_run(const struct sim_config *config, uint64_t seed, void *block, size_t size,
                      struct sim_result *out_result, stoker_error *err)
{
    STK_TRY(sim_config_check(config, err));
    STK_ASSERT(size >= sim_run_bytes(config));
    struct sim_run run = {.config = config, .seed = seed, .result = out_result};
    struct sim_memory memory = {.bytes = block, .size = size};
    uint64_t *waits = out_result->waits_ns, *ready = out_result->ready_ns;
    *out_result = (struct sim_result){.waits_ns = waits, .ready_ns = ready, .journal = out_result->journal};
    out_result->deadline_ns = sim_ns(config->data_deadline_s);
    if (config->data_deadline_s <= 0) {
        double share = 0.02 * sim_nominal_window_s(&config->workload);
        out_result->deadline_ns = sim_ns(share > 0.01 ? share : 0.01);
    }
    STK_TRY(make(&run, &memory, err));
    begin(&run);
    uint64_t total = (uint64_t)config->warmup + config->steps;
    struct sim_event event;
    while (run.status == STOKER_OK && run.step < total && sim_queue_take(&run.queue, &event)) {
        STK_ASSERT(event.at_ns >= run.now_ns);
        run.now_ns = event.at_ns;
        out_result->events++;
        apply(&run, &event);
        check(&run);
        /* With heartbeats the queue never empties: a day without a batch is a stop. */
        if (run.now_ns > run.step_end_ns + UINT64_C(86400) * STK_SECOND_NS) break;
    }
    if (run.status < 0) {
        if (err) *err = run.err;
        return run.status;
    }
    if (run.step < total) return stopped(&run, total, err);
    out_result->ideal_ns = out_result->work_ns / run.core_count;
    if (out_result->window_sum_ns > out_result->ideal_ns) out_result->ideal_ns = out_result->window_sum_ns;
    return STOKER_OK;
}
