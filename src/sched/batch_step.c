/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells to rows, rows to steps. A row is one cell for each rank, alike ones: of one shape, neighbours in load. What a
 * shape has beyond whole rows goes into rows of mixed shapes, again neighbours in load. The rows of each shape are
 * spread evenly over the steps of the window in a random order, so that no step is of long samples only and none sorted
 * by length comes first.
 */
#include "sched/batch.h"

#include "base/assert.h"
#include "sched/pack.h"

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

static void make_rows(struct stoker_batch_planner *planner, uint32_t first, uint32_t count)
{
    const struct stk_batch_cells *cells = &planner->cells;
    uint32_t ranks = planner->options.ranks, *sorted = planner->left, left = 0;
    planner->row_count = 0;
    sort_cells(planner, first, count, sorted);
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
}

/* Rows come shape by shape: each of them shuffled, then spread. */
static void order_rows(struct stoker_batch_planner *planner, struct stk_rng *rng)
{
    uint32_t rows = planner->row_count, *name = planner->left;
    for (uint32_t i = 0; i < rows; i++) name[i] = i;
    for (uint32_t begin = 0, end; begin < rows; begin = end) {
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
    stk_pack_sort(planner->keys, rows, planner->order, planner->scratch);
    for (uint32_t i = 0; i < rows; i++) planner->row_order[i] = name[planner->order[i]];
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
    make_rows(planner, first, count);
    order_rows(planner, rng);
    for (uint32_t at = 0; at < planner->row_count; at += planner->options.cells) {
        uint32_t rows = planner->row_count - at;
        if (rows > planner->options.cells) rows = planner->options.cells;
        stk_batch_assign(planner, planner->row_order + at, rows);
        write_step(planner, rows, rng);
    }
}
