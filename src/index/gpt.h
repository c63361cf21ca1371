/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens stand at which position of a split: epochs, document index, sample index, shuffle index. Pure: the
 * caller gives all memory, sized by stk_gpt_plan(). The rules are those of docs/reference/token-index.md, byte for
 * byte Megatron-LM's.
 */
#ifndef STK_INDEX_GPT_H
#define STK_INDEX_GPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "index/random.h"

struct stk_gpt_request {
    const void *lengths;      /* int32 of each sequence of the whole file, little-endian, may be misaligned */
    uint64_t file_sequences;  /* of the whole file */
    uint64_t first, end;      /* the split: sequences [first, end) */
    uint64_t samples;         /* requested; UINT64_MAX: one epoch */
    uint64_t sequence_length; /* S */
    uint32_t extra_token;     /* X: 1 or 0 */
    uint32_t keep_partial;    /* count by rounding up, in single precision as Megatron-LM does */
    uint32_t seed;
    const char *split; /* for messages */
};

struct stk_gpt_plan {
    uint64_t tokens_per_epoch; /* T */
    uint64_t epochs;           /* E */
    uint32_t separate_final_epoch;
    uint32_t wide_samples;         /* sample index is int64, else int32 */
    uint32_t wide_shuffle;         /* shuffle index is int64, else uint32 */
    uint64_t samples_before_final; /* shuffled apart from the rest, if separate */
    uint64_t documents;            /* entries of the document index */
    uint64_t samples;              /* M; the sample index has M + 1 rows of 2 */
};

/* Counts and types. INVALID_ARGUMENT: no tokens in the split (naming it), S = 0, more than can be counted or indexed.
 * CORRUPT: a length below 0. */
stoker_status stk_gpt_plan(const struct stk_gpt_request *request, struct stk_gpt_plan *out_plan, stoker_error *err);

enum stk_gpt_array { STK_GPT_DOCUMENT, STK_GPT_SAMPLE, STK_GPT_SHUFFLE, STK_GPT_ARRAYS };

/* Told that bytes [offset, offset + size) of an array are final, so that their way to the disk may begin; unless they
 * are `read_again`, a caller with little memory may put them away. */
struct stk_gpt_progress {
    void (*settled)(void *user, enum stk_gpt_array array, uint64_t offset, uint64_t size, bool read_again);
    void *user;
};

/* Fills document[plan.documents] (int32), sample[(plan.samples + 1) * 2] and shuffle[plan.samples], the first and the
 * last in this order from one generator. `progress` may be NULL. INVALID_ARGUMENT: a row that Megatron-LM refuses
 * (negative offset), naming it. */
stoker_status stk_gpt_build(const struct stk_gpt_request *request, const struct stk_gpt_plan *plan,
                            void *const out_arrays[STK_GPT_ARRAYS], const struct stk_gpt_progress *progress,
                            stoker_error *err);

/* The parts of stk_gpt_build(), each as Megatron-LM's helper of the same purpose makes it. */

/* Samples of `tokens` tokens: rounded toward zero or, with `keep_partial`, up in single precision. */
uint64_t stk_sample_count(uint64_t tokens, uint64_t sequence_length, uint32_t extra_token, uint32_t keep_partial);

/* Sequences first ... end - 1 repeated `epochs` times, shuffled; with `separate` the last copy is shuffled apart. */
void stk_document_index_build(struct stk_mt19937 *random, uint64_t first, uint64_t end, uint64_t epochs,
                              uint32_t separate, int32_t *out_document);

struct stk_sample_walk {
    const void *lengths; /* as in struct stk_gpt_request */
    const int32_t *document;
    uint64_t documents;       /* > 0 */
    uint64_t sequence_length; /* > 0 */
    uint32_t extra_token;
    uint32_t wide; /* rows are int64, else int32 and refused if negative */
    uint64_t samples;
    const char *split;
    /* Where the walk is; zero at the start. */
    uint64_t row, position, start, next; /* rows made, document at hand, tokens before it, token of the next row */
};
/* The next `rows` rows of samples + 1, at most those that are left: for an index that is written as it is made.
 * INVALID_ARGUMENT as stk_gpt_build(). */
stoker_status stk_sample_walk_rows(struct stk_sample_walk *walk, uint64_t rows, void *out_rows, stoker_error *err);
/* All rows of a walk that is at its start. */
stoker_status stk_sample_index_build(const struct stk_sample_walk *walk, void *out_sample, stoker_error *err);

/* 0 ... first - 1 shuffled, then first ... total - 1 shuffled; first <= total. */
void stk_shuffle_index_build(struct stk_mt19937 *random, uint64_t first, uint64_t total, uint32_t wide,
                             void *out_shuffle);

/* Number of samples as Megatron-LM computes it without the arrays (deferred mapping); -1 is possible for no tokens, and
 * is the answer if the request asks for more than int64 counts. sequence_length > 0, and the split lies in the file. */
int64_t stk_gpt_count_deferred(const struct stk_gpt_request *request);

#endif
