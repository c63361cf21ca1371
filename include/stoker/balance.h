/* SPDX-License-Identifier: Apache-2.0
 *
 * Redistribution of made samples between ranks: rounds of samples whose costs are known once they are made.
 *
 *     round      -> proposal: each sample's rank, so that the slowest rank has less to do
 *     proposal   -> gate: kept only if what the slowest rank saves is more than what the exchange costs
 *     assignment -> plan: which sample goes from whom to whom; what is not in it stays where it is
 *
 * These are pure functions of their arguments: every rank computes the same from the same round. The functions of a
 * loader below carry a round out between the ranks of one host: small messages are gathered, and batches change their
 * owner without a byte of them moving. docs/how-to/redistribute.md shows both from Python.
 */
#ifndef STOKER_BALANCE_H
#define STOKER_BALANCE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    STOKER_BALANCE_RANKS_MAX = 256,
    STOKER_BALANCE_SAMPLES_MAX = 65536, /**< of one round */
    STOKER_GATHER_BYTES_MAX = 1 << 20   /**< of one rank */
};

/** Samples of one round in (rank, local order). Ranks are numbered within the list that exchanges, from 0. */
typedef struct stoker_balance_round {
    uint32_t struct_size;
    uint32_t ranks;
    uint32_t count;
    const uint32_t *owners; /**< `count` entries below `ranks`: who has made each sample */
    const uint64_t *costs;  /**< `count` entries of at most 2^40, in any unit: what each sample costs its rank */
} stoker_balance_round;

#define STOKER_BALANCE_ROUND_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(stoker_balance_round), 0, 0, 0, 0                                                                       \
    }

/** When an assignment is worth its exchange. Constants of the configuration, never learned, so that equal rounds are
 * decided equally. */
typedef struct stoker_balance_gate {
    uint32_t struct_size;
    uint32_t min_gain_ppm;  /**< least reduction of the slowest rank's load, in parts per million of it */
    uint64_t transfer_cost; /**< of one sample that a rank receives, in the unit of the costs */
} stoker_balance_gate;

#define STOKER_BALANCE_GATE_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(stoker_balance_gate), 0, 0                                                                              \
    }

/** One sample of a round that changes its rank. */
typedef struct stoker_balance_move {
    uint32_t sample, from, to;
} stoker_balance_move;

/** Load of the rank that has most.
 *
 * Owns:    everything is borrowed; `assignment` has `count` entries, NULL: the owners.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (naming the sample and what is wrong with it).
 */
STOKER_API stoker_status stoker_balance_load(const stoker_balance_round *round, const uint32_t *assignment,
                                             uint64_t *out_load, stoker_error *err);

/** Propose each sample's rank: every rank keeps the number of its samples, and the largest load becomes small. It never
 * becomes larger: where nothing better is found, the owners are the proposal.
 *
 * Owns:    writes `count` entries at out_assignment on success. `scratch` is `count` entries of the caller's.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (naming the sample and what is wrong with it).
 */
STOKER_API stoker_status stoker_balance_propose(const stoker_balance_round *round, uint32_t *scratch,
                                                uint32_t *out_assignment, stoker_error *err);

/** Keep the owners unless the assignment is worth its exchange: `assignment` becomes the owners if the largest load
 * falls by less than min_gain_ppm of it, or by no more than transfer_cost times the most samples that one rank
 * receives.
 *
 * Owns:    `assignment` is read and written.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (naming the sample and what is wrong with it).
 */
STOKER_API stoker_status stoker_balance_decide(const stoker_balance_round *round, const stoker_balance_gate *gate,
                                               uint32_t *assignment, stoker_error *err);

/** The moves that an assignment means, in the order of the samples.
 *
 * Owns:    writes at most `count` entries at out_moves and their number.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (naming the sample and what is wrong with it).
 */
STOKER_API stoker_status stoker_balance_plan(const stoker_balance_round *round, const uint32_t *assignment,
                                             stoker_balance_move *out_moves, size_t *out_count, stoker_error *err);

/* --------------------------------------------------------------------------------------- an exchange of one host */

/** What a rank tells the other ranks of its list. */
typedef struct stoker_gather {
    uint64_t number;       /**< of this gathering: equal in all ranks, growing within an iteration */
    const uint32_t *ranks; /**< who takes part, in one order on all ranks; this rank is one of them */
    size_t rank_count;     /**< 0: this rank takes part in no more of them; the others are told if they wait for it */
    const void *data;
    size_t size; /**< at most STOKER_GATHER_BYTES_MAX */
} stoker_gather;

/** Begin a gathering among loaders that match (by name, else by order of creation); never waits.
 *
 * Owns:    everything is borrowed and copied.
 * Threads: the loader's thread.
 * Errors:  INVALID_ARGUMENT, NO_MEMORY, UNAVAILABLE, WRONG_STATE (before stoker_loader_begin()).
 */
STOKER_API stoker_status stoker_loader_gather(stoker_loader *loader, const stoker_gather *gather, stoker_error *err);

/** Take the result of a gathering: for each rank, in their order, its size as 4 little-endian bytes and its bytes.
 *
 * STOKER_AGAIN: not everybody has come within `timeout_ns`; call again.
 *
 * Owns:    *out_data is borrowed until the next call on the loader.
 * Threads: the loader's thread.
 * Errors:  UNAVAILABLE (a rank has died or left, naming it; or the DataServer is gone), WRONG_STATE (a rank is at
 *          another number, naming it).
 */
STOKER_API stoker_status stoker_loader_gathered(stoker_loader *loader, uint64_t number, uint64_t timeout_ns,
                                                const void **out_data, size_t *out_size, stoker_error *err);

/** Give a batch to the matching loader of another rank of this host; never waits and moves no byte of it.
 *
 * Owns:    borrows the one reference; on success the memory is the other rank's: the batch may only be dropped.
 * Threads: the loader's thread.
 * Errors:  WRONG_STATE (there are other references, or it is a private copy), UNAVAILABLE, NO_MEMORY.
 */
STOKER_API stoker_status stoker_loader_give(stoker_loader *loader, stoker_batch *batch, uint32_t to_rank,
                                            uint64_t number, uint32_t tag, stoker_error *err);

/** Take a batch that was given to this rank with this number, in any order; *out_tag is the giver's.
 *
 * STOKER_AGAIN: none has come within `timeout_ns`; call again.
 *
 * Owns:    on STOKER_OK *out_batch holds one reference that is the caller's.
 * Threads: the loader's thread.
 * Errors:  as stoker_loader_gathered().
 */
STOKER_API stoker_status stoker_loader_take(stoker_loader *loader, uint64_t number, uint64_t timeout_ns,
                                            stoker_batch **out_batch, uint32_t *out_tag, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
