/* SPDX-License-Identifier: Apache-2.0
 *
 * Which batch of an iteration a request belongs to. A batch may be asked for in parts (fan_out), each a request of its
 * own that follows the one before; the rank waits for all of them at once, so windows and deadlines count batches, not
 * requests (rule D1). Client and DataServer count alike, each for itself.
 *
 * A first part begins a batch also where the one before was not asked for completely: its rank gave up in the middle.
 */
#ifndef STK_PLANE_TURN_H
#define STK_PLANE_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct stk_turn {   /* all 0 at the beginning of an iteration */
    uint64_t batch; /* of the next request, unless that begins another one */
    uint32_t part, parts;
};

/* Request `part` of `parts` (0: 1) comes now: false, with nothing changed, if that cannot be, else its batch. */
bool stk_turn_take(struct stk_turn *turn, uint32_t part, uint32_t parts, uint64_t *out_batch);

#endif
