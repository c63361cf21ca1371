/* SPDX-License-Identifier: Apache-2.0
 *
 * stoker's own: the shipped engine decides, the shipped dispatcher of each server orders its work. This file is a
 * shell, as the Coordinator is: it turns what happens into events, hands them over after the time that a message
 * takes, and carries out the actions. It decides nothing.
 */
#include "base/assert.h"
#include "base/error.h"
#include "sched/engine.h"
#include "sched/journal.h"
#include "sim/random.h"
#include "sim/run_internal.h"

enum { TRIES_KEPT = 4 };

struct shell {
    struct stk_engine *engine;
    struct stk_action *actions;
    size_t action_cap;
    struct stk_event *slots; /* messages on their way to the engine */
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t *tasks;                /* [batches x parts x TRIES_KEPT]: those that live */
    uint64_t *link_bytes, *link_ns; /* [hosts]: of the last transfer out */
    uint32_t *link_to;
    uint64_t tick_ns; /* when a tick is due; UINT64_MAX: none */
    uint64_t messages;
    double margin; /* what the model's 95 % quantile adds, as a share */
};

static enum stk_policy shipped_policy(enum sim_engine_policy policy)
{
    switch (policy) {
    case SIM_ENGINE_COST: return STK_POLICY_COST;
    case SIM_ENGINE_LEAST: return STK_POLICY_LEAST_REQUEST;
    case SIM_ENGINE_ROUND_ROBIN: return STK_POLICY_ROUND_ROBIN;
    case SIM_ENGINE_DEADLINE: break;
    }
    return STK_POLICY_DEADLINE;
}

static void step(struct sim_run *run, const struct stk_event *event);

static void journal_begin(struct sim_run *run, const struct stk_engine_limits *limits,
                          const struct stk_engine_options *options)
{
    struct sim_journal *journal = run->result->journal;
    if (!journal) return;
    STK_ASSERT(journal->cap >= STK_JOURNAL_HEAD_BYTES_MAX);
    journal->size = stk_journal_write_head(journal->bytes, limits, options);
    journal->last_ns = 0;
    journal->full = false;
}

static void journal_step(struct sim_run *run, const struct stk_event *event, const struct stk_action *actions,
                         size_t count)
{
    struct sim_journal *journal = run->result->journal;
    if (!journal || journal->full) return;
    size_t room = journal->cap - journal->size;
    journal->full = room < 2 * STK_JOURNAL_STEP_BYTES_MAX(1); /* the end has room too */
    if (journal->full)
        journal->size += stk_journal_write_end(journal->bytes + journal->size, true);
    else
        journal->size += stk_journal_write_step(journal->bytes + journal->size, journal->last_ns, run->now_ns, event, 1,
                                                actions, count);
    journal->last_ns = run->now_ns;
}

static void introduce(struct sim_run *run, uint32_t server)
{
    step(run, &(struct stk_event){.type = STK_EVENT_SERVER_JOIN,
                                  .server = server,
                                  .host = run->servers[server].host,
                                  .workers = run->servers[server].cores});
}

static stoker_status shell_start(struct sim_run *run, struct sim_memory *memory, stoker_error *err)
{
    (void)err;
    const struct sim_config *config = run->config;
    struct stk_engine_limits limits = {.servers = run->server_count,
                                       .lanes = run->ranks,
                                       .tasks = run->ranks * run->ring * run->parts,
                                       .hosts = run->host_count,
                                       .jobs = 1};
    uint32_t slot_count = run->task_cap * 2 + run->server_count * 4 + run->ranks * 4 + 64;
    size_t engine_bytes = stk_engine_bytes(&limits), action_cap = stk_engine_actions_max(&limits, 1);
    struct shell *shell = sim_memory_take(memory, 1, sizeof *shell);
    void *block = sim_memory_take(memory, 1, engine_bytes);
    struct stk_action *actions = sim_memory_take(memory, action_cap, sizeof *actions);
    struct stk_event *slots = sim_memory_take(memory, slot_count, sizeof *slots);
    uint32_t *free_slots = sim_memory_take(memory, slot_count, sizeof *free_slots);
    uint32_t *tasks = sim_memory_take(memory, (size_t)run->ranks * run->ring * run->parts * TRIES_KEPT, sizeof *tasks);
    uint64_t *link = sim_memory_take(memory, (size_t)run->host_count * 2, sizeof *link);
    uint32_t *link_to = sim_memory_take(memory, run->host_count, sizeof *link_to);
    if (memory->measuring) return STOKER_OK;
    *shell = (struct shell){.actions = actions,
                            .action_cap = action_cap,
                            .slots = slots,
                            .free_slots = free_slots,
                            .free_count = slot_count,
                            .tasks = tasks,
                            .link_bytes = link,
                            .link_ns = link + run->host_count,
                            .link_to = link_to,
                            .tick_ns = UINT64_MAX};
    shell->margin = sim_exp(1.645 * config->workload.predict_sigma) - 1;
    for (uint32_t i = 0; i < slot_count; i++) free_slots[i] = slot_count - 1 - i;
    for (size_t i = 0; i < (size_t)run->ranks * run->ring * run->parts * TRIES_KEPT; i++) tasks[i] = SIM_NONE;
    run->policy_state = shell;
    struct stk_engine_options options = {
        .place.policy = shipped_policy(config->system.engine_policy),
        .hold = config->system.hold,
        .copy_percent = config->system.copy_percent,
        .latency_ns = sim_ns(config->machines.link_latency_s),
        .bytes_per_s = (uint64_t)(config->machines.link_gbps * 1e9),
        .overhead_ns = sim_ns(2 * config->system.overheads.control_s + config->system.overheads.remote_s),
        .budget_step_bytes = (uint64_t)(config->system.budget_gb_step * 1e9)};
    journal_begin(run, &limits, &options);
    shell->engine = stk_engine_init(block, engine_bytes, &limits, &options);
    for (uint32_t server = 0; server < run->server_count; server++) introduce(run, server);
    for (uint32_t rank = 0; rank < run->ranks; rank++) {
        step(run, &(struct stk_event){.type = STK_EVENT_LANE_OPEN,
                                      .lane = rank,
                                      .server = run->rank[rank].server,
                                      .host = run->rank[rank].host,
                                      .rank = rank});
        step(run, &(struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = rank});
    }
    return run->status;
}

