/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels into samples: see transform.h. The loops over a row are written so that the compiler turns them into vector
 * code.
 */
#include "media/transform.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/augment.h"
#include "media/transform_internal.h"

/* Samples above this are written past the caches: half of them would be thrown out again before anyone reads them. */
#define PAST_CACHE_BYTES ((size_t)32 << 20)

/* ---------------------------------------------------------------------------------------------------------------- form
 */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint16_t stk_bfloat_of(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); /* stays not a number */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

uint16_t stk_half_of(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on the nearest is infinity */
    if (size < 0x38800000u) {                                   /* subnormal: whole steps of 2^-24 */
        double steps = rint(fabs((double)value) * 16777216.0);
        return (uint16_t)(sign | (uint32_t)steps);
    }
    size -= 0x38000000u; /* exponent bias 127 to 15 */
    return (uint16_t)(sign | (size + 0xfffu + (size >> 13 & 1u)) >> 13);
}

static stoker_status check_sizes(const stoker_video_spec *spec, stoker_error *err)
{
    if (spec->frames < 1 || spec->frames > STK_SAMPLE_FRAMES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "frames is %u, expected 1 to %u", spec->frames,
                        STK_SAMPLE_FRAMES_MAX);
    if (spec->width < 1 || spec->width > STK_SAMPLE_SIDE_MAX || spec->height < 1 || spec->height > STK_SAMPLE_SIDE_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "size is %ux%u, expected 1 to %u pixels a side", spec->width,
                        spec->height, STK_SAMPLE_SIDE_MAX);
    return STOKER_OK;
}

static stoker_status check_choices(const stoker_video_spec *spec, stoker_error *err)
{
    if (spec->dtype != STOKER_DTYPE_DEFAULT && spec->dtype != STOKER_DTYPE_UINT8 &&
        spec->dtype != STOKER_DTYPE_FLOAT16 && spec->dtype != STOKER_DTYPE_BFLOAT16 &&
        spec->dtype != STOKER_DTYPE_FLOAT32)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "dtype %d is none of uint8, float16, bfloat16, float32",
                        (int)spec->dtype);
    if ((unsigned)spec->layout > STOKER_LAYOUT_THWC)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "layout %d is none of TCHW, CTHW, THWC", (int)spec->layout);
    if ((unsigned)spec->resize > STOKER_RESIZE_PAD)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "resize mode %d is not known", (int)spec->resize);
    if ((unsigned)spec->short_clip > STOKER_SHORT_ERROR)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "short-clip rule %d is not known", (int)spec->short_clip);
    if (!(spec->damaged_max <= 1))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "damaged_max is %g, expected at most 1", spec->damaged_max);
    return STOKER_OK;
}

static stoker_status check_picture(const stoker_picture_options *picture, stoker_error *err)
{
    if ((unsigned)picture->untagged > STOKER_UNTAGGED_BY_SIZE)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rule %d for untagged pictures is not known",
                        (int)picture->untagged);
    if ((unsigned)picture->alpha > STOKER_ALPHA_COMPOSITE)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "alpha rule %d is not known", (int)picture->alpha);
    if (picture->apply_sar > 1 || picture->ignore_rotation > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "apply_sar is %u, ignore_rotation %u, expected 0 or 1",
                        picture->apply_sar, picture->ignore_rotation);
    const uint8_t *b = picture->background;
    if (b[3] || (picture->alpha == STOKER_ALPHA_DROP && (b[0] || b[1] || b[2])))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "background is %u,%u,%u,%u, expected three numbers and a zero, and only to composite on", b[0],
                        b[1], b[2], b[3]);
    return STOKER_OK;
}

