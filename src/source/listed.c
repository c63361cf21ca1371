/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files from a manifest: see listed.h.
 */
#include "source/listed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/manifest.h"
#include "source/blob.h"
#include "source/remote.h"
#include "store/range.h"
#include "store/tar.h"
#include "sys/shmem.h"

#define MAGIC 0x524b5453u /* "STKR" in a dump */
enum { HEAD_BYTES = 16, PLACE_BYTES = 16, ENTRY_BYTES = 24, PATH_BYTES_MAX = 4095 };

bool stk_listed_is_manifest(const char *path)
{
    struct stk_file file;
    uint8_t magic[4] = {0};
    size_t got = 0;
    if (!path || stk_file_open(path, &file, NULL) < 0) return false;
    bool read = stk_file_read(&file, 0, magic, sizeof magic, &got, NULL) >= 0 && got == sizeof magic;
    stk_file_close(&file);
    return read && stk_manifest_get32(magic) == STK_MANIFEST_MAGIC;
}

/* ------------------------------------------------------------------------------------------------------------ check */

static uint32_t shard_path_size(const struct stk_files *files, uint64_t id)
{
    return stk_blob_get32(files->places + id * PLACE_BYTES + 12);
}

bool stk_listed_is_member(const struct stk_files *files, uint64_t id) { return shard_path_size(files, id) > 0; }

static stoker_status check_places(const struct stk_files *files, stoker_error *err)
{
    for (uint64_t i = 0; i < files->count; i++) {
        stoker_descriptor file = {0};
        stk_files_describe(files, i, &file);
        uint32_t size = shard_path_size(files, i);
        uint64_t offset = stk_blob_get64(files->places + i * PLACE_BYTES);
        if (size == 0 ? offset != 0 : size >= strlen(file.path) || strncmp(file.path + size, "::", 2) != 0)
            return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: file %llu is no member of a shard of %u bytes",
                            (unsigned long long)i, size);
        if (file.bytes > INT64_MAX || offset > INT64_MAX - file.bytes)
            return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: file %llu lies at offset %llu, past any shard",
                            (unsigned long long)i, (unsigned long long)offset);
    }
    return STOKER_OK;
}

stoker_status stk_listed_check(struct stk_files *files, const uint8_t *part, size_t size, stoker_error *err)
{
    size_t places = (size_t)files->count * PLACE_BYTES; /* no overflow: each file has 24 bytes of the blob */
    if (size < HEAD_BYTES || stk_blob_get32(part) != MAGIC)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes behind the paths are of no manifest", size);
    size_t path_size = stk_blob_get32(part + 4);
    if (path_size < 1 || path_size > PATH_BYTES_MAX + 1 || size - HEAD_BYTES != places + path_size ||
        memchr(part + HEAD_BYTES + places, 0, path_size) != part + size - 1)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "source blob: the places of %llu files and a path of %zu bytes do not fill %zu bytes",
                        (unsigned long long)files->count, path_size, size);
    files->places = part + HEAD_BYTES;
    files->manifest = path_size > 1 ? (const char *)part + HEAD_BYTES + places : NULL;
    files->manifest_id = stk_blob_get64(part + 8);
    return check_places(files, err);
}

/* ----------------------------------------------------------------------------------------------------------- create */

/* One entry as the blob has it. False: its file cannot be used. */
struct line {
    char text[PATH_BYTES_MAX + 1];
    size_t size;       /* with the end */
    size_t shard_size; /* 0: no member */
    struct stk_manifest_record record;
};

static stoker_status make_line(const stoker_manifest *manifest, uint64_t index, struct line *out, stoker_error *err)
{
    struct stk_manifest_value value;
    stk_manifest_value_at(manifest, index, &value);
    out->record = value.record;
    if (value.record.status != 0) return STOKER_END;
    STK_TRY(stoker_manifest_get_path(manifest, index, out->text, sizeof out->text, err));
    if (stk_url_is_object(out->text))
        return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                        "entry %llu is an object in storage, which workers do not read: '%s'",
                        (unsigned long long)index, out->text);
    size_t used = strlen(out->text), member = value.member ? strlen(value.member) + 2 : 0;
    if (used + member > PATH_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "entry %llu has a path of %zu bytes, expected at most %d",
                        (unsigned long long)index, used + member, PATH_BYTES_MAX);
    if (value.member) (void)snprintf(out->text + used, sizeof out->text - used, "::%s", value.member);
    out->shard_size = value.member ? used : 0;
    out->size = used + member + 1;
    return STOKER_OK;
}

