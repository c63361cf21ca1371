/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of token-aware batches, for any sources and shapes: each sample of the epoch once; as many cells on every rank
 * (row 35 of the situations); no micro-batch over the budget but of one sample, none of two shapes; every window holds
 * the mixture within one sample a shape; loads as reported; the same arguments give the same plan; a run that stops at
 * any step and goes on with any number of ranks uses each sample once; small steps are within five percent of their
 * exact optimum.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/property/prop.h"
#include "tests/support/batching.h"

enum { SAMPLES = 1500, SHAPES = 6, SOURCES = 3, KEPT = 8192 };

static uint32_t tokens[SAMPLES], shapes[SAMPLES];
static stoker_batch_source sources[SOURCES];
static uint32_t source_count, total;
static stoker_batch_options options;
static struct batching first, second; /* static: a failed check leaves by longjmp */

static uint32_t draw_tokens(struct prop_random *rnd, uint32_t kind, uint32_t shape)
{
    if (kind == 0) return 100 + 700 * shape; /* one size a shape */
    if (kind == 1) return 1 + prop_below(rnd, 5000);
    return 20 + (uint32_t)(20000 / (1 + prop_below(rnd, 400))); /* long tail */
}

static void draw_sources(struct prop_random *rnd, bool weighted)
{
    uint32_t kind = prop_below(rnd, 3), at = 0;
    source_count = 1 + prop_below(rnd, SOURCES);
    for (uint32_t s = 0; s < source_count; s++) {
        uint32_t count = 1 + prop_below(rnd, SAMPLES / SOURCES), used = 1 + prop_below(rnd, SHAPES);
        for (uint32_t i = 0; i < count; i++) {
            shapes[at + i] = prop_once_in(rnd, 2) ? 0 : prop_below(rnd, used);
            tokens[at + i] = draw_tokens(rnd, kind, shapes[at + i]);
        }
        sources[s] = (stoker_batch_source){tokens + at, shapes + at, count, weighted ? 1.0 + prop_below(rnd, 9) : 0};
        at += count;
    }
    total = at;
}

static void draw(struct prop_random *rnd, bool weighted, bool budget)
{
    draw_sources(rnd, weighted);
    options = (stoker_batch_options)STOKER_BATCH_OPTIONS_INIT;
    options.ranks = 1 + prop_below(rnd, 8);
    options.cells = 1 + prop_below(rnd, 4);
    options.shape_count = SHAPES;
    options.seed = prop_next(rnd);
    options.epoch = prop_below(rnd, 5);
    options.linear_tokens = prop_once_in(rnd, 2) ? 0 : 1 + prop_below(rnd, 3000);
    if (budget) {
        options.budget_tokens = 500 + prop_below(rnd, 8000);
        options.budget_samples = prop_once_in(rnd, 2) ? 0 : 1 + prop_below(rnd, 6);
        if (prop_once_in(rnd, 3)) options.flags |= STOKER_BATCH_MIX_SHAPES;
    }
    if (prop_once_in(rnd, 4)) options.flags |= STOKER_BATCH_NO_SHUFFLE;
    uint32_t least = STOKER_BATCH_WINDOW_STEPS * options.cells * options.ranks;
    if (prop_once_in(rnd, 2)) options.window_samples = least + prop_below(rnd, least);
    if (weighted) options.samples = 1 + prop_below(rnd, 2 * total);
    if (!budget && prop_once_in(rnd, 4)) options.flags |= STOKER_BATCH_DROP_LAST;
}

static uint64_t load_of(uint32_t id)
{
    uint64_t length = tokens[id];
    return length + (options.linear_tokens ? length * length / options.linear_tokens : 0);
}

static void check_loads(const stoker_batch_window *w)
{
    for (uint32_t t = 0; t < w->steps; t++) {
        for (uint32_t r = 0; r < w->ranks; r++) {
            uint64_t load = 0;
            for (uint32_t i = 0; i < batching_rows(w, t); i++) {
                uint32_t cell = batching_cell(w, t, r, i);
                for (uint32_t k = w->cell_places[cell]; k < w->cell_places[cell + 1]; k++)
                    load += load_of(batching_id(w, w->places[k]));
            }
            PROP_CHECK(load == w->loads[t * w->ranks + r]);
        }
    }
}

