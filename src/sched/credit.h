/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory is credit (rule A1): who may take how many bytes of a shared limit, so that no interleaving of slow, stopped
 * or hoarding ranks can stop a rank that returns its views.
 *
 * Each lane, a (loader, rank), owns a reserve of at least two of its largest slabs. What is above the reserves is
 * shared. With
 *     used    bytes of segments of the lane that hold any live slab
 *     pinned  bytes of those segments that views of the rank keep (delivered as views and not released)
 *     largest bytes that the lane's largest batch needs
 * a lane draws on the shared part
 *     charge = max(0, max(used, pinned + largest) - reserve)
 * and no call but force() lets the sum of charges pass limit - sum of reserves - orphaned bytes. The term "pinned +
 * largest" keeps room for one more batch whatever the user keeps; when it does not fit, a batch is handed out as a
 * private copy (rule A5). No lane uses more than its own max_bytes. A lane that opens or grows may take part of what is
 * already charged into its reserve: then nobody draws on the shared part until it has shrunk, but every reserve can be
 * used at once (docs/decisions/0030).
 *
 * Pure: integers only, no clock, no allocation. One owner.
 */
#ifndef STK_SCHED_CREDIT_H
#define STK_SCHED_CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "base/limits.h"

struct stk_credit_lane {
    bool open;
    uint64_t reserve, largest, used, pinned;
    uint64_t max_bytes; /* of this lane's own option */
};

struct stk_credit {
    uint64_t limit;    /* the largest max_bytes of the open lanes, or the sum of reserves if that is larger (after a
                          close) */
    uint64_t reserved; /* sum of reserves */
    uint64_t charged;  /* sum of charges */
    uint64_t orphaned; /* bytes that no open lane owns: quarantined slabs of closed lanes */
    struct stk_credit_lane lanes[STK_LANES_MAX];
};

void stk_credit_init(struct stk_credit *credit);

/* Opens lane `lane` (not open) whose largest batch needs `largest` bytes (0: unknown yet). LIMIT, naming both figures
 * and what to change, if 2 * largest exceeds max_bytes, or with the other reserves the new limit; nothing is changed
 * then. */
stoker_status stk_credit_lane_open(struct stk_credit *credit, uint32_t lane, uint64_t largest, uint64_t max_bytes,
                                   stoker_error *err);
/* Closes a lane; its used and pinned bytes must be zero. The limit becomes that of the lanes that stay, but not less
 * than their reserves. */
void stk_credit_lane_close(struct stk_credit *credit, uint32_t lane);

/* A batch turned out larger than any before: raise largest and the reserve to two of it, or to one if two do not fit
 * any more. LIMIT, naming both figures, if not even one does. */
stoker_status stk_credit_lane_grow(struct stk_credit *credit, uint32_t lane, uint64_t largest, stoker_error *err);

/* May the lane take `bytes` more? Takes them if so. */
bool stk_credit_take(struct stk_credit *credit, uint32_t lane, uint64_t bytes);
/* Takes bytes that are needed now, beyond the limit if it must be (an overflow segment, rule B6). */
void stk_credit_force(struct stk_credit *credit, uint32_t lane, uint64_t bytes);
void stk_credit_give(struct stk_credit *credit, uint32_t lane, uint64_t bytes);

/* May `bytes` of the used ones be pinned by views? Pins them if so; if not, deliver a private copy. */
bool stk_credit_pin(struct stk_credit *credit, uint32_t lane, uint64_t bytes);
void stk_credit_unpin(struct stk_credit *credit, uint32_t lane, uint64_t bytes);

/* Used, unpinned bytes of a lane that is about to close but must stay (quarantine): they belong to no lane from now
 * on. */
void stk_credit_orphan(struct stk_credit *credit, uint32_t lane, uint64_t bytes);
void stk_credit_orphan_give(struct stk_credit *credit, uint64_t bytes);

#endif
