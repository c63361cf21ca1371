/* SPDX-License-Identifier: Apache-2.0
 *
 * The block cache: see range.h, and docs/decisions/0120 for the two ways it works.
 *
 * A cache with room for one block follows Megatron-LM's reader: a read outside the block replaces it by
 * [offset rounded down to a block, the later of that plus a block and the end of the read): no read is cut. With
 * room for more, blocks lie on a grid, the least recently used go first, and a read that spans several fetches the
 * missing ones at once.
 *
 * Whoever adds a block fetches it, without the lock; others that want it wait for it. What a thread fetches itself
 * comes before what it waits for, so no two wait for each other. A forked child starts with an empty cache: the
 * parent's blocks may be half-written, and their fetching threads do not exist there.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "store/jobs.h"
#include "store/range_internal.h"
#include "sys/thread.h"

enum { LOCK_RANK = 30 };

enum block_state { BLOCK_LOADING, BLOCK_READY, BLOCK_FAILED };

struct block {
    /* fixed once ready or failed; before, the fetching thread's */
    uint64_t start;
    size_t size; /* asked for; `got` is less where the object ends inside */
    size_t got;
    uint8_t *data;
    stoker_error fault;
    /* guarded by the cache's lock */
    enum block_state state;
    unsigned refs; /* readers, and the cache while it is listed */
    bool listed;
    struct block *next; /* in its bucket */
    struct block *newer, *older;
};

struct cache {
    /* fixed */
    pid_t owner;
    struct cache *inherited; /* the parent's, left as it was at the fork */
    struct stk_mutex *lock;
    struct stk_condition *changed;
    size_t bucket_mask;
    /* guarded by lock */
    uint64_t bytes; /* of listed blocks */
    struct block *newest, *oldest;
    struct block *buckets[];
};

struct blocks_range {
    struct stk_range head;
    struct stk_range *inner;
    uint64_t block_bytes, cache_bytes;
    bool single;
    size_t bucket_count;
    _Atomic(struct cache *) cache; /* replaced once in each child; acquire and release, since it is filled before */
};

/* What one read wants of a block, and whether this thread has to fetch it. */
struct want {
    struct block *block;
    bool mine;
};

/* ----------------------------------------------------------------------------------------------------- bookkeeping */

