/* SPDX-License-Identifier: Apache-2.0
 *
 * See augment.h. One generator for each purpose, so that a transform more leaves the others as they were.
 */
#include "media/augment.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/rng.h"

/* How often a part of random shape is tried before the middle is taken. */
#define TRIES 10
#define LN2 0.69314718055994530942

stoker_status stk_augment_init(stoker_augment *out, const stoker_augment *augment, stoker_error *err)
{
    *out = *augment;
    if ((unsigned)augment->crop > STOKER_CROP_RESIZED)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "crop %d is none of centre, random, resized",
                        (int)augment->crop);
    if (augment->crop_pad > STK_SAMPLE_SIDE_MAX || (augment->crop_pad && augment->crop != STOKER_CROP_RANDOM))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "crop_pad is %u, expected at most %u, and 0 unless the crop is random", augment->crop_pad,
                        STK_SAMPLE_SIDE_MAX);
    if (augment->scale[0] == 0 && augment->scale[1] == 0) out->scale[0] = 0.08f, out->scale[1] = 1.0f;
    if (augment->ratio[0] == 0 && augment->ratio[1] == 0) out->ratio[0] = 3.0f / 4.0f, out->ratio[1] = 4.0f / 3.0f;
    if (!(out->scale[0] > 0 && out->scale[0] <= out->scale[1] && out->scale[1] <= 1))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "scale is %g to %g, expected 0 < smallest <= largest <= 1",
                        (double)out->scale[0], (double)out->scale[1]);
    if (!(out->ratio[0] >= 1.0f / 256.0f && out->ratio[0] <= out->ratio[1] && out->ratio[1] <= 256.0f))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "ratio is %g to %g, expected 1/256 <= smallest <= largest <= 256", (double)out->ratio[0],
                        (double)out->ratio[1]);
    if (!(augment->flip >= 0 && augment->flip <= 1))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "flip is %g, expected 0 to 1", (double)augment->flip);
    const float jitter[3] = {augment->brightness, augment->contrast, augment->saturation};
    static const char *const names[3] = {"brightness", "contrast", "saturation"};
    for (int i = 0; i < 3; i++)
        if (!(jitter[i] >= 0 && jitter[i] <= 255))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s is %g, expected 0 to 255", names[i],
                            (double)jitter[i]);
    if (!(augment->hue >= 0 && augment->hue <= 0.5f))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "hue is %g, expected 0 to 0.5", (double)augment->hue);
    return STOKER_OK;
}

bool stk_augment_is_random(const stoker_augment *augment)
{
    return augment->crop != STOKER_CROP_CENTRE || augment->flip > 0 || augment->brightness > 0 ||
           augment->contrast > 0 || augment->saturation > 0 || augment->hue > 0;
}

static double between(struct stk_rng *rng, double low, double high) { return low + stk_rng_unit(rng) * (high - low); }

bool stk_augment_flips(const stoker_augment *augment, uint64_t draw)
{
    struct stk_rng rng;
    stk_rng_init(&rng, draw, STK_RNG_FLIP);
    return stk_rng_unit(&rng) < (double)augment->flip;
}

void stk_augment_colours(const stoker_augment *augment, uint64_t draw, struct stk_colouring *out)
{
    struct stk_rng rng;
    const float jitter[STK_COLOURS] = {augment->brightness, augment->contrast, augment->saturation, augment->hue};
    enum stk_colour_step order[STK_COLOURS] = {STK_COLOUR_BRIGHTNESS, STK_COLOUR_CONTRAST, STK_COLOUR_SATURATION,
                                               STK_COLOUR_HUE};
    float factor[STK_COLOURS];
    memset(out, 0, sizeof *out);
    stk_rng_init(&rng, draw, STK_RNG_COLOUR);
    for (uint32_t i = STK_COLOURS - 1; i > 0; i--) {
        uint32_t j = (uint32_t)stk_rng_below(&rng, i + 1);
        enum stk_colour_step step = order[i];
        order[i] = order[j];
        order[j] = step;
    }
    for (int i = 0; i < STK_COLOURS; i++) { /* drawn in any case: one factor does not move another */
        double low = i == STK_COLOUR_HUE ? -(double)jitter[i] : jitter[i] < 1 ? 1.0 - (double)jitter[i] : 0.0;
        double high = i == STK_COLOUR_HUE ? (double)jitter[i] : 1.0 + (double)jitter[i];
        factor[i] = (float)between(&rng, low, high);
    }
    for (int i = 0; i < STK_COLOURS; i++)
        if (jitter[order[i]] > 0) {
            out->step[out->count] = order[i];
            out->factor[out->count++] = factor[order[i]];
        }
}

