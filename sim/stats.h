/* SPDX-License-Identifier: Apache-2.0
 *
 * Means, quantiles and intervals. Pure.
 */
#ifndef SIM_STATS_H
#define SIM_STATS_H

#include <stddef.h>
#include <stdint.h>

#define SIM_RESAMPLES 1000u

void sim_sort(uint64_t *values, size_t count);
/* Of sorted values, the one below which `share` of them lie; 0 of none. */
uint64_t sim_quantile(const uint64_t *sorted, size_t count, double share);
double sim_mean(const double *values, size_t count);
double sim_geomean(const double *values, size_t count); /* of positive values */

struct sim_interval {
    double middle, low, high;
};
/* Geometric mean of a[i] / b[i] (pairs of one seed each), with a bootstrap 95 % interval. All values are positive. */
struct sim_interval sim_ratio(const double *a, const double *b, size_t count, uint64_t seed);
/* Mean of a[i] - b[i], likewise. */
struct sim_interval sim_difference(const double *a, const double *b, size_t count, uint64_t seed);

#endif
