/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files as blobs: see files.h.
 */
#include "source/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "source/blob.h"
#include "source/listed.h"
#include "source/remote.h"
#include "store/range.h"
#include "sys/shmem.h"

#define COUNTS_BYTES 16u /* of files, and of the text */
#define ENTRY_BYTES 24u
#define PATH_BYTES_MAX 4095u

/* --------------------------------------------------------------------------------------------------------------- check
 */

static size_t count_at(const struct stk_files_kind *kind) { return STK_FILES_FORM_AT + kind->form_bytes; }

static stoker_status check_entries(const uint8_t *blob, size_t entries_at, uint64_t count, uint64_t text_size,
                                   stoker_error *err)
{
    const uint8_t *text = blob + entries_at + (size_t)count * ENTRY_BYTES;
    uint64_t expected = 0; /* paths follow each other without gaps, so that equal lists have equal blobs */
    for (uint64_t i = 0; i < count; i++) {
        size_t at = entries_at + (size_t)i * ENTRY_BYTES;
        uint64_t offset = stk_blob_get64(blob + at);
        if (offset != expected || offset >= text_size)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "source blob: path offset at %zu is %llu, expected %llu below %llu", at,
                            (unsigned long long)offset, (unsigned long long)expected, (unsigned long long)text_size);
        const uint8_t *end = memchr(text + offset, 0, (size_t)(text_size - offset));
        size_t length = end ? (size_t)(end - (text + offset)) : 0;
        if (!end || length == 0 || length > PATH_BYTES_MAX)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "source blob: path %llu at text offset %llu has no end within %u bytes",
                            (unsigned long long)i, (unsigned long long)offset, PATH_BYTES_MAX);
        expected = offset + length + 1;
    }
    if (expected != text_size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: the paths end at %llu, the text at %llu",
                        (unsigned long long)expected, (unsigned long long)text_size);
    return STOKER_OK;
}

stoker_status stk_files_check(const struct stk_files_kind *kind, const uint8_t *blob, size_t size,
                              struct stk_files *out_files, stoker_error *err)
{
    STK_TRY(stk_source_check_header(blob, size, kind->magic, kind->version, err));
    const size_t counts = count_at(kind), entries_at = counts + COUNTS_BYTES;
    if (size < entries_at)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes, expected at least %zu", size, entries_at);
    uint64_t count = stk_blob_get64(blob + counts), text_size = stk_blob_get64(blob + counts + 8);
    size_t table, needed;
    if (!stk_mul_size((size_t)count, ENTRY_BYTES, &table) || !stk_add_size(table, entries_at, &needed) ||
        !stk_add_size(needed, (size_t)text_size, &needed) || needed > size)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "source blob: %llu files at offset %zu and %llu bytes of paths do not fill %zu bytes",
                        (unsigned long long)count, counts, (unsigned long long)text_size, size);
    STK_TRY(check_entries(blob, entries_at, count, text_size, err));
    *out_files = (struct stk_files){
        .blob = blob, .count = count, .entries = blob + entries_at, .text = (const char *)blob + entries_at + table};
    out_files->object = (stoker_object_options)STOKER_OBJECT_OPTIONS_INIT;
    for (uint64_t i = 0; i < count && !out_files->remote; i++)
        out_files->remote = stk_url_is_object(out_files->text + stk_blob_get64(out_files->entries + i * ENTRY_BYTES));
    STK_TRY(stk_remote_check(out_files, blob + needed, size - needed, &table, err));
    needed += table;
    return needed == size ? STOKER_OK : stk_listed_check(out_files, blob + needed, size - needed, err);
}

stoker_status stk_files_bad_form(stoker_error *err)
{
    if (err) err->status = STOKER_ERR_CORRUPT;
    stk_error_context(err, "source blob: form at offset %u", STK_FILES_FORM_AT);
    return STOKER_ERR_CORRUPT;
}

/* -------------------------------------------------------------------------------------------------------------- create
 */

bool stk_files_is_absolute(const char *path) { return path[0] == '/' || stk_url_is_object(path); }

/* Workers run elsewhere: relative paths are made absolute here. */
static stoker_status get_folder(const stoker_path_list *list, char *folder, size_t size, stoker_error *err)
{
    size_t i = 0;
    folder[0] = 0;
    while (i < list->count && (!list->paths[i] || stk_files_is_absolute(list->paths[i]))) i++;
    if (i == list->count || getcwd(folder, size)) return STOKER_OK;
    return stk_fail_os(err, STOKER_ERR_IO, errno, "path %zu is relative ('%.200s'), and the working directory is gone",
                       i, list->paths[i]);
}

static stoker_status measure_paths(const stoker_path_list *list, const char *folder, size_t *out_text_size,
                                   stoker_error *err)
{
    size_t total = 0, folder_size = strlen(folder);
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->paths[i];
        if (!path || !path[0]) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path %zu is empty", i);
        size_t length = strlen(path) + (stk_files_is_absolute(path) ? 0 : folder_size + 1);
        if (length > PATH_BYTES_MAX)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path %zu has %zu bytes, expected at most %u: '%.80s...'",
                            i, length, PATH_BYTES_MAX, path);
        if (!stk_add_size(total, length + 1, &total))
            return stk_fail(err, STOKER_ERR_LIMIT, "the list of paths is too large");
    }
    *out_text_size = total;
    return STOKER_OK;
}