/* How many files there are, and the bytes of their paths. */
static stoker_status measure(const stoker_manifest *manifest, struct line *line, size_t *out_count, size_t *out_text,
                             stoker_error *err)
{
    size_t count = 0, text = 0;
    if (manifest->header.entry_count > UINT32_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%llu entries, a source has at most %u",
                        (unsigned long long)manifest->header.entry_count, UINT32_MAX);
    for (uint64_t i = 0; i < manifest->header.entry_count; i++) {
        stoker_status status = make_line(manifest, i, line, err);
        STK_TRY(status);
        if (status == STOKER_END) continue;
        count++, text += line->size;
    }
    *out_count = count;
    *out_text = text;
    return STOKER_OK;
}

static void put_lines(const stoker_manifest *manifest, struct line *line, uint8_t *entries, char *text, uint8_t *places)
{
    size_t offset = 0;
    for (uint64_t i = 0; i < manifest->header.entry_count; i++) {
        if (make_line(manifest, i, line, NULL) != STOKER_OK) continue; /* it was measured: it cannot fail */
        memcpy(text + offset, line->text, line->size);
        stk_blob_put64(entries, offset);
        stk_blob_put64(entries + 8, line->record.bytes);
        stk_blob_put64(entries + 16, (uint64_t)line->record.mtime_ns);
        stk_blob_put64(places, line->record.offset);
        stk_blob_put32(places + 8, (uint32_t)i);
        stk_blob_put32(places + 12, (uint32_t)line->shard_size);
        offset += line->size;
        entries += ENTRY_BYTES;
        places += PLACE_BYTES;
    }
}

static stoker_status make_blob(const struct stk_files_kind *kind, const uint8_t *form, const stoker_manifest *manifest,
                               struct line *line, int *out_fd, stoker_error *err)
{
    size_t count = 0, text = 0, path_size = strlen(manifest->path) + 1;
    STK_TRY(measure(manifest, line, &count, &text, err));
    const size_t counts_at = STK_FILES_FORM_AT + kind->form_bytes, entries_at = counts_at + 16;
    const size_t text_at = entries_at + count * ENTRY_BYTES, part_at = text_at + text;
    const size_t size = part_at + HEAD_BYTES + count * PLACE_BYTES + path_size;
    uint8_t *blob = calloc(1, size);
    if (!blob) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu files (%zu bytes)", count, size);
    stk_source_put_header(blob, kind->magic, kind->version, size);
    memcpy(blob + STK_FILES_FORM_AT, form, kind->form_bytes);
    stk_blob_put64(blob + counts_at, count);
    stk_blob_put64(blob + counts_at + 8, text);
    stk_blob_put32(blob + part_at, MAGIC);
    stk_blob_put32(blob + part_at + 4, (uint32_t)path_size);
    stk_blob_put64(blob + part_at + 8, manifest->header.id);
    put_lines(manifest, line, blob + entries_at, (char *)blob + text_at, blob + part_at + HEAD_BYTES);
    memcpy(blob + size - path_size, manifest->path, path_size);
    stoker_status status = stk_shmem_blob_create(blob, size, out_fd, err);
    free(blob);
    return status;
}

stoker_status stk_listed_create(const struct stk_files_kind *kind, const uint8_t *form, const char *path, int *out_fd,
                                stoker_error *err)
{
    stoker_manifest *manifest = NULL;
    struct line *line = malloc(sizeof *line);
    if (!line) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    stoker_status status = stoker_manifest_open(path, &manifest, err);
    if (status >= 0) {
        status = make_blob(kind, form, manifest, line, out_fd, err);
        if (status < 0) stk_error_context(err, "%s", path);
    }
    stoker_manifest_close(manifest);
    free(line);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ parts */

stoker_status stk_listed_check_parts(const stoker_path_list *list, stoker_error *err)
{
    for (size_t i = 0; list->parts && i < list->count; i++) {
        const stoker_path_part *part = &list->parts[i];
        const size_t shard = part->shard_bytes, length = strlen(list->paths[i]);
        if (part->reserved != 0 || (shard == 0 && (part->offset | part->bytes | (uint64_t)part->mtime_ns) != 0))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "part %zu is of no shard, but not all zero", i);
        if (shard > 0 && (shard >= length || strncmp(list->paths[i] + shard, "::", 2) != 0))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "path %zu has no '::' behind a shard of %zu bytes: '%.200s'", i, shard, list->paths[i]);
        if (part->bytes > INT64_MAX || part->offset > INT64_MAX - part->bytes)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "part %zu lies at offset %llu, past any shard", i,
                            (unsigned long long)part->offset);
    }
    return STOKER_OK;
}

