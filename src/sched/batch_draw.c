/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of an epoch, one window at a time. Each place of the order goes to the source that is farthest behind its
 * share. Of what a source gives to a window, each shape gets its share rounded down, and those that are farthest behind
 * get one more: every window holds the mixture within one sample a shape, and what one window rounds away the next ones
 * make up for. Inside the window each shape is spread evenly from a random start, so that a part of it is mixed too.
 */
#include "sched/batch.h"

#include "base/assert.h"
#include "base/error.h"
#include "sched/pack.h"

const struct stk_batch_source *stk_batch_find(const struct stoker_batch_planner *planner, uint32_t id,
                                              uint32_t *out_index)
{
    uint32_t low = 0, high = planner->source_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (planner->sources[middle].first_id <= id)
            low = middle;
        else
            high = middle;
    }
    *out_index = id - planner->sources[low].first_id;
    return &planner->sources[low];
}

void stk_batch_describe(struct stoker_batch_planner *planner, uint32_t place)
{
    uint32_t index;
    const struct stk_batch_source *source = stk_batch_find(planner, planner->pool[place], &index);
    uint64_t tokens = source->tokens[index];
    uint32_t linear = planner->options.linear_tokens;
    planner->pool_tokens[place] = source->tokens[index];
    planner->pool_shape[place] = source->shapes ? source->shapes[index] : 0;
    uint64_t squares = linear ? tokens * tokens / linear : 0;
    planner->pool_load[place] = squares < STK_BATCH_LOAD_MAX - tokens ? tokens + squares : STK_BATCH_LOAD_MAX;
}

static bool is_empty(const struct stoker_batch_planner *planner, const struct stk_batch_source *source)
{
    bool once = planner->by_count || (planner->options.flags & STOKER_BATCH_NO_REPEAT);
    return source->count == 0 || (once && source->drawn + source->quota >= source->count);
}

static stoker_status ran_out(const struct stoker_batch_planner *planner, uint32_t index, stoker_error *err)
{
    const struct stk_batch_source *source = &planner->sources[index];
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                    "source %u has %u samples, its share %g of %llu samples needs more: allow repeats, or lower its "
                    "weight",
                    index, source->count, source->weight, (unsigned long long)planner->options.samples);
}

/* How many of the next `count` samples each source gives. */
static stoker_status split_sources(struct stoker_batch_planner *planner, uint32_t count, stoker_error *err)
{
    for (uint32_t s = 0; s < planner->source_count; s++) planner->sources[s].quota = 0;
    for (uint32_t i = 0; i < count; i++) {
        double share = (double)(planner->drawn + i + 1 - planner->weighed_at), most = 0;
        uint32_t best = STK_BATCH_END;
        for (uint32_t s = 0; s < planner->source_count; s++) {
            const struct stk_batch_source *source = &planner->sources[s];
            if (source->weight <= 0 || (planner->by_count && is_empty(planner, source))) continue;
            double behind = source->weight * share - (double)(source->since_drawn + source->quota);
            if (best == STK_BATCH_END || behind > most) best = s, most = behind;
        }
        STK_ASSERT(best != STK_BATCH_END);
        if (is_empty(planner, &planner->sources[best])) return ran_out(planner, best, err);
        planner->sources[best].quota++;
    }
    return STOKER_OK;
}

/* No shape runs ahead of the pass through its source that is going on: so each pass has each sample once. */
static bool has_room(const struct stoker_batch_planner *planner, uint32_t s, const struct stk_batch_stratum *stratum)
{
    const struct stk_batch_source *source = &planner->sources[s];
    uint64_t passes = (source->drawn + source->quota + source->count - 1) / source->count;
    return stratum->drawn + stratum->quota < passes * stratum->count;
}

/* Gives one more to shapes that are farthest behind, at most one to each; returns how many are still to be given. */
static uint32_t give_rest(struct stoker_batch_planner *planner, uint32_t s, uint32_t rest)
{
    const struct stk_batch_source *source = &planner->sources[s];
    uint32_t shapes = planner->options.shape_count;
    struct stk_batch_stratum *strata = planner->strata + (size_t)s * shapes;
    uint64_t drawn = source->drawn + source->quota;
    for (uint32_t g = 0; g < shapes; g++) {
        int64_t behind =
            (int64_t)(drawn * strata[g].count) - (int64_t)((strata[g].drawn + strata[g].quota) * source->count);
        planner->keys[g] = has_room(planner, s, &strata[g]) ? (uint64_t)behind + (UINT64_C(1) << 63) : 0;
    }
    stk_pack_sort(planner->keys, shapes, planner->order, planner->scratch);
    for (uint32_t i = 0; i < shapes && rest > 0 && planner->keys[planner->order[i]] > 0; i++, rest--)
        strata[planner->order[i]].quota++;
    return rest;
}

