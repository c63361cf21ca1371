/* SPDX-License-Identifier: Apache-2.0
 *
 * See scenario.h.
 */
#include "sim/scenario.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "sim/json.h"
#include "sim/run.h"

/* Enums are filled as uint32_t. */
_Static_assert(sizeof(enum sim_policy_kind) == sizeof(uint32_t), "enums have 32 bits");

static const char *const cost_names[] = {"media", "lognormal", "constant", NULL};
static const char *const data_names[] = {"kinetics", "openvid", NULL};
static const char *const mix_names[] = {"small", "mid", "large", "mixed", NULL};
static const char *const family_names[] = {"videomae", "qwen-vl", "wan", NULL};
static const char *const fault_names[] = {"kill", "slow", "link", "mute", NULL};
static const char *const policy_names[] = {"rank-local", "actor-pool", "least-request", "published", "engine", NULL};
static const char *const unit_names[] = {"batch", "micro-batch", "sample", NULL};
static const char *const engine_names[] = {"deadline", "cost", "least-request", "round-robin", NULL};

#define U32(type, member)                                                                                              \
    {                                                                                                                  \
#member, SIM_FIELD_U32, offsetof(type, member), NULL                                                           \
    }
#define REAL(type, member)                                                                                             \
    {                                                                                                                  \
#member, SIM_FIELD_REAL, offsetof(type, member), NULL                                                          \
    }
#define BOOL(type, member)                                                                                             \
    {                                                                                                                  \
#member, SIM_FIELD_BOOL, offsetof(type, member), NULL                                                          \
    }
#define NAME(type, member, names)                                                                                      \
    {                                                                                                                  \
#member, SIM_FIELD_NAME, offsetof(type, member), names                                                         \
    }
#define TEXT(type, member)                                                                                             \
    {                                                                                                                  \
#member, SIM_FIELD_TEXT, offsetof(type, member), NULL                                                          \
    }
#define OTHER(member)                                                                                                  \
    {                                                                                                                  \
        member, SIM_FIELD_OTHER, 0, NULL                                                                               \
    }
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct sim_field top_fields[] = {
    TEXT(struct sim_config, name),
    U32(struct sim_config, warmup),
    U32(struct sim_config, steps),
    REAL(struct sim_config, data_deadline_s),
    BOOL(struct sim_config, data_only),
    OTHER("machines"),
    OTHER("workload"),
    OTHER("messages"),
    OTHER("faults"),
    OTHER("systems"),
    OTHER("about"),
};

static const struct sim_field machine_fields[] = {
    U32(struct sim_machines, ranks),           U32(struct sim_machines, rank_hosts),
    U32(struct sim_machines, cores),           U32(struct sim_machines, remote),
    U32(struct sim_machines, remote_per_host), REAL(struct sim_machines, link_gbps),
    REAL(struct sim_machines, link_latency_s), REAL(struct sim_machines, link_gbps_remote),
    REAL(struct sim_machines, peers_free),     REAL(struct sim_machines, peers_stall),
    REAL(struct sim_machines, peers_stall_s),
};

static const struct sim_field workload_fields[] = {
    TEXT(struct sim_workload, name),
    NAME(struct sim_workload, data, data_names),
    NAME(struct sim_workload, mix, mix_names),
    NAME(struct sim_workload, family, family_names),
    U32(struct sim_workload, batch),
    U32(struct sim_workload, micro),
    NAME(struct sim_workload, cost, cost_names),
    REAL(struct sim_workload, cost_scale),
    REAL(struct sim_workload, cost_median_s),
    REAL(struct sim_workload, cost_sigma),
    REAL(struct sim_workload, tail_share),
    REAL(struct sim_workload, window_fixed_s),
    REAL(struct sim_workload, window_token_s),
    REAL(struct sim_workload, window_noise),
    REAL(struct sim_workload, bytes_scale),
    REAL(struct sim_workload, predict_sigma),
};

static const struct sim_field message_fields[] = {
    REAL(struct sim_messages, lost),
    REAL(struct sim_messages, doubled),
};

static const struct sim_field fault_fields[] = {
    NAME(struct sim_fault, kind, fault_names), U32(struct sim_fault, server),  REAL(struct sim_fault, at_s),
    REAL(struct sim_fault, until_s),           REAL(struct sim_fault, factor),
};

static const struct sim_field system_fields[] = {
    TEXT(struct sim_system, name),
    NAME(struct sim_system, policy, policy_names),
    U32(struct sim_system, workers),
    U32(struct sim_system, depth),
    NAME(struct sim_system, place, unit_names),
    NAME(struct sim_system, piece, unit_names),
    BOOL(struct sim_system, planned),
    REAL(struct sim_system, feedback),
    REAL(struct sim_system, remote_gain),
    REAL(struct sim_system, miss_weight),
    NAME(struct sim_system, engine_policy, engine_names),
    REAL(struct sim_system, heartbeat_s),
    U32(struct sim_system, hold),
    U32(struct sim_system, copy_percent),
    REAL(struct sim_system, budget_gb_step),
    OTHER("overheads"),
};

