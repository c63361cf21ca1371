/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro-batches under a token budget: the longest sample first, each into the fullest micro-batch of its shape that has
 * room for it. A sample over the budget has one of its own. Every rank must get as many micro-batches as the others
 * (row 35 of docs/explanation/situations.md): the dearest ones are split until their number is a multiple, and where
 * there are too few samples for that, empty ones are added.
 */
#include "sched/batch.h"

#include "base/assert.h"
#include "sched/pack.h"

static uint32_t add_cell(struct stk_batch_cells *cells, uint32_t shape)
{
    uint32_t cell = cells->count++;
    cells->load[cell] = 0;
    cells->shape[cell] = shape;
    cells->head[cell] = STK_BATCH_END;
    cells->samples[cell] = 0;
    return cell;
}

static void put(struct stoker_batch_planner *planner, uint32_t cell, uint32_t place)
{
    struct stk_batch_cells *cells = &planner->cells;
    cells->next[place] = cells->head[cell];
    cells->head[cell] = place;
    cells->samples[cell]++;
    cells->load[cell] += planner->pool_load[place];
}

/* The places of `order`, all of one shape, longest first. */
static void fill_shape(struct stoker_batch_planner *planner, const uint32_t *order, uint32_t count, uint32_t shape)
{
    uint64_t budget = planner->options.budget_tokens;
    uint32_t most = planner->options.budget_samples;
    stk_rooms_init(&planner->rooms, planner->room, planner->links, budget);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t tokens = planner->pool_tokens[order[i]];
        uint32_t cell = tokens > budget ? STK_ROOM_NONE : stk_rooms_find(&planner->rooms, tokens);
        uint64_t room = budget;
        if (cell == STK_ROOM_NONE) {
            cell = add_cell(&planner->cells, shape);
        } else {
            room = planner->room[cell];
            stk_rooms_remove(&planner->rooms, cell);
        }
        put(planner, cell, order[i]);
        if (tokens < room && (most == 0 || planner->cells.samples[cell] < most))
            stk_rooms_insert(&planner->rooms, cell, room - tokens);
    }
}

/* Halves: the samples of the cell go to the lighter of it and a new one, dearest first. */
static void split(struct stoker_batch_planner *planner, uint32_t cell)
{
    struct stk_batch_cells *cells = &planner->cells;
    uint32_t count = 0, other = add_cell(cells, cells->shape[cell]);
    for (uint32_t place = cells->head[cell]; place != STK_BATCH_END; place = cells->next[place], count++) {
        planner->left[count] = place;
        planner->keys[count] = planner->pool_load[place];
    }
    cells->load[cell] = 0, cells->head[cell] = STK_BATCH_END, cells->samples[cell] = 0;
    stk_pack_sort(planner->keys, count, planner->order, planner->scratch);
    for (uint32_t i = 0; i < count; i++) {
        bool second = cells->load[other] < cells->load[cell];
        put(planner, second ? other : cell, planner->left[planner->order[i]]);
    }
}

/* The dearest cell of two samples or more. */
static uint32_t find_divisible(const struct stk_batch_cells *cells)
{
    uint32_t best = STK_BATCH_END;
    for (uint32_t i = 0; i < cells->count; i++)
        if (cells->samples[i] > 1 && (best == STK_BATCH_END || cells->load[i] > cells->load[best])) best = i;
    return best;
}

/* Places in falling order of tokens, those of one shape together, shapes in rising order. */
static void sort_by_shape(struct stoker_batch_planner *planner, uint32_t count, uint32_t *out)
{
    uint32_t shapes = planner->options.shape_count;
    for (uint32_t i = 0; i < count; i++) planner->keys[i] = planner->pool_tokens[i];
    stk_pack_sort(planner->keys, count, planner->order, planner->scratch);
    for (uint32_t g = 0; g <= shapes; g++) planner->counts[g] = 0;
    for (uint32_t i = 0; i < count; i++) planner->counts[planner->pool_shape[i] + 1]++;
    for (uint32_t g = 0; g < shapes; g++) planner->counts[g + 1] += planner->counts[g];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = planner->order[i];
        out[planner->counts[planner->pool_shape[place]]++] = place;
    }
}

void stk_batch_fill(struct stoker_batch_planner *planner, uint32_t count, uint32_t multiple)
{
    struct stk_batch_cells *cells = &planner->cells;
    cells->count = 0;
    if (planner->options.flags & STOKER_BATCH_MIX_SHAPES) {
        for (uint32_t i = 0; i < count; i++) planner->keys[i] = planner->pool_tokens[i];
        stk_pack_sort(planner->keys, count, planner->left, planner->scratch);
        fill_shape(planner, planner->left, count, planner->options.shape_count);
    } else {
        sort_by_shape(planner, count, planner->left);
        for (uint32_t first = 0, end; first < count; first = end) {
            uint32_t shape = planner->pool_shape[planner->left[first]];
            for (end = first; end < count && planner->pool_shape[planner->left[end]] == shape;) end++;
            fill_shape(planner, planner->left + first, end - first, shape);
        }
    }
    while (cells->count % multiple) {
        uint32_t dearest = find_divisible(cells);
        if (dearest == STK_BATCH_END) break;
        split(planner, dearest);
    }
    for (; cells->count % multiple; planner->padding++) (void)add_cell(cells, planner->options.shape_count);
}
