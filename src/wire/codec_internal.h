/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over the fields of a message serves three purposes: count its bytes, write it, read it. So the two
 * directions cannot drift apart, and each property is stated once: stk_codec_require() asserts it before writing and
 * refuses it with PROTOCOL after reading. The first refusal is kept; what follows reads as zero.
 */
#ifndef STK_WIRE_CODEC_INTERNAL_H
#define STK_WIRE_CODEC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/message.h"

enum stk_codec_mode { STK_CODEC_COUNT, STK_CODEC_WRITE, STK_CODEC_READ };

struct stk_codec {
    enum stk_codec_mode mode;
    const char *message;       /* its name, for errors */
    const char *part;          /* "target.": the struct inside the message that is being walked, else "" */
    size_t counted;            /* COUNT */
    struct stk_writer *writer; /* WRITE */
    const uint8_t *from;       /* READ: what is not read yet */
    size_t left;
    stoker_status status; /* READ: of the first refusal */
    stoker_error *err;
};

void stk_codec_count(struct stk_codec *codec, const char *message);
void stk_codec_write(struct stk_codec *codec, const char *message, struct stk_writer *writer);
void stk_codec_read(struct stk_codec *codec, const char *message, struct stk_span body, stoker_error *err);
/* The end of a READ: refuses trailing bytes and gives the first refusal. */
stoker_status stk_codec_end(struct stk_codec *codec);

void stk_codec_u32(struct stk_codec *codec, const char *field, uint32_t *value);
void stk_codec_i32(struct stk_codec *codec, const char *field, int32_t *value);
void stk_codec_u64(struct stk_codec *codec, const char *field, uint64_t *value);
void stk_codec_i64(struct stk_codec *codec, const char *field, int64_t *value);
/* A u32 length and that many bytes; the length lies in min..max. */
void stk_codec_bytes(struct stk_codec *codec, const char *field, struct stk_span *value, size_t min, size_t max);

/* `value` is what the error shows for `field`; `expected` completes "field is value, expected ...". */
void stk_codec_require(struct stk_codec *codec, bool holds, const char *field, uint64_t value, const char *expected);
/* A known status that is OK (if that is allowed) or a failure. */
void stk_codec_status(struct stk_codec *codec, const char *field, int32_t *value, bool ok_allowed);

#endif
