/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling of 8-bit planar YUV: see resample.h. For each output line, the source lines that it needs go through the
 * horizontal pass into a small ring, then the vertical pass and the matrix run over the ring. Horizontal first, because
 * at the usual factors (up to 1.4) fewer lines go through it than there are output lines, chroma above all.
 */
#include "media/resample_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define SHRINK_MAX 4.0
#define STEP_BYTES 16u

/* -------------------------------------------------------------------------------------------------------------- tables
 */

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* swscale's bicubic (a = -0.6). */
static double cubic(double x)
{
    const double a = -0.6;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Triangles widen when they shrink; the cubic is used where nothing shrinks. */
struct kernel {
    double (*weight)(double x);
    double reach;
};
static const struct kernel linear_kernel = {triangle, 1}, cubic_kernel = {cubic, 2};

/* Weights of one output as integers that sum to one exactly; what rounding leaves over goes to the largest. */
static uint32_t weigh(const struct kernel *kernel, uint32_t inputs, double scale, uint32_t output, uint32_t *out_first,
                      int16_t *out)
{
    double wide = scale > 1 ? scale : 1, centre = (output + 0.5) * scale, sum = 0, exact[STK_TAPS_MAX];
    double reach = wide * kernel->reach;
    int64_t low = (int64_t)floor(centre - reach + 0.5), high = (int64_t)floor(centre + reach + 0.5);
    if (low < 0) low = 0;
    if (high > (int64_t)inputs) high = inputs;
    if (low >= high) low = high - 1;
    uint32_t taps = (uint32_t)(high - low), best = 0;
    int32_t rest = STK_WEIGHT_ONE;
    STK_ASSERT(taps >= 1 && taps <= STK_TAPS_MAX);
    for (uint32_t t = 0; t < taps; t++) {
        exact[t] = taps == 1 ? 1 : kernel->weight(((double)(low + t) - centre + 0.5) / wide);
        sum += exact[t];
    }
    if (!(sum > 0)) exact[0] = sum = 1;
    for (uint32_t t = 0; t < taps; t++) {
        out[t] = (int16_t)lrint(exact[t] / sum * STK_WEIGHT_ONE);
        rest -= out[t];
        if (out[t] > out[best]) best = t;
    }
    out[best] = (int16_t)(out[best] + rest);
    while (taps > 1 && out[taps - 1] == 0) taps--;
    uint32_t skip = 0;
    while (skip + 1 < taps && out[skip] == 0) skip++;
    memmove(out, out + skip, (taps - skip) * sizeof *out);
    *out_first = (uint32_t)low + skip;
    return taps - skip;
}

static bool build_filter(struct stk_filter *filter, const struct kernel *kernel, uint32_t inputs, double scale,
                         uint32_t first, uint32_t outputs)
{
    int16_t weights[STK_TAPS_MAX];
    filter->outputs = outputs;
    filter->first = calloc(outputs, sizeof *filter->first);
    if (!filter->first) return false;
    for (uint32_t i = 0; i < outputs; i++) {
        uint32_t taps = weigh(kernel, inputs, scale, first + i, &filter->first[i], weights);
        if (taps > filter->taps) filter->taps = taps;
    }
    filter->weights = calloc((size_t)outputs * filter->taps, sizeof *filter->weights);
    if (!filter->weights) return false;
    for (uint32_t i = 0; i < outputs; i++) {
        uint32_t taps = weigh(kernel, inputs, scale, first + i, &filter->first[i], weights);
        memcpy(filter->weights + (size_t)i * filter->taps, weights, taps * sizeof *weights);
    }
    return true;
}

/* Fills one vector step: 4 outputs from `output`, taps from `tap`. False if they do not lie within 16 bytes. */
static bool fill_step(const struct stk_filter *filter, uint32_t inputs, uint32_t output, uint32_t tap,
                      uint32_t *out_base, struct stk_step *step)
{
    uint32_t start = output < filter->outputs ? filter->first[output] + tap : 0;
    uint32_t base = start + STEP_BYTES > inputs ? inputs - STEP_BYTES : start;
    *out_base = base;
    for (uint32_t i = 0; i < STK_GROUP; i++)
        for (uint32_t t = 0; t < STK_GROUP; t++) {
            uint32_t o = output + i, at = tap + t;
            int16_t weight = o < filter->outputs && at < filter->taps ? filter->weights[o * filter->taps + at] : 0;
            uint32_t input = weight ? filter->first[o] + at : base;
            if (input < base || input - base >= STEP_BYTES) return false;
            step->mask[STK_GROUP * i + t] = (uint8_t)(input - base);
            step->weights[STK_GROUP * i + t] = weight;
        }
    return true;
}

static stoker_status build_steps(struct stk_plane_filter *plane, uint32_t inputs, size_t line, stoker_error *err)
{
    struct stk_steps *steps = &plane->steps;
    steps->groups = (uint32_t)(line / STK_GROUP);
    steps->per_group = (plane->across.taps + STK_GROUP - 1) / STK_GROUP;
    size_t count = (size_t)steps->groups * steps->per_group;
    steps->base = calloc(count, sizeof *steps->base);
    steps->steps = calloc(count, sizeof *steps->steps);
    if (!steps->base || !steps->steps) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++) {
        uint32_t output = (uint32_t)(i / steps->per_group) * STK_GROUP;
        uint32_t tap = (uint32_t)(i % steps->per_group) * STK_GROUP;
        if (!fill_step(&plane->across, inputs, output, tap, &steps->base[i], &steps->steps[i]))
            return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the picture shrinks too much");
    }
    return STOKER_OK;
}

