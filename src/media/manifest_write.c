/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a manifest: two passes over the values, the first to know how large the sections are, the second to fill all
 * three at once. Memory does not grow with the number of entries.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/manifest.h"
#include "sys/publish.h"

#define BUFFER_BYTES ((size_t)256 << 10)
/* Codecs whose names are kept once; files have a handful of them. */
enum { NAMES_MAX = 64 };

/* A section that is written from its start to its end. */
struct section {
    struct stk_publish *publish;
    uint64_t at;   /* in the file: of the next byte that goes out of the buffer */
    uint64_t size; /* taken so far */
    uint64_t sum;
    uint8_t *buffer;
    size_t used;
};

/* Texts that were given a place. The last path is kept because members of one shard follow each other. */
struct texts {
    struct {
        char text[STOKER_CODEC_NAME_BYTES];
        uint64_t offset;
    } names[NAMES_MAX];
    size_t name_count;
    char path[STK_MANIFEST_PATH_BYTES_MAX + 1];
    uint64_t path_offset, size;
};

struct writer {
    struct stk_publish publish;
    bool counting; /* the first pass: nothing goes out */
    struct section entries, text, tables;
    struct texts texts;
    uint64_t bad;
};

static stoker_status flush(struct section *section, stoker_error *err)
{
    if (section->used == 0) return STOKER_OK;
    STK_TRY(stk_publish_write(section->publish, section->at, section->buffer, section->used, err));
    section->at += section->used;
    section->used = 0;
    return STOKER_OK;
}

static stoker_status append(struct section *section, const uint8_t *data, size_t size, stoker_error *err)
{
    section->sum = stk_manifest_sum(section->sum, data, size);
    section->size += size;
    while (size > 0) {
        size_t room = BUFFER_BYTES - section->used, part = size < room ? size : room;
        memcpy(section->buffer + section->used, data, part);
        section->used += part;
        data += part, size -= part;
        if (section->used == BUFFER_BYTES) STK_TRY(flush(section, err));
    }
    return STOKER_OK;
}

static stoker_status place_text(struct writer *writer, const char *text, uint64_t *out_offset, stoker_error *err)
{
    size_t size = strlen(text) + 1;
    *out_offset = writer->texts.size;
    writer->texts.size += size;
    return writer->counting ? STOKER_OK : append(&writer->text, (const uint8_t *)text, size, err);
}

static stoker_status place_path(struct writer *writer, const char *path, uint64_t *out_offset, stoker_error *err)
{
    struct texts *texts = &writer->texts;
    if (!path[0] || strcmp(texts->path, path) != 0) {
        size_t size = strlen(path);
        if (size == 0 || size > STK_MANIFEST_PATH_BYTES_MAX)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a path of %zu bytes, expected 1 to %u: '%.80s'", size,
                            STK_MANIFEST_PATH_BYTES_MAX, path);
        memcpy(texts->path, path, size + 1);
        STK_TRY(place_text(writer, path, &texts->path_offset, err));
    }
    *out_offset = texts->path_offset;
    return STOKER_OK;
}

static stoker_status place_codec(struct writer *writer, const char *name, uint64_t *out_offset, stoker_error *err)
{
    struct texts *texts = &writer->texts;
    for (size_t i = 0; i < texts->name_count; i++)
        if (strcmp(texts->names[i].text, name) == 0) {
            *out_offset = texts->names[i].offset;
            return STOKER_OK;
        }
    STK_TRY(place_text(writer, name, out_offset, err));
    size_t size = strlen(name) + 1;
    if (texts->name_count == NAMES_MAX || size > sizeof texts->names[0].text) return STOKER_OK;
    memcpy(texts->names[texts->name_count].text, name, size);
    texts->names[texts->name_count++].offset = *out_offset;
    return STOKER_OK;
}

