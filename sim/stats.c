/* SPDX-License-Identifier: Apache-2.0
 *
 * See stats.h.
 */
#include "sim/stats.h"

#include <math.h>
#include <stdbool.h>

#include "sim/random.h"

static void sift(uint64_t *values, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) return;
        if (child + 1 < count && values[child + 1] > values[child]) child++;
        if (values[child] <= values[root]) return;
        uint64_t moved = values[root];
        values[root] = values[child];
        values[child] = moved;
        root = child;
    }
}

void sim_sort(uint64_t *values, size_t count)
{
    for (size_t root = count / 2; root-- > 0;) sift(values, root, count);
    for (size_t end = count; end-- > 1;) {
        uint64_t largest = values[0];
        values[0] = values[end];
        values[end] = largest;
        sift(values, 0, end);
    }
}

uint64_t sim_quantile(const uint64_t *sorted, size_t count, double share)
{
    if (count == 0) return 0;
    size_t place = (size_t)(share * (double)count);
    return sorted[place < count ? place : count - 1];
}

double sim_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return count > 0 ? sum / (double)count : 0;
}

double sim_geomean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) return values[i];
        sum += sim_log(values[i]);
    }
    return count > 0 ? sim_exp(sum / (double)count) : 0;
}

/* An order-preserving integer for a double, so that one sort serves. */
static uint64_t rank_of(double value)
{
    union {
        double value;
        uint64_t bits;
    } both = {.value = value};
    return both.bits >> 63 ? ~both.bits : both.bits | UINT64_C(1) << 63;
}

static double value_of(uint64_t rank)
{
    union {
        double value;
        uint64_t bits;
    } both = {.bits = rank >> 63 ? rank & ~(UINT64_C(1) << 63) : ~rank};
    return both.value;
}

static double term(const double *a, const double *b, size_t i, bool ratio)
{
    return ratio ? sim_log(a[i]) - sim_log(b[i]) : a[i] - b[i];
}

static struct sim_interval resample(const double *a, const double *b, size_t count, uint64_t seed, bool ratio)
{
    struct sim_interval out = {ratio ? 1 : 0, ratio ? 1 : 0, ratio ? 1 : 0};
    if (count == 0) return out;
    uint64_t means[SIM_RESAMPLES], draw = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += term(a, b, i, ratio);
    out.middle = sum / (double)count;
    for (uint32_t round = 0; round < SIM_RESAMPLES; round++) {
        sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += term(a, b, sim_bits(seed, SIM_STREAM_BOOTSTRAP, draw++) % count, ratio);
        means[round] = rank_of(sum / (double)count);
    }
    sim_sort(means, SIM_RESAMPLES);
    out.low = value_of(means[SIM_RESAMPLES * 25 / 1000]);
    out.high = value_of(means[SIM_RESAMPLES * 975 / 1000 - 1]);
    if (ratio) out = (struct sim_interval){sim_exp(out.middle), sim_exp(out.low), sim_exp(out.high)};
    return out;
}

struct sim_interval sim_ratio(const double *a, const double *b, size_t count, uint64_t seed)
{
    return resample(a, b, count, seed, true);
}

struct sim_interval sim_difference(const double *a, const double *b, size_t count, uint64_t seed)
{
    return resample(a, b, count, seed, false);
}