static void check_cells(const stoker_batch_window *w)
{
    uint32_t empty = 0, repeats = 0;
    PROP_CHECK(w->steps > 0 && w->step_cells[0] == 0 && w->cell_places[0] == 0);
    for (uint32_t t = 0; t < w->steps; t++) {
        PROP_CHECK((w->step_cells[t + 1] - w->step_cells[t]) % w->ranks == 0); /* as many on every rank */
        PROP_CHECK(batching_rows(w, t) <= options.cells && batching_rows(w, t) > 0);
        if (options.budget_tokens) PROP_CHECK(batching_rows(w, t) == options.cells);
    }
    for (uint32_t c = 0; c < w->step_cells[w->steps]; c++) {
        uint64_t sum = 0;
        uint32_t begin = w->cell_places[c], end = w->cell_places[c + 1];
        empty += begin == end;
        for (uint32_t k = begin; k < end; k++) {
            uint32_t id = batching_id(w, w->places[k]);
            repeats += w->places[k] >= w->pool_count;
            sum += tokens[id];
            if (options.budget_tokens && !(options.flags & STOKER_BATCH_MIX_SHAPES))
                PROP_CHECK(shapes[id] == shapes[batching_id(w, w->places[begin])]);
        }
        if (options.budget_tokens) {
            PROP_CHECK(sum <= options.budget_tokens || end - begin == 1);
            PROP_CHECK(options.budget_samples == 0 || end - begin <= options.budget_samples);
        } else {
            PROP_CHECK(end - begin == 1);
        }
    }
    PROP_CHECK(empty == w->padding && repeats == w->repeats);
    PROP_CHECK(options.budget_tokens ? repeats == 0 : empty == 0);
}

/* Marks what the steps [from, to) use; *out_repeats: how many repeats. */
static void mark(const stoker_batch_window *w, uint32_t from, uint32_t to, uint32_t *seen)
{
    for (uint32_t k = w->cell_places[w->step_cells[from]]; k < w->cell_places[w->step_cells[to]]; k++)
        if (w->places[k] < w->pool_count) seen[batching_id(w, w->places[k])]++;
}

static void check_epoch(bool weighted)
{
    static uint32_t seen[SAMPLES];
    memset(seen, 0, sizeof seen);
    uint64_t used = 0, length = options.samples ? options.samples : total;
    PROP_CHECK(batching_make(&first, sources, source_count, &options, NULL) == STOKER_OK);
    while (stoker_batch_next(first.planner, &first.window, NULL) == STOKER_OK) {
        check_cells(&first.window);
        check_loads(&first.window);
        mark(&first.window, 0, first.window.steps, seen);
    }
    for (uint32_t i = 0; i < total; i++) {
        used += seen[i];
        if (!weighted) PROP_CHECK(seen[i] <= 1);
    }
    uint64_t step = (uint64_t)options.ranks * options.cells;
    PROP_CHECK(used == (options.flags & STOKER_BATCH_DROP_LAST ? length / step * step : length));
    batching_drop(&first);
}

static void prop_each_sample_once_and_ranks_alike(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, false, false);
    check_epoch(false);
}

static void prop_situation_35_budget_gives_equal_micro_batches(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, prop_once_in(&rnd, 2), true);
    check_epoch(options.samples != 0);
}

/* Passes through a source have each of its samples once; shares hold at every length. */
static void prop_weights_are_kept(uint64_t seed)
{
    static uint32_t seen[SAMPLES];
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, true, false);
    options.flags &= ~(uint32_t)STOKER_BATCH_DROP_LAST;
    check_epoch(true);
    memset(seen, 0, sizeof seen);
    double sum = 0;
    for (uint32_t s = 0; s < source_count; s++) sum += sources[s].weight;
    PROP_CHECK(batching_make(&first, sources, source_count, &options, NULL) == STOKER_OK);
    while (stoker_batch_next(first.planner, &first.window, NULL) == STOKER_OK)
        mark(&first.window, 0, first.window.steps, seen);
    for (uint32_t s = 0, id = 0; s < source_count; s++) {
        uint32_t drawn = 0, least = UINT32_MAX, most = 0;
        for (uint32_t i = 0; i < sources[s].count; i++, id++) {
            drawn += seen[id];
            least = seen[id] < least ? seen[id] : least;
            most = seen[id] > most ? seen[id] : most;
        }
        double apart = drawn - sources[s].weight / sum * (double)options.samples;
        PROP_CHECK(apart < SOURCES && apart > -SOURCES);
        PROP_CHECK(most - least <= 1);
    }
    batching_drop(&first);
}

