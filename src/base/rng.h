/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of samples: a function of (seed, epoch, sample id, occurrence) and of nothing else (rule B3), the same
 * on every machine. The four are mixed into one number, the draw, which travels with the request; whoever makes the
 * sample starts one generator for each purpose from it, so that a new purpose leaves the others as they were.
 *
 * SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, passes BigCrush, and any state is a good one. Pure.
 */
#ifndef STK_BASE_RNG_H
#define STK_BASE_RNG_H

#include <stdint.h>

/* What a generator is for. Numbers are part of what a seed means: they are never changed or used again. */
enum stk_rng_purpose {
    STK_RNG_CLIP = 1,   /* where a random clip begins */
    STK_RNG_CROP = 2,   /* which part of a picture is taken */
    STK_RNG_FLIP = 3,   /* whether it is mirrored */
    STK_RNG_COLOUR = 4, /* changes of its colours */
    /* Of plans; the draw is of a window or a list, not of a sample. */
    STK_RNG_BATCH_ORDER = 32,
    STK_RNG_BATCH_SPREAD = 33,
    STK_RNG_BATCH_STEPS = 34
};

struct stk_rng {
    uint64_t state;
};

uint64_t stk_rng_draw(uint64_t seed, uint64_t epoch, uint64_t id, uint64_t occurrence);

void stk_rng_init(struct stk_rng *rng, uint64_t draw, enum stk_rng_purpose purpose);
uint64_t stk_rng_next(struct stk_rng *rng);
/* Uniform in 0 ... n-1, without the bias of a remainder; n >= 1. */
uint64_t stk_rng_below(struct stk_rng *rng, uint64_t n);
/* Uniform in [0, 1), a multiple of 2^-53. */
double stk_rng_unit(struct stk_rng *rng);

#endif
