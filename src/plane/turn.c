/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts batches and their parts: see turn.h.
 */
#include "plane/turn.h"

bool stk_turn_take(struct stk_turn *turn, uint32_t part, uint32_t parts, uint64_t *out_batch)
{
    if (parts == 0) parts = 1;
    if (part >= parts || (part > 0 && (part != turn->part || parts != turn->parts))) return false;
    if (part == 0 && turn->part > 0) turn->batch++;
    *out_batch = turn->batch;
    bool last = part + 1 == parts;
    turn->batch += last;
    turn->part = last ? 0 : part + 1;
    turn->parts = parts;
    return true;
}
