/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of messages to bytes and back, and the frame header: see codec_internal.h and message.h. Integers are
 * little-endian and go through loads and stores of single bytes, never through struct overlays. Nothing here allocates
 * or makes a system call.
 */
#include "wire/codec_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* Where the fields of the frame header lie. */
enum {
    FRAME_MAGIC = 0,
    FRAME_VERSION = 4,
    FRAME_TYPE = 6,
    FRAME_FD_COUNT = 8,
    FRAME_RESERVED_16 = 10,
    FRAME_BODY_SIZE = 12,
    FRAME_INCARNATION = 16,
    FRAME_RESERVED_64 = 24
};

static uint64_t load(const void *from, size_t size)
{
    const uint8_t *bytes = from;
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static void store(void *to, uint64_t value, size_t size)
{
    uint8_t *bytes = to;
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> (8 * i));
}

uint64_t stk_load_u64(const void *from) { return load(from, 8); }

void stk_store_u64(void *to, uint64_t value) { store(to, value, 8); }

void stk_frame_encode(const struct stk_frame *frame, uint8_t out[STK_FRAME_HEADER_BYTES])
{
    STK_ASSERT(frame->body_size <= STK_MESSAGE_BYTES_MAX);
    STK_ASSERT(frame->fd_count <= STK_MESSAGE_FDS_MAX);
    memset(out, 0, STK_FRAME_HEADER_BYTES);
    store(out + FRAME_MAGIC, STK_WIRE_MAGIC, 4);
    store(out + FRAME_VERSION, STK_WIRE_VERSION, 2);
    store(out + FRAME_TYPE, frame->type, 2);
    store(out + FRAME_FD_COUNT, frame->fd_count, 2);
    store(out + FRAME_BODY_SIZE, frame->body_size, 4);
    store(out + FRAME_INCARNATION, frame->incarnation, 8);
}

stoker_status stk_frame_decode(const uint8_t in[STK_FRAME_HEADER_BYTES], struct stk_frame *out, stoker_error *err)
{
    uint64_t magic = load(in + FRAME_MAGIC, 4);
    if (magic != STK_WIRE_MAGIC)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "frame: magic is 0x%08" PRIx64 ", expected 0x%08x", magic,
                        STK_WIRE_MAGIC);
    uint64_t version = load(in + FRAME_VERSION, 2);
    if (version != STK_WIRE_VERSION)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "frame: version is %" PRIu64 ", expected %u", version,
                        STK_WIRE_VERSION);
    uint64_t body_size = load(in + FRAME_BODY_SIZE, 4);
    if (body_size > STK_MESSAGE_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "frame: body_size is %" PRIu64 ", expected at most %u", body_size,
                        STK_MESSAGE_BYTES_MAX);
    uint64_t fd_count = load(in + FRAME_FD_COUNT, 2);
    if (fd_count > STK_MESSAGE_FDS_MAX)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "frame: fd_count is %" PRIu64 ", expected at most %u", fd_count,
                        STK_MESSAGE_FDS_MAX);
    uint64_t reserved = load(in + FRAME_RESERVED_16, 2) | load(in + FRAME_RESERVED_64, 8);
    if (reserved != 0)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "frame: reserved is 0x%" PRIx64 ", expected 0", reserved);
    out->type = (uint16_t)load(in + FRAME_TYPE, 2);
    out->fd_count = (uint16_t)fd_count;
    out->body_size = (uint32_t)body_size;
    out->incarnation = load(in + FRAME_INCARNATION, 8);
    return STOKER_OK;
}

void stk_codec_count(struct stk_codec *codec, const char *message)
{
    *codec = (struct stk_codec){.mode = STK_CODEC_COUNT, .message = message, .part = ""};
}

void stk_codec_write(struct stk_codec *codec, const char *message, struct stk_writer *writer)
{
    *codec = (struct stk_codec){.mode = STK_CODEC_WRITE, .message = message, .part = "", .writer = writer};
}

void stk_codec_read(struct stk_codec *codec, const char *message, struct stk_span body, stoker_error *err)
{
    *codec = (struct stk_codec){
        .mode = STK_CODEC_READ,
        .message = message,
        .part = "",
        .from = body.data,
        .left = body.size,
        .err = err,
    };
}

stoker_status stk_codec_end(struct stk_codec *codec)
{
    STK_ASSERT(codec->mode == STK_CODEC_READ);
    if (codec->status == STOKER_OK && codec->left != 0)
        codec->status = stk_fail(codec->err, STOKER_ERR_PROTOCOL, "%s: body has %zu trailing bytes, expected 0",
                                 codec->message, codec->left);
    return codec->status;
}

