/* SPDX-License-Identifier: Apache-2.0
 *
 * Token bucket of cross-host bytes: see budget.h.
 */
#include "sched/budget.h"

#define BYTES_MAX (UINT64_C(1) << 56) /* four steps' worth and a transfer stay within 63 bits */
#define WORTH_MAX (UINT64_C(1) << 48)

static uint64_t bounded(uint64_t bytes) { return bytes < BYTES_MAX ? bytes : BYTES_MAX; }

static int64_t full(const struct stk_budget *budget) { return STK_BUDGET_STEPS * (int64_t)budget->step_bytes; }

void stk_budget_init(struct stk_budget *budget, uint64_t step_bytes)
{
    *budget = (struct stk_budget){.step_bytes = bounded(step_bytes)};
    budget->left_bytes = full(budget) / 2;
}

void stk_budget_step(struct stk_budget *budget)
{
    if (budget->steps < STK_BUDGET_PROBE_STEPS) budget->steps++;
    budget->left_bytes += (int64_t)budget->step_bytes;
    if (budget->left_bytes > full(budget)) budget->left_bytes = full(budget);
}

static uint64_t worth_of(uint64_t bytes, uint64_t work_ns)
{
    uint64_t worth = work_ns / (bytes / 1024 + 1);
    return worth < WORTH_MAX ? worth : WORTH_MAX;
}

void stk_budget_note(struct stk_budget *budget, uint64_t bytes, uint64_t work_ns)
{
    uint64_t worth = worth_of(bytes, work_ns), mean = budget->mean_worth;
    if (budget->step_bytes == 0) return;
    if (mean == 0)
        budget->mean_worth = worth;
    else
        budget->mean_worth = worth > mean ? mean + (worth - mean) / 16 : mean - (mean - worth) / 16;
}

/* In 1/1024 of a full bucket. */
static uint64_t missing(const struct stk_budget *budget)
{
    uint64_t spent = (uint64_t)(full(budget) - budget->left_bytes), part = (uint64_t)full(budget) / 1024 + 1;
    return spent / part < 1024 ? spent / part : 1024;
}

bool stk_budget_affords(const struct stk_budget *budget, uint64_t bytes, uint64_t work_ns)
{
    if (budget->step_bytes == 0) return true;
    if (bounded(bytes) / budget->step_bytes >= STK_BUDGET_DEBT_STEPS) return false;
    if (budget->left_bytes >= full(budget)) return true;
    if (budget->left_bytes < (int64_t)bounded(bytes)) return false;
    return worth_of(bytes, work_ns) >= budget->mean_worth * missing(budget) / 512;
}

void stk_budget_take(struct stk_budget *budget, uint64_t bytes)
{
    if (budget->step_bytes == 0) return;
    budget->left_bytes -= (int64_t)bounded(bytes);
    if (budget->left_bytes < -(int64_t)BYTES_MAX) budget->left_bytes = -(int64_t)BYTES_MAX;
}

bool stk_budget_allows_probe(const struct stk_budget *budget)
{
    return budget->steps < STK_BUDGET_PROBE_STEPS && budget->probes < STK_BUDGET_PROBES;
}

void stk_budget_take_probe(struct stk_budget *budget, uint64_t bytes)
{
    if (stk_budget_allows_probe(budget))
        budget->probes++;
    else
        stk_budget_take(budget, bytes);
}
