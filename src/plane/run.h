/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes inside the arena: size classes of segments, and runs of a segment that small slabs share (rule A2). A shared
 * segment has exactly 64 runs, so one word says which are taken: freed neighbours coalesce by themselves and nothing is
 * ever written into the payload. It is a 64th of the lane's max_bytes, within bounds: a segment counts as pinned while
 * one of its slabs is, so what shares one must be a small part of what there is.
 *
 * Pure: integers only.
 */
#ifndef STK_PLANE_RUN_H
#define STK_PLANE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define STK_RUNS 64u
/* Sizes above have no class: steps of a quarter would waste too much. Their segments end when idle. */
#define STK_CLASS_BYTES_MAX (UINT64_C(1) << 30)

/* The least class that holds `size` bytes (1...2^48): never falls with size. */
uint64_t stk_run_class_bytes(uint64_t size);
/* Of a segment that small slabs of a lane share: a power of two, never falls with max_bytes. */
uint64_t stk_run_shared_bytes(uint64_t max_bytes);
/* Does a slab share its segment? Those that are small against it do, so that a quarter at most is wasted on others. */
bool stk_run_is_shared(uint64_t size, uint64_t max_bytes);
/* The segment that a slab needs: a shared one's bytes, else its class. A size whose class does not fit max_bytes twice
 * takes whole pages of its own instead, so that rounding never refuses what would fit. */
uint64_t stk_run_segment_bytes(uint64_t size, uint64_t max_bytes);
/* The most that any slab of up to `size` bytes needs: what a lane must be able to have. Never falls with size. */
uint64_t stk_run_reserve_bytes(uint64_t size, uint64_t max_bytes);

/* Takes the first `count` (1...64) free neighbours of *taken; false if there are none. */
bool stk_run_take(uint64_t *taken, uint32_t count, uint32_t *out_first);
void stk_run_give(uint64_t *taken, uint32_t first, uint32_t count);

#endif
