/* SPDX-License-Identifier: Apache-2.0
 *
 * Opened manifests: see manifest.h. All offsets are checked once, at open; a table of packets when it is used, against
 * its checksum, because checking all of them would cost what the manifest saves.
 */
#include "media/manifest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "store/range.h"
#include "store/tar.h"
#include "sys/filemap.h"

/* ------------------------------------------------------------------------------------------------------------ check */

/* Sections follow each other: header, entries, text, tables. */
static stoker_status check_sections(const struct stk_manifest_header *header, size_t size, stoker_error *err)
{
    size_t entries, text_at, tables_at, end;
    if (header->size != size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "manifest: size at offset 8 is %llu, the file has %zu bytes",
                        (unsigned long long)header->size, size);
    if (!stk_mul_size((size_t)header->entry_count, STK_MANIFEST_ENTRY_BYTES, &entries) ||
        !stk_add_size(entries, STK_MANIFEST_HEADER_BYTES, &text_at) ||
        !stk_add_size(text_at, (size_t)header->text_size, &tables_at) ||
        !stk_add_size(tables_at, (size_t)header->tables_size, &end) || end != size)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "manifest: %llu entries at offset 24, %llu bytes of text and %llu of packets do not fill %zu "
                        "bytes",
                        (unsigned long long)header->entry_count, (unsigned long long)header->text_size,
                        (unsigned long long)header->tables_size, size);
    if (header->entries_at != STK_MANIFEST_HEADER_BYTES || header->text_at != text_at || header->tables_at != tables_at)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "manifest: sections at %llu, %llu and %llu, expected %u, %zu and %zu (offset 32)",
                        (unsigned long long)header->entries_at, (unsigned long long)header->text_at,
                        (unsigned long long)header->tables_at, STK_MANIFEST_HEADER_BYTES, text_at, tables_at);
    return STOKER_OK;
}

static stoker_status bad_field(uint64_t index, unsigned field, const char *what, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_CORRUPT, "manifest: entry %llu: %s (offset %llu)", (unsigned long long)index, what,
                    (unsigned long long)(STK_MANIFEST_HEADER_BYTES + index * STK_MANIFEST_ENTRY_BYTES + field));
}

static bool is_time(double value) { return value >= 0 && isfinite(value); }

static stoker_status check_record(const struct stk_manifest_header *header, const char *text,
                                  const struct stk_manifest_record *record, uint64_t i, stoker_error *err)
{
    /* The text ends with a zero byte, so that every offset into it is a text with an end. */
    if (record->path == 0 || record->path >= header->text_size) return bad_field(i, 0, "no path", err);
    size_t path_size = strlen(text + record->path);
    if (path_size == 0 || path_size > STK_MANIFEST_PATH_BYTES_MAX)
        return bad_field(i, 0, "the path is not of 1 to 4095 bytes", err);
    if (record->member >= header->text_size) return bad_field(i, 8, "no such text", err);
    if (record->codec >= header->text_size) return bad_field(i, 80, "no such text", err);
    if (record->error >= header->text_size) return bad_field(i, 88, "no such text", err);
    if (record->bytes > INT64_MAX || record->offset > INT64_MAX - record->bytes)
        return bad_field(i, 16, "size and offset are past any file", err);
    if (record->table_size > header->tables_size || record->table_at > header->tables_size - record->table_size)
        return bad_field(i, 40, "the packets reach past the end", err);
    if (record->packets > record->table_size / STK_MANIFEST_PACKET_BYTES_MIN)
        return bad_field(i, 56, "more packets than bytes for them", err);
    if (record->key_packets > record->packets || record->frames > record->packets)
        return bad_field(i, 60, "more key packets or frames than packets", err);
    if ((record->status == 0) == (record->error != 0) || record->status > 0)
        return bad_field(i, 96, "an error without a status, or a status without an error", err);
    if (record->status == 0 && (record->codec == 0 || record->width == 0 || record->height == 0))
        return bad_field(i, 80, "no codec or no size", err);
    if (record->rotation % 90 != 0 || record->rotation > 270 ||
        record->flags & ~(STK_MANIFEST_BROKEN | STK_MANIFEST_SHARD))
        return bad_field(i, 108, "a rotation or flags that are not known", err);
    if (!is_time(record->duration_s) || !is_time(record->frame_rate) || !is_time(record->time_base) ||
        !is_time(record->last_duration))
        return bad_field(i, 112, "a time that is no number", err);
    return STOKER_OK;
}

