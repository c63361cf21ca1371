/* SPDX-License-Identifier: Apache-2.0
 *
 * See fit.h.
 */
#include "media/fit.h"

#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/limits.h"
#include "media/sampling.h"

#define PATCH_MAX 1024u
#define MERGE_MAX 64u
#define TEMPORAL_MAX 256u
/* Beyond it no public processor goes. */
#define ASPECT_MAX 200u
/* Larger limits mean none; doubles hold them exactly. */
#define PIXELS_MAX (UINT64_C(1) << 48)

stoker_status stk_fit_check_rule(const stoker_patch_rule *rule, stoker_error *err)
{
    const uint32_t known = STOKER_FIT_WHOLE_FACTOR | STOKER_FIT_GROW_FIRST | STOKER_FIT_EVEN_FRAMES;
    if (rule->patch < 1 || rule->patch > PATCH_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "patch is %u, expected 1 to %u", rule->patch, PATCH_MAX);
    if (rule->merge < 1 || rule->merge > MERGE_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "merge is %u, expected 1 to %u", rule->merge, MERGE_MAX);
    if (rule->temporal < 1 || rule->temporal > TEMPORAL_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "temporal is %u, expected 1 to %u", rule->temporal,
                        TEMPORAL_MAX);
    if ((unsigned)rule->limits > STOKER_FIT_CLIP)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "limits %d are neither of a frame nor of a clip",
                        (int)rule->limits);
    if (rule->flags & ~known)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "flags are %#x, known are %#x", rule->flags, known);
    if (rule->pixels_min < 1 || rule->pixels_min > rule->pixels_max || rule->pixels_max > PIXELS_MAX)
        return stk_fail(
            err, STOKER_ERR_INVALID_ARGUMENT, "pixels_min %llu and pixels_max %llu: expected 1 <= min <= max <= %llu",
            (unsigned long long)rule->pixels_min, (unsigned long long)rule->pixels_max, (unsigned long long)PIXELS_MAX);
    bool frame = rule->limits == STOKER_FIT_FRAME;
    if (rule->clip_pixels > PIXELS_MAX || (rule->clip_pixels && !frame))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "clip_pixels is %llu, expected at most %llu, and 0 unless limits are of a frame",
                        (unsigned long long)rule->clip_pixels, (unsigned long long)PIXELS_MAX);
    if (rule->frame_pixels_max > PIXELS_MAX || (rule->frame_pixels_max && frame))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "frame_pixels_max is %llu, expected at most %llu, and 0 unless limits are of a clip",
                        (unsigned long long)rule->frame_pixels_max, (unsigned long long)PIXELS_MAX);
    return STOKER_OK;
}

static stoker_status check_clip(const stoker_clip *clip, stoker_error *err)
{
    if (clip->frames < 1 || clip->frames > STK_SAMPLE_FRAMES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a clip of %u frames, expected 1 to %u", clip->frames,
                        STK_SAMPLE_FRAMES_MAX);
    if (clip->width < 1 || clip->width > STK_SAMPLE_SIDE_MAX || clip->height < 1 || clip->height > STK_SAMPLE_SIDE_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a picture of %ux%u, expected 1 to %u pixels a side",
                        clip->width, clip->height, STK_SAMPLE_SIDE_MAX);
    return STOKER_OK;
}

/* ---------------------------------------------------------------------------------------------------------- patches */

/* a / b rounded, half to even. */
static uint64_t divide_even(uint64_t a, uint64_t b)
{
    uint64_t whole = a / b, twice = 2 * (a % b);
    return twice > b || (twice == b && whole % 2) ? whole + 1 : whole;
}

static uint64_t at_least(uint64_t value, uint64_t least) { return value < least ? least : value; }

/* Frames that the limits of a clip are multiplied with. */
static uint64_t frames_counted(const stoker_patch_rule *rule, uint32_t frames)
{
    uint64_t q = rule->temporal;
    if (frames < q) return q;
    return rule->flags & STOKER_FIT_EVEN_FRAMES ? divide_even(frames, q) * q : (frames + q - 1) / q * q;
}

/* The upper limit of this clip, in pixels of a frame or of the clip. */
static double upper_limit(const stoker_patch_rule *rule, uint32_t frames)
{
    const uint64_t floor_pixels = (uint64_t)((double)rule->pixels_min * 1.05);
    if (rule->limits == STOKER_FIT_CLIP) {
        if (!rule->frame_pixels_max) return (double)rule->pixels_max;
        uint64_t share = rule->pixels_max / frames;
        if (share > rule->frame_pixels_max) share = rule->frame_pixels_max;
        return (double)(at_least(share, floor_pixels) * frames);
    }
    if (!rule->clip_pixels) return (double)rule->pixels_max;
    uint64_t whole_share = rule->clip_pixels * rule->temporal / frames;
    double share = (double)whole_share;
    if (rule->flags & STOKER_FIT_WHOLE_FACTOR) share = (double)rule->clip_pixels / frames * rule->temporal;
    double limit = share < (double)rule->pixels_max ? share : (double)rule->pixels_max;
    return limit < (double)floor_pixels ? (double)floor_pixels : limit;
}

