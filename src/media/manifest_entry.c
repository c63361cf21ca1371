/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of files: see manifest_entry.h.
 */
#include "media/manifest_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/decode.h"

bool stk_manifest_is_lasting(stoker_status status)
{
    return status == STOKER_OK || status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED ||
           status == STOKER_ERR_NOT_FOUND;
}

static double known(double value) { return value > 0 && value < 1e300 ? value : 0; }

static stoker_status put_packets(const struct stk_scan *scan, struct stk_manifest_made *out, stoker_error *err)
{
    struct stk_manifest_record *record = &out->value.record;
    if (scan->count > UINT32_MAX / STK_MANIFEST_PACKET_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "%zu packets, a manifest holds %u of a file", scan->count,
                        UINT32_MAX / STK_MANIFEST_PACKET_BYTES_MAX);
    for (size_t i = 0; i < scan->count; i++) {
        if (scan->packets[i].size > STK_MANIFEST_PACKET_SIZE_MAX)
            return stk_fail(err, STOKER_ERR_UNSUPPORTED, "a packet of %u bytes, a manifest holds packets up to %u",
                            scan->packets[i].size, STK_MANIFEST_PACKET_SIZE_MAX);
        record->packet_bytes += scan->packets[i].size;
        record->key_packets += (scan->packets[i].flags & STK_PACKET_KEY) != 0;
    }
    out->table = malloc(scan->count * STK_MANIFEST_PACKET_BYTES_MAX + 1);
    if (!out->table) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a table of %zu packets", scan->count);
    record->packets = (uint32_t)scan->count;
    record->table_size = (uint32_t)stk_manifest_put_table(out->table, scan->packets, scan->count);
    record->table_sum = stk_manifest_table_sum(out->table, record->table_size);
    out->value.table = out->table;
    return STOKER_OK;
}

static void put_facts(const struct stk_scan *scan, struct stk_manifest_made *out)
{
    struct stk_manifest_record *record = &out->value.record;
    bool turned = scan->facts.rotation == 90 || scan->facts.rotation == 270;
    (void)snprintf(out->codec, sizeof out->codec, "%s", scan->facts.codec);
    out->value.codec = out->codec;
    record->width = turned ? scan->facts.height : scan->facts.width;
    record->height = turned ? scan->facts.width : scan->facts.height;
    record->rotation = (uint16_t)scan->facts.rotation;
    record->flags = scan->broken ? STK_MANIFEST_BROKEN : 0;
    record->frames = (uint32_t)scan->frames;
    record->duration_s = known(scan->duration_s);
    record->frame_rate = known(scan->facts.frame_rate);
    record->time_base = known(scan->facts.time_base);
    record->last_duration = known(scan->last_duration);
}

static stoker_status count_frames(const struct stk_file *file, struct stk_manifest_record *record, stoker_error *err)
{
    struct stk_decoder *decoder = NULL;
    uint64_t frames = 0;
    STK_TRY(stk_decoder_create(&decoder, err));
    stoker_status status = record->frames > 0 ? stk_decoder_count(decoder, file, &frames, err) : STOKER_OK;
    stk_decoder_destroy(decoder);
    STK_TRY(status);
    record->frames_exact = frames < STK_MANIFEST_UNKNOWN ? (uint32_t)frames : STK_MANIFEST_UNKNOWN;
    return STOKER_OK;
}

void stk_manifest_make_bad(stoker_status status, const char *message, struct stk_manifest_made *out)
{
    uint64_t bytes = out->value.record.bytes;
    int64_t mtime_ns = out->value.record.mtime_ns;
    stk_manifest_made_fini(out);
    out->value = (struct stk_manifest_value){
        .record = {.bytes = bytes, .mtime_ns = mtime_ns, .frames_exact = STK_MANIFEST_UNKNOWN, .status = status}};
    (void)snprintf(out->error, sizeof out->error, "%s", message[0] ? message : "the file cannot be used");
    out->value.error = out->error;
}

stoker_status stk_manifest_make(const struct stk_file *file, bool exact, struct stk_manifest_made *out,
                                stoker_error *err)
{
    struct stk_scan scan;
    stoker_error fault = {0};
    memset(out, 0, sizeof *out);
    out->value.record.bytes = file->size;
    out->value.record.mtime_ns = file->mtime_ns;
    out->value.record.frames_exact = STK_MANIFEST_UNKNOWN;
    stoker_status status = stk_scan_file(file, &scan, &fault);
    if (status >= 0) {
        put_facts(&scan, out);
        status = put_packets(&scan, out, &fault);
        stk_scan_fini(&scan);
    }
    if (status >= 0 && exact) status = count_frames(file, &out->value.record, &fault);
    if (status >= 0) return STOKER_OK;
    if (status == STOKER_ERR_NO_MEMORY || status == STOKER_ERR_LIMIT) {
        stk_manifest_made_fini(out);
        if (err) *err = fault;
        return status;
    }
    stk_manifest_make_bad(status, fault.message, out);
    return STOKER_OK;
}

void stk_manifest_made_fini(struct stk_manifest_made *made)
{
    free(made->table);
    made->table = NULL;
    made->value.table = NULL;
}
