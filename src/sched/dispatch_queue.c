/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which items are handed out (rule D1): see dispatch.h. Each queue is two heaps of batches (sched/heap):
 * of short items, and of items that are predicted longer than a window. A pool of one lane's own workers is one queue;
 * the native pool has a queue for each loader, a flow, whose turn sched/share decides.
 *
 * Long items hold at most W - 1 of W workers, as long as some lane of the pool has short ones: a worker kept free for
 * nobody would cost a W-th of the speed (docs/decisions/0183).
 */
#include "base/assert.h"
#include "sched/dispatch_internal.h"

#define UNKNOWN_ITEM_NS (UINT64_C(1) << 24) /* 17 ms: what a loader is charged where nothing is predicted */
#define ITEM_NS_MAX (UINT64_C(1) << 46)

/* ---- queues */

static uint32_t pool_of(const struct stk_dispatch *d, const struct batch *b) { return d->lanes[b->lane].options.pool; }

static uint32_t *roots_of(struct stk_dispatch *d, const struct batch *b)
{
    uint32_t pool = pool_of(d, b);
    return pool == STK_POOL_NATIVE ? d->flows[d->lanes[b->lane].flow].roots : d->pools[pool].roots;
}

/* A flow is awake while it has a batch to give items of. */
static void settle_flow(struct stk_dispatch *d, const struct batch *b)
{
    if (pool_of(d, b) != STK_POOL_NATIVE) return;
    uint32_t flow = d->lanes[b->lane].flow;
    if (d->flows[flow].roots[0] == STK_HEAP_NONE && d->flows[flow].roots[1] == STK_HEAP_NONE)
        stk_share_sleep(&d->share, flow);
    else
        stk_share_wake(&d->share, flow);
}

static uint64_t remaining_work(const struct batch *b)
{
    return (b->item_ns ? b->item_ns : 1) * b->items_left; /* 2^46 * 2^16 fits */
}

void stk_dispatch_settle_queue(struct stk_dispatch *d, uint32_t batch)
{
    struct batch *b = &d->batches[batch];
    uint32_t *roots = roots_of(d, b);
    struct stk_heap_node *node = &d->nodes[batch];
    struct stk_heap_key key = {.deadline_ns = b->deadline_ns, .remaining = remaining_work(b), .order = b->order};
    bool wanted = b->granted && !b->canceled && !b->failed && b->first_todo != NONE;
    if (node->inside && wanted && b->queued_long == b->is_long && node->key.deadline_ns == key.deadline_ns &&
        node->key.remaining == key.remaining)
        return;
    bool was_inside = node->inside;
    if (was_inside) roots[b->queued_long] = stk_heap_remove(d->nodes, roots[b->queued_long], batch);
    if (wanted) {
        node->key = key;
        b->queued_long = b->is_long;
        roots[b->queued_long] = stk_heap_insert(d->nodes, roots[b->queued_long], batch);
    }
    if (was_inside != wanted) settle_flow(d, b);
}

/* ---- who is next */

static bool long_may_start(const struct pool_state *pool)
{
    if (pool->workers < 2 || pool->long_lanes == pool->lanes) return true;
    return pool->long_running + 1 < pool->workers;
}

static uint32_t first_of(const struct stk_dispatch *d, const uint32_t roots[2], bool with_long)
{
    if (!with_long || roots[1] == STK_HEAP_NONE) return roots[0];
    if (roots[0] == STK_HEAP_NONE) return roots[1];
    return stk_heap_before(&d->nodes[roots[1]].key, &d->nodes[roots[0]].key) ? roots[1] : roots[0];
}

/* Rare: long items have all the workers that they may have, and the flow whose turn it is has no others. */
static uint32_t first_short_flow(const struct stk_dispatch *d)
{
    uint32_t best = STK_SHARE_NONE;
    for (uint32_t i = 0; i <= d->limits.lanes; i++) {
        if (d->flows[i].roots[0] == STK_HEAP_NONE) continue;
        if (best == STK_SHARE_NONE || d->share.flows[i].served < d->share.flows[best].served) best = i;
    }
    return best;
}

