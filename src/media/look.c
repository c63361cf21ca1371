/* SPDX-License-Identifier: Apache-2.0
 *
 * See look.h.
 */
#include "media/look.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* ---------------------------------------------------------------------------------------------------------------- plan
 */

static uint32_t at_least_one(uint64_t value) { return value < 1 ? 1 : (uint32_t)value; }

/* The whole picture inside the result: the longer side fits. */
static void plan_pad(struct stk_look *look, struct stk_extent picture)
{
    const uint64_t w = picture.width, h = picture.height, width = look->result.width, height = look->result.height;
    look->scaled = look->result;
    if (w * height >= h * width)
        look->scaled.height = at_least_one(h * width / w);
    else
        look->scaled.width = at_least_one(w * height / h);
    look->keep = (struct stk_rectangle){0, 0, look->scaled.width, look->scaled.height};
    look->place = (struct stk_place){(look->result.width - look->scaled.width) / 2,
                                     (look->result.height - look->scaled.height) / 2};
}

/* One axis of a window of `size` that begins at `first` of a line with `pad` more on both sides: what of the line is
 * kept, and where it lies in the window. */
static void cut_axis(uint32_t first, uint32_t size, uint32_t line, uint32_t pad, uint32_t *out_begin,
                     uint32_t *out_size, uint32_t *out_place)
{
    const int64_t begin = (int64_t)first - pad, end = begin + size;
    const int64_t low = begin < 0 ? 0 : begin, high = end > line ? line : end;
    *out_begin = high > low ? (uint32_t)low : 0;
    *out_size = high > low ? (uint32_t)(high - low) : 0;
    *out_place = high > low ? (uint32_t)(low - begin) : 0;
}

static void plan_random(struct stk_look *look, const stoker_augment *augment, uint64_t draw)
{
    const struct stk_place place = stk_augment_place(augment, draw, look->scaled, look->result);
    cut_axis(place.x, look->result.width, look->scaled.width, augment->crop_pad, &look->keep.x, &look->keep.width,
             &look->place.x);
    cut_axis(place.y, look->result.height, look->scaled.height, augment->crop_pad, &look->keep.y, &look->keep.height,
             &look->place.y);
    if (look->keep.width == 0 || look->keep.height == 0) memset(&look->keep, 0, sizeof look->keep);
}

struct stk_look stk_look_plan(stoker_resize_mode resize, const stoker_augment *augment, uint64_t draw,
                              struct stk_extent picture, struct stk_extent result)
{
    struct stk_look look = {.part = {0, 0, picture.width, picture.height}, .scaled = result, .result = result};
    look.keep = (struct stk_rectangle){0, 0, result.width, result.height};
    if (augment->crop == STOKER_CROP_RESIZED) {
        look.part = stk_augment_part(augment, draw, picture);
    } else if (resize == STOKER_RESIZE_PAD) {
        plan_pad(&look, picture);
    } else {
        const struct stk_fit fit =
            stk_fit_picture(resize, picture.width, picture.height, 0, result.width, result.height);
        look.scaled = (struct stk_extent){fit.scaled_width, fit.scaled_height};
        look.keep = fit.keep;
        if (augment->crop == STOKER_CROP_RANDOM) plan_random(&look, augment, draw);
    }
    look.flip = augment->flip > 0 && stk_augment_flips(augment, draw);
    stk_augment_colours(augment, draw, &look.colours);
    memcpy(look.pad, augment->pad_colour, sizeof look.pad);
    return look;
}

bool stk_look_is_covered(const struct stk_look *look)
{
    return look->keep.width == look->result.width && look->keep.height == look->result.height;
}

bool stk_look_is_plain(const struct stk_look *look)
{
    return stk_look_is_covered(look) && !look->flip && look->colours.count == 0;
}

struct stk_fit stk_look_fit(const struct stk_look *look, int32_t rotation)
{
    const struct stk_rectangle keep = look->keep;
    const uint32_t right = look->scaled.width - keep.width - keep.x,
                   bottom = look->scaled.height - keep.height - keep.y;
    struct stk_fit fit = {look->scaled.width, look->scaled.height, keep};
    switch (rotation) {
    case 90: fit.keep.x = keep.y, fit.keep.y = right; break;
    case 180: fit.keep.x = right, fit.keep.y = bottom; break;
    case 270: fit.keep.x = bottom, fit.keep.y = keep.x; break;
    default: return fit;
    }
    if (rotation == 180) return fit;
    fit.scaled_width = look->scaled.height, fit.scaled_height = look->scaled.width;
    fit.keep.width = keep.height, fit.keep.height = keep.width;
    return fit;
}

