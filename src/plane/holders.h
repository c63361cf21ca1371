/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes were given what (rule A4): a table of the processes alive, and chains of (process, count) that say
 * who still works on a slab. Counted, because a worker may be given the same slab for several samples.
 *
 * Fixed tables: every entry comes from a pool that is sized for the limits, so giving a slab can never fail half-way.
 */
#ifndef STK_PLANE_HOLDERS_H
#define STK_PLANE_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define STK_HOLDERS_NONE UINT32_MAX
/* Ranks and workers alive, and as many again that were killed and not yet reaped. */
#define STK_HOLDER_PROCESSES 2560u
/* Each delivered slab has one rank; each worker a few slabs in work. */
#define STK_HOLDER_ENTRIES (32768u + 16u * STK_WORKERS_MAX)

struct stk_holder {
    uint32_t process, count, next;
};

struct stk_holders {
    uint32_t processes[STK_HOLDER_PROCESSES]; /* by slot */
    uint8_t slot_state[STK_HOLDER_PROCESSES];
    struct stk_holder entries[STK_HOLDER_ENTRIES];
    uint32_t free_entry, entries_touched;
};

/* The table starts as zeroes, then: */
void stk_holders_init(struct stk_holders *holders);

/* The slot (below STK_HOLDER_PROCESSES) of a process, which is entered if it is new. */
uint32_t stk_holders_slot(struct stk_holders *holders, uint32_t process);
/* Takes a process out of the table; its slot, or STK_HOLDERS_NONE if it was never entered. */
uint32_t stk_holders_forget(struct stk_holders *holders, uint32_t process);

/* A chain starts as STK_HOLDERS_NONE. */
void stk_holders_add(struct stk_holders *holders, uint32_t *chain, uint32_t process);
/* Drops one count, or all with `all`; false if the process is not in the chain. */
bool stk_holders_drop(struct stk_holders *holders, uint32_t *chain, uint32_t process, bool all);
/* Is any process but `except` in the chain? */
bool stk_holders_any(const struct stk_holders *holders, uint32_t chain, uint32_t except);

#endif
