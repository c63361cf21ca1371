/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry to the packing schedulers: checks what came from outside once, fills in defaults, measures and cuts the
 * caller's memory, and hands on to the scheduler. See pack.h for the files.
 */
#include "sched/pack.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

void *stk_pack_take(struct stk_pack_memory *memory, size_t count, size_t item_bytes)
{
    /* Counts are bounded by STK_PACK_SAMPLES_MAX and STK_PACK_RANKS_MAX: no product wraps. */
    size_t bytes = (size_t)stk_align_up((uint64_t)count * item_bytes, 16);
    void *result = memory->base ? memory->base + memory->used : NULL;
    memory->used += bytes;
    return result;
}

uint64_t stk_pack_budget(const struct stk_pack_job *job)
{
    return (uint64_t)job->options.tokens_per_rank * job->options.context_ranks;
}

uint64_t stk_pack_multiple(const struct stk_pack_job *job)
{
    return (uint64_t)job->options.data_ranks * job->options.stage_group;
}

/* Merges the runs [first, middle) and [middle, end) of `from` into `to`. */
static void merge(const uint64_t *keys, const uint32_t *from, uint32_t *to, const uint32_t bounds[3])
{
    uint32_t left = bounds[0], right = bounds[1];
    for (uint32_t i = bounds[0]; i < bounds[2]; i++) {
        bool take_left = right == bounds[2] || (left < bounds[1] && keys[from[left]] >= keys[from[right]]);
        to[i] = from[take_left ? left++ : right++];
    }
}

void stk_pack_sort(const uint64_t *keys, uint32_t count, uint32_t *out_order, uint32_t *scratch)
{
    uint32_t *from = out_order, *to = scratch;
    for (uint32_t i = 0; i < count; i++) from[i] = i;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t first = 0; first < count; first += 2 * width) {
            uint32_t middle = first + width < count ? first + width : count;
            uint32_t end = first + 2 * width < count ? first + 2 * width : count;
            merge(keys, from, to, (const uint32_t[3]){first, middle, end});
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != out_order) memcpy(out_order, from, (size_t)count * sizeof *out_order);
}

stoker_status stoker_pack_sum(const uint32_t *lengths, size_t count, stoker_pack_statistics *out_sums,
                              stoker_error *err)
{
    stoker_pack_statistics sums = {0};
    for (size_t i = 0; i < count; i++) {
        sums.tokens += lengths[i];
        if (sums.tokens > STK_PACK_TOKENS_MAX)
            return stk_fail(err, STOKER_ERR_LIMIT, "samples 0 to %zu have %llu tokens, at most %llu fit in int32", i,
                            (unsigned long long)sums.tokens, (unsigned long long)STK_PACK_TOKENS_MAX);
        sums.squares += (uint64_t)lengths[i] * lengths[i];
    }
    *out_sums = sums;
    return STOKER_OK;
}

static stoker_status check_lengths(const uint32_t *lengths, size_t count, stoker_error *err)
{
    if (count > STK_PACK_SAMPLES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%zu samples, a schedule has at most %u", count, STK_PACK_SAMPLES_MAX);
    for (size_t i = 0; i < count; i++)
        if (lengths[i] == 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %zu has no token: leave it out", i);
    stoker_pack_statistics sums;
    return stoker_pack_sum(lengths, count, &sums, err);
}

/* A smaller struct of an older caller ends in zeros, which mean the defaults; a larger one must too. */
static stoker_status read_options(const stoker_pack_options *options, stoker_pack_options *out, stoker_error *err)
{
    *out = (stoker_pack_options){0};
    size_t size = options->struct_size;
    for (size_t i = sizeof *out; i < size; i++)
        if (((const unsigned char *)options)[i] != 0)
            return stk_fail(err, STOKER_ERR_UNSUPPORTED, "pack options of %zu bytes, this version knows %zu", size,
                            sizeof *out);
    memcpy(out, options, size < sizeof *out ? size : sizeof *out);
    if (out->data_ranks == 0) out->data_ranks = 1;
    if (out->context_ranks == 0) out->context_ranks = 1;
    if (out->stage_group == 0) out->stage_group = 1;
    if (out->tokens_per_rank == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "tokens per rank is 0, expected 1 or more");
    uint64_t ranks = (uint64_t)out->data_ranks * out->context_ranks;
    if (ranks > STK_PACK_RANKS_MAX || (uint64_t)out->data_ranks * out->stage_group > STK_PACK_SAMPLES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT,
                        "%u data-parallel * %u context-parallel ranks in groups of %u micro-batches: at most %u ranks "
                        "and %u packs in a group",
                        out->data_ranks, out->context_ranks, out->stage_group, STK_PACK_RANKS_MAX,
                        STK_PACK_SAMPLES_MAX);
    return STOKER_OK;
}

static stoker_status make(stoker_pack_kind kind, const struct stk_pack_job *job, struct stk_pack_memory *memory,
                          stoker_pack_schedule *out_schedule, stoker_error *err)
{
    switch (kind) {
    case STOKER_PACK_DP_BALANCED: return stk_pack_dp_make(job, memory, out_schedule, err);
    case STOKER_PACK_BALANCED_CP: return stk_pack_hybrid_make(job, memory, out_schedule, err);
    case STOKER_PACK_BEST_FIT: return stk_pack_fit_make(job, memory, out_schedule, err);
    }
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%d is no kind of schedule", (int)kind);
}

size_t stoker_pack_schedule_bytes(stoker_pack_kind kind, size_t count)
{
    if (count > STK_PACK_SAMPLES_MAX) return 0;
    struct stk_pack_job job = {.count = (uint32_t)count};
    struct stk_pack_memory memory = {0};
    if (make(kind, &job, &memory, NULL, NULL) < 0) return 0;
    return memory.used + 16; /* never 0 */
}

stoker_status stoker_pack_schedule_make(stoker_pack_kind kind, const uint32_t *lengths, size_t count,
                                        const stoker_pack_options *options, void *memory, size_t size,
                                        stoker_pack_schedule *out_schedule, stoker_error *err)
{
    struct stk_pack_job job = {.lengths = lengths};
    STK_TRY(read_options(options, &job.options, err));
    STK_TRY(check_lengths(lengths, count, err));
    job.count = (uint32_t)count;
    size_t needed = stoker_pack_schedule_bytes(kind, count);
    if (size < needed || ((uintptr_t)memory & 15) != 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "the memory of a schedule has %zu bytes at %p, expected %zu at a multiple of 16", size, memory,
                        needed);
    if (count == 0) {
        *out_schedule = (stoker_pack_schedule){.ranks = job.options.data_ranks * job.options.context_ranks};
        return STOKER_OK;
    }
    struct stk_pack_memory block = {.base = memory};
    STK_TRY(make(kind, &job, &block, out_schedule, err));
    STK_ASSERT(block.used <= size);
    STK_ASSERT(out_schedule->sample_count == count);
    return STOKER_OK;
}