static struct block **bucket_of(const struct blocks_range *self, struct cache *cache, uint64_t start)
{
    uint64_t number = start / self->block_bytes;
    return &cache->buckets[(size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & cache->bucket_mask];
}

static void free_block(struct block *block)
{
    free(block->data);
    free(block);
}

static void unref_block(struct block *block)
{
    STK_ASSERT(block->refs > 0);
    if (--block->refs == 0) free_block(block);
}

static void unlink_age(struct cache *cache, struct block *block)
{
    *(block->newer ? &block->newer->older : &cache->newest) = block->older;
    *(block->older ? &block->older->newer : &cache->oldest) = block->newer;
    block->newer = block->older = NULL;
}

static void push_newest(struct cache *cache, struct block *block)
{
    block->older = cache->newest;
    if (cache->newest) cache->newest->newer = block;
    cache->newest = block;
    if (!cache->oldest) cache->oldest = block;
}

static void unlist(const struct blocks_range *self, struct cache *cache, struct block *block)
{
    if (!block->listed) return;
    struct block **at = bucket_of(self, cache, block->start);
    while (*at != block) at = &(*at)->next;
    *at = block->next;
    unlink_age(cache, block);
    cache->bytes -= block->size;
    block->listed = false;
    unref_block(block);
}

static void drop_oldest(const struct blocks_range *self, struct cache *cache)
{
    STK_ASSERT(!cache->oldest->older && cache->oldest->listed);
    unlist(self, cache, cache->oldest);
}

static struct block *find(const struct blocks_range *self, struct cache *cache, uint64_t offset, size_t size)
{
    struct block *block = *bucket_of(self, cache, offset); /* a single cache has one bucket */
    while (block && !(block->start <= offset && offset + size <= block->start + block->size)) block = block->next;
    return block;
}

static struct block *add(const struct blocks_range *self, struct cache *cache, uint64_t start, size_t size)
{
    struct block *block = calloc(1, sizeof *block);
    uint8_t *data = malloc(size);
    if (!block || !data) {
        free(block);
        free(data);
        return NULL;
    }
    while (cache->oldest && cache->bytes + size > self->cache_bytes) drop_oldest(self, cache);
    *block = (struct block){.start = start, .size = size, .data = data, .refs = 1, .listed = true};
    struct block **at = bucket_of(self, cache, start);
    block->next = *at;
    *at = block;
    push_newest(cache, block);
    cache->bytes += size;
    return block;
}

static stoker_status create_cache(const struct blocks_range *self, struct cache *inherited, struct cache **out_cache,
                                  stoker_error *err)
{
    struct cache *cache = calloc(1, sizeof *cache + self->bucket_count * sizeof cache->buckets[0]);
    if (!cache) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a block cache");
    stoker_status status = stk_mutex_create(LOCK_RANK, &cache->lock, err);
    if (status >= 0) status = stk_condition_create(&cache->changed, err);
    if (status < 0) {
        stk_mutex_destroy(cache->lock);
        free(cache);
        return status;
    }
    cache->owner = getpid();
    cache->inherited = inherited;
    cache->bucket_mask = self->bucket_count - 1;
    *out_cache = cache;
    return STOKER_OK;
}

static void destroy_cache(const struct blocks_range *self, struct cache *cache)
{
    while (cache->oldest) drop_oldest(self, cache);
    stk_condition_destroy(cache->changed);
    stk_mutex_destroy(cache->lock);
    free(cache);
}

/* This process's cache. */
static stoker_status own_cache(struct blocks_range *self, struct cache **out_cache, stoker_error *err)
{
    struct cache *cache = atomic_load_explicit(&self->cache, memory_order_acquire);
    if (cache->owner != getpid()) {
        struct cache *made = NULL;
        STK_TRY(create_cache(self, cache, &made, err));
        if (atomic_compare_exchange_strong_explicit(&self->cache, &cache, made, memory_order_acq_rel,
                                                    memory_order_acquire))
            cache = made;
        else
            destroy_cache(self, made); /* another thread of this child was first */
    }
    *out_cache = cache;
    return STOKER_OK;
}

/* --------------------------------------------------------------------------------------------------------- reading */

/* Fills wants with the blocks of a read, each with a reference; those that were not there are added. */
static stoker_status take_blocks(struct blocks_range *self, struct cache *cache, uint64_t offset, size_t size,
                                 struct want *wants, size_t count, stoker_error *err)
{
    uint64_t start = offset / self->block_bytes * self->block_bytes;
    size_t block_size = (size_t)self->block_bytes;
    if (self->single && offset + size - start > block_size) block_size = (size_t)(offset + size - start);
    stoker_status status = STOKER_OK;
    stk_mutex_lock(cache->lock);
    for (size_t i = 0; i < count && status == STOKER_OK; i++, start += block_size) {
        struct block *block = self->single ? find(self, cache, offset, size) : find(self, cache, start, block_size);
        if (block) {
            unlink_age(cache, block);
            push_newest(cache, block);
        } else {
            block = add(self, cache, start, block_size);
            wants[i].mine = block != NULL;
        }
        wants[i].block = block;
        if (block)
            block->refs++;
        else
            status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a block of %zu bytes of '%s'", block_size,
                              self->head.name);
    }
    stk_mutex_unlock(cache->lock);
    return status;
}

/* Tells what became of the blocks that this thread had to fetch. A failed one leaves the cache: the next read tries. */
static void settle(struct blocks_range *self, struct cache *cache, const struct want *wants, size_t count,
                   stoker_status status, const stoker_error *fault)
{
    stk_mutex_lock(cache->lock);
    for (size_t i = 0; i < count; i++) {
        if (!wants[i].mine) continue;
        wants[i].block->state = status < 0 ? BLOCK_FAILED : BLOCK_READY;
        if (status >= 0) continue;
        wants[i].block->fault = *fault;
        wants[i].block->fault.status = status;
        unlist(self, cache, wants[i].block);
    }
    stk_condition_signal(cache->changed);
    stk_mutex_unlock(cache->lock);
}

static stoker_status fetch(struct blocks_range *self, const struct want *wants, size_t count, stoker_error *err)
{
    struct stk_piece one, *pieces = count == 1 ? &one : calloc(count, sizeof *pieces);
    if (!pieces) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu blocks", count);
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (wants[i].mine)
            pieces[used++] = (struct stk_piece){wants[i].block->start, wants[i].block->size, wants[i].block->data, 0};
    stoker_status status = stk_range_read_pieces(self->inner, pieces, used, err);
    for (size_t i = count; i-- > 0 && status >= 0;)
        if (wants[i].mine) wants[i].block->got = pieces[--used].got;
    if (pieces != &one) free(pieces);
    return status;
}

static stoker_status wait_for_others(struct cache *cache, const struct want *wants, size_t count, stoker_error *err)
{
    stoker_status status = STOKER_OK;
    stk_mutex_lock(cache->lock);
    for (size_t i = 0; i < count && status >= 0; i++) {
        while (wants[i].block->state == BLOCK_LOADING)
            (void)stk_condition_wait(cache->changed, cache->lock, UINT64_MAX); /* looked at again */
        if (wants[i].block->state == BLOCK_FAILED) {
            status = wants[i].block->fault.status;
            if (err) *err = wants[i].block->fault;
        }
    }
    stk_mutex_unlock(cache->lock);
    return status;
}

