/* SPDX-License-Identifier: Apache-2.0
 *
 * Best-fit packing: as few packs as best fit decreasing needs, and micro-batches whose ranks finish together.
 *
 * A sample of L tokens costs L * L + linear * L, so that one number stands for attention and for the rest; the caller
 * may give `linear`, otherwise it makes both parts equal over the batch. The time of a schedule is taken to be
 *     sum over micro-batches of the largest cost of a pack in it,
 * which is the least possible, (sum of all costs) / data ranks, when all packs of each micro-batch cost the same.
 * Levelling all packs of the batch is not the aim: a pack that holds one long sample is cheap company for other
 * expensive packs.
 *
 * How: the number of packs is fixed first. Then several constructions are tried on it, and the one of the least time is
 * taken; each is good where another is not (fit_levels: the budget is loose; fit_groups: costs differ much; spread and
 * in order: the budget is tight). What is known of the result:
 *     packs      before rounding up to whole micro-batches, at most 2 * tokens / budget + 1 and those of samples over
 *                the budget, and never more than DP-balanced makes; best fit decreasing is within 11/9 * least + 4
 *     time       never more than DP-balanced's (when that leaves no pack empty); and when the budget refuses nothing,
 *                at most (sum of all costs) / data ranks + micro-batches * (largest cost of a sample)
 *
 * The packs of a micro-batch are given to ranks so that sums of L and of L * L over all micro-batches are level too.
 */
#include "sched/pack.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/pack_room.h"

#define NONE UINT32_MAX
#define CAP_NONE (UINT64_MAX / 2) /* above any sum of costs */

struct fit {
    const struct stk_pack_job *job;
    uint64_t budget, linear;
    uint32_t pack_count;
    uint32_t *order, *scratch; /* samples by falling length */
    uint32_t *left, *kept;
    uint64_t *keys;
    /* the construction in progress */
    uint32_t *pack_of;
    uint64_t *load, *room;
    uint32_t *count, *heap, *by_load, *reach;
    /* the best so far */
    uint32_t *best_of, best_packs;
    uint64_t best_time;
    /* sums of each data-parallel rank, and the place of each pack */
    uint64_t *rank_tokens, *rank_squares;
    uint32_t *slot;
    struct stk_pack_range *ranges;
    struct stk_room_links *links;
    struct stk_rooms *rooms;
    stoker_pack_span *spans;
    uint32_t *samples;
};

static uint64_t cost(const struct fit *f, uint32_t sample)
{
    uint64_t length = f->job->lengths[sample];
    return length * (length + f->linear);
}

/* ---- packs ---- */

static void clear_packs(struct fit *f, uint32_t packs)
{
    for (uint32_t p = 0; p < packs; p++) {
        f->load[p] = 0;
        f->room[p] = f->budget;
        f->count[p] = 0;
    }
}

static void put(struct fit *f, uint32_t pack, uint32_t sample)
{
    uint64_t length = f->job->lengths[sample];
    f->pack_of[sample] = pack;
    f->load[pack] += cost(f, sample);
    f->room[pack] = f->room[pack] > length ? f->room[pack] - length : 0; /* a sample over the budget fills its pack */
    f->count[pack]++;
}

/* Loads and counts of what pack_of says. */
static void sum_packs(struct fit *f, const uint32_t *pack_of, uint32_t packs)
{
    memset(f->load, 0, (size_t)packs * sizeof *f->load);
    memset(f->count, 0, (size_t)packs * sizeof *f->count);
    for (uint32_t i = 0; i < f->job->count; i++) {
        f->load[pack_of[i]] += cost(f, i);
        f->count[pack_of[i]]++;
    }
}

