/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a GPT split. Epochs come by division, where Megatron-LM adds them one at a time; the sample index is
 * one pass over the documents: sample k starts at token k * S of the shuffled stream, so that a row is written when
 * the document is met that holds this token, and nothing is looked up twice. Floating point is used where the
 * reference uses it, in its precision.
 */
#include "index/gpt.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

#define ROWS_AT_ONCE (UINT64_C(1) << 20) /* of the sample index, until progress is told; 8 to 16 MiB */

/* ---------------------------------------------------------------------------------------------------------- counts */

/* The array starts at byte 34 of its file and is never aligned. */
static inline int32_t length_at(const void *lengths, uint64_t sequence)
{
    uint32_t value;
    memcpy(&value, (const char *)lengths + sequence * sizeof value, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return (int32_t)value;
}

/* Sum of lengths first ... end - 1; *out_signs is negative if one of them is. */
static int64_t count_tokens(const void *lengths, uint64_t first, uint64_t end, int32_t *out_signs)
{
    int64_t sum = 0;
    int32_t signs = 0;
    for (uint64_t i = first; i < end; i++) {
        int32_t length = length_at(lengths, i);
        sum += length;
        signs |= length;
    }
    *out_signs = signs;
    return sum;
}

/* The smallest number of epochs, at least one, that has the samples asked for. False: not to be counted in int64. */
static bool count_epochs(const struct stk_gpt_request *request, uint64_t tokens_per_epoch, uint64_t *out_epochs,
                         uint64_t *out_tokens)
{
    uint64_t need = 0, epochs = 1, tokens;
    if (request->samples != UINT64_MAX) {
        if (__builtin_mul_overflow(request->samples, request->sequence_length, &need) ||
            __builtin_add_overflow(need, request->extra_token, &need))
            return false;
        if (need > tokens_per_epoch && tokens_per_epoch > 0)
            epochs = need / tokens_per_epoch + (need % tokens_per_epoch != 0);
    }
    /* Half of int64, so that a count that was rounded up to a power of two in single precision still fits. */
    if (__builtin_mul_overflow(epochs, tokens_per_epoch, &tokens) || tokens > (uint64_t)INT64_MAX / 2) return false;
    *out_epochs = epochs;
    *out_tokens = tokens;
    return true;
}

/* Both are ceil() without libm, for values that int64 holds. */
static int64_t ceil_single(float value)
{
    int64_t whole = (int64_t)value;
    return whole + ((float)whole < value);
}

static int64_t ceil_double(double value)
{
    int64_t whole = (int64_t)value;
    return whole + ((double)whole < value);
}

uint64_t stk_sample_count(uint64_t tokens, uint64_t sequence_length, uint32_t extra_token, uint32_t keep_partial)
{
    if (tokens <= extra_token) return 0;
    tokens -= extra_token;
    if (!keep_partial) return tokens / sequence_length;
    return (uint64_t)ceil_single((float)(int64_t)tokens / (float)(int64_t)sequence_length);
}

int64_t stk_gpt_count_deferred(const struct stk_gpt_request *request)
{
    uint64_t epochs, tokens;
    int32_t signs;
    int64_t length = (int64_t)request->sequence_length;
    STK_ASSERT(length > 0);
    int64_t per_epoch = count_tokens(request->lengths, request->first, request->end, &signs);
    if (signs < 0 || !count_epochs(request, (uint64_t)per_epoch, &epochs, &tokens)) return -1;
    int64_t usable = (int64_t)tokens - (int64_t)request->extra_token;
    if (request->keep_partial) return ceil_double((double)usable / (double)length);
    return usable < 0 ? -1 : usable / length;
}

/* ------------------------------------------------------------------------------------------------------------ plan */

static stoker_status check_request(const struct stk_gpt_request *request, stoker_error *err)
{
    unsigned long long first = request->first, end = request->end, sequences = request->file_sequences;
    if (request->sequence_length == 0 || request->sequence_length > STK_SEQUENCE_LENGTH_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sequence length is %llu, expected 1 to %u",
                        (unsigned long long)request->sequence_length, STK_SEQUENCE_LENGTH_MAX);
    if (request->extra_token > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u extra tokens asked for, expected 0 or 1",
                        request->extra_token);
    if (first > end || end > sequences)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "split '%s' is sequences %llu to %llu, but the dataset has %llu", request->split, first, end,
                        sequences);
    if (end > (uint64_t)INT32_MAX + 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "split '%s' ends at sequence %llu, but the document index holds at most 2147483647",
                        request->split, end);
    return STOKER_OK;
}

