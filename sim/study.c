/* SPDX-License-Identifier: Apache-2.0
 *
 * See study.h. 8 ranks on one host, each with a local DataServer of 4 cores, and remote DataServers of 4 cores each on
 * hosts of their own; the actor pool has as many one-core slots. 20 steps to warm up, 100 measured.
 */
#include "sim/study.h"

#include <string.h>

#include "sim/workload.h"

/* What the mean cost of a workload is taken from: a fixed set of samples. */
enum { LOAD_SAMPLES = 6000, LOAD_SEED = 12345 };

struct study_workload {
    const char *name;
    enum sim_data data;
    enum sim_mix mix;
    enum sim_family family;
};

static const struct study_workload workloads[SIM_STUDY_WORKLOADS] = {
    {"kinetics-small/videomae", SIM_KINETICS, SIM_SMALL, SIM_VIDEOMAE},
    {"kinetics-mid/videomae", SIM_KINETICS, SIM_MID, SIM_VIDEOMAE},
    {"kinetics-large/videomae", SIM_KINETICS, SIM_LARGE, SIM_VIDEOMAE},
    {"kinetics-mixed/videomae", SIM_KINETICS, SIM_MIXED, SIM_VIDEOMAE},
    {"kinetics-small/qwen-vl", SIM_KINETICS, SIM_SMALL, SIM_QWEN},
    {"kinetics-mid/qwen-vl", SIM_KINETICS, SIM_MID, SIM_QWEN},
    {"kinetics-large/qwen-vl", SIM_KINETICS, SIM_LARGE, SIM_QWEN},
    {"kinetics-mixed/qwen-vl", SIM_KINETICS, SIM_MIXED, SIM_QWEN},
    {"openvid-mixed/videomae", SIM_OPENVID, SIM_MIXED, SIM_VIDEOMAE},
    {"openvid-mixed/wan", SIM_OPENVID, SIM_MIXED, SIM_WAN},
    {"openvid-mixed/qwen-vl", SIM_OPENVID, SIM_MIXED, SIM_QWEN},
};

const char *const sim_study_names[SIM_STUDY_CONTENDERS] = {
    "rank-local",  "actor-pool",  "least-request",    "published",       "ours",        "ours-least-request",
    "ours-budget", "ladder-base", "ladder-transport", "ladder-prefetch", "ours-fan-out"};

const char *sim_study_workload_name(uint32_t workload) { return workloads[workload].name; }

static void set_name(char *out, const char *name)
{
    size_t length = strlen(name);
    if (length >= SIM_NAME_BYTES) length = SIM_NAME_BYTES - 1;
    memcpy(out, name, length);
    out[length] = 0;
}

static void set_workload(const struct sim_constants *constants, const struct sim_study_point *point,
                         struct sim_workload *out)
{
    const struct study_workload *workload = &workloads[point->workload];
    set_name(out->name, workload->name);
    out->data = workload->data;
    out->mix = workload->mix;
    out->family = workload->family;
    out->batch = point->batch ? point->batch : (uint32_t)constants->batch;
    out->micro = point->micro ? point->micro : 1;
    out->cost = SIM_COST_MEDIA;
    out->cost_scale = point->world == SIM_FAIR ? constants->fair_cost_scale : constants->cost_scale;
    out->tail_share = constants->tail_share;
    out->window_noise = constants->window_noise;
    out->bytes_scale = 1;
    out->predict_sigma = constants->predict_sigma;
    const double fixed[] = {constants->videomae_fixed_s, constants->qwen_fixed_s, constants->wan_fixed_s};
    const double token[] = {constants->videomae_token_s, constants->qwen_token_s, constants->wan_token_s};
    double scale = point->world == SIM_FAIR ? 1 : constants->window_scale;
    out->window_fixed_s = fixed[workload->family] * scale;
    out->window_token_s = token[workload->family] * scale;
}

