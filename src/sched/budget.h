/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job may send across hosts: a token bucket in bytes a training step (docs/decisions/0181). Each step adds the
 * step's bytes, up to STK_BUDGET_STEPS steps' worth; a transfer needs its bytes in the bucket, or a full bucket, which
 * then goes below zero and is paid back by later steps. So over n steps no more than n + STK_BUDGET_STEPS steps' worth
 * and one transfer cross.
 *
 * Bytes also have a price in nanoseconds, which rises as the bucket empties: what is left goes to the transfers that
 * gain most.
 *
 * Pure: integers only.
 */
#ifndef STK_SCHED_BUDGET_H
#define STK_SCHED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define STK_BUDGET_STEPS 4

struct stk_budget {
    uint64_t step_bytes; /* 0: no limit */
    int64_t left_bytes;
};

/* Starts with one step's worth. */
void stk_budget_init(struct stk_budget *budget, uint64_t step_bytes);
void stk_budget_step(struct stk_budget *budget);
bool stk_budget_affords(const struct stk_budget *budget, uint64_t bytes);
void stk_budget_take(struct stk_budget *budget, uint64_t bytes);
/* 0 with a full bucket, up to half of the time in which the budget grows by `bytes` with an empty one. */
uint64_t stk_budget_price_ns(const struct stk_budget *budget, uint64_t bytes, uint64_t step_ns);

#endif
