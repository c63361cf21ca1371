/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of blend.c share: entries (datasets of equal weight), which of them are awake, and the ways to go on
 * from one position to the next. blend_calendar.c tells why most entries may sleep.
 */
#ifndef STK_INDEX_BLEND_INTERNAL_H
#define STK_INDEX_BLEND_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/blend.h"

enum {
    STK_BLEND_NONE = 0xFFFF, /* no entry: 32,766 datasets are the most */
    STK_BLEND_LANES = 64,    /* arrays that vectors run over are filled up by as many */
    STK_BLEND_BATCH = 8      /* steps, a power of two: then the awake are gathered anew */
};

/* A double counts steps and samples exactly up to here. */
#define STK_BLEND_STEP_MAX 4503599627370496.0

/* Datasets with equal weights are one entry, because among them the next is always the first of those that were taken
 * least. Of the size of a cache line: one is touched for each position. */
struct stk_blend_entry {
    double weight;
    double taken;           /* rounds through the members; infinity: the entry has left */
    double limit;           /* rounds after which it leaves */
    double inverse;         /* about 1 / weight */
    uint64_t wake;          /* while asleep: before this step its error is below the threshold */
    const uint16_t *member; /* numbers of the datasets, ascending */
    uint32_t count, at;     /* members, and those of them that had their turn in this round */
    uint32_t next;          /* in a list of the calendar */
    uint32_t unused;
};

struct stk_blend {
    uint32_t datasets, count;
    uint64_t size; /* picks */
    struct stk_blend_entry *entry;
    uint16_t *member;
    /* Calendar of the entries that sleep: a ring of lists. */
    uint32_t buckets; /* power of two */
    uint16_t *head;
    /* Slots of the entries that are awake, in no order; from `awake` on filled up with what is never picked: weight 0,
     * taken infinity. */
    uint32_t awake, freed;
    double *slot_weight, *slot_taken;
    uint16_t *slot_entry; /* STK_BLEND_NONE: freed after this batch */
    uint16_t *free_slot;
    uint16_t picked[STK_BLEND_BATCH]; /* slots, by the low bits of the position */
    double threshold, lowest;         /* lowest: of the largest errors lately */
};

/* Picks positions from ... end - 1 among the awake, of which there are some; returns the first for which their
 * largest error is below the threshold, or end. */
typedef uint64_t stk_blend_steps_fn(struct stk_blend *blend, uint64_t from, uint64_t end, int16_t *out_dataset,
                                    int64_t *out_sample);
struct stk_blend_ways {
    stk_blend_steps_fn *steps;
    uint32_t stay_max; /* entries up to which none sleeps */
};
extern const struct stk_blend_ways stk_blend_scalar, stk_blend_wide;
bool stk_blend_is_wide(void);

/* Each way for itself, for tests. */
void stk_blend_sized_with(const struct stk_blend_ways *ways, const double *weights, uint32_t datasets, uint64_t size,
                          int16_t *out_dataset, int64_t *out_sample, void *scratch);
void stk_blend_exhaustive_with(const struct stk_blend_ways *ways, const uint64_t *sizes, uint32_t datasets,
                               int16_t *out_dataset, int64_t *out_sample, void *scratch);
/* The rule as it stands, for weights that the others do not take (0, below 0, beyond 2^52 with the size). */
void stk_blend_plain(const double *weights, uint32_t datasets, uint64_t size, int16_t *out_dataset, int64_t *out_sample,
                     void *scratch);
/* All picks of prepared entries. */
void stk_blend_run(struct stk_blend *blend, const struct stk_blend_ways *ways, int16_t *out_dataset,
                   int64_t *out_sample);

static inline uint16_t stk_blend_member(const struct stk_blend *blend, uint32_t number)
{
    return blend->entry[number].member[blend->entry[number].at];
}

static inline double stk_blend_x(uint64_t position) { return position == 0 ? 1.0 : (double)position; }

/* Takes a sample of the entry; true if this ends a round, so that its error has changed. */
static inline bool stk_blend_take(struct stk_blend_entry *entry, uint64_t position, int16_t *out_dataset,
                                  int64_t *out_sample)
{
    double taken = entry->taken;
    uint32_t at = entry->at;
    out_dataset[position] = (int16_t)entry->member[at];
    out_sample[position] = (int64_t)taken;
    if (at + 1 < entry->count) {
        entry->at = at + 1;
        return false;
    }
    entry->at = 0;
    taken += 1.0;
    entry->taken = taken == entry->limit ? __builtin_inf() : taken;
    return true;
}

/* Of the slots at set bits, which begin at `slot`, the one whose dataset has the lowest number. */
static inline uint32_t stk_blend_lowest(const struct stk_blend *blend, uint32_t slot, uint64_t bits)
{
    uint32_t best = (uint32_t)__builtin_ctzll(bits), lowest = UINT32_MAX;
    if ((bits & (bits - 1)) == 0) return slot + best;
    for (; bits != 0; bits &= bits - 1) {
        uint32_t bit = (uint32_t)__builtin_ctzll(bits), member = stk_blend_member(blend, blend->slot_entry[slot + bit]);
        if (member > lowest) continue;
        lowest = member;
        best = bit;
    }
    return slot + best;
}

#endif