/* Down to whole factors below a limit, up to whole factors above one. */
static uint64_t shrink(double side, double beta, uint64_t factor)
{
    return at_least((uint64_t)floor(side / beta / (double)factor) * factor, factor);
}

static uint64_t enlarge(double side, double beta, uint64_t factor)
{
    return (uint64_t)ceil(side * beta / (double)factor) * factor;
}

static stoker_status fit(const stoker_patch_rule *rule, const stoker_clip *clip, uint64_t *out_width,
                         uint64_t *out_height, stoker_error *err)
{
    const uint64_t factor = (uint64_t)rule->patch * rule->merge;
    const bool whole = rule->limits == STOKER_FIT_CLIP;
    uint64_t w = clip->width, h = clip->height;
    if (rule->flags & STOKER_FIT_GROW_FIRST && (w < factor || h < factor)) {
        double by_h = (double)factor / (double)h, by_w = (double)factor / (double)w, scale = by_h > by_w ? by_h : by_w;
        h = (uint64_t)((double)h * scale), w = (uint64_t)((double)w * scale);
    }
    uint64_t longer = w > h ? w : h, shorter = w > h ? h : w;
    if (longer > shorter * ASPECT_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "a picture of %ux%u: one side is more than %u times the other, which the patch rule refuses",
                        clip->width, clip->height, ASPECT_MAX);
    uint64_t to_h = divide_even(h, factor) * factor, to_w = divide_even(w, factor) * factor;
    if (rule->flags & STOKER_FIT_WHOLE_FACTOR) to_h = at_least(to_h, factor), to_w = at_least(to_w, factor);
    const double high = upper_limit(rule, clip->frames), low = (double)rule->pixels_min;
    const double pixels = (double)(to_h * to_w * (whole ? frames_counted(rule, clip->frames) : 1));
    const double given = (double)((whole ? clip->frames : 1) * h * w);
    if (pixels > high) {
        double beta = sqrt(given / high);
        to_h = shrink((double)h, beta, factor), to_w = shrink((double)w, beta, factor);
    } else if (pixels < low) {
        double beta = sqrt(low / given);
        to_h = enlarge((double)h, beta, factor), to_w = enlarge((double)w, beta, factor);
    }
    /* Limits so small or wide apart that a side vanishes: one factor is the least there is. */
    *out_width = at_least(to_w, factor), *out_height = at_least(to_h, factor);
    return STOKER_OK;
}

stoker_status stoker_patch_plan_clip(const stoker_patch_rule *rule, const stoker_clip *clip,
                                     stoker_patch_plan *out_plan, stoker_error *err)
{
    uint64_t width = 0, height = 0;
    if (!rule || !clip || !out_plan)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rule, clip and out_plan must be given");
    STK_TRY(stk_fit_check_rule(rule, err));
    STK_TRY(check_clip(clip, err));
    STK_TRY(fit(rule, clip, &width, &height, err));
    const uint32_t values = 3 * rule->temporal * rule->patch * rule->patch;
    const uint64_t t = (clip->frames + rule->temporal - 1) / rule->temporal;
    const uint64_t h = height / rule->patch, w = width / rule->patch;
    if (width > STK_SAMPLE_SIDE_MAX || height > STK_SAMPLE_SIDE_MAX || t * h * w > STK_SAMPLE_BYTES_MAX / 4 / values)
        return stk_fail(err, STOKER_ERR_LIMIT, "%u frames of %ux%u become %llux%llu, which is too large", clip->frames,
                        clip->width, clip->height, (unsigned long long)width, (unsigned long long)height);
    *out_plan = (stoker_patch_plan){.width = (uint32_t)width,
                                    .height = (uint32_t)height,
                                    .grid_t = (uint32_t)t,
                                    .grid_h = (uint32_t)h,
                                    .grid_w = (uint32_t)w,
                                    .patches = t * h * w,
                                    .tokens = t * h * w / ((uint64_t)rule->merge * rule->merge),
                                    .row_values = values};
    return STOKER_OK;
}

/* ----------------------------------------------------------------------------------------------------------- frames */