/* READ only: `size` bytes of the body, or NULL after a refusal. */
static const uint8_t *take(struct stk_codec *codec, const char *field, size_t size)
{
    if (codec->status != STOKER_OK) return NULL;
    if (codec->left < size) {
        codec->status = stk_fail(codec->err, STOKER_ERR_PROTOCOL, "%s: %s%s needs %zu bytes, the body has %zu left",
                                 codec->message, codec->part, field, size, codec->left);
        return NULL;
    }
    const uint8_t *taken = codec->from;
    if (size != 0) codec->from += size; /* an empty body may be NULL */
    codec->left -= size;
    return taken;
}

static void put(struct stk_writer *writer, const void *data, size_t size)
{
    if (writer->full || writer->size - writer->used < size) {
        writer->full = true;
        return;
    }
    if (size != 0) memcpy(writer->data + writer->used, data, size); /* an empty span may be NULL */
    writer->used += size;
}

static uint64_t integer(struct stk_codec *codec, const char *field, uint64_t value, size_t size)
{
    switch (codec->mode) {
    case STK_CODEC_COUNT: codec->counted += size; return value;
    case STK_CODEC_WRITE: {
        uint8_t bytes[8];
        store(bytes, value, size);
        put(codec->writer, bytes, size);
        return value;
    }
    case STK_CODEC_READ: break;
    }
    const uint8_t *bytes = take(codec, field, size);
    return bytes ? load(bytes, size) : 0;
}

void stk_codec_u32(struct stk_codec *codec, const char *field, uint32_t *value)
{
    *value = (uint32_t)integer(codec, field, *value, 4);
}

void stk_codec_i32(struct stk_codec *codec, const char *field, int32_t *value)
{
    *value = (int32_t)(uint32_t)integer(codec, field, (uint32_t)*value, 4);
}

void stk_codec_u64(struct stk_codec *codec, const char *field, uint64_t *value)
{
    *value = integer(codec, field, *value, 8);
}

void stk_codec_i64(struct stk_codec *codec, const char *field, int64_t *value)
{
    *value = (int64_t)integer(codec, field, (uint64_t)*value, 8);
}

void stk_codec_bytes(struct stk_codec *codec, const char *field, struct stk_span *value, size_t min, size_t max)
{
    if (codec->mode == STK_CODEC_READ) {
        size_t size = (size_t)integer(codec, field, 0, 4);
        stk_codec_require(codec, size >= min, field, size, "a longer one (its size in bytes)");
        stk_codec_require(codec, size <= max, field, size, "a shorter one (its size in bytes)");
        const uint8_t *bytes = take(codec, field, size);
        *value = (struct stk_span){bytes, codec->status == STOKER_OK ? size : 0};
        return;
    }
    STK_ASSERT(value->size >= min);
    STK_ASSERT(value->size <= max);
    (void)integer(codec, field, value->size, 4); /* writes or counts; nothing is read */
    if (codec->mode == STK_CODEC_COUNT)
        codec->counted += value->size;
    else
        put(codec->writer, value->data, value->size);
}

void stk_codec_require(struct stk_codec *codec, bool holds, const char *field, uint64_t value, const char *expected)
{
    if (codec->mode != STK_CODEC_READ) {
        STK_ASSERT(holds);
        return;
    }
    if (holds || codec->status != STOKER_OK) return;
    codec->status = stk_fail(codec->err, STOKER_ERR_PROTOCOL, "%s: %s%s is %" PRIu64 ", expected %s", codec->message,
                             codec->part, field, value, expected);
}

void stk_codec_status(struct stk_codec *codec, const char *field, int32_t *value, bool ok_allowed)
{
    stk_codec_i32(codec, field, value);
    bool known = strcmp(stoker_status_name((stoker_status)*value), "UNKNOWN") != 0;
    bool fits = known && (*value < 0 || (*value == 0 && ok_allowed));
    if (codec->mode != STK_CODEC_READ) {
        STK_ASSERT(fits);
        return;
    }
    if (fits || codec->status != STOKER_OK) return;
    codec->status =
        stk_fail(codec->err, STOKER_ERR_PROTOCOL, "%s: %s%s is %" PRId32 ", expected %sthe number of a failure",
                 codec->message, codec->part, field, *value, ok_allowed ? "0 or " : "");
}
