/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of images share: the files of the fuzz corpus, which show a known picture, and decoding one of them.
 */
#ifndef STK_MEDIA_IMAGE_FIXTURE_H
#define STK_MEDIA_IMAGE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/image_codec.h"
#include "tests/support/unit.h"

#define FIXTURE_WIDTH 16u
#define FIXTURE_HEIGHT 12u

struct fixture {
    uint8_t *data; /* a block of its exact size, so that the address sanitizer sees the first byte read past it */
    size_t size;
};

static inline struct fixture fixture_read(const char *name)
{
    char path[4096];
    static uint8_t bytes[1 << 16];
    struct fixture fixture;
    assert_true(snprintf(path, sizeof path, "%s/%s", STK_GOLDEN_IMAGES, name) < (int)sizeof path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fixture.size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file); /* it was only read */
    fixture.data = malloc(fixture.size ? fixture.size : 1);
    assert_non_null(fixture.data);
    memcpy(fixture.data, bytes, fixture.size);
    return fixture;
}

/* Of the picture that all files of the corpus show. */
static inline int fixture_pixel(uint32_t x, uint32_t y, int channel)
{
    return (int)(channel == 0 ? 16 * x : channel == 1 ? 20 * y : 8 * (x + y));
}

/* The largest difference of any value from the picture; alpha is not looked at. */
static inline int fixture_distance(const uint8_t *data, size_t stride, uint32_t channels)
{
    int worst = 0;
    for (uint32_t y = 0; y < FIXTURE_HEIGHT; y++)
        for (uint32_t x = 0; x < FIXTURE_WIDTH; x++)
            for (int c = 0; c < 3; c++) {
                int apart = abs((int)data[y * stride + (size_t)x * channels + (size_t)c] - fixture_pixel(x, y, c));
                if (apart > worst) worst = apart;
            }
    return worst;
}

typedef stoker_status (*fixture_decode_fn)(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err);

/* One decode with its own memory. The pixels stay valid until the next call. */
struct fixture_run {
    struct stk_image_head head;
    struct stk_pixels pixels;
    stoker_error err;
    stoker_status status;
};

static inline struct fixture_run fixture_decode(const char *name, fixture_decode_fn decode, bool alpha,
                                                bool accept_partial, uint32_t reduce)
{
    static struct stk_pixel_room room;
    static struct stk_codecs codecs;
    struct fixture_run run;
    memset(&run, 0, sizeof run);
    struct fixture file = fixture_read(name);
    assert_int_equal(stk_image_head_read(file.data, file.size, &run.head, &run.err), STOKER_OK);
    free(room.data); /* a block of its own each time, again for the address sanitizer */
    memset(&room, 0, sizeof room);
    const struct stk_image_job job = {file.data, file.size, &run.head, &codecs, &room, reduce, alpha, accept_partial};
    run.status = decode(&job, &run.pixels, &run.err);
    stk_jpeg_close(codecs.jpeg);
    codecs.jpeg = NULL;
    free(file.data);
    return run;
}

#endif