static void set_plane(const struct sim_constants *constants, struct sim_system *out)
{
    out->depth = (uint32_t)constants->plane_depth;
    out->planned = true;
    out->place = SIM_UNIT_MICRO;
    out->piece = SIM_UNIT_MICRO;
    out->feedback = constants->plane_feedback;
    out->remote_gain = constants->plane_remote_gain;
    out->miss_weight = constants->plane_miss_weight;
    out->heartbeat_s = constants->fair_heartbeat_s;
    out->overheads = (struct sim_overheads){.cost_factor = 1,
                                            .task_s = constants->plane_task_s,
                                            .control_s = constants->plane_control_s,
                                            .remote_s = constants->plane_remote_s,
                                            .remote_gbps = constants->plane_remote_gbps,
                                            .local_s = constants->plane_ready_s,
                                            .stall_rate = constants->plane_stall_rate,
                                            .stall_median_s = constants->plane_stall_s,
                                            .stall_sigma = constants->plane_stall_sigma,
                                            .stall_bytes = constants->stall_bytes,
                                            .stall_sticky = constants->stall_sticky};
}

static void set_rank_local(const struct sim_constants *constants, struct sim_system *out)
{
    out->policy = SIM_RANK_LOCAL;
    out->workers = (uint32_t)constants->local_workers;
    out->depth = (uint32_t)constants->local_depth;
    out->place = out->piece = SIM_UNIT_BATCH;
    out->overheads = (struct sim_overheads){.cost_factor = 1,
                                            .task_s = constants->local_task_s,
                                            .stall_rate = constants->local_stall_rate,
                                            .stall_median_s = constants->local_stall_s,
                                            .stall_sigma = constants->local_stall_sigma,
                                            .stall_bytes = constants->stall_bytes,
                                            .stall_sticky = constants->stall_sticky,
                                            .hiccup_rate = constants->local_hiccup_rate,
                                            .hiccup_s = constants->local_hiccup_s};
}

static void set_actor_pool(const struct sim_constants *constants, struct sim_system *out)
{
    out->policy = SIM_ACTOR_POOL;
    out->depth = (uint32_t)constants->pool_depth;
    out->place = out->piece = SIM_UNIT_SAMPLE;
    out->overheads = (struct sim_overheads){.cost_factor = 1,
                                            .task_s = constants->pool_task_s,
                                            .local_s = constants->pool_ready_s,
                                            .stall_rate = constants->pool_stall_rate,
                                            .stall_median_s = constants->pool_stall_s,
                                            .stall_sigma = constants->pool_stall_sigma,
                                            .stall_bytes = constants->stall_bytes,
                                            .stall_sticky = constants->stall_sticky,
                                            .hiccup_rate = constants->pool_hiccup_rate,
                                            .hiccup_s = constants->pool_hiccup_s};
}

/* The first two steps of the ladder place whole batches, shortly before they are wanted. */
static void set_ladder(const struct sim_constants *constants, enum sim_contender contender, struct sim_system *out)
{
    out->policy = SIM_LEAST;
    if (contender == SIM_STUDY_PREFETCH) return;
    out->planned = false;
    out->place = out->piece = SIM_UNIT_BATCH;
    out->depth = (uint32_t)constants->base_depth;
    if (contender == SIM_STUDY_TRANSPORT) return;
    out->overheads.remote_s = constants->base_remote_s;
    out->overheads.remote_gbps = constants->base_remote_gbps;
    out->overheads.local_s = constants->base_ready_s;
}

static void set_ours(const struct sim_constants *constants, const struct sim_study_point *point, struct sim_system *out)
{
    out->policy = SIM_ENGINE;
    out->planned = false; /* tokens within a step are equal here: the shipped tier 1 deals them in order */
    out->place = point->contender == SIM_STUDY_OURS_FAN_OUT ? SIM_UNIT_SAMPLE : SIM_UNIT_BATCH;
    out->piece = SIM_UNIT_SAMPLE;
    out->hold = (uint32_t)constants->ours_hold;
    out->copy_percent = (uint32_t)constants->ours_copy_percent;
    out->engine_policy = point->contender == SIM_STUDY_OURS_LEAST ? SIM_ENGINE_LEAST : SIM_ENGINE_DEADLINE;
    if (point->contender == SIM_STUDY_OURS_BUDGET) out->budget_gb_step = point->budget_gb_step;
}