/* Packs by falling load: consecutive ones form a micro-batch, which gives the least time for given packs. */
static void offer(struct fit *f, uint32_t packs)
{
    uint32_t data = f->job->options.data_ranks;
    uint64_t time = 0;
    sum_packs(f, f->pack_of, packs);
    stk_pack_sort(f->load, packs, f->by_load, f->scratch);
    for (uint32_t p = 0; p < packs; p += data) time += f->load[f->by_load[p]];
    for (uint32_t p = 0; p < packs; p++) STK_ASSERT(f->count[p] > 0);
    if (f->best_packs > 0 && time >= f->best_time) return;
    f->best_time = time;
    f->best_packs = packs;
    memcpy(f->best_of, f->pack_of, (size_t)f->job->count * sizeof *f->best_of);
}

/* ---- how few packs? ---- */

static uint32_t best_fit_decreasing(struct fit *f)
{
    uint32_t packs = 0;
    stk_rooms_init(f->rooms, f->room, f->links, f->budget);
    for (uint32_t i = 0; i < f->job->count; i++) {
        uint32_t sample = f->order[i];
        uint64_t length = f->job->lengths[sample], room = f->budget;
        uint32_t pack = length > f->budget ? STK_ROOM_NONE : stk_rooms_find(f->rooms, length);
        if (pack == STK_ROOM_NONE) {
            pack = packs++;
        } else {
            room = f->room[pack];
            stk_rooms_remove(f->rooms, pack);
        }
        f->pack_of[sample] = pack;
        stk_rooms_insert(f->rooms, pack, room > length ? room - length : 0);
    }
    return packs;
}

/* The DP-balanced packs without an empty one; their number is returned. */
static uint32_t take_ranges(struct fit *f, uint32_t range_count)
{
    uint32_t packs = 0;
    for (uint32_t r = 0; r < range_count; r++) {
        struct stk_pack_range range = f->ranges[r];
        for (uint32_t i = range.first; i < range.first + range.count; i++) f->pack_of[i] = packs;
        packs += range.count > 0;
    }
    return packs;
}

/* ---- constructions on a fixed number of packs ---- */

/* More packs out of fewer: long samples that share a pack get one of their own. */
static void spread(struct fit *f, uint32_t packs)
{
    sum_packs(f, f->pack_of, packs);
    for (uint32_t i = 0; packs < f->pack_count; i++) {
        STK_ASSERT(i < f->job->count);
        uint32_t *pack = &f->pack_of[f->order[i]];
        if (f->count[*pack] == 1) continue;
        f->count[*pack]--;
        f->count[packs] = 1;
        *pack = packs++;
    }
}

/* Packs in a binary heap: the lightest on top, or the one with the most room. Ties by pack. */
struct heap {
    const struct fit *fit;
    uint32_t *packs, size;
    bool by_room;
};

static bool goes_first(const struct heap *heap, uint32_t a, uint32_t b)
{
    const struct fit *f = heap->fit;
    if (heap->by_room) return f->room[a] != f->room[b] ? f->room[a] > f->room[b] : a < b;
    return f->load[a] != f->load[b] ? f->load[a] < f->load[b] : a < b;
}

static void heap_push(struct heap *heap, uint32_t pack)
{
    uint32_t at = heap->size++;
    for (; at > 0 && goes_first(heap, pack, heap->packs[(at - 1) / 2]); at = (at - 1) / 2)
        heap->packs[at] = heap->packs[(at - 1) / 2];
    heap->packs[at] = pack;
}

static uint32_t heap_pop(struct heap *heap)
{
    uint32_t result = heap->packs[0], moved = heap->packs[--heap->size], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->size) break;
        if (child + 1 < heap->size && goes_first(heap, heap->packs[child + 1], heap->packs[child])) child++;
        if (!goes_first(heap, heap->packs[child], moved)) break;
        heap->packs[at] = heap->packs[child];
        at = child;
    }
    heap->packs[at] = moved;
    return result;
}

/* The longest sample first, always on the lightest pack with room. False if one does not fit anywhere. Lengths only
 * fall, so a pack that is too full for one sample rests until a sample is short enough for it. */
