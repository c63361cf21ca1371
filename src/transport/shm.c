/* SPDX-License-Identifier: Apache-2.0
 *
 * Mapped segments of one process: see shm.h. The table is an array sorted by segment id: ids rise, so a new one nearly
 * always goes to the end, and a look-up is a binary search over at most STK_SEGMENTS_MAX entries.
 *
 * A mapping is counted: one reference of the table, one of each user. Whoever drops the last one unmaps. No lock: the
 * table has one owner, and the count is the only thing that several threads touch.
 */
#include "transport/shm.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "sys/shmem.h"

struct stk_shm_mapping {
    /* Fixed after creation. */
    uint64_t segment_id;
    size_t size;
    /* The table's owner; fixed once there is a reference beside the table's. */
    void *address; /* NULL: there was no memory to map it yet */
    int fd;        /* kept while it is not mapped; -1 else */
    /* Atomic. */
    atomic_size_t references;
};

struct stk_shm_table {
    int dont_fork;
    size_t count, capacity;
    struct stk_shm_mapping **mappings; /* by rising segment id */
};

stoker_status stk_shm_table_create(int dont_fork, struct stk_shm_table **out_table, stoker_error *err)
{
    struct stk_shm_table *table = calloc(1, sizeof *table);
    if (!table) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the table of segments");
    table->dont_fork = dont_fork;
    *out_table = table;
    return STOKER_OK;
}

void stk_shm_table_destroy(struct stk_shm_table *table)
{
    if (!table) return;
    for (size_t i = 0; i < table->count; i++) stk_shm_mapping_unref(table->mappings[i]);
    free(table->mappings);
    free(table);
}

/* Where segment_id stands, or where it would have to be inserted. */
static size_t place_of(const struct stk_shm_table *table, uint64_t segment_id)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->mappings[middle]->segment_id < segment_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_known(const struct stk_shm_table *table, size_t place, uint64_t segment_id)
{
    return place < table->count && table->mappings[place]->segment_id == segment_id;
}

static stoker_status make_room(struct stk_shm_table *table, stoker_error *err)
{
    if (table->count < table->capacity) return STOKER_OK;
    if (table->count >= STK_SEGMENTS_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%zu segments are mapped, at most %u can be", table->count,
                        STK_SEGMENTS_MAX);
    size_t capacity = table->capacity ? 2 * table->capacity : 16;
    struct stk_shm_mapping **grown = realloc(table->mappings, capacity * sizeof *grown);
    if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a table of %zu segments", capacity);
    table->mappings = grown;
    table->capacity = capacity;
    return STOKER_OK;
}

static stoker_status map(const struct stk_shm_table *table, struct stk_shm_mapping *mapping, stoker_error *err)
{
    stoker_status status = stk_shmem_map(mapping->fd, mapping->size, table->dont_fork, &mapping->address, err);
    if (status < 0) stk_error_context(err, "segment %" PRIu64, mapping->segment_id);
    return status;
}

/* *out_kept: the descriptor is the table's now. */
static stoker_status add(struct stk_shm_table *table, uint64_t segment_id, uint64_t segment_bytes, int fd,
                         bool *out_kept, stoker_error *err)
{
    size_t place = place_of(table, segment_id);
    if (is_known(table, place, segment_id))
        return stk_fail(err, STOKER_ERR_PROTOCOL, "segment %" PRIu64 " was sent twice", segment_id);
    if (segment_bytes == 0 || segment_bytes > PTRDIFF_MAX)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "segment %" PRIu64 " has %" PRIu64 " bytes, expected 1 to %td",
                        segment_id, segment_bytes, PTRDIFF_MAX);
    STK_TRY(make_room(table, err));

    struct stk_shm_mapping *mapping = malloc(sizeof *mapping);
    if (!mapping) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for segment %" PRIu64, segment_id);
    mapping->segment_id = segment_id;
    mapping->address = NULL;
    mapping->size = (size_t)segment_bytes;
    mapping->fd = fd;
    atomic_init(&mapping->references, 1);
    stoker_error seen = {0};
    stoker_status status = map(table, mapping, &seen);
    if (status < 0 && status != STOKER_ERR_NO_MEMORY) {
        if (err) *err = seen;
        free(mapping);
        return status;
    }
    *out_kept = status < 0; /* tried again when it is used */
    if (status == STOKER_OK) mapping->fd = -1;
    memmove(table->mappings + place + 1, table->mappings + place,
            (table->count - place) * sizeof(struct stk_shm_mapping *));
    table->mappings[place] = mapping;
    table->count++;
    return STOKER_OK;
}

stoker_status stk_shm_table_add(struct stk_shm_table *table, uint64_t segment_id, uint64_t segment_bytes, int fd,
                                stoker_error *err)
{
    bool kept = false;
    stoker_status status = add(table, segment_id, segment_bytes, fd, &kept, err);
    if (fd >= 0 && !kept) (void)close(fd); /* only read and mapped: there is nothing that closing could lose */
    return status;
}

stoker_status stk_shm_table_resolve(struct stk_shm_table *table, uint64_t segment_id, uint64_t offset, uint64_t size,
                                    struct stk_shm_mapping **out_mapping, void **out_address, stoker_error *err)
{
    size_t place = place_of(table, segment_id);
    if (!is_known(table, place, segment_id))
        return stk_fail(err, STOKER_ERR_PROTOCOL, "segment %" PRIu64 " is not known", segment_id);
    struct stk_shm_mapping *mapping = table->mappings[place];
    if (size > mapping->size || offset > mapping->size - size)
        return stk_fail(err, STOKER_ERR_PROTOCOL,
                        "%" PRIu64 " bytes at %" PRIu64 " lie outside segment %" PRIu64 " of %zu bytes", size, offset,
                        segment_id, mapping->size);
    if (!mapping->address) {
        STK_TRY(map(table, mapping, err));
        (void)close(mapping->fd); /* as above */
        mapping->fd = -1;
    }
    stk_shm_mapping_ref(mapping);
    *out_mapping = mapping;
    *out_address = (uint8_t *)mapping->address + offset;
    return STOKER_OK;
}

void stk_shm_table_remove(struct stk_shm_table *table, uint64_t segment_id)
{
    size_t place = place_of(table, segment_id);
    if (!is_known(table, place, segment_id)) return;
    struct stk_shm_mapping *mapping = table->mappings[place];
    table->count--;
    memmove(table->mappings + place, table->mappings + place + 1,
            (table->count - place) * sizeof(struct stk_shm_mapping *));
    stk_shm_mapping_unref(mapping);
}

void stk_shm_mapping_ref(struct stk_shm_mapping *mapping)
{
    /* Relaxed: whoever takes a reference holds one already, so the mapping cannot end meanwhile. */
    size_t before = atomic_fetch_add_explicit(&mapping->references, 1, memory_order_relaxed);
    STK_ASSERT(before > 0);
}

void stk_shm_mapping_unref(struct stk_shm_mapping *mapping)
{
    if (!mapping) return;
    /* Release: what this user did with the memory happens before its end. Acquire: the one who unmaps has seen all of
     * that. */
    size_t before = atomic_fetch_sub_explicit(&mapping->references, 1, memory_order_acq_rel);
    STK_ASSERT(before > 0);
    if (before > 1) return;
    if (mapping->address)
        stk_shmem_unmap(mapping->address, mapping->size);
    else
        (void)close(mapping->fd); /* it was never mapped */
    free(mapping);
}
