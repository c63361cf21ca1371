/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of runs over seeded worlds: any machines, work, faults and contender. A run that ends has kept, at each of its
 * events, what sim/run.c asserts: each sample reaches its rank once and in order.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/run.h"
#include "tests/property/prop.h"

static void any_faults(struct prop_random *random, struct sim_config *config, uint32_t servers)
{
    config->fault_count = prop_below(random, 4);
    for (uint32_t i = 0; i < config->fault_count; i++) {
        struct sim_fault *fault = &config->faults[i];
        fault->kind = (enum sim_fault_kind)prop_below(random, 4);
        fault->server = prop_below(random, servers);
        fault->at_s = prop_below(random, 100) / 10.0;
        fault->until_s = fault->at_s + 0.1 + prop_below(random, 50) / 10.0;
        fault->factor = 1 + prop_below(random, 20);
    }
    config->messages.lost = prop_below(random, 3) * 0.4;
    config->messages.doubled = prop_below(random, 3) * 0.3;
}

static void any_overheads(struct prop_random *random, struct sim_overheads *overheads)
{
    overheads->cost_factor = 0.5 + prop_below(random, 10) / 5.0;
    overheads->control_s = prop_below(random, 50) / 1e4;
    overheads->task_s = prop_below(random, 3) / 100.0;
    overheads->remote_s = prop_below(random, 5) / 1e3;
    overheads->local_s = prop_below(random, 5) / 1e3;
    overheads->next_s = prop_below(random, 5) / 1e3;
    overheads->stall_rate = prop_below(random, 3) / 20.0;
    overheads->stall_median_s = prop_below(random, 50) / 10.0;
    overheads->stall_sigma = 0.5;
    overheads->stall_sticky = 0.3;
    overheads->hiccup_rate = prop_below(random, 3) / 20.0;
    overheads->hiccup_s = 0.5;
}

static void any_config(uint64_t seed, struct sim_config *out)
{
    struct prop_random random = prop_seed(seed);
    memset(out, 0, sizeof *out);
    uint32_t ranks = 1 + prop_below(&random, 6), remote = prop_below(&random, 7);
    out->machines = (struct sim_machines){.ranks = ranks,
                                          .rank_hosts = 1 + prop_below(&random, ranks),
                                          .cores = 1 + prop_below(&random, 4),
                                          .remote = remote,
                                          .remote_per_host = 1 + prop_below(&random, 3),
                                          .link_gbps = 0.1 + prop_below(&random, 100) / 10.0,
                                          .link_latency_s = 1e-4,
                                          .peers_free = prop_below(&random, 3),
                                          .peers_stall = 0.1,
                                          .peers_stall_s = 1};
    struct sim_workload *workload = &out->workload;
    workload->data = (enum sim_data)prop_below(&random, 2);
    workload->mix = (enum sim_mix)prop_below(&random, 4);
    workload->family = (enum sim_family)prop_below(&random, 3);
    workload->cost = (enum sim_cost_kind)prop_below(&random, 3);
    workload->batch = 1 + prop_below(&random, 8);
    workload->micro = 1 + prop_below(&random, workload->batch);
    workload->cost_scale = 1 + prop_below(&random, 5);
    workload->cost_median_s = 0.01 + prop_below(&random, 50) / 100.0;
    workload->cost_sigma = prop_below(&random, 3) / 2.0;
    workload->window_fixed_s = prop_below(&random, 30) / 100.0;
    workload->window_noise = 0.1;
    workload->bytes_scale = 1;
    workload->predict_sigma = prop_below(&random, 4) / 5.0;
    struct sim_system *system = &out->system;
    system->policy = (enum sim_policy_kind)prop_below(&random, 5);
    system->depth = 1 + prop_below(&random, 8);
    system->place = (enum sim_unit)prop_below(&random, 3);
    system->piece = system->policy == SIM_ENGINE ? SIM_UNIT_SAMPLE : (enum sim_unit)prop_below(&random, 3);
    system->planned = prop_once_in(&random, 2);
    system->feedback = 0.2;
    system->miss_weight = 4;
    system->heartbeat_s = prop_below(&random, 3) / 2.0;
    system->engine_policy = (enum sim_engine_policy)prop_below(&random, 4);
    system->hold = prop_below(&random, 4);
    system->budget_gb_step = prop_below(&random, 3) / 10.0;
    any_overheads(&random, &system->overheads);
    any_faults(&random, out, ranks + remote);
    out->warmup = prop_below(&random, 4);
    out->steps = 5 + prop_below(&random, 20);
    out->data_only = prop_once_in(&random, 4);
}

