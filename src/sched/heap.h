/* SPDX-License-Identifier: Apache-2.0
 *
 * Several priority queues over one fixed table of nodes: pairing heaps linked by index. A node is in at most one heap.
 * Insert is O(1), taking out any node O(log n) amortised. Ties do not exist: `order` is unique, so the least node is
 * the same on every machine.
 *
 * Pure: the table is the caller's. A binary heap for each queue would need a full table for each.
 */
#ifndef STK_SCHED_HEAP_H
#define STK_SCHED_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define STK_HEAP_NONE UINT32_MAX

struct stk_heap_key { /* compared in this order, least first */
    uint64_t deadline_ns;
    uint64_t remaining; /* the larger comes first (rule D1) */
    uint64_t order;
};

struct stk_heap_node {
    struct stk_heap_key key;
    uint32_t child, next;
    uint32_t prev; /* the sibling before, or the parent of a first child */
    bool inside;
};

bool stk_heap_before(const struct stk_heap_key *a, const struct stk_heap_key *b);

/* `root` is STK_HEAP_NONE for an empty heap; each call returns the new root. */
uint32_t stk_heap_insert(struct stk_heap_node *nodes, uint32_t root, uint32_t node);
uint32_t stk_heap_remove(struct stk_heap_node *nodes, uint32_t root, uint32_t node);

#endif