struct stk_rectangle stk_look_stored(const struct stk_look *look, struct stk_extent picture, int32_t orientation)
{
    struct stk_rectangle part = look->part;
    bool mirror_x = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    bool mirror_y = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
    if (mirror_x) part.x = picture.width - part.width - part.x;
    if (mirror_y) part.y = picture.height - part.height - part.y;
    if (orientation >= 5) part = (struct stk_rectangle){part.y, part.x, part.height, part.width};
    return part;
}

/* ----------------------------------------------------------------------------------------------------------- carry out
 */

void stk_look_room_fini(struct stk_look_room *room)
{
    stk_filter_room_fini(&room->filter);
    free(room->rgb);
    free(room->planes);
    memset(room, 0, sizeof *room);
}

static stoker_status reserve(uint8_t **memory, size_t *have, struct stk_extent extent, stoker_error *err)
{
    size_t size;
    if (!stk_mul_size(extent.width, extent.height, &size) || !stk_mul_size(size, 3, &size) ||
        !stk_add_size(size, STK_FILTER_SLACK, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a picture of %ux%u is too large", extent.width, extent.height);
    if (size <= *have) return STOKER_OK;
    free(*memory);
    *memory = malloc(size);
    *have = *memory ? size : 0;
    return *memory
               ? STOKER_OK
               : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a picture of %ux%u", extent.width, extent.height);
}

stoker_status stk_look_scale(const struct stk_look *look, stoker_image_filter filter, const struct stk_planes *picture,
                             struct stk_look_room *room, struct stk_filtered *out, stoker_error *err)
{
    const struct stk_rectangle *part = &look->part;
    const size_t stride = (size_t)part->width * 3;
    STK_ASSERT(look->keep.width > 0);
    STK_TRY(reserve(&room->rgb, &room->rgb_size, (struct stk_extent){part->width, part->height}, err));
    for (uint32_t y = 0; y < part->height; y++) {
        const size_t from = (size_t)(part->y + y) * picture->stride + part->x;
        const uint8_t *r = picture->rgb[0] + from, *g = picture->rgb[1] + from, *b = picture->rgb[2] + from;
        uint8_t *restrict to = room->rgb + y * stride;
        for (uint32_t x = 0; x < part->width; x++) to[3 * x] = r[x], to[3 * x + 1] = g[x], to[3 * x + 2] = b[x];
    }
    const struct stk_filter_spec spec = {.from_width = part->width,
                                         .from_height = part->height,
                                         .extent_width = part->width,
                                         .extent_height = part->height,
                                         .orientation = 1,
                                         .filter = filter,
                                         .to_width = look->scaled.width,
                                         .to_height = look->scaled.height,
                                         .keep = look->keep};
    return stk_filter_run(&spec, room->rgb, stride, &room->filter, out, err);
}

/* The kept part at its place, the colour of the form around it. */
static void lay_down(const struct stk_look *look, const struct stk_planes *kept, const struct stk_filtered *rgb,
                     const struct stk_canvas *canvas)
{
    if (!stk_look_is_covered(look))
        for (int c = 0; c < 3; c++) memset(canvas->rgb[c], look->pad[c], canvas->stride * canvas->height);
    for (uint32_t y = 0; y < look->keep.height; y++) {
        const size_t to = (look->place.y + y) * canvas->stride + look->place.x;
        if (rgb) {
            const struct stk_filtered line = {rgb->rgb + y * rgb->stride, rgb->stride};
            uint8_t *const planes[3] = {canvas->rgb[0] + to, canvas->rgb[1] + to, canvas->rgb[2] + to};
            stk_filter_split(&line, look->keep.width, 1, planes);
        } else {
            for (int c = 0; c < 3; c++) memcpy(canvas->rgb[c] + to, kept->rgb[c] + y * kept->stride, look->keep.width);
        }
    }
}

stoker_status stk_look_finish(const struct stk_look *look, const struct stk_planes *kept,
                              const struct stk_filtered *rgb, struct stk_look_room *room, struct stk_planes *out,
                              stoker_error *err)
{
    STK_TRY(reserve(&room->planes, &room->planes_size, look->result, err));
    const size_t plane = (size_t)look->result.width * look->result.height;
    const struct stk_canvas canvas = {{room->planes, room->planes + plane, room->planes + 2 * plane},
                                      look->result.width,
                                      look->result.width,
                                      look->result.height};
    lay_down(look, kept, rgb, &canvas);
    if (look->flip) stk_canvas_flip(&canvas);
    if (look->colours.count) stk_canvas_colour(&canvas, &look->colours);
    *out = (struct stk_planes){{canvas.rgb[0], canvas.rgb[1], canvas.rgb[2]}, canvas.stride};
    return STOKER_OK;
}
