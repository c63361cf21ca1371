/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory is credit: see credit.h for the law. Every change of a lane goes through settle(), which keeps the three sums
 * true, so that no function walks the lanes except the rare opening and closing.
 *
 * Figures come from options of users and from sizes of batches: they are bounded here (BYTES_MAX) so that no sum can
 * wrap.
 */
#include "sched/credit.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* 2^48 bytes in each of 1,024 lanes, twice, still fit in 64 bits with room; no machine has as much. */
#define BYTES_MAX (UINT64_C(1) << 48)

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What the lane needs at this moment: what it uses, or what its user keeps and one more batch. */
static uint64_t demand(const struct stk_credit_lane *lane) { return larger(lane->used, lane->pinned + lane->largest); }

static uint64_t charge(const struct stk_credit_lane *lane)
{
    uint64_t needed = demand(lane);
    return needed > lane->reserve ? needed - lane->reserve : 0;
}

/* Bytes that all lanes together may draw above their reserves. */
static uint64_t shared(const struct stk_credit *credit)
{
    uint64_t taken = credit->reserved + credit->orphaned;
    return credit->limit > taken ? credit->limit - taken : 0;
}

static struct stk_credit_lane *open_lane(struct stk_credit *credit, uint32_t lane)
{
    STK_ASSERT(lane < STK_LANES_MAX);
    STK_ASSERT(credit->lanes[lane].open);
    return &credit->lanes[lane];
}

/* Replaces the lane by its changed copy. */
static void settle(struct stk_credit *credit, uint32_t lane, const struct stk_credit_lane *changed)
{
    struct stk_credit_lane *old = &credit->lanes[lane];
    STK_ASSERT(credit->charged >= charge(old));
    STK_ASSERT(credit->reserved >= old->reserve);
    credit->charged = credit->charged - charge(old) + charge(changed);
    credit->reserved = credit->reserved - old->reserve + changed->reserve;
    *old = *changed;
}

/* May the lane become `changed` (same reserve)? Always if it draws no more on the shared part than before. */
static bool affordable(const struct stk_credit *credit, uint32_t lane, const struct stk_credit_lane *changed)
{
    const struct stk_credit_lane *old = &credit->lanes[lane];
    uint64_t before = charge(old), after = charge(changed);
    if (after <= before) return true;
    if (demand(changed) > changed->max_bytes) return false;
    return credit->charged - before + after <= shared(credit);
}

void stk_credit_init(struct stk_credit *credit) { memset(credit, 0, sizeof *credit); }

stoker_status stk_credit_lane_open(struct stk_credit *credit, uint32_t lane, uint64_t largest, uint64_t max_bytes,
                                   stoker_error *err)
{
    STK_ASSERT(lane < STK_LANES_MAX);
    STK_ASSERT(!credit->lanes[lane].open);
    if (max_bytes > BYTES_MAX) max_bytes = BYTES_MAX;
    if (largest > BYTES_MAX) largest = BYTES_MAX;
    if (2 * largest > max_bytes)
        return stk_fail(
            err, STOKER_ERR_LIMIT,
            "two of the largest batches need %llu bytes of shared memory, max_bytes is %llu: raise max_bytes or make "
            "batches smaller",
            (unsigned long long)(2 * largest), (unsigned long long)max_bytes);
    uint64_t limit = larger(credit->limit, max_bytes);
    if (credit->reserved + 2 * largest > limit)
        return stk_fail(
            err, STOKER_ERR_LIMIT,
            "two of the largest batches of each loader and rank need %llu bytes of shared memory, max_bytes is %llu: "
            "raise max_bytes, make batches smaller or close other loaders",
            (unsigned long long)(credit->reserved + 2 * largest), (unsigned long long)limit);
    credit->limit = limit;
    settle(credit, lane,
           &(struct stk_credit_lane){.open = true, .reserve = 2 * largest, .largest = largest, .max_bytes = max_bytes});
    return STOKER_OK;
}