static stoker_status check_head(const uint8_t *data, size_t size, struct stk_manifest_header *out, stoker_error *err)
{
    if (size < STK_MANIFEST_HEADER_BYTES)
        return stk_fail(err, STOKER_ERR_CORRUPT, "no manifest: %zu bytes, the header alone has %u", size,
                        STK_MANIFEST_HEADER_BYTES);
    if (stk_manifest_get32(data) != STK_MANIFEST_MAGIC)
        return stk_fail(err, STOKER_ERR_CORRUPT, "no manifest: magic at offset 0 is %#x, expected %#x",
                        stk_manifest_get32(data), STK_MANIFEST_MAGIC);
    if (stk_manifest_get32(data + 4) != STK_MANIFEST_VERSION)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "manifest: version %u, expected %u", stk_manifest_get32(data + 4),
                        STK_MANIFEST_VERSION);
    stk_manifest_get_header(data, out);
    if (out->id != stk_manifest_header_id(data))
        return stk_fail(err, STOKER_ERR_CORRUPT, "manifest: the header does not have its checksum (offset 16)");
    return check_sections(out, size, err);
}

stoker_status stk_manifest_check(const uint8_t *data, size_t size, struct stk_manifest_header *out_header,
                                 stoker_error *err)
{
    struct stk_manifest_header header;
    struct stk_manifest_record record;
    uint64_t bad = 0;
    STK_TRY(check_head(data, size, &header, err));
    const char *text = (const char *)data + header.text_at;
    if (header.text_size == 0 || text[0] != 0 || text[header.text_size - 1] != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "manifest: the text at offset %llu does not begin and end with zero",
                        (unsigned long long)header.text_at);
    for (uint64_t i = 0; i < header.entry_count; i++) {
        stk_manifest_get_record(data + header.entries_at + i * STK_MANIFEST_ENTRY_BYTES, &record);
        STK_TRY(check_record(&header, text, &record, i, err));
        bad += record.status != 0;
    }
    if (bad != header.bad_count)
        return stk_fail(err, STOKER_ERR_CORRUPT, "manifest: %llu entries have an error, the header says %llu",
                        (unsigned long long)bad, (unsigned long long)header.bad_count);
    *out_header = header;
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------- open */

static stoker_status map_manifest(stoker_manifest *manifest, stoker_error *err)
{
    struct stk_file file;
    const void *data = NULL;
    STK_TRY(stk_file_open(manifest->path, &file, err));
    manifest->bytes = file.size;
    manifest->mtime_ns = file.mtime_ns;
    stoker_status status = file.size > 0
                               ? stk_filemap_read(file.fd, (size_t)file.size, &data, err)
                               : stk_fail(err, STOKER_ERR_CORRUPT, "no manifest: 0 bytes, the header alone has %u",
                                          STK_MANIFEST_HEADER_BYTES);
    stk_file_close(&file);
    STK_TRY(status);
    manifest->data = data;
    return stk_manifest_check(data, (size_t)manifest->bytes, &manifest->header, err);
}

stoker_status stoker_manifest_open(const char *path, stoker_manifest **out_manifest, stoker_error *err)
{
    if (!path || !out_manifest)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and out_manifest must be given");
    stoker_manifest *manifest = calloc(1, sizeof *manifest);
    if (!manifest) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open a manifest");
    stoker_status status = stk_manifest_absolute(path, &manifest->path, err);
    if (status >= 0) {
        manifest->folder = stk_manifest_folder(manifest->path);
        if (!manifest->folder) status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open a manifest");
    }
    if (status >= 0) status = map_manifest(manifest, err);
    if (status < 0) {
        stk_error_context(err, "%s", path);
        stoker_manifest_close(manifest);
        return status;
    }
    *out_manifest = manifest;
    return STOKER_OK;
}

stoker_status stk_manifest_open_id(const char *path, uint64_t id, stoker_manifest **out_manifest, stoker_error *err)
{
    stoker_manifest *manifest = NULL;
    STK_TRY(stoker_manifest_open(path, &manifest, err));
    if (manifest->header.id != id) {
        stoker_status status = stk_fail(err, STOKER_ERR_MISMATCH,
                                        "the manifest '%s' is not the one that the source was made of: its id is "
                                        "%016llx, it was %016llx",
                                        path, (unsigned long long)manifest->header.id, (unsigned long long)id);
        stoker_manifest_close(manifest);
        return status;
    }
    *out_manifest = manifest;
    return STOKER_OK;
}

void stoker_manifest_close(stoker_manifest *manifest)
{
    if (!manifest) return;
    if (manifest->data) stk_filemap_close(manifest->data, (size_t)manifest->bytes);
    free(manifest->path);
    free(manifest->folder);
    free(manifest);
}

/* -------------------------------------------------------------------------------------------------------------- use */

void stk_manifest_record_at(const stoker_manifest *manifest, uint64_t index, struct stk_manifest_record *out)
{
    STK_ASSERT(index < manifest->header.entry_count);
    stk_manifest_get_record(manifest->data + manifest->header.entries_at + index * STK_MANIFEST_ENTRY_BYTES, out);
}

const char *stk_manifest_text(const stoker_manifest *manifest, uint64_t offset)
{
    STK_ASSERT(offset < manifest->header.text_size);
    return (const char *)manifest->data + manifest->header.text_at + offset;
}

const uint8_t *stk_manifest_table(const stoker_manifest *manifest, const struct stk_manifest_record *record)
{
    return manifest->data + manifest->header.tables_at + record->table_at;
}

void stk_manifest_value_at(const stoker_manifest *manifest, uint64_t index, struct stk_manifest_value *out)
{
    stk_manifest_record_at(manifest, index, &out->record);
    out->path = stk_manifest_text(manifest, out->record.path);
    out->member = out->record.member ? stk_manifest_text(manifest, out->record.member) : NULL;
    out->codec = out->record.codec ? stk_manifest_text(manifest, out->record.codec) : NULL;
    out->error = out->record.error ? stk_manifest_text(manifest, out->record.error) : NULL;
    out->table = stk_manifest_table(manifest, &out->record);
}

void stoker_manifest_get_facts(const stoker_manifest *manifest, stoker_manifest_facts *out_facts)
{
    *out_facts = (stoker_manifest_facts){
        .entries = manifest->header.entry_count,
        .bad = manifest->header.bad_count,
        .bytes = manifest->bytes,
        .packet_bytes = manifest->header.tables_size,
        .text_bytes = manifest->header.text_size,
        .id = manifest->header.id,
    };
}

static stoker_status check_index(const stoker_manifest *manifest, uint64_t index, stoker_error *err)
{
    if (!manifest) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "manifest must be given");
    if (index < manifest->header.entry_count) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "entry %llu is asked for, the manifest has %llu",
                    (unsigned long long)index, (unsigned long long)manifest->header.entry_count);
}

