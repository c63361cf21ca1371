/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a manifest (docs/reference/manifest.md): its header, an entry, and a table of packets. Pure; who calls
 * has bounded the memory.
 *
 * A table is one unit a packet: a number that holds size and flags, then the times as differences from what is expected
 * (decode times go on as they did, presentation follows decode at once). Numbers are LEB128, signed ones zigzag. Most
 * packets take four to six bytes.
 */
#ifndef STK_MEDIA_MANIFEST_FORMAT_H
#define STK_MEDIA_MANIFEST_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "media/plan.h"

#define STK_MANIFEST_MAGIC 0x4d4b5453u /* "STKM" in a dump */
#define STK_MANIFEST_VERSION 1u
#define STK_MANIFEST_HEADER_BYTES 128u
#define STK_MANIFEST_ENTRY_BYTES 144u
#define STK_MANIFEST_UNKNOWN UINT32_MAX /* frames_exact */
#define STK_MANIFEST_PACKET_BYTES_MIN 3u
#define STK_MANIFEST_PACKET_BYTES_MAX 25u /* 5 for size and flags, 10 for each time */
#define STK_MANIFEST_PACKET_SIZE_MAX ((UINT32_C(1) << 28) - 1)

struct stk_manifest_header {
    uint64_t size; /* of the file */
    uint64_t id;   /* over the header from offset 24 */
    uint64_t entry_count;
    uint64_t entries_at, text_at, text_size, tables_at, tables_size;
    uint64_t bad_count;
    uint64_t entries_sum, text_sum, tables_sum;
};

enum stk_manifest_flag {
    STK_MANIFEST_BROKEN = 1, /* as in stk_packet_table */
    STK_MANIFEST_SHARD = 2   /* the entry stands for a whole shard that cannot be read */
};

/* An entry as it stands in the file; texts by their offsets, 0 being none. */
struct stk_manifest_record {
    uint64_t path, member;
    uint64_t bytes;
    int64_t mtime_ns;
    uint64_t offset;
    uint64_t table_at; /* in the tables */
    uint32_t table_size, table_sum;
    uint32_t packets, key_packets;
    uint32_t frames, frames_exact;
    uint64_t packet_bytes;
    uint64_t codec, error;
    int32_t status;
    uint32_t width, height; /* after rotation */
    uint16_t rotation, flags;
    double duration_s, frame_rate, time_base, last_duration;
};

void stk_manifest_put_header(uint8_t *at, const struct stk_manifest_header *header); /* sets the id in the bytes */
/* Does not judge; magic and version are the caller's. */
void stk_manifest_get_header(const uint8_t *at, struct stk_manifest_header *out);
uint64_t stk_manifest_header_id(const uint8_t *at);

void stk_manifest_put_record(uint8_t *at, const struct stk_manifest_record *record);
void stk_manifest_get_record(const uint8_t *at, struct stk_manifest_record *out);

/* FNV-1a of 64 bits, to be gone on with; the first `hash` is STK_MANIFEST_SUM_INIT. */
#define STK_MANIFEST_SUM_INIT UINT64_C(0xcbf29ce484222325)
uint64_t stk_manifest_sum(uint64_t hash, const uint8_t *data, size_t size);
/* Its two halves, one over the other: of a table. */
uint32_t stk_manifest_table_sum(const uint8_t *data, size_t size);

/* Returns the bytes written at `out`, which has room for count * STK_MANIFEST_PACKET_BYTES_MAX. Sizes are at most
 * STK_MANIFEST_PACKET_SIZE_MAX. */
size_t stk_manifest_put_table(uint8_t *out, const struct stk_packet *packets, size_t count);
/* False, with any part of `out` written: the bytes are not exactly a table of `count` packets. `key` is not set. */
bool stk_manifest_get_table(const uint8_t *data, size_t size, struct stk_packet *out, size_t count);

void stk_manifest_put32(uint8_t *at, uint32_t value);
void stk_manifest_put64(uint8_t *at, uint64_t value);
uint32_t stk_manifest_get32(const uint8_t *at);
uint64_t stk_manifest_get64(const uint8_t *at);

#endif
