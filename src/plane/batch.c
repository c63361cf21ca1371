/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of the consumer (batch.h): facts, leaves, references, private copies. The only thing that a drop touches is
 * the control block, the list of the client core and, when the client is closed, the mapping.
 *
 * Read next: client_core.c (the list), client_io.c (who recycles the blocks).
 */
#include "plane/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

struct stk_held *stk_held_create(void)
{
    struct stk_held *held = calloc(1, sizeof *held);
    if (!held) return NULL;
    atomic_init(&held->refs, 1);
    atomic_init(&held->bytes, 0);
    return held;
}

void stk_held_ref(struct stk_held *held)
{
    atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed); /* relaxed: the caller has a reference */
}

void stk_held_unref(struct stk_held *held)
{
    if (!held) return;
    /* acq_rel: the last one frees what all others have finished with. */
    if (atomic_fetch_sub_explicit(&held->refs, 1, memory_order_acq_rel) == 1) free(held);
}

static stoker_status check_leaf(const struct stk_message_ready *ready, uint32_t index, stoker_error *err)
{
    const struct stk_message_leaf *leaf = &ready->leaves[index];
    if (leaf->ndim > STOKER_TENSOR_DIMS_MAX) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "READY: leaf %u has %u dimensions, at most %u are possible", index,
                        leaf->ndim, (unsigned)STOKER_TENSOR_DIMS_MAX);
    }
    if (leaf->offset > ready->region.size || leaf->size > ready->region.size - leaf->offset) {
        return stk_fail(
            err, STOKER_ERR_PROTOCOL, "READY: leaf %u at %llu of %llu bytes is outside its region of %llu bytes", index,
            (unsigned long long)leaf->offset, (unsigned long long)leaf->size, (unsigned long long)ready->region.size);
    }
    if ((ready->region.offset + leaf->offset) % STK_LEAF_ALIGNMENT != 0) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "READY: leaf %u starts at %llu, not on a boundary of %u bytes", index,
                        (unsigned long long)(ready->region.offset + leaf->offset), STK_LEAF_ALIGNMENT);
    }
    return STOKER_OK;
}

stoker_status stk_batch_check(const struct stk_message_ready *ready, stoker_error *err)
{
    if (ready->region.slab_id == 0) return stk_fail(err, STOKER_ERR_PROTOCOL, "READY: slab id 0");
    if (ready->leaf_count > sizeof ready->leaves / sizeof ready->leaves[0]) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "READY: %u leaves, at most %zu are possible", ready->leaf_count,
                        sizeof ready->leaves / sizeof ready->leaves[0]);
    }
    for (uint32_t i = 0; i < ready->leaf_count; i++) STK_TRY(check_leaf(ready, i, err));
    if (ready->skeleton_offset > ready->region.size ||
        ready->skeleton_size > ready->region.size - ready->skeleton_offset) {
        return stk_fail(err, STOKER_ERR_PROTOCOL,
                        "READY: skeleton at %llu of %llu bytes is outside its region of %llu bytes",
                        (unsigned long long)ready->skeleton_offset, (unsigned long long)ready->skeleton_size,
                        (unsigned long long)ready->region.size);
    }
    return STOKER_OK;
}

void stk_batch_init(struct stoker_batch *batch, struct stk_client_core *core, struct stk_held *held,
                    const struct stk_message_ready *ready, struct stk_shm_mapping *mapping, void *memory)
{
    stk_client_core_ref(core);
    stk_held_ref(held);
    batch->core = core;
    batch->held = held;
    batch->ready = *ready;
    batch->mapping = mapping;
    batch->memory = memory;
    batch->private_memory = NULL;
    batch->slab_id = ready->region.slab_id;
    batch->held_bytes = 0;
    batch->next = NULL;
    atomic_init(&batch->refs, 1);
}

void stk_batch_fini(struct stoker_batch *batch)
{
    stk_shm_mapping_unref(batch->mapping);
    free(batch->private_memory);
    stk_held_unref(batch->held);
    batch->mapping = NULL;
    batch->private_memory = NULL;
    batch->held = NULL;
    batch->memory = NULL;
    batch->core = NULL;
}

