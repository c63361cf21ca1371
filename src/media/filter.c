/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights, order of work and plain code: see filter.h.
 */
#include "media/filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/filter_internal.h"

/* ------------------------------------------------------------------------------------------------------------- weights
 */

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

/* One axis as it is seen; `mirrored`: the stored picture runs the other way. */
struct axis_spec {
    uint32_t inputs;
    double extent;
    bool mirrored;
    uint32_t whole; /* outputs of the whole picture */
    uint32_t first, count;
    stoker_image_filter filter;
};

static void axis_fini(struct stk_filter_axis *axis)
{
    free(axis->first);
    free(axis->real);
    free(axis->weights);
}

/* The order of these operations is Pillow's: another one moves weights by a unit. `taps` doubles of scratch. */
static void fill_output(struct stk_filter_axis *axis, const struct axis_spec *spec, uint32_t output, double *scratch)
{
    const double scale = spec->extent / spec->whole, wide = scale < 1.0 ? 1.0 : scale;
    const double support = (spec->filter == STOKER_IMAGE_BICUBIC ? 2.0 : 1.0) * wide, narrow = 1.0 / wide;
    const double begins = spec->mirrored ? spec->inputs - spec->extent : 0.0;
    const double centre = begins + (spec->first + output + 0.5) * scale;
    double low = centre - support + 0.5, high = centre + support + 0.5;
    uint32_t first = low > 0 ? (uint32_t)low : 0, end = high < spec->inputs ? (uint32_t)high : spec->inputs;
    if (first >= spec->inputs) first = spec->inputs - 1; /* an extent that rounding cut */
    if (end <= first) end = first + 1;
    uint32_t count = end - first;
    STK_ASSERT(count <= axis->taps);
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double x = (i + first - centre + 0.5) * narrow;
        scratch[i] = spec->filter == STOKER_IMAGE_BICUBIC ? bicubic(x) : bilinear(x);
        sum += scratch[i];
    }
    int32_t *weights = axis->weights + (size_t)output * axis->taps;
    /* Padding is read too: near the end of the line it goes before the weights. */
    uint32_t begin = spec->mirrored ? spec->inputs - end : first, shift = 0;
    if (begin + axis->taps > spec->inputs) {
        uint32_t moved = spec->inputs > axis->taps ? spec->inputs - axis->taps : 0;
        shift = begin - moved;
        begin = moved;
    }
    for (uint32_t i = 0; i < count; i++) {
        double weight = (sum != 0.0 ? scratch[i] / sum : scratch[i]) * (1 << STK_FILTER_BITS);
        uint32_t place = shift + (spec->mirrored ? count - 1 - i : i);
        weights[place] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    axis->first[output] = begin;
    axis->real[output] = shift + count;
    uint32_t reach = begin + axis->taps < spec->inputs ? begin + axis->taps : spec->inputs;
    if (begin < axis->low) axis->low = begin;
    if (reach > axis->high) axis->high = reach;
}

/* True if each output is the input at its place: the pass would only copy. */
static bool is_plain(const struct axis_spec *spec)
{
    return !spec->mirrored && spec->whole == spec->inputs && spec->extent == spec->inputs;
}

