/* SPDX-License-Identifier: Apache-2.0
 *
 * The first frame of a GIF. FFmpeg's decoder does not fit here: it wants a file, loses the colours of transparent
 * pixels and does not say where a cut file ends.
 *
 * Outside of its frame the canvas has the transparent colour, or colour 0, as Pillow has it. Colours that the palette
 * lacks are a grey ramp.
 */
#include "media/image_codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define CODES_MAX 4096u

struct gif {
    const uint8_t *data;
    size_t size;
    size_t at;    /* the next byte */
    size_t block; /* bytes left of the sub-block */
    uint32_t bits, bit_count;
    bool ended; /* no more sub-blocks */

    uint8_t palette[256][4];
    int transparent; /* -1: none */
    uint32_t x, y, width, height;
    bool interlaced;
    uint32_t root_bits;

    uint64_t placed; /* pixels of the frame so far */
    uint16_t prefix[CODES_MAX];
    uint8_t last[CODES_MAX], first[CODES_MAX];
    uint16_t length[CODES_MAX];
    uint8_t *pixels; /* indices of the frame */
};

static uint32_t le16(const uint8_t *at) { return (uint32_t)at[1] << 8 | at[0]; }

static void read_palette(struct gif *gif, const uint8_t *at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) memcpy(gif->palette[i], at + 3 * (size_t)i, 3);
}

/* The colours and transparency that hold for the first frame, and its place. Sizes were checked by image_head.c. */
static stoker_status read_head(struct gif *gif, const struct stk_image_head *head, stoker_error *err)
{
    const uint8_t *data = gif->data;
    for (int i = 0; i < 256; i++) {
        memset(gif->palette[i], i, 3);
        gif->palette[i][3] = 255;
    }
    size_t at = 13;
    uint32_t count = 2u << (data[10] & 7);
    if (data[10] & 0x80) {
        if (gif->size - at < 3 * (size_t)count)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF file ends at byte %zu, inside its colours", gif->size);
        read_palette(gif, data + at, count);
        at += 3 * (size_t)count;
    }
    gif->transparent = -1;
    while (at + 1 < head->frame_at) { /* extensions only, each of which image_head.c has passed */
        if (data[at] == 0x21 && data[at + 1] == 0xf9 && head->frame_at - at >= 8 && data[at + 2] == 4)
            gif->transparent = data[at + 3] & 1 ? data[at + 6] : -1;
        at += 2;
        while (at < head->frame_at && data[at] != 0) at += (size_t)data[at] + 1;
        at++;
    }
    at = head->frame_at;
    gif->x = le16(data + at), gif->y = le16(data + at + 2);
    gif->width = le16(data + at + 4), gif->height = le16(data + at + 6);
    uint8_t flags = data[at + 8];
    gif->interlaced = flags & 0x40;
    at += 9;
    if (flags & 0x80) {
        count = 2u << (flags & 7);
        if (gif->size - at < 3 * (size_t)count)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF file ends at byte %zu, inside its colours", gif->size);
        read_palette(gif, data + at, count);
        at += 3 * (size_t)count;
    }
    if (at >= gif->size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF file ends at byte %zu, before its picture", gif->size);
    gif->root_bits = data[at];
    if (gif->root_bits < 1 || gif->root_bits > 8)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF picture at byte %zu has codes of %u bits, expected 1 to 8",
                        at, gif->root_bits);
    gif->at = at + 1;
    if (gif->width == 0 || gif->height == 0 || gif->x + gif->width > head->width || gif->y + gif->height > head->height)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF frame at byte %zu is %ux%u at %u,%u of a canvas of %ux%u",
                        head->frame_at, gif->width, gif->height, gif->x, gif->y, head->width, head->height);
    return STOKER_OK;
}

/* The next code of `bits` bits; -1 at the end of the data. */
static int32_t next_code(struct gif *gif, uint32_t bits)
{
    while (gif->bit_count < bits) {
        if (gif->block == 0) {
            if (gif->ended || gif->at >= gif->size || gif->data[gif->at] == 0) {
                gif->ended = true;
                return -1;
            }
            gif->block = gif->data[gif->at++];
        }
        if (gif->at >= gif->size) {
            gif->ended = true;
            return -1;
        }
        gif->bits |= (uint32_t)gif->data[gif->at++] << gif->bit_count;
        gif->bit_count += 8;
        gif->block--;
    }
    int32_t code = (int32_t)(gif->bits & ((1u << bits) - 1));
    gif->bits >>= bits;
    gif->bit_count -= bits;
    return code;
}