static stoker_status add_value(struct writer *writer, const struct stk_manifest_value *value, stoker_error *err)
{
    struct stk_manifest_record record = value->record;
    uint8_t bytes[STK_MANIFEST_ENTRY_BYTES];
    record.member = record.codec = record.error = 0;
    STK_TRY(place_path(writer, value->path, &record.path, err));
    if (value->member) STK_TRY(place_text(writer, value->member, &record.member, err));
    if (value->codec) STK_TRY(place_codec(writer, value->codec, &record.codec, err));
    if (value->error) STK_TRY(place_text(writer, value->error, &record.error, err));
    record.table_at = writer->tables.size;
    writer->bad += record.status != 0;
    if (writer->counting) {
        writer->entries.size += sizeof bytes;
        writer->tables.size += record.table_size;
        return STOKER_OK;
    }
    stk_manifest_put_record(bytes, &record);
    STK_TRY(append(&writer->entries, bytes, sizeof bytes, err));
    return append(&writer->tables, value->table, record.table_size, err);
}

static stoker_status run_pass(struct writer *writer, uint64_t count, stk_manifest_value_fn value_fn, void *user,
                              stoker_error *err)
{
    uint64_t nothing;
    memset(&writer->texts, 0, sizeof writer->texts);
    writer->bad = 0;
    STK_TRY(place_text(writer, "", &nothing, err));
    for (uint64_t i = 0; i < count; i++) {
        struct stk_manifest_value value;
        STK_TRY(value_fn(user, i, &value, err));
        STK_TRY(add_value(writer, &value, err));
    }
    return STOKER_OK;
}

static stoker_status fill(struct writer *writer, uint64_t count, stk_manifest_value_fn value_fn, void *user,
                          stoker_error *err)
{
    struct stk_manifest_header header = {.entry_count = count};
    uint8_t bytes[STK_MANIFEST_HEADER_BYTES];
    writer->counting = true;
    STK_TRY(run_pass(writer, count, value_fn, user, err));
    header.text_size = writer->texts.size;
    header.tables_size = writer->tables.size;
    header.entries_at = STK_MANIFEST_HEADER_BYTES;
    header.text_at = header.entries_at + writer->entries.size;
    header.tables_at = header.text_at + header.text_size;
    header.size = header.tables_at + header.tables_size;

    writer->counting = false;
    struct section *const sections[] = {&writer->entries, &writer->text, &writer->tables};
    const uint64_t places[] = {header.entries_at, header.text_at, header.tables_at};
    for (int i = 0; i < 3; i++) {
        sections[i]->publish = &writer->publish;
        sections[i]->at = places[i];
        sections[i]->size = 0;
        sections[i]->sum = STK_MANIFEST_SUM_INIT;
    }
    STK_TRY(run_pass(writer, count, value_fn, user, err));
    for (int i = 0; i < 3; i++) STK_TRY(flush(sections[i], err));
    STK_ASSERT(writer->text.size == header.text_size);
    STK_ASSERT(writer->tables.size == header.tables_size);
    header.entries_sum = writer->entries.sum;
    header.text_sum = writer->text.sum;
    header.tables_sum = writer->tables.sum;
    header.bad_count = writer->bad;
    stk_manifest_put_header(bytes, &header);
    return stk_publish_write(&writer->publish, 0, bytes, sizeof bytes, err);
}

stoker_status stk_manifest_write(const char *path, uint64_t count, stk_manifest_value_fn value_fn, void *user,
                                 stoker_error *err)
{
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to write a manifest");
    writer->publish.fd = -1;
    writer->entries.buffer = malloc(BUFFER_BYTES);
    writer->text.buffer = malloc(BUFFER_BYTES);
    writer->tables.buffer = malloc(BUFFER_BYTES);
    stoker_status status = writer->entries.buffer && writer->text.buffer && writer->tables.buffer
                               ? stk_publish_begin(path, &writer->publish, err)
                               : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to write a manifest");
    if (status >= 0) status = fill(writer, count, value_fn, user, err);
    if (status >= 0) status = stk_publish_commit(&writer->publish, err);
    stk_publish_abort(&writer->publish);
    free(writer->entries.buffer);
    free(writer->text.buffer);
    free(writer->tables.buffer);
    free(writer);
    return status;
}
