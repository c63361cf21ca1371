/* SPDX-License-Identifier: Apache-2.0
 *
 * Megatron-LM's balanced context parallelism: a long sample is shared by a power of two of ranks, and micro-batches are
 * formed one after the other so that all ranks of one are about equally loaded.
 *
 * One micro-batch: cut what is left into buckets of equal work, place heads of buckets on groups of ranks until the
 * loads are level, take back what overloads the worst group, then widen small groups over ranks that stayed empty.
 * Groups are made from the lowest free ranks and never given up, so they cover a prefix of the ranks in order of their
 * making: a group is known by its size alone.
 *
 * Doubles, compared as they are there: loads decide, and a load is L * L divided by a power of two. Everything else is
 * integers. Leftovers are not sorted again; that too is kept.
 */
#include "sched/pack.h"

#include "base/assert.h"
#include "base/error.h"

#define SLACK 0.05        /* loads within 5 % of the largest are level */
#define BUCKET_EXCESS 1.1 /* a bucket is closed above 110 % of its share */
#define SIZES 32          /* powers of two that a uint32_t holds */
#define NONE UINT32_MAX

struct group {
    double load; /* of each member */
    uint32_t size;
    uint32_t last, count; /* newest of its samples, and how many there are */
};

struct hybrid {
    const struct stk_pack_job *job;
    uint32_t ranks;
    /* what is left, in order, and the buckets in it: bucket b is [cursors[b], ends[b]) */
    uint32_t *left, *after;
    uint32_t left_count, after_count;
    uint32_t *ends, *cursors;
    uint32_t bucket_count, lead; /* buckets before `lead` are empty */
    /* the micro-batch that is being made */
    struct group *groups;
    uint32_t group_count, ranks_used;
    uint32_t groups_of[SIZES]; /* by log2 of the size */
    uint32_t *before;          /* the sample that its group got before */
    /* what was made */
    stoker_pack_span *spans;
    size_t span_count;
    uint32_t *samples;
    uint32_t sample_count;
};

uint32_t stoker_pack_ranks_needed(uint32_t length, uint32_t tokens_per_rank)
{
    uint64_t ranks = 1;
    if (tokens_per_rank == 0) return 0;
    while (ranks * tokens_per_rank < length) ranks *= 2;
    return ranks > UINT32_MAX ? 0 : (uint32_t)ranks;
}

static uint32_t log2_of(uint32_t power)
{
    uint32_t result = 0;
    while (power >>= 1) result++;
    return result;
}

static double work(uint32_t length, uint32_t tokens_per_rank)
{
    return (double)((uint64_t)length * length) / stoker_pack_ranks_needed(length, tokens_per_rank);
}

/* Ends of the buckets of lengths[order[0 ... count - 1]] (order NULL: in place); their number is returned. */
static uint32_t cut_buckets(const uint32_t *lengths, const uint32_t *order, uint32_t count, uint32_t tokens_per_rank,
                            uint32_t *out_ends)
{
    bool seen[SIZES] = {false};
    int64_t remaining = 0; /* buckets that are still expected; goes below zero */
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length = lengths[order ? order[i] : i];
        uint32_t size = log2_of(stoker_pack_ranks_needed(length, tokens_per_rank));
        remaining += !seen[size];
        seen[size] = true;
        total += work(length, tokens_per_rank);
    }
    double limit = total / (double)remaining * BUCKET_EXCESS, current = 0.0;
    uint32_t buckets = 0, first = 0;
    for (uint32_t i = 0; i < count; i++) {
        double more = work(lengths[order ? order[i] : i], tokens_per_rank);
        if (i > first && (current + more > limit || (int64_t)count - i <= remaining - buckets)) {
            out_ends[buckets++] = i;
            first = i;
            current = 0.0;
            remaining--;
        }
        current += more;
    }
    if (first < count) out_ends[buckets++] = count;
    return buckets;
}

stoker_status stoker_pack_buckets(const uint32_t *lengths, size_t count, uint32_t tokens_per_rank, uint32_t *out_ends,
                                  size_t *out_count, stoker_error *err)
{
    if (tokens_per_rank == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "tokens per rank is 0, expected 1 or more");
    if (count > STK_PACK_SAMPLES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%zu samples, at most %u", count, STK_PACK_SAMPLES_MAX);
    for (size_t i = 0; i < count; i++)
        if (lengths[i] == 0 || lengths[i] > STK_PACK_TOKENS_MAX)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %zu has %u tokens, expected 1 to %llu", i,
                            lengths[i], (unsigned long long)STK_PACK_TOKENS_MAX);
    *out_count = cut_buckets(lengths, NULL, (uint32_t)count, tokens_per_rank, out_ends);
    return STOKER_OK;
}