static const struct sim_field overhead_fields[] = {
    REAL(struct sim_overheads, cost_factor),  REAL(struct sim_overheads, task_s),
    REAL(struct sim_overheads, task_gbps),    REAL(struct sim_overheads, control_s),
    REAL(struct sim_overheads, remote_s),     REAL(struct sim_overheads, remote_gbps),
    REAL(struct sim_overheads, local_s),      REAL(struct sim_overheads, local_gbps),
    REAL(struct sim_overheads, next_s),       REAL(struct sim_overheads, next_gbps),
    REAL(struct sim_overheads, stall_rate),   REAL(struct sim_overheads, stall_median_s),
    REAL(struct sim_overheads, stall_sigma),  REAL(struct sim_overheads, stall_bytes),
    REAL(struct sim_overheads, stall_sticky), REAL(struct sim_overheads, hiccup_rate),
    REAL(struct sim_overheads, hiccup_s),
};

static void set_defaults(struct sim_scenario *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->base.name, "scenario", sizeof "scenario");
    memcpy(out->base.workload.name, "workload", sizeof "workload");
    out->base.warmup = 20;
    out->base.steps = 100;
    out->base.machines = (struct sim_machines){.ranks = 8,
                                               .rank_hosts = 1,
                                               .cores = 4,
                                               .remote = 16,
                                               .remote_per_host = 1,
                                               .link_gbps = 12.5,
                                               .link_latency_s = 5e-5};
    struct sim_workload *workload = &out->base.workload;
    workload->mix = SIM_MIXED;
    workload->batch = 4;
    workload->micro = 1;
    workload->cost_scale = 1;
    workload->cost_median_s = 0.1;
    workload->window_fixed_s = 0.15;
    workload->window_token_s = 1e-5;
    workload->window_noise = 0.03;
    workload->bytes_scale = 1;
    workload->predict_sigma = 0.14;
}

static stoker_status read_system(const struct sim_json *json, const char *path, struct sim_system *out,
                                 stoker_error *err)
{
    *out = (struct sim_system){.policy = SIM_ENGINE,
                               .depth = 8,
                               .place = SIM_UNIT_BATCH,
                               .piece = SIM_UNIT_SAMPLE,
                               .feedback = 0.2,
                               .miss_weight = 4,
                               .heartbeat_s = 1,
                               .overheads = {.cost_factor = 1, .control_s = 1e-4}};
    memcpy(out->name, "system", sizeof "system");
    STK_TRY(sim_json_fields(json, path, system_fields, COUNT(system_fields), out, err));
    const struct sim_json *overheads = sim_json_get(json, "overheads");
    char inside[96];
    snprintf(inside, sizeof inside, "%s.overheads", path);
    if (overheads)
        STK_TRY(sim_json_fields(overheads, inside, overhead_fields, COUNT(overhead_fields), &out->overheads, err));
    return STOKER_OK;
}

static stoker_status read_faults(const struct sim_json *faults, struct sim_config *out, stoker_error *err)
{
    size_t count = 0;
    STK_TRY(sim_json_length(faults, "faults", SIM_FAULTS_MAX, &count, err));
    for (size_t i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "faults[%zu]", i);
        out->faults[i].factor = 1;
        STK_TRY(sim_json_fields(sim_json_at(faults, i), path, fault_fields, COUNT(fault_fields), &out->faults[i], err));
    }
    out->fault_count = (uint32_t)count;
    return STOKER_OK;
}

static stoker_status read_systems(const struct sim_json *systems, struct sim_scenario *out, stoker_error *err)
{
    size_t count = 0;
    STK_TRY(sim_json_length(systems, "systems", SIM_SYSTEMS_MAX, &count, err));
    for (size_t i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "systems[%zu]", i);
        STK_TRY(read_system(sim_json_at(systems, i), path, &out->systems[i], err));
    }
    out->system_count = (uint32_t)count;
    if (count == 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "systems is empty, expected one at least");
    return STOKER_OK;
}

static stoker_status read_all(const struct sim_json *json, struct sim_scenario *out, stoker_error *err)
{
    struct sim_config *base = &out->base;
    STK_TRY(sim_json_fields(json, "scenario", top_fields, COUNT(top_fields), base, err));
    const struct sim_json *part = sim_json_get(json, "machines");
    if (part) STK_TRY(sim_json_fields(part, "machines", machine_fields, COUNT(machine_fields), &base->machines, err));
    part = sim_json_get(json, "workload");
    if (part) STK_TRY(sim_json_fields(part, "workload", workload_fields, COUNT(workload_fields), &base->workload, err));
    part = sim_json_get(json, "messages");
    if (part) STK_TRY(sim_json_fields(part, "messages", message_fields, COUNT(message_fields), &base->messages, err));
    part = sim_json_get(json, "faults");
    if (part) STK_TRY(read_faults(part, base, err));
    part = sim_json_get(json, "systems");
    if (!part) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the scenario has no systems");
    STK_TRY(read_systems(part, out, err));
    for (uint32_t i = 0; i < out->system_count; i++) {
        base->system = out->systems[i];
        stoker_status status = sim_config_check(base, err);
        if (status < 0) {
            stk_error_context(err, "system '%s'", out->systems[i].name);
            return status;
        }
    }
    return STOKER_OK;
}

stoker_status sim_scenario_load(const char *path, struct sim_scenario *out, stoker_error *err)
{
    struct sim_json *json = NULL;
    STK_TRY(sim_json_load(path, &json, err));
    set_defaults(out);
    stoker_status status = read_all(json, out, err);
    sim_json_free(json);
    if (status < 0) stk_error_context(err, "'%s'", path);
    return status;
}
