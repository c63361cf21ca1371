/* SPDX-License-Identifier: Apache-2.0
 *
 * The published co-scheduler, as far as it is described: local if on time, else the remote server with the best
 * deadline score, else the earliest to finish; with feedback from what tasks took. What is not described is chosen so
 * that the published figures come out: the running mean of a server's latencies contains its stalls, and the time left
 * is that of the window in progress for every batch in flight.
 */
#include "sim/run_internal.h"

struct published {
    double *latency_ns; /* [servers]: running mean of what a task took, beyond its prediction */
};

static stoker_status published_start(struct sim_run *run, struct sim_memory *memory, stoker_error *err)
{
    (void)err;
    struct published *published = sim_memory_take(memory, 1, sizeof *published);
    double *latency = sim_memory_take(memory, run->server_count, sizeof *latency);
    if (memory->measuring) return STOKER_OK;
    published->latency_ns = latency;
    run->policy_state = published;
    return STOKER_OK;
}

struct estimate {
    double total_ns, late_ns;
};

static struct estimate estimate_of(const struct sim_run *run, uint32_t number, uint32_t part, uint32_t index,
                                   double left_ns)
{
    const struct published *published = run->policy_state;
    const struct sim_server *server = &run->servers[index];
    const struct sim_batch *batch = &run->batches[number];
    uint32_t unit = (run->config->workload.batch + run->parts - 1) / run->parts;
    double cost = 0;
    uint64_t bytes = 0;
    for (uint32_t i = part * unit; i < (part + 1) * unit && i < run->config->workload.batch; i++) {
        cost += (double)batch->samples[i].predicted_ns * run->config->system.overheads.cost_factor;
        bytes += batch->samples[i].bytes;
    }
    struct estimate estimate = {0};
    estimate.total_ns = cost + (double)server->load_ns / server->cores + published->latency_ns[index] +
                        sim_transfer_s(run, index, batch->rank, bytes) * 1e9;
    estimate.late_ns = estimate.total_ns > left_ns ? estimate.total_ns - left_ns : 0;
    return estimate;
}

static void published_request(struct sim_run *run, uint32_t number, uint32_t part)
{
    const struct sim_system *system = &run->config->system;
    const struct sim_rank *rank = &run->rank[run->batches[number].rank];
    double window_ns = sim_nominal_window_s(&run->config->workload) * 1e9;
    double gone = (double)(run->now_ns - rank->called_ns), left = window_ns > gone ? window_ns - gone : 0;
    uint32_t local = run->batches[number].rank, best = SIM_NONE;
    struct estimate here = estimate_of(run, number, part, local, left);
    double best_score = 0;
    bool local_dead = run->servers[local].dead;
    if (local_dead || here.late_ns > 0) {
        for (uint32_t server = run->ranks; server < run->server_count; server++) {
            if (run->servers[server].dead) continue;
            struct estimate there = estimate_of(run, number, part, server, left);
            double score = there.total_ns + system->miss_weight * there.late_ns;
            if (best == SIM_NONE || score < best_score) {
                best = server;
                best_score = score;
            }
        }
        double own = (here.total_ns + system->miss_weight * here.late_ns) * (1 - system->remote_gain);
        if (best != SIM_NONE && !local_dead && best_score >= own) best = SIM_NONE;
    }
    if (best == SIM_NONE && local_dead) {
        for (uint32_t server = 0; server < run->server_count && best == SIM_NONE; server++)
            if (!run->servers[server].dead) best = server;
        if (best == SIM_NONE) {
            sim_place(run, number, part, local, 0, SIM_AGAIN_NS);
            return;
        }
    }
    sim_place(run, number, part, best == SIM_NONE ? local : best, 0, sim_ns(system->overheads.control_s));
}

static void published_made(struct sim_run *run, uint32_t index, bool lost)
{
    struct published *published = run->policy_state;
    const struct sim_task *task = &run->tasks[index];
    if (lost) {
        published_request(run, task->batch, task->part);
        return;
    }
    double took = (double)(run->now_ns - task->placed_ns) - (double)task->predicted_ns;
    if (took < 0) took = 0;
    double *latency = &published->latency_ns[task->server];
    *latency += run->config->system.feedback * (took - *latency);
}

const struct sim_policy sim_policy_published = {
    .start = published_start, .request = published_request, .made = published_made};
