/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing: which samples of a global batch share a micro-batch of which rank, what each rank sends and receives for it,
 * and the arrays that describe packed sequences to attention. Megatron-LM's DP-balanced and balanced context-parallel
 * schedules are given exactly; best fit is stoker's own. docs/reference/packing.md describes the rules.
 *
 * Everything here is a pure function of its arguments: it makes no system call and allocates nothing. Where memory is
 * needed, one function says how much and the caller lends it. A sample is known by its place in `lengths`, its id.
 */
#ifndef STOKER_PACK_H
#define STOKER_PACK_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------------------- schedules */

typedef enum stoker_pack_kind {
    STOKER_PACK_DP_BALANCED = 0, /**< Megatron-LM's "dp_balanced": packs filled in order */
    STOKER_PACK_BALANCED_CP = 1, /**< Megatron-LM's balanced context parallelism: long samples on several ranks */
    STOKER_PACK_BEST_FIT = 2     /**< fewest packs under the budget, then equal sums of L and of L * L */
} stoker_pack_kind;

typedef struct stoker_pack_options {
    uint32_t struct_size;
    uint32_t tokens_per_rank; /**< max_seqlen_per_dp_cp_rank: 1 or more */
    uint32_t data_ranks;      /**< size of the data-parallel group; 0: 1 */
    uint32_t context_ranks;   /**< size of the context-parallel group; 0: 1 */
    uint32_t stage_group;     /**< microbatch_group_size_per_vp_stage: micro-batches are a multiple of it; 0: 1 */
    uint32_t linear_tokens;   /**< best fit: the cost of a sample is L * L + linear_tokens * L; 0: what makes both parts
                                   equal over the batch */
} stoker_pack_options;

#define STOKER_PACK_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(stoker_pack_options), 0, 0, 0, 0, 0                                                                     \
    }

/** The samples [first, first + count) of the schedule's list, held by `ranks` neighbouring ranks of one micro-batch. */
typedef struct stoker_pack_span {
    uint32_t microbatch;
    uint32_t first_rank, ranks; /**< of the data_ranks * context_ranks ranks */
    uint32_t first, count;
} stoker_pack_span;

/** A schedule: spans in order of micro-batch and rank, which cover each rank of each micro-batch once. */
typedef struct stoker_pack_schedule {
    uint32_t microbatches, ranks;
    const stoker_pack_span *spans;
    size_t span_count;
    const uint32_t *samples; /**< ids */
    size_t sample_count;
} stoker_pack_schedule;

/** Bytes of memory that stoker_pack_schedule_make() needs; 0 if there are too many samples.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API size_t stoker_pack_schedule_bytes(stoker_pack_kind kind, size_t count);

/** Assign each of `count` samples to a micro-batch and to the ranks that hold it.
 *
 * Owns:    `lengths` and `options` are borrowed; *out_schedule points into `memory` (`size` bytes, aligned to 16),
 *          which the caller keeps as long as it uses the schedule.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (a length of 0 or no tokens_per_rank; too few samples for the ranks; a sample that needs
 *          more ranks than there are, named by its place and length), LIMIT (more than 2^24 samples, 2^31 - 1 tokens
 *          or 2^20 ranks), UNSUPPORTED (larger options; a number of ranks on which balanced CP cannot end).
 */
STOKER_API stoker_status stoker_pack_schedule_make(stoker_pack_kind kind, const uint32_t *lengths, size_t count,
                                                   const stoker_pack_options *options, void *memory, size_t size,
                                                   stoker_pack_schedule *out_schedule, stoker_error *err);

/** Ranks that share a sample of `length` tokens in balanced context parallelism: the least power of two for which no
 * rank holds more than `tokens_per_rank`; 0 if there is none below 2^32.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API uint32_t stoker_pack_ranks_needed(uint32_t length, uint32_t tokens_per_rank);

/** Cut samples, in the order given, into buckets of about equal work, as balanced context parallelism does.
 *
 * Owns:    nothing; `out_ends` has room for `count` entries and gets the end of each bucket.
 * Threads: any.
 * Errors:  as stoker_pack_schedule_make().
 */
STOKER_API stoker_status stoker_pack_buckets(const uint32_t *lengths, size_t count, uint32_t tokens_per_rank,
                                             uint32_t *out_ends, size_t *out_count, stoker_error *err);

/* -------------------------------------------------------------------------------------------------------- rerouting */

