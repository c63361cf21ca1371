/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a manifest: see manifest_format.h.
 */
#include "media/manifest_format.h"

#include <string.h>

#include "base/assert.h"

/* ---------------------------------------------------------------------------------------------------------- numbers */

void stk_manifest_put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

void stk_manifest_put64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> (8 * i));
}

uint32_t stk_manifest_get32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint64_t stk_manifest_get64(const uint8_t *at)
{
    return (uint64_t)stk_manifest_get32(at) | (uint64_t)stk_manifest_get32(at + 4) << 32;
}

static void put_real(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    stk_manifest_put64(at, bits);
}

static double get_real(const uint8_t *at)
{
    uint64_t bits = stk_manifest_get64(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint64_t stk_manifest_sum(uint64_t hash, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint32_t stk_manifest_table_sum(const uint8_t *data, size_t size)
{
    uint64_t hash = stk_manifest_sum(STK_MANIFEST_SUM_INIT, data, size);
    return (uint32_t)(hash ^ hash >> 32);
}

/* ----------------------------------------------------------------------------------------------- header and entries */

/* The numbers of a header from offset 24 on, in the order in which they stand; NULL after the last. */
static uint64_t *header_field(struct stk_manifest_header *header, int i)
{
    uint64_t *const fields[] = {&header->entry_count, &header->entries_at,  &header->text_at,   &header->text_size,
                                &header->tables_at,   &header->tables_size, &header->bad_count, &header->entries_sum,
                                &header->text_sum,    &header->tables_sum};
    return i < (int)(sizeof fields / sizeof fields[0]) ? fields[i] : NULL;
}

uint64_t stk_manifest_header_id(const uint8_t *at)
{
    return stk_manifest_sum(STK_MANIFEST_SUM_INIT, at + 24, STK_MANIFEST_HEADER_BYTES - 24);
}

void stk_manifest_put_header(uint8_t *at, const struct stk_manifest_header *header)
{
    struct stk_manifest_header copy = *header;
    memset(at, 0, STK_MANIFEST_HEADER_BYTES);
    stk_manifest_put32(at, STK_MANIFEST_MAGIC);
    stk_manifest_put32(at + 4, STK_MANIFEST_VERSION);
    stk_manifest_put64(at + 8, header->size);
    for (int i = 0; header_field(&copy, i); i++) stk_manifest_put64(at + 24 + 8 * i, *header_field(&copy, i));
    stk_manifest_put64(at + 16, stk_manifest_header_id(at));
}

void stk_manifest_get_header(const uint8_t *at, struct stk_manifest_header *out)
{
    out->size = stk_manifest_get64(at + 8);
    out->id = stk_manifest_get64(at + 16);
    for (int i = 0; header_field(out, i); i++) *header_field(out, i) = stk_manifest_get64(at + 24 + 8 * i);
}

void stk_manifest_put_record(uint8_t *at, const struct stk_manifest_record *record)
{
    const uint64_t wide[] = {record->path,   record->member,  record->bytes, (uint64_t)record->mtime_ns,
                             record->offset, record->table_at};
    const uint32_t narrow[] = {record->table_size,  record->table_sum, record->packets,
                               record->key_packets, record->frames,    record->frames_exact};
    for (int i = 0; i < 6; i++) stk_manifest_put64(at + 8 * i, wide[i]);
    for (int i = 0; i < 6; i++) stk_manifest_put32(at + 48 + 4 * i, narrow[i]);
    stk_manifest_put64(at + 72, record->packet_bytes);
    stk_manifest_put64(at + 80, record->codec);
    stk_manifest_put64(at + 88, record->error);
    stk_manifest_put32(at + 96, (uint32_t)record->status);
    stk_manifest_put32(at + 100, record->width);
    stk_manifest_put32(at + 104, record->height);
    stk_manifest_put32(at + 108, (uint32_t)record->rotation | (uint32_t)record->flags << 16);
    put_real(at + 112, record->duration_s);
    put_real(at + 120, record->frame_rate);
    put_real(at + 128, record->time_base);
    put_real(at + 136, record->last_duration);
}

void stk_manifest_get_record(const uint8_t *at, struct stk_manifest_record *out)
{
    *out = (struct stk_manifest_record){
        .path = stk_manifest_get64(at),
        .member = stk_manifest_get64(at + 8),
        .bytes = stk_manifest_get64(at + 16),
        .mtime_ns = (int64_t)stk_manifest_get64(at + 24),
        .offset = stk_manifest_get64(at + 32),
        .table_at = stk_manifest_get64(at + 40),
        .table_size = stk_manifest_get32(at + 48),
        .table_sum = stk_manifest_get32(at + 52),
        .packets = stk_manifest_get32(at + 56),
        .key_packets = stk_manifest_get32(at + 60),
        .frames = stk_manifest_get32(at + 64),
        .frames_exact = stk_manifest_get32(at + 68),
        .packet_bytes = stk_manifest_get64(at + 72),
        .codec = stk_manifest_get64(at + 80),
        .error = stk_manifest_get64(at + 88),
        .status = (int32_t)stk_manifest_get32(at + 96),
        .width = stk_manifest_get32(at + 100),
        .height = stk_manifest_get32(at + 104),
        .rotation = (uint16_t)stk_manifest_get32(at + 108),
        .flags = (uint16_t)(stk_manifest_get32(at + 108) >> 16),
        .duration_s = get_real(at + 112),
        .frame_rate = get_real(at + 120),
        .time_base = get_real(at + 128),
        .last_duration = get_real(at + 136),
    };
}

/* ---------------------------------------------------------------------------------------------------- packet tables */

/* Low bits of the first number of a packet. */
enum { KEY = 1, HIDDEN = 2, NO_PTS = 4, NO_DTS = 8, FLAG_BITS = 4 };

static uint8_t *put_number(uint8_t *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

/* NULL: the bytes end inside it, or it has more than 64 bits, or more bytes than it needs. */
static const uint8_t *get_number(const uint8_t *at, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return NULL;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        if (byte == 0 && shift > 0) return NULL;
        *out = value;
        return at;
    }
    return NULL;
}

/* Differences wrap, so that every pair of times has one. */
static uint64_t fold(uint64_t difference) { return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0); }

static uint64_t unfold(uint64_t folded) { return folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0); }

/* What both directions expect of the next packet. */
struct expected {
    uint64_t dts, step, pts;
};

static void expect_next(struct expected *expected, const struct stk_packet *packet)
{
    if (packet->dts != STK_TIME_NONE) {
        expected->step = (uint64_t)packet->dts - expected->dts;
        expected->dts = (uint64_t)packet->dts;
    }
    if (packet->pts != STK_TIME_NONE) expected->pts = (uint64_t)packet->pts;
}

size_t stk_manifest_put_table(uint8_t *out, const struct stk_packet *packets, size_t count)
{
    struct expected expected = {0, 0, 0};
    uint8_t *at = out;
    for (size_t i = 0; i < count; i++) {
        const struct stk_packet *packet = &packets[i];
        uint64_t first = (uint64_t)packet->size << FLAG_BITS;
        STK_ASSERT(packet->size <= STK_MANIFEST_PACKET_SIZE_MAX);
        if (packet->flags & STK_PACKET_KEY) first |= KEY;
        if (packet->flags & STK_PACKET_HIDDEN) first |= HIDDEN;
        if (packet->pts == STK_TIME_NONE) first |= NO_PTS;
        if (packet->dts == STK_TIME_NONE) first |= NO_DTS;
        uint64_t pts_base = packet->dts == STK_TIME_NONE ? expected.pts : (uint64_t)packet->dts;
        at = put_number(at, first);
        at = put_number(at, first & NO_DTS ? 0 : fold((uint64_t)packet->dts - (expected.dts + expected.step)));
        at = put_number(at, first & NO_PTS ? 0 : fold((uint64_t)packet->pts - pts_base));
        expect_next(&expected, packet);
    }
    return (size_t)(at - out);
}

bool stk_manifest_get_table(const uint8_t *data, size_t size, struct stk_packet *out, size_t count)
{
    struct expected expected = {0, 0, 0};
    const uint8_t *at = data, *end = data + size;
    for (size_t i = 0; i < count; i++) {
        uint64_t first = 0, dts = 0, pts = 0;
        at = get_number(at, end, &first);
        if (at) at = get_number(at, end, &dts);
        if (at) at = get_number(at, end, &pts);
        if (!at || first >> FLAG_BITS > STK_MANIFEST_PACKET_SIZE_MAX) return false;
        struct stk_packet packet = {STK_TIME_NONE, STK_TIME_NONE, (uint32_t)(first >> FLAG_BITS), 0, 0};
        if (first & KEY) packet.flags |= STK_PACKET_KEY;
        if (first & HIDDEN) packet.flags |= STK_PACKET_HIDDEN;
        if (!(first & NO_DTS)) packet.dts = (int64_t)(expected.dts + expected.step + unfold(dts));
        uint64_t pts_base = packet.dts == STK_TIME_NONE ? expected.pts : (uint64_t)packet.dts;
        if (!(first & NO_PTS)) packet.pts = (int64_t)(pts_base + unfold(pts));
        /* One spelling for each table: a time that is there is one, and one that is not takes no difference. */
        if (((first & NO_DTS) != 0) != (packet.dts == STK_TIME_NONE) || (first & NO_DTS && dts)) return false;
        if (((first & NO_PTS) != 0) != (packet.pts == STK_TIME_NONE) || (first & NO_PTS && pts)) return false;
        expect_next(&expected, &packet);
        out[i] = packet;
    }
    return at == end;
}
