/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells to rows, rows to steps. A row is one cell for each rank, alike ones: of one shape, neighbours in load. What a
 * shape has beyond whole rows goes into rows of mixed shapes, again neighbours in load. The rows of each shape are
 * spread evenly over the steps of the window in a random order, so that no step is of long samples only and none sorted
 * by length comes first. Where one cell outweighs what the other ranks can get in its step, the step exchanges a light
 * row for a heavy one of another, as long as both together wait less.
 */
#include "sched/batch.h"

#include "base/assert.h"
#include "sched/pack.h"

/* Steps that wait for less than a fiftieth of their load stay as they are. */
#define EXCESS_SHARE 50u
#define PARTNERS 16u

static void add_row(struct stoker_batch_planner *planner, const uint32_t *cells, uint32_t shape)
{
    uint32_t *row = planner->rows + (size_t)planner->row_count * planner->options.ranks;
    for (uint32_t r = 0; r < planner->options.ranks; r++) row[r] = cells[r];
    planner->row_shape[planner->row_count++] = shape;
}

/* Cells first ... first + count - 1 in falling order of load, those of one shape together, in out. */
static void sort_cells(struct stoker_batch_planner *planner, uint32_t first, uint32_t count, uint32_t *out)
{
    const struct stk_batch_cells *cells = &planner->cells;
    uint32_t shapes = planner->options.shape_count;
    for (uint32_t i = 0; i < count; i++) planner->keys[i] = cells->load[first + i];
    stk_pack_sort(planner->keys, count, planner->order, planner->scratch);
    for (uint32_t g = 0; g < shapes + 2; g++) planner->counts[g] = 0;
    for (uint32_t i = 0; i < count; i++) planner->counts[cells->shape[first + i] + 1]++;
    for (uint32_t g = 0; g < shapes + 1; g++) planner->counts[g + 1] += planner->counts[g];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cell = first + planner->order[i];
        out[planner->counts[cells->shape[cell]]++] = cell;
    }
}

/* Returns how many rows belong to steps already: they come first. */
static uint32_t make_rows(struct stoker_batch_planner *planner, uint32_t first, uint32_t count)
{
    const struct stk_batch_cells *cells = &planner->cells;
    uint32_t ranks = planner->options.ranks, *sorted = planner->left, left = 0;
    STK_ASSERT(ranks > 0);
    planner->row_count = 0;
    sort_cells(planner, first, count, sorted);
    count -= stk_batch_anchor(planner, sorted, count);
    uint32_t anchored = planner->row_count;
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        uint32_t shape = cells->shape[sorted[begin]];
        for (end = begin; end < count && cells->shape[sorted[end]] == shape;) end++;
        for (; end - begin >= ranks; begin += ranks) add_row(planner, sorted + begin, shape);
        while (begin < end) sorted[left++] = sorted[begin++]; /* never ahead of what is still to be read */
    }
    for (uint32_t i = 0; i < left; i++) planner->keys[i] = cells->load[sorted[i]];
    stk_pack_sort(planner->keys, left, planner->order, planner->scratch);
    for (uint32_t i = 0; i < left; i++) planner->scratch[i] = sorted[planner->order[i]];
    STK_ASSERT(left % ranks == 0);
    for (uint32_t i = 0; i < left; i += ranks) add_row(planner, planner->scratch + i, planner->options.shape_count);
    return anchored;
}

/* Rows come shape by shape: each of them shuffled, then spread. The first ones have their places. */
static void order_rows(struct stoker_batch_planner *planner, uint32_t first, struct stk_rng *rng)
{
    uint32_t rows = planner->row_count, *name = planner->left;
    for (uint32_t i = 0; i < rows; i++) name[i] = i;
    for (uint32_t begin = first, end; begin < rows; begin = end) {
        for (end = begin; end < rows && planner->row_shape[end] == planner->row_shape[begin];) end++;
        uint64_t start = stk_rng_next(rng) >> 32;
        for (uint32_t i = end - begin; i > 1; i--) {
            uint32_t other = begin + (uint32_t)stk_rng_below(rng, i), swap = name[begin + i - 1];
            name[begin + i - 1] = name[other];
            name[other] = swap;
        }
        for (uint32_t i = begin; i < end; i++)
            planner->keys[i] = ~((((uint64_t)(i - begin) << 32) + start) / (end - begin));
    }
    stk_pack_sort(planner->keys + first, rows - first, planner->order, planner->scratch);
    for (uint32_t i = 0; i < first; i++) planner->row_order[i] = i;
    for (uint32_t i = first; i < rows; i++) planner->row_order[i] = name[first + planner->order[i - first]];
}

static uint32_t rows_of(const struct stoker_batch_planner *planner, uint32_t step)
{
    uint32_t left = planner->row_count - step * planner->options.cells;
    return left < planner->options.cells ? left : planner->options.cells;
}

static uint64_t sum_of(const struct stoker_batch_planner *planner, uint32_t step)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < rows_of(planner, step); i++)
        sum += planner->row_sum[planner->row_order[step * planner->options.cells + i]];
    return sum;
}

/* The largest load of the step, as it is assigned now. */
static uint64_t peak_of(struct stoker_batch_planner *planner, uint32_t step)
{
    uint64_t peak = 0;
    stk_batch_assign(planner, planner->row_order + (size_t)step * planner->options.cells, rows_of(planner, step),
                     false);
    for (uint32_t r = 0; r < planner->options.ranks; r++)
        if (planner->rank_load[r] > peak) peak = planner->rank_load[r];
    return peak;
}

