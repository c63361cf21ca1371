/* SPDX-License-Identifier: Apache-2.0
 *
 * Token bucket of cross-host bytes: see budget.h.
 */
#include "sched/budget.h"

#define BYTES_MAX (UINT64_C(1) << 56) /* four steps' worth and a transfer stay within 63 bits */

static uint64_t bounded(uint64_t bytes) { return bytes < BYTES_MAX ? bytes : BYTES_MAX; }

static int64_t full(const struct stk_budget *budget) { return STK_BUDGET_STEPS * (int64_t)budget->step_bytes; }

void stk_budget_init(struct stk_budget *budget, uint64_t step_bytes)
{
    budget->step_bytes = bounded(step_bytes);
    budget->left_bytes = (int64_t)budget->step_bytes;
}

void stk_budget_step(struct stk_budget *budget)
{
    budget->left_bytes += (int64_t)budget->step_bytes;
    if (budget->left_bytes > full(budget)) budget->left_bytes = full(budget);
}

bool stk_budget_affords(const struct stk_budget *budget, uint64_t bytes)
{
    if (budget->step_bytes == 0 || budget->left_bytes >= full(budget)) return true;
    return budget->left_bytes >= (int64_t)bounded(bytes);
}

void stk_budget_take(struct stk_budget *budget, uint64_t bytes)
{
    if (budget->step_bytes == 0) return;
    budget->left_bytes -= (int64_t)bounded(bytes);
    if (budget->left_bytes < -(int64_t)BYTES_MAX) budget->left_bytes = -(int64_t)BYTES_MAX;
}

uint64_t stk_budget_price_ns(const struct stk_budget *budget, uint64_t bytes, uint64_t step_ns)
{
    if (budget->step_bytes == 0) return 0;
    int64_t spent = full(budget) - budget->left_bytes;
    uint64_t spent_1024 = (uint64_t)spent / ((uint64_t)full(budget) / 1024 + 1); /* of a bucket */
    if (spent_1024 > 1024) spent_1024 = 1024;
    uint64_t steps_1024 = bounded(bytes) / (budget->step_bytes / 1024 + 1); /* in which it grows by `bytes` */
    if (steps_1024 > 1024 * 16) steps_1024 = 1024 * 16;
    if (step_ns > UINT64_C(1) << 42) step_ns = UINT64_C(1) << 42;
    return step_ns / 1024 * steps_1024 / 1024 * spent_1024 / 2;
}
