/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena: see slab.h for its promises and docs/explanation/memory.md for the reasons. sched/credit says whether a
 * lane may have memory, plane/run where it lies, plane/holders who still works on it; this file joins them to real
 * segments.
 *
 * A segment is live while it holds a slab (also a quarantined one), else idle. Live segments are charged to their lane;
 * idle ones are kept in the order in which they fell idle, and end from the longest idle on when their bytes are
 * needed. One block is allocated at creation; nothing after.
 */
#include "plane/slab.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/holders.h"
#include "plane/run.h"
#include "sys/shmem.h"

#define NONE UINT32_MAX
#define SLABS_MAX 32768u /* batches in flight, and as many delivered or quarantined */
#define SLOT_BITS 16u    /* ids: a serial number and the slot */
#define SIZE_LIMIT (UINT64_C(1) << 48)

struct segment {
    uint64_t segment_id; /* 0: free slot */
    uint64_t bytes;
    uint64_t taken; /* runs, if shared */
    int fd;
    uint32_t lane;           /* NONE: orphaned */
    uint32_t slabs, pinned;  /* slabs it holds; of those, handed out as views */
    uint32_t prev, next;     /* of the lane; next is also the chain of free slots */
    uint32_t older, younger; /* among the idle ones */
    bool shared;
    uint64_t given[STK_HOLDER_PROCESSES / 64]; /* slots of processes that have its descriptor */
};

struct slab {
    uint64_t slab_id; /* 0: free slot */
    uint64_t size;
    uint32_t segment, first_run, run_count;
    uint32_t holders; /* chain */
    uint32_t next_free;
    bool pinned, quarantined;
};

struct lane {
    bool open;
    uint64_t max_bytes;
    uint32_t first_segment;
};

struct stk_arena {
    char *shm_dir; /* NULL: memfd */
    stk_unmap_fn unmap_fn;
    void *user;
    struct stk_credit credit;
    struct stk_holders holders;
    struct lane lanes[STK_LANES_MAX];
    struct segment segments[STK_SEGMENTS_MAX];
    struct slab slabs[SLABS_MAX];
    uint32_t segments_touched, free_segment, slabs_touched, free_slab;
    uint32_t oldest_idle, youngest_idle;
    uint64_t next_serial;
    struct stk_arena_stats stats; /* limit, reserve and pinned are filled when read */
};

_Static_assert(STK_SEGMENTS_MAX <= 1u << SLOT_BITS, "a segment id holds its slot");
_Static_assert(SLABS_MAX <= 1u << SLOT_BITS, "a slab id holds its slot");

/* ---- idle segments ---- */

static void idle_add(struct stk_arena *a, uint32_t slot)
{
    struct segment *s = &a->segments[slot];
    s->older = a->youngest_idle;
    s->younger = NONE;
    if (a->youngest_idle == NONE)
        a->oldest_idle = slot;
    else
        a->segments[a->youngest_idle].younger = slot;
    a->youngest_idle = slot;
}

static void idle_drop(struct stk_arena *a, uint32_t slot)
{
    const struct segment *s = &a->segments[slot];
    if (s->older == NONE)
        a->oldest_idle = s->younger;
    else
        a->segments[s->older].younger = s->younger;
    if (s->younger == NONE)
        a->youngest_idle = s->older;
    else
        a->segments[s->younger].older = s->older;
}

/* ---- segments ---- */

static void lane_unlink(struct stk_arena *a, uint32_t slot)
{
    const struct segment *s = &a->segments[slot];
    if (s->lane == NONE) return;
    if (s->prev == NONE)
        a->lanes[s->lane].first_segment = s->next;
    else
        a->segments[s->prev].next = s->next;
    if (s->next != NONE) a->segments[s->next].prev = s->prev;
}

/* Ends a segment that holds no slab and is in no list but its lane's. */
static void segment_end(struct stk_arena *a, uint32_t slot)
{
    struct segment *s = &a->segments[slot];
    STK_ASSERT(s->slabs == 0);
    lane_unlink(a, slot);
    /* A failed punch only delays the return of the pages until the last process has unmapped them. */
    (void)stk_shmem_punch(s->fd, s->bytes, NULL);
    (void)close(s->fd);
    for (uint32_t word = 0; word < STK_HOLDER_PROCESSES / 64; word++)
        for (uint64_t left = s->given[word]; left != 0; left &= left - 1) {
            uint32_t process = word * 64 + (uint32_t)__builtin_ctzll(left);
            if (a->unmap_fn) a->unmap_fn(a->user, a->holders.processes[process], s->segment_id);
        }
    a->stats.committed_bytes -= s->bytes;
    a->stats.segments--;
    s->segment_id = 0;
    s->next = a->free_segment;
    a->free_segment = slot;
}

