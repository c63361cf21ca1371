/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a run: what they ask for, how long they wait, when their steps end; and the dealing of a step's samples.
 */
#include "base/assert.h"
#include "sim/random.h"
#include "sim/run_internal.h"

static uint64_t total_steps(const struct sim_run *run) { return (uint64_t)run->config->warmup + run->config->steps; }

static bool measured(const struct sim_run *run, uint64_t step) { return step >= run->config->warmup; }

/* Numbers of the step's samples, the dearest first; equal ones in order. */
static void sort_by_cost(const struct sim_sample *samples, uint32_t *order, uint32_t count)
{
    uint32_t gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < count; i++) {
            uint32_t moved = order[i], place = i;
            uint64_t cost = samples[moved].predicted_ns;
            while (place >= gap) {
                uint32_t other = order[place - gap];
                uint64_t other_cost = samples[other].predicted_ns;
                if (other_cost > cost || (other_cost == cost && other < moved)) break;
                order[place] = other;
                place -= gap;
            }
            order[place] = moved;
        }
}

/* The dearest sample to the rank with the least work that has room. */
static void deal_by_cost(struct sim_run *run, uint64_t step)
{
    uint32_t batch = run->config->workload.batch, count = run->ranks * batch;
    for (uint32_t i = 0; i < count; i++) run->plan_order[i] = i;
    sort_by_cost(run->plan_samples, run->plan_order, count);
    for (uint32_t rank = 0; rank < run->ranks; rank++) {
        run->plan_room[rank] = batch;
        run->plan_load[rank] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t best = SIM_NONE;
        for (uint32_t rank = 0; rank < run->ranks; rank++)
            if (run->plan_room[rank] > 0 && (best == SIM_NONE || run->plan_load[rank] < run->plan_load[best]))
                best = rank;
        const struct sim_sample *sample = &run->plan_samples[run->plan_order[i]];
        run->batches[sim_batch_of(run, best, step)].samples[batch - run->plan_room[best]--] = *sample;
        run->plan_load[best] += sample->predicted_ns;
    }
}

void sim_plan_step(struct sim_run *run, uint64_t step)
{
    if (step < run->planned) return;
    STK_ASSERT(step == run->planned);
    uint32_t batch = run->config->workload.batch, count = run->ranks * batch;
    for (uint32_t i = 0; i < count; i++)
        sim_sample_make(&run->config->workload, run->seed, step, step * count + i, &run->plan_samples[i]);
    if (measured(run, step))
        for (uint32_t i = 0; i < count; i++) run->result->work_ns += run->plan_samples[i].cost_ns;
    if (run->config->system.planned)
        deal_by_cost(run, step);
    else
        for (uint32_t i = 0; i < count; i++)
            run->batches[sim_batch_of(run, i / batch, step)].samples[i % batch] = run->plan_samples[i];
    run->planned++;
}

void sim_rank_request(struct sim_run *run, uint32_t index)
{
    struct sim_rank *rank = &run->rank[index];
    while (rank->asked < rank->taken + run->config->system.depth && rank->asked < total_steps(run)) {
        uint64_t step = rank->asked++;
        sim_plan_step(run, step);
        uint32_t number = sim_batch_of(run, index, step);
        struct sim_batch *batch = &run->batches[number];
        STK_ASSERT(!batch->live);
        batch->live = true;
        batch->ready = false;
        batch->step = step;
        batch->rank = index;
        batch->asked_ns = run->now_ns;
        batch->parts_left = run->parts;
        batch->bytes = 0;
        batch->id_sum = 0;
        for (uint32_t part = 0; part < run->parts; part++) {
            batch->part_done[part] = false;
            batch->part_tries[part] = 0;
        }
        for (uint32_t i = 0; i < run->config->workload.batch; i++) batch->bytes += batch->samples[i].bytes;
        run->asked_total++;
        sim_at(run, run->now_ns + sim_ns(run->config->system.overheads.control_s), SIM_HAPPENS_PLACE, number, step);
    }
}

bool sim_part_wanted(const struct sim_run *run, uint32_t batch, uint64_t step, uint32_t part)
{
    const struct sim_batch *asked = &run->batches[batch];
    return asked->live && !asked->ready && asked->step == step && !asked->part_done[part];
}

/* The part lies on the rank's host. The first try that comes counts. */
void sim_part_here(struct sim_run *run, const struct sim_task *task)
{
    struct sim_batch *batch = &run->batches[task->batch];
    STK_ASSERT(batch->live && !batch->part_done[task->part]);
    batch->part_done[task->part] = true;
    for (uint32_t i = 0; i < task->count; i++) batch->id_sum += batch->samples[task->first + i].id;
    run->parts_accepted++;
    if (run->policy->arrived) run->policy->arrived(run, task->batch, task->part);
    if (--batch->parts_left > 0) return;
    const struct sim_overheads *overheads = &run->config->system.overheads;
    double local = overheads->local_s;
    if (overheads->local_gbps > 0) local += (double)batch->bytes / 1e9 / overheads->local_gbps;
    sim_at(run, run->now_ns + sim_ns(local), SIM_HAPPENS_READY, task->batch, 0);
}

