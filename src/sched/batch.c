/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner of token-aware batches: checks what came from outside once, cuts the caller's memory, and goes from
 * window to window. See batch.h for the files.
 */
#include "sched/batch.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/pack.h"

/* Cells of one rank in a window: enough that the few rows of mixed shapes weigh little. */
#define WINDOW_CELLS 128u

/* ---- checks ---- */

/* A smaller struct of an older caller ends in zeros, which mean the defaults; a larger one must too. */
static stoker_status read_options(const stoker_batch_options *options, stoker_batch_options *out, stoker_error *err)
{
    *out = (stoker_batch_options){0};
    size_t size = options->struct_size;
    for (size_t i = sizeof *out; i < size; i++)
        if (((const unsigned char *)options)[i] != 0)
            return stk_fail(err, STOKER_ERR_UNSUPPORTED, "batch options of %zu bytes, this version knows %zu", size,
                            sizeof *out);
    memcpy(out, options, size < sizeof *out ? size : sizeof *out);
    if (out->cells == 0) out->cells = 1;
    if (out->shape_count == 0) out->shape_count = 1;
    if (out->ranks == 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "0 ranks, expected 1 or more");
    if (out->ranks > STK_BATCH_RANKS_MAX || (uint64_t)out->ranks * out->cells > STK_BATCH_STEP_CELLS_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%u ranks with %u cells each, a step has at most %u ranks and %u cells",
                        out->ranks, out->cells, STK_BATCH_RANKS_MAX, STK_BATCH_STEP_CELLS_MAX);
    if (out->shape_count > STK_BATCH_SHAPES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%u shapes, at most %u", out->shape_count, STK_BATCH_SHAPES_MAX);
    return STOKER_OK;
}

static stoker_status check_samples(const stoker_batch_source *source, size_t index, uint32_t shape_count,
                                   uint64_t *tokens, stoker_error *err)
{
    for (uint32_t i = 0; i < source->count; i++) {
        if (source->tokens[i] == 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "sample %u of source %zu has 0 tokens, expected 1 or more", i, index);
        if (source->shapes && source->shapes[i] >= shape_count)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %u of source %zu has shape %u, there are %u", i,
                            index, source->shapes[i], shape_count);
        *tokens += source->tokens[i];
    }
    return STOKER_OK;
}

/* Sums of what all sources hold. */
struct totals {
    uint64_t samples, tokens;
    double weight;
};