stoker_status stoker_manifest_get_entry(const stoker_manifest *manifest, uint64_t index,
                                        stoker_manifest_entry *out_entry, stoker_error *err)
{
    struct stk_manifest_value value;
    STK_TRY(check_index(manifest, index, err));
    if (!out_entry) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "out_entry must be given");
    stk_manifest_value_at(manifest, index, &value);
    const struct stk_manifest_record *record = &value.record;
    *out_entry = (stoker_manifest_entry){
        .status = (stoker_status)record->status,
        .error = value.error,
        .path = value.path,
        .member = value.member,
        .bytes = record->bytes,
        .mtime_ns = record->mtime_ns,
        .offset = record->offset,
        .codec = value.codec,
        .width = record->width,
        .height = record->height,
        .rotation = record->rotation,
        .frames = record->frames,
        .frames_exact =
            record->frames_exact == STK_MANIFEST_UNKNOWN ? STOKER_FRAMES_UNKNOWN : (int64_t)record->frames_exact,
        .duration_s = record->duration_s,
        .frame_rate = record->frame_rate,
        .time_base = record->time_base,
        .packets = record->packets,
        .key_packets = record->key_packets,
        .packet_bytes = record->packet_bytes,
    };
    return STOKER_OK;
}

stoker_status stoker_manifest_get_path(const stoker_manifest *manifest, uint64_t index, char *out, size_t size,
                                       stoker_error *err)
{
    struct stk_manifest_record record;
    STK_TRY(check_index(manifest, index, err));
    stk_manifest_record_at(manifest, index, &record);
    const char *path = stk_manifest_text(manifest, record.path);
    const char *folder = path[0] == '/' || stk_url_is_object(path) ? "" : manifest->folder;
    size_t folder_size = strlen(folder), path_size = strlen(path);
    if (!out || folder_size + path_size >= size)
        return stk_fail(err, STOKER_ERR_LIMIT, "a path of %zu bytes does not fit into %zu", folder_size + path_size + 1,
                        size);
    memcpy(out, folder, folder_size);
    memcpy(out + folder_size, path, path_size + 1);
    return STOKER_OK;
}