static size_t put_path(char *at, const char *path, const char *folder)
{
    size_t used = 0;
    if (!stk_files_is_absolute(path)) {
        size_t folder_size = strlen(folder);
        memcpy(at, folder, folder_size);
        used = folder_size;
        at[used++] = '/';
    }
    size_t length = strlen(path);
    memcpy(at + used, path, length + 1);
    return used + length + 1;
}

static void put_entries(uint8_t *entries, const stoker_path_list *list, const char *folder)
{
    char *text = (char *)entries + list->count * ENTRY_BYTES;
    size_t offset = 0;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t size = 0;
        int64_t mtime_ns = 0;
        size_t length = put_path(text + offset, list->paths[i], folder);
        if (list->parts && list->parts[i].shard_bytes > 0)
            size = list->parts[i].bytes, mtime_ns = list->parts[i].mtime_ns;
        else if (stk_url_is_object(list->paths[i]) || !stk_file_facts(text + offset, &size, &mtime_ns))
            size = 0, mtime_ns = 0;
        uint8_t *entry = entries + i * ENTRY_BYTES;
        stk_blob_put64(entry, offset);
        stk_blob_put64(entry + 8, size);
        stk_blob_put64(entry + 16, (uint64_t)mtime_ns);
        offset += length;
    }
}

stoker_status stk_files_create(const struct stk_files_kind *kind, const uint8_t *form, const stoker_path_list *list,
                               int *out_fd, stoker_error *err)
{
    char folder[PATH_BYTES_MAX + 1];
    const size_t counts = count_at(kind), entries_at = counts + COUNTS_BYTES;
    size_t text_size = 0, table = 0, size = 0;
    STK_TRY(get_folder(list, folder, sizeof folder, err));
    STK_TRY(measure_paths(list, folder, &text_size, err));
    STK_TRY(stk_listed_check_parts(list, err));
    if (!stk_mul_size(list->count, ENTRY_BYTES, &table) || !stk_add_size(table, text_size + entries_at, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a list of %zu paths is too large", list->count);
    const size_t parts_at = size;
    const size_t remote_size = stk_remote_size(list);
    if (!stk_add_size(size, remote_size + stk_listed_parts_size(list), &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a list of %zu paths is too large", list->count);
    uint8_t *blob = malloc(size);
    if (!blob)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu paths (%zu bytes)", list->count, size);
    stk_source_put_header(blob, kind->magic, kind->version, size);
    memcpy(blob + STK_FILES_FORM_AT, form, kind->form_bytes);
    stk_blob_put64(blob + counts, list->count);
    stk_blob_put64(blob + counts + 8, text_size);
    put_entries(blob + entries_at, list, folder);
    stk_remote_put(blob + parts_at, list);
    stk_listed_put_parts(blob + parts_at + remote_size, list, folder);
    stoker_status status = stk_shmem_blob_create(blob, size, out_fd, err);
    free(blob);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------------- use
 */

void stk_files_describe(const struct stk_files *files, uint64_t id, stoker_descriptor *descriptor)
{
    STK_ASSERT(id < files->count);
    const uint8_t *entry = files->entries + id * ENTRY_BYTES;
    descriptor->id = id;
    descriptor->path = files->text + stk_blob_get64(entry);
    descriptor->bytes = stk_blob_get64(entry + 8);
    descriptor->mtime_ns = (int64_t)stk_blob_get64(entry + 16);
}

stoker_status stk_files_open(const struct stk_files *files, const stoker_descriptor *sample, struct stk_file *out_file,
                             stoker_error *err)
{
    struct stk_file file;
    if (files->places && stk_listed_is_member(files, sample->id))
        return stk_listed_open_member(files, sample, out_file, err);
    if (files->remote && stk_url_is_object(sample->path)) return stk_remote_open(files, sample->path, out_file, err);
    STK_TRY(stk_file_open(sample->path, &file, err));
    stoker_status status = stk_files_check_facts(sample, &file, err);
    if (status < 0) {
        stk_file_close(&file);
        return status;
    }
    *out_file = file;
    return STOKER_OK;
}

stoker_status stk_files_check_facts(const stoker_descriptor *sample, const struct stk_file *file, stoker_error *err)
{
    if (sample->bytes == 0 && sample->mtime_ns == 0) return STOKER_OK; /* no file when the source was made, one now */
    if (sample->bytes != file->size)
        return stk_fail(err, STOKER_ERR_MISMATCH, "the file has %llu bytes, it had %llu when the source was made",
                        (unsigned long long)file->size, (unsigned long long)sample->bytes);
    if (sample->mtime_ns != file->mtime_ns)
        return stk_fail(err, STOKER_ERR_MISMATCH,
                        "the file was changed at %lld ns, it was of %lld ns when the source was made",
                        (long long)file->mtime_ns, (long long)sample->mtime_ns);
    return STOKER_OK;
}
