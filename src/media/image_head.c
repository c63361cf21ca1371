/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of JPEG, PNG, WebP and GIF: see image_head.h.
 */
#include "media/image_head.h"

#include <string.h>

#include "base/error.h"

static uint32_t be16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
static uint32_t be32(const uint8_t *at) { return be16(at) << 16 | be16(at + 2); }
static uint32_t le16(const uint8_t *at) { return (uint32_t)at[1] << 8 | at[0]; }
static uint32_t le24(const uint8_t *at) { return (uint32_t)at[2] << 16 | le16(at); }
static uint32_t le32(const uint8_t *at) { return le16(at + 2) << 16 | le16(at); }

const char *stk_image_format_name(stoker_image_format format)
{
    switch (format) {
    case STOKER_IMAGE_JPEG: return "JPEG";
    case STOKER_IMAGE_PNG: return "PNG";
    case STOKER_IMAGE_WEBP: return "WebP";
    case STOKER_IMAGE_GIF: return "GIF";
    }
    return "unknown";
}

static stoker_status cut(const char *format, size_t size, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_CORRUPT, "the %s file ends at byte %zu, inside its header", format, size);
}

/* ---------------------------------------------------------------------------------------------------------------- EXIF
 */

int32_t stk_image_orientation(const uint8_t *tiff, size_t size)
{
    if (size >= 6 && memcmp(tiff, "Exif\0", 6) == 0)
        tiff += 6, size -= 6; /* some writers put JPEG's prefix before it */
    if (size < 8) return 1;
    bool little = memcmp(tiff, "II*\0", 4) == 0;
    if (!little && memcmp(tiff, "MM\0*", 4) != 0) return 1;
    uint32_t at = little ? le32(tiff + 4) : be32(tiff + 4);
    if (at > size - 2) return 1;
    uint32_t count = little ? le16(tiff + at) : be16(tiff + at);
    const uint8_t *entry = tiff + at + 2;
    size_t room = (size - at - 2) / 12;
    for (uint32_t i = 0; i < count && i < room; i++, entry += 12) {
        uint32_t tag = little ? le16(entry) : be16(entry), type = little ? le16(entry + 2) : be16(entry + 2);
        if (tag != 0x0112) continue;
        uint32_t value = 0;
        if (type == 3) value = little ? le16(entry + 8) : be16(entry + 8);
        if (type == 4) value = little ? le32(entry + 8) : be32(entry + 8);
        return value >= 1 && value <= 8 ? (int32_t)value : 1;
    }
    return 1;
}

/* ---------------------------------------------------------------------------------------------------------------- JPEG
 */

/* The next marker at or after *at, which then points behind it; 0 at the end of the data. */
static uint8_t jpeg_marker(const uint8_t *data, size_t size, size_t *at)
{
    size_t i = *at;
    while (i + 1 < size) {
        const uint8_t *found = memchr(data + i, 0xff, size - i - 1);
        if (!found) break;
        i = (size_t)(found - data) + 1;
        while (i < size && data[i] == 0xff) i++; /* fill bytes */
        if (i == size) break;
        uint8_t marker = data[i++];
        if (marker == 0 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue; /* data; restarts */
        *at = i;
        return marker;
    }
    *at = size;
    return 0;
}

static bool is_frame(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static stoker_status jpeg_frame(const uint8_t *segment, uint32_t length, size_t at, struct stk_image_head *head,
                                stoker_error *err)
{
    if (length < 8)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the JPEG frame header at byte %zu has %u bytes, expected 8 or more",
                        at, length);
    head->bit_depth = segment[2];
    head->height = be16(segment + 3), head->width = be16(segment + 5);
    uint32_t components = segment[7];
    if (head->width == 0 || head->height == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the JPEG frame header at byte %zu says %ux%u pixels", at, head->width,
                        head->height);
    if (components != 1 && components != 3 && components != 4)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "the JPEG frame header at byte %zu says %u components, expected 1, 3 or 4", at, components);
    head->channels = components;
    return STOKER_OK;
}

static stoker_status jpeg_head(const uint8_t *data, size_t size, struct stk_image_head *head, stoker_error *err)
{
    size_t at = 2;
    bool exif = false;
    for (;;) {
        uint8_t marker = jpeg_marker(data, size, &at);
        if (marker == 0xd9 || marker == 0) {
            head->whole = marker == 0xd9;
            if (head->width) return STOKER_OK;
            if (!head->whole) return cut("JPEG", size, err);
            return stk_fail(err, STOKER_ERR_CORRUPT, "the JPEG ends at byte %zu without a frame header", at);
        }
        if (marker == 0xd8) continue; /* a second start: decoders decide */
        if (size - at < 2) continue;
        uint32_t length = be16(data + at);
        if (length < 2 && head->width) continue; /* a marker that damage made within a scan: for the decoder */
        if (length < 2)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "the JPEG segment %02x at byte %zu has length %u, expected 2 or more", marker, at, length);
        if (length > size - at) {
            at = size; /* next: the end */
            continue;
        }
        if (is_frame(marker) && !head->width) STK_TRY(jpeg_frame(data + at, length, at, head, err));
        if (marker == 0xe1 && !exif && length >= 8 && memcmp(data + at + 2, "Exif\0", 6) == 0) {
            head->orientation = stk_image_orientation(data + at + 8, length - 8);
            exif = true;
        }
        if (marker == 0xda && !head->width)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the JPEG scan at byte %zu comes before a frame header", at);
        at += length;
    }
}

