/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded least squares and sorted errors: see cost_fit.h.
 */
#include "sched/cost_fit.h"

#include <string.h>

#include "base/assert.h"

/* A row of one term alone adds 1 to its diagonal: the prior counts as much as half a percent of one result. */
#define STRENGTH 0.005
/* 1 / (1 - FORGET) results are remembered. */
#define FORGET 0.995
/* Terms that go together (pixels in and out) need more than one sweep; the next result goes on where this one ended. */
#define SWEEPS 24
#define STILL 1e-7 /* of a ratio: a ten-thousandth of a per mille */

void stk_fit_init(struct stk_fit *fit, const double prior[STK_COST_TERMS], const double center[STK_COST_TERMS])
{
    memset(fit, 0, sizeof *fit);
    for (uint32_t i = 0; i < STK_COST_TERMS; i++) {
        fit->prior[i] = prior[i];
        fit->center[i] = center[i];
        fit->ratio[i] = center[i];
    }
}

static double bounded(double ratio)
{
    if (ratio > STK_COST_BOUND) return STK_COST_BOUND;
    return ratio > 1.0 / STK_COST_BOUND ? ratio : 1.0 / STK_COST_BOUND;
}

static void solve(struct stk_fit *fit)
{
    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++) {
        bool still = true;
        for (uint32_t i = 0; i < STK_COST_TERMS; i++) {
            double rest = fit->moment[i] + STRENGTH * fit->center[i];
            for (uint32_t j = 0; j < STK_COST_TERMS; j++)
                if (j != i) rest -= fit->gram[i][j] * fit->ratio[j];
            double ratio = bounded(rest / (fit->gram[i][i] + STRENGTH));
            double move = ratio - fit->ratio[i];
            if (move > STILL || move < -STILL) still = false;
            fit->ratio[i] = ratio;
        }
        if (still) return;
    }
}

void stk_fit_set_prior(struct stk_fit *fit, const double prior[STK_COST_TERMS])
{
    double factor[STK_COST_TERMS];
    for (uint32_t i = 0; i < STK_COST_TERMS; i++) {
        factor[i] = fit->prior[i] > 0 ? prior[i] / fit->prior[i] : 1.0;
        fit->prior[i] = prior[i];
        if (factor[i] > 0) fit->ratio[i] = bounded(fit->ratio[i] / factor[i]);
    }
    for (uint32_t i = 0; i < STK_COST_TERMS; i++) {
        fit->moment[i] *= factor[i];
        for (uint32_t j = 0; j < STK_COST_TERMS; j++) fit->gram[i][j] *= factor[i] * factor[j];
    }
    solve(fit);
}

double stk_fit_predict(const struct stk_fit *fit, const double features[STK_COST_TERMS])
{
    double sum = 0;
    for (uint32_t i = 0; i < STK_COST_TERMS; i++) sum += features[i] * (fit->prior[i] * fit->ratio[i]);
    return sum;
}

void stk_fit_learn(struct stk_fit *fit, const double features[STK_COST_TERMS], double target, double scale, double clip)
{
    double row[STK_COST_TERMS], guess = 0;
    STK_ASSERT(scale > 0);
    for (uint32_t i = 0; i < STK_COST_TERMS; i++) {
        row[i] = features[i] * fit->prior[i] / scale;
        guess += row[i] * fit->ratio[i];
    }
    double residual = target / scale - guess;
    if (residual > clip) residual = clip;
    if (residual < -clip) residual = -clip;
    for (uint32_t i = 0; i < STK_COST_TERMS; i++) {
        fit->moment[i] = FORGET * fit->moment[i] + row[i] * (guess + residual);
        for (uint32_t j = 0; j < STK_COST_TERMS; j++) fit->gram[i][j] = FORGET * fit->gram[i][j] + row[i] * row[j];
    }
    solve(fit);
}

/* First place whose value is not below `value`. */
static uint32_t place_of(const struct stk_ratios *ratios, uint16_t value)
{
    uint32_t low = 0, high = ratios->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ratios->sorted[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void drop(struct stk_ratios *ratios, uint16_t value)
{
    uint32_t at = place_of(ratios, value);
    STK_ASSERT(at < ratios->count && ratios->sorted[at] == value);
    ratios->count--;
    memmove(ratios->sorted + at, ratios->sorted + at + 1, (ratios->count - at) * sizeof ratios->sorted[0]);
}

void stk_ratios_add(struct stk_ratios *ratios, double actual, double predicted)
{
    double ratio = predicted > 0 ? actual / predicted * STK_RATIO_ONE + 0.5 : UINT16_MAX;
    uint16_t value = ratio >= UINT16_MAX ? UINT16_MAX : ratio < 1 ? 1 : (uint16_t)ratio;
    if (ratios->count == STK_COST_RESIDUALS) drop(ratios, ratios->ring[ratios->next]);
    uint32_t at = place_of(ratios, value);
    memmove(ratios->sorted + at + 1, ratios->sorted + at, (ratios->count - at) * sizeof ratios->sorted[0]);
    ratios->sorted[at] = value;
    ratios->count++;
    ratios->ring[ratios->next] = value;
    ratios->next = (ratios->next + 1) % STK_COST_RESIDUALS;
}

/* How many of `count` values make up `permille` of them, rounded up, at least 1. */
static uint32_t rank_of(uint32_t count, uint32_t permille)
{
    uint32_t rank = (count * permille + 999) / 1000;
    return rank > 0 ? rank : 1;
}

uint32_t stk_ratios_quantile(const struct stk_ratios *ratios, uint32_t permille)
{
    STK_ASSERT(permille <= 1000);
    return ratios->count ? ratios->sorted[rank_of(ratios->count, permille) - 1] : STK_RATIO_ONE;
}

static uint32_t error_permille(uint32_t ratio)
{
    uint32_t inverse = (1000u * STK_RATIO_ONE + ratio / 2) / ratio;
    return inverse > 1000 ? inverse - 1000 : 1000 - inverse;
}

/* The largest errors are those of the smallest and of the largest ratios: taken off from both ends. */
uint32_t stk_ratios_error_permille(const struct stk_ratios *ratios, uint32_t permille)
{
    STK_ASSERT(permille <= 1000);
    if (!ratios->count) return 0;
    uint32_t low = 0, high = ratios->count - 1, worst = 0;
    for (uint32_t left = ratios->count - rank_of(ratios->count, permille) + 1; left > 0; left--) {
        uint32_t first = error_permille(ratios->sorted[low]), last = error_permille(ratios->sorted[high]);
        worst = first > last ? first : last;
        if (low == high) break;
        if (first > last)
            low++;
        else
            high--;
    }
    return worst;
}
