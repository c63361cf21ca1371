/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's legacy generator (RandomState: MT19937 with its masked-rejection intervals and its shuffle), and the part of
 * its newer one that mock data needs. Pure: same seed, same calls, same numbers on every machine. Vector variants are
 * chosen at run time and give the same numbers and leave the same state.
 */
#ifndef STK_INDEX_RANDOM_H
#define STK_INDEX_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct stk_mt19937 {
    uint32_t key[624];
    uint32_t position; /* 624: the key is to be renewed before the next draw */
};

void stk_mt19937_seed(struct stk_mt19937 *random, uint32_t seed);
uint32_t stk_mt19937_next(struct stk_mt19937 *random);
/* Uniform in [0, max]; nothing is drawn for max = 0. */
uint64_t stk_mt19937_interval(struct stk_mt19937 *random, uint64_t max);
/* Shuffles as numpy.random.RandomState.shuffle(): element sizes 4 and 8. */
void stk_mt19937_shuffle_32(struct stk_mt19937 *random, uint32_t *values, uint64_t count);
void stk_mt19937_shuffle_64(struct stk_mt19937 *random, uint64_t *values, uint64_t count);

/* numpy.random.default_rng(0).integers(1, 4096, count, dtype=int32): lengths of the mock sequences. */
void stk_mock_lengths(int32_t *out_lengths, size_t count);

#endif