/* ----------------------------------------------------------------------------------------------------------------- PNG
 */

static stoker_status png_header(const uint8_t *data, struct stk_image_head *head, stoker_error *err)
{
    static const uint8_t depths[7] = {31, 0, 24, 15, 24, 0, 24}; /* allowed depths 1, 2, 4, 8, 16 as bits */
    static const uint8_t channels[7] = {1, 0, 3, 3, 2, 0, 4};
    head->width = be32(data + 16), head->height = be32(data + 20);
    uint32_t depth = data[24], type = data[25];
    if (head->width == 0 || head->height == 0 || head->width > INT32_MAX || head->height > INT32_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the PNG header at byte 16 says %ux%u pixels", head->width,
                        head->height);
    bool known = type < 7 && depth > 0 && depth <= 16 && (depth & (depth - 1)) == 0 && (depths[type] & depth);
    if (!known)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the PNG header at byte 24 says depth %u of colour type %u", depth,
                        type);
    head->bit_depth = type == 3 ? 8 : depth;
    head->channels = channels[type];
    head->alpha = type >= 4;
    return STOKER_OK;
}

static stoker_status png_head(const uint8_t *data, size_t size, struct stk_image_head *head, stoker_error *err)
{
    if (size < 33) return cut("PNG", size, err);
    if (be32(data + 8) != 13 || memcmp(data + 12, "IHDR", 4) != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the PNG header at byte 8 is not IHDR of 13 bytes");
    STK_TRY(png_header(data, head, err));
    for (size_t at = 33; size - at >= 12;) {
        uint32_t length = be32(data + at);
        const uint8_t *name = data + at + 4;
        if (length > size - at - 12) break;
        if (memcmp(name, "IEND", 4) == 0) {
            head->whole = true;
            break;
        }
        if (memcmp(name, "tRNS", 4) == 0 && !head->alpha) {
            head->alpha = true;
            head->channels++;
        }
        if (memcmp(name, "eXIf", 4) == 0) head->orientation = stk_image_orientation(data + at + 8, length);
        at += (size_t)length + 12;
    }
    return STOKER_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- WebP
 */

struct webp_walk {
    const uint8_t *data;
    size_t end; /* of what the container claims, and of the data */
    bool extended;
};

/* A picture chunk outside of an animation gives size and alpha unless the extended header did. */
static stoker_status webp_picture(const struct webp_walk *walk, size_t at, size_t length, struct stk_image_head *head,
                                  stoker_error *err)
{
    const uint8_t *data = walk->data + at;
    bool lossless = memcmp(data - 8, "VP8L", 4) == 0;
    if (length < (lossless ? 5u : 10u)) return cut("WebP", walk->end, err);
    if (lossless ? data[0] != 0x2f : memcmp(data + 3, "\x9d\x01\x2a", 3) != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the WebP picture at byte %zu does not begin with its code", at);
    if (walk->extended) return STOKER_OK;
    uint32_t bits = lossless ? le32(data + 1) : 0;
    head->width = lossless ? (bits & 0x3fff) + 1 : le16(data + 6) & 0x3fff;
    head->height = lossless ? (bits >> 14 & 0x3fff) + 1 : le16(data + 8) & 0x3fff;
    head->alpha = lossless && (bits >> 28 & 1);
    if (head->width == 0 || head->height == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the WebP picture at byte %zu says %ux%u pixels", at, head->width,
                        head->height);
    return STOKER_OK;
}

static stoker_status webp_frame(const struct webp_walk *walk, size_t at, size_t length, struct stk_image_head *head,
                                stoker_error *err)
{
    const uint8_t *data = walk->data + at;
    if (length < 16) return cut("WebP", walk->end, err);
    head->frame_x = le24(data) * 2, head->frame_y = le24(data + 3) * 2;
    head->frame_width = le24(data + 6) + 1, head->frame_height = le24(data + 9) + 1;
    if (head->frame_x > head->width || head->frame_width > head->width - head->frame_x ||
        head->frame_y > head->height || head->frame_height > head->height - head->frame_y)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the WebP frame at byte %zu is %ux%u at %u,%u of a canvas of %ux%u",
                        at, head->frame_width, head->frame_height, head->frame_x, head->frame_y, head->width,
                        head->height);
    head->frame_at = at + 16, head->frame_size = length - 16;
    return STOKER_OK;
}

static stoker_status webp_extended(struct webp_walk *walk, size_t at, size_t length, struct stk_image_head *head,
                                   stoker_error *err)
{
    if (length < 10) return cut("WebP", walk->end, err);
    const uint8_t *data = walk->data + at;
    walk->extended = true;
    head->alpha = data[0] & 0x10;
    head->width = le24(data + 4) + 1, head->height = le24(data + 7) + 1;
    return STOKER_OK;
}

static stoker_status webp_head(const uint8_t *data, size_t size, struct stk_image_head *head, stoker_error *err)
{
    struct webp_walk walk = {data, size, false};
    size_t claimed = (size_t)le32(data + 4) + 8;
    if (claimed < size) walk.end = claimed;
    bool picture = false, first = true, is_cut = claimed > size;
    size_t at = 12;
    while (at <= walk.end && walk.end - at >= 8) {
        size_t length = le32(data + at + 4), room = walk.end - at - 8, body = at + 8;
        size_t have = length < room ? length : room;
        if (memcmp(data + at, "VP8X", 4) == 0 && first) {
            STK_TRY(webp_extended(&walk, body, have, head, err));
        } else if (memcmp(data + at, "ANMF", 4) == 0 && walk.extended && !picture) {
            STK_TRY(webp_frame(&walk, body, have, head, err));
            picture = true;
        } else if ((memcmp(data + at, "VP8 ", 4) == 0 || memcmp(data + at, "VP8L", 4) == 0) && !picture) {
            STK_TRY(webp_picture(&walk, body, have, head, err));
            picture = true;
        } else if (memcmp(data + at, "EXIF", 4) == 0) {
            head->orientation = stk_image_orientation(data + body, have);
        }
        if (length > room) {
            is_cut = true;
            break;
        }
        first = false;
        at = body + length + (length & 1);
    }
    if (head->width == 0 || !picture) {
        if (claimed > size) return cut("WebP", size, err);
        return stk_fail(err, STOKER_ERR_CORRUPT, "the WebP file of %zu bytes holds no picture", size);
    }
    head->whole = !is_cut;
    head->channels = head->alpha ? 4 : 3;
    head->bit_depth = 8;
    return STOKER_OK;
}

/* ----------------------------------------------------------------------------------------------------------------- GIF
 */

/* Behind the sub-blocks that begin at `at`; false at the end of the data. */
static bool gif_skip(const uint8_t *data, size_t size, size_t *at)
{
    while (*at < size) {
        uint8_t length = data[(*at)++];
        if (length == 0) return true;
        if (length > size - *at) break;
        *at += length;
    }
    return false;
}

static stoker_status gif_head(const uint8_t *data, size_t size, struct stk_image_head *head, stoker_error *err)
{
    if (size < 13) return cut("GIF", size, err);
    head->width = le16(data + 6), head->height = le16(data + 8);
    head->bit_depth = 8, head->channels = 3;
    if (head->width == 0 || head->height == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF header at byte 6 says %ux%u pixels", head->width,
                        head->height);
    size_t at = 13 + (data[10] & 0x80 ? (size_t)3 << ((data[10] & 7) + 1) : 0);
    while (at < size) {
        uint8_t kind = data[at++];
        if (kind == 0x2c) {
            head->frame_at = at;
            if (size - at < 10) return cut("GIF", size, err);
            uint8_t flags = data[at + 8];
            at += 9 + (flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0) + 1;
            head->whole = gif_skip(data, size, &at);
            return STOKER_OK;
        }
        if (kind == 0x3b) return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF ends at byte %zu without a picture", at);
        if (kind != 0x21)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the GIF block at byte %zu is %02x, expected 21, 2c or 3b", at - 1,
                            kind);
        if (size - at >= 6 && data[at] == 0xf9 && data[at + 1] == 4 && !head->alpha && (data[at + 2] & 1)) {
            head->alpha = true;
            head->channels = 4;
        }
        if (at < size) at++; /* its label */
        if (!gif_skip(data, size, &at)) break;
    }
    return cut("GIF", size, err);
}

/* --------------------------------------------------------------------------------------------------------------- entry
 */

stoker_status stk_image_head_read(const uint8_t *data, size_t size, struct stk_image_head *out_head, stoker_error *err)
{
    struct stk_image_head head;
    memset(&head, 0, sizeof head);
    head.orientation = 1;
    stoker_status status;
    if (size == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "the file is empty");
    if (size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0) {
        head.format = STOKER_IMAGE_JPEG;
        status = jpeg_head(data, size, &head, err);
    } else if (size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) {
        head.format = STOKER_IMAGE_PNG;
        status = png_head(data, size, &head, err);
    } else if (size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0) {
        head.format = STOKER_IMAGE_WEBP;
        status = webp_head(data, size, &head, err);
    } else if (size >= 6 && (memcmp(data, "GIF87a", 6) == 0 || memcmp(data, "GIF89a", 6) == 0)) {
        head.format = STOKER_IMAGE_GIF;
        status = gif_head(data, size, &head, err);
    } else {
        uint8_t first[4] = {0, 0, 0, 0};
        memcpy(first, data, size < 4 ? size : 4);
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "%zu bytes that begin with %02x %02x %02x %02x are no JPEG, PNG, WebP or GIF", size, first[0],
                        first[1], first[2], first[3]);
    }
    if (status == STOKER_OK) *out_head = head;
    return status;
}
