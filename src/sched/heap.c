/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairing heaps by index: see heap.h. The two passes over the children of a removed node are loops, never recursion,
 * because a heap that was filled by inserts alone has one level with all its nodes.
 */
#include "sched/heap.h"

#include "base/assert.h"

bool stk_heap_before(const struct stk_heap_key *a, const struct stk_heap_key *b)
{
    if (a->deadline_ns != b->deadline_ns) return a->deadline_ns < b->deadline_ns;
    if (a->remaining != b->remaining) return a->remaining > b->remaining;
    return a->order < b->order;
}

/* Joins two roots; the later becomes the first child of the earlier. */
static uint32_t meld(struct stk_heap_node *nodes, uint32_t a, uint32_t b)
{
    if (a == STK_HEAP_NONE) return b;
    if (b == STK_HEAP_NONE) return a;
    if (stk_heap_before(&nodes[b].key, &nodes[a].key)) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    nodes[b].prev = a;
    nodes[b].next = nodes[a].child;
    if (nodes[a].child != STK_HEAP_NONE) nodes[nodes[a].child].prev = b;
    nodes[a].child = b;
    nodes[a].next = nodes[a].prev = STK_HEAP_NONE;
    return a;
}

/* Melds a list of siblings: pairs from the left, then the pairs from the right. */
static uint32_t meld_siblings(struct stk_heap_node *nodes, uint32_t first)
{
    uint32_t pairs = STK_HEAP_NONE; /* linked backwards through next */
    while (first != STK_HEAP_NONE) {
        uint32_t a = first, b = nodes[a].next;
        first = b == STK_HEAP_NONE ? STK_HEAP_NONE : nodes[b].next;
        nodes[a].next = nodes[a].prev = STK_HEAP_NONE;
        if (b != STK_HEAP_NONE) nodes[b].next = nodes[b].prev = STK_HEAP_NONE;
        uint32_t joined = meld(nodes, a, b);
        nodes[joined].next = pairs;
        pairs = joined;
    }
    uint32_t root = STK_HEAP_NONE;
    while (pairs != STK_HEAP_NONE) {
        uint32_t following = nodes[pairs].next;
        nodes[pairs].next = STK_HEAP_NONE;
        root = meld(nodes, root, pairs);
        pairs = following;
    }
    return root;
}

uint32_t stk_heap_insert(struct stk_heap_node *nodes, uint32_t root, uint32_t node)
{
    struct stk_heap_node *n = &nodes[node];
    STK_ASSERT(!n->inside);
    n->child = n->next = n->prev = STK_HEAP_NONE;
    n->inside = true;
    return meld(nodes, root, node);
}

uint32_t stk_heap_remove(struct stk_heap_node *nodes, uint32_t root, uint32_t node)
{
    struct stk_heap_node *n = &nodes[node];
    STK_ASSERT(n->inside);
    uint32_t below = meld_siblings(nodes, n->child);
    n->inside = false;
    if (node == root) return below;
    if (nodes[n->prev].child == node)
        nodes[n->prev].child = n->next;
    else
        nodes[n->prev].next = n->next;
    if (n->next != STK_HEAP_NONE) nodes[n->next].prev = n->prev;
    return meld(nodes, root, below);
}