static stoker_status build_plane(struct stk_plane_filter *plane, const struct stk_resample_spec *spec, uint32_t shift_x,
                                 uint32_t shift_y, size_t line, stoker_error *err)
{
    uint32_t width = (spec->from_width + (1u << shift_x) - 1) >> shift_x;
    uint32_t height = (spec->from_height + (1u << shift_y) - 1) >> shift_y;
    /* The chroma plane is stretched over the whole picture, half a sample of an odd size included, as swscale does. */
    double scale_x = (double)width / spec->to_width, scale_y = (double)height / spec->to_height;
    if (width < STEP_BYTES || scale_x > SHRINK_MAX || scale_y > SHRINK_MAX)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the picture is too small or shrinks too much");
    bool same_size = spec->from_width == spec->to_width && spec->from_height == spec->to_height;
    const struct kernel *kernel = same_size ? &cubic_kernel : &linear_kernel;
    if (!build_filter(&plane->across, kernel, width, scale_x, spec->keep.x, spec->keep.width) ||
        !build_filter(&plane->down, kernel, height, scale_y, spec->keep.y, spec->keep.height))
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    STK_TRY(build_steps(plane, width, line, err));
    plane->copies = same_size && scale_x == 1;
    uint32_t rows = 1;
    while (rows < plane->down.taps) rows *= 2;
    plane->rows_mask = rows - 1;
    plane->ring = calloc((size_t)rows * line, sizeof *plane->ring);
    return plane->ring ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
}

static void build_matrix(struct stk_matrix *matrix, const struct stk_resample_spec *spec)
{
    double kg = 1 - spec->kr - spec->kb, one = 8192;
    double luma = spec->full_range ? 1 : 255.0 / 219.0, chroma = spec->full_range ? 1 : 255.0 / 224.0;
    matrix->y_offset = spec->full_range ? 0 : 16 * 64;
    matrix->y = (int16_t)lrint(luma * one);
    matrix->r_v = (int16_t)lrint(2 * (1 - spec->kr) * chroma * one);
    matrix->b_u = (int16_t)lrint(2 * (1 - spec->kb) * chroma * one);
    matrix->g_u = (int16_t)lrint(-2 * (1 - spec->kb) * spec->kb / kg * chroma * one);
    matrix->g_v = (int16_t)lrint(-2 * (1 - spec->kr) * spec->kr / kg * chroma * one);
}

stoker_status stk_resample_create(const struct stk_resample_spec *spec, struct stk_resample **out_resample,
                                  stoker_error *err)
{
    STK_ASSERT(spec->keep.width > 0 && spec->keep.x + spec->keep.width <= spec->to_width);
    STK_ASSERT(spec->keep.height > 0 && spec->keep.y + spec->keep.height <= spec->to_height);
    struct stk_resample *resample = calloc(1, sizeof *resample);
    if (!resample) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    resample->spec = *spec;
    resample->line = stk_align_up(spec->keep.width, STK_RESAMPLE_ALIGNMENT);
    build_matrix(&resample->matrix, spec);
    stoker_status status = build_plane(&resample->luma, spec, 0, 0, resample->line, err);
    for (int c = 0; c < 2 && status == STOKER_OK; c++)
        status =
            build_plane(&resample->chroma[c], spec, spec->chroma_shift_x, spec->chroma_shift_y, resample->line, err);
    if (status < 0) {
        stk_resample_destroy(resample);
        return status;
    }
    *out_resample = resample;
    return STOKER_OK;
}

static void drop_plane(struct stk_plane_filter *plane)
{
    free(plane->across.first);
    free(plane->across.weights);
    free(plane->down.first);
    free(plane->down.weights);
    free(plane->steps.base);
    free(plane->steps.steps);
    free(plane->ring);
}