/* Whether the last epoch, of which less than 80 % is used, is shuffled apart. */
static void plan_final_epoch(const struct stk_gpt_request *request, struct stk_gpt_plan *plan)
{
    if (plan->epochs == 1) return;
    uint64_t extra = request->extra_token, length = request->sequence_length;
    uint64_t before = ((plan->epochs - 1) * plan->tokens_per_epoch - extra) / length;
    uint64_t per_epoch = (plan->tokens_per_epoch - extra) / length;
    STK_ASSERT(before <= request->samples);
    uint64_t last = request->samples - before;
    STK_ASSERT(last <= per_epoch + 1);
    plan->separate_final_epoch = last < (uint64_t)(0.80 * (double)per_epoch);
    if (plan->separate_final_epoch) plan->samples_before_final = before;
}

stoker_status stk_gpt_plan(const struct stk_gpt_request *request, struct stk_gpt_plan *out_plan, stoker_error *err)
{
    struct stk_gpt_plan plan = {0};
    uint64_t tokens;
    int32_t signs;
    STK_TRY(check_request(request, err));
    int64_t per_epoch = count_tokens(request->lengths, request->first, request->end, &signs);
    if (signs < 0) {
        uint64_t bad = request->first;
        while (length_at(request->lengths, bad) >= 0) bad++;
        return stk_fail(err, STOKER_ERR_CORRUPT, "length of sequence %llu is %d, expected 0 or more",
                        (unsigned long long)bad, length_at(request->lengths, bad));
    }
    if (per_epoch == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "split '%s' (sequences %llu to %llu of %llu) has no tokens: nothing can be sampled from it",
                        request->split, (unsigned long long)request->first, (unsigned long long)request->end,
                        (unsigned long long)request->file_sequences);
    plan.tokens_per_epoch = (uint64_t)per_epoch;
    if (!count_epochs(request, plan.tokens_per_epoch, &plan.epochs, &tokens) ||
        __builtin_mul_overflow(plan.epochs, request->end - request->first, &plan.documents))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "split '%s': %llu samples of %llu tokens are more than 64-bit numbers count", request->split,
                        (unsigned long long)request->samples, (unsigned long long)request->sequence_length);
    plan.samples = stk_sample_count(tokens, request->sequence_length, request->extra_token, request->keep_partial);
    plan_final_epoch(request, &plan);
    if (plan.samples_before_final > plan.samples)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "split '%s': %llu epochs are too many for a partial last sample: single precision counts %llu "
                        "samples, but %llu lie before the last epoch",
                        request->split, (unsigned long long)plan.epochs, (unsigned long long)plan.samples,
                        (unsigned long long)plan.samples_before_final);
    plan.wide_samples = plan.documents > (uint64_t)INT32_MAX; /* a length never is: it is an int32 itself */
    plan.wide_shuffle = plan.samples >= (uint64_t)UINT32_MAX - 1;
    *out_plan = plan;
    return STOKER_OK;
}

/* ----------------------------------------------------------------------------------------------------------- build */

void stk_document_index_build(struct stk_mt19937 *random, uint64_t first, uint64_t end, uint64_t epochs,
                              uint32_t separate, int32_t *out_document)
{
    uint64_t count = end - first, together = separate ? (epochs - 1) * count : epochs * count;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        int32_t *copy = out_document + epoch * count, value = (int32_t)first;
        for (uint64_t i = 0; i < count; i++) copy[i] = (int32_t)((uint64_t)value + i);
    }
    stk_mt19937_shuffle_32(random, (uint32_t *)out_document, together);
    if (separate) stk_mt19937_shuffle_32(random, (uint32_t *)out_document + together, count);
}

