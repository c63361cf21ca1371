/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes inside the arena: size classes of segments, and runs of a segment that small slabs share (rule A2). A shared
 * segment has exactly 64 runs, so one word says which are taken: freed neighbours coalesce by themselves and nothing is
 * ever written into the payload.
 *
 * Pure: integers only.
 */
#ifndef STK_PLANE_RUN_H
#define STK_PLANE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define STK_RUNS (STK_SEGMENT_BYTES_MIN / STK_RUN_BYTES)
/* Sizes above have no class: steps of a quarter would waste too much. Their segments end when idle. */
#define STK_CLASS_BYTES_MAX (UINT64_C(1) << 30)

/* The segment that a slab of `size` bytes (1...2^48) needs: one shared segment's bytes for a small slab, else the least
 * class that holds it. Never falls with size. */
uint64_t stk_run_class_bytes(uint64_t size);
/* The same under a bound: a size whose class does not fit max_bytes twice takes whole pages of its own instead, so that
 * rounding never refuses what would fit. Never falls with size. */
uint64_t stk_run_segment_bytes(uint64_t size, uint64_t max_bytes);

/* Takes the first `count` (1...64) free neighbours of *taken; false if there are none. */
bool stk_run_take(uint64_t *taken, uint32_t count, uint32_t *out_first);
void stk_run_give(uint64_t *taken, uint32_t first, uint32_t count);

#endif