/* Writes the string of a code, back to front, as far as the frame goes. */
static void put_string(struct gif *gif, uint32_t code, uint64_t total)
{
    uint64_t end = gif->placed + gif->length[code];
    for (uint64_t at = end; at > gif->placed; code = gif->prefix[code])
        if (--at < total) gif->pixels[at] = gif->last[code];
    gif->placed = end < total ? end : total;
}

/* Fills the frame's indices. CORRUPT names the byte; what was placed stays. */
static stoker_status unpack(struct gif *gif, stoker_error *err)
{
    const uint32_t clear = 1u << gif->root_bits;
    const uint64_t total = (uint64_t)gif->width * gif->height;
    for (uint32_t i = 0; i < clear; i++) gif->first[i] = gif->last[i] = (uint8_t)i, gif->length[i] = 1;
    uint32_t bits = gif->root_bits + 1, next = clear + 2;
    int32_t before = -1;
    while (gif->placed < total) {
        int32_t code = next_code(gif, bits);
        if (code < 0 || (uint32_t)code == clear + 1)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF data ends at byte %zu after %llu of %llu pixels", gif->at,
                            (unsigned long long)gif->placed, (unsigned long long)total);
        if ((uint32_t)code == clear) {
            bits = gif->root_bits + 1, next = clear + 2, before = -1;
            continue;
        }
        if ((uint32_t)code > next || ((uint32_t)code == next && (before < 0 || next == CODES_MAX)) ||
            (before < 0 && (uint32_t)code > clear))
            return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF data has code %d before byte %zu, expected at most %u",
                            code, gif->at, next);
        if (before >= 0 && next < CODES_MAX) {
            gif->prefix[next] = (uint16_t)before;
            gif->first[next] = gif->first[before];
            gif->last[next] = (uint32_t)code == next ? gif->first[before] : gif->first[code];
            gif->length[next] = (uint16_t)(gif->length[before] + 1);
            next++;
            if (next == 1u << bits && bits < 12) bits++;
        }
        put_string(gif, (uint32_t)code, total);
        before = code;
    }
    return STOKER_OK;
}

/* Line of the frame that holds the n-th line of the data. */
static uint32_t line_of(const struct gif *gif, uint32_t n)
{
    static const uint32_t starts[4] = {0, 4, 2, 1}, steps[4] = {8, 8, 4, 2};
    if (!gif->interlaced) return n;
    for (int pass = 0; pass < 4; pass++) {
        uint32_t count = gif->height > starts[pass] ? (gif->height - starts[pass] + steps[pass] - 1) / steps[pass] : 0;
        if (n < count) return starts[pass] + n * steps[pass];
        n -= count;
    }
    return 0;
}

static void paint(const struct gif *gif, const struct stk_pixels *out)
{
    const uint32_t channels = out->channels;
    const uint8_t *outside = gif->palette[gif->transparent >= 0 ? gif->transparent : 0];
    bool covered =
        gif->width == out->width && gif->height == out->height && gif->placed >= (uint64_t)gif->width * gif->height;
    for (uint32_t y = 0; !covered && y < out->height; y++)
        for (uint32_t x = 0; x < out->width; x++)
            memcpy(out->data + y * out->stride + (size_t)x * channels, outside, channels);
    uint64_t left = gif->placed;
    for (uint32_t n = 0; n < gif->height && left > 0; n++) {
        const uint8_t *in = gif->pixels + (size_t)n * gif->width;
        uint8_t *to = out->data + (gif->y + line_of(gif, n)) * out->stride + (size_t)gif->x * channels;
        uint32_t count = left < gif->width ? (uint32_t)left : gif->width;
        for (uint32_t x = 0; x < count; x++) memcpy(to + (size_t)x * channels, gif->palette[in[x]], channels);
        left -= count;
    }
}

stoker_status stk_gif_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err)
{
    struct gif *gif = calloc(1, sizeof *gif);
    struct stk_pixels pixels = {0};
    if (!gif) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a GIF decoder");
    gif->data = job->data, gif->size = job->size;
    stoker_status status = read_head(gif, job->head, err);
    if (status == STOKER_OK)
        status = stk_pixels_reserve(job, job->alpha && job->head->alpha ? 4 : 3, 1, false, &pixels, err);
    if (status == STOKER_OK) {
        gif->pixels = calloc(gif->width, gif->height);
        if (!gif->pixels)
            status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a GIF of %ux%u", gif->width, gif->height);
    }
    if (status == STOKER_OK) {
        status = unpack(gif, err);
        if (gif->transparent >= 0) gif->palette[gif->transparent][3] = 0;
        paint(gif, &pixels);
        pixels.usable = gif->placed > 0;
        *out = pixels;
    }
    free(gif->pixels);
    free(gif);
    return status;
}