static stoker_status check_sources(const stoker_batch_source *sources, size_t count, uint32_t shape_count,
                                   struct totals *out, stoker_error *err)
{
    *out = (struct totals){0, 0, 0};
    if (count == 0 || count > STK_BATCH_SOURCES_MAX || count * shape_count > STK_BATCH_STRATA_MAX)
        return stk_fail(err, count == 0 ? STOKER_ERR_INVALID_ARGUMENT : STOKER_ERR_LIMIT,
                        "%zu sources of %u shapes, expected 1 to %u sources and at most %u of both", count, shape_count,
                        STK_BATCH_SOURCES_MAX, STK_BATCH_STRATA_MAX);
    for (size_t s = 0; s < count; s++) {
        if (!(sources[s].weight >= 0 && sources[s].weight <= 1e12))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "source %zu has weight %g, expected 0 to 1e12", s,
                            sources[s].weight);
        if (sources[s].weight > 0 && sources[s].count == 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "source %zu has a weight and no samples", s);
        out->samples += sources[s].count;
        out->weight += sources[s].weight;
        if (out->samples > STK_BATCH_TOTAL_MAX)
            return stk_fail(err, STOKER_ERR_LIMIT, "more than %u samples", STK_BATCH_TOTAL_MAX);
        STK_TRY(check_samples(&sources[s], s, shape_count, &out->tokens, err));
    }
    if (out->samples == 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the sources hold no samples");
    return STOKER_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Samples that a cell holds on average. */
static uint64_t cell_samples(const stoker_batch_options *options, const struct totals *totals)
{
    if (options->budget_tokens == 0) return 1;
    STK_ASSERT(totals->tokens > 0); /* each sample has some */
    uint64_t each = options->budget_tokens * totals->samples / totals->tokens;
    if (options->budget_samples && each > options->budget_samples) each = options->budget_samples;
    return larger(each, 1);
}

static stoker_status check_window(stoker_batch_options *options, const struct totals *totals, stoker_error *err)
{
    STK_ASSERT(options->cells > 0 && options->ranks > 0); /* read_options() */
    uint64_t cells = larger((uint64_t)STOKER_BATCH_WINDOW_STEPS * options->cells, WINDOW_CELLS);
    cells = (cells + options->cells - 1) / options->cells * options->cells; /* whole steps */
    uint64_t wanted = cells * options->ranks * cell_samples(options, totals);
    uint64_t least = (uint64_t)STOKER_BATCH_WINDOW_STEPS * options->cells * options->ranks;
    if (options->samples == 0) options->samples = totals->samples;
    if (options->samples > STK_BATCH_TOTAL_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "an epoch of %llu samples, at most %u",
                        (unsigned long long)options->samples, STK_BATCH_TOTAL_MAX);
    if (options->window_samples == 0) {
        if (wanted > STK_BATCH_WINDOW_MAX) wanted = larger(STK_BATCH_WINDOW_MAX, least);
        options->window_samples = (uint32_t)wanted;
    } else if (options->budget_tokens == 0 && options->window_samples < least && options->pool_samples == 0) {
        /* A resumed plan has the windows of its first run, whatever the number of ranks is now. */
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "a window of %u samples, expected %llu or more: %u steps of %u samples on %u ranks",
                        options->window_samples, (unsigned long long)least, STOKER_BATCH_WINDOW_STEPS, options->cells,
                        options->ranks);
    }
    if (options->window_samples > larger(STK_BATCH_WINDOW_MAX, least))
        return stk_fail(err, STOKER_ERR_LIMIT, "a window of %u samples, at most %u", options->window_samples,
                        STK_BATCH_WINDOW_MAX);
    return STOKER_OK;
}

static stoker_status check(const stoker_batch_source *sources, size_t count, const stoker_batch_options *given,
                           stoker_batch_options *out_options, struct totals *out_totals, stoker_error *err)
{
    STK_TRY(read_options(given, out_options, err));
    STK_TRY(check_sources(sources, count, out_options->shape_count, out_totals, err));
    return check_window(out_options, out_totals, err);
}

/* ---- memory ---- */

static void cut_plan(struct stoker_batch_planner *p, struct stk_pack_memory *memory, size_t strata)
{
    size_t step = (size_t)p->options.ranks * p->options.cells, places = p->pool_cap + step;
    size_t sorted = larger(larger(places, strata), p->options.shape_count);
    p->cells.load = stk_pack_take(memory, places, sizeof *p->cells.load);
    p->cells.shape = stk_pack_take(memory, places, sizeof *p->cells.shape);
    p->cells.head = stk_pack_take(memory, places, sizeof *p->cells.head);
    p->cells.samples = stk_pack_take(memory, places, sizeof *p->cells.samples);
    p->cells.next = stk_pack_take(memory, places, sizeof *p->cells.next);
    p->rows = stk_pack_take(memory, places + p->options.ranks, sizeof *p->rows);
    p->row_shape = stk_pack_take(memory, places, sizeof *p->row_shape);
    p->row_order = stk_pack_take(memory, places, sizeof *p->row_order);
    p->row_sum = stk_pack_take(memory, places, sizeof *p->row_sum);
    p->step_peak = stk_pack_take(memory, places, sizeof *p->step_peak);
    p->step_excess = stk_pack_take(memory, places, sizeof *p->step_excess);
    p->keys = stk_pack_take(memory, sorted, sizeof *p->keys);
    p->order = stk_pack_take(memory, sorted, sizeof *p->order);
    p->scratch = stk_pack_take(memory, sorted, sizeof *p->scratch);
    p->left = stk_pack_take(memory, sorted, sizeof *p->left);
    p->counts = stk_pack_take(memory, (size_t)p->options.shape_count + 2, sizeof *p->counts);
    p->room = stk_pack_take(memory, places, sizeof *p->room);
    p->links = stk_pack_take(memory, places, sizeof *p->links);
    p->rank_load = stk_pack_take(memory, p->options.ranks, sizeof *p->rank_load);
    p->rank_keys = stk_pack_take(memory, p->options.ranks, sizeof *p->rank_keys);
    p->rank_order = stk_pack_take(memory, p->options.ranks, sizeof *p->rank_order);
    p->rank_scratch = stk_pack_take(memory, p->options.ranks, sizeof *p->rank_scratch);
    p->rank_name = stk_pack_take(memory, p->options.ranks, sizeof *p->rank_name);
    p->held = stk_pack_take(memory, step, sizeof *p->held);
    /* A step has a cell for each rank at least. */
    p->step_cells = stk_pack_take(memory, places / p->options.ranks + 2, sizeof *p->step_cells);
    p->cell_places = stk_pack_take(memory, places + 1, sizeof *p->cell_places);
    p->places = stk_pack_take(memory, places, sizeof *p->places);
    p->loads = stk_pack_take(memory, places + p->options.ranks, sizeof *p->loads);
}

