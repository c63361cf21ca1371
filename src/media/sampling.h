/* SPDX-License-Identifier: Apache-2.0
 *
 * Which frames of a clip make a sample: the public conventions in integers, so that no machine rounds another way.
 *
 * Of n presented frames, N are wanted (all indices count presented frames from 0):
 *   uniform   rint(i*(n-1)/(N-1)), ties to even; N = 1: frame 0
 *   step      floor(i*n/N)
 *   by rate   k frames, spread as one of the two above: k = n/fps*r, then min(max(k, lo), hi, n), then down (or to the
 *             nearest) multiple of f; lo = ceil(min/f)*f, hi = floor(min(max, N, n)/f)*f
 *   first, middle, last, random   N frames, each `stride` after the one before; the clip begins at 0, at half of what
 *             is left over, at all of it, or at a place that the draw decides
 * A clip of fewer frames gives those that there are, each once; what the rest of a sample holds is up to the caller.
 *
 * Pure: no clock, no allocation, integers decide.
 */
#ifndef STK_MEDIA_SAMPLING_H
#define STK_MEDIA_SAMPLING_H

#include <stdint.h>

#include <stoker/error.h>
#include <stoker/media.h>

struct stk_sampling {
    stoker_sampling convention;
    uint32_t frames;             /* N; by rate: the most that there may be */
    uint32_t stride;             /* of clips, at least 1 */
    uint64_t rate_num, rate_den; /* r, frames a second */
    uint32_t min, max, factor;
    stoker_rounding rounding;
    stoker_spread spread;
};

/* What is known of a clip. */
struct stk_clip {
    uint64_t frames;             /* n, below 2^32 */
    uint64_t rate_num, rate_den; /* fps, both below 2^32; rate_num 0: not known */
};

/* Checks the fields and fills in the defaults. INVALID_ARGUMENT names the field, its value and the bound. */
stoker_status stk_sampling_init(struct stk_sampling *sampling, const stoker_video_spec *spec, stoker_error *err);

/* How many frames there will be: 1 to sampling->frames, and frames only if the clip has enough. CORRUPT: no frames, or
 * by rate fewer than the factor, or the rate of the clip is not known. */
stoker_status stk_sampling_count(const struct stk_sampling *sampling, const struct stk_clip *clip, uint32_t *out_count,
                                 stoker_error *err);

/* Writes that many ordinals, ascending, no repeats; `out_ordinals` has room for sampling->frames. `draw` is looked at
 * by the random clip only (base/rng.h). Errors as stk_sampling_count(). */
stoker_status stk_sampling_choose(const struct stk_sampling *sampling, const struct stk_clip *clip, uint64_t draw,
                                  uint64_t *out_ordinals, uint32_t *out_count, stoker_error *err);

/* The i-th of `wanted` frames of n, uniformly and by steps; n, wanted >= 1, i < wanted. With fewer frames than wanted
 * each is given once, then the last again. */
uint64_t stk_sampling_uniform(uint64_t n, uint32_t wanted, uint32_t i);
uint64_t stk_sampling_step(uint64_t n, uint32_t wanted, uint32_t i);

#endif
