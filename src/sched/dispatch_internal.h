/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of sched/dispatch, and what its two files call of one another: dispatch.c has the life of lanes, batches
 * and items, dispatch_queue.c the order in which items are handed out.
 */
#ifndef STK_SCHED_DISPATCH_INTERNAL_H
#define STK_SCHED_DISPATCH_INTERNAL_H

#include "sched/dispatch.h"
#include "sched/heap.h"
#include "sched/share.h"

#define NONE UINT32_MAX
#define WALK_END (UINT32_MAX - 1)
#define SLOT_BITS 24u
#define LOST_MAX 2u /* the second loss of an item fails its batch: it may be what kills the workers */

enum item_state { ITEM_TODO, ITEM_RUNNING, ITEM_GOOD, ITEM_BAD };

struct item {
    uint64_t item_id; /* of the hand-out in progress; 0 while none is */
    uint32_t batch, index;
    uint32_t next; /* in order of place; also the chain of free slots */
    uint32_t next_todo;
    uint32_t attempt, retried; /* hand-outs so far; of those, repeats for bad data */
    uint32_t from_index;
    uint8_t state, kind, lost, substitute;
    bool holds_long; /* counts in long_running of its pool */
};

struct batch {
    uint32_t lane, generation;
    uint64_t sequence, deadline_ns, order;
    uint32_t item_count, items_left, running, bad;
    uint32_t skipped, retried, failed_index;
    uint32_t first_item, first_todo, last_todo;
    uint32_t prev, next; /* in the lane's plan; next is also the chain of free slots */
    uint64_t item_ns;    /* predicted for one item; 0: unknown */
    bool granted, canceled, failed, ended, copying;
    bool is_long, queued_long; /* an item takes longer than a window; in which of the two heaps it is */
};

struct lane {
    struct stk_lane_options options;
    uint32_t first, last, waiting; /* batches: the plan, and its first one that waits for memory */
    uint32_t waiting_at;           /* place in dispatch->waiting_lanes */
    uint64_t newest;               /* sequence added last, of this generation, also after its removal */
    uint32_t newest_generation;
    uint32_t flow;
    bool open, planned; /* planned: newest is set */
    bool newest_long;
};

/* Lanes that share one turn among all of the native pool: those of one loader. Slot 0 has the lanes that were given
 * none. */
struct flow {
    uint64_t key;
    uint32_t lanes;    /* 0: free, but for slot 0 */
    uint32_t roots[2]; /* of batches: short and long ones */
};

struct pool_state {
    uint32_t roots[2];                        /* of batches, but for the native pool, which has flows */
    uint32_t workers;                         /* 0: unknown */
    uint32_t long_running, lanes, long_lanes; /* long_lanes: those whose newest batch is of long items */
};

struct stk_dispatch {
    struct stk_dispatch_limits limits;
    struct lane *lanes;
    struct batch *batches;
    struct item *items;
    struct stk_heap_node *nodes; /* one a batch */
    struct pool_state *pools;
    struct flow *flows; /* lanes + 1 */
    struct stk_share share;
    uint32_t *waiting_lanes; /* lanes with a batch that waits for memory, in no order */
    uint32_t waiting_count;
    uint32_t batches_touched, items_touched; /* slots above were never used: nothing is cleared at creation */
    uint32_t free_batch, free_item, items_in_use;
    uint64_t next_order, next_serial;
};

/* dispatch_queue.c */
/* Puts the batch where its state says it belongs: in its queue, with its present key, or out of it. */
void stk_dispatch_settle_queue(struct stk_dispatch *dispatch, uint32_t batch);
/* The batch whose item a free worker of the pool takes now; STK_HEAP_NONE if there is none. */
uint32_t stk_dispatch_next_batch(const struct stk_dispatch *dispatch, uint32_t pool);
/* An item of the batch was handed out, or is no longer with a worker. */
void stk_dispatch_item_out(struct stk_dispatch *dispatch, uint32_t batch, struct item *item);
void stk_dispatch_item_back(struct stk_dispatch *dispatch, uint32_t batch, struct item *item);
void stk_dispatch_lane_join(struct stk_dispatch *dispatch, uint32_t lane);
void stk_dispatch_lane_part(struct stk_dispatch *dispatch, uint32_t lane);

#endif
