/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG through libspng; the only file that includes it. Line by line, so that a damaged file keeps the lines before the
 * damage. Of an APNG only the default picture is read, which is its first frame.
 */
#include "media/image_codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#if STK_HAVE_SPNG

#include <spng.h>

/* Ancillary chunks (text, profiles) are inflated up to this much, then dropped. */
#define CHUNK_BYTES_MAX ((size_t)8 << 20)

bool stk_png_available(void) { return true; }

static stoker_status fail(int status, stoker_error *err)
{
    if (status == SPNG_EMEM) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a PNG decoder");
    return stk_fail(err, STOKER_ERR_CORRUPT, "the PNG data is damaged (%s)", spng_strerror(status));
}

/* 16 bits to 8: the nearest, not the upper half. */
static void reduce_line(const uint16_t *in, uint8_t *out, uint32_t width, uint32_t channels)
{
    for (uint32_t x = 0; x < width; x++)
        for (uint32_t c = 0; c < channels; c++)
            out[x * channels + c] = (uint8_t)(((uint32_t)in[4 * x + c] * 255u + 32767u) / 65535u);
}

/* One line of 16-bit pixels on its way; lines of an interlaced picture come several times, each with other pixels. */
static stoker_status decode_deep(spng_ctx *context, struct stk_pixels *pixels, uint32_t *out_lines, int *out_status,
                                 stoker_error *err)
{
    size_t line_bytes, size;
    if (!stk_mul_size(pixels->width, 8, &line_bytes) || !stk_mul_size(line_bytes, pixels->height, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a PNG of %ux%u is too large", pixels->width, pixels->height);
    struct spng_ihdr header;
    *out_status = spng_get_ihdr(context, &header);
    if (*out_status) return STOKER_OK;
    bool interlaced = header.interlace_method != 0;
    uint8_t *lines = calloc(1, interlaced ? size : line_bytes);
    if (!lines) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a PNG of 16 bits");
    struct spng_row_info row;
    while ((*out_status = spng_get_row_info(context, &row)) == 0) {
        uint8_t *line = lines + (interlaced ? row.row_num * line_bytes : 0);
        *out_status = spng_decode_row(context, line, line_bytes);
        if (*out_status && *out_status != SPNG_EOI) break;
        reduce_line((const uint16_t *)(const void *)line, pixels->data + row.row_num * pixels->stride, pixels->width,
                    pixels->channels);
        ++*out_lines;
        if (*out_status) break;
    }
    free(lines);
    return STOKER_OK;
}

static int decode_lines(spng_ctx *context, struct stk_pixels *pixels, uint32_t *out_lines)
{
    struct spng_row_info row;
    int status;
    while ((status = spng_get_row_info(context, &row)) == 0) {
        status = spng_decode_row(context, pixels->data + row.row_num * pixels->stride,
                                 (size_t)pixels->width * pixels->channels);
        if (status && status != SPNG_EOI) break;
        ++*out_lines;
        if (status) break;
    }
    return status;
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The library reads a chunk of pixels whole or not at all. So a cut file is mended: its last such chunk ends where the
 * file does, and an end chunk follows. NULL if the cut is elsewhere (there is nothing to mend) or without memory. */
static uint8_t *mend(const uint8_t *data, size_t size, size_t *out_size)
{
    static const uint8_t end[16] = {0, 0, 0, 0, 0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
    size_t at = 8;
    while (size - at >= 12 && be32(data + at) <= size - at - 12) at += (size_t)be32(data + at) + 12;
    if (size - at < 9 || memcmp(data + at + 4, "IDAT", 4) != 0) return NULL;
    uint8_t *copy = malloc(size + sizeof end);
    if (!copy) return NULL;
    memcpy(copy, data, size);
    memcpy(copy + size, end, sizeof end); /* after four bytes for the checksum, which is not looked at */
    size_t length = size - at - 8;
    for (int i = 0; i < 4; i++) copy[at + (size_t)i] = (uint8_t)(length >> (24 - 8 * i));
    *out_size = size + sizeof end;
    return copy;
}

static int begin(spng_ctx *context, const struct stk_image_job *job, const uint8_t *data, size_t size, int format)
{
    struct spng_ihdr header;
    int status = spng_set_chunk_limits(context, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX);
    if (!status && data != job->data) status = spng_set_crc_action(context, SPNG_CRC_USE, SPNG_CRC_DISCARD);
    if (!status) status = spng_set_png_buffer(context, data, size);
    if (!status) status = spng_get_ihdr(context, &header);
    if (!status && (header.width != job->head->width || header.height != job->head->height)) status = SPNG_EINTERNAL;
    if (!status)
        status =
            spng_decode_image(context, NULL, 0, format, SPNG_DECODE_PROGRESSIVE | (job->alpha ? SPNG_DECODE_TRNS : 0));
    return status;
}

stoker_status stk_png_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err)
{
    struct stk_pixels pixels = {0};
    uint32_t lines = 0;
    const bool deep = job->head->bit_depth == 16, alpha = job->alpha && job->head->alpha;
    /* An interlaced picture is written in several passes, and a bad one ends early. */
    STK_TRY(stk_pixels_reserve(job, alpha ? 4 : 3, 1, true, &pixels, err));
    spng_ctx *context = spng_ctx_new(0);
    if (!context) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a PNG decoder");
    size_t mended_size = 0;
    uint8_t *mended = job->head->whole ? NULL : mend(job->data, job->size, &mended_size);
    int status = begin(context, job, mended ? mended : job->data, mended ? mended_size : job->size,
                       deep    ? SPNG_FMT_RGBA16
                       : alpha ? SPNG_FMT_RGBA8
                               : SPNG_FMT_RGB8);
    stoker_status result = STOKER_OK;
    if (status == 0) {
        if (deep)
            result = decode_deep(context, &pixels, &lines, &status, err);
        else
            status = decode_lines(context, &pixels, &lines);
    }
    spng_ctx_free(context);
    free(mended);
    if (result < 0) return result;
    if (status != SPNG_EOI) {
        pixels.usable = lines > 0;
        result = fail(status, err);
    }
    *out = pixels;
    return result;
}

#else

bool stk_png_available(void) { return false; }

stoker_status stk_png_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err)
{
    (void)job, (void)out;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "this build has no PNG decoder (libspng)");
}

#endif