static uint32_t *tries_of(struct sim_run *run, uint32_t batch, uint32_t part)
{
    struct shell *shell = run->policy_state;
    return &shell->tasks[((size_t)batch * run->parts + part) * TRIES_KEPT];
}

static void place(struct sim_run *run, const struct stk_action *action)
{
    uint32_t batch = sim_batch_of(run, action->lane, action->sequence);
    if (!sim_part_wanted(run, batch, action->sequence, action->part)) return; /* it came meanwhile */
    uint32_t task = sim_place(run, batch, action->part, action->server, action->deadline_ns,
                              sim_ns(run->config->system.overheads.control_s));
    if (task == SIM_NONE) return;
    if (action->reason == STK_REASON_COPY || action->reason == STK_REASON_PROBE) run->result->copies++;
    uint32_t *tries = tries_of(run, batch, action->part);
    for (uint32_t i = 0; i < TRIES_KEPT; i++)
        if (tries[i] == SIM_NONE) {
            tries[i] = task;
            return;
        }
    sim_fail(run, STOKER_ERR_INTERNAL, "the engine placed a part a fifth time");
}

static void apply(struct sim_run *run, const struct stk_action *action)
{
    if (action->type == STK_ACTION_PLACE) {
        place(run, action);
        return;
    }
    if (action->type == STK_ACTION_GIVE_UP) {
        sim_fail(run, STOKER_ERR_UNAVAILABLE, "the engine gave a task up: all its servers failed");
        return;
    }
    uint32_t batch = sim_batch_of(run, action->lane, action->sequence);
    if (run->batches[batch].step != action->sequence) return;
    uint32_t *tries = tries_of(run, batch, action->part);
    for (uint32_t i = 0; i < TRIES_KEPT; i++) {
        if (tries[i] == SIM_NONE || run->tasks[tries[i]].server != action->server) continue;
        if (action->type == STK_ACTION_DEADLINE) {
            sim_task_deadline(run, tries[i], action->deadline_ns);
        } else {
            sim_task_cancel(run, tries[i]);
            tries[i] = SIM_NONE;
        }
    }
}

static void step(struct sim_run *run, const struct stk_event *event)
{
    struct shell *shell = run->policy_state;
    size_t count = 0, applied = 0;
    stoker_error err = {0};
    stoker_status status = stk_engine_step(shell->engine, run->now_ns, event, 1, shell->actions, shell->action_cap,
                                           &count, &applied, &err);
    journal_step(run, event, shell->actions, count);
    if (status < 0 && run->status == STOKER_OK) {
        run->status = status;
        run->err = err;
        return;
    }
    for (size_t i = 0; i < count; i++) apply(run, &shell->actions[i]);
    uint64_t check_ns = stk_engine_next_check_ns(shell->engine);
    if (check_ns >= shell->tick_ns) return;
    shell->tick_ns = check_ns > run->now_ns ? check_ns : run->now_ns + 1;
    sim_at(run, shell->tick_ns, SIM_HAPPENS_TICK, 0, 0);
}

/* The event reaches the engine after the time of a message. */
static void tell(struct sim_run *run, const struct stk_event *event)
{
    struct shell *shell = run->policy_state;
    if (shell->free_count == 0) {
        sim_fail(run, STOKER_ERR_LIMIT, "too many messages to the engine are on their way");
        return;
    }
    uint32_t slot = shell->free_slots[--shell->free_count];
    shell->slots[slot] = *event;
    shell->messages++;
    sim_at(run, run->now_ns + sim_ns(run->config->system.overheads.control_s), SIM_HAPPENS_TOLD, slot, 0);
}

static void shell_told(struct sim_run *run, uint32_t slot)
{
    struct shell *shell = run->policy_state;
    struct stk_event event = shell->slots[slot];
    shell->free_slots[shell->free_count++] = slot;
    step(run, &event);
}

