/* SPDX-License-Identifier: Apache-2.0
 *
 * One run: a configuration and a seed in, what the ranks met out. Virtual time; the same arguments give the same
 * result on every machine. That each sample reaches its rank once and in order is checked at every event.
 *
 * The ranks are synchronised: a step begins when the slowest has ended the one before, each rank then waits for its
 * batch (the time inside next()) and computes for its window.
 */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "sim/config.h"

/* The record of the engine's events (sched/journal), in the caller's memory. A run of another contender leaves it
 * empty. */
struct sim_journal {
    uint8_t *bytes;
    size_t size, cap;
    bool full; /* it ends at its limit */
    uint64_t last_ns;
};

/* Of the measured steps. */
struct sim_result {
    struct sim_journal *journal; /* NULL: none is kept */
    uint64_t *waits_ns;          /* [steps]: the longest wait of a rank in each step */
    uint64_t *ready_ns;          /* [steps x ranks]: from request to ready at the rank's host */
    uint64_t steps;              /* measured */
    uint64_t samples;
    uint64_t elapsed_ns;
    uint64_t misses;      /* steps whose wait is above the deadline */
    uint64_t deadline_ns; /* that deadline */
    uint64_t wait_sum_ns; /* of waits_ns */
    uint64_t cross_host_bytes, cross_server_bytes;
    uint64_t cpu_ns;                    /* used by all cores, with what was made in vain */
    uint64_t work_ns;                   /* that the samples need by themselves */
    uint64_t window_sum_ns;             /* of the slowest rank's window in each step */
    uint64_t ideal_ns;                  /* max(work / cores, window_sum) (rule E2) */
    uint64_t decisions, remote, copies; /* placements; those on another host; second ones */
    uint64_t events;
    uint64_t digest; /* of all that was delivered: rank, step, samples, time */
};

/* Bytes of the block that a run needs. */
size_t sim_run_bytes(const struct sim_config *config);
/* Runs to the end of the last step. `block` (aligned to 16) is the run's alone. out_result->waits_ns and ready_ns are
 * the caller's arrays, of config->steps and config->steps x ranks entries. LIMIT if a table is too small, INTERNAL if
 * the ranks stop getting batches. */
stoker_status sim_run(const struct sim_config *config, uint64_t seed, void *block, size_t size,
                      struct sim_result *out_result, stoker_error *err);

/* Refuses numbers that make no sense, naming the one. */
stoker_status sim_config_check(const struct sim_config *config, stoker_error *err);

#endif
