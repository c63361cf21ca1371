/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar shards of the public API: an archive, its members, and the file that keeps them.
 *
 * An index file is a help, never a source of faults: one that is damaged, of another version, or of another state of
 * the archive is passed over, and the archive is walked. One that cannot be written leaves the shard as good as it is.
 */
#include <stoker/shard.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/range.h"
#include "store/tar_index.h"
#include "sys/publish.h"

static const char extension[] = ".stkx";

struct stoker_shard {
    struct stk_file file;
    struct stk_tar_index *index;
    char *location;
    uint32_t from_index, written;
};

static stoker_status check_options(const stoker_shard_options *options, stoker_error *err)
{
    const uint8_t *bytes = (const uint8_t *)options;
    if (options->struct_size < sizeof *options)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "options of %u bytes, expected %zu", options->struct_size,
                        sizeof *options);
    for (size_t i = sizeof *options; i < options->struct_size; i++)
        if (bytes[i]) return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the options are of a newer version");
    if ((unsigned)options->duplicates > STOKER_SHARD_DUPLICATES_LAST ||
        (unsigned)options->index > STOKER_SHARD_INDEX_NONE)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "duplicates %u or index %u is not known",
                        (unsigned)options->duplicates, (unsigned)options->index);
    return STOKER_OK;
}

/* Path of the index file on the heap; NULL in *out_path: there is none. */
static stoker_status index_path(const char *location, const stoker_shard_options *options, char **out_path,
                                stoker_error *err)
{
    *out_path = NULL;
    if (options->index == STOKER_SHARD_INDEX_NONE) return STOKER_OK;
    if (!options->index_path && stk_url_is_object(location)) return STOKER_OK;
    const char *stem = options->index_path ? options->index_path : location;
    size_t size = strlen(stem) + sizeof extension;
    char *path = malloc(size);
    if (!path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    (void)snprintf(path, size, "%s%s", stem, options->index_path ? "" : extension);
    *out_path = path;
    return STOKER_OK;
}

/* The index of this state of the archive, if the file has it. */
static bool load_index(const char *path, const struct stk_file *file, bool last, struct stk_tar_index **out_index)
{
    struct stk_file kept;
    struct stk_tar_index *index = NULL;
    size_t got = 0;
    if (stk_file_open(path, &kept, NULL) < 0) return false;
    uint8_t *data = kept.size < STK_SHARD_INDEX_BYTES_MAX ? malloc((size_t)kept.size + 1) : NULL;
    bool fits = data && stk_file_read(&kept, 0, data, (size_t)kept.size, &got, NULL) >= 0 && got == kept.size &&
                stk_tar_index_decode(data, got, &index, NULL) >= 0 && index->archive_bytes == file->size &&
                index->archive_mtime_ns == file->mtime_ns && (last || index->dropped == 0);
    free(data);
    stk_file_close(&kept);
    if (fits)
        *out_index = index;
    else
        stk_tar_index_destroy(index);
    return fits;
}

static bool write_index(const char *path, const struct stk_tar_index *index)
{
    struct stk_publish publish = {.fd = -1};
    uint8_t *data = NULL;
    size_t size = 0;
    if (stk_tar_index_encode(index, &data, &size, NULL) < 0) return false;
    bool done = stk_publish_begin(path, &publish, NULL) >= 0;
    done = done && stk_publish_write(&publish, 0, data, size, NULL) >= 0;
    done = done && stk_publish_commit(&publish, NULL) >= 0;
    stk_publish_abort(&publish);
    free(data);
    return done;
}

static stoker_status open_shard(stoker_shard *shard, const stoker_shard_options *options, stoker_error *err)
{
    bool last = options->duplicates == STOKER_SHARD_DUPLICATES_LAST;
    char *path = NULL;
    if (stk_url_is_object(shard->location))
        STK_TRY(stk_file_open_object(shard->location, options->object, &shard->file, err));
    else
        STK_TRY(stk_file_open(shard->location, &shard->file, err));
    STK_TRY(index_path(shard->location, options, &path, err));
    shard->from_index = path && load_index(path, &shard->file, last, &shard->index);
    stoker_status status = STOKER_OK;
    if (!shard->from_index) {
        status = stk_tar_index_build(&shard->file, last, &shard->index, err);
        if (status < 0) stk_error_context(err, "%s", shard->location);
        if (status >= 0 && path && options->index == STOKER_SHARD_INDEX_WRITE)
            shard->written = write_index(path, shard->index);
    }
    free(path);
    return status;
}

stoker_status stoker_shard_open(const char *location, const stoker_shard_options *options, stoker_shard **out_shard,
                                stoker_error *err)
{
    const stoker_shard_options defaults = STOKER_SHARD_OPTIONS_INIT;
    if (!location || !out_shard)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "location and out_shard must be given");
    if (!options) options = &defaults;
    STK_TRY(check_options(options, err));
    stoker_shard *shard = calloc(1, sizeof *shard);
    char *copy = strdup(location);
    if (!shard || !copy) {
        free(shard);
        free(copy);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open a shard");
    }
    shard->location = copy;
    shard->file.fd = -1;
    stoker_status status = open_shard(shard, options, err);
    if (status < 0) {
        stoker_shard_close(shard);
        return status;
    }
    *out_shard = shard;
    return STOKER_OK;
}

