/* SPDX-License-Identifier: Apache-2.0
 *
 * From scaled planar RGB to a sample: which size to scale to, the crop, rotation, value conversion and layout, written
 * straight into the destination. Everything that depends on the form alone is computed once.
 *
 * Values: uint8 as they are; else x*a + b in float32 (a = 1/(255*std), b = -mean/std), then rounded to nearest even.
 */
#ifndef STK_MEDIA_TRANSFORM_H
#define STK_MEDIA_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/media.h>

#include "media/resample.h"
#include "media/sampling.h"

struct stk_form {
    uint32_t frames, width, height;
    stoker_dtype dtype;
    stoker_video_layout layout;
    stoker_resize_mode resize;
    stoker_short_clip short_clip;
    double damaged_max;
    struct stk_sampling sampling;
    stoker_picture_options picture;
    bool counts; /* samples say how many of their frames are no repeats */
    stoker_video_mode mode;
    stoker_video_filter filter;
    stoker_augment augment;
    bool looks; /* pictures are more than scaled and cut in the middle: look.h */
    size_t value_bytes, sample_bytes;
    float scale[3], offset[3];
    uint16_t table[3][256]; /* float16 and bfloat16: the result for each input value */
};

/* Checks a form and fills in the defaults. INVALID_ARGUMENT names the field, its value and the bound. */
stoker_status stk_form_init(struct stk_form *form, const stoker_video_spec *spec, stoker_error *err);

/* How a picture of some size becomes width x height: scale it to scaled_*, keep a rectangle, rotate that. */
struct stk_fit {
    uint32_t scaled_width, scaled_height;
    struct stk_rectangle keep; /* of the scaled picture, before rotation */
};
struct stk_fit stk_fit_picture(stoker_resize_mode resize, uint32_t picture_width, uint32_t picture_height,
                               int32_t rotation, uint32_t width, uint32_t height);

/* Width of a picture whose pixels become square; the width itself where nothing is known, or the shape is absurd. */
uint32_t stk_square_width(uint32_t width, uint32_t sar_num, uint32_t sar_den);

struct stk_planes {
    const uint8_t *rgb[3];
    size_t stride;
};

/* Rotates one plane of width x height clockwise by 90, 180 or 270 degrees. */
void stk_rotate_plane(const uint8_t *from, size_t from_stride, uint32_t width, uint32_t height, int32_t rotation,
                      uint8_t *to, size_t to_stride);

/* Writes the form's width x height pixels at `planes` as frame `position` of the sample at `dst`. */
void stk_form_store(const struct stk_form *form, const struct stk_planes *planes, void *dst, uint32_t position);

/* Where the planes of that frame lie, R, G, B, lines without gaps, if pixels can be made right there: uint8, channels
 * apart, lines that whole vectors fill. */
bool stk_form_planes(const struct stk_form *form, void *dst, uint32_t position, uint8_t *out_planes[3]);

/* Nearest half precision and bfloat16 numbers, ties to even. */
uint16_t stk_half_of(float value);
uint16_t stk_bfloat_of(float value);

#endif
