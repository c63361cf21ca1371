/* SPDX-License-Identifier: Apache-2.0
 *
 * Megatron-LM's DP-balanced packing (its "dp_balanced" scheduler): samples are taken in order, so each pack is a range.
 *
 * Kept as it is there: a first sample that is over the budget leaves an empty pack before it, and packs are split from
 * the end, the moved samples becoming packs of their own, without looking at balance.
 */
#include "sched/pack.h"

#include "base/assert.h"
#include "base/error.h"

uint32_t stk_pack_fill_in_order(const struct stk_pack_job *job, struct stk_pack_range *out_packs)
{
    uint64_t budget = stk_pack_budget(job), tokens = 0;
    uint32_t packs = 0, first = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        if (tokens + job->lengths[i] > budget) {
            out_packs[packs++] = (struct stk_pack_range){.first = first, .count = i - first};
            first = i;
            tokens = 0;
        }
        tokens += job->lengths[i];
    }
    if (first < job->count) out_packs[packs++] = (struct stk_pack_range){.first = first, .count = job->count - first};
    return packs;
}

bool stk_pack_split_last(const struct stk_pack_job *job, struct stk_pack_range *packs, uint32_t *pack_count)
{
    uint64_t multiple = stk_pack_multiple(job), rest = *pack_count % multiple;
    uint64_t need = rest == 0 ? 0 : multiple - rest;
    uint32_t at = *pack_count == 0 ? 0 : *pack_count - 1;
    while (need > 0) {
        if (at == 0) return false; /* the first pack is never split, even if it could be */
        if (packs[at].count > 1) {
            packs[at].count--;
            packs[(*pack_count)++] = (struct stk_pack_range){.first = packs[at].first + packs[at].count, .count = 1};
            need--;
        } else {
            at--;
        }
    }
    return true;
}

stoker_status stk_pack_too_few(const struct stk_pack_job *job, uint64_t packs, stoker_error *err)
{
    return stk_fail(
        err, STOKER_ERR_INVALID_ARGUMENT,
        "Not enough samples to move: %u samples fill %llu packs of %llu tokens, the number of packs must be "
        "a multiple of %llu (%u data-parallel ranks, groups of %u micro-batches)",
        job->count, (unsigned long long)packs, (unsigned long long)stk_pack_budget(job),
        (unsigned long long)stk_pack_multiple(job), job->options.data_ranks, job->options.stage_group);
}

stoker_status stk_pack_dp_make(const struct stk_pack_job *job, struct stk_pack_memory *memory,
                               stoker_pack_schedule *out_schedule, stoker_error *err)
{
    struct stk_pack_range *packs = stk_pack_take(memory, (size_t)job->count + 1, sizeof *packs);
    stoker_pack_span *spans = stk_pack_take(memory, (size_t)job->count + 1, sizeof *spans);
    uint32_t *samples = stk_pack_take(memory, job->count, sizeof *samples);
    if (!memory->base) return STOKER_OK;

    uint32_t pack_count = stk_pack_fill_in_order(job, packs), before = pack_count;
    if (!stk_pack_split_last(job, packs, &pack_count)) return stk_pack_too_few(job, before, err);
    uint32_t data = job->options.data_ranks, context = job->options.context_ranks;
    STK_ASSERT(pack_count % data == 0);
    for (uint32_t i = 0; i < pack_count; i++)
        spans[i] = (stoker_pack_span){.microbatch = i / data,
                                      .first_rank = i % data * context,
                                      .ranks = context,
                                      .first = packs[i].first,
                                      .count = packs[i].count};
    for (uint32_t i = 0; i < job->count; i++) samples[i] = i;
    *out_schedule = (stoker_pack_schedule){.microbatches = pack_count / data,
                                           .ranks = data * context,
                                           .spans = spans,
                                           .span_count = pack_count,
                                           .samples = samples,
                                           .sample_count = job->count};
    return STOKER_OK;
}
