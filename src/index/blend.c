/* SPDX-License-Identifier: Apache-2.0
 *
 * Blends by the plain rule: at each position the dataset that is furthest behind its share.
 */
#include "index/blend.h"

#include <float.h>

/* ---------------------------------------------------------------------------------------------------------- weights */

double stk_pairwise_sum(const double *values, size_t count)
{
    double sum = 0;
    size_t i = 0;
    if (count > 128) {
        size_t half = count / 2 - count / 2 % 8;
        return stk_pairwise_sum(values, half) + stk_pairwise_sum(values + half, count - half);
    }
    if (count >= 8) {
        double part[8];
        for (; i < 8; i++) part[i] = values[i];
        for (; i + 8 <= count; i += 8)
            for (size_t k = 0; k < 8; k++) part[k] += values[i + k];
        sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; i < count; i++) sum += values[i];
    return sum;
}

void stk_weights_normalize(const double *weights, size_t count, double *out_weights)
{
    double sum = stk_pairwise_sum(weights, count);
    for (size_t i = 0; i < count; i++) out_weights[i] = weights[i] / sum;
}

/* ------------------------------------------------------------------------------------------------------------ blends */

size_t stk_blend_scratch_bytes(uint32_t datasets) { return (size_t)datasets * (sizeof(double) + sizeof(int64_t)); }

void stk_blend_sized(const double *weights, uint32_t datasets, uint64_t size, int16_t *out_dataset, int64_t *out_sample,
                     void *scratch)
{
    int64_t *taken = scratch;
    for (uint32_t k = 0; k < datasets; k++) taken[k] = 0;
    for (uint64_t i = 0; i < size; i++) {
        double x = i == 0 ? 1.0 : (double)i, most = weights[0] * x - (double)taken[0];
        uint32_t best = 0;
        for (uint32_t k = 1; k < datasets; k++) {
            double error = weights[k] * x - (double)taken[k];
            if (error > most) {
                most = error;
                best = k;
            }
        }
        out_dataset[i] = (int16_t)best;
        out_sample[i] = taken[best]++;
    }
}

void stk_blend_exhaustive(const uint64_t *sizes, uint32_t datasets, int16_t *out_dataset, int64_t *out_sample,
                          void *scratch)
{
    int64_t *taken = scratch;
    double *weights = (double *)(taken + datasets);
    uint64_t total = 0;
    for (uint32_t k = 0; k < datasets; k++) total += sizes[k];
    for (uint32_t k = 0; k < datasets; k++) {
        taken[k] = 0;
        weights[k] = (double)sizes[k] / (double)total;
    }
    for (uint64_t i = 0; i < total; i++) {
        double x = i == 0 ? 1.0 : (double)i, most = -DBL_MAX;
        uint32_t best = 0;
        for (uint32_t k = 0; k < datasets; k++) {
            if ((uint64_t)taken[k] == sizes[k]) continue;
            double error = weights[k] * x - (double)taken[k];
            if (error > most) {
                most = error;
                best = k;
            }
        }
        out_dataset[i] = (int16_t)best;
        out_sample[i] = taken[best]++;
    }
}