void stoker_shard_close(stoker_shard *shard)
{
    if (!shard) return;
    stk_file_close(&shard->file);
    stk_tar_index_destroy(shard->index);
    free(shard->location);
    free(shard);
}

void stoker_shard_get_facts(const stoker_shard *shard, stoker_shard_facts *out_facts)
{
    *out_facts = (stoker_shard_facts){
        .members = shard->index->count,
        .samples = shard->index->sample_count,
        .dropped = shard->index->dropped,
        .bytes = shard->file.size,
        .mtime_ns = shard->file.mtime_ns,
        .from_index = shard->from_index,
        .written = shard->written,
    };
}

static stoker_status out_of_range(const char *noun, uint64_t index, uint64_t count, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s %llu is asked for, the shard has %llu", noun,
                    (unsigned long long)index, (unsigned long long)count);
}

stoker_status stoker_shard_get_member(const stoker_shard *shard, uint64_t index, stoker_shard_member *out_member,
                                      stoker_error *err)
{
    if (!shard || !out_member) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "shard and out_member must be given");
    if (index >= shard->index->count) return out_of_range("member", index, shard->index->count, err);
    const struct stk_tar_entry *entry = &shard->index->entries[index];
    const char *name = shard->index->text + entry->name_offset;
    *out_member = (stoker_shard_member){
        .name = name,
        .extension = name + entry->key_size + (entry->key_size < entry->name_size),
        .key_size = entry->key_size,
        .offset = entry->offset,
        .size = entry->size,
        .sample = entry->sample,
    };
    return STOKER_OK;
}

stoker_status stoker_shard_find(const stoker_shard *shard, const char *name, uint64_t *out_index, stoker_error *err)
{
    if (!shard || !name || !out_index)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "shard, name and out_index must be given");
    uint32_t found = stk_tar_index_find(shard->index, name, strlen(name));
    if (found == UINT32_MAX)
        return stk_fail(err, STOKER_ERR_NOT_FOUND, "no member '%s' in the shard '%s'", name, shard->location);
    *out_index = found;
    return STOKER_OK;
}

stoker_status stoker_shard_get_sample(const stoker_shard *shard, uint64_t index, stoker_shard_sample *out_sample,
                                      stoker_error *err)
{
    if (!shard || !out_sample) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "shard and out_sample must be given");
    if (index >= shard->index->sample_count) return out_of_range("sample", index, shard->index->sample_count, err);
    const uint32_t *members = shard->index->sorted + shard->index->sample_first[index];
    const struct stk_tar_entry *entry = &shard->index->entries[members[0]];
    *out_sample = (stoker_shard_sample){
        .key = shard->index->text + entry->name_offset,
        .key_size = entry->key_size,
        .members = members,
        .member_count = shard->index->sample_size[index],
    };
    return STOKER_OK;
}

stoker_status stoker_shard_read(const stoker_shard *shard, uint64_t index, void *out, stoker_error *err)
{
    if (!shard) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "shard must be given");
    if (index >= shard->index->count) return out_of_range("member", index, shard->index->count, err);
    const struct stk_tar_entry *entry = &shard->index->entries[index];
    const char *name = shard->index->text + entry->name_offset;
    size_t got = 0;
    if (entry->size == 0) return STOKER_OK;
    if (!out || entry->size > SIZE_MAX) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "out must be given");
    stoker_status status = stk_file_read(&shard->file, entry->offset, out, (size_t)entry->size, &got, err);
    if (status >= 0 && got < entry->size)
        status = stk_fail(err, STOKER_ERR_CORRUPT, "the archive ends inside the member: %zu of %llu bytes are there",
                          got, (unsigned long long)entry->size);
    if (status < 0) stk_error_context(err, "%s: %s", shard->location, name);
    return status;
}
