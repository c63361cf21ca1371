/* SPDX-License-Identifier: Apache-2.0
 *
 * How a picture becomes the width x height of a form: which part of it, scaled to what, which of that is kept and where
 * it lies, mirrored or not, colours. One plan for videos and images, in the coordinates of the picture as it is seen.
 *
 * The plan is pure; the rest carries it out on pictures that were decoded at their full size, or completes what a
 * scaler has made.
 */
#ifndef STK_MEDIA_LOOK_H
#define STK_MEDIA_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/image.h>
#include <stoker/media.h>

#include "media/augment.h"
#include "media/augment_apply.h"
#include "media/filter.h"
#include "media/transform.h"

struct stk_look {
    struct stk_rectangle part; /* of the picture; all of it unless the crop is resized */
    struct stk_extent scaled;  /* what the part is scaled to */
    struct stk_rectangle keep; /* of the scaled part; empty: nothing of it is seen */
    struct stk_place place;    /* of what is kept, in the result */
    struct stk_extent result;
    bool flip;
    struct stk_colouring colours;
    uint8_t pad[3]; /* colour of what is not covered */
};

/* `resize` of a video; images have the same under other names. */
struct stk_look stk_look_plan(stoker_resize_mode resize, const stoker_augment *augment, uint64_t draw,
                              struct stk_extent picture, struct stk_extent result);

/* Is the result what a scaler makes of the whole picture, without anything around it? */
bool stk_look_is_covered(const struct stk_look *look);
/* The same before a rotation: for scalers that turn pictures afterwards. */
struct stk_fit stk_look_fit(const struct stk_look *look, int32_t rotation);
/* Does nothing remain to be done once the kept part was scaled? */
bool stk_look_is_plain(const struct stk_look *look);
/* The part in the coordinates of a picture as it is stored, by its EXIF orientation. */
struct stk_rectangle stk_look_stored(const struct stk_look *look, struct stk_extent picture, int32_t orientation);

/* Memory that is kept from picture to picture. Zeroed at first. */
struct stk_look_room {
    struct stk_filter_room filter;
    uint8_t *rgb, *planes;
    size_t rgb_size, planes_size;
};
void stk_look_room_fini(struct stk_look_room *room);

/* From planes of the whole picture, as seen: the kept part, scaled as Pillow's resize() does it, as interleaved RGB in
 * the room. Only if something is kept. NO_MEMORY. */
stoker_status stk_look_scale(const struct stk_look *look, stoker_image_filter filter, const struct stk_planes *picture,
                             struct stk_look_room *room, struct stk_filtered *out, stoker_error *err);
/* From the kept part, as planes or interleaved (`rgb`, else NULL), to the result, in the room: what is around it,
 * mirrored, coloured. NO_MEMORY. */
stoker_status stk_look_finish(const struct stk_look *look, const struct stk_planes *kept,
                              const struct stk_filtered *rgb, struct stk_look_room *room, struct stk_planes *out,
                              stoker_error *err);

#endif