/* What the ranks of the step wait for one another, together. */
static void measure(struct stoker_batch_planner *planner, uint32_t step)
{
    planner->step_peak[step] = peak_of(planner, step);
    uint64_t sum = sum_of(planner, step), waited = planner->step_peak[step] * planner->options.ranks - sum;
    planner->step_excess[step] = waited > sum / EXCESS_SHARE ? waited : 0;
}

/* Where in row_order the lightest or the heaviest row of the step is. */
static uint32_t find_row(const struct stoker_batch_planner *planner, uint32_t step, bool heaviest)
{
    uint32_t first = step * planner->options.cells, best = first;
    for (uint32_t i = first + 1; i < first + rows_of(planner, step); i++) {
        uint64_t sum = planner->row_sum[planner->row_order[i]], known = planner->row_sum[planner->row_order[best]];
        if (heaviest ? sum > known : sum < known) best = i;
    }
    return best;
}

static void swap_rows(struct stoker_batch_planner *planner, uint32_t a, uint32_t b)
{
    uint32_t row = planner->row_order[a];
    planner->row_order[a] = planner->row_order[b];
    planner->row_order[b] = row;
}

/* Gives the step the heavy row of another if the peaks of both then sum up to less; false if no partner is found. */
static bool exchange_rows(struct stoker_batch_planner *planner, uint32_t step, uint32_t steps)
{
    uint32_t light = find_row(planner, step, false), best_row = 0, best_step = step;
    uint64_t best_gain = 0;
    for (uint32_t i = 1; i < steps && i <= PARTNERS; i++) {
        uint32_t other = (step + i) % steps, heavy = find_row(planner, other, true);
        if (planner->row_sum[planner->row_order[heavy]] <= planner->row_sum[planner->row_order[light]]) continue;
        uint64_t before = planner->step_peak[step] + planner->step_peak[other];
        swap_rows(planner, light, heavy);
        uint64_t after = peak_of(planner, step) + peak_of(planner, other);
        swap_rows(planner, light, heavy);
        if (after < before && before - after > best_gain)
            best_gain = before - after, best_row = heavy, best_step = other;
    }
    if (best_step == step) return false;
    swap_rows(planner, light, best_row);
    measure(planner, step);
    measure(planner, best_step);
    return true;
}

static void level_steps(struct stoker_batch_planner *planner, uint32_t steps)
{
    for (uint32_t r = 0; r < planner->row_count; r++) {
        planner->row_sum[r] = 0;
        for (uint32_t i = 0; i < planner->options.ranks; i++)
            planner->row_sum[r] += planner->cells.load[planner->rows[(size_t)r * planner->options.ranks + i]];
    }
    for (uint32_t t = 0; t < steps; t++) measure(planner, t);
    for (uint32_t round = 0; round < 2 * steps; round++) {
        uint32_t worst = 0;
        for (uint32_t t = 1; t < steps; t++)
            if (planner->step_excess[t] > planner->step_excess[worst]) worst = t;
        if (planner->step_excess[worst] == 0) return;
        if (!exchange_rows(planner, worst, steps)) planner->step_excess[worst] = 0; /* as good as it gets */
    }
}

/* Full steps in a random order. */
static void shuffle_steps(struct stoker_batch_planner *planner, uint32_t steps, struct stk_rng *rng)
{
    uint32_t cells = planner->options.cells;
    for (uint32_t t = steps; t > 1; t--) {
        uint32_t other = (uint32_t)stk_rng_below(rng, t);
        for (uint32_t i = 0; i < cells; i++) swap_rows(planner, (t - 1) * cells + i, other * cells + i);
    }
}

/* Appends the step that held[] and rank_load[] describe, its ranks renamed at random: the rank that the rule gives the
 * heavier part is another one in each step. Micro-batches of a rank in falling order of load, so that the k-th are
 * alike on all ranks. */
static void write_step(struct stoker_batch_planner *planner, uint32_t row_count, struct stk_rng *rng)
{
    const struct stk_batch_cells *cells = &planner->cells;
    uint32_t ranks = planner->options.ranks, *name = planner->rank_name;
    for (uint32_t r = 0; r < ranks; r++) name[r] = r;
    for (uint32_t i = ranks; i > 1; i--) {
        uint32_t other = (uint32_t)stk_rng_below(rng, i), swap = name[i - 1];
        name[i - 1] = name[other];
        name[other] = swap;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t *held = planner->held + (size_t)name[r] * planner->options.cells;
        planner->loads[(size_t)planner->steps * ranks + r] = planner->rank_load[name[r]];
        for (uint32_t i = 0; i < row_count; i++) planner->keys[i] = cells->load[held[i]];
        stk_pack_sort(planner->keys, row_count, planner->order, planner->scratch);
        for (uint32_t i = 0; i < row_count; i++) {
            uint32_t place = cells->head[held[planner->order[i]]];
            for (; place != STK_BATCH_END; place = cells->next[place]) planner->places[planner->place_count++] = place;
            planner->cell_places[++planner->cell_count] = planner->place_count;
        }
    }
    planner->step_cells[++planner->steps] = planner->cell_count;
}

void stk_batch_steps(struct stoker_batch_planner *planner, uint32_t first, uint32_t count, struct stk_rng *rng)
{
    uint32_t anchored = make_rows(planner, first, count);
    order_rows(planner, anchored, rng);
    uint32_t steps = (planner->row_count + planner->options.cells - 1) / planner->options.cells;
    if (planner->options.ranks > 1 && planner->options.cells > 1) level_steps(planner, steps);
    if (anchored > 0) shuffle_steps(planner, steps, rng);
    for (uint32_t t = 0; t < steps; t++) {
        stk_batch_assign(planner, planner->row_order + (size_t)t * planner->options.cells, rows_of(planner, t), true);
        write_step(planner, rows_of(planner, t), rng);
    }
}
