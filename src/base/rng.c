/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of samples: see rng.h.
 */
#include "base/rng.h"

#include "base/assert.h"

#define STEP UINT64_C(0x9e3779b97f4a7c15) /* 2^64 divided by the golden ratio, odd */

/* A bijection in which each bit of the input moves about half of those of the output. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t stk_rng_draw(uint64_t seed, uint64_t epoch, uint64_t id, uint64_t occurrence)
{
    const uint64_t parts[4] = {seed, epoch, id, occurrence};
    uint64_t draw = 0;
    for (int i = 0; i < 4; i++) draw = mix(draw + STEP + mix(parts[i] + STEP * (uint64_t)(i + 1)));
    return draw;
}

void stk_rng_init(struct stk_rng *rng, uint64_t draw, enum stk_rng_purpose purpose)
{
    rng->state = mix(draw + STEP * (uint64_t)purpose);
}

uint64_t stk_rng_next(struct stk_rng *rng)
{
    rng->state += STEP;
    return mix(rng->state);
}

uint64_t stk_rng_below(struct stk_rng *rng, uint64_t n)
{
    STK_ASSERT(n >= 1);
    uint64_t surplus = (UINT64_MAX % n + 1) % n; /* how many of the 2^64 numbers are too many */
    uint64_t value = stk_rng_next(rng);
    while (value > UINT64_MAX - surplus) value = stk_rng_next(rng);
    return value % n;
}

double stk_rng_unit(struct stk_rng *rng) { return (double)(stk_rng_next(rng) >> 11) * 0x1p-53; }