/* ----------------------------------------------------------------------------------------------------------------
 * parts */

/* Natural logarithm of x from 2^-8 to 2^8 and e^y, by additions, multiplications and divisions in one order. */
static double logarithm(double x)
{
    double shift = 0;
    while (x > 1.5) x /= 2, shift += LN2;
    while (x < 0.75) x *= 2, shift -= LN2;
    /* 2 * (z + z^3/3 + z^5/5 + ...), z = (x - 1) / (x + 1), at most 1/5 */
    double z = (x - 1) / (x + 1), power = z, sum = 0;
    for (int k = 1; k < 40; k += 2, power *= z * z) sum += power / k;
    return shift + 2 * sum;
}

static double exponential(double y)
{
    int halvings = 0;
    while (y > 0.5 || y < -0.5) y /= 2, halvings++;
    double term = 1, sum = 1;
    for (int k = 1; k < 20; k++) term *= y / k, sum += term;
    for (; halvings > 0; halvings--) sum *= sum;
    return sum;
}

/* What fits, if none of the tries did: the largest middle of a permitted shape. */
static struct stk_rectangle middle(const stoker_augment *augment, struct stk_extent picture)
{
    const double ratio = (double)picture.width / (double)picture.height;
    uint32_t width = picture.width, height = picture.height;
    if (ratio < (double)augment->ratio[0])
        height = (uint32_t)rint((double)width / (double)augment->ratio[0]);
    else if (ratio > (double)augment->ratio[1])
        width = (uint32_t)rint((double)height * (double)augment->ratio[1]);
    if (width > picture.width) width = picture.width;
    if (height > picture.height) height = picture.height;
    if (width < 1) width = 1;
    if (height < 1) height = 1;
    return (struct stk_rectangle){(picture.width - width) / 2, (picture.height - height) / 2, width, height};
}

struct stk_rectangle stk_augment_part(const stoker_augment *augment, uint64_t draw, struct stk_extent picture)
{
    struct stk_rng rng;
    const double area = (double)picture.width * (double)picture.height;
    const double low = logarithm((double)augment->ratio[0]), high = logarithm((double)augment->ratio[1]);
    stk_rng_init(&rng, draw, STK_RNG_CROP);
    for (int tries = 0; tries < TRIES; tries++) {
        double wanted = area * between(&rng, (double)augment->scale[0], (double)augment->scale[1]);
        double shape = exponential(between(&rng, low, high));
        double width = rint(sqrt(wanted * shape)), height = rint(sqrt(wanted / shape));
        if (!(width >= 1 && width <= picture.width && height >= 1 && height <= picture.height)) continue;
        struct stk_rectangle part = {0, 0, (uint32_t)width, (uint32_t)height};
        part.y = (uint32_t)stk_rng_below(&rng, (uint64_t)picture.height - part.height + 1);
        part.x = (uint32_t)stk_rng_below(&rng, (uint64_t)picture.width - part.width + 1);
        return part;
    }
    return middle(augment, picture);
}

struct stk_place stk_augment_place(const stoker_augment *augment, uint64_t draw, struct stk_extent scaled,
                                   struct stk_extent kept)
{
    struct stk_rng rng;
    const uint64_t wide = (uint64_t)scaled.width + 2 * (uint64_t)augment->crop_pad;
    const uint64_t high = (uint64_t)scaled.height + 2 * (uint64_t)augment->crop_pad;
    STK_ASSERT(kept.width <= wide && kept.height <= high);
    stk_rng_init(&rng, draw, STK_RNG_CROP);
    struct stk_place place;
    place.y = (uint32_t)stk_rng_below(&rng, high - kept.height + 1);
    place.x = (uint32_t)stk_rng_below(&rng, wide - kept.width + 1);
    return place;
}