void stk_credit_lane_close(struct stk_credit *credit, uint32_t lane)
{
    struct stk_credit_lane *closing = open_lane(credit, lane);
    STK_ASSERT(closing->used == 0);
    STK_ASSERT(closing->pinned == 0);
    settle(credit, lane, &(struct stk_credit_lane){0});
    uint64_t limit = 0;
    for (uint32_t i = 0; i < STK_LANES_MAX; i++)
        if (credit->lanes[i].open) limit = larger(limit, credit->lanes[i].max_bytes);
    credit->limit = larger(limit, credit->reserved);
}

stoker_status stk_credit_lane_grow(struct stk_credit *credit, uint32_t lane, uint64_t largest, stoker_error *err)
{
    struct stk_credit_lane changed = *open_lane(credit, lane);
    if (largest <= changed.largest) return STOKER_OK;
    if (largest > changed.max_bytes)
        return stk_fail(
            err, STOKER_ERR_LIMIT,
            "a batch needs %llu bytes of shared memory, max_bytes is %llu: raise max_bytes or make batches smaller",
            (unsigned long long)largest, (unsigned long long)changed.max_bytes);
    uint64_t others = credit->reserved - changed.reserve;
    if (others + largest > credit->limit)
        return stk_fail(
            err, STOKER_ERR_LIMIT,
            "a batch needs %llu bytes of shared memory, but other loaders and ranks reserve %llu of the %llu bytes of "
            "max_bytes: raise max_bytes or make batches smaller",
            (unsigned long long)largest, (unsigned long long)others, (unsigned long long)credit->limit);
    changed.largest = largest;
    bool two_fit = 2 * largest <= changed.max_bytes && others + 2 * largest <= credit->limit;
    changed.reserve = larger(changed.reserve, two_fit ? 2 * largest : largest);
    settle(credit, lane, &changed);
    return STOKER_OK;
}

bool stk_credit_take(struct stk_credit *credit, uint32_t lane, uint64_t bytes)
{
    struct stk_credit_lane changed = *open_lane(credit, lane);
    if (bytes > BYTES_MAX) return false;
    changed.used += bytes;
    if (!affordable(credit, lane, &changed)) return false;
    settle(credit, lane, &changed);
    return true;
}

void stk_credit_force(struct stk_credit *credit, uint32_t lane, uint64_t bytes)
{
    struct stk_credit_lane changed = *open_lane(credit, lane);
    STK_ASSERT(bytes <= BYTES_MAX);
    changed.used += bytes;
    settle(credit, lane, &changed);
}

void stk_credit_give(struct stk_credit *credit, uint32_t lane, uint64_t bytes)
{
    struct stk_credit_lane changed = *open_lane(credit, lane);
    STK_ASSERT(changed.used >= bytes);
    changed.used -= bytes;
    STK_ASSERT(changed.pinned <= changed.used);
    settle(credit, lane, &changed);
}

bool stk_credit_pin(struct stk_credit *credit, uint32_t lane, uint64_t bytes)
{
    struct stk_credit_lane changed = *open_lane(credit, lane);
    STK_ASSERT(bytes <= changed.used - changed.pinned);
    changed.pinned += bytes;
    if (!affordable(credit, lane, &changed)) return false;
    settle(credit, lane, &changed);
    return true;
}

void stk_credit_unpin(struct stk_credit *credit, uint32_t lane, uint64_t bytes)
{
    struct stk_credit_lane changed = *open_lane(credit, lane);
    STK_ASSERT(changed.pinned >= bytes);
    changed.pinned -= bytes;
    settle(credit, lane, &changed);
}

void stk_credit_orphan(struct stk_credit *credit, uint32_t lane, uint64_t bytes)
{
    stk_credit_give(credit, lane, bytes);
    credit->orphaned += bytes;
}

void stk_credit_orphan_give(struct stk_credit *credit, uint64_t bytes)
{
    STK_ASSERT(credit->orphaned >= bytes);
    credit->orphaned -= bytes;
}