/* Of one source: windows are cut from the order, so each has the share of each shape, up to one sample. */
static void prop_windows_keep_the_mixture(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, false, prop_once_in(&rnd, 2));
    source_count = 1;
    total = sources[0].count;
    options.window_samples = 8 * options.ranks * options.cells * (1 + prop_below(&rnd, 3));
    uint32_t whole[SHAPES] = {0};
    for (uint32_t i = 0; i < total; i++) whole[shapes[i]]++;
    PROP_CHECK(batching_make(&first, sources, 1, &options, NULL) == STOKER_OK);
    while (stoker_batch_next(first.planner, &first.window, NULL) == STOKER_OK) {
        const stoker_batch_window *w = &first.window;
        if (w->pool_count != options.window_samples || w->samples == total) continue; /* the end has what is left */
        uint32_t held[SHAPES] = {0};
        for (uint32_t i = 0; i < w->pool_count; i++) held[shapes[w->pool[i]]]++;
        for (uint32_t g = 0; g < SHAPES; g++) {
            uint64_t share = (uint64_t)whole[g] * w->pool_count, has = (uint64_t)held[g] * total;
            PROP_CHECK(has <= share + total && share <= has + total);
        }
    }
    batching_drop(&first);
}

static void compare(const stoker_batch_window *a, const stoker_batch_window *b)
{
    PROP_CHECK(a->steps == b->steps && a->pool_count == b->pool_count && a->windows == b->windows);
    PROP_CHECK(memcmp(a->step_cells, b->step_cells, (a->steps + 1) * sizeof(uint32_t)) == 0);
    uint32_t cells = a->step_cells[a->steps];
    PROP_CHECK(memcmp(a->cell_places, b->cell_places, (cells + 1) * sizeof(uint32_t)) == 0);
    PROP_CHECK(memcmp(a->places, b->places, a->cell_places[cells] * sizeof(uint32_t)) == 0);
    PROP_CHECK(memcmp(a->pool, b->pool, a->pool_count * sizeof(uint32_t)) == 0);
}

/* The same on every rank; another number of ranks changes neither the order nor the windows. */
static void prop_plans_are_the_same_everywhere(uint64_t seed)
{
    static uint32_t order[2][KEPT];
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, prop_once_in(&rnd, 2), prop_once_in(&rnd, 2));
    if (options.samples > KEPT) options.samples = KEPT;
    PROP_CHECK(batching_make(&first, sources, source_count, &options, NULL) == STOKER_OK);
    PROP_CHECK(batching_make(&second, sources, source_count, &options, NULL) == STOKER_OK);
    for (;;) {
        stoker_status status = stoker_batch_next(first.planner, &first.window, NULL);
        PROP_CHECK(stoker_batch_next(second.planner, &second.window, NULL) == status);
        if (status == STOKER_END) break;
        compare(&first.window, &second.window);
    }
    batching_drop(&first), batching_drop(&second);

    options.budget_tokens = 5000; /* its pools are the windows themselves */
    if (!options.window_samples) options.window_samples = 600;
    for (int run = 0; run < 2; run++) {
        uint32_t count = 0;
        PROP_CHECK(batching_make(&first, sources, source_count, &options, NULL) == STOKER_OK);
        while (stoker_batch_next(first.planner, &first.window, NULL) == STOKER_OK)
            for (uint32_t i = 0; i < first.window.pool_count; i++) order[run][count++] = first.window.pool[i];
        batching_drop(&first);
        for (; count < KEPT; count++) order[run][count] = UINT32_MAX;
        options.ranks = 1 + prop_below(&rnd, 16);
    }
    PROP_CHECK(memcmp(order[0], order[1], sizeof order[0]) == 0);
}

