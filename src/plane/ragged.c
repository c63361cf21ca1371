/* SPDX-License-Identifier: Apache-2.0
 *
 * See ragged.h.
 */
#include "plane/ragged.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/dispatch.h"

stoker_status stk_ragged_create(uint32_t count, struct stk_ragged **out_ragged, stoker_error *err)
{
    STK_ASSERT(count >= 1 && count <= STK_BATCH_SAMPLES_MAX);
    struct stk_ragged *ragged = calloc(1, sizeof *ragged + count * sizeof ragged->place[0]);
    if (!ragged) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the places of a batch of %u samples", count);
    ragged->count = count;
    for (uint32_t i = 0; i < count; i++) ragged->place[i].from = i;
    *out_ragged = ragged;
    return STOKER_OK;
}

void stk_ragged_destroy(struct stk_ragged *ragged) { free(ragged); }

stoker_status stk_ragged_lay_out(struct stk_ragged *ragged, const struct stoker_source *source,
                                 struct stk_batch_layout *out_layout, stoker_error *err)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < ragged->count; i++) {
        ragged->place[i].row = rows;
        if (!stk_add_size(rows, (size_t)stk_source_rows(source, ragged->place[i].id), &rows))
            return stk_fail(err, STOKER_ERR_LIMIT, "a batch of %u samples has too many rows", ragged->count);
    }
    ragged->rows = rows;
    const struct stk_batch_extent extent = {ragged->count, rows};
    return stk_source_layout_rows(source, &extent, out_layout, err);
}

void stk_ragged_mark(struct stk_ragged *ragged, uint32_t index)
{
    STK_ASSERT(index < ragged->count);
    struct stk_ragged_place *place = &ragged->place[ragged->place[index].from];
    ragged->place[index].bad = true;
    place->bad = true; /* a copy is as bad as what it copies, and the other way round */
    ragged->bad++;
}

static bool take_neighbours(struct stk_ragged *ragged, uint32_t *out_skipped)
{
    uint32_t source = ragged->count, skipped = 0;
    for (uint32_t i = 0; i < ragged->count && source == ragged->count; i++)
        if (!ragged->place[i].bad) source = i;
    if (source == ragged->count) return false;
    for (uint32_t i = 0; i < ragged->count; i++) {
        struct stk_ragged_place *place = &ragged->place[i];
        if (!place->bad) source = i;
        skipped += place->bad;
        place->from = source;
        place->id = ragged->place[source].planned;
        place->draw = ragged->place[source].planned_draw;
    }
    *out_skipped = skipped;
    return true;
}

static bool take_next_ids(struct stk_ragged *ragged, uint64_t count, uint32_t *out_skipped)
{
    uint32_t skipped = 0;
    for (uint32_t i = 0; i < ragged->count; i++) {
        struct stk_ragged_place *place = &ragged->place[i];
        if (place->bad && place->tries++ == STK_REPLACE_TRIES) return false;
        place->bad = false;
        place->id = (place->planned + place->tries) % count;
        skipped += place->tries > 0;
    }
    *out_skipped = skipped;
    return true;
}

bool stk_ragged_substitute(struct stk_ragged *ragged, uint32_t policy, uint64_t count, uint32_t *out_skipped)
{
    ragged->bad = 0;
    if (policy == STK_POLICY_SKIP) return take_neighbours(ragged, out_skipped);
    STK_ASSERT(policy == STK_POLICY_REPLACE);
    return take_next_ids(ragged, count, out_skipped);
}