enum { AHEAD = 32 }; /* documents: their lengths lie anywhere in a table that may be larger than a cache */

static inline void prefetch_length(const void *lengths, uint64_t sequence)
{
    __builtin_prefetch((const char *)lengths + sequence * sizeof(uint32_t));
}

/* Rows are written before it is known whether they count: a branch on the length of a document would be guessed wrong
 * for most of them. Two rows a document are free so; a document that holds more samples enters the loop.
 * `next` is the token that the row starts at; with an extra token the document must hold it, without one it may also be
 * the one that ends before it. Rows after the last token repeat what the reference gives there. */
#define WALK(NAME, TYPE)                                                                                               \
    static void NAME(struct stk_sample_walk *walk, uint64_t end, TYPE *rows)                                           \
    {                                                                                                                  \
        const int32_t *document = walk->document;                                                                      \
        const uint64_t step = walk->sequence_length, extra = walk->extra_token, documents = walk->documents;           \
        uint64_t row = 0, start = walk->start, next = walk->next, d = walk->position;                                  \
        for (; d < documents && row + 2 <= end; d++) {                                                                 \
            prefetch_length(walk->lengths, (uint32_t)document[d + AHEAD < documents ? d + AHEAD : d]);                 \
            uint64_t past = start + (uint64_t)length_at(walk->lengths, (uint32_t)document[d]);                         \
            for (int once = 0; once < 2; once++) {                                                                     \
                rows[2 * row] = (TYPE)d;                                                                               \
                rows[2 * row + 1] = (TYPE)(next - start);                                                              \
                uint64_t counts = next + extra <= past;                                                                \
                row += counts;                                                                                         \
                next += step & -counts;                                                                                \
            }                                                                                                          \
            for (; next + extra <= past && row < end; row++, next += step) {                                           \
                rows[2 * row] = (TYPE)d;                                                                               \
                rows[2 * row + 1] = (TYPE)(next - start);                                                              \
            }                                                                                                          \
            if (row == end) break; /* it may hold more */                                                              \
            start = past;                                                                                              \
        }                                                                                                              \
        while (d < documents && row < end) {                                                                           \
            uint64_t past = start + (uint64_t)length_at(walk->lengths, (uint32_t)document[d]);                         \
            if (next + extra <= past) {                                                                                \
                rows[2 * row] = (TYPE)d;                                                                               \
                rows[2 * row++ + 1] = (TYPE)(next - start);                                                            \
                next += step;                                                                                          \
            } else {                                                                                                   \
                start = past;                                                                                          \
                d++;                                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        for (; row < end; row++) {                                                                                     \
            int32_t last = document[documents - 1];                                                                    \
            rows[2 * row] = (TYPE)(documents - 1);                                                                     \
            rows[2 * row + 1] = (TYPE)length_at(walk->lengths, (uint32_t)last) - (TYPE)extra;                          \
        }                                                                                                              \
        walk->start = start;                                                                                           \
        walk->next = next;                                                                                             \
        walk->position = d;                                                                                            \
        walk->row += end;                                                                                              \
    }

WALK(walk_32, int32_t)
WALK(walk_64, int64_t)

stoker_status stk_sample_walk_rows(struct stk_sample_walk *walk, uint64_t rows, void *out_rows, stoker_error *err)
{
    STK_ASSERT(walk->documents > 0 && walk->sequence_length > 0);
    if (rows > walk->samples + 1 - walk->row) rows = walk->samples + 1 - walk->row;
    if (rows == 0) return STOKER_OK;
    size_t first = 0;
    if (walk->row == 0) { /* (0, 0), even if the first document is empty */
        memset(out_rows, 0, walk->wide ? 2 * sizeof(int64_t) : 2 * sizeof(int32_t));
        walk->row = first = 1;
        walk->next = walk->sequence_length;
    }
    if (walk->wide) {
        walk_64(walk, rows - first, (int64_t *)out_rows + 2 * first);
        return STOKER_OK;
    }
    walk_32(walk, rows - first, (int32_t *)out_rows + 2 * first);
    /* Only a row past the last token can be negative, and all of those are alike. */
    const int32_t *last = (const int32_t *)out_rows + 2 * (rows - 1);
    if (last[1] >= 0) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                    "split '%s': row %llu of the sample index has offset %d: the partial last sample ends in an empty "
                    "document",
                    walk->split, (unsigned long long)walk->row - 1, last[1]);
}

stoker_status stk_sample_index_build(const struct stk_sample_walk *walk, void *out_sample, stoker_error *err)
{
    struct stk_sample_walk copy = *walk;
    return stk_sample_walk_rows(&copy, walk->samples + 1, out_sample, err);
}

static void shuffle_range(struct stk_mt19937 *random, uint64_t first, uint64_t end, uint32_t wide, void *out_shuffle)
{
    if (wide) {
        uint64_t *values = out_shuffle;
        for (uint64_t i = first; i < end; i++) values[i] = i;
        stk_mt19937_shuffle_64(random, values + first, end - first);
        return;
    }
    uint32_t *values = out_shuffle;
    for (uint64_t i = first; i < end; i++) values[i] = (uint32_t)i;
    stk_mt19937_shuffle_32(random, values + first, end - first);
}

void stk_shuffle_index_build(struct stk_mt19937 *random, uint64_t first, uint64_t total, uint32_t wide,
                             void *out_shuffle)
{
    shuffle_range(random, 0, first, wide, out_shuffle);
    shuffle_range(random, first, total, wide, out_shuffle);
}

stoker_status stk_gpt_build(const struct stk_gpt_request *request, const struct stk_gpt_plan *plan,
                            void *const out_arrays[STK_GPT_ARRAYS], const struct stk_gpt_progress *progress,
                            stoker_error *err)
{
    struct stk_mt19937 random;
    stk_mt19937_seed(&random, request->seed);
    stk_document_index_build(&random, request->first, request->end, plan->epochs, plan->separate_final_epoch,
                             out_arrays[STK_GPT_DOCUMENT]);
    const uint64_t shuffle_bytes = plan->samples * (plan->wide_shuffle ? 8 : 4), document_bytes = plan->documents * 4;
    if (progress) progress->settled(progress->user, STK_GPT_DOCUMENT, 0, document_bytes, true);
    /* The walk draws no numbers: what was drawn can be on its way to the disk meanwhile. */
    uint64_t first = plan->separate_final_epoch ? plan->samples_before_final : plan->samples;
    stk_shuffle_index_build(&random, first, plan->samples, plan->wide_shuffle, out_arrays[STK_GPT_SHUFFLE]);
    if (progress) progress->settled(progress->user, STK_GPT_SHUFFLE, 0, shuffle_bytes, false);
    struct stk_sample_walk walk = {.lengths = request->lengths,
                                   .document = out_arrays[STK_GPT_DOCUMENT],
                                   .documents = plan->documents,
                                   .sequence_length = request->sequence_length,
                                   .extra_token = request->extra_token,
                                   .wide = plan->wide_samples,
                                   .samples = plan->samples,
                                   .split = request->split};
    const uint64_t row_bytes = plan->wide_samples ? 16 : 8;
    for (uint64_t row = 0; row <= plan->samples; row += ROWS_AT_ONCE) {
        uint64_t left = plan->samples + 1 - row, rows = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
        STK_TRY(stk_sample_walk_rows(&walk, rows, (uint8_t *)out_arrays[STK_GPT_SAMPLE] + row * row_bytes, err));
        if (progress) progress->settled(progress->user, STK_GPT_SAMPLE, row * row_bytes, rows * row_bytes, false);
    }
    if (progress) progress->settled(progress->user, STK_GPT_DOCUMENT, 0, document_bytes, false);
    return STOKER_OK;
}
