/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bytes of an image file say of it before anything is decoded: format, size, orientation, where the first
 * frame lies, and whether the file is whole. Pure, and independent of the decoders, so every build can probe every
 * format, and one rule decides what counts as truncated.
 *
 * Every step moves forward, so the time is bounded by the size. Hostile EXIF data is not an error: the picture is shown
 * as it is stored.
 */
#ifndef STK_MEDIA_IMAGE_HEAD_H
#define STK_MEDIA_IMAGE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/image.h>

struct stk_image_head {
    stoker_image_format format;
    uint32_t width, height; /* as stored: of the whole canvas */
    uint32_t channels, bit_depth;
    int32_t orientation; /* 1 to 8 */
    bool alpha;          /* some pixel may be transparent */
    bool whole;          /* the end marker of the first picture was found */
    /* Animated WebP: chunks of the first frame and its place on the canvas; else frame_size is 0. */
    size_t frame_at, frame_size;
    uint32_t frame_x, frame_y, frame_width, frame_height;
};

/* CORRUPT names the offset, what is there and what was expected. A cut file gives its head if that is whole. */
stoker_status stk_image_head_read(const uint8_t *data, size_t size, struct stk_image_head *out_head, stoker_error *err);

/* Name of a format, for messages. */
const char *stk_image_format_name(stoker_image_format format);

/* EXIF orientation of a TIFF block; 1 if there is none that makes sense. */
int32_t stk_image_orientation(const uint8_t *tiff, size_t size);

#endif
