/* SPDX-License-Identifier: Apache-2.0
 *
 * Size classes and runs: see run.h. The mask arithmetic asserts what it undoes, so that a run freed twice is a broken
 * invariant at once and not a corrupt batch later.
 */
#include "plane/run.h"

#include "base/assert.h"

_Static_assert(STK_SHARED_BYTES_MIN / STK_RUNS == STK_PAGE_BYTES, "runs are whole pages");

#define SIZE_MAX_BYTES (UINT64_C(1) << 48)
#define UNCLASSED_STEP_BYTES (UINT64_C(2) << 20)
#define SHARED_PART 64u /* a shared segment is at most this part of max_bytes */
#define SMALL_PART 8u   /* a slab up to this part of a shared segment is small */

uint64_t stk_run_class_bytes(uint64_t size)
{
    STK_ASSERT(size > 0);
    STK_ASSERT(size <= SIZE_MAX_BYTES);
    if (size > STK_CLASS_BYTES_MAX) return stk_align_up(size, UNCLASSED_STEP_BYTES);
    uint64_t power = UINT64_C(1) << (63 - __builtin_clzll(size));
    return stk_align_up(size, power / 4 > STK_PAGE_BYTES ? power / 4 : STK_PAGE_BYTES);
}

uint64_t stk_run_shared_bytes(uint64_t max_bytes)
{
    uint64_t part = max_bytes / SHARED_PART;
    if (part <= STK_SHARED_BYTES_MIN) return STK_SHARED_BYTES_MIN;
    if (part >= STK_SHARED_BYTES_MAX) return STK_SHARED_BYTES_MAX;
    return UINT64_C(1) << (63 - __builtin_clzll(part));
}

bool stk_run_is_shared(uint64_t size, uint64_t max_bytes)
{
    uint64_t bytes = stk_run_shared_bytes(max_bytes);
    return bytes <= max_bytes / 2 && size <= bytes / SMALL_PART;
}

uint64_t stk_run_segment_bytes(uint64_t size, uint64_t max_bytes)
{
    if (stk_run_is_shared(size, max_bytes)) return stk_run_shared_bytes(max_bytes);
    uint64_t bytes = stk_run_class_bytes(size);
    return bytes <= max_bytes / 2 ? bytes : stk_align_up(size, STK_PAGE_BYTES);
}

uint64_t stk_run_reserve_bytes(uint64_t size, uint64_t max_bytes)
{
    uint64_t own = stk_run_segment_bytes(size, max_bytes), shared = stk_run_segment_bytes(1, max_bytes);
    return own > shared ? own : shared;
}

static uint64_t mask_of(uint32_t first, uint32_t count)
{
    STK_ASSERT(count > 0);
    STK_ASSERT(first + count <= STK_RUNS);
    return (count == 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << first;
}

bool stk_run_take(uint64_t *taken, uint32_t count, uint32_t *out_first)
{
    STK_ASSERT(count > 0);
    STK_ASSERT(count <= STK_RUNS);
    uint64_t starts = ~*taken; /* bit i: the runs i...i+covered-1 are free */
    for (uint32_t covered = 1; covered < count && starts != 0;) {
        uint32_t step = count - covered < covered ? count - covered : covered;
        starts &= starts >> step;
        covered += step;
    }
    if (starts == 0) return false;
    uint32_t first = (uint32_t)__builtin_ctzll(starts);
    STK_ASSERT((*taken & mask_of(first, count)) == 0);
    *taken |= mask_of(first, count);
    *out_first = first;
    return true;
}

void stk_run_give(uint64_t *taken, uint32_t first, uint32_t count)
{
    STK_ASSERT((*taken & mask_of(first, count)) == mask_of(first, count));
    *taken &= ~mask_of(first, count);
}
