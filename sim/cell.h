/* SPDX-License-Identifier: Apache-2.0
 *
 * One cell of a table: a configuration run with several seeds. The shell of the simulator: it owns the memory.
 */
#ifndef SIM_CELL_H
#define SIM_CELL_H

#include <stdint.h>

#include <stoker/error.h>

#include "sim/config.h"

#define SIM_SEEDS_MAX 64u

struct sim_seeds {
    uint64_t first;
    uint32_t count;
};

struct sim_cell {
    uint32_t count;              /* seeds */
    double rate[SIM_SEEDS_MAX];  /* samples a second, of each seed */
    double miss[SIM_SEEDS_MAX];  /* share of steps */
    double p95_s[SIM_SEEDS_MAX]; /* of a step's longest wait */
    double share[SIM_SEEDS_MAX]; /* of the ideal bound */
    /* Over all seeds; quantiles are those of all steps together. */
    double rate_geomean, miss_mean, share_geomean;
    double wait_mean_s, wait_p50_s, wait_p95_s, ready_p95_s;
    double cross_host_gb, cross_server_gb; /* in 100 steps */
    double cpu_s_sample, copies, remote_share;
    double events;
    uint64_t digest;
};

/* INVALID_ARGUMENT names the number that makes no sense; LIMIT, INTERNAL: see sim_run(). */
stoker_status sim_cell_run(const struct sim_config *config, const struct sim_seeds *seeds, struct sim_cell *out,
                           stoker_error *err);
/* One run with the engine's events recorded in `path`. INVALID_ARGUMENT if the system is not the engine; IO. */
stoker_status sim_cell_record(const struct sim_config *config, uint64_t seed, const char *path, stoker_error *err);
/* Gives back what the cells share. */
void sim_cell_free(void);

#endif