static bool fit_levels(struct fit *f)
{
    struct heap open = {.fit = f, .packs = f->heap}, full = {.fit = f, .packs = f->scratch, .by_room = true};
    clear_packs(f, f->pack_count);
    for (uint32_t p = 0; p < f->pack_count; p++) heap_push(&open, p);
    for (uint32_t i = 0; i < f->job->count; i++) {
        uint32_t sample = f->order[i], length = f->job->lengths[sample], found = NONE;
        while (full.size > 0 && f->room[full.packs[0]] >= length) heap_push(&open, heap_pop(&full));
        while (open.size > 0 && found == NONE) {
            uint32_t pack = heap_pop(&open);
            if (f->count[pack] == 0 || f->room[pack] >= length)
                found = pack;
            else
                heap_push(&full, pack);
        }
        if (found == NONE) return false;
        put(f, found, sample);
        heap_push(&open, found);
    }
    return true;
}

/* The largest length that a pack takes without going over its room or over `cap`. */
static uint32_t reach(const struct fit *f, uint32_t pack, uint64_t cap)
{
    if (f->count[pack] == 0) return UINT32_MAX; /* one sample of any length, as each pack needs one */
    uint64_t low = 0, high = f->room[pack];
    if (f->load[pack] >= cap) return 0;
    while (low < high) {
        uint64_t middle = (low + high + 1) / 2;
        if (middle * (middle + f->linear) <= cap - f->load[pack])
            low = middle;
        else
            high = middle - 1;
    }
    return (uint32_t)low;
}