uint32_t stk_dispatch_next_batch(const struct stk_dispatch *d, uint32_t pool)
{
    bool with_long = long_may_start(&d->pools[pool]);
    if (pool != STK_POOL_NATIVE) return first_of(d, d->pools[pool].roots, with_long);
    uint32_t flow = stk_share_first(&d->share);
    if (flow == STK_SHARE_NONE) return STK_HEAP_NONE;
    if (!with_long && d->flows[flow].roots[0] == STK_HEAP_NONE) {
        flow = first_short_flow(d);
        if (flow == STK_SHARE_NONE) return STK_HEAP_NONE;
    }
    return first_of(d, d->flows[flow].roots, with_long);
}

void stk_dispatch_item_out(struct stk_dispatch *d, uint32_t batch, struct item *item)
{
    const struct batch *b = &d->batches[batch];
    uint32_t pool = pool_of(d, b);
    item->holds_long = b->is_long;
    if (b->is_long) d->pools[pool].long_running++;
    if (pool != STK_POOL_NATIVE) return;
    uint64_t work_ns = b->item_ns ? b->item_ns : UNKNOWN_ITEM_NS;
    stk_share_charge(&d->share, d->lanes[b->lane].flow, work_ns >> STK_SHARE_UNIT_SHIFT);
}

void stk_dispatch_item_back(struct stk_dispatch *d, uint32_t batch, struct item *item)
{
    if (!item->holds_long) return;
    struct pool_state *pool = &d->pools[pool_of(d, &d->batches[batch])];
    STK_ASSERT(pool->long_running > 0);
    pool->long_running--;
    item->holds_long = false;
}

/* ---- lanes and costs */

void stk_dispatch_lane_join(struct stk_dispatch *d, uint32_t lane)
{
    d->pools[d->lanes[lane].options.pool].lanes++;
    d->flows[0].lanes++;
}

void stk_dispatch_lane_part(struct stk_dispatch *d, uint32_t lane)
{
    struct lane *l = &d->lanes[lane];
    struct pool_state *pool = &d->pools[l->options.pool];
    pool->lanes--;
    if (l->newest_long) pool->long_lanes--;
    l->newest_long = false;
    d->flows[l->flow].lanes--;
}

void stk_dispatch_lane_share(struct stk_dispatch *d, uint32_t lane, uint64_t key, uint32_t weight)
{
    STK_ASSERT(lane < d->limits.lanes && d->lanes[lane].open);
    struct lane *l = &d->lanes[lane];
    STK_ASSERT(l->first == NONE);
    d->flows[l->flow].lanes--;
    uint32_t free_slot = NONE, slot = 1;
    for (; slot <= d->limits.lanes; slot++) {
        const struct flow *f = &d->flows[slot];
        if (f->lanes > 0 && f->key == key) break;
        if (f->lanes == 0 && free_slot == NONE) free_slot = slot;
    }
    if (slot > d->limits.lanes) {
        slot = free_slot; /* one a lane at most, and this lane has none now */
        STK_ASSERT(slot != NONE);
        d->flows[slot].key = key;
        stk_share_open(&d->share, slot, weight);
    }
    d->flows[slot].lanes++;
    l->flow = slot;
}

void stk_dispatch_set_workers(struct stk_dispatch *d, uint32_t pool, uint32_t workers)
{
    STK_ASSERT(pool <= d->limits.lanes);
    d->pools[pool].workers = workers;
}

void stk_dispatch_set_cost(struct stk_dispatch *d, uint32_t batch, uint64_t item_ns, uint64_t window_ns)
{
    STK_ASSERT(batch < d->batches_touched);
    struct batch *b = &d->batches[batch];
    struct lane *l = &d->lanes[b->lane];
    struct pool_state *pool = &d->pools[l->options.pool];
    STK_ASSERT(b->item_count > 0);
    b->item_ns = item_ns < ITEM_NS_MAX ? item_ns : ITEM_NS_MAX;
    b->is_long = window_ns > 0 && item_ns > window_ns;
    if (batch == l->last && b->is_long != l->newest_long) {
        l->newest_long = b->is_long;
        pool->long_lanes += b->is_long ? 1u : UINT32_MAX; /* adds or takes one */
    }
    stk_dispatch_settle_queue(d, batch);
}