/* Largest and least load of any rank; group `less` (NONE: none) counts as lighter by `by`. */
static double load_max(const struct hybrid *h, uint32_t less, double by)
{
    double result = h->ranks_used < h->ranks ? 0.0 : -1.0;
    for (uint32_t g = 0; g < h->group_count; g++) {
        double load = g == less ? h->groups[g].load - by : h->groups[g].load;
        if (load > result) result = load;
    }
    return result;
}

static double load_min(const struct hybrid *h, uint32_t less, double by)
{
    if (h->ranks_used < h->ranks) return 0.0;
    double result = -1.0;
    for (uint32_t g = 0; g < h->group_count; g++) {
        double load = g == less ? h->groups[g].load - by : h->groups[g].load;
        if (result < 0.0 || load < result) result = load;
    }
    return result;
}

static uint32_t needed(const struct hybrid *h, uint32_t sample)
{
    return stoker_pack_ranks_needed(h->job->lengths[sample], h->job->options.tokens_per_rank);
}

static double work_of(const struct hybrid *h, uint32_t sample)
{
    return work(h->job->lengths[sample], h->job->options.tokens_per_rank);
}

/* The first bucket whose head could be placed now; NONE if there is none. */
static uint32_t placeable(const struct hybrid *h)
{
    for (uint32_t b = h->lead; b < h->bucket_count; b++) {
        if (h->cursors[b] == h->ends[b]) continue;
        uint32_t size = needed(h, h->left[h->cursors[b]]);
        if (h->groups_of[log2_of(size)] > 0 || h->ranks - h->ranks_used >= size) return b;
    }
    return NONE;
}

/* Puts a sample on the least-loaded group of its size, or on a new one if ranks are free and that is lighter. */
static void place(struct hybrid *h, uint32_t sample)
{
    uint32_t size = needed(h, sample);
    struct group *best = NULL;
    for (struct group *g = h->groups; g < h->groups + h->group_count; g++)
        if (g->size == size && (!best || g->load < best->load)) best = g;
    if (h->ranks - h->ranks_used >= size && (!best || best->load > 0.0)) {
        best = &h->groups[h->group_count++];
        *best = (struct group){.size = size, .last = NONE};
        h->groups_of[log2_of(size)]++;
        h->ranks_used += size;
    }
    STK_ASSERT(best);
    h->before[sample] = best->last;
    best->last = sample;
    best->count++;
    best->load += work_of(h, sample);
}

static void fill(struct hybrid *h)
{
    uint32_t first_size = 0, bucket;
    bool check = false;
    while (h->lead < h->bucket_count && (bucket = placeable(h)) != NONE) {
        uint32_t sample = h->left[h->cursors[bucket]++], size = needed(h, sample);
        if (first_size == 0) first_size = size;
        place(h, sample);
        while (h->lead < h->bucket_count && h->cursors[h->lead] == h->ends[h->lead]) h->lead++;
        check |= size < first_size;
        if (!check || h->lead == h->bucket_count) continue;
        double most = load_max(h, NONE, 0.0);
        if (most - load_min(h, NONE, 0.0) <= SLACK * most) return;
    }
}

/* Takes the newest sample of the first of the most loaded groups back as long as that levels the loads. */
static void trim(struct hybrid *h)
{
    for (;;) {
        double most = load_max(h, NONE, 0.0), least = load_min(h, NONE, 0.0);
        if (most - least <= SLACK * most || least == 0.0) return;
        uint32_t at = 0;
        while (h->groups[at].load < most) at++;
        struct group *worst = &h->groups[at];
        if (worst->count <= 1) return;
        uint32_t sample = worst->last;
        double by = work_of(h, sample);
        if (!(load_max(h, at, by) - load_min(h, at, by) < most - least)) return;
        worst->last = h->before[sample];
        worst->count--;
        worst->load -= by;
        h->after[h->after_count++] = sample;
    }
}

/* Widens the first of the smallest groups until no rank is empty; those after it move to the right. Loads are not read
 * again in this micro-batch. */
