/* SPDX-License-Identifier: Apache-2.0
 *
 * The published study as configurations: its workloads, its systems, its sweeps, in two worlds.
 *
 *     reproduction   the published systems with what was fitted to their figures; ours pays the published plane's costs
 *     fair           the same sample costs for all, and only such costs beside them as were measured
 */
#ifndef SIM_STUDY_H
#define SIM_STUDY_H

#include <stdint.h>

#include "sim/config.h"
#include "sim/constants.h"

#define SIM_STUDY_WORKLOADS 11u

enum sim_world { SIM_REPRODUCTION, SIM_FAIR };

enum sim_contender {
    SIM_STUDY_RANK_LOCAL,
    SIM_STUDY_ACTOR_POOL,
    SIM_STUDY_LEAST, /* the plane of the published system with least-request routing */
    SIM_STUDY_PUBLISHED,
    SIM_STUDY_OURS,
    SIM_STUDY_OURS_LEAST,   /* our engine with least-request routing */
    SIM_STUDY_OURS_BUDGET,  /* ours, with a byte budget */
    SIM_STUDY_BASE,         /* ladder: pool and least requests over the old transport */
    SIM_STUDY_TRANSPORT,    /* ladder: + its transport */
    SIM_STUDY_PREFETCH,     /* ladder: + prefetch, token-aware batches, fan-out */
    SIM_STUDY_OURS_FAN_OUT, /* ours, each sample a request of its own */
    SIM_STUDY_CONTENDERS
};

extern const char *const sim_study_names[SIM_STUDY_CONTENDERS];

/* Workload 0...10 in the order of the study. */
const char *sim_study_workload_name(uint32_t workload);

struct sim_study_point {
    enum sim_world world;
    uint32_t workload;
    enum sim_contender contender;
    uint32_t remote;        /* remote DataServers */
    uint32_t batch, micro;  /* 0: the study's; 1 */
    uint32_t warmup, steps; /* 0: 20 and 100 */
    bool data_only;
    double budget_gb_step; /* OURS_BUDGET */
    double load;           /* fair world: the samples ask for this share of all cores; 0: costs as measured */
};

void sim_study_config(const struct sim_constants *constants, const struct sim_study_point *point,
                      struct sim_config *out);

#endif