static stoker_status axis_init(struct stk_filter_axis *axis, const struct axis_spec *spec, stoker_error *err)
{
    const double scale = spec->extent / spec->whole, wide = scale < 1.0 ? 1.0 : scale;
    const double support = (spec->filter == STOKER_IMAGE_BICUBIC ? 2.0 : 1.0) * wide;
    memset(axis, 0, sizeof *axis);
    axis->outputs = spec->count;
    if (is_plain(spec)) {
        axis->low = spec->first, axis->high = spec->first + spec->count;
        return STOKER_OK;
    }
    axis->taps = ((uint32_t)ceil(support) * 2 + 1 + STK_FILTER_STEP - 1) / STK_FILTER_STEP * STK_FILTER_STEP;
    if (axis->taps > spec->inputs + STK_FILTER_STEP) /* no output has more than all inputs */
        axis->taps = (spec->inputs + STK_FILTER_STEP - 1) / STK_FILTER_STEP * STK_FILTER_STEP;
    axis->low = UINT32_MAX;
    size_t weights;
    if (!stk_mul_size(axis->taps, spec->count, &weights))
        return stk_fail(err, STOKER_ERR_LIMIT, "a filter of %u taps for %u pixels is too large", axis->taps,
                        spec->count);
    double *scratch = calloc(axis->taps, sizeof *scratch);
    axis->first = calloc(spec->count, sizeof *axis->first);
    axis->real = calloc(spec->count, sizeof *axis->real);
    axis->weights = calloc(weights, sizeof *axis->weights);
    if (!scratch || !axis->first || !axis->real || !axis->weights) {
        free(scratch);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a filter of %u taps for %u pixels", axis->taps,
                        spec->count);
    }
    for (uint32_t output = 0; output < spec->count; output++) fill_output(axis, spec, output, scratch);
    free(scratch);
    return STOKER_OK;
}

/* -------------------------------------------------------------------------------------------------------------- passes
 */

static uint8_t clip(uint32_t sum)
{
    int32_t value = (int32_t)sum >> STK_FILTER_BITS;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

static void across_plain(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines)
{
    for (uint32_t line = 0; line < lines->count; line++) {
        const uint8_t *from = lines->from + line * lines->from_stride;
        uint8_t *to = lines->to + line * lines->to_stride;
        for (uint32_t x = 0; x < axis->outputs; x++) {
            const int32_t *weights = axis->weights + (size_t)x * axis->taps;
            const uint8_t *pixel = from + (size_t)axis->first[x] * 3;
            uint32_t sums[3] = {STK_FILTER_HALF, STK_FILTER_HALF, STK_FILTER_HALF};
            for (uint32_t t = 0; t < axis->real[x]; t++)
                for (int c = 0; c < 3; c++) sums[c] += (uint32_t)weights[t] * pixel[3 * t + (uint32_t)c];
            for (int c = 0; c < 3; c++) *to++ = clip(sums[c]);
        }
    }
}

static void down_plain(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines, size_t bytes)
{
    for (uint32_t y = 0; y < axis->outputs; y++) {
        const int32_t *weights = axis->weights + (size_t)y * axis->taps;
        const uint8_t *from = lines->from + axis->first[y] * lines->from_stride;
        uint8_t *to = lines->to + y * lines->to_stride;
        for (size_t x = 0; x < bytes; x++) {
            uint32_t sum = STK_FILTER_HALF;
            for (uint32_t t = 0; t < axis->real[y]; t++) sum += (uint32_t)weights[t] * from[t * lines->from_stride + x];
            to[x] = clip(sum);
        }
    }
}

static void transpose(const uint8_t *from, size_t from_stride, uint32_t width, uint32_t height, uint8_t *to,
                      size_t to_stride)
{
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) memcpy(to + x * to_stride + 3 * y, from + y * from_stride + 3 * x, 3);
}

static size_t stride_of(uint32_t width) { return (size_t)stk_align_up((uint64_t)width * 3 + 1, 32); }

