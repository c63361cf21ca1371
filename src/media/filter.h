/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling of interleaved 8-bit RGB, bit for bit as Pillow's resize() does it: weights in double precision, normalised,
 * rounded to 22 bits of fraction; across, then down, with 8 bits between the passes (down, then across, where the
 * height shrinks by more than twice what the width does: Pillow's rule since version 13). Bilinear and bicubic
 * (a = -0.5), both widened when shrinking.
 *
 * Only the rectangle that is kept is computed. The orientation of the picture is part of the filter: mirrored axes read
 * their inputs backwards, and a picture on its side is filtered in the other order of axes, so that the result is that
 * of turning first and scaling then, without turning the large picture.
 *
 * Vector and plain code give the same bytes on every machine.
 */
#ifndef STK_MEDIA_FILTER_H
#define STK_MEDIA_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/image.h>

#include "media/resample.h"

/* Bytes behind the last line of every picture that the filter reads or writes; vector code may touch them. */
#define STK_FILTER_SLACK 64u

struct stk_filter_spec {
    uint32_t from_width, from_height; /* as stored */
    double extent_width,
        extent_height;   /* of the picture within from_*, as stored: a reduced JPEG ends within a pixel */
    int32_t orientation; /* EXIF, 1 to 8 */
    stoker_image_filter filter;
    uint32_t to_width, to_height; /* of the whole scaled picture, as seen */
    struct stk_rectangle keep;    /* the part of it that is computed, as seen */
};

/* Memory that is kept from picture to picture. Zeroed at first. */
struct stk_filter_room {
    uint8_t *passes[2];
    size_t sizes[2];
};
void stk_filter_room_fini(struct stk_filter_room *room);

struct stk_filtered {
    const uint8_t *rgb; /* keep.width x keep.height; the caller's picture or the room's memory */
    size_t stride;
};

/* `rgb` has STK_FILTER_SLACK bytes behind its last line. NO_MEMORY. */
stoker_status stk_filter_run(const struct stk_filter_spec *spec, const uint8_t *rgb, size_t stride,
                             struct stk_filter_room *room, struct stk_filtered *out, stoker_error *err);
/* For tests: plain code, without vector instructions. */
stoker_status stk_filter_run_plain(const struct stk_filter_spec *spec, const uint8_t *rgb, size_t stride,
                                   struct stk_filter_room *room, struct stk_filtered *out, stoker_error *err);

/* Interleaved RGB to three planes of width x height without gaps. */
void stk_filter_split(const struct stk_filtered *from, uint32_t width, uint32_t height, uint8_t *const planes[3]);

#endif