static bool end_oldest_idle(struct stk_arena *a)
{
    uint32_t slot = a->oldest_idle;
    if (slot == NONE) return false;
    idle_drop(a, slot);
    segment_end(a, slot);
    return true;
}

/* Ends idle segments until `bytes` more are within the limit, or none is idle. */
static void make_room(struct stk_arena *a, uint64_t bytes)
{
    while (a->stats.committed_bytes + bytes > a->credit.limit && end_oldest_idle(a)) continue;
}

static bool table_full(const struct stk_arena *a)
{
    return a->free_segment == NONE && a->segments_touched == STK_SEGMENTS_MAX;
}

static stoker_status segment_create(struct stk_arena *a, uint32_t lane, uint64_t bytes, bool shared, uint32_t *out_slot,
                                    stoker_error *err)
{
    make_room(a, bytes);
    while (table_full(a) && end_oldest_idle(a)) continue;
    if (table_full(a))
        return stk_fail(err, STOKER_ERR_LIMIT,
                        "%u segments of shared memory are in use, which is the limit: prefetch fewer batches",
                        STK_SEGMENTS_MAX);
    int fd = -1;
    stoker_status status;
    /* What the machine refuses may lie in segments that nobody uses. */
    while ((status = stk_shmem_create(a->shm_dir, bytes, &fd, err)) != STOKER_OK && end_oldest_idle(a)) continue;
    if (status != STOKER_OK) return status;

    uint32_t slot = a->free_segment;
    if (slot != NONE)
        a->free_segment = a->segments[slot].next;
    else
        slot = a->segments_touched++;
    struct segment *s = &a->segments[slot];
    struct lane *l = &a->lanes[lane];
    *s = (struct segment){.segment_id = ++a->next_serial << SLOT_BITS | slot,
                          .bytes = bytes,
                          .fd = fd,
                          .lane = lane,
                          .prev = NONE,
                          .next = l->first_segment,
                          .shared = shared};
    if (l->first_segment != NONE) a->segments[l->first_segment].prev = slot;
    l->first_segment = slot;
    a->stats.segments++;
    a->stats.committed_bytes += bytes;
    if (a->stats.committed_bytes > a->stats.peak_committed_bytes)
        a->stats.peak_committed_bytes = a->stats.committed_bytes;
    *out_slot = slot;
    return STOKER_OK;
}

/* The last slab has left: the segment's bytes go back to its lane's credit, and it waits for reuse unless nobody could
 * reuse it. */
static void segment_fell_idle(struct stk_arena *a, uint32_t slot)
{
    struct segment *s = &a->segments[slot];
    STK_ASSERT(s->pinned == 0);
    a->stats.used_bytes -= s->bytes;
    if (s->lane == NONE)
        stk_credit_orphan_give(&a->credit, s->bytes);
    else
        stk_credit_give(&a->credit, s->lane, s->bytes);
    if (s->lane == NONE || s->bytes > STK_CLASS_BYTES_MAX) {
        segment_end(a, slot);
        return;
    }
    idle_add(a, slot);
    make_room(a, 0);
}

/* ---- slabs ---- */

static struct slab *find_slab(const struct stk_arena *a, uint64_t slab_id)
{
    uint32_t slot = (uint32_t)(slab_id & ((1u << SLOT_BITS) - 1));
    if (slab_id == 0 || slot >= a->slabs_touched || a->slabs[slot].slab_id != slab_id) return NULL;
    return (struct slab *)&a->slabs[slot];
}

static struct slab *get_slab(const struct stk_arena *a, uint64_t slab_id)
{
    struct slab *slab = find_slab(a, slab_id);
    STK_ASSERT(slab);
    return slab;
}