static stoker_status init_look(struct stk_form *form, const stoker_video_spec *spec, stoker_error *err)
{
    if ((unsigned)spec->mode > STOKER_VIDEO_EXACT)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "mode %d is none of fast, exact", (int)spec->mode);
    if ((unsigned)spec->filter > STOKER_VIDEO_BICUBIC)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "filter %d is none of bilinear, bicubic", (int)spec->filter);
    if (spec->filter == STOKER_VIDEO_BICUBIC && spec->mode != STOKER_VIDEO_EXACT)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a bicubic filter needs the exact mode");
    STK_TRY(stk_augment_init(&form->augment, &spec->augment, err));
    if (spec->resize == STOKER_RESIZE_PAD && spec->augment.crop == STOKER_CROP_RANDOM)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "a padded picture fits whole: it cannot be cropped at random");
    form->mode = spec->mode, form->filter = spec->filter;
    form->looks =
        spec->mode == STOKER_VIDEO_EXACT || spec->resize == STOKER_RESIZE_PAD || stk_augment_is_random(&spec->augment);
    return STOKER_OK;
}

static stoker_status check_values(const stoker_video_spec *spec, int is_float, stoker_error *err)
{
    for (int c = 0; c < 3; c++) {
        if (!isfinite(spec->mean[c]) || !isfinite(spec->std[c]) || spec->std[c] < 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "mean %g and std %g of channel %d: expected finite, std not negative",
                            (double)spec->mean[c], (double)spec->std[c], c);
        if (!is_float && (spec->mean[c] != 0 || spec->std[c] != 0))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "mean and std need a floating-point dtype, not uint8");
    }
    return STOKER_OK;
}

static void fill_tables(struct stk_form *form, const stoker_video_spec *spec)
{
    for (int c = 0; c < 3; c++) {
        double std = spec->std[c] != 0 ? (double)spec->std[c] : 1.0;
        form->scale[c] = (float)(1.0 / (255.0 * std));
        form->offset[c] = (float)(-(double)spec->mean[c] / std);
        for (int x = 0; x < 256; x++) {
            float value = (float)x * form->scale[c] + form->offset[c];
            form->table[c][x] = form->dtype == STOKER_DTYPE_FLOAT16 ? stk_half_of(value) : stk_bfloat_of(value);
        }
    }
}

stoker_status stk_form_init(struct stk_form *form, const stoker_video_spec *spec, stoker_error *err)
{
    if (!spec) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "no form is given");
    if (spec->struct_size != sizeof *spec)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the form has %u bytes, this library knows %zu", spec->struct_size,
                        sizeof *spec);
    STK_TRY(check_sizes(spec, err));
    STK_TRY(check_choices(spec, err));
    memset(form, 0, sizeof *form);
    form->dtype = spec->dtype == STOKER_DTYPE_DEFAULT ? STOKER_DTYPE_UINT8 : spec->dtype;
    STK_TRY(check_values(spec, form->dtype != STOKER_DTYPE_UINT8, err));
    form->frames = spec->frames, form->width = spec->width, form->height = spec->height;
    STK_TRY(stk_sampling_init(&form->sampling, spec, err));
    STK_TRY(check_picture(&spec->picture, err));
    STK_TRY(init_look(form, spec, err));
    if (spec->count_frames > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "count_frames is %u, expected 0 or 1", spec->count_frames);
    form->picture = spec->picture;
    form->counts = spec->count_frames;
    form->layout = spec->layout, form->resize = spec->resize, form->short_clip = spec->short_clip;
    form->damaged_max = spec->damaged_max == 0 ? 0.5 : spec->damaged_max < 0 ? 0 : spec->damaged_max;
    form->value_bytes = form->dtype == STOKER_DTYPE_UINT8 ? 1 : form->dtype == STOKER_DTYPE_FLOAT32 ? 4 : 2;
    size_t pixels, values, bytes;
    if (!stk_mul_size(form->width, form->height, &pixels) || !stk_mul_size(pixels, (size_t)3 * form->frames, &values) ||
        !stk_mul_size(values, form->value_bytes, &bytes) || bytes > STK_SAMPLE_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u frames of %ux%u are more than %llu bytes", form->frames,
                        form->width, form->height, (unsigned long long)STK_SAMPLE_BYTES_MAX);
    form->sample_bytes = bytes;
    fill_tables(form, spec);
    return STOKER_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- fit
 */