stoker_status stk_batch_make_private(struct stoker_batch *batch, uint64_t *out_slab_id, stoker_error *err)
{
    STK_ASSERT(!batch->private_memory && batch->held_bytes == 0);
    size_t size = batch->ready.region.size, rounded;
    if (!stk_add_size(size, STK_LEAF_ALIGNMENT, &rounded)) rounded = SIZE_MAX;
    /* Leaves lie on boundaries of the segment, so the copy begins at the same distance from one. */
    size_t lead = batch->ready.region.offset % STK_LEAF_ALIGNMENT;
    void *copy = NULL;
    if (rounded < SIZE_MAX - lead)
        copy = aligned_alloc(STK_LEAF_ALIGNMENT, stk_align_up(rounded + lead, STK_LEAF_ALIGNMENT));
    if (!copy) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a private copy of %zu bytes of a batch", size);
    memcpy((uint8_t *)copy + lead, batch->memory, size);
    stk_shm_mapping_unref(batch->mapping);
    batch->mapping = NULL;
    batch->private_memory = copy;
    batch->memory = (uint8_t *)copy + lead;
    *out_slab_id = batch->slab_id;
    batch->slab_id = 0;
    return STOKER_OK;
}

void stk_batch_hand_out(struct stoker_batch *batch)
{
    if (batch->private_memory) return;
    batch->held_bytes = batch->ready.region.size;
    /* relaxed: a statistic, read by nobody who concludes anything from it about other memory. */
    atomic_fetch_add_explicit(&batch->held->bytes, batch->held_bytes, memory_order_relaxed);
}

STOKER_API void stoker_batch_read_info(const stoker_batch *batch, stoker_batch_info *out_info)
{
    stoker_batch_info info = {
        .sequence = batch->ready.sequence,
        .leaf_count = batch->ready.leaf_count,
        .skeleton = batch->ready.skeleton_size ? batch->memory + batch->ready.skeleton_offset : NULL,
        .skeleton_size = batch->ready.skeleton_size,
        .bytes = batch->private_memory ? 0 : batch->ready.region.size,
    };
    *out_info = info;
}

STOKER_API stoker_status stoker_batch_leaf(const stoker_batch *batch, size_t leaf_index, stoker_leaf *out_leaf,
                                           stoker_error *err)
{
    if (leaf_index >= batch->ready.leaf_count) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "leaf %zu of a batch that has %u", leaf_index,
                        batch->ready.leaf_count);
    }
    const struct stk_message_leaf *from = &batch->ready.leaves[leaf_index];
    stoker_leaf leaf = {.dtype = (stoker_dtype)from->dtype,
                        .ndim = from->ndim,
                        .data = batch->memory + from->offset,
                        .size = from->size};
    memcpy(leaf.shape, from->shape, sizeof leaf.shape);
    *out_leaf = leaf;
    return STOKER_OK;
}

STOKER_API void stoker_batch_ref(stoker_batch *batch)
{
    /* relaxed: the caller has a reference, so the count cannot reach zero meanwhile. */
    uint32_t before = atomic_fetch_add_explicit(&batch->refs, 1, memory_order_relaxed);
    STK_ASSERT(before > 0);
}

STOKER_API void stoker_batch_unref(stoker_batch *batch)
{
    if (!batch || !stk_client_core_is_ours(batch->core)) return;
    /* release: this thread's reads and writes of the slab come before its return; acquire: for the last one. */
    uint32_t before = atomic_fetch_sub_explicit(&batch->refs, 1, memory_order_acq_rel);
    STK_ASSERT(before > 0);
    if (before != 1) return;
    struct stk_client_core *core = batch->core; /* its reference passes from the batch to this call */
    atomic_fetch_sub_explicit(&batch->held->bytes, batch->held_bytes, memory_order_relaxed);
    if (stk_client_core_push(core, batch)) {
        stk_client_core_wake(core);
    } else {
        stk_batch_fini(batch);
        free(batch);
    }
    stk_client_core_unref(core);
}
