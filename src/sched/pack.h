/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the schedulers of packing (include/stoker/pack.h): memory that the caller lends, checks, sorting.
 *
 *     pack.c         checks; the choice of the scheduler; sorting
 *     pack_dp.c      DP-balanced          \
 *     pack_hybrid.c  balanced CP           } schedules
 *     pack_fit.c     best fit; pack_room.c its index of packs by room
 *     pack_route.c   who sends what to whom
 *     pack_layout.c  arrays of packed sequences
 *
 * Pure: lengths in, ids out; integers decide, but where Megatron-LM compares doubles; ties go to the lower id.
 */
#ifndef STK_SCHED_PACK_H
#define STK_SCHED_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/pack.h>

#include "base/limits.h"

/* A block that is cut from the front. With base NULL nothing is handed out and only `used` grows: the function that
 * cuts a block also measures it, so the two cannot differ. */
struct stk_pack_memory {
    unsigned char *base;
    size_t used;
};
void *stk_pack_take(struct stk_pack_memory *memory, size_t count, size_t item_bytes);

/* What every scheduler gets: checked lengths (1 <= count <= STK_PACK_SAMPLES_MAX, none 0, sum <= STK_PACK_TOKENS_MAX)
 * and options with every default filled in. */
struct stk_pack_job {
    const uint32_t *lengths;
    uint32_t count;
    stoker_pack_options options;
};

/* Tokens that one micro-batch of one data-parallel rank may hold, and the packs that make up whole micro-batches. */
uint64_t stk_pack_budget(const struct stk_pack_job *job);
uint64_t stk_pack_multiple(const struct stk_pack_job *job);

/* Ids by falling key, equal keys by rising id. `scratch` has `count` entries too. */
void stk_pack_sort(const uint64_t *keys, uint32_t count, uint32_t *out_order, uint32_t *scratch);

/* ---- DP-balanced: each pack is a range of neighbouring samples ---- */

struct stk_pack_range {
    uint32_t first, count;
};

/* Fills packs in order, before the number of packs is made a multiple. At most count + 1 packs; the first is empty if
 * the first sample is over the budget. */
uint32_t stk_pack_fill_in_order(const struct stk_pack_job *job, struct stk_pack_range *out_packs);
/* Makes the number of packs a multiple; false if that needs samples that are not there. At most count + 1 packs. */
bool stk_pack_split_last(const struct stk_pack_job *job, struct stk_pack_range *packs, uint32_t *pack_count);
/* "Not enough samples to move", with figures. */
stoker_status stk_pack_too_few(const struct stk_pack_job *job, uint64_t packs, stoker_error *err);

/* ---- the schedulers: with memory->base NULL they only measure (job->count and nothing else is read) ---- */

stoker_status stk_pack_dp_make(const struct stk_pack_job *job, struct stk_pack_memory *memory,
                               stoker_pack_schedule *out_schedule, stoker_error *err);
stoker_status stk_pack_hybrid_make(const struct stk_pack_job *job, struct stk_pack_memory *memory,
                                   stoker_pack_schedule *out_schedule, stoker_error *err);
stoker_status stk_pack_fit_make(const struct stk_pack_job *job, struct stk_pack_memory *memory,
                                stoker_pack_schedule *out_schedule, stoker_error *err);

#endif