static bool system_is_ours(enum sim_contender contender)
{
    return contender == SIM_STUDY_OURS || contender == SIM_STUDY_OURS_LEAST || contender == SIM_STUDY_OURS_BUDGET ||
           contender == SIM_STUDY_OURS_FAN_OUT;
}

/* The same for all: what was not measured is not there. */
static void make_fair(const struct sim_constants *constants, const struct sim_study_point *point,
                      struct sim_system *out)
{
    out->depth = (uint32_t)constants->fair_depth;
    out->planned = false;
    out->overheads = (struct sim_overheads){.cost_factor = 1, .control_s = constants->fair_control_s};
    if (system_is_ours(point->contender)) out->overheads.task_gbps = constants->fair_ours_task_gbps;
    if (point->contender != SIM_STUDY_RANK_LOCAL) return;
    out->workers = 4 + point->remote / 2; /* of each of 8 ranks: as many cores as the others have */
    out->overheads.task_gbps = constants->fair_local_task_gbps;
}

/* Costs at which the samples of a step ask for `load` of what the cores can do in its window. */
static double cost_scale_at(const struct sim_study_point *point, const struct sim_config *config)
{
    struct sim_workload one = config->workload;
    one.cost_scale = 1;
    double sum = 0;
    for (uint64_t id = 0; id < LOAD_SAMPLES; id++) {
        struct sim_sample sample;
        sim_sample_make(&one, LOAD_SEED, id, id, &sample);
        sum += (double)sample.cost_ns / 1e9;
    }
    double asked = sum / LOAD_SAMPLES * 8 * one.batch;
    double cores = 32 + 4.0 * point->remote;
    return point->load * cores * sim_nominal_window_s(&one) / asked;
}

void sim_study_config(const struct sim_constants *constants, const struct sim_study_point *point,
                      struct sim_config *out)
{
    memset(out, 0, sizeof *out);
    set_name(out->name, sim_study_names[point->contender]);
    set_name(out->system.name, sim_study_names[point->contender]);
    set_workload(constants, point, &out->workload);
    bool fair = point->world == SIM_FAIR;
    out->machines = (struct sim_machines){.ranks = 8,
                                          .rank_hosts = 1,
                                          .cores = 4,
                                          .remote = point->remote,
                                          .remote_per_host = 1,
                                          .link_gbps = constants->link_gbps,
                                          .link_latency_s = constants->link_latency_s,
                                          .peers_free = fair ? 0 : constants->peers_free,
                                          .peers_stall = constants->peers_stall,
                                          .peers_stall_s = constants->peers_stall_s};
    out->warmup = point->warmup ? point->warmup : 20;
    out->steps = point->steps ? point->steps : 100;
    out->data_only = point->data_only;
    out->data_deadline_s = fair ? 0 : constants->data_deadline_s;
    struct sim_system *system = &out->system;
    set_plane(constants, system);
    switch (point->contender) {
    case SIM_STUDY_RANK_LOCAL: set_rank_local(constants, system); break;
    case SIM_STUDY_ACTOR_POOL: set_actor_pool(constants, system); break;
    case SIM_STUDY_LEAST: system->policy = SIM_LEAST; break;
    case SIM_STUDY_PUBLISHED: system->policy = SIM_PUBLISHED; break;
    case SIM_STUDY_BASE:
    case SIM_STUDY_TRANSPORT:
    case SIM_STUDY_PREFETCH: set_ladder(constants, point->contender, system); break;
    default: set_ours(constants, point, system); break;
    }
    if (system->policy == SIM_RANK_LOCAL) out->machines.remote = 0;
    if (fair) make_fair(constants, point, system);
    if (fair && point->load > 0) {
        out->workload.tail_share = 0; /* at such costs a tail outlasts any prefetch */
        out->workload.cost_scale = cost_scale_at(point, out);
    }
}
