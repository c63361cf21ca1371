/* SPDX-License-Identifier: Apache-2.0
 *
 * Best-fit packing: as few packs as best fit decreasing needs, and micro-batches whose ranks finish together.
 *
 * A sample of L tokens costs L * L + linear * L, so that one number stands for attention and for the rest; the caller
 * may give `linear`, otherwise it makes both parts equal over the batch. The time of a schedule is taken to be
 *     sum over micro-batches of the largest cost of a pack in it,
 * which is the least possible, (sum of all costs) / data ranks, when all packs of each micro-batch cost the same. Levelling all
 * packs of the batch is not the aim: a pack that holds one long sample is cheap company for other expensive packs.
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
    uint32_t *count, *heap, *by_load;
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

static bool lighter(const struct fit *f, uint32_t a, uint32_t b)
{
    return f->load[a] != f->load[b] ? f->load[a] < f->load[b] : a < b;
}

static void heap_push(struct fit *f, uint32_t *size, uint32_t pack)
{
    uint32_t at = (*size)++;
    for (; at > 0 && lighter(f, pack, f->heap[(at - 1) / 2]); at = (at - 1) / 2) f->heap[at] = f->heap[(at - 1) / 2];
    f->heap[at] = pack;
}

static uint32_t heap_pop(struct fit *f, uint32_t *size)
{
    uint32_t result = f->heap[0], moved = f->heap[--*size], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= *size) break;
        if (child + 1 < *size && lighter(f, f->heap[child + 1], f->heap[child])) child++;
        if (!lighter(f, f->heap[child], moved)) break;
        f->heap[at] = f->heap[child];
        at = child;
    }
    if (*size > 0) f->heap[at] = moved;
    return result;
}

/* The longest sample first, always on the lightest pack with room. False if one does not fit anywhere. */
static bool fit_levels(struct fit *f)
{
    uint32_t size = 0;
    clear_packs(f, f->pack_count);
    for (uint32_t p = 0; p < f->pack_count; p++) heap_push(f, &size, p);
    for (uint32_t i = 0; i < f->job->count; i++) {
        uint32_t sample = f->order[i], aside = 0, found = NONE;
        while (size > 0 && found == NONE) {
            uint32_t pack = heap_pop(f, &size);
            if (f->count[pack] == 0 || f->room[pack] >= f->job->lengths[sample])
                found = pack;
            else
                f->scratch[aside++] = pack;
        }
        if (found == NONE) return false;
        put(f, found, sample);
        heap_push(f, &size, found);
        while (aside > 0) heap_push(f, &size, f->scratch[--aside]);
    }
    return true;
}

/* The packs of one micro-batch while it is filled; `room` and `load` bound what any of them can take. */
struct micro {
    uint32_t first, end;
    uint64_t cap;
    uint64_t room, load;
    bool full; /* none is empty */
};

static void bound_micro(const struct fit *f, struct micro *m)
{
    m->room = 0;
    m->load = UINT64_MAX;
    m->full = true;
    for (uint32_t p = m->first; p < m->end; p++) {
        if (f->room[p] > m->room) m->room = f->room[p];
        if (f->load[p] < m->load) m->load = f->load[p];
        m->full = m->full && f->count[p] > 0;
    }
}

static uint32_t lightest_with_room(const struct fit *f, const struct micro *m, uint32_t sample)
{
    uint64_t length = f->job->lengths[sample], more = cost(f, sample);
    if (m->full && (length > m->room || m->load + more > m->cap)) return NONE;
    uint32_t best = NONE;
    for (uint32_t p = m->first; p < m->end; p++) {
        bool fits = f->count[p] == 0 || (f->room[p] >= length && f->load[p] + more <= m->cap);
        if (fits && (best == NONE || f->load[p] < f->load[best])) best = p;
    }
    return best;
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
        uint32_t packs_left = f->pack_count - first, later = packs_left - data, kept = 0;
        if (left_count < packs_left) return false;
        uint64_t share = (rest + packs_left - 1) / packs_left, longest = cost(f, f->left[0]);
        uint64_t base = share > longest ? share : longest;
        struct micro m = {.first = first, .end = first + data, .cap = CAP_NONE};
        if (later > 0 && slack != UINT32_MAX) m.cap = base + base / 16 * slack;
        bound_micro(f, &m);
        for (uint32_t i = 0; i < left_count; i++) {
            uint32_t sample = f->left[i], pack = NONE;
            if (kept + (left_count - i - 1) >= later) pack = lightest_with_room(f, &m, sample);
            if (pack == NONE) {
                f->kept[kept++] = sample;
                continue;
            }
            put(f, pack, sample);
            rest -= cost(f, sample);
            bound_micro(f, &m);
        }
        if (!m.full) return false;
        uint32_t *swap = f->left;
        f->left = f->kept;
        f->kept = swap;
        left_count = kept;
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
