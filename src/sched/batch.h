/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the planner of token-aware batches (include/stoker/batch.h).
 *
 *     batch.c         checks, memory, windows one after the other, resume
 *     batch_draw.c    order: sources by weight, shapes in proportion, one window at a time
 *     batch_cell.c    micro-batches under a budget
 *     batch_anchor.c  steps around samples that outweigh the mean
 *     batch_step.c    cells to rows of alike ones, rows to steps
 *     batch_rank.c    cells of a step to ranks
 *
 * Pure: integers decide, but for the shares of sources; ties go to the lower source, shape, place or rank.
 */
#ifndef STK_SCHED_BATCH_H
#define STK_SCHED_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/batch.h>

#include "base/limits.h"
#include "base/rng.h"
#include "sched/pack_room.h"

struct stk_batch_source {
    const uint32_t *tokens, *shapes;
    uint32_t count, first_id;
    double weight;        /* share; sums to 1 */
    uint64_t drawn;       /* in the epoch */
    uint64_t since_drawn; /* since the weights changed last */
    uint32_t quota;       /* of the window that is being drawn */
};

/* The samples of one shape of one source: list[first, first + count). */
struct stk_batch_stratum {
    uint32_t first, count;
    uint64_t drawn;
    uint32_t quota, used; /* of the window that is being drawn */
};

/* Cells and what they hold. Lists of samples are chains of places. */
struct stk_batch_cells {
    uint64_t *load;
    uint32_t *shape; /* shape_count: mixed or empty */
    uint32_t *head, *samples;
    uint32_t count;
    uint32_t *next; /* of each place */
};

struct stoker_batch_planner {
    stoker_batch_options options; /* defaults filled in */
    uint32_t source_count, total;
    struct stk_batch_source *sources;
    struct stk_batch_stratum *strata; /* source * shape_count + shape */
    uint32_t *list;                   /* ids in their source */
    bool by_count;                    /* no weights: each source once */
    bool opened;                      /* the pool was given: plan it before anything is drawn */
    uint64_t drawn, weighed_at, windows;

    uint32_t pool_cap, pool_count; /* samples of the window in hand, behind those left of the one before */
    uint32_t pool_used;            /* from the front; none of them is in the next pool */
    uint32_t *pool;
    uint64_t *pool_load;
    uint32_t *pool_tokens, *pool_shape;

    struct stk_batch_cells cells;
    uint32_t *rows;      /* ranks cells each */
    uint32_t *row_shape; /* shape_count: mixed */
    uint32_t row_count;
    uint32_t *row_order; /* step t: those from t * cells on */
    uint64_t *row_sum, *step_peak, *step_excess;

    uint64_t *keys; /* scratch, one entry a place or stratum */
    uint32_t *order, *scratch, *left, *counts;
    struct stk_rooms rooms;
    uint64_t *room;
    struct stk_room_links *links;
    uint64_t *rank_load, *rank_keys;
    uint32_t *rank_order, *rank_scratch, *rank_name;
    uint32_t *held; /* rank * cells + row: the cell */

    /* what the window shows */
    uint32_t *step_cells, *cell_places, *places;
    uint64_t *loads;
    uint32_t steps, cell_count, place_count, repeats, padding;
};

#define STK_BATCH_END UINT32_MAX /* of a chain */

/* Draws the next window behind what the pool holds. */
stoker_status stk_batch_draw(struct stoker_batch_planner *planner, stoker_error *err);
/* Source and place in it of a sample. */
const struct stk_batch_source *stk_batch_find(const struct stoker_batch_planner *planner, uint32_t id,
                                              uint32_t *out_index);
/* Fills load, tokens and shape of a place of the pool from its id. */
void stk_batch_describe(struct stoker_batch_planner *planner, uint32_t place);

/* Micro-batches of the places [0, count) under the budget, made a multiple of `multiple` by splitting, then by empty
 * ones. */
void stk_batch_fill(struct stoker_batch_planner *planner, uint32_t count, uint32_t multiple);

/* Cells of one shape by falling load: takes those of steps around the dearest ones, whole steps, and appends their
 * rows. The cells left move to the front of `sorted`, in their order. Returns how many were taken; 0 of several
 * shapes. */
uint32_t stk_batch_anchor(struct stoker_batch_planner *planner, uint32_t *sorted, uint32_t count);

/* Steps of the cells [first, first + count), a multiple of ranks: full ones, the last may have fewer rows. */
void stk_batch_steps(struct stoker_batch_planner *planner, uint32_t first, uint32_t count, struct stk_rng *rng);

/* One step: row r is `ranks` cells from rows[r * ranks] on, in falling order of load. Fills held and rank_load.
 * `search`: look through small steps too, which takes longer than all the rest. */
void stk_batch_assign(struct stoker_batch_planner *planner, const uint32_t *row_list, uint32_t row_count, bool search);

#endif