double sim_stall_growth(const struct sim_run *run, uint64_t bytes)
{
    double power = run->config->system.overheads.stall_bytes;
    return power > 0 ? sim_power((double)bytes / run->mean_bytes, power) : 1;
}

static uint64_t next_ns(const struct sim_run *run, const struct sim_batch *batch)
{
    const struct sim_overheads *overheads = &run->config->system.overheads;
    STK_ASSERT(run->config->workload.batch > 0);
    double inside = overheads->next_s;
    if (overheads->next_gbps > 0) inside += (double)batch->bytes / 1e9 / overheads->next_gbps;
    uint64_t key = batch->step * SIM_RANKS_MAX + batch->rank;
    if (sim_uniform(run->seed, SIM_STREAM_HICCUP, key) < overheads->hiccup_rate) {
        double grown = sim_stall_growth(run, batch->bytes / run->config->workload.batch);
        inside -= overheads->hiccup_s * grown * sim_log(sim_uniform(run->seed, SIM_STREAM_HICCUP_TIME, key));
    }
    return sim_ns(inside);
}

static void step_done(struct sim_run *run)
{
    struct sim_result *result = run->result;
    if (measured(run, run->step)) {
        result->waits_ns[result->steps++] = run->step_wait_ns;
        result->wait_sum_ns += run->step_wait_ns;
        result->misses += run->step_wait_ns > result->deadline_ns;
        result->window_sum_ns += run->step_window_ns;
        result->samples += (uint64_t)run->ranks * run->config->workload.batch;
        result->elapsed_ns = run->step_end_ns - run->measure_from_ns;
    }
    run->step++;
    run->taken_count = 0;
    sim_at(run, run->step_end_ns, SIM_HAPPENS_WANT, 0, 0);
}

static void take(struct sim_run *run, uint32_t index)
{
    struct sim_rank *rank = &run->rank[index];
    struct sim_batch *batch = &run->batches[sim_batch_of(run, index, rank->taken)];
    STK_ASSERT(batch->live && batch->ready && batch->step == rank->taken && batch->step == run->step);
    uint64_t planned = 0, tokens = 0;
    for (uint32_t i = 0; i < run->config->workload.batch; i++) {
        planned += batch->samples[i].id;
        tokens += batch->samples[i].tokens;
    }
    STK_ASSERT(batch->id_sum == planned);
    uint64_t back_ns = run->now_ns + next_ns(run, batch), wait_ns = back_ns - rank->want_ns;
    uint64_t window_ns = sim_window_ns(&run->config->workload, run->seed, batch->step, index,
                                       run->config->workload.batch, tokens, !run->config->data_only);
    batch->live = false;
    rank->wanting = false;
    rank->taken++;
    run->taken_total++;
    struct sim_result *result = run->result;
    result->digest =
        sim_bits(result->digest, SIM_STREAM_LOSS, batch->id_sum ^ (back_ns << 1) ^ (window_ns << 20) ^ index);
    if (run->taken_count++ == 0) run->step_wait_ns = run->step_window_ns = run->step_end_ns = 0;
    if (wait_ns > run->step_wait_ns) run->step_wait_ns = wait_ns;
    if (window_ns > run->step_window_ns) run->step_window_ns = window_ns;
    if (back_ns + window_ns > run->step_end_ns) run->step_end_ns = back_ns + window_ns;
    if (run->policy->taken) run->policy->taken(run, index, batch->step, wait_ns, rank->want_ns - rank->called_ns);
    rank->called_ns = back_ns;
    sim_at(run, back_ns, SIM_HAPPENS_REQUEST, index, 0);
    if (run->taken_count == run->ranks) step_done(run);
}

void sim_ranks_want(struct sim_run *run)
{
    if (run->step >= total_steps(run)) return;
    if (run->step == run->config->warmup) run->measure_from_ns = run->now_ns;
    for (uint32_t index = 0; index < run->ranks; index++) {
        run->rank[index].want_ns = run->now_ns;
        run->rank[index].wanting = true;
    }
    uint64_t step = run->step;
    for (uint32_t index = 0; index < run->ranks; index++)
        if (run->batches[sim_batch_of(run, index, step)].live && run->batches[sim_batch_of(run, index, step)].ready &&
            run->batches[sim_batch_of(run, index, step)].step == step)
            take(run, index);
}

void sim_batch_ready(struct sim_run *run, uint32_t number)
{
    struct sim_batch *batch = &run->batches[number];
    STK_ASSERT(batch->live && !batch->ready && batch->parts_left == 0);
    batch->ready = true;
    run->ready_total++;
    if (measured(run, batch->step))
        run->result->ready_ns[(batch->step - run->config->warmup) * run->ranks + batch->rank] =
            run->now_ns - batch->asked_ns;
    struct sim_rank *rank = &run->rank[batch->rank];
    if (rank->wanting && rank->taken == batch->step) take(run, batch->rank);
}

void sim_ranks_start(struct sim_run *run)
{
    for (uint32_t index = 0; index < run->ranks; index++) sim_at(run, 0, SIM_HAPPENS_REQUEST, index, 0);
    sim_at(run, 0, SIM_HAPPENS_WANT, 0, 0);
}