static void shell_tick(struct sim_run *run)
{
    struct shell *shell = run->policy_state;
    if (run->now_ns < shell->tick_ns) return; /* an earlier one was asked for since */
    shell->tick_ns = UINT64_MAX;
    step(run, &(struct stk_event){.type = STK_EVENT_TICK});
}

static void shell_request(struct sim_run *run, uint32_t number, uint32_t part)
{
    const struct shell *shell = run->policy_state;
    const struct sim_batch *batch = &run->batches[number];
    uint32_t unit = (run->config->workload.batch + run->parts - 1) / run->parts, items = 0;
    struct stk_event event = {.type = STK_EVENT_REQUEST, .lane = batch->rank, .sequence = batch->step, .part = part};
    double cost = 0;
    for (uint32_t i = part * unit; i < (part + 1) * unit && i < run->config->workload.batch; i++, items++) {
        cost += (double)batch->samples[i].predicted_ns * run->config->system.overheads.cost_factor;
        event.output_bytes += batch->samples[i].bytes;
    }
    event.items = items;
    event.cpu_ns = (uint64_t)cost;
    event.margin_ns = (uint64_t)(cost * shell->margin);
    step(run, &event);
}

static void shell_made(struct sim_run *run, uint32_t index, bool lost)
{
    const struct sim_task *task = &run->tasks[index];
    uint32_t *tries = tries_of(run, task->batch, task->part);
    for (uint32_t i = 0; i < TRIES_KEPT; i++)
        if (tries[i] == index) tries[i] = SIM_NONE;
    if (lost) return; /* the engine hears that the server left, and places again what it had there */
    struct stk_event event = {.type = STK_EVENT_RESULT,
                              .lane = task->rank,
                              .sequence = task->wanted_step,
                              .part = task->part,
                              .server = task->server,
                              .cpu_ns = task->cpu_ns,
                              .wall_ns = task->wall_ns,
                              .output_bytes = task->bytes};
    tell(run, &event);
    const struct shell *shell = run->policy_state;
    if (sim_uniform(run->seed, SIM_STREAM_LOSS, shell->messages) < run->config->messages.doubled) tell(run, &event);
}

/* The rank's own server sees that the part is there, perhaps before the engine hears of it, and makes it no more. */
static void shell_arrived(struct sim_run *run, uint32_t batch, uint32_t part)
{
    uint32_t *tries = tries_of(run, batch, part), own = run->rank[run->batches[batch].rank].server;
    for (uint32_t i = 0; i < TRIES_KEPT; i++) {
        if (tries[i] == SIM_NONE || run->tasks[tries[i]].server != own) continue;
        sim_task_cancel(run, tries[i]);
        tries[i] = SIM_NONE;
    }
}

static void shell_taken(struct sim_run *run, uint32_t rank, uint64_t sequence, uint64_t wait_ns, uint64_t window_ns)
{
    tell(run,
         &(struct stk_event){
             .type = STK_EVENT_STEP, .lane = rank, .sequence = sequence, .wait_ns = wait_ns, .window_ns = window_ns});
}

static void shell_server(struct sim_run *run, uint32_t server, bool alive)
{
    if (alive)
        tell(run, &(struct stk_event){.type = STK_EVENT_SERVER_JOIN,
                                      .server = server,
                                      .host = run->servers[server].host,
                                      .workers = run->servers[server].cores});
    else
        tell(run, &(struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = server});
}

static void shell_moved(struct sim_run *run, uint32_t task, uint64_t took_ns)
{
    struct shell *shell = run->policy_state;
    uint32_t host = run->servers[run->tasks[task].server].host;
    shell->link_bytes[host] = run->tasks[task].bytes;
    shell->link_ns[host] = took_ns;
    shell->link_to[host] = run->rank[run->tasks[task].rank].host;
}

static void shell_heartbeat(struct sim_run *run, uint32_t server)
{
    struct shell *shell = run->policy_state;
    if (sim_uniform(run->seed, SIM_STREAM_LOSS, ++shell->messages) < run->config->messages.lost) return;
    uint32_t host = run->servers[server].host;
    tell(run,
         &(struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = server, .workers = run->servers[server].cores});
    if (shell->link_ns[host] == 0) return;
    tell(run, &(struct stk_event){.type = STK_EVENT_LINK,
                                  .host = host,
                                  .to_host = shell->link_to[host],
                                  .bytes_per_s =
                                      (uint64_t)((double)shell->link_bytes[host] * 1e9 / (double)shell->link_ns[host]),
                                  .latency_ns = sim_ns(run->config->machines.link_latency_s)});
    shell->link_ns[host] = 0;
}

const struct sim_policy sim_policy_engine = {.start = shell_start,
                                             .request = shell_request,
                                             .made = shell_made,
                                             .arrived = shell_arrived,
                                             .taken = shell_taken,
                                             .server = shell_server,
                                             .heartbeat = shell_heartbeat,
                                             .tick = shell_tick,
                                             .told = shell_told,
                                             .moved = shell_moved};