/* Half of an even or odd surplus, ties to even, as Python's round() does in the public processors. */
static uint32_t half_even(uint32_t surplus)
{
    uint32_t half = surplus / 2;
    return surplus % 2 && half % 2 ? half + 1 : half;
}

uint32_t stk_square_width(uint32_t width, uint32_t sar_num, uint32_t sar_den)
{
    if (sar_num == 0 || sar_den == 0) return width;
    uint64_t square = ((uint64_t)width * sar_num + sar_den / 2) / sar_den;
    return square >= 1 && square <= STK_SAMPLE_SIDE_MAX ? (uint32_t)square : width;
}

struct stk_fit stk_fit_picture(stoker_resize_mode resize, uint32_t picture_width, uint32_t picture_height,
                               int32_t rotation, uint32_t width, uint32_t height)
{
    bool turned = rotation == 90 || rotation == 270;
    uint64_t w = turned ? picture_height : picture_width, h = turned ? picture_width : picture_height; /* as seen */
    uint64_t scaled_width = width, scaled_height = height;
    if (resize == STOKER_RESIZE_SHORT_SIDE_CROP) {
        /* The long side is cut to whole pixels, as the public processors do. */
        if (w * height >= h * width)
            scaled_width = w * height / h;
        else
            scaled_height = h * width / w;
        if (scaled_width < width) scaled_width = width;
        if (scaled_height < height) scaled_height = height;
    }
    uint32_t x = half_even((uint32_t)(scaled_width - width)), y = half_even((uint32_t)(scaled_height - height));
    uint32_t right = (uint32_t)scaled_width - width - x, bottom = (uint32_t)scaled_height - height - y;
    struct stk_fit fit = {(uint32_t)scaled_width, (uint32_t)scaled_height, {x, y, width, height}};
    /* The same rectangle before the rotation: what the margins of the seen picture were. */
    switch (rotation) {
    case 90: fit.keep.x = y, fit.keep.y = right; break;
    case 180: fit.keep.x = right, fit.keep.y = bottom; break;
    case 270: fit.keep.x = bottom, fit.keep.y = x; break;
    default: break;
    }
    if (turned) {
        fit.scaled_width = (uint32_t)scaled_height, fit.scaled_height = (uint32_t)scaled_width;
        fit.keep.width = height, fit.keep.height = width;
    }
    return fit;
}

/* Sources are read along their lines, in blocks that stay in the cache. */
#define ROTATE_BLOCK 32u

static void rotate_block(const uint8_t *from, size_t from_stride, uint32_t width, uint32_t height, int32_t rotation,
                         uint8_t *to, size_t to_stride, uint32_t x0, uint32_t y0)
{
    uint32_t x1 = x0 + ROTATE_BLOCK < width ? x0 + ROTATE_BLOCK : width;
    uint32_t y1 = y0 + ROTATE_BLOCK < height ? y0 + ROTATE_BLOCK : height;
    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = x0; x < x1; x++) {
            uint8_t value = from[y * from_stride + x];
            if (rotation == 90)
                to[x * to_stride + (height - 1 - y)] = value;
            else if (rotation == 180)
                to[(height - 1 - y) * to_stride + (width - 1 - x)] = value;
            else
                to[(width - 1 - x) * to_stride + y] = value;
        }
}

void stk_rotate_plane(const uint8_t *from, size_t from_stride, uint32_t width, uint32_t height, int32_t rotation,
                      uint8_t *to, size_t to_stride)
{
    STK_ASSERT(rotation == 90 || rotation == 180 || rotation == 270);
    for (uint32_t y = 0; y < height; y += ROTATE_BLOCK)
        for (uint32_t x = 0; x < width; x += ROTATE_BLOCK)
            rotate_block(from, from_stride, width, height, rotation, to, to_stride, x, y);
}

/* ----------------------------------------------------------------------------------------------------------------
 * store */

