/* SPDX-License-Identifier: Apache-2.0
 *
 * The conventions: see sampling.h.
 */
#include "media/sampling.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/rng.h"

#define RATE_MAX 1000.0    /* frames a second; faster cameras are sampled by index */
#define RATE_UNITS 1000000 /* of a rate: millionths of a frame a second */
#define FACTOR_MAX 64u
/* What the public by-rate convention takes if nothing else is said. */
#define RATE_DEFAULT 2.0
#define MIN_DEFAULT 4u
#define MAX_DEFAULT 768u
#define FACTOR_DEFAULT 2u

__extension__ typedef unsigned __int128 wide; /* n, both rates and the units together take up to 126 bits */

/* --------------------------------------------------------------------------------------------------------------- form
 */

static stoker_status check_rate(struct stk_sampling *sampling, const stoker_video_spec *spec, stoker_error *err)
{
    double rate = spec->fps != 0 ? spec->fps : RATE_DEFAULT;
    if (!(rate >= 1.0 / RATE_UNITS && rate <= RATE_MAX))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "fps is %g, expected 0.000001 to %g frames a second",
                        spec->fps, RATE_MAX);
    sampling->rate_num = (uint64_t)llrint(rate * RATE_UNITS);
    sampling->rate_den = RATE_UNITS;
    sampling->factor = spec->frame_factor ? spec->frame_factor : FACTOR_DEFAULT;
    sampling->min = spec->frames_min ? spec->frames_min : MIN_DEFAULT;
    sampling->max = spec->frames_max ? spec->frames_max : MAX_DEFAULT;
    if (sampling->max > spec->frames) sampling->max = spec->frames;
    if (sampling->factor > FACTOR_MAX || sampling->factor > sampling->max)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "frame_factor is %u, expected at most %u, and at most the largest number of frames (%u)",
                        sampling->factor, FACTOR_MAX, sampling->max);
    if (sampling->min > STK_SAMPLE_FRAMES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "frames_min is %u, expected at most %u", spec->frames_min,
                        STK_SAMPLE_FRAMES_MAX);
    return STOKER_OK;
}

stoker_status stk_sampling_init(struct stk_sampling *sampling, const stoker_video_spec *spec, stoker_error *err)
{
    memset(sampling, 0, sizeof *sampling);
    sampling->convention = spec->sampling;
    sampling->frames = spec->frames;
    sampling->stride = spec->stride ? spec->stride : 1;
    sampling->rounding = spec->rounding;
    sampling->spread = spec->spread;
    if ((unsigned)spec->sampling > STOKER_SAMPLING_RANDOM)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sampling convention %d is not known", (int)spec->sampling);
    if ((unsigned)spec->rounding > STOKER_ROUNDING_NEAREST)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rounding %d is not known", (int)spec->rounding);
    if ((unsigned)spec->spread > STOKER_SPREAD_STEP)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "spread %d is not known", (int)spec->spread);
    if (spec->frames < 1 || spec->frames > STK_SAMPLE_FRAMES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "frames is %u, expected 1 to %u", spec->frames,
                        STK_SAMPLE_FRAMES_MAX);
    bool clip = spec->sampling >= STOKER_SAMPLING_FIRST, rate = spec->sampling == STOKER_SAMPLING_RATE;
    if (!clip && sampling->stride != 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "stride is %u, which only a clip has (first, middle, last, random)", spec->stride);
    if (sampling->stride > STK_SAMPLE_FRAMES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "stride is %u, expected at most %u", spec->stride,
                        STK_SAMPLE_FRAMES_MAX);
    if (!rate && (spec->fps != 0 || spec->frames_min || spec->frames_max || spec->frame_factor))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "fps, frames_min, frames_max and frame_factor belong to sampling by rate");
    return rate ? check_rate(sampling, spec, err) : STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------- numbers
 */

/* numerator/denominator to the nearest integer, ties to even. */
static wide divide_to_even(wide numerator, wide denominator)
{
    wide down = numerator / denominator, rest2 = numerator % denominator * 2;
    return rest2 > denominator || (rest2 == denominator && down % 2) ? down + 1 : down;
}

