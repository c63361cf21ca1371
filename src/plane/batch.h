/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch in the rank: one counted control block over memory of the DataServer's arena, or over a private copy of it
 * (rules A5, A6).
 *
 * The block is made by the client's I/O thread when READY arrives and comes back to it when the last reference goes,
 * over the list of the client core. A drop allocates nothing, takes no lock and never blocks; it is safe on any
 * thread, at exit, and after the client was closed. In a forked child it does nothing.
 */
#ifndef STK_PLANE_BATCH_H
#define STK_PLANE_BATCH_H

#include <stdatomic.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>

#include "plane/client_core.h"
#include "transport/shm.h"
#include "wire/message.h"

/* Bytes of slabs that the batches of one loader keep; counted, because batches outlive their loader. */
struct stk_held {
    _Atomic(uint32_t) refs;
    _Atomic(uint64_t) bytes;
};

struct stoker_batch {
    /* fixed while it is lent */
    struct stk_client_core *core; /* a reference */
    struct stk_held *held;        /* a reference */
    struct stk_message_ready ready;
    struct stk_shm_mapping *mapping; /* a reference; NULL for a private copy */
    uint8_t *memory;                 /* of the region, in the mapping or private */
    void *private_memory;            /* owned; NULL: none */
    uint64_t slab_id;                /* to be released; 0: none any more */
    uint64_t held_bytes;             /* what it adds to `held` since it was handed out */
    /* owned by whoever owns the dropped batch */
    struct stoker_batch *next;
    /* atomic */
    _Atomic(uint32_t) refs;
};

struct stk_held *stk_held_create(void); /* NULL: no memory */
void stk_held_ref(struct stk_held *held);
void stk_held_unref(struct stk_held *held);

/* Does every leaf and the skeleton lie inside the region, on the promised boundaries? PROTOCOL names the field. */
stoker_status stk_batch_check(const struct stk_message_ready *ready, stoker_error *err);

/* Fills a block (zeroed or recycled) with one reference. Takes `mapping`; shares core and held. */
void stk_batch_init(struct stoker_batch *batch, struct stk_client_core *core, struct stk_held *held,
                    const struct stk_message_ready *ready, struct stk_shm_mapping *mapping, void *memory);
/* Undoes init for a block that came from the list: gives back mapping, copy and held, but not the core (the dropper
 * did that). */
void stk_batch_fini(struct stoker_batch *batch);

/* Moves the bytes to private memory and drops the mapping; *out_slab_id is to be released by the caller. Only before
 * the batch is handed out. NO_MEMORY leaves it as it was. */
stoker_status stk_batch_make_private(struct stoker_batch *batch, uint64_t *out_slab_id, stoker_error *err);
/* Counts the slab as held by the user. */
void stk_batch_hand_out(struct stoker_batch *batch);

#endif