static void describe(const struct stk_arena *a, const struct slab *slab, struct stk_slab *out)
{
    const struct segment *s = &a->segments[slab->segment];
    *out = (struct stk_slab){.slab_id = slab->slab_id,
                             .segment_id = s->segment_id,
                             .segment_bytes = s->bytes,
                             .offset = slab->first_run * (s->bytes / STK_RUNS),
                             .size = slab->size};
}

/* Puts a slab into a segment that has room for it: everything is counted already but the slab itself. */
static void place(struct stk_arena *a, uint32_t segment, uint64_t size, uint32_t first_run, uint32_t run_count,
                  struct stk_slab *out_slab)
{
    uint32_t slot = a->free_slab;
    if (slot != NONE)
        a->free_slab = a->slabs[slot].next_free;
    else
        slot = a->slabs_touched++;
    a->slabs[slot] = (struct slab){.slab_id = ++a->next_serial << SLOT_BITS | slot,
                                   .size = size,
                                   .segment = segment,
                                   .first_run = first_run,
                                   .run_count = run_count,
                                   .holders = STK_HOLDERS_NONE};
    a->segments[segment].slabs++;
    a->stats.slabs++;
    describe(a, &a->slabs[slot], out_slab);
}

static void release(struct stk_arena *a, struct slab *slab)
{
    uint32_t segment = slab->segment;
    struct segment *s = &a->segments[segment];
    STK_ASSERT(slab->holders == STK_HOLDERS_NONE);
    STK_ASSERT(!slab->pinned);
    if (slab->quarantined) {
        a->stats.quarantined--;
        a->stats.quarantined_bytes -= slab->size;
    }
    if (s->shared) stk_run_give(&s->taken, slab->first_run, slab->run_count);
    slab->slab_id = 0;
    slab->next_free = a->free_slab;
    a->free_slab = (uint32_t)(slab - a->slabs);
    a->stats.slabs--;
    if (--s->slabs == 0) segment_fell_idle(a, segment);
}

static void unpin(struct stk_arena *a, struct slab *slab)
{
    struct segment *s = &a->segments[slab->segment];
    if (!slab->pinned) return;
    slab->pinned = false;
    STK_ASSERT(s->pinned > 0);
    if (--s->pinned == 0) stk_credit_unpin(&a->credit, s->lane, s->bytes);
}

/* ---- allocation ---- */

/* A small slab in a segment that is live already costs no credit. */
static bool place_in_live(struct stk_arena *a, uint32_t lane, uint64_t size, uint32_t runs, struct stk_slab *out_slab)
{
    for (uint32_t slot = a->lanes[lane].first_segment; slot != NONE; slot = a->segments[slot].next) {
        struct segment *s = &a->segments[slot];
        uint32_t first;
        if (!s->shared || s->slabs == 0 || !stk_run_take(&s->taken, runs, &first)) continue;
        place(a, slot, size, first, runs, out_slab);
        return true;
    }
    return false;
}

static uint32_t find_idle(const struct stk_arena *a, uint32_t lane, uint64_t bytes, bool shared)
{
    uint32_t slot = a->lanes[lane].first_segment;
    while (slot != NONE) {
        const struct segment *s = &a->segments[slot];
        if (s->slabs == 0 && s->bytes == bytes && s->shared == shared) break;
        slot = s->next;
    }
    return slot;
}

static stoker_status check_size(const struct stk_arena *a, const struct lane *l, uint64_t size, stoker_error *err)
{
    STK_ASSERT(size > 0);
    if (size > l->max_bytes || size > SIZE_LIMIT)
        return stk_fail(
            err, STOKER_ERR_LIMIT,
            "a batch needs %llu bytes of shared memory, max_bytes is %llu: raise max_bytes or make batches smaller",
            (unsigned long long)size, (unsigned long long)l->max_bytes);
    if (a->free_slab == NONE && a->slabs_touched == SLABS_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%u batches are held, which is the limit: keep fewer batches",
                        SLABS_MAX);
    return STOKER_OK;
}

