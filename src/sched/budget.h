/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job may send across hosts: a token bucket in bytes a training step (docs/decisions/0181). Each step adds the
 * step's bytes, up to STK_BUDGET_STEPS steps' worth; a transfer needs its bytes in the bucket. Where the bucket is too
 * small for it, a full one is enough, which then goes below zero and is paid back by later steps; but a transfer of
 * more than STK_BUDGET_DEBT_STEPS steps' worth is not had at all. So over n steps no more than n +
 * STK_BUDGET_DEBT_STEPS steps' worth cross.
 *
 * What a byte takes off the own hosts differs: a long sample that becomes a small tensor is worth moving first. As the
 * bucket empties, only tasks whose work for each byte is above a share of the mean may pass, twice the mean at last; so
 * the level of the bucket settles where the best of them use the budget up.
 *
 * In its first STK_BUDGET_PROBE_STEPS steps a job may show work to servers that have not proven themselves,
 * STK_BUDGET_PROBES tasks in all, beside the budget: who is never tried is not trusted when local servers are late, and
 * then no bytes help.
 *
 * Pure: integers only.
 */
#ifndef STK_SCHED_BUDGET_H
#define STK_SCHED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define STK_BUDGET_STEPS 4
#define STK_BUDGET_DEBT_STEPS 32
#define STK_BUDGET_PROBE_STEPS 16
#define STK_BUDGET_PROBES 32

struct stk_budget {
    uint64_t step_bytes; /* 0: no limit */
    int64_t left_bytes;
    uint64_t mean_worth; /* work for a KiB, of the tasks that would go */
    uint32_t steps;      /* begun so far, counted up to STK_BUDGET_PROBE_STEPS */
    uint32_t probes;     /* gone beside the budget */
};

/* Starts half full. */
void stk_budget_init(struct stk_budget *budget, uint64_t step_bytes);
void stk_budget_step(struct stk_budget *budget);
/* A task of so much work and so many bytes would be better off elsewhere. */
void stk_budget_note(struct stk_budget *budget, uint64_t bytes, uint64_t work_ns);
bool stk_budget_affords(const struct stk_budget *budget, uint64_t bytes, uint64_t work_ns);
void stk_budget_take(struct stk_budget *budget, uint64_t bytes);
/* May a probe go beside the budget? */
bool stk_budget_allows_probe(const struct stk_budget *budget);
/* A probe goes: beside the budget if it may, else as any transfer. */
void stk_budget_take_probe(struct stk_budget *budget, uint64_t bytes);

#endif