static stoker_status reserve(struct stk_filter_room *room, int pass, uint32_t width, uint32_t height, uint8_t **out,
                             stoker_error *err)
{
    size_t size;
    if (!stk_mul_size(stride_of(width), height, &size) || !stk_add_size(size, STK_FILTER_SLACK, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a picture of %ux%u is too large", width, height);
    if (size > room->sizes[pass]) {
        free(room->passes[pass]);
        room->passes[pass] = malloc(size);
        room->sizes[pass] = room->passes[pass] ? size : 0;
    }
    *out = room->passes[pass];
    return *out ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a picture of %ux%u", width, height);
}

void stk_filter_room_fini(struct stk_filter_room *room)
{
    for (int i = 0; i < 2; i++) free(room->passes[i]);
    memset(room, 0, sizeof *room);
}

/* ----------------------------------------------------------------------------------------------------------------- run
 */

/* One picture on its way: lines of `width` pixels, whose first column is `column` of the stored picture. */
struct picture {
    const uint8_t *rgb;
    size_t stride;
    uint32_t width, height;
    struct stk_filter_room *room;
    int pass; /* which memory is free */
    bool wide;
};

/* Replaces the lines low to high - 1 of the picture, which it holds alone, by lines of axis->outputs pixels. */
static stoker_status go_across(struct picture *picture, const struct stk_filter_axis *axis, stoker_error *err)
{
    uint8_t *to = NULL;
    STK_ASSERT(axis->weights && axis->first && axis->real);
    STK_TRY(reserve(picture->room, picture->pass, axis->outputs, picture->height, &to, err));
    struct stk_filter_lines lines = {picture->rgb, picture->stride, to, stride_of(axis->outputs), picture->height};
    if (picture->wide)
        STK_TRY(stk_filter_across_wide(axis, &lines, err));
    else
        across_plain(axis, &lines);
    picture->rgb = to, picture->stride = lines.to_stride, picture->width = axis->outputs;
    picture->pass ^= 1;
    return STOKER_OK;
}

static stoker_status go_down(struct picture *picture, const struct stk_filter_axis *axis, stoker_error *err)
{
    uint8_t *to = NULL;
    STK_ASSERT(axis->weights && axis->first && axis->real);
    STK_TRY(reserve(picture->room, picture->pass, picture->width, axis->outputs, &to, err));
    struct stk_filter_lines lines = {picture->rgb, picture->stride, to, stride_of(picture->width), axis->outputs};
    if (picture->wide)
        stk_filter_down_wide(axis, &lines, (size_t)picture->width * 3);
    else
        down_plain(axis, &lines, (size_t)picture->width * 3);
    picture->rgb = to, picture->stride = lines.to_stride, picture->height = axis->outputs;
    picture->pass ^= 1;
    return STOKER_OK;
}

/* Keeps what the axes need of the picture and makes them count from there. */
static void narrow(struct picture *picture, struct stk_filter_axis *columns, struct stk_filter_axis *rows)
{
    picture->rgb += rows->low * picture->stride + (size_t)columns->low * 3;
    picture->height = rows->high - rows->low, picture->width = columns->high - columns->low;
    for (uint32_t i = 0; columns->first && i < columns->outputs; i++) columns->first[i] -= columns->low;
    for (uint32_t i = 0; rows->first && i < rows->outputs; i++) rows->first[i] -= rows->low;
}

struct plan {
    struct axis_spec seen_x, seen_y; /* seen_x runs along the stored columns if `sideways` */
    bool sideways;
    bool x_first; /* along the seen x axis, as Pillow does unless much more height than width goes */
};

static struct plan make_plan(const struct stk_filter_spec *spec)
{
    struct plan plan = {.sideways = spec->orientation >= 5};
    /* Orientations 2, 3, 6 and 7 mirror the seen x axis; 3, 4, 7 and 8 the seen y axis. */
    bool x = spec->orientation == 2 || spec->orientation == 3 || spec->orientation == 6 || spec->orientation == 7;
    bool y = spec->orientation == 3 || spec->orientation == 4 || spec->orientation == 7 || spec->orientation == 8;
    plan.seen_x = (struct axis_spec){spec->from_width, spec->extent_width, x,           spec->to_width,
                                     spec->keep.x,     spec->keep.width,   spec->filter};
    plan.seen_y = (struct axis_spec){spec->from_height, spec->extent_height, y,           spec->to_height,
                                     spec->keep.y,      spec->keep.height,   spec->filter};
    if (plan.sideways) {
        plan.seen_x.inputs = spec->from_height, plan.seen_x.extent = spec->extent_height;
        plan.seen_y.inputs = spec->from_width, plan.seen_y.extent = spec->extent_width;
    }
    int64_t width_lost = (int64_t)plan.seen_x.inputs - spec->to_width;
    int64_t height_lost = (int64_t)plan.seen_y.inputs - spec->to_height;
    plan.x_first = !(height_lost > 0 && height_lost > width_lost * 2);
    return plan;
}

static stoker_status run_passes(const struct plan *plan, struct picture *picture, struct stk_filter_axis *x,
                                struct stk_filter_axis *y, stoker_error *err)
{
    if (plan->sideways)
        narrow(picture, y, x);
    else
        narrow(picture, x, y);
    for (int pass = 0; pass < 2; pass++) {
        bool is_x = (pass == 0) == plan->x_first;
        if (is_plain(is_x ? &plan->seen_x : &plan->seen_y)) continue;
        if (is_x != plan->sideways)
            STK_TRY(go_across(picture, is_x ? x : y, err));
        else
            STK_TRY(go_down(picture, is_x ? x : y, err));
    }
    if (!plan->sideways) return STOKER_OK;
    uint8_t *to = NULL;
    STK_TRY(reserve(picture->room, picture->pass, picture->height, picture->width, &to, err));
    transpose(picture->rgb, picture->stride, picture->width, picture->height, to, stride_of(picture->height));
    picture->rgb = to, picture->stride = stride_of(picture->height);
    return STOKER_OK;
}

static stoker_status run(const struct stk_filter_spec *spec, struct picture *picture, struct stk_filtered *out,
                         stoker_error *err)
{
    STK_ASSERT(spec->orientation >= 1 && spec->orientation <= 8);
    STK_ASSERT(spec->from_width > 0 && spec->from_height > 0 && spec->keep.width > 0 && spec->keep.height > 0);
    STK_ASSERT((uint64_t)spec->keep.x + spec->keep.width <= spec->to_width);
    STK_ASSERT((uint64_t)spec->keep.y + spec->keep.height <= spec->to_height);
    const struct plan plan = make_plan(spec);
    struct stk_filter_axis x, y;
    memset(&y, 0, sizeof y);
    stoker_status status = axis_init(&x, &plan.seen_x, err);
    if (status == STOKER_OK) status = axis_init(&y, &plan.seen_y, err);
    if (status == STOKER_OK) status = run_passes(&plan, picture, &x, &y, err);
    axis_fini(&x);
    axis_fini(&y);
    if (status == STOKER_OK) *out = (struct stk_filtered){picture->rgb, picture->stride};
    return status;
}

stoker_status stk_filter_run(const struct stk_filter_spec *spec, const uint8_t *rgb, size_t stride,
                             struct stk_filter_room *room, struct stk_filtered *out, stoker_error *err)
{
    struct picture picture = {.rgb = rgb, .stride = stride, .room = room, .wide = stk_filter_is_wide()};
    return run(spec, &picture, out, err);
}

stoker_status stk_filter_run_plain(const struct stk_filter_spec *spec, const uint8_t *rgb, size_t stride,
                                   struct stk_filter_room *room, struct stk_filtered *out, stoker_error *err)
{
    struct picture picture = {.rgb = rgb, .stride = stride, .room = room, .wide = false};
    return run(spec, &picture, out, err);
}

void stk_filter_split(const struct stk_filtered *from, uint32_t width, uint32_t height, uint8_t *const planes[3])
{
    bool wide = stk_filter_is_wide();
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *line = from->rgb + y * from->stride;
        size_t at = (size_t)y * width;
        uint8_t *r = planes[0] + at, *g = planes[1] + at, *b = planes[2] + at;
        for (size_t x = wide ? stk_filter_split_wide(line, width, r, g, b) : 0; x < width; x++)
            r[x] = line[3 * x], g[x] = line[3 * x + 1], b[x] = line[3 * x + 2];
    }
}