stoker_status stk_arena_alloc(struct stk_arena *a, uint32_t lane, uint64_t size, bool overflow,
                              struct stk_slab *out_slab, stoker_error *err)
{
    STK_ASSERT(lane < STK_LANES_MAX && a->lanes[lane].open);
    const struct lane *l = &a->lanes[lane];
    STK_TRY(check_size(a, l, size, err));
    uint64_t bytes = stk_run_segment_bytes(size, l->max_bytes);
    bool shared = stk_run_is_shared(size, l->max_bytes);
    uint64_t run_bytes = bytes / STK_RUNS;
    uint32_t runs = shared ? (uint32_t)((size + run_bytes - 1) / run_bytes) : 0, first = 0, slot;
    STK_TRY(stk_credit_lane_grow(&a->credit, lane, stk_run_reserve_bytes(size, l->max_bytes), err));
    if (shared && place_in_live(a, lane, size, runs, out_slab)) return STOKER_OK;
    if (!stk_credit_take(&a->credit, lane, bytes)) {
        if (!overflow) return STOKER_AGAIN;
        stk_credit_force(&a->credit, lane, bytes);
    }
    slot = find_idle(a, lane, bytes, shared);
    if (slot != NONE) {
        idle_drop(a, slot);
    } else {
        stoker_status status = segment_create(a, lane, bytes, shared, &slot, err);
        if (status != STOKER_OK) {
            stk_credit_give(&a->credit, lane, bytes);
            return status;
        }
    }
    a->stats.used_bytes += bytes;
    if (shared) {
        bool fits = stk_run_take(&a->segments[slot].taken, runs, &first);
        STK_ASSERT(fits);
    }
    place(a, slot, size, first, runs, out_slab);
    return STOKER_OK;
}

bool stk_arena_free(struct stk_arena *a, uint64_t slab_id)
{
    struct slab *slab = find_slab(a, slab_id);
    if (!slab || slab->quarantined) return false;
    unpin(a, slab);
    if (slab->holders == STK_HOLDERS_NONE) {
        release(a, slab);
    } else {
        slab->quarantined = true;
        a->stats.quarantined++;
        a->stats.quarantined_bytes += slab->size;
    }
    return true;
}

bool stk_arena_pin(struct stk_arena *a, uint64_t slab_id)
{
    struct slab *slab = get_slab(a, slab_id);
    struct segment *s = &a->segments[slab->segment];
    STK_ASSERT(!slab->quarantined);
    if (slab->pinned) return true;
    if (s->pinned == 0 && !stk_credit_pin(&a->credit, s->lane, s->bytes)) return false;
    s->pinned++;
    slab->pinned = true;
    return true;
}

/* ---- fencing ---- */

void stk_arena_give(struct stk_arena *a, uint64_t slab_id, uint32_t process, int *out_fd)
{
    struct slab *slab = get_slab(a, slab_id);
    struct segment *s = &a->segments[slab->segment];
    STK_ASSERT(!slab->quarantined);
    stk_holders_add(&a->holders, &slab->holders, process);
    uint32_t slot = stk_holders_slot(&a->holders, process);
    uint64_t bit = UINT64_C(1) << (slot % 64);
    *out_fd = (s->given[slot / 64] & bit) != 0 ? -1 : s->fd;
    s->given[slot / 64] |= bit;
}

static void dropped(struct stk_arena *a, struct slab *slab)
{
    if (slab->quarantined && slab->holders == STK_HOLDERS_NONE) release(a, slab);
}

void stk_arena_returned(struct stk_arena *a, uint64_t slab_id, uint32_t process)
{
    struct slab *slab = find_slab(a, slab_id);
    if (!slab) return; /* late news of a slab that ended with its process */
    (void)stk_holders_drop(&a->holders, &slab->holders, process, false);
    dropped(a, slab);
}

