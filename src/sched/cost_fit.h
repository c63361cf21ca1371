/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the cost model (cost.h): one line through weighted rows, within bounds, with forgetting; and the
 * errors of the last predictions, sorted.
 *
 * A fit has STK_COST_TERMS coefficients, each kept as a ratio r to its prior. A row is x_i = feature_i * prior_i /
 * scale with the target y / scale, so rows weigh the same whatever the size of a sample. It minimises
 *     sum of forget^age * (x . r - target)^2 + STRENGTH * |r - center|^2      for r in [1/8, 8]
 * by exact steps along one coordinate after the other, from the last solution on; the second term is never forgotten,
 * so no direction is ever without information (the covariance stays below 1 / STRENGTH in each).
 *
 * Pure: plus, minus, times, divided by, in one fixed order.
 */
#ifndef STK_SCHED_COST_FIT_H
#define STK_SCHED_COST_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/cost.h"

#define STK_COST_TERMS 5u
#define STK_COST_BOUND 8.0

struct stk_fit {
    double prior[STK_COST_TERMS]; /* 0: the term is not used */
    double center[STK_COST_TERMS];
    double ratio[STK_COST_TERMS];
    double gram[STK_COST_TERMS][STK_COST_TERMS]; /* sum of x x^T, forgotten slowly */
    double moment[STK_COST_TERMS];               /* sum of x * target */
};

void stk_fit_init(struct stk_fit *fit, const double prior[STK_COST_TERMS], const double center[STK_COST_TERMS]);
/* The same line under other priors (those of terms in use stay above 0); what was learned stays. */
void stk_fit_set_prior(struct stk_fit *fit, const double prior[STK_COST_TERMS]);
double stk_fit_predict(const struct stk_fit *fit, const double features[STK_COST_TERMS]);
/* Learns a row. `clip` bounds |residual| / scale; scale > 0. */
void stk_fit_learn(struct stk_fit *fit, const double features[STK_COST_TERMS], double target, double scale,
                   double clip);

/* The last STK_COST_RESIDUALS ratios actual / predicted, in 1/1024. */
struct stk_ratios {
    uint16_t ring[STK_COST_RESIDUALS], sorted[STK_COST_RESIDUALS];
    uint32_t count, next;
};
#define STK_RATIO_ONE 1024u

void stk_ratios_add(struct stk_ratios *ratios, double actual, double predicted);
/* The smallest ratio that `permille` of them are not above; with none, STK_RATIO_ONE. */
uint32_t stk_ratios_quantile(const struct stk_ratios *ratios, uint32_t permille);
/* |predicted - actual| / actual that `permille` of them are within, in permille. 0 with none. */
uint32_t stk_ratios_error_permille(const struct stk_ratios *ratios, uint32_t permille);

#endif