static void run_once(const struct sim_config *config, uint64_t seed, struct sim_result *out)
{
    size_t size = sim_run_bytes(config);
    void *block = aligned_alloc(64, (size + 63) / 64 * 64);
    PROP_CHECK(block != NULL);
    memset(block, (int)(seed & 255), size); /* what was in the memory before must not matter */
    out->waits_ns = calloc(config->steps, sizeof *out->waits_ns);
    out->ready_ns = calloc((size_t)config->steps * config->machines.ranks, sizeof *out->ready_ns);
    stoker_error err = {0};
    stoker_status status = sim_run(config, seed, block, size, out, &err);
    PROP_CHECK(status == STOKER_OK);
    free(block);
    free(out->waits_ns);
    free(out->ready_ns);
}

static void prop_a_run_ends_whatever_fails(uint64_t seed)
{
    static struct sim_config config;
    any_config(seed, &config);
    struct sim_result result = {0};
    run_once(&config, seed, &result);
    PROP_CHECK(result.steps == config.steps);
    PROP_CHECK(result.samples == (uint64_t)config.steps * config.machines.ranks * config.workload.batch);
    PROP_CHECK(result.elapsed_ns > 0 && result.window_sum_ns <= result.elapsed_ns);
    PROP_CHECK(result.elapsed_ns >= result.wait_sum_ns / 1 - result.wait_sum_ns / 2);
    if (config.machines.remote == 0 && config.machines.rank_hosts == 1) PROP_CHECK(result.cross_host_bytes == 0);
}

static void prop_the_same_seed_gives_the_same_run(uint64_t seed)
{
    static struct sim_config config;
    any_config(seed, &config);
    config.data_only = false; /* so that something is drawn */
    config.workload.window_fixed_s = 0.2;
    struct sim_result first = {0}, second = {0}, other = {0};
    run_once(&config, seed, &first);
    run_once(&config, seed, &second);
    PROP_CHECK(first.digest == second.digest && first.events == second.events);
    run_once(&config, seed + 1000003, &other);
    PROP_CHECK(first.digest != other.digest);
}

/* With cores for all and no cost beside the samples, nobody waits once the first batches are there. */
static void prop_nobody_waits_where_nothing_is_short(uint64_t seed)
{
    static struct sim_config config;
    any_config(seed, &config);
    config.fault_count = 0;
    config.machines.cores = 16;
    config.machines.peers_free = 0;
    config.workload.cost = SIM_COST_CONSTANT;
    config.workload.cost_median_s = 0.001;
    config.workload.window_fixed_s = 0.2;
    config.system.policy = (enum sim_policy_kind)(seed % 5);
    config.system.piece = SIM_UNIT_SAMPLE;
    config.system.depth = 4;
    config.system.engine_policy = SIM_ENGINE_DEADLINE;
    config.system.budget_gb_step = 0;
    config.system.overheads = (struct sim_overheads){.cost_factor = 1};
    config.machines.link_gbps = 1000;
    config.warmup = 4;
    config.messages = (struct sim_messages){0};
    struct sim_result result = {0};
    run_once(&config, seed, &result);
    PROP_CHECK(result.misses == 0 && result.wait_sum_ns == 0);
    PROP_CHECK(result.elapsed_ns == result.window_sum_ns && result.ideal_ns == result.elapsed_ns);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"a_run_ends_whatever_fails", prop_a_run_ends_whatever_fails, 300},
        {"the_same_seed_gives_the_same_run", prop_the_same_seed_gives_the_same_run, 100},
        {"nobody_waits_where_nothing_is_short", prop_nobody_waits_where_nothing_is_short, 100},
    };
    return prop_main(props, sizeof props / sizeof props[0], argc, argv);
}
