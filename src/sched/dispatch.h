/* SPDX-License-Identifier: Apache-2.0
 *
 * What the workers of one DataServer do next: a pure state machine over lanes, batches and items.
 *
 *     lane   one (loader, rank); its batches get memory strictly in plan order (rule A1)
 *     batch  one request: n items that fill one slab
 *     item   what one worker does at a time: one sample of a native batch, or a whole Python batch
 *     pool   a set of interchangeable workers: the native pool, or one lane's own Python workers
 *
 * Life of a batch: WAITING (no memory) -> RUNNING (granted, items are handed to workers) -> COPYING (skip policy only)
 * -> finished, when the caller removes it. Workers take the item with the earliest deadline; ties go to the batch with
 * the largest remaining work, then to the older one (rule D1). In the native pool loaders take turns by weighted
 * deficit (sched/share) before that, so that each admitted batch starts, and items predicted longer than a window leave
 * one worker to others, if there are others. Batches of a cancelled iteration give no new items and are finished, as
 * CANCELED, as soon as no worker holds one of their items (rule A4: memory is reassigned only then).
 *
 * Pure: memory is the caller's block, sized once; time and everything else come as arguments. One owner.
 */
#ifndef STK_SCHED_DISPATCH_H
#define STK_SCHED_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "base/limits.h"

#define STK_POOL_NATIVE 0u /* pools above are lane + 1 */
#define STK_REPLACE_TRIES 8u

struct stk_dispatch;

struct stk_dispatch_limits {
    uint32_t lanes, batches, items;
};

enum stk_item_policy { STK_POLICY_RAISE = 0, STK_POLICY_SKIP = 1, STK_POLICY_REPLACE = 2 }; /* as stoker_on_error */

struct stk_lane_options {
    uint32_t pool;
    uint32_t policy;  /* enum stk_item_policy; for Python batches the worker applies it: pass RAISE */
    uint32_t retries; /* of items whose data is at fault */
};

enum stk_item_kind { STK_ITEM_MAKE, STK_ITEM_COPY };

/* What a worker is told to do. */
struct stk_item {
    uint64_t item_id; /* unique for ever; a late answer for an id that is not live is dropped (rule C3) */
    uint32_t batch;   /* handle */
    uint32_t index;   /* place of the sample in its batch */
    enum stk_item_kind kind;
    uint32_t attempt;    /* how often it was handed out before */
    uint32_t substitute; /* 0: the planned sample; k: the k-th after it (REPLACE) */
    uint32_t from_index; /* COPY: the place that is copied */
};

enum stk_item_outcome {
    STK_OUTCOME_OK,
    STK_OUTCOME_BAD_DATA,  /* the data is at fault: retries, then the policy */
    STK_OUTCOME_LOST,      /* the worker died, hung or was killed: handed out again once, then the batch fails (rule
                             C1) */
    STK_OUTCOME_UNSTARTED, /* the worker died before it read the task: handed out again, it counts as no try */
    STK_OUTCOME_FATAL      /* machine or caller at fault: the batch fails */
};

enum stk_batch_verdict {
    STK_VERDICT_NONE,     /* more to come */
    STK_VERDICT_DONE,     /* complete: deliver */
    STK_VERDICT_FAILED,   /* failed and no worker holds an item of it: report the failure, free its memory */
    STK_VERDICT_CANCELED, /* cancelled and no worker holds an item of it: free its memory */
    STK_VERDICT_UNKNOWN   /* no such live item: drop the answer */
};

struct stk_batch_state {
    uint32_t lane, generation;
    uint64_t sequence;
    uint64_t deadline_ns;
    uint32_t item_count, items_left;
    uint32_t skipped, retried; /* counters for the report */
    bool granted, canceled, failed;
    uint32_t failed_index; /* of the item that made it fail; UINT32_MAX if none did (stk_dispatch_fail) */
};

/* Bytes of the block that init needs, and its making. The block must be aligned to 16 bytes. */
size_t stk_dispatch_bytes(const struct stk_dispatch_limits *limits);
struct stk_dispatch *stk_dispatch_init(void *block, size_t size, const struct stk_dispatch_limits *limits);

stoker_status stk_dispatch_lane_open(struct stk_dispatch *dispatch, uint32_t lane,
                                     const struct stk_lane_options *options, stoker_error *err);
/* The lane must have no batches. */
void stk_dispatch_lane_close(struct stk_dispatch *dispatch, uint32_t lane);

/* Lanes with the same key take one turn among the loaders of the native pool, for `weight` times the work (0: 1; the
 * first lane of a key decides). Lanes that were not given one share one. The lane must have no batches. */