/* Bytes copied; less than size where the object ends. */
static size_t copy_out(const struct want *wants, size_t count, uint64_t offset, size_t size, uint8_t *out)
{
    size_t done = 0;
    for (size_t i = 0; i < count && done < size; i++) {
        const struct block *block = wants[i].block;
        size_t skip = (size_t)(offset + done - block->start);
        size_t there = skip < block->got ? block->got - skip : 0;
        size_t part = there < size - done ? there : size - done;
        memcpy(out + done, block->data + skip, part);
        done += part;
        if (block->got < block->size) break;
    }
    return done;
}

static stoker_status read_cached(struct blocks_range *self, uint64_t offset, size_t size, void *out, size_t *out_got,
                                 struct want *wants, size_t count, stoker_error *err)
{
    struct cache *cache = NULL;
    STK_TRY(own_cache(self, &cache, err));
    stoker_error fault = {0};
    bool any_mine = false;
    stoker_status status = take_blocks(self, cache, offset, size, wants, count, &fault);
    for (size_t i = 0; i < count; i++) any_mine = any_mine || wants[i].mine;
    if (any_mine) {
        if (status >= 0) status = fetch(self, wants, count, &fault);
        settle(self, cache, wants, count, status, &fault);
    }
    if (status >= 0) status = wait_for_others(cache, wants, count, &fault);
    if (status >= 0) *out_got = copy_out(wants, count, offset, size, out);

    stk_mutex_lock(cache->lock);
    for (size_t i = 0; i < count; i++)
        if (wants[i].block) unref_block(wants[i].block);
    stk_mutex_unlock(cache->lock);
    if (status < 0 && err) *err = fault;
    return status;
}

static stoker_status blocks_read(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                                 stoker_error *err)
{
    struct blocks_range *self = (struct blocks_range *)range;
    *out_got = 0;
    if (size == 0) return STOKER_OK;
    if (!self->single && size > self->cache_bytes / 2) {
        /* It would throw out all the rest and be copied once more. */
        struct stk_piece piece = {offset, size, out, 0};
        STK_TRY(stk_range_read_pieces(self->inner, &piece, 1, err));
        *out_got = piece.got;
        return STOKER_OK;
    }
    size_t count = 1;
    if (!self->single) count = (size_t)((offset + size - 1) / self->block_bytes - offset / self->block_bytes) + 1;
    struct want few[4] = {{0}}, *wants = count <= 4 ? few : calloc(count, sizeof *wants);
    if (!wants) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a read over %zu blocks", count);
    stoker_status status = read_cached(self, offset, size, out, out_got, wants, count, err);
    if (wants != few) free(wants);
    return status;
}

static stoker_status blocks_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    return stk_range_size(((struct blocks_range *)range)->inner, out_size, err);
}

static stoker_status blocks_version(struct stk_range *range, char *out, size_t cap, stoker_error *err)
{
    struct stk_range *inner = ((struct blocks_range *)range)->inner;
    out[0] = 0;
    return inner->backend->version ? inner->backend->version(inner, out, cap, err) : STOKER_OK;
}

static void blocks_close(struct stk_range *range)
{
    struct blocks_range *self = (struct blocks_range *)range;
    struct cache *cache = atomic_load_explicit(&self->cache, memory_order_acquire);
    if (cache->owner == getpid()) destroy_cache(self, cache); /* else its lock may be held for ever, so it is left */
    stk_range_close(self->inner);
    stk_range_free(range);
}

stoker_status stk_range_open_blocks(struct stk_range *inner, uint64_t block_bytes, uint64_t cache_bytes,
                                    struct stk_range **out_range, stoker_error *err)
{
    static const struct stk_range_backend backend = {blocks_read, blocks_size, blocks_version, blocks_close, 1};
    struct stk_range *range = NULL;
    struct cache *cache = NULL;
    if (block_bytes == 0 || block_bytes > INT64_MAX / 4)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "blocks of %llu bytes for '%s'",
                        (unsigned long long)block_bytes, inner->name);
    STK_TRY(stk_range_create(sizeof(struct blocks_range), &backend, inner->name, &range, err));
    struct blocks_range *self = (struct blocks_range *)range;
    self->block_bytes = block_bytes;
    self->cache_bytes = cache_bytes > block_bytes ? cache_bytes : block_bytes;
    self->single = cache_bytes / 2 < block_bytes;
    self->bucket_count = 1;
    while (!self->single && self->bucket_count < STK_BLOCK_BUCKETS_MAX &&
           self->bucket_count < self->cache_bytes / block_bytes)
        self->bucket_count *= 2;
    stoker_status status = create_cache(self, NULL, &cache, err);
    if (status < 0) {
        stk_range_free(range);
        return status;
    }
    self->inner = inner;
    atomic_init(&self->cache, cache);
    *out_range = range;
    return STOKER_OK;
}