void stk_arena_process_gone(struct stk_arena *a, uint32_t process)
{
    uint32_t slot = stk_holders_forget(&a->holders, process);
    if (slot == STK_HOLDERS_NONE) return; /* it was never given anything */
    for (uint32_t i = 0; i < a->segments_touched; i++) a->segments[i].given[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
    for (uint32_t i = 0; i < a->slabs_touched; i++) {
        struct slab *slab = &a->slabs[i];
        if (slab->slab_id == 0) continue;
        if (stk_holders_drop(&a->holders, &slab->holders, process, true)) dropped(a, slab);
    }
}

bool stk_arena_held(const struct stk_arena *a, uint64_t slab_id, uint32_t except)
{
    const struct slab *slab = find_slab(a, slab_id);
    return slab && stk_holders_any(&a->holders, slab->holders, except);
}

/* ---- lanes, arena, figures ---- */

stoker_status stk_arena_lane_open(struct stk_arena *a, uint32_t lane, uint64_t largest, uint64_t max_bytes,
                                  stoker_error *err)
{
    STK_ASSERT(lane < STK_LANES_MAX && !a->lanes[lane].open);
    if (max_bytes > SIZE_LIMIT) max_bytes = SIZE_LIMIT;
    uint64_t bytes = 0;
    if (largest > max_bytes)
        bytes = largest; /* refused below, with the true figure */
    else if (largest > 0)
        bytes = stk_run_reserve_bytes(largest, max_bytes);
    STK_TRY(stk_credit_lane_open(&a->credit, lane, bytes, max_bytes, err));
    a->lanes[lane] = (struct lane){.open = true, .max_bytes = max_bytes, .first_segment = NONE};
    return STOKER_OK;
}

void stk_arena_lane_close(struct stk_arena *a, uint32_t lane)
{
    STK_ASSERT(lane < STK_LANES_MAX && a->lanes[lane].open);
    for (uint32_t i = 0; i < a->slabs_touched; i++) {
        const struct slab *slab = &a->slabs[i];
        STK_ASSERT(slab->slab_id == 0 || slab->quarantined || a->segments[slab->segment].lane != lane);
    }
    uint32_t slot = a->lanes[lane].first_segment;
    while (slot != NONE) {
        struct segment *s = &a->segments[slot];
        uint32_t following = s->next;
        if (s->slabs == 0) {
            idle_drop(a, slot);
            segment_end(a, slot);
        } else {
            stk_credit_orphan(&a->credit, lane, s->bytes);
            lane_unlink(a, slot);
            s->lane = NONE;
        }
        slot = following;
    }
    stk_credit_lane_close(&a->credit, lane);
    a->lanes[lane].open = false;
    make_room(a, 0);
}

stoker_status stk_arena_create(const char *shm_dir, stk_unmap_fn unmap_fn, void *user, struct stk_arena **out_arena,
                               stoker_error *err)
{
    struct stk_arena *a = calloc(1, sizeof *a); /* zero pages: most of the tables is never touched */
    char *directory = shm_dir ? strdup(shm_dir) : NULL;
    if (!a || (shm_dir && !directory)) {
        free(a);
        free(directory);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "cannot allocate the %zu bytes of the arena's tables", sizeof *a);
    }
    a->shm_dir = directory;
    a->unmap_fn = unmap_fn;
    a->user = user;
    stk_credit_init(&a->credit);
    stk_holders_init(&a->holders);
    a->free_segment = a->free_slab = a->oldest_idle = a->youngest_idle = NONE;
    *out_arena = a;
    return STOKER_OK;
}

/* Nothing is punched here: views that a rank still has outlive the DataServer (rule A6), and the kernel frees the pages
 * with the last mapping. */
void stk_arena_destroy(struct stk_arena *a)
{
    if (!a) return;
    for (uint32_t i = 0; i < a->segments_touched; i++)
        if (a->segments[i].segment_id != 0) (void)close(a->segments[i].fd);
    free(a->shm_dir);
    free(a);
}

void stk_arena_read_stats(const struct stk_arena *a, struct stk_arena_stats *out)
{
    *out = a->stats;
    out->limit_bytes = a->credit.limit;
    out->reserve_bytes = a->credit.reserved;
    out->pinned_bytes = 0;
    for (uint32_t i = 0; i < STK_LANES_MAX; i++) out->pinned_bytes += a->credit.lanes[i].pinned;
}

void stk_arena_lane_stats(const struct stk_arena *a, uint32_t lane, uint64_t *out_used, uint64_t *out_pinned)
{
    STK_ASSERT(lane < STK_LANES_MAX);
    *out_used = a->credit.lanes[lane].used;
    *out_pinned = a->credit.lanes[lane].pinned;
}

bool stk_arena_walk_quarantine(const struct stk_arena *a, uint32_t *cursor, struct stk_slab *out_slab,
                               uint32_t *out_process)
{
    while (*cursor < a->slabs_touched) {
        const struct slab *slab = &a->slabs[(*cursor)++];
        if (slab->slab_id == 0 || !slab->quarantined) continue;
        describe(a, slab, out_slab);
        *out_process = a->holders.entries[slab->holders].process;
        return true;
    }
    return false;
}