/* The first place from `at` on with a sample of at most `longest` tokens. */
static uint32_t skip_longer(const struct fit *f, uint32_t at, uint32_t end, uint32_t longest)
{
    while (at < end) {
        uint32_t middle = at + (end - at) / 2;
        if (f->job->lengths[f->left[middle]] > longest)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* Fills the packs [first, first + data ranks) from what is left, the longest first, each sample on the lightest pack
 * that takes it, and keeps at least `later` samples. Returns the number kept. A walk over all that is left for every
 * micro-batch took most of the time: samples that no pack takes are skipped in one step. */
static uint32_t fill_microbatch(struct fit *f, uint32_t left_count, uint32_t first, uint64_t cap, uint32_t later)
{
    uint32_t end = first + f->job->options.data_ranks, kept = 0, longest = UINT32_MAX, at = 0;
    for (uint32_t p = first; p < end; p++) f->reach[p] = UINT32_MAX;
    while (at < left_count && kept + (left_count - at - 1) >= later) {
        uint32_t next = skip_longer(f, at, left_count, longest);
        memcpy(f->kept + kept, f->left + at, (size_t)(next - at) * sizeof *f->kept);
        kept += next - at;
        at = next;
        if (at == left_count) break;
        uint32_t sample = f->left[at++], length = f->job->lengths[sample], best = NONE;
        for (uint32_t p = first; p < end; p++)
            if (f->reach[p] >= length && (best == NONE || f->load[p] < f->load[best])) best = p;
        STK_ASSERT(best != NONE);
        put(f, best, sample);
        f->reach[best] = reach(f, best, cap);
        longest = 0;
        for (uint32_t p = first; p < end; p++)
            if (f->reach[p] > longest) longest = f->reach[p];
    }
    memcpy(f->kept + kept, f->left + at, (size_t)(left_count - at) * sizeof *f->kept);
    return kept + (left_count - at);
}

/* Micro-batch after micro-batch, each from the longest samples that are left, up to the cost of the longest or an equal
 * share of what is left, and `slack` sixteenths more (UINT32_MAX: no cap). False if what is left does not fit. */
static bool fit_groups(struct fit *f, uint32_t slack)
{
    uint32_t data = f->job->options.data_ranks, left_count = f->job->count;
    uint64_t rest = 0;
    clear_packs(f, f->pack_count);
    memcpy(f->left, f->order, (size_t)left_count * sizeof *f->left);
    for (uint32_t i = 0; i < left_count; i++) rest += cost(f, i);
    for (uint32_t first = 0; first < f->pack_count; first += data) {
        uint32_t packs_left = f->pack_count - first, later = packs_left - data;
        if (left_count < packs_left) return false;
        uint64_t share = (rest + packs_left - 1) / packs_left, longest = cost(f, f->left[0]);
        uint64_t base = share > longest ? share : longest, cap = CAP_NONE;
        if (later > 0 && slack != UINT32_MAX) cap = base + base / 16 * slack;
        left_count = fill_microbatch(f, left_count, first, cap, later);
        for (uint32_t p = first; p < first + data; p++) {
            if (f->count[p] == 0) return false;
            rest -= f->load[p];
        }
        uint32_t *swap = f->left;
        f->left = f->kept;
        f->kept = swap;
    }
    return left_count == 0;
}

/* ---- from packs to ranks ---- */

/* The heaviest pack of a micro-batch goes to the rank that has had least so far. */
static void give_ranks(struct fit *f)
{
    uint32_t data = f->job->options.data_ranks;
    sum_packs(f, f->best_of, f->best_packs);
    stk_pack_sort(f->load, f->best_packs, f->by_load, f->scratch);
    for (uint32_t p = 0; p < f->best_packs; p++) f->room[p] = 0; /* holds the tokens of each pack from here on */
    for (uint32_t i = 0; i < f->job->count; i++) f->room[f->best_of[i]] += f->job->lengths[i];
    memset(f->rank_tokens, 0, (size_t)data * sizeof *f->rank_tokens);
    memset(f->rank_squares, 0, (size_t)data * sizeof *f->rank_squares);
    for (uint32_t first = 0; first < f->best_packs; first += data) {
        for (uint32_t r = 0; r < data; r++) {
            uint64_t linear = f->linear * f->rank_tokens[r], squares = f->rank_squares[r];
            f->keys[r] = UINT64_MAX - (linear > squares ? linear : squares);
        }
        stk_pack_sort(f->keys, data, f->heap, f->scratch);
        for (uint32_t i = 0; i < data; i++) {
            uint32_t pack = f->by_load[first + i], rank = f->heap[i];
            f->slot[pack] = first + rank;
            f->rank_tokens[rank] += f->room[pack];
            f->rank_squares[rank] += f->load[pack] - f->linear * f->room[pack];
        }
    }
}

static void emit(struct fit *f, stoker_pack_schedule *out_schedule)
{
    uint32_t data = f->job->options.data_ranks, context = f->job->options.context_ranks;
    for (uint32_t p = 0; p < f->best_packs; p++) {
        uint32_t slot = f->slot[p];
        f->spans[slot] = (stoker_pack_span){
            .microbatch = slot / data, .first_rank = slot % data * context, .ranks = context, .count = f->count[p]};
    }
    for (uint32_t s = 1; s < f->best_packs; s++) f->spans[s].first = f->spans[s - 1].first + f->spans[s - 1].count;
    for (uint32_t p = 0; p < f->best_packs; p++) f->count[p] = f->spans[f->slot[p]].first;
    for (uint32_t i = 0; i < f->job->count; i++) f->samples[f->count[f->best_of[i]]++] = i;
    *out_schedule = (stoker_pack_schedule){.microbatches = f->best_packs / data,
                                           .ranks = data * context,
                                           .spans = f->spans,
                                           .span_count = f->best_packs,
                                           .samples = f->samples,
                                           .sample_count = f->job->count};
}

static void take_memory(struct fit *f, struct stk_pack_memory *memory)
{
    size_t samples = f->job->count, packs = samples + 1; /* DP-balanced may have an empty one */
    f->order = stk_pack_take(memory, samples, sizeof *f->order);
    f->scratch = stk_pack_take(memory, packs, sizeof *f->scratch);
    f->left = stk_pack_take(memory, samples, sizeof *f->left);
    f->kept = stk_pack_take(memory, samples, sizeof *f->kept);
    f->keys = stk_pack_take(memory, packs, sizeof *f->keys);
    f->pack_of = stk_pack_take(memory, samples, sizeof *f->pack_of);
    f->load = stk_pack_take(memory, packs, sizeof *f->load);
    f->room = stk_pack_take(memory, packs, sizeof *f->room);
    f->count = stk_pack_take(memory, packs, sizeof *f->count);
    f->heap = stk_pack_take(memory, packs, sizeof *f->heap);
    f->by_load = stk_pack_take(memory, packs, sizeof *f->by_load);
    f->reach = stk_pack_take(memory, packs, sizeof *f->reach);
    f->best_of = stk_pack_take(memory, samples, sizeof *f->best_of);
    f->rank_tokens = stk_pack_take(memory, packs, sizeof *f->rank_tokens);
    f->rank_squares = stk_pack_take(memory, packs, sizeof *f->rank_squares);
    f->slot = stk_pack_take(memory, packs, sizeof *f->slot);
    f->ranges = stk_pack_take(memory, packs, sizeof *f->ranges);
    f->links = stk_pack_take(memory, packs, sizeof *f->links);
    f->rooms = stk_pack_take(memory, 1, sizeof *f->rooms);
    f->spans = stk_pack_take(memory, packs, sizeof *f->spans);
    f->samples = stk_pack_take(memory, samples, sizeof *f->samples);
}

static stoker_status read_job(struct fit *f, stoker_error *err)
{
    stoker_pack_statistics sums;
    STK_TRY(stoker_pack_sum(f->job->lengths, f->job->count, &sums, err));
    f->budget = stk_pack_budget(f->job);
    if (f->budget > STK_PACK_TOKENS_MAX) f->budget = STK_PACK_TOKENS_MAX; /* more is never used */
    f->linear = f->job->options.linear_tokens;
    if (f->linear == 0) f->linear = sums.squares / sums.tokens; /* 1 or more: no length is 0 */
    if (f->linear > STK_PACK_TOKENS_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "linear_tokens is %llu, at most %llu", (unsigned long long)f->linear,
                        (unsigned long long)STK_PACK_TOKENS_MAX);
    for (uint32_t i = 0; i < f->job->count; i++) f->keys[i] = f->job->lengths[i];
    stk_pack_sort(f->keys, f->job->count, f->order, f->scratch);
    return STOKER_OK;
}

stoker_status stk_pack_fit_make(const struct stk_pack_job *job, struct stk_pack_memory *memory,
                                stoker_pack_schedule *out_schedule, stoker_error *err)
{
    static const uint32_t slacks[] = {0, 1, 2, 4, 8, 16, UINT32_MAX};
    struct fit f = {.job = job};
    take_memory(&f, memory);
    if (!memory->base) return STOKER_OK;
    STK_TRY(read_job(&f, err));

    uint32_t range_count = stk_pack_fill_in_order(job, f.ranges);
    uint32_t in_order = take_ranges(&f, range_count);
    uint32_t packs = best_fit_decreasing(&f);
    if (in_order < packs) packs = take_ranges(&f, range_count); /* a lucky order beats best fit: rare, but possible */
    uint64_t multiple = stk_pack_multiple(job), rounded = (packs + multiple - 1) / multiple * multiple;
    if (rounded > job->count) return stk_pack_too_few(job, packs, err);
    f.pack_count = (uint32_t)rounded;
    spread(&f, packs);
    offer(&f, f.pack_count);
    if (fit_levels(&f)) offer(&f, f.pack_count);
    for (size_t i = 0; i < sizeof slacks / sizeof *slacks; i++)
        if (fit_groups(&f, slacks[i])) offer(&f, f.pack_count);
    if (stk_pack_split_last(job, f.ranges, &range_count) && take_ranges(&f, range_count) == range_count)
        offer(&f, range_count);
    give_ranks(&f);
    emit(&f, out_schedule);
    return STOKER_OK;
}