void stk_dispatch_lane_share(struct stk_dispatch *dispatch, uint32_t lane, uint64_t key, uint32_t weight);
/* How many workers a pool has: rule D1 leaves one of several to short items. 0: unknown, no rule. */
void stk_dispatch_set_workers(struct stk_dispatch *dispatch, uint32_t pool, uint32_t workers);

/* Adds a batch at the end of the lane's plan; sequences of one generation rise by one. LIMIT if a table is full,
 * INVALID_ARGUMENT for another sequence or an item count outside 1...STK_BATCH_SAMPLES_MAX. The handle is below
 * limits.batches and may be used again once the batch is removed. */
stoker_status stk_dispatch_batch_add(struct stk_dispatch *dispatch, uint32_t lane, uint32_t generation,
                                     uint64_t sequence, uint32_t item_count, uint64_t deadline_ns, uint32_t *out_batch,
                                     stoker_error *err);

/* Cancels all batches of the lane (a new iteration, close, or the death of the rank). Those without a running item end
 * at once: their handles are written to out (at most cap, the lane's number of batches is enough) and they stay until
 * removed; batches that ended before are not written again; the others end with STK_VERDICT_CANCELED at their last
 * item_finish. Returns the number written. */
size_t stk_dispatch_cancel(struct stk_dispatch *dispatch, uint32_t lane, uint32_t *out, size_t cap);

/* The next batch that waits for memory: the first ungranted one of its lane, whose turn it is by earliest deadline
 * (ties: older item ids), among the lanes that are not marked in `blocked` (bit per lane: memory was refused in this
 * round). False if none. */
bool stk_dispatch_next_waiting(const struct stk_dispatch *dispatch, const uint8_t *blocked, uint32_t *out_batch);
/* The batch has its memory: its items may be handed out. */
void stk_dispatch_granted(struct stk_dispatch *dispatch, uint32_t batch);

/* The item that a free worker of `pool` takes now; marks it running. False if there is none. */
bool stk_dispatch_pick(struct stk_dispatch *dispatch, uint32_t pool, struct stk_item *out_item);
/* Puts an item back as if it had never been picked (it could not be sent). For use right after the pick: its batch must
 * be neither cancelled nor failed. */
void stk_dispatch_unpick(struct stk_dispatch *dispatch, uint64_t item_id);

/* A worker answered, or is gone. Sets *out_batch to the batch's handle unless the verdict is UNKNOWN. */
enum stk_batch_verdict stk_dispatch_finish(struct stk_dispatch *dispatch, uint64_t item_id,
                                           enum stk_item_outcome outcome, uint32_t *out_batch);

/* Starts a granted batch again from nothing in other memory (a worker that was given its slab cannot be reaped):
 * running items are forgotten, counted as retried. First finish() the item of that worker as LOST, and restart only if
 * the verdict is NONE and the batch is neither failed nor cancelled: so a sample that hangs each of its workers ends
 * the batch at the second loss. */
void stk_dispatch_restart(struct stk_dispatch *dispatch, uint32_t batch);
/* Fails a batch from outside (no memory for it): DONE is not possible any more. Returns FAILED, or NONE while items
 * run (also for a batch that is failing or cancelled already). */
enum stk_batch_verdict stk_dispatch_fail(struct stk_dispatch *dispatch, uint32_t batch);

/* Removes a finished batch; its handle and ids are dead. */
void stk_dispatch_remove(struct stk_dispatch *dispatch, uint32_t batch);

/* What one item of the batch is predicted to take, and the window of its ranks (0: unknown); items that take longer
 * than a window are long ones. Says how large the remaining work is, and what the batch's loader is charged. */
void stk_dispatch_set_cost(struct stk_dispatch *dispatch, uint32_t batch, uint64_t item_ns, uint64_t window_ns);
/* Items are handed out in this order of their places, a permutation of all of them: longest first, so that no long one
 * is left for the end of a batch. For a batch of which none was handed out yet; `scratch` has as many entries. */
void stk_dispatch_set_order(struct stk_dispatch *dispatch, uint32_t batch, const uint32_t *places, uint32_t *scratch);
void stk_dispatch_set_deadline(struct stk_dispatch *dispatch, uint32_t batch, uint64_t deadline_ns);
void stk_dispatch_read(const struct stk_dispatch *dispatch, uint32_t batch, struct stk_batch_state *out_state);
/* Walks the batches of a lane in plan order: start with *cursor = UINT32_MAX; false at the end. The batch that was
 * written last may be removed while walking. */
bool stk_dispatch_walk(const struct stk_dispatch *dispatch, uint32_t lane, uint32_t *cursor, uint32_t *out_batch);

#endif