static void split_shapes(struct stoker_batch_planner *planner, uint32_t s)
{
    const struct stk_batch_source *source = &planner->sources[s];
    uint32_t shapes = planner->options.shape_count, rest = source->quota;
    struct stk_batch_stratum *strata = planner->strata + (size_t)s * shapes;
    for (uint32_t g = 0; g < shapes; g++) {
        uint64_t whole = source->count ? (uint64_t)source->quota * strata[g].count / source->count : 0;
        strata[g].quota = strata[g].used = 0;
        while (strata[g].quota < whole && has_room(planner, s, &strata[g])) strata[g].quota++;
        rest -= strata[g].quota;
    }
    while (rest > 0) rest = give_rest(planner, s, rest);
}

static void shuffle(struct stoker_batch_planner *planner, uint32_t stratum_index, uint64_t pass)
{
    const struct stk_batch_stratum *stratum = &planner->strata[stratum_index];
    uint32_t *list = planner->list + stratum->first;
    struct stk_rng rng;
    stk_rng_init(&rng, stk_rng_draw(planner->options.seed, planner->options.epoch, stratum_index, pass),
                 STK_RNG_BATCH_ORDER);
    for (uint32_t i = stratum->count; i > 1; i--) {
        uint32_t other = (uint32_t)stk_rng_below(&rng, i), swap = list[i - 1];
        list[i - 1] = list[other];
        list[other] = swap;
    }
}

/* Takes what the quotas say into the pool, then orders that part of it by its spread. */
static void take(struct stoker_batch_planner *planner, struct stk_rng *rng)
{
    uint32_t shapes = planner->options.shape_count, begin = planner->pool_count, at = begin;
    bool shuffled = !(planner->options.flags & STOKER_BATCH_NO_SHUFFLE);
    for (uint32_t i = 0; i < planner->source_count * shapes; i++) {
        struct stk_batch_stratum *stratum = &planner->strata[i];
        if (stratum->quota == 0) continue;
        uint64_t start = shuffled ? stk_rng_next(rng) >> 32 : UINT64_C(1) << 31;
        for (uint32_t k = 0; k < stratum->quota; k++, at++) {
            uint32_t place = (uint32_t)(stratum->drawn % stratum->count);
            if (place == 0 && shuffled) shuffle(planner, i, stratum->drawn / stratum->count);
            planner->left[at - begin] = planner->sources[i / shapes].first_id + planner->list[stratum->first + place];
            planner->keys[at - begin] = ~((((uint64_t)k << 32) + start) / stratum->quota);
            stratum->drawn++;
        }
        stratum->quota = 0;
    }
    stk_pack_sort(planner->keys, at - begin, planner->order, planner->scratch);
    for (uint32_t i = begin; i < at; i++) {
        planner->pool[i] = planner->left[planner->order[i - begin]];
        stk_batch_describe(planner, i);
    }
    planner->pool_count = at;
}

stoker_status stk_batch_draw(struct stoker_batch_planner *planner, stoker_error *err)
{
    uint64_t left = planner->options.samples - planner->drawn;
    uint32_t count = left < planner->options.window_samples ? (uint32_t)left : planner->options.window_samples;
    struct stk_rng rng;
    STK_ASSERT(count > 0 && planner->pool_count + count <= planner->pool_cap);
    STK_TRY(split_sources(planner, count, err));
    for (uint32_t s = 0; s < planner->source_count; s++) split_shapes(planner, s);
    for (uint32_t s = 0; s < planner->source_count; s++) {
        planner->sources[s].drawn += planner->sources[s].quota;
        planner->sources[s].since_drawn += planner->sources[s].quota;
        planner->sources[s].quota = 0;
    }
    stk_rng_init(&rng, stk_rng_draw(planner->options.seed, planner->options.epoch, planner->windows, 0),
                 STK_RNG_BATCH_SPREAD);
    take(planner, &rng);
    planner->drawn += count;
    planner->windows++;
    return STOKER_OK;
}