/* With memory->base NULL the planner is a scratch copy and only the size is found. */
static void cut(struct stoker_batch_planner *p, struct stk_pack_memory *memory)
{
    size_t strata = (size_t)p->source_count * p->options.shape_count;
    p->sources = stk_pack_take(memory, p->source_count, sizeof *p->sources);
    p->strata = stk_pack_take(memory, strata, sizeof *p->strata);
    p->list = stk_pack_take(memory, p->total, sizeof *p->list);
    /* What a window leaves is less than a step; what was opened may be more than a window. */
    p->pool_cap = p->options.window_samples + (uint32_t)((size_t)p->options.ranks * p->options.cells);
    if (p->pool_cap < p->options.pool_samples) p->pool_cap = p->options.pool_samples;
    p->pool = stk_pack_take(memory, p->pool_cap, sizeof *p->pool);
    p->pool_load = stk_pack_take(memory, p->pool_cap, sizeof *p->pool_load);
    p->pool_tokens = stk_pack_take(memory, p->pool_cap, sizeof *p->pool_tokens);
    p->pool_shape = stk_pack_take(memory, p->pool_cap, sizeof *p->pool_shape);
    cut_plan(p, memory, strata);
}

size_t stoker_batch_bytes(const stoker_batch_source *sources, size_t count, const stoker_batch_options *options)
{
    struct stoker_batch_planner planner = {0};
    struct stk_pack_memory memory = {0};
    struct totals totals;
    if (check(sources, count, options, &planner.options, &totals, NULL) < 0) return 0;
    planner.source_count = (uint32_t)count;
    planner.total = (uint32_t)totals.samples;
    (void)stk_pack_take(&memory, 1, sizeof planner);
    cut(&planner, &memory);
    return memory.used;
}

/* ---- beginning ---- */

static void set_sources(struct stoker_batch_planner *p, const stoker_batch_source *sources, const struct totals *totals)
{
    uint32_t first_id = 0;
    p->by_count = !(totals->weight > 0);
    for (uint32_t s = 0; s < p->source_count; s++) {
        double share =
            p->by_count ? (double)sources[s].count / (double)totals->samples : sources[s].weight / totals->weight;
        p->sources[s] =
            (struct stk_batch_source){sources[s].tokens, sources[s].shapes, sources[s].count, first_id, share, 0, 0, 0};
        first_id += sources[s].count;
    }
}

