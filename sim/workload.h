/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples are: their shapes, sizes, costs and windows, each a function of (seed, workload, sample number) alone.
 * Costs follow the decode model of sched/cost: a constant, pixels and bytes of the packets that are decoded, pixels
 * that come out. The shapes of a mixed workload alternate step by step.
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include <stdint.h>

#include "sim/config.h"

struct sim_sample {
    uint64_t id;
    uint64_t cost_ns;      /* CPU time of one core */
    uint64_t predicted_ns; /* what is thought before */
    uint64_t bytes;        /* of the tensors */
    uint64_t tokens;
    uint32_t shape;
};

/* Sample `id` of step `step`. */
void sim_sample_make(const struct sim_workload *workload, uint64_t seed, uint64_t step, uint64_t id,
                     struct sim_sample *out);
/* The window of one rank at one step: samples with `tokens` in all. */
uint64_t sim_window_ns(const struct sim_workload *workload, uint64_t seed, uint64_t step, uint32_t rank,
                       uint32_t samples, uint64_t tokens, bool noise);
/* Mean over the shapes of the workload: bytes of a sample, and its window. */
double sim_mean_bytes(const struct sim_workload *workload);
double sim_nominal_window_s(const struct sim_workload *workload);

#endif
