/* SPDX-License-Identifier: Apache-2.0
 *
 * Which numbers of a configuration make sense.
 */
#include "sim/config.h"

#include "base/error.h"
#include "sim/run.h"

struct bound {
    const char *name;
    double value, least, most;
};

static stoker_status check_all(const struct bound *bounds, uint32_t count, stoker_error *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(bounds[i].value >= bounds[i].least && bounds[i].value <= bounds[i].most))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s is %g, expected %g to %g", bounds[i].name,
                            bounds[i].value, bounds[i].least, bounds[i].most);
    return STOKER_OK;
}

static stoker_status check_machines(const struct sim_config *config, stoker_error *err)
{
    const struct sim_machines *machines = &config->machines;
    const struct bound bounds[] = {
        {"machines.ranks", machines->ranks, 1, SIM_RANKS_MAX},
        {"machines.rank_hosts", machines->rank_hosts, 1, machines->ranks},
        {"machines.cores", machines->cores, 1, SIM_CORES_MAX},
        {"machines.remote", machines->remote, 0, SIM_SERVERS_MAX - SIM_RANKS_MAX},
        {"machines.remote_per_host", machines->remote_per_host, 0, SIM_SERVERS_MAX},
        {"machines.link_gbps", machines->link_gbps, 1e-3, 1e4},
        {"machines.link_latency_s", machines->link_latency_s, 0, 10},
        {"machines.link_gbps_remote", machines->link_gbps_remote, 0, 1e4},
        {"machines.peers_free", machines->peers_free, 0, 1e6},
        {"machines.peers_stall", machines->peers_stall, 0, 1},
        {"machines.peers_stall_s", machines->peers_stall_s, 0, 3600},
    };
    return check_all(bounds, sizeof bounds / sizeof bounds[0], err);
}

static stoker_status check_workload(const struct sim_config *config, stoker_error *err)
{
    const struct sim_workload *workload = &config->workload;
    const struct bound bounds[] = {
        {"workload.batch", workload->batch, 1, SIM_BATCH_MAX},
        {"workload.micro", workload->micro, 1, workload->batch},
        {"workload.cost_scale", workload->cost_scale, 0, 1e4},
        {"workload.cost_median_s", workload->cost_median_s, 0, 3600},
        {"workload.cost_sigma", workload->cost_sigma, 0, 4},
        {"workload.tail_share", workload->tail_share, 0, 1},
        {"workload.window_fixed_s", workload->window_fixed_s, 0, 3600},
        {"workload.window_token_s", workload->window_token_s, 0, 1},
        {"workload.window_noise", workload->window_noise, 0, 2},
        {"workload.bytes_scale", workload->bytes_scale, 0, 1e3},
        {"workload.predict_sigma", workload->predict_sigma, 0, 3},
    };
    return check_all(bounds, sizeof bounds / sizeof bounds[0], err);
}

static stoker_status check_overheads(const struct sim_overheads *overheads, stoker_error *err)
{
    const struct bound bounds[] = {
        {"overheads.cost_factor", overheads->cost_factor, 1e-3, 1e3},
        {"overheads.task_s", overheads->task_s, 0, 3600},
        {"overheads.task_gbps", overheads->task_gbps, 0, 1e4},
        {"overheads.control_s", overheads->control_s, 0, 60},
        {"overheads.remote_s", overheads->remote_s, 0, 3600},
        {"overheads.remote_gbps", overheads->remote_gbps, 0, 1e4},
        {"overheads.local_s", overheads->local_s, 0, 3600},
        {"overheads.local_gbps", overheads->local_gbps, 0, 1e4},
        {"overheads.next_s", overheads->next_s, 0, 3600},
        {"overheads.next_gbps", overheads->next_gbps, 0, 1e4},
        {"overheads.stall_rate", overheads->stall_rate, 0, 1},
        {"overheads.stall_median_s", overheads->stall_median_s, 0, 3600},
        {"overheads.stall_sigma", overheads->stall_sigma, 0, 3},
        {"overheads.stall_bytes", overheads->stall_bytes, 0, 3},
        {"overheads.stall_sticky", overheads->stall_sticky, 0, 1},
        {"overheads.hiccup_rate", overheads->hiccup_rate, 0, 1},
        {"overheads.hiccup_s", overheads->hiccup_s, 0, 3600},
    };
    return check_all(bounds, sizeof bounds / sizeof bounds[0], err);
}

static stoker_status check_faults(const struct sim_config *config, stoker_error *err)
{
    for (uint32_t i = 0; i < config->fault_count; i++) {
        const struct sim_fault *fault = &config->faults[i];
        const struct bound bounds[] = {
            {"faults.server", fault->server, 0, SIM_SERVERS_MAX},
            {"faults.at_s", fault->at_s, 0, 1e6},
            {"faults.until_s", fault->until_s, 0, 1e6},
            {"faults.factor", fault->factor, fault->kind == SIM_FAULT_SLOW || fault->kind == SIM_FAULT_LINK ? 1 : 0,
             1e6},
        };
        STK_TRY(check_all(bounds, sizeof bounds / sizeof bounds[0], err));
        if (fault->until_s > 0 && fault->until_s <= fault->at_s)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "fault %u ends at %g s, before it begins at %g s", i,
                            fault->until_s, fault->at_s);
    }
    return STOKER_OK;
}

stoker_status sim_config_check(const struct sim_config *config, stoker_error *err)
{
    const struct sim_system *system = &config->system;
    STK_TRY(check_machines(config, err));
    STK_TRY(check_workload(config, err));
    STK_TRY(check_overheads(&system->overheads, err));
    STK_TRY(check_faults(config, err));
    const struct bound bounds[] = {
        {"system.workers", system->workers, 0, SIM_SERVERS_MAX},
        {"system.depth", system->depth, 1, SIM_DEPTH_MAX},
        {"system.feedback", system->feedback, 0, 1},
        {"system.remote_gain", system->remote_gain, -10, 1},
        {"system.miss_weight", system->miss_weight, 0, 1e3},
        {"system.heartbeat_s", system->heartbeat_s, 0, 3600},
        {"system.budget_gb_step", system->budget_gb_step, 0, 1e6},
        {"messages.lost", config->messages.lost, 0, 1},
        {"messages.doubled", config->messages.doubled, 0, 1},
        {"warmup", config->warmup, 0, SIM_STEPS_MAX},
        {"steps", config->steps, 1, SIM_STEPS_MAX},
        {"data_deadline_s", config->data_deadline_s, 0, 3600},
    };
    return check_all(bounds, sizeof bounds / sizeof bounds[0], err);
}