static void store_row(const struct stk_form *form, int channel, const uint8_t *restrict in, void *dst, size_t index)
{
    const struct stk_affine affine = {form->scale[channel], form->offset[channel]};
    size_t count = form->width, i = 0;
    switch (form->value_bytes) {
    case 1: memcpy((uint8_t *)dst + index, in, count); break;
    case 2: {
        uint16_t *restrict out = (uint16_t *)dst + index;
        const uint16_t *restrict table = form->table[channel];
        if (form->dtype == STOKER_DTYPE_BFLOAT16) i = stk_bfloats_wide(in, out, count, affine);
        if (form->dtype == STOKER_DTYPE_FLOAT16) i = stk_halves_wide(in, out, count, affine);
        for (; i < count; i++) out[i] = table[in[i]];
        break;
    }
    default: {
        float *restrict out = (float *)dst + index;
        i = stk_floats_wide(in, out, count, affine, form->sample_bytes > PAST_CACHE_BYTES);
        for (; i < count; i++) out[i] = (float)in[i] * affine.scale + affine.offset;
    }
    }
}

static void store_pixels(const struct stk_form *form, const uint8_t *restrict r, const uint8_t *restrict g,
                         const uint8_t *restrict b, void *dst, size_t index)
{
    size_t count = form->width;
    switch (form->value_bytes) {
    case 1: {
        uint8_t *restrict out = (uint8_t *)dst + index;
        for (size_t i = 0; i < count; i++) out[3 * i] = r[i], out[3 * i + 1] = g[i], out[3 * i + 2] = b[i];
        break;
    }
    case 2: {
        uint16_t *restrict out = (uint16_t *)dst + index;
        for (size_t i = 0; i < count; i++)
            out[3 * i] = form->table[0][r[i]], out[3 * i + 1] = form->table[1][g[i]],
                    out[3 * i + 2] = form->table[2][b[i]];
        break;
    }
    default: {
        float *restrict out = (float *)dst + index;
        for (size_t i = 0; i < count; i++) {
            out[3 * i] = (float)r[i] * form->scale[0] + form->offset[0];
            out[3 * i + 1] = (float)g[i] * form->scale[1] + form->offset[1];
            out[3 * i + 2] = (float)b[i] * form->scale[2] + form->offset[2];
        }
    }
    }
}

/* Of the first value of one channel of one frame, where channels are apart. */
static size_t plane_index(const struct stk_form *form, int channel, uint32_t position)
{
    size_t plane = (size_t)form->width * form->height;
    return form->layout == STOKER_LAYOUT_TCHW ? ((size_t)position * 3 + (size_t)channel) * plane
                                              : ((size_t)channel * form->frames + position) * plane;
}

void stk_form_store(const struct stk_form *form, const struct stk_planes *planes, void *dst, uint32_t position)
{
    STK_ASSERT(position < form->frames);
    size_t plane = (size_t)form->width * form->height;
    if (form->layout == STOKER_LAYOUT_THWC) {
        for (uint32_t y = 0; y < form->height; y++) {
            size_t row = y * planes->stride;
            store_pixels(form, planes->rgb[0] + row, planes->rgb[1] + row, planes->rgb[2] + row, dst,
                         (position * plane + (size_t)y * form->width) * 3);
        }
        return;
    }
    for (int channel = 0; channel < 3; channel++) {
        size_t index = plane_index(form, channel, position);
        for (uint32_t y = 0; y < form->height; y++)
            store_row(form, channel, planes->rgb[channel] + y * planes->stride, dst, index + (size_t)y * form->width);
    }
    stk_wide_finish(form->value_bytes == 4 && form->sample_bytes > PAST_CACHE_BYTES);
}

bool stk_form_planes(const struct stk_form *form, void *dst, uint32_t position, uint8_t *out_planes[3])
{
    if (form->value_bytes != 1 || form->layout == STOKER_LAYOUT_THWC || form->width % STK_RESAMPLE_ALIGNMENT)
        return false;
    for (int channel = 0; channel < 3; channel++)
        out_planes[channel] = (uint8_t *)dst + plane_index(form, channel, position);
    return true;
}
