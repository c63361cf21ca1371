/* SPDX-License-Identifier: Apache-2.0
 *
 * Size classes and runs: see run.h. The mask arithmetic asserts what it undoes, so that a run freed twice is a broken
 * invariant at once and not a corrupt batch later.
 */
#include "plane/run.h"

#include "base/assert.h"

_Static_assert(STK_RUNS == 64, "one word describes a shared segment");

#define SIZE_MAX_BYTES (UINT64_C(1) << 48)
#define UNCLASSED_STEP_BYTES (UINT64_C(2) << 20)

uint64_t stk_run_class_bytes(uint64_t size)
{
    STK_ASSERT(size > 0);
    STK_ASSERT(size <= SIZE_MAX_BYTES);
    if (size <= STK_SEGMENT_BYTES_MIN) return STK_SEGMENT_BYTES_MIN;
    if (size > STK_CLASS_BYTES_MAX) return stk_align_up(size, UNCLASSED_STEP_BYTES);
    uint64_t power = UINT64_C(1) << (63 - __builtin_clzll(size));
    return stk_align_up(size, power / 4);
}

uint64_t stk_run_segment_bytes(uint64_t size, uint64_t max_bytes)
{
    uint64_t bytes = stk_run_class_bytes(size);
    return bytes <= max_bytes / 2 ? bytes : stk_align_up(size, STK_PAGE_BYTES);
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