uint64_t stk_sampling_uniform(uint64_t n, uint32_t wanted, uint32_t i)
{
    STK_ASSERT(n >= 1);
    STK_ASSERT(i < wanted);
    if (n <= wanted) return i < n ? i : n - 1;
    if (wanted == 1) return 0;
    return (uint64_t)divide_to_even((wide)i * (n - 1), wanted - 1);
}

uint64_t stk_sampling_step(uint64_t n, uint32_t wanted, uint32_t i)
{
    STK_ASSERT(n >= 1);
    STK_ASSERT(i < wanted);
    if (n <= wanted) return i < n ? i : n - 1;
    return (uint64_t)((wide)i * n / wanted);
}

static uint64_t by_rate(const struct stk_sampling *s, const struct stk_clip *clip)
{
    uint64_t n = clip->frames, f = s->factor;
    uint64_t most = s->max < n ? s->max : n;
    uint64_t low = (s->min + f - 1) / f * f, high = most / f * f;
    /* n/fps*r as a fraction. */
    wide top = (wide)n * clip->rate_den * s->rate_num, bottom = (wide)clip->rate_num * s->rate_den;
    if (top <= low * bottom) top = low, bottom = 1;
    if (top >= high * bottom) top = high, bottom = 1;
    wide groups = s->rounding == STOKER_ROUNDING_NEAREST ? divide_to_even(top, bottom * f) : top / (bottom * f);
    return (uint64_t)groups * f;
}

/* Frames from the first to the last of a whole clip. */
static uint64_t span_of(const struct stk_sampling *s) { return (uint64_t)(s->frames - 1) * s->stride + 1; }

/* -------------------------------------------------------------------------------------------------------------- choose
 */

stoker_status stk_sampling_count(const struct stk_sampling *s, const struct stk_clip *clip, uint32_t *out_count,
                                 stoker_error *err)
{
    uint64_t n = clip->frames, count;
    STK_ASSERT(n <= UINT32_MAX && clip->rate_num <= UINT32_MAX && clip->rate_den <= UINT32_MAX);
    if (n == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "the clip has no frames");
    switch (s->convention) {
    case STOKER_SAMPLING_RATE:
        if (clip->rate_num == 0 || clip->rate_den == 0)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "the file does not say how many frames it has a second, which sampling by rate needs");
        count = by_rate(s, clip);
        if (count < s->factor || count > n)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the clip has %llu frames, sampling by rate needs at least %u",
                            (unsigned long long)n, s->factor);
        break;
    case STOKER_SAMPLING_UNIFORM:
    case STOKER_SAMPLING_STEP: count = n < s->frames ? n : s->frames; break;
    default: count = n < span_of(s) ? (n - 1) / s->stride + 1 : s->frames; break;
    }
    STK_ASSERT(count >= 1 && count <= s->frames);
    *out_count = (uint32_t)count;
    return STOKER_OK;
}

static uint64_t clip_start(const struct stk_sampling *s, uint64_t n, uint64_t draw)
{
    uint64_t span = span_of(s);
    if (n <= span) return 0;
    struct stk_rng rng;
    switch (s->convention) {
    case STOKER_SAMPLING_MIDDLE: return (n - span) / 2;
    case STOKER_SAMPLING_LAST: return n - span;
    case STOKER_SAMPLING_RANDOM: stk_rng_init(&rng, draw, STK_RNG_CLIP); return stk_rng_below(&rng, n - span + 1);
    default: return 0;
    }
}

stoker_status stk_sampling_choose(const struct stk_sampling *s, const struct stk_clip *clip, uint64_t draw,
                                  uint64_t *out_ordinals, uint32_t *out_count, stoker_error *err)
{
    uint32_t count = 0;
    STK_TRY(stk_sampling_count(s, clip, &count, err));
    uint64_t n = clip->frames;
    bool step = s->convention == STOKER_SAMPLING_STEP ||
                (s->convention == STOKER_SAMPLING_RATE && s->spread == STOKER_SPREAD_STEP);
    if (s->convention >= STOKER_SAMPLING_FIRST) {
        uint64_t start = clip_start(s, n, draw);
        for (uint32_t i = 0; i < count; i++) out_ordinals[i] = start + (uint64_t)i * s->stride;
    } else {
        for (uint32_t i = 0; i < count; i++)
            out_ordinals[i] = step ? stk_sampling_step(n, count, i) : stk_sampling_uniform(n, count, i);
    }
    *out_count = count;
    return STOKER_OK;
}