/** Who holds what before the exchange. Ids are numbered by data-parallel rank, then by local order. */
typedef struct stoker_pack_owners {
    const uint32_t *members; /**< my data-parallel group, in group order, as ranks of the schedule */
    size_t member_count;
    const uint32_t *offsets; /**< member_count + 1 entries: member i loaded the ids [offsets[i], offsets[i + 1]) */
    uint32_t rank;           /**< me; one of `members` */
} stoker_pack_owners;

/** What one rank sends and receives. Lists are in the order of the buffers of an all-to-all; per-rank arrays have one
 * entry for each rank of the schedule. */
typedef struct stoker_pack_route {
    const uint32_t *send_ids;
    size_t send_count;
    const uint32_t *receive_ids;
    size_t receive_count;
    const uint64_t *send_tokens, *receive_tokens;
    const uint32_t *send_samples, *receive_samples;
} stoker_pack_route;

/** Prefix sums of the numbers of samples that the members loaded: count + 1 entries.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  LIMIT (more than 2^24 samples).
 */
STOKER_API stoker_status stoker_pack_offsets(const uint32_t *counts, size_t count, uint32_t *out_offsets,
                                             stoker_error *err);

/** Bytes of memory that stoker_pack_route_make() needs; 0 if the sizes make no sense.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API size_t stoker_pack_route_bytes(const stoker_pack_schedule *schedule, const stoker_pack_owners *owners);

/** Derive what one rank sends and receives so that it holds what the schedule gives it. Samples move inside the
 * data-parallel group only: ranks of one context-parallel group loaded the same ones.
 *
 * Owns:    everything is borrowed; *out_route points into `memory` (`size` bytes, aligned to 16).
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (an id or rank outside its range, one id twice on one rank, `rank` not a member).
 */
STOKER_API stoker_status stoker_pack_route_make(const stoker_pack_schedule *schedule, const uint32_t *lengths,
                                                const stoker_pack_owners *owners, void *memory, size_t size,
                                                stoker_pack_route *out_route, stoker_error *err);

/* ------------------------------------------------------------------------------------------------- packed sequences */

/** cu_seqlens: `count` + 1 prefix sums of lengths, and the largest length (0 if there is none).
 *
 * Owns:    nothing; out_max may be NULL.
 * Threads: any.
 * Errors:  LIMIT (more than 2^31 - 1 tokens; outputs are untouched).
 */
STOKER_API stoker_status stoker_pack_cumulate(const uint32_t *lengths, size_t count, int32_t *out_cu, int32_t *out_max,
                                              stoker_error *err);

/** One byte a token: 1 where a padded sequence is past the end of its own tokens. `cu` and `cu_padded` have `count`
 * entries each (1 or more), `out_mask` cu_padded[count - 1].
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (entries that fall, start above 0, or a sequence longer than its padded one).
 */
STOKER_API stoker_status stoker_pack_padding_mask(const int32_t *cu, const int32_t *cu_padded, size_t count,
                                                  uint8_t *out_mask, stoker_error *err);

/** A part of a context-parallel group. */
typedef struct stoker_pack_part {
    uint32_t rank, ranks;
} stoker_pack_part;

/** Places of the tokens that one rank of a context-parallel group takes: each padded sequence is cut into 2 * ranks
 * equal chunks, of which rank r takes chunks r and 2 * ranks - 1 - r. `out_places` has cu_padded[count - 1] / ranks
 * entries.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (a padded length that is no multiple of 2 * ranks, named by its place; as above).
 */
STOKER_API stoker_status stoker_pack_slice(const int32_t *cu_padded, size_t count, stoker_pack_part part,
                                           int64_t *out_places, stoker_error *err);

/** Number of the sequence that each token belongs to; the tokens from the last entry of `cu` up to `total_tokens` form
 * one sequence more. With `out_index` NULL only the number of entries is computed.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (no entry), LIMIT (more than 2^31 - 1 entries).
 */
STOKER_API stoker_status stoker_pack_sequence_index(const int32_t *cu, size_t count, int64_t total_tokens,
                                                    int32_t *out_index, size_t *out_count, stoker_error *err);

/** Sums over a batch, exact. */
typedef struct stoker_pack_statistics {
    uint64_t tokens;  /**< sum of L */
    uint64_t squares; /**< sum of L * L */
} stoker_pack_statistics;

/** Sum of lengths and of their squares.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  LIMIT (more than 2^31 - 1 tokens).
 */
STOKER_API stoker_status stoker_pack_sum(const uint32_t *lengths, size_t count, stoker_pack_statistics *out_sums,
                                         stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
