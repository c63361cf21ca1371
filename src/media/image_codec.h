/* SPDX-License-Identifier: Apache-2.0
 *
 * What image.c asks of the decoders of single formats: the bytes of one picture into interleaved pixels. Each decoder
 * is one file and the only one that includes its foreign library; without the library it says UNSUPPORTED.
 *
 * Damage: CORRUPT with `usable` set means that what could be decoded is in the picture, and may be taken if the form
 * accepts that. Everything else is for image.c: bounds, orientation, alpha, scaling.
 */
#ifndef STK_MEDIA_IMAGE_CODEC_H
#define STK_MEDIA_IMAGE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "media/image_head.h"

/* Memory that is kept from picture to picture. Zeroed at first. */
struct stk_pixel_room {
    uint8_t *data;
    size_t size;
};

/* Codec state that is kept from picture to picture, made when first used. */
struct stk_codecs {
    void *jpeg;
};

struct stk_image_job {
    const uint8_t *data;
    size_t size;
    const struct stk_image_head *head;
    struct stk_codecs *codecs;
    struct stk_pixel_room *room;
    uint32_t reduce;     /* 1, 2, 4 or 8; formats that cannot are decoded whole */
    bool alpha;          /* give it if there is some */
    bool accept_partial; /* a damaged picture is wanted: what is missing must not be left from the picture before */
};

struct stk_pixels {
    uint8_t *data; /* the room's; STK_FILTER_SLACK bytes behind the last line */
    size_t stride;
    uint32_t width, height, channels; /* 3: RGB; 4: RGBA, not premultiplied */
    bool usable;
};

/* Makes room for a picture of job->head's size, reduced; zeroed if a part of it may stay unwritten. NO_MEMORY. */
stoker_status stk_pixels_reserve(const struct stk_image_job *job, uint32_t channels, uint32_t reduce, bool cleared,
                                 struct stk_pixels *out, stoker_error *err);

/* The picture into *out. */
stoker_status stk_jpeg_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err);
stoker_status stk_png_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err);
stoker_status stk_webp_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err);
stoker_status stk_gif_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err);

/* Whether this build has the decoder of a format. */
bool stk_jpeg_available(void);
bool stk_png_available(void);
bool stk_webp_available(void);

void stk_jpeg_close(void *state); /* of struct stk_codecs; NULL allowed */

#endif
