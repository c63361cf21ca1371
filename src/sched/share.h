/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose turn it is between jobs and loaders (rule D1): the flow that has had the least work for its weight, among those
 * that have work to give. A flow that wakes up starts where the others are, so that sleeping saves nothing up. What is
 * inside a flow is the caller's (earliest deadline first).
 *
 * Bound: while a flow of weight w waits, every other flow of weight v gets at most (1 + v / w) times its largest charge
 * more than twice, so that each admitted task starts (tests/property/share_prop.c).
 *
 * Pure: tables of the caller.
 */
#ifndef STK_SCHED_SHARE_H
#define STK_SCHED_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/heap.h"

#define STK_SHARE_NONE UINT32_MAX
#define STK_SHARE_WEIGHT_MAX 64u
#define STK_SHARE_CHARGE_MAX (UINT64_C(1) << 32) /* larger charges count as this */
#define STK_SHARE_UNIT_SHIFT 14                  /* callers that count nanoseconds charge units of 16 microseconds */

struct stk_share_flow {
    uint64_t served; /* work for its weight, on the common scale */
    uint32_t weight;
};

struct stk_share {
    struct stk_share_flow *flows; /* fixed after init */
    struct stk_heap_node *nodes;  /* likewise; inside: the flow has work to give */
    uint32_t root;
    uint64_t level; /* where a flow starts that wakes up */
};

/* `flows` and `nodes` are the caller's, one entry a flow; entries are set up by stk_share_open(). */
void stk_share_init(struct stk_share *share, struct stk_share_flow *flows, struct stk_heap_node *nodes);
/* The flow exists and sleeps. A weight of 0 counts as 1, one above the maximum as the maximum. */
void stk_share_open(struct stk_share *share, uint32_t flow, uint32_t weight);
/* The flow has work to give, or no more. Either may be said twice. */
void stk_share_wake(struct stk_share *share, uint32_t flow);
void stk_share_sleep(struct stk_share *share, uint32_t flow);
/* The flow whose turn it is; STK_SHARE_NONE if all sleep. */
uint32_t stk_share_first(const struct stk_share *share);
/* The flow was given `work`; nothing counts as 1. */
void stk_share_charge(struct stk_share *share, uint32_t flow, uint64_t work);

#endif