/* Samples of each source by shape, in the order of their ids. */
static void set_strata(struct stoker_batch_planner *p)
{
    uint32_t shapes = p->options.shape_count, first = 0;
    for (uint32_t s = 0; s < p->source_count; s++) {
        const struct stk_batch_source *source = &p->sources[s];
        struct stk_batch_stratum *strata = p->strata + (size_t)s * shapes;
        memset(strata, 0, shapes * sizeof *strata);
        for (uint32_t i = 0; i < source->count; i++) strata[source->shapes ? source->shapes[i] : 0].count++;
        for (uint32_t g = 0; g < shapes; g++) {
            strata[g].first = first;
            first += strata[g].count;
        }
        for (uint32_t i = 0; i < source->count; i++) {
            struct stk_batch_stratum *stratum = &strata[source->shapes ? source->shapes[i] : 0];
            p->list[stratum->first + stratum->used++] = i;
        }
        for (uint32_t g = 0; g < shapes; g++) strata[g].used = 0;
    }
}

static stoker_status check_shares(const struct stoker_batch_planner *p, stoker_error *err)
{
    if (p->by_count && p->options.samples > p->total)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "an epoch of %llu samples, the sources hold %u: give weights to draw some of them again",
                        (unsigned long long)p->options.samples, p->total);
    if (!(p->options.flags & STOKER_BATCH_NO_REPEAT)) return STOKER_OK;
    for (uint32_t s = 0; s < p->source_count; s++) {
        double needed = p->sources[s].weight * (double)p->options.samples;
        if (needed >= (double)p->sources[s].count + 1)
            return stk_fail(
                err, STOKER_ERR_INVALID_ARGUMENT,
                "source %u has %u samples, its share %g of %llu samples needs %.0f: allow repeats, or lower "
                "its weight",
                s, p->sources[s].count, p->sources[s].weight, (unsigned long long)p->options.samples, needed);
    }
    return STOKER_OK;
}

stoker_status stoker_batch_init(const stoker_batch_source *sources, size_t count, const stoker_batch_options *options,
                                void *memory, size_t size, stoker_batch_planner **out_planner, stoker_error *err)
{
    struct totals totals;
    stoker_batch_options checked;
    STK_TRY(check(sources, count, options, &checked, &totals, err));
    size_t needed = stoker_batch_bytes(sources, count, options);
    if (size < needed || ((uintptr_t)memory & 15) != 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "the memory of a planner has %zu bytes at %p, expected %zu at a multiple of 16", size, memory,
                        needed);
    struct stk_pack_memory block = {.base = memory};
    struct stoker_batch_planner *p = stk_pack_take(&block, 1, sizeof *p);
    memset(p, 0, sizeof *p);
    p->options = checked;
    p->source_count = (uint32_t)count;
    p->total = (uint32_t)totals.samples;
    cut(p, &block);
    set_sources(p, sources, &totals);
    STK_TRY(check_shares(p, err));
    set_strata(p);
    *out_planner = p;
    return STOKER_OK;
}

/* ---- windows ---- */

/* Single samples are cells; places from pool_count on are repeats. */
static void make_single_cells(struct stoker_batch_planner *p, uint32_t count)
{
    p->cells.count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = i < p->pool_count ? i : (i - p->pool_count) % p->pool_count;
        p->cells.load[i] = p->pool_load[place];
        p->cells.shape[i] = p->pool_shape[place];
        p->cells.head[i] = i;
        p->cells.samples[i] = 1;
        p->cells.next[i] = STK_BATCH_END;
    }
}

static void begin_window(struct stoker_batch_planner *p)
{
    p->steps = p->cell_count = p->place_count = p->repeats = p->padding = 0;
    p->step_cells[0] = 0;
    p->cell_places[0] = 0;
}

/* Full steps first; at the end of the epoch what is left fills one more, made even by repeats. Returns how many of the
 * pool are used. */
static uint32_t plan_single(struct stoker_batch_planner *p, bool last, struct stk_rng *rng)
{
    uint32_t step = p->options.ranks * p->options.cells, whole = p->pool_count / step * step;
    uint32_t rest = p->pool_count - whole, ranks = p->options.ranks;
    if (!last || (p->options.flags & STOKER_BATCH_DROP_LAST)) rest = 0;
    if (rest > 0) p->repeats = (ranks - rest % ranks) % ranks;
    make_single_cells(p, whole + rest + p->repeats);
    if (whole > 0) stk_batch_steps(p, 0, whole, rng);
    if (rest > 0) stk_batch_steps(p, whole, rest + p->repeats, rng);
    return last ? p->pool_count : whole;
}

