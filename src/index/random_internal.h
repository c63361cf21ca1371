/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws in bulk, between random.c and its vector variant. The draws of a shuffle do not depend on what is shuffled, so
 * they are made ahead, and the elements that they name are fetched before they are swapped.
 */
#ifndef STK_INDEX_RANDOM_INTERNAL_H
#define STK_INDEX_RANDOM_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/random.h"

enum {
    STK_MT_WORDS = 624,
    STK_MT_MIDDLE = 397,
    STK_DRAW_SLACK = 8 /* a bulk draw may write this many words past its count */
};

/* The next block of 624 words; position becomes 0. */
void stk_mt19937_renew(struct stk_mt19937 *random);

static inline uint32_t stk_mt_temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
}

/* interval(max), interval(max - 1), ... : `count` of them, all of which have the same mask. */
typedef void stk_draws_fn(struct stk_mt19937 *random, uint32_t max, uint32_t mask, uint32_t count, uint32_t *out);
stk_draws_fn stk_mt19937_draws;
stk_draws_fn stk_mt19937_draws_wide;
bool stk_random_is_wide(void);

/* The shuffles over a given way to draw: for tests of each. */
void stk_shuffle_32_with(stk_draws_fn *draws, struct stk_mt19937 *random, uint32_t *values, uint64_t count);
void stk_shuffle_64_with(stk_draws_fn *draws, struct stk_mt19937 *random, uint64_t *values, uint64_t count);

#endif