static stoker_status get_table(const stoker_manifest *manifest, const struct stk_manifest_record *record,
                               uint64_t index, struct stk_packet *out, stoker_error *err)
{
    const uint8_t *table = stk_manifest_table(manifest, record);
    if (stk_manifest_table_sum(table, record->table_size) == record->table_sum &&
        stk_manifest_get_table(table, record->table_size, out, record->packets))
        return STOKER_OK;
    return stk_fail(err, STOKER_ERR_CORRUPT, "manifest: the packets of entry %llu at offset %llu are damaged",
                    (unsigned long long)index, (unsigned long long)(manifest->header.tables_at + record->table_at));
}

stoker_status stoker_manifest_get_packets(const stoker_manifest *manifest, uint64_t index, stoker_packet *out,
                                          stoker_error *err)
{
    struct stk_manifest_record record;
    STK_TRY(check_index(manifest, index, err));
    stk_manifest_record_at(manifest, index, &record);
    if (record.packets == 0) return STOKER_OK;
    if (!out) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "out must be given");
    struct stk_packet *packets = calloc(record.packets, sizeof *packets);
    if (!packets) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %u packets", record.packets);
    stoker_status status = get_table(manifest, &record, index, packets, err);
    for (uint32_t i = 0; status >= 0 && i < record.packets; i++)
        out[i] = (stoker_packet){packets[i].pts, packets[i].dts, packets[i].size, packets[i].flags};
    free(packets);
    return status;
}

stoker_status stk_manifest_scan(const stoker_manifest *manifest, uint64_t index, struct stk_scan *out_scan,
                                stoker_error *err)
{
    struct stk_manifest_value value;
    stk_manifest_value_at(manifest, index, &value);
    const struct stk_manifest_record *record = &value.record;
    if (record->status != 0) return stk_fail(err, (stoker_status)record->status, "%s", value.error);
    struct stk_scan scan = {.count = record->packets,
                            .frames = record->frames,
                            .duration_s = record->duration_s,
                            .last_duration = record->last_duration,
                            .broken = (record->flags & STK_MANIFEST_BROKEN) != 0};
    bool turned = record->rotation == 90 || record->rotation == 270;
    const char *codec = value.codec ? value.codec : ""; /* one that can be used has one: it was checked */
    memcpy(scan.facts.codec, codec, strnlen(codec, sizeof scan.facts.codec - 1));
    scan.facts.width = turned ? record->height : record->width;
    scan.facts.height = turned ? record->width : record->height;
    scan.facts.rotation = record->rotation;
    scan.facts.time_base = record->time_base;
    scan.facts.frame_rate = record->frame_rate;
    scan.packets = calloc((size_t)record->packets + 1, sizeof *scan.packets);
    if (!scan.packets) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %u packets", record->packets);
    stoker_status status = get_table(manifest, record, index, scan.packets, err);
    if (status < 0) {
        stk_scan_fini(&scan);
        return status;
    }
    *out_scan = scan;
    return STOKER_OK;
}

stoker_status stk_manifest_open_entry(const stoker_manifest *manifest, uint64_t index,
                                      const stoker_object_options *object, struct stk_file *out_file, stoker_error *err)
{
    struct stk_manifest_record record;
    struct stk_file file;
    char path[STK_MANIFEST_PATH_BYTES_MAX + 1];
    STK_TRY(stoker_manifest_get_path(manifest, index, path, sizeof path, err));
    stk_manifest_record_at(manifest, index, &record);
    if (stk_url_is_object(path))
        STK_TRY(stk_file_open_object(path, object, &file, err));
    else
        STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = STOKER_OK;
    if (!record.member && record.bytes != file.size)
        status = stk_fail(err, STOKER_ERR_MISMATCH, "the file has %llu bytes, its entry says %llu",
                          (unsigned long long)file.size, (unsigned long long)record.bytes);
    else if (record.mtime_ns != file.mtime_ns)
        status = stk_fail(err, STOKER_ERR_MISMATCH, "the file was changed at %lld ns, its entry says %lld ns",
                          (long long)file.mtime_ns, (long long)record.mtime_ns);
    if (status >= 0 && record.member) {
        struct stk_tar_member member = {record.offset, record.bytes, stk_manifest_text(manifest, record.member), 0};
        member.name_size = strlen(member.name);
        status = stk_tar_expect(&file, &member, err);
        if (status >= 0) status = stk_file_narrow(&file, record.offset, record.bytes, err);
    }
    if (status < 0) {
        stk_file_close(&file);
        return status;
    }
    *out_file = file;
    return STOKER_OK;
}