void stk_resample_destroy(struct stk_resample *resample)
{
    if (!resample) return;
    drop_plane(&resample->luma);
    drop_plane(&resample->chroma[0]);
    drop_plane(&resample->chroma[1]);
    free(resample);
}

/* -------------------------------------------------------------------------------------------------------------- passes
 */

static void across_plain(const struct stk_filter *filter, const uint8_t *from, int16_t *to)
{
    for (uint32_t i = 0; i < filter->outputs; i++) {
        const int16_t *weights = filter->weights + (size_t)i * filter->taps;
        int32_t sum = 64;
        for (uint32_t t = 0; t < filter->taps; t++)
            if (weights[t]) sum += from[filter->first[i] + t] * weights[t]; /* padding taps may lie past the line */
        sum >>= 7;
        to[i] = (int16_t)(sum > INT16_MAX ? INT16_MAX : sum); /* the cubic reaches past white */
    }
}

static int32_t down_plain(const struct stk_lines *lines, size_t x)
{
    int32_t sum = 0;
    for (uint32_t t = 0; t < lines->taps; t++) sum += STK_MULTIPLY(lines->lines[t][x], lines->weights[t]);
    return sum;
}

static uint8_t clamp(int32_t value)
{
    value = (value + 16) >> 5;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

static void lines_plain(const struct stk_lines planes[3], const struct stk_matrix *matrix, size_t line,
                        uint8_t *const rgb[3])
{
    for (size_t x = 0; x < line; x++) {
        int32_t y = (down_plain(&planes[0], x) - matrix->y_offset) * 2;
        int32_t u = (down_plain(&planes[1], x) - 128 * 64) * 2, v = (down_plain(&planes[2], x) - 128 * 64) * 2;
        int32_t grey = STK_MULTIPLY(y, matrix->y);
        rgb[0][x] = clamp(grey + STK_MULTIPLY(v, matrix->r_v));
        rgb[1][x] = clamp(grey + STK_MULTIPLY(u, matrix->g_u) + STK_MULTIPLY(v, matrix->g_v));
        rgb[2][x] = clamp(grey + STK_MULTIPLY(u, matrix->b_u));
    }
}

/* Makes the lines that output line `output` needs stand in the ring, and names them. */
static void gather(struct stk_plane_filter *plane, uint32_t output, const uint8_t *from, ptrdiff_t stride, size_t line,
                   bool wide, struct stk_lines *out)
{
    const int16_t *weights = plane->down.weights + (size_t)output * plane->down.taps;
    uint32_t first = plane->down.first[output], taps = plane->down.taps;
    while (taps > 1 && weights[taps - 1] == 0) taps--; /* padding */
    if (plane->next_row < first) plane->next_row = first;
    for (; plane->next_row < first + taps; plane->next_row++) {
        const uint8_t *row = from + (ptrdiff_t)plane->next_row * stride;
        int16_t *to = plane->ring + (plane->next_row & plane->rows_mask) * line;
        if (wide && plane->copies)
            stk_resample_copy_wide(row + plane->across.first[0], to, plane->across.outputs);
        else if (wide)
            stk_resample_across_wide(&plane->steps, row, to);
        else
            across_plain(&plane->across, row, to);
    }
    for (uint32_t t = 0; t < taps; t++) out->lines[t] = plane->ring + ((first + t) & plane->rows_mask) * line;
    out->weights = weights;
    out->taps = taps;
}

static void run(struct stk_resample *resample, const struct stk_yuv *from, uint8_t *const rgb[3], size_t stride,
                bool wide)
{
    struct stk_plane_filter *planes[3] = {&resample->luma, &resample->chroma[0], &resample->chroma[1]};
    struct stk_lines lines[3];
    for (int p = 0; p < 3; p++) planes[p]->next_row = 0;
    for (uint32_t y = 0; y < resample->spec.keep.height; y++) {
        for (int p = 0; p < 3; p++)
            gather(planes[p], y, from->planes[p], from->strides[p], resample->line, wide, &lines[p]);
        uint8_t *const out[3] = {rgb[0] + y * stride, rgb[1] + y * stride, rgb[2] + y * stride};
        if (wide)
            stk_resample_down_wide(lines, &resample->matrix, resample->line, out);
        else
            lines_plain(lines, &resample->matrix, resample->line, out);
    }
}

void stk_resample_run(struct stk_resample *resample, const struct stk_yuv *from, uint8_t *const rgb[3], size_t stride)
{
    STK_ASSERT(stride >= resample->line);
    run(resample, from, rgb, stride, stk_resample_is_wide());
}

void stk_resample_run_plain(struct stk_resample *resample, const struct stk_yuv *from, uint8_t *const rgb[3],
                            size_t stride)
{
    STK_ASSERT(stride >= resample->line);
    run(resample, from, rgb, stride, false);
}