/* Stops after any step; another number of ranks goes on with what the open window has left. */
static void prop_b8_resume_uses_each_sample_once(uint64_t seed)
{
    static uint32_t seen[SAMPLES], left[SAMPLES * 2];
    static uint8_t used[SAMPLES * 2];
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, false, prop_once_in(&rnd, 2));
    options.flags &= ~(uint32_t)STOKER_BATCH_DROP_LAST;
    if (!options.window_samples) options.window_samples = 8 * options.ranks * options.cells;
    memset(seen, 0, sizeof seen);
    bool ended = false;
    for (int run = 0; run < 4 && !ended; run++) {
        static uint32_t pool[SAMPLES * 2];
        static uint64_t windows;
        static uint32_t pool_count;
        if (run > 0) {
            options.ranks = 1 + prop_below(&rnd, 8);
            options.pool_samples = pool_count + 1;
        }
        PROP_CHECK(batching_make(&first, sources, source_count, &options, NULL) == STOKER_OK);
        if (run > 0) {
            PROP_CHECK(stoker_batch_skip(first.planner, windows, NULL) == STOKER_OK);
            PROP_CHECK(stoker_batch_open(first.planner, pool, pool_count, NULL) == STOKER_OK);
        }
        uint32_t stop = run == 3 ? UINT32_MAX : 1 + prop_below(&rnd, 40);
        for (;;) {
            stoker_status status = stoker_batch_next(first.planner, &first.window, NULL);
            if (status == STOKER_END) {
                ended = true;
                break;
            }
            PROP_CHECK(status == STOKER_OK);
            check_cells(&first.window);
            uint32_t steps = stop < first.window.steps ? stop : first.window.steps;
            mark(&first.window, 0, steps, seen);
            stop -= steps;
            if (stop > 0) continue;
            const stoker_batch_window *w = &first.window;
            memset(used, 0, sizeof used);
            for (uint32_t k = 0; k < w->cell_places[w->step_cells[steps]]; k++)
                if (w->places[k] < w->pool_count) used[w->places[k]] = 1;
            pool_count = 0;
            for (uint32_t i = 0; i < w->pool_count; i++)
                if (!used[i]) left[pool_count++] = w->pool[i];
            memcpy(pool, left, pool_count * sizeof *pool);
            windows = w->windows;
            break;
        }
        batching_drop(&first);
    }
    PROP_CHECK(ended);
    for (uint32_t i = 0; i < total; i++) PROP_CHECK(seen[i] == 1);
}

/* Cells of one step, all shapes, against every way to give them out. */
static void prop_small_steps_are_near_their_optimum(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, false, false);
    options.linear_tokens = 0;
    options.window_samples = 0;
    options.ranks = 2 + prop_below(&rnd, 3);
    options.cells = 1 + prop_below(&rnd, options.ranks == 2 ? 6 : 4);
    PROP_CHECK(batching_make(&first, sources, source_count, &options, NULL) == STOKER_OK);
    for (int window = 0; window < 2; window++) {
        const stoker_batch_window *w = &first.window;
        if (stoker_batch_next(first.planner, &first.window, NULL) != STOKER_OK) break;
        for (uint32_t t = 0; t < w->steps && t < 6; t++) {
            uint64_t loads[16];
            uint32_t begin = w->step_cells[t], end = w->step_cells[t + 1];
            for (uint32_t c = begin; c < end; c++)
                loads[c - begin] = load_of(batching_id(w, w->places[w->cell_places[c]]));
            qsort(loads, end - begin, sizeof loads[0], batching_falling);
            uint64_t best = batching_optimum(loads, w->ranks, batching_rows(w, t));
            PROP_CHECK(batching_most(w, t) * 100 <= best * 105);
        }
    }
    batching_drop(&first);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_each_sample_once_and_ranks_alike", prop_each_sample_once_and_ranks_alike, 300},
        {"prop_situation_35_budget_gives_equal_micro_batches", prop_situation_35_budget_gives_equal_micro_batches, 300},
        {"prop_weights_are_kept", prop_weights_are_kept, 300},
        {"prop_windows_keep_the_mixture", prop_windows_keep_the_mixture, 300},
        {"prop_plans_are_the_same_everywhere", prop_plans_are_the_same_everywhere, 300},
        {"prop_b8_resume_uses_each_sample_once", prop_b8_resume_uses_each_sample_once, 300},
        {"prop_small_steps_are_near_their_optimum", prop_small_steps_are_near_their_optimum, 100},
    };
    return prop_main(props, sizeof props / sizeof props[0], argc, argv);
}
