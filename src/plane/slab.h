/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena of one DataServer: shared segments cut into slabs (rules A1 to A4). Bookkeeping lives in private memory;
 * segments hold payload only, and the DataServer never maps them.
 *
 *   - A slab of a large batch is a segment of its own, of a size class (powers of two with four steps between); small
 *     slabs share segments of 64 runs (plane/run says which and how large), free runs coalesce.
 *   - Each segment belongs to one lane and is charged to it (sched/credit) while it holds a live slab. Idle segments
 *     stay reserved for reuse as long as the limit allows; memory that another lane needs is taken from the longest
 *     idle ones (punched, closed, UNMAP to those who mapped it).
 *   - Slabs are fenced (A4): a slab remembers the processes that were given it and have not reported completion. A
 *     freed slab with such a process is quarantined: it stays charged, and is named in the status, until the process
 *     has reported or has been reaped.
 *
 * One owner: the DataServer's loop.
 */
#ifndef STK_PLANE_SLAB_H
#define STK_PLANE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "sched/credit.h"

struct stk_arena;

struct stk_slab {
    uint64_t slab_id; /* never 0, never used again */
    uint64_t segment_id, segment_bytes;
    uint64_t offset, size;
};

/* Told when a segment ends, once for every process that was given it: send UNMAP. Must not call the arena. */
typedef void (*stk_unmap_fn)(void *user, uint32_t process, uint64_t segment_id);

stoker_status stk_arena_create(const char *shm_dir, stk_unmap_fn unmap_fn, void *user, struct stk_arena **out_arena,
                               stoker_error *err);
/* NULL allowed. Closes the segments; views of ranks that are still mapped stay valid, so nobody is told to unmap. */
void stk_arena_destroy(struct stk_arena *arena);

/* largest: bytes of the largest batch, 0 if unknown yet. LIMIT naming both figures. */
stoker_status stk_arena_lane_open(struct stk_arena *arena, uint32_t lane, uint64_t largest, uint64_t max_bytes,
                                  stoker_error *err);
/* All slabs of the lane must be freed (quarantined ones may remain; they move to the arena). Idle segments end. */
void stk_arena_lane_close(struct stk_arena *arena, uint32_t lane);

/* size > 0. AGAIN: no credit now, ask again after something was freed. LIMIT: more than max_bytes, never possible.
 * NO_MEMORY: the machine refuses (rule A3). `overflow`: needed now, beyond the credit if it must be, but never above
 * the lane's max_bytes. */
stoker_status stk_arena_alloc(struct stk_arena *arena, uint32_t lane, uint64_t size, bool overflow,
                              struct stk_slab *out_slab, stoker_error *err);
/* Frees, or quarantines while a process still holds it. Unknown ids are ignored (false). */
bool stk_arena_free(struct stk_arena *arena, uint64_t slab_id);

/* May the slab be handed out as views? Marks it pinned until it is freed. False: deliver a private copy. */
bool stk_arena_pin(struct stk_arena *arena, uint64_t slab_id);

/* A process (a number chosen by the DataServer, never used again) is given the slab; counted, so each give needs its
 * returned. *out_fd: the segment's descriptor
 * to send if the process was never given it, else -1; borrowed. */
void stk_arena_give(struct stk_arena *arena, uint64_t slab_id, uint32_t process, int *out_fd);
/* The process reported completion of its work on the slab. Does not change what it has mapped. */
void stk_arena_returned(struct stk_arena *arena, uint64_t slab_id, uint32_t process);
/* The process was reaped: it holds and maps nothing any more. Quarantined slabs that waited for it are freed. */
void stk_arena_process_gone(struct stk_arena *arena, uint32_t process);
/* Does any process but `except` still hold the slab (given, not returned)? */
bool stk_arena_held(const struct stk_arena *arena, uint64_t slab_id, uint32_t except);

struct stk_arena_stats {
    uint64_t limit_bytes, reserve_bytes, committed_bytes, used_bytes, pinned_bytes, quarantined_bytes,
        peak_committed_bytes;
    uint32_t segments, slabs, quarantined;
};
void stk_arena_read_stats(const struct stk_arena *arena, struct stk_arena_stats *out);
/* Bytes in use and pinned by one lane. */
void stk_arena_lane_stats(const struct stk_arena *arena, uint32_t lane, uint64_t *out_used, uint64_t *out_pinned);
/* Walks quarantined slabs: start with *cursor = 0; false at the end. *out_process: one that still holds it. */
bool stk_arena_walk_quarantine(const struct stk_arena *arena, uint32_t *cursor, struct stk_slab *out_slab,
                               uint32_t *out_process);

#endif
