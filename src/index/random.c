/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's legacy generator and shuffle, and the lengths of mock data. A shuffle draws ahead into a small ring,
 * because the draws do not depend on the elements, and fetches each element 100 swaps before it is needed: of a large
 * array every swap would otherwise wait for memory.
 */
#include "index/random.h"

#include <string.h>

#include "index/random_internal.h"

/* ------------------------------------------------------------------------------------------------------- generator */

void stk_mt19937_seed(struct stk_mt19937 *random, uint32_t seed)
{
    random->key[0] = seed;
    for (uint32_t i = 1; i < STK_MT_WORDS; i++)
        random->key[i] = 1812433253u * (random->key[i - 1] ^ (random->key[i - 1] >> 30)) + i;
    random->position = STK_MT_WORDS;
}

static inline uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7FFFFFFFu);
    return (y >> 1) ^ (-(y & 1u) & 0x9908B0DFu);
}

void stk_mt19937_renew(struct stk_mt19937 *random)
{
    uint32_t *key = random->key;
    uint32_t i = 0;
    for (; i < STK_MT_WORDS - STK_MT_MIDDLE; i++) key[i] = key[i + STK_MT_MIDDLE] ^ twist(key[i], key[i + 1]);
    for (; i < STK_MT_WORDS - 1; i++) key[i] = key[i + STK_MT_MIDDLE - STK_MT_WORDS] ^ twist(key[i], key[i + 1]);
    key[i] = key[STK_MT_MIDDLE - 1] ^ twist(key[i], key[0]);
    random->position = 0;
}

uint32_t stk_mt19937_next(struct stk_mt19937 *random)
{
    if (random->position >= STK_MT_WORDS) stk_mt19937_renew(random);
    return stk_mt_temper(random->key[random->position++]);
}

static uint64_t mask_of(uint64_t max) { return max == 0 ? 0 : UINT64_MAX >> __builtin_clzll(max); }

uint64_t stk_mt19937_interval(struct stk_mt19937 *random, uint64_t max)
{
    uint64_t mask = mask_of(max), value;
    if (max == 0) return 0;
    do {
        value = stk_mt19937_next(random);
        if (max > UINT32_MAX) value = (value << 32) | stk_mt19937_next(random);
        value &= mask;
    } while (value > max);
    return value;
}

/* --------------------------------------------------------------------------------------------------------- shuffle */

void stk_mt19937_draws(struct stk_mt19937 *random, uint32_t max, uint32_t mask, uint32_t count, uint32_t *out)
{
    for (uint32_t end = max - count; max != end;) {
        if (random->position >= STK_MT_WORDS) stk_mt19937_renew(random);
        uint32_t value = stk_mt_temper(random->key[random->position++]) & mask;
        *out = value; /* without a branch on chance: a rejected value is written over by the next */
        out += value <= max;
        max -= value <= max;
    }
}

enum { RING = 1024, AHEAD = 96 };

/* Draws of coming swaps: swap of i = `next` + filled - used first. */
struct ring {
    stk_draws_fn *draws;
    struct stk_mt19937 *random;
    uint32_t next; /* i of the next draw; 0: all are drawn */
    uint32_t used, filled;
    uint32_t draw[RING + STK_DRAW_SLACK];
};

static void ring_fill(struct ring *ring)
{
    ring->filled -= ring->used;
    memmove(ring->draw, ring->draw + ring->used, ring->filled * sizeof *ring->draw);
    ring->used = 0;
    while (ring->filled < RING && ring->next > 0) {
        uint32_t mask = (uint32_t)mask_of(ring->next);
        uint32_t count = ring->next - (mask >> 1); /* as many have this mask */
        if (count > RING - ring->filled) count = RING - ring->filled;
        ring->draws(ring->random, ring->next, mask, count, ring->draw + ring->filled);
        ring->filled += count;
        ring->next -= count;
    }
}