size_t stk_listed_parts_size(const stoker_path_list *list)
{
    return list->parts ? HEAD_BYTES + list->count * PLACE_BYTES + 1 : 0; /* the entries of the list are larger */
}

void stk_listed_put_parts(uint8_t *part, const stoker_path_list *list, const char *folder)
{
    if (!list->parts) return;
    memset(part, 0, stk_listed_parts_size(list));
    stk_blob_put32(part, MAGIC);
    stk_blob_put32(part + 4, 1); /* no manifest: an empty path */
    uint8_t *place = part + HEAD_BYTES;
    for (size_t i = 0; i < list->count; i++, place += PLACE_BYTES) {
        if (list->parts[i].shard_bytes == 0) continue;
        const size_t before = stk_files_is_absolute(list->paths[i]) ? 0 : strlen(folder) + 1;
        stk_blob_put64(place, list->parts[i].offset);
        stk_blob_put32(place + 12, (uint32_t)(list->parts[i].shard_bytes + before));
    }
}

/* -------------------------------------------------------------------------------------------------------------- use */

/* Parts of other files have no headers. */
static bool is_tar(const char *path)
{
    size_t size = strlen(path);
    return size > 4 && strcmp(path + size - 4, ".tar") == 0;
}

stoker_status stk_listed_open_member(const struct stk_files *files, const stoker_descriptor *sample,
                                     struct stk_file *out_file, stoker_error *err)
{
    struct stk_file file;
    char path[PATH_BYTES_MAX + 1];
    (void)snprintf(path, sizeof path, "%.*s", (int)shard_path_size(files, sample->id), sample->path);
    if (stk_url_is_object(path))
        STK_TRY(stk_remote_open(files, path, &file, err));
    else
        STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = STOKER_OK;
    if (file.mtime_ns != sample->mtime_ns)
        status =
            stk_fail(err, STOKER_ERR_MISMATCH, "the shard was changed at %lld ns, it was of %lld ns when it was listed",
                     (long long)file.mtime_ns, (long long)sample->mtime_ns);
    struct stk_tar_member member = {.offset = stk_blob_get64(files->places + sample->id * PLACE_BYTES),
                                    .size = sample->bytes,
                                    .name = sample->path + strlen(path) + 2}; /* behind "::" */
    member.name_size = strlen(member.name);
    if (status >= 0 && is_tar(path)) status = stk_tar_expect(&file, &member, err);
    if (status >= 0) status = stk_file_narrow(&file, member.offset, sample->bytes, err);
    if (status < 0) {
        stk_file_close(&file);
        return status;
    }
    *out_file = file;
    return STOKER_OK;
}

stoker_manifest *stk_listed_open_manifest(const struct stk_files *files)
{
    stoker_manifest *manifest = NULL;
    if (!files->manifest || stk_manifest_open_id(files->manifest, files->manifest_id, &manifest, NULL) < 0) return NULL;
    return manifest;
}

bool stk_listed_scan(const struct stk_files *files, const stoker_manifest *manifest, uint64_t id,
                     struct stk_scan *out_scan, uint64_t *known_frames)
{
    if (!manifest) return false;
    uint32_t index = stk_blob_get32(files->places + id * PLACE_BYTES + 8);
    if (index >= manifest->header.entry_count || stk_manifest_scan(manifest, index, out_scan, NULL) < 0) return false;
    struct stk_manifest_record record;
    stk_manifest_record_at(manifest, index, &record);
    if (*known_frames == 0 && record.frames_exact != STK_MANIFEST_UNKNOWN && record.frames_exact < record.frames)
        *known_frames = record.frames_exact;
    return true;
}
