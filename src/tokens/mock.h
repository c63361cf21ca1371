/* SPDX-License-Identifier: Apache-2.0
 *
 * The made-up sequences of Megatron-LM's mock data: 100,000 of them, which hold 1, 2, 3 ... modulo the size of the
 * vocabulary and end with the end-of-document token.
 */
#ifndef STK_TOKENS_MOCK_H
#define STK_TOKENS_MOCK_H

#include <stdint.h>

#include <stoker/error.h>

enum { STK_MOCK_SEQUENCES = 100000 };

struct stk_mock {
    int64_t vocabulary, eod;
    int32_t lengths[STK_MOCK_SEQUENCES];
};

/* INVALID_ARGUMENT (a vocabulary below 1), NO_MEMORY. Freed by free(). */
stoker_status stk_mock_create(int64_t vocabulary, int64_t eod, struct stk_mock **out_mock, stoker_error *err);
/* Elements [first, first + count) of a sequence, which has them. */
void stk_mock_read(const struct stk_mock *mock, uint64_t sequence, uint64_t first, uint64_t count, int64_t *out);

#endif
