/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a run: each host sends and receives one transfer at a time at the rate of its link; a host
 * that receives from too many servers stalls now and then.
 */
#include "base/assert.h"
#include "sim/random.h"
#include "sim/run_internal.h"

static double bytes_ns(const struct sim_run *run, const struct sim_host *host, uint64_t bytes)
{
    (void)run;
    return (double)bytes / host->bytes_per_ns * host->slow;
}

double sim_transfer_s(const struct sim_run *run, uint32_t server, uint32_t rank, uint64_t bytes)
{
    const struct sim_host *from = &run->hosts[run->servers[server].host], *to = &run->hosts[run->rank[rank].host];
    if (from == to) return 0;
    const struct sim_overheads *overheads = &run->config->system.overheads;
    double seconds = overheads->remote_s + run->config->machines.link_latency_s;
    double out = bytes_ns(run, from, bytes), in = bytes_ns(run, to, bytes);
    if (overheads->remote_gbps > 0) seconds += (double)bytes / 1e9 / overheads->remote_gbps;
    return seconds + (out > in ? out : in) / 1e9;
}

/* What too many peers of the receiving host cost this transfer. */
static double peer_stall_s(struct sim_run *run, const struct sim_task *task)
{
    const struct sim_machines *machines = &run->config->machines;
    if (machines->peers_free <= 0 || machines->peers_stall <= 0) return 0;
    uint64_t *used_ns = run->peer_used_ns + (size_t)run->rank[task->rank].host * run->server_count;
    used_ns[task->server] = run->now_ns + 1;
    uint32_t peers = 0;
    for (uint32_t server = 0; server < run->server_count; server++)
        peers += used_ns[server] > 0 && run->now_ns - (used_ns[server] - 1) <= SIM_PEER_NS;
    if (peers <= machines->peers_free) return 0;
    double chance = machines->peers_stall * (peers - machines->peers_free) / machines->peers_free;
    uint64_t key = run->batches[task->batch].samples[task->first].id * 8 + task->attempt % 8;
    return sim_uniform(run->seed, SIM_STREAM_PEERS, key) < chance ? machines->peers_stall_s : 0;
}

/* The part is made: its bytes go to the rank's host, then sim_transfer_done(). */
void sim_transfer(struct sim_run *run, uint32_t number)
{
    struct sim_task *task = &run->tasks[number];
    const struct sim_batch *batch = &run->batches[task->batch];
    struct sim_server *server = &run->servers[task->server];
    struct sim_host *from = &run->hosts[server->host], *to = &run->hosts[run->rank[batch->rank].host];
    const struct sim_overheads *overheads = &run->config->system.overheads;
    bool counts = batch->step >= run->config->warmup;
    if (counts && task->server / (run->local_count / run->ranks) != batch->rank)
        run->result->cross_server_bytes += task->bytes;
    if (from == to) {
        sim_transfer_done(run, number, task->generation);
        return;
    }
    if (counts) run->result->cross_host_bytes += task->bytes;
    uint64_t begin_ns = run->now_ns > from->out_free_ns ? run->now_ns : from->out_free_ns;
    double handling = overheads->remote_s + peer_stall_s(run, task);
    if (overheads->remote_gbps > 0) handling += (double)task->bytes / 1e9 / overheads->remote_gbps;
    uint64_t out_ns = (uint64_t)bytes_ns(run, from, task->bytes);
    double in = bytes_ns(run, to, task->bytes);
    from->out_free_ns = begin_ns + out_ns;
    uint64_t arrive_ns = begin_ns > to->in_free_ns ? begin_ns : to->in_free_ns;
    to->in_free_ns = arrive_ns + (uint64_t)in;
    uint64_t end_ns = to->in_free_ns > from->out_free_ns ? to->in_free_ns : from->out_free_ns;
    if (run->policy->moved) run->policy->moved(run, number, end_ns - begin_ns);
    sim_at(run, end_ns + sim_ns(handling + run->config->machines.link_latency_s), SIM_HAPPENS_MOVED, number,
           task->generation);
}

void sim_transfer_done(struct sim_run *run, uint32_t number, uint64_t generation)
{
    struct sim_task *task = &run->tasks[number];
    STK_ASSERT(task->live && task->generation == generation);
    const struct sim_batch *batch = &run->batches[task->batch];
    /* A part that came by another try is dropped. The batch of a task stays its own while the task lives: it is not
     * taken before all its parts are here, and its place is used again a whole ring later. */
    if (task->wanted_step == batch->step && sim_part_wanted(run, task->batch, batch->step, task->part))
        sim_part_here(run, task);
    else
        run->parts_dropped++;
    sim_task_end(run, number);
}
