/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of sources whose samples differ in size: where each sample's rows begin, and what stands in the place of bad
 * ones.
 *
 * The layout of such a batch follows from its ids, so a bad sample cannot be overwritten by another: the batch is
 * made to its end, its bad places get other ids, and it is laid out and made again in fresh memory. Which ids those are
 * depends on which samples are bad and on nothing else (rule C1): SKIP takes the good sample before the place, else the
 * one after it, REPLACE the next ids of the source.
 */
#ifndef STK_PLANE_RAGGED_H
#define STK_PLANE_RAGGED_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

#include "source/source.h"

struct stk_ragged_place {
    uint64_t planned, planned_draw; /* what was asked for */
    uint64_t id, draw;              /* what is made */
    uint64_t row;                   /* where its rows begin */
    uint32_t from;                  /* SKIP: the place whose sample it is */
    uint32_t tries;                 /* REPLACE: ids after the planned one */
    bool bad;                       /* its present sample failed */
};

struct stk_ragged {
    uint32_t count;
    uint32_t bad; /* places marked since the last layout */
    uint64_t rows;
    struct stk_ragged_place place[];
};

/* NO_MEMORY. The ids and draws of the places are then filled in by the caller, before the layout. */
stoker_status stk_ragged_create(uint32_t count, struct stk_ragged **out_ragged, stoker_error *err);
void stk_ragged_destroy(struct stk_ragged *ragged); /* NULL allowed */

/* Rows of all places, and the layout of the batch. */
stoker_status stk_ragged_lay_out(struct stk_ragged *ragged, const struct stoker_source *source,
                                 struct stk_batch_layout *out_layout, stoker_error *err);

/* The sample that is made at this place is bad. */
void stk_ragged_mark(struct stk_ragged *ragged, uint32_t index);

/* Other ids for the marked places by a policy (SKIP or REPLACE of sched/dispatch.h), of a source of `count` samples.
 * *out_skipped: places that do not hold what was asked for. False if there is nothing to take: the batch fails. */
bool stk_ragged_substitute(struct stk_ragged *ragged, uint32_t policy, uint64_t count, uint32_t *out_skipped);

#endif
