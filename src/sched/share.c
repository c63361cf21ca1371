/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted deficit as start-time fair queueing: see share.h. Work is divided by the weight on a scale of
 * STK_SHARE_WEIGHT_MAX: with units of 16 microseconds the scale ends after 150,000 years of CPU time, so it is never
 * moved down; it saturates.
 */
#include "sched/share.h"

#include "base/assert.h"

void stk_share_init(struct stk_share *share, struct stk_share_flow *flows, struct stk_heap_node *nodes)
{
    *share = (struct stk_share){.flows = flows, .nodes = nodes, .root = STK_HEAP_NONE};
}

void stk_share_open(struct stk_share *share, uint32_t flow, uint32_t weight)
{
    if (weight == 0) weight = 1;
    if (weight > STK_SHARE_WEIGHT_MAX) weight = STK_SHARE_WEIGHT_MAX;
    share->flows[flow] = (struct stk_share_flow){.served = share->level, .weight = weight};
    share->nodes[flow] = (struct stk_heap_node){.inside = false};
}

static void enter(struct stk_share *share, uint32_t flow)
{
    share->nodes[flow].key = (struct stk_heap_key){.deadline_ns = share->flows[flow].served, .order = flow};
    share->root = stk_heap_insert(share->nodes, share->root, flow);
}

void stk_share_wake(struct stk_share *share, uint32_t flow)
{
    if (share->nodes[flow].inside) return;
    if (share->flows[flow].served < share->level) share->flows[flow].served = share->level;
    enter(share, flow);
}

void stk_share_sleep(struct stk_share *share, uint32_t flow)
{
    if (share->nodes[flow].inside) share->root = stk_heap_remove(share->nodes, share->root, flow);
}

uint32_t stk_share_first(const struct stk_share *share)
{
    return share->root == STK_HEAP_NONE ? STK_SHARE_NONE : share->root;
}

void stk_share_charge(struct stk_share *share, uint32_t flow, uint64_t work)
{
    struct stk_share_flow *f = &share->flows[flow];
    bool inside = share->nodes[flow].inside;
    if (work == 0) work = 1;
    if (work > STK_SHARE_CHARGE_MAX) work = STK_SHARE_CHARGE_MAX;
    if (inside && share->root == flow && f->served > share->level) share->level = f->served;
    if (f->served < share->level) f->served = share->level;
    uint64_t more = work * STK_SHARE_WEIGHT_MAX / f->weight;
    f->served = f->served > UINT64_MAX - more ? UINT64_MAX : f->served + more;
    if (!inside) return;
    share->root = stk_heap_remove(share->nodes, share->root, flow);
    enter(share, flow);
}
