/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that describe packed sequences: prefix sums, padding, the slice of a context-parallel rank, sequence numbers.
 *
 * All of them are int32 or int64. Megatron-LM sends some of them as float32, which is exact up to 2^24 tokens only;
 * here no length is ever a float (docs/decisions/0146).
 */
#include "base/error.h"
#include "sched/pack.h"

stoker_status stoker_pack_cumulate(const uint32_t *lengths, size_t count, int32_t *out_cu, int32_t *out_max,
                                   stoker_error *err)
{
    stoker_pack_statistics sums;
    STK_TRY(stoker_pack_sum(lengths, count, &sums, err));
    uint32_t sum = 0, longest = 0;
    out_cu[0] = 0;
    for (size_t i = 0; i < count; i++) {
        sum += lengths[i];
        if (lengths[i] > longest) longest = lengths[i];
        out_cu[i + 1] = (int32_t)sum;
    }
    if (out_max) *out_max = (int32_t)longest;
    return STOKER_OK;
}

static stoker_status check_rising(const char *name, const int32_t *cu, size_t count, stoker_error *err)
{
    if (count == 0 || cu[0] != 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s has %zu entries and starts with %d, expected 0", name,
                        count, count ? cu[0] : -1);
    for (size_t i = 1; i < count; i++)
        if (cu[i] < cu[i - 1])
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s falls from %d to %d at entry %zu", name, cu[i - 1],
                            cu[i], i);
    return STOKER_OK;
}

stoker_status stoker_pack_padding_mask(const int32_t *cu, const int32_t *cu_padded, size_t count, uint8_t *out_mask,
                                       stoker_error *err)
{
    STK_TRY(check_rising("cu_seqlens", cu, count, err));
    STK_TRY(check_rising("cu_seqlens_padded", cu_padded, count, err));
    for (size_t i = 1; i < count; i++)
        if (cu[i] - cu[i - 1] > cu_padded[i] - cu_padded[i - 1])
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sequence %zu has %d tokens, padded %d", i - 1,
                            cu[i] - cu[i - 1], cu_padded[i] - cu_padded[i - 1]);
    for (size_t i = 1; i < count; i++) {
        int32_t end = cu_padded[i - 1] + (cu[i] - cu[i - 1]);
        for (int32_t at = cu_padded[i - 1]; at < cu_padded[i]; at++) out_mask[at] = at >= end;
    }
    return STOKER_OK;
}

stoker_status stoker_pack_slice(const int32_t *cu_padded, size_t count, stoker_pack_part part, int64_t *out_places,
                                stoker_error *err)
{
    STK_TRY(check_rising("cu_seqlens_padded", cu_padded, count, err));
    if (part.ranks == 0 || part.rank >= part.ranks || part.ranks > STK_PACK_RANKS_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "part %u of %u ranks", part.rank, part.ranks);
    int64_t chunks = 2 * (int64_t)part.ranks;
    for (size_t i = 1; i < count && part.ranks > 1; i++)
        if ((cu_padded[i] - cu_padded[i - 1]) % chunks != 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "sequence %zu has %d tokens, padded: no multiple of 2 * %u context-parallel ranks", i - 1,
                            cu_padded[i] - cu_padded[i - 1], part.ranks);
    size_t at = 0;
    for (size_t i = 1; i < count; i++) {
        int64_t start = cu_padded[i - 1], length = cu_padded[i] - start;
        if (part.ranks == 1) { /* any length: the two halves are neighbours */
            for (int64_t k = 0; k < length; k++) out_places[at++] = start + k;
            continue;
        }
        int64_t chunk = length / chunks, head = start + part.rank * chunk;
        int64_t tail = start + (chunks - 1 - part.rank) * chunk;
        for (int64_t k = 0; k < chunk; k++) out_places[at++] = head + k;
        for (int64_t k = 0; k < chunk; k++) out_places[at++] = tail + k;
    }
    return STOKER_OK;
}

stoker_status stoker_pack_sequence_index(const int32_t *cu, size_t count, int64_t total_tokens, int32_t *out_index,
                                         size_t *out_count, stoker_error *err)
{
    if (count == 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "cu_seqlens has no entry, expected 1 or more");
    uint64_t entries = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t next = i + 1 < count ? cu[i + 1] : total_tokens;
        if (next > cu[i]) entries += (uint64_t)(next - cu[i]);
        if (entries > STK_PACK_TOKENS_MAX)
            return stk_fail(err, STOKER_ERR_LIMIT, "sequences 0 to %zu have %llu tokens, at most %llu", i,
                            (unsigned long long)entries, (unsigned long long)STK_PACK_TOKENS_MAX);
    }
    size_t at = 0;
    for (size_t i = 0; i < count && out_index; i++) {
        int64_t next = i + 1 < count ? cu[i + 1] : total_tokens;
        for (int64_t k = cu[i]; k < next; k++) out_index[at++] = (int32_t)i;
    }
    *out_count = (size_t)entries;
    return STOKER_OK;
}
