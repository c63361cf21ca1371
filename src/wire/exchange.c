/* SPDX-License-Identifier: Apache-2.0
 *
 * As message.c: one walk over the fields counts, writes and reads.
 */
#include "wire/exchange.h"

#include "base/assert.h"
#include "wire/codec_internal.h"

#define READY_BYTES_MAX (64u << 10)
#define GATHERED_BYTES_MAX (STK_MESSAGE_BYTES_MAX - (64u << 10))

static void gather_fields(struct stk_codec *codec, struct stk_message_gather *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
    stk_codec_u64(codec, "number", &m->number);
    stk_codec_bytes(codec, "ranks", &m->ranks, 0, 4 * (size_t)STOKER_BALANCE_RANKS_MAX);
    stk_codec_require(codec, m->ranks.size % 4 == 0, "ranks", m->ranks.size, "a multiple of 4 bytes");
    stk_codec_bytes(codec, "data", &m->data, 0, STOKER_GATHER_BYTES_MAX);
}

static void gathered_fields(struct stk_codec *codec, struct stk_message_gathered *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
    stk_codec_u64(codec, "number", &m->number);
    stk_codec_status(codec, "status", &m->status, true);
    stk_codec_bytes(codec, "text", &m->text, 0, STK_TEXT_BYTES_MAX);
    stk_codec_bytes(codec, "data", &m->data, 0, GATHERED_BYTES_MAX);
    stk_codec_require(codec, m->status == STOKER_OK || m->data.size == 0, "data", m->data.size,
                      "nothing beside a failure");
}

static void give_fields(struct stk_codec *codec, struct stk_message_give *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
    stk_codec_u64(codec, "number", &m->number);
    stk_codec_u32(codec, "rank", &m->rank);
    stk_codec_u32(codec, "tag", &m->tag);
    stk_codec_bytes(codec, "ready", &m->ready, 1, READY_BYTES_MAX);
}

#define DEFINE_PAIR(name)                                                                                              \
    void stk_##name##_encode(struct stk_writer *writer, const struct stk_message_##name *message)                      \
    {                                                                                                                  \
        struct stk_codec codec;                                                                                        \
        struct stk_message_##name copy = *message;                                                                     \
        stk_codec_write(&codec, #name, writer);                                                                        \
        name##_fields(&codec, &copy);                                                                                  \
    }                                                                                                                  \
    size_t stk_##name##_size(const struct stk_message_##name *message)                                                 \
    {                                                                                                                  \
        struct stk_codec codec;                                                                                        \
        struct stk_message_##name copy = *message;                                                                     \
        stk_codec_count(&codec, #name);                                                                                \
        name##_fields(&codec, &copy);                                                                                  \
        return codec.counted;                                                                                          \
    }                                                                                                                  \
    stoker_status stk_##name##_decode(struct stk_span body, struct stk_message_##name *out, stoker_error *err)         \
    {                                                                                                                  \
        struct stk_codec codec;                                                                                        \
        struct stk_message_##name read = {0};                                                                          \
        stk_codec_read(&codec, #name, body, err);                                                                      \
        name##_fields(&codec, &read);                                                                                  \
        stoker_status status = stk_codec_end(&codec);                                                                  \
        if (status == STOKER_OK) *out = read;                                                                          \
        return status;                                                                                                 \
    }

DEFINE_PAIR(gather)
DEFINE_PAIR(gathered)
DEFINE_PAIR(give)