stoker_status stk_fit_check_frames(const stoker_frame_rule *rule, stoker_error *err)
{
    if ((unsigned)rule->choice > STOKER_FRAMES_STEP)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "choice %d of frames is neither uniform nor step",
                        (int)rule->choice);
    if (rule->frames > STK_SAMPLE_FRAMES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "frames is %u, expected at most %u", rule->frames,
                        STK_SAMPLE_FRAMES_MAX);
    if (rule->frames) return STOKER_OK;
    if (!(rule->rate > 0) || !isfinite(rule->rate))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "neither a number of frames is given nor a rate (%g), expected a positive number", rule->rate);
    if (rule->group > STK_SAMPLE_FRAMES_MAX || rule->frames_min > rule->frames_max ||
        rule->frames_max > STK_SAMPLE_FRAMES_MAX || rule->frames_max < (rule->group ? rule->group : 1))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "frames_min %u, frames_max %u and group %u: expected min <= max <= %u, and a group in max",
                        rule->frames_min, rule->frames_max, rule->group, STK_SAMPLE_FRAMES_MAX);
    return STOKER_OK;
}

stoker_status stoker_frames_count(const stoker_frame_rule *rule, const stoker_clip_facts *facts, uint32_t *out_count,
                                  stoker_error *err)
{
    if (!rule || !facts || !out_count)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rule, facts and out_count must be given");
    STK_TRY(stk_fit_check_frames(rule, err));
    if (facts->frames < 1) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a clip without frames");
    if (rule->frames) {
        *out_count = rule->frames;
        return STOKER_OK;
    }
    if (!(facts->duration_s > 0) || !isfinite(facts->duration_s))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a clip of %g seconds cannot be sampled by rate",
                        facts->duration_s);
    const uint64_t group = rule->group ? rule->group : 1;
    const uint64_t low = (rule->frames_min + group - 1) / group * group;
    const uint64_t high = (rule->frames_max < facts->frames ? rule->frames_max : facts->frames) / group * group;
    /* As the public processors: frames over frames a second, times the rate. */
    const double fps = (double)facts->frames / facts->duration_s;
    double wanted = (double)facts->frames / fps * rule->rate;
    if (wanted < (double)low) wanted = (double)low;
    if (wanted > (double)high) wanted = (double)high;
    uint64_t count = (uint64_t)wanted / group * group;
    *out_count = (uint32_t)(count < group ? group : count);
    return STOKER_OK;
}

uint64_t stoker_frames_index(stoker_frame_choice choice, const stoker_frame_place *place)
{
    const uint64_t n = place->frames ? place->frames : 1;
    const uint32_t count = place->count ? place->count : 1, i = place->index < count ? place->index : count - 1;
    return choice == STOKER_FRAMES_STEP ? stk_sampling_step(n, count, i) : stk_sampling_uniform(n, count, i);
}

/* ----------------------------------------------------------------------------------------- tubelets, causal latents */

stoker_status stoker_tubelet_plan_clip(const stoker_tubelet_rule *rule, const stoker_clip *clip,
                                       stoker_tubelet_plan *out_plan, stoker_error *err)
{
    if (!rule || !clip || !out_plan)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rule, clip and out_plan must be given");
    STK_TRY(check_clip(clip, err));
    if (rule->tubelet < 1 || rule->patch < 1 || !(rule->masked >= 0 && rule->masked < 1))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "tubelet %u, patch %u, masked %g: expected at least 1, at least 1, and 0 to below 1",
                        rule->tubelet, rule->patch, rule->masked);
    uint64_t places = (uint64_t)(clip->width / rule->patch) * (clip->height / rule->patch);
    uint64_t groups = clip->frames / rule->tubelet;
    uint64_t hidden = (uint64_t)floor(rule->masked * (double)places);
    *out_plan = (stoker_tubelet_plan){groups * places, groups * (places - hidden)};
    return STOKER_OK;
}

stoker_status stoker_latent_plan_clip(const stoker_latent_rule *rule, const stoker_clip *clip,
                                      stoker_latent_plan *out_plan, stoker_error *err)
{
    if (!rule || !clip || !out_plan)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rule, clip and out_plan must be given");
    STK_TRY(check_clip(clip, err));
    if (rule->channels < 1 || rule->stride_t < 1 || rule->stride < 1 || rule->patch_t < 1 || rule->patch < 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "channels %u, strides %u and %u, patches %u and %u: expected at least 1 each", rule->channels,
                        rule->stride_t, rule->stride, rule->patch_t, rule->patch);
    const uint32_t later = (clip->frames - 1) / rule->stride_t;
    stoker_latent_plan plan = {.channels = rule->channels,
                               .t = later + 1,
                               .h = clip->height / rule->stride,
                               .w = clip->width / rule->stride,
                               .frames_used = later * rule->stride_t + 1};
    plan.tokens = (uint64_t)(plan.t / rule->patch_t) * (plan.h / rule->patch) * (plan.w / rule->patch);
    *out_plan = plan;
    return STOKER_OK;
}