/* The two shuffles differ in the type of an element alone. */
#define SHUFFLE(NAME, TYPE)                                                                                            \
    void NAME(stk_draws_fn *draws, struct stk_mt19937 *random, TYPE *values, uint64_t count)                           \
    {                                                                                                                  \
        uint64_t i = count;                                                                                            \
        if (count < 2) return;                                                                                         \
        while (--i > UINT32_MAX) {                                                                                     \
            uint64_t j = stk_mt19937_interval(random, i);                                                              \
            TYPE value = values[j];                                                                                    \
            values[j] = values[i];                                                                                     \
            values[i] = value;                                                                                         \
        }                                                                                                              \
        struct ring ring = {.draws = draws, .random = random, .next = (uint32_t)i};                                    \
        while (i > 0) {                                                                                                \
            uint32_t keep = ring.filled - ring.used;                                                                   \
            ring_fill(&ring);                                                                                          \
            for (uint32_t k = keep; k < AHEAD && k < ring.filled; k++) __builtin_prefetch(&values[ring.draw[k]], 1);   \
            uint32_t end = ring.next > 0 ? ring.filled - AHEAD : ring.filled;                                          \
            for (; ring.used < end; ring.used++, i--) {                                                                \
                uint32_t ahead = ring.used + AHEAD, j = ring.draw[ring.used];                                          \
                if (ahead < ring.filled) __builtin_prefetch(&values[ring.draw[ahead]], 1);                             \
                TYPE value = values[j];                                                                                \
                values[j] = values[i];                                                                                 \
                values[i] = value;                                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }

SHUFFLE(stk_shuffle_32_with, uint32_t)
SHUFFLE(stk_shuffle_64_with, uint64_t)

void stk_mt19937_shuffle_32(struct stk_mt19937 *random, uint32_t *values, uint64_t count)
{
    stk_shuffle_32_with(stk_random_is_wide() ? stk_mt19937_draws_wide : stk_mt19937_draws, random, values, count);
}

void stk_mt19937_shuffle_64(struct stk_mt19937 *random, uint64_t *values, uint64_t count)
{
    stk_shuffle_64_with(stk_random_is_wide() ? stk_mt19937_draws_wide : stk_mt19937_draws, random, values, count);
}

/* ------------------------------------------------------------------------------------------------------- mock data */

__extension__ typedef unsigned __int128 u128;

static uint32_t hash_mix(uint32_t *constant, uint32_t multiplier, uint32_t value)
{
    value ^= *constant;
    *constant *= multiplier;
    value *= *constant;
    return value ^ (value >> 16);
}

/* SeedSequence(0).generate_state(4, uint64). */
static void seed_words(uint64_t words[4])
{
    uint32_t constant = 0x43B0D7E5u, pool[4];
    for (int i = 0; i < 4; i++) pool[i] = hash_mix(&constant, 0x931E8875u, 0);
    for (int s = 0; s < 4; s++) {
        for (int d = 0; d < 4; d++) {
            if (s == d) continue;
            uint32_t mixed = 0xCA01F9DDu * pool[d] - 0x4973F715u * hash_mix(&constant, 0x931E8875u, pool[s]);
            pool[d] = mixed ^ (mixed >> 16);
        }
    }
    constant = 0x8B51F9DDu;
    for (int k = 0; k < 4; k++) {
        uint64_t low = hash_mix(&constant, 0x58F38DEDu, pool[2 * k % 4]);
        words[k] = low | (uint64_t)hash_mix(&constant, 0x58F38DEDu, pool[(2 * k + 1) % 4]) << 32;
    }
}

struct pcg {
    u128 state, increment;
    uint32_t high; /* second half of the last draw */
    uint32_t has_high;
};

static void pcg_step(struct pcg *pcg)
{
    const u128 multiplier = (u128)UINT64_C(0x2360ED051FC65DA4) << 64 | UINT64_C(0x4385DF649FCCF645);
    pcg->state = pcg->state * multiplier + pcg->increment;
}

static uint32_t pcg_next(struct pcg *pcg)
{
    if (pcg->has_high) {
        pcg->has_high = 0;
        return pcg->high;
    }
    pcg_step(pcg);
    uint64_t folded = (uint64_t)(pcg->state >> 64) ^ (uint64_t)pcg->state;
    uint32_t turn = (uint32_t)(pcg->state >> 122);
    uint64_t value = (folded >> turn) | (folded << (-turn & 63u));
    pcg->high = (uint32_t)(value >> 32);
    pcg->has_high = 1;
    return (uint32_t)value;
}

void stk_mock_lengths(int32_t *out_lengths, size_t count)
{
    const uint32_t lengths = 4095, refused = (UINT32_MAX - (lengths - 1)) % lengths;
    uint64_t words[4];
    seed_words(words);
    struct pcg pcg = {.increment = ((u128)words[2] << 64 | words[3]) << 1 | 1};
    pcg_step(&pcg);
    pcg.state += (u128)words[0] << 64 | words[1];
    pcg_step(&pcg);
    for (size_t i = 0; i < count; i++) {
        uint64_t product;
        do product = (uint64_t)pcg_next(&pcg) * lengths;
        while ((uint32_t)product < refused);
        out_lengths[i] = (int32_t)(product >> 32) + 1;
    }
}