static uint32_t plan_budget(struct stoker_batch_planner *p, struct stk_rng *rng)
{
    stk_batch_fill(p, p->pool_count, p->options.ranks * p->options.cells);
    stk_batch_steps(p, 0, p->cells.count, rng);
    return p->pool_count;
}

/* What the window before did not use moves to the front. */
static void drop_used(struct stoker_batch_planner *p)
{
    uint32_t kept = p->pool_count - p->pool_used;
    memmove(p->pool, p->pool + p->pool_used, kept * sizeof *p->pool);
    p->pool_count = kept;
    p->pool_used = 0;
    for (uint32_t i = 0; i < kept; i++) stk_batch_describe(p, i);
}

static void show(const struct stoker_batch_planner *p, stoker_batch_window *out)
{
    *out = (stoker_batch_window){p->steps, p->options.ranks, p->step_cells, p->cell_places, p->places,  p->loads,
                                 p->pool,  p->pool_count,    p->repeats,    p->padding,     p->windows, p->drawn};
}

stoker_status stoker_batch_next(stoker_batch_planner *p, stoker_batch_window *out_window, stoker_error *err)
{
    begin_window(p);
    if (!p->opened) drop_used(p);
    for (;;) {
        if (!p->opened) {
            if (p->drawn == p->options.samples) return STOKER_END;
            STK_TRY(stk_batch_draw(p, err));
        }
        p->opened = false;
        bool last = p->drawn == p->options.samples;
        struct stk_rng rng;
        stk_rng_init(&rng, stk_rng_draw(p->options.seed, p->options.epoch, p->windows, 0), STK_RNG_BATCH_STEPS);
        if (p->pool_count > 0)
            p->pool_used = p->options.budget_tokens ? plan_budget(p, &rng) : plan_single(p, last, &rng);
        if (p->steps > 0) {
            show(p, out_window);
            return STOKER_OK;
        }
        if (last) return STOKER_END;
        drop_used(p);
    }
}

stoker_status stoker_batch_skip(stoker_batch_planner *p, uint64_t windows, stoker_error *err)
{
    p->opened = false;
    for (uint64_t i = 0; i < windows; i++) {
        if (p->drawn == p->options.samples) return STOKER_END;
        p->pool_count = p->pool_used = 0;
        STK_TRY(stk_batch_draw(p, err));
    }
    p->pool_count = p->pool_used = 0;
    return STOKER_OK;
}

stoker_status stoker_batch_open(stoker_batch_planner *p, const uint32_t *ids, size_t count, stoker_error *err)
{
    if (count > p->pool_cap)
        return stk_fail(err, STOKER_ERR_LIMIT, "a pool of %zu samples, this planner was made for %u", count,
                        p->pool_cap);
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= p->total)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %u of a pool, the sources hold %u", ids[i],
                            p->total);
    for (size_t i = 0; i < count; i++) p->pool[i] = ids[i];
    p->pool_count = (uint32_t)count;
    p->pool_used = 0;
    for (uint32_t i = 0; i < p->pool_count; i++) stk_batch_describe(p, i);
    p->opened = true;
    return STOKER_OK;
}

stoker_status stoker_batch_reweigh(stoker_batch_planner *p, const double *weights, size_t count, stoker_error *err)
{
    double sum = 0;
    if (count != p->source_count)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%zu weights for %u sources", count, p->source_count);
    for (size_t s = 0; s < count; s++) {
        if (!(weights[s] >= 0 && weights[s] <= 1e12) || (weights[s] > 0 && p->sources[s].count == 0))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "weight %g of source %zu with %u samples, expected 0 to 1e12 and a sample to draw",
                            weights[s], s, p->sources[s].count);
        sum += weights[s];
    }
    if (!(sum > 0)) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "all weights are 0");
    for (size_t s = 0; s < count; s++) {
        p->sources[s].weight = weights[s] / sum;
        p->sources[s].since_drawn = 0;
    }
    p->by_count = false;
    p->weighed_at = p->drawn;
    return STOKER_OK;
}