static stoker_status widen(struct hybrid *h, stoker_error *err)
{
    while (h->ranks_used < h->ranks) {
        struct group *smallest = NULL;
        for (struct group *g = h->groups; g < h->groups + h->group_count; g++)
            if (!smallest || g->size < smallest->size) smallest = g;
        if (!smallest)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "sample %u has %u tokens and needs %u ranks of %u tokens, there are %u ranks: raise the "
                            "tokens per rank or leave it out",
                            h->left[0], h->job->lengths[h->left[0]], needed(h, h->left[0]),
                            h->job->options.tokens_per_rank, h->ranks);
        uint32_t size = smallest->size > h->ranks / 2 ? h->ranks : 2 * smallest->size;
        if (size - smallest->size > h->ranks - h->ranks_used)
            return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                            "%u ranks stay without a sample, and the smallest group of %u would need %u more: balanced "
                            "context parallelism ends on a power of two of ranks, there are %u",
                            h->ranks - h->ranks_used, smallest->size, size - smallest->size, h->ranks);
        h->ranks_used += size - smallest->size;
        smallest->size = size;
    }
    return STOKER_OK;
}

static void emit(struct hybrid *h, uint32_t microbatch)
{
    uint32_t rank = 0;
    for (const struct group *g = h->groups; g < h->groups + h->group_count; g++) {
        h->spans[h->span_count++] = (stoker_pack_span){.microbatch = microbatch,
                                                       .first_rank = rank,
                                                       .ranks = g->size,
                                                       .first = h->sample_count,
                                                       .count = g->count};
        rank += g->size;
        h->sample_count += g->count;
        uint32_t at = h->sample_count;
        for (uint32_t sample = g->last; sample != NONE; sample = h->before[sample]) h->samples[--at] = sample;
    }
    STK_ASSERT(rank == h->ranks);
}

static stoker_status make_microbatch(struct hybrid *h, uint32_t microbatch, stoker_error *err)
{
    h->bucket_count = cut_buckets(h->job->lengths, h->left, h->left_count, h->job->options.tokens_per_rank, h->ends);
    for (uint32_t b = 0; b < h->bucket_count; b++) h->cursors[b] = b == 0 ? 0 : h->ends[b - 1];
    h->lead = h->group_count = h->ranks_used = h->after_count = 0;
    for (uint32_t i = 0; i < SIZES; i++) h->groups_of[i] = 0;
    fill(h);
    for (uint32_t b = h->lead; b < h->bucket_count; b++)
        for (uint32_t i = h->cursors[b]; i < h->ends[b]; i++) h->after[h->after_count++] = h->left[i];
    trim(h);
    STK_TRY(widen(h, err));
    emit(h, microbatch);
    STK_ASSERT(h->after_count < h->left_count);
    uint32_t *swap = h->left;
    h->left = h->after;
    h->left_count = h->after_count;
    h->after = swap;
    return STOKER_OK;
}

stoker_status stk_pack_hybrid_make(const struct stk_pack_job *job, struct stk_pack_memory *memory,
                                   stoker_pack_schedule *out_schedule, stoker_error *err)
{
    size_t count = job->count;
    struct hybrid h = {.job = job, .left_count = job->count};
    h.left = stk_pack_take(memory, count, sizeof *h.left);
    h.after = stk_pack_take(memory, count, sizeof *h.after);
    h.ends = stk_pack_take(memory, count, sizeof *h.ends);
    h.cursors = stk_pack_take(memory, count, sizeof *h.cursors);
    h.before = stk_pack_take(memory, count, sizeof *h.before);
    h.groups = stk_pack_take(memory, count, sizeof *h.groups);
    h.spans = stk_pack_take(memory, count, sizeof *h.spans);
    h.samples = stk_pack_take(memory, count, sizeof *h.samples);
    uint64_t *keys = stk_pack_take(memory, count, sizeof *keys);
    if (!memory->base) return STOKER_OK;

    h.ranks = job->options.data_ranks * job->options.context_ranks;
    for (uint32_t i = 0; i < job->count; i++) keys[i] = job->lengths[i];
    stk_pack_sort(keys, job->count, h.left, h.after);
    uint32_t microbatches = 0;
    while (h.left_count > 0) STK_TRY(make_microbatch(&h, microbatches++, err));
    *out_schedule = (stoker_pack_schedule){.microbatches = microbatches,
                                           .ranks = h.ranks,
                                           .spans = h.spans,
                                           .span_count = h.span_count,
                                           .samples = h.samples,
                                           .sample_count = h.sample_count};
    return STOKER_OK;
}
