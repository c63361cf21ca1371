/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up sequences: see mock.h.
 */
#include "tokens/mock.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "index/random.h"

stoker_status stk_mock_create(int64_t vocabulary, int64_t eod, struct stk_mock **out_mock, stoker_error *err)
{
    if (vocabulary < 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the vocabulary of mock data has %" PRId64 " tokens",
                        vocabulary);
    struct stk_mock *mock = malloc(sizeof *mock);
    if (!mock) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu bytes of mock data", sizeof *mock);
    mock->vocabulary = vocabulary;
    mock->eod = eod;
    stk_mock_lengths(mock->lengths, STK_MOCK_SEQUENCES);
    *out_mock = mock;
    return STOKER_OK;
}

void stk_mock_read(const struct stk_mock *mock, uint64_t sequence, uint64_t first, uint64_t count, int64_t *out)
{
    STK_ASSERT(sequence < STK_MOCK_SEQUENCES);
    uint64_t length = (uint64_t)mock->lengths[sequence];
    STK_ASSERT(first <= length && count <= length - first);
    int64_t value = (int64_t)((first + 1) % (uint64_t)mock->vocabulary);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = value;
        value = value + 1 < mock->vocabulary ? value + 1 : 0;
    }
    if (count > 0 && first + count == length) out[count - 1] = mock->eod;
}
