/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved index arrays: see cache.h.
 */
#include "tokens/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "store/file.h"
#include "sys/ahead.h"
#include "sys/filemap.h"
#include "sys/leftover.h"
#include "sys/publish.h"
#include "tokens/reader_internal.h"

/* What is under way while a set is opened. */
struct work {
    const stoker_index_cache *cache;
    const struct stk_cache_plan *plan;
    char *paths[STK_CACHE_ARRAYS_MAX];
    char *description_path, *lock_path;
    struct stk_publish files[STK_CACHE_ARRAYS_MAX];
    stoker_error *err; /* never NULL */
};

/* ------------------------------------------------------------------------------------------------------------ names */

static char *join(const char *folder, const char *before, const char *stem, const char *after, const char *ending)
{
    size_t size = strlen(folder) + strlen(before) + strlen(stem) + strlen(after) + strlen(ending) + 2;
    char *path = malloc(size);
    if (path) (void)snprintf(path, size, "%s/%s%s%s%s", folder, before, stem, after, ending);
    return path;
}

char *stk_cache_path(const stoker_index_cache *cache, const char *name)
{
    char *dashed = join("", "", cache->stem, "-", name); /* "/STEM-NAME" */
    char *path = dashed ? join(cache->folder, "", dashed + 1, "", ".npy") : NULL;
    free(dashed);
    return path;
}

static char *copy_text(const char *text, bool *good)
{
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    *good = *good && copy;
    return copy;
}

stoker_status stk_cache_copy(const stoker_index_cache *cache, stoker_index_cache *out, stoker_error *err)
{
    bool good = true;
    stoker_index_cache copy = *cache;
    copy.folder = copy_text(cache->folder, &good);
    copy.stem = copy_text(cache->stem, &good);
    copy.description = copy_text(cache->description, &good);
    *out = copy;
    if (good) return STOKER_OK;
    stk_cache_drop(out);
    return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the names of the index cache");
}

void stk_cache_drop(stoker_index_cache *copy)
{
    free((char *)(uintptr_t)copy->folder);
    free((char *)(uintptr_t)copy->stem);
    free((char *)(uintptr_t)copy->description);
    copy->folder = copy->stem = copy->description = NULL;
}

static void fini(struct work *work)
{
    for (uint32_t i = 0; i < work->plan->count; i++) free(work->paths[i]);
    free(work->description_path);
    free(work->lock_path);
}

static stoker_status init(struct work *work)
{
    const stoker_index_cache *cache = work->cache;
    if (!cache->stem || !cache->stem[0] || strchr(cache->stem, '/'))
        return stk_fail(work->err, STOKER_ERR_INVALID_ARGUMENT,
                        "the stem of the index cache is '%s', expected the beginning of a file name",
                        cache->stem ? cache->stem : "");
    bool good = true;
    for (uint32_t i = 0; i < work->plan->count; i++) {
        work->paths[i] = stk_cache_path(cache, work->plan->arrays[i].name);
        good = good && work->paths[i];
    }
    work->description_path = join(cache->folder, "", cache->stem, "-description", ".txt");
    work->lock_path = join(cache->folder, ".", cache->stem, "", ".lock");
    if (good && work->description_path && work->lock_path) return STOKER_OK;
    fini(work);
    return stk_fail(work->err, STOKER_ERR_NO_MEMORY, "no memory for the names of the index cache");
}

/* ---------------------------------------------------------------------------------------------------------- loading */

static stoker_status check_shape(const struct work *work, uint32_t i, const stoker_index_array *array)
{
    const struct stk_cache_plan *plan = work->plan;
    if (array->columns != plan->arrays[i].columns)
        return stk_fail(work->err, STOKER_ERR_CORRUPT, "%s: shape has %u columns, expected %u", work->paths[i],
                        array->columns, plan->arrays[i].columns);
    if (!plan->known) return STOKER_OK;
    if (array->dtype != plan->arrays[i].dtype || array->rows != plan->arrays[i].rows)
        return stk_fail(work->err, STOKER_ERR_CORRUPT,
                        "%s: %" PRIu64 " rows of %s, expected %" PRIu64 " of %s: it belongs to other data or options",
                        work->paths[i], array->rows, stk_index_dtype_text(array->dtype), plan->arrays[i].rows,
                        stk_index_dtype_text(plan->arrays[i].dtype));
    return STOKER_OK;
}

static stoker_status check_description(const struct work *work)
{
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    const char *text = work->cache->description;
    if (work->cache->assume_hit || !text) return STOKER_OK;
    if (!stk_file_facts(work->description_path, &size, &mtime_ns))
        return stk_fail(work->err, STOKER_ERR_NOT_FOUND, "'%s' is not there", work->description_path);
    if (size != strlen(text))
        return stk_fail(work->err, STOKER_ERR_CORRUPT, "%s: %" PRIu64 " bytes, expected %zu", work->description_path,
                        size, strlen(text));
    return STOKER_OK;
}

static void close_arrays(struct stk_npy *arrays, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) stk_npy_close(&arrays[i]);
}

static stoker_status load(struct work *work, struct stk_npy *out)
{
    uint32_t count = 0;
    stoker_status status = check_description(work);
    while (status == STOKER_OK && count < work->plan->count) {
        status = stk_npy_open(work->paths[count], &out[count], work->err);
        if (status != STOKER_OK) break;
        status = check_shape(work, count, &out[count].array);
        count++;
    }
    if (status == STOKER_OK && work->plan->check) status = work->plan->check(work->plan->user, out, work->err);
    if (status != STOKER_OK) close_arrays(out, count);
    return status;
}

/* A set that building again would mend. */
static bool is_miss(stoker_status status) { return status == STOKER_ERR_NOT_FOUND || status == STOKER_ERR_CORRUPT; }

/* --------------------------------------------------------------------------------------------------------- building */

static stoker_status array_bytes(const struct work *work, uint32_t i, size_t header, size_t *out_bytes)
{
    size_t row = work->plan->arrays[i].columns * stk_index_dtype_size(work->plan->arrays[i].dtype);
    if (stk_mul_size((size_t)work->plan->arrays[i].rows, row, out_bytes) && stk_add_size(*out_bytes, header, out_bytes))
        return STOKER_OK;
    return stk_fail(work->err, STOKER_ERR_LIMIT, "%s of %" PRIu64 " rows is too large", work->plan->arrays[i].name,
                    work->plan->arrays[i].rows);
}

static void set_array(const struct work *work, uint32_t i, void *data, struct stk_npy *out)
{
    out->array = (stoker_index_array){data, work->plan->arrays[i].rows, work->plan->arrays[i].columns,
                                      work->plan->arrays[i].dtype};
}

static void settled_in_memory(const struct stk_cache_site *site, uint32_t array, uint64_t offset, uint64_t size,
                              bool read_again)
{
    (void)site;
    (void)array;
    (void)offset;
    (void)size;
    (void)read_again;
}

/* Where the files of a set are being built. */
struct files {
    struct work *work;
    struct stk_npy *arrays;
};

static void settled_in_file(const struct stk_cache_site *site, uint32_t array, uint64_t offset, uint64_t size,
                            bool read_again)
{
    const struct files *files = site->cache;
    uint64_t place = STK_NPY_HEADER_BYTES + offset;
    STK_ASSERT(place + size <= files->arrays[array].base_size);
    stk_publish_push(&files->work->files[array], place, size);
    if (!read_again) stk_filemap_forget((uint8_t *)files->arrays[array].base + place, (size_t)size);
}

/* Builds with the pages of what is mapped made ahead. */
static stoker_status build_into(const struct work *work, const struct stk_npy *arrays, void *const *data,
                                const struct stk_cache_site *site)
{
    struct stk_ahead_area areas[STK_CACHE_ARRAYS_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < work->plan->count; i++)
        if (arrays[i].base_size > 0) areas[count++] = (struct stk_ahead_area){arrays[i].base, arrays[i].base_size};
    struct stk_ahead *ahead;
    STK_TRY(stk_ahead_start(areas, count, &ahead, work->err));
    stoker_status status = work->plan->build(work->plan->user, data, site, work->err);
    stk_ahead_stop(ahead);
    return status;
}

static stoker_status build_in_memory(struct work *work, struct stk_npy *out)
{
    void *data[STK_CACHE_ARRAYS_MAX];
    for (uint32_t i = 0; i < work->plan->count; i++) {
        size_t size = 0;
        stoker_status status = array_bytes(work, i, 0, &size);
        if (status == STOKER_OK && size > STK_NPY_READ_BYTES_MAX) {
            status = stk_filemap_memory(size, &data[i], work->err);
        } else if (status == STOKER_OK) {
            data[i] = calloc(1, size ? size : 1);
            if (!data[i]) status = stk_fail(work->err, STOKER_ERR_NO_MEMORY, "no memory for %zu bytes", size);
        }
        if (status != STOKER_OK) {
            close_arrays(out, i);
            return status;
        }
        out[i] = (struct stk_npy){.base = data[i], .base_size = size > STK_NPY_READ_BYTES_MAX ? size : 0};
        set_array(work, i, data[i], &out[i]);
    }
    const struct stk_cache_site site = {.settled = settled_in_memory};
    stoker_status status = build_into(work, out, data, &site);
    if (status != STOKER_OK) close_arrays(out, work->plan->count);
    return status;
}

static stoker_status begin_files(struct work *work, struct stk_npy *out, void **data)
{
    for (uint32_t i = 0; i < work->plan->count; i++) {
        size_t size = 0;
        void *base = NULL;
        STK_TRY(array_bytes(work, i, STK_NPY_HEADER_BYTES, &size));
        STK_TRY(stk_publish_begin(work->paths[i], &work->files[i], work->err));
        stoker_status status = stk_filemap_create(work->files[i].fd, size, &base, work->err);
        if (status < 0) {
            stk_error_context(work->err, "%s", work->paths[i]);
            return status;
        }
        out[i] = (struct stk_npy){.base = base, .base_size = size};
        stk_npy_encode(work->plan->arrays[i].dtype, work->plan->arrays[i].rows, work->plan->arrays[i].columns, base);
        data[i] = (uint8_t *)base + STK_NPY_HEADER_BYTES;
        set_array(work, i, data[i], &out[i]);
    }
    return STOKER_OK;
}

/* The description, then the arrays; the folder is synced once for all of them. */
static stoker_status publish_all(struct work *work)
{
    struct stk_publish description = {.fd = -1}, *files[STK_CACHE_ARRAYS_MAX + 1];
    size_t count = 0;
    const char *text = work->cache->description;
    if (text) {
        STK_TRY(stk_publish_begin(work->description_path, &description, work->err));
        stoker_status status = stk_publish_write(&description, 0, text, strlen(text), work->err);
        if (status < 0) {
            stk_publish_abort(&description);
            return status;
        }
        files[count++] = &description;
    }
    for (uint32_t i = 0; i < work->plan->count; i++) files[count++] = &work->files[i];
    return stk_publish_commit_all(files, count, work->err);
}

/* A small array moves to plain memory, a large one stays the mapping that it was made in. */
static void settle(struct stk_npy *npy)
{
    size_t size = npy->base_size - STK_NPY_HEADER_BYTES;
    void *copy = size <= STK_NPY_READ_BYTES_MAX ? malloc(size ? size : 1) : NULL;
    if (!copy) {
        stk_filemap_seal(npy->base, npy->base_size);
        npy->counted = stk_maps_take();
        return;
    }
    memcpy(copy, npy->array.data, size);
    stk_filemap_close(npy->base, npy->base_size);
    npy->base = copy;
    npy->base_size = 0;
    npy->array.data = copy;
}

/* Builds with the pages of the files made ahead, in the order in which they will be filled. The builder is about to
 * make those at the beginning himself, so the second half of the first ones comes first. */
static stoker_status build_mapped(const struct work *work, const struct stk_npy *arrays, void *const *data,
                                  const struct stk_cache_site *site)
{
    struct stk_ahead_file files[STK_CACHE_ARRAYS_MAX];
    size_t count = 0;
    for (uint32_t turn = 0; turn < STK_CACHE_ARRAYS_MAX; turn++)
        for (uint32_t i = 0; i < work->plan->count; i++)
            if (work->plan->arrays[i].turn == turn)
                files[count++] = (struct stk_ahead_file){work->files[i].fd, turn == 0 ? arrays[i].base_size / 2 : 0,
                                                         arrays[i].base_size};
    struct stk_ahead *ahead;
    STK_TRY(stk_ahead_start_files(files, count, &ahead, work->err));
    stoker_status status = work->plan->build(work->plan->user, data, site, work->err);
    stk_ahead_stop(ahead);
    return status;
}

static stoker_status build_files(struct work *work, struct stk_npy *out)
{
    void *data[STK_CACHE_ARRAYS_MAX];
    const uint32_t count = work->plan->count;
    memset(out, 0, count * sizeof *out);
    for (uint32_t i = 0; i < count; i++) work->files[i] = (struct stk_publish){.fd = -1};
    struct files files = {work, out};
    const struct stk_cache_site site = {.settled = settled_in_file, .cache = &files};
    stoker_status status = begin_files(work, out, data);
    if (status == STOKER_OK) status = build_mapped(work, out, data, &site);
    if (status == STOKER_OK) status = publish_all(work);
    if (status == STOKER_OK) {
        for (uint32_t i = 0; i < count; i++) settle(&out[i]);
        return STOKER_OK;
    }
    for (uint32_t i = 0; i < count; i++) stk_publish_abort(&work->files[i]);
    close_arrays(out, count);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- one of many */

static bool is_no_lock(int os_error) { return os_error == ENOLCK || os_error == EOPNOTSUPP || os_error == ENOSYS; }

/* Of builders that were killed. Reads the folder. */
static void remove_leftovers(const struct work *work)
{
    const char *paths[STK_CACHE_ARRAYS_MAX + 1] = {work->description_path};
    for (uint32_t i = 0; i < work->plan->count; i++) paths[i + 1] = work->paths[i];
    stk_leftovers_remove(paths, work->plan->count + 1, false);
}

/* NOT_FOUND stays with the message of the miss; a folder that cannot be written is said in so many words. */
static stoker_status explain(struct work *work, stoker_status status, const stoker_error *miss)
{
    int os_error = work->err->os_error;
    if (status != STOKER_ERR_IO || (os_error != EACCES && os_error != EROFS && os_error != EPERM)) return status;
    if (access(work->cache->folder, W_OK) == 0) return status; /* then it is the file that the message names */
    return stk_fail_os(work->err, STOKER_ERR_IO, os_error,
                       "the cache folder '%s' is not writable, and an index must be built there (%s)",
                       work->cache->folder, miss->message);
}

static stoker_status lock(struct work *work, struct stk_file_lock **out_lock)
{
    uint64_t wait_ns = work->cache->wait_ns ? work->cache->wait_ns : UINT64_MAX;
    stoker_status status = stk_file_lock_acquire(work->lock_path, wait_ns, out_lock, work->err);
    if (status == STOKER_AGAIN)
        return stk_fail(work->err, STOKER_ERR_TIMEOUT,
                        "another process still builds the index after %" PRIu64 " s; it holds '%s'",
                        wait_ns / STK_SECOND_NS, work->lock_path);
    if (status == STOKER_ERR_IO && is_no_lock(work->err->os_error)) {
        *out_lock = NULL; /* no locks here: whoever builds publishes the same bytes */
        return STOKER_OK;
    }
    return status;
}

/* A miss in a process that may not build: it waits for a builder that is at work. */
static stoker_status wait_for_builder(struct work *work, const stoker_error *miss, struct stk_npy *out)
{
    uint64_t size;
    int64_t mtime_ns;
    struct stk_file_lock *held = NULL;
    if (stk_file_facts(work->lock_path, &size, &mtime_ns)) {
        stoker_status status = lock(work, &held);
        if (status == STOKER_ERR_TIMEOUT) return status;
        if (status == STOKER_OK) { /* nobody builds any more */
            stk_file_lock_release(held);
            status = load(work, out);
            if (!is_miss(status)) return status;
        }
    }
    return stk_fail(work->err, STOKER_ERR_NOT_FOUND, "the index is not built and this process may not build it: %s",
                    miss->message);
}

static stoker_status build_under_lock(struct work *work, const stoker_error *miss, struct stk_npy *out, bool *out_built)
{
    struct stk_file_lock *held = NULL;
    uint64_t size;
    int64_t mtime_ns;
    bool was_locked = stk_file_facts(work->lock_path, &size, &mtime_ns); /* somebody built here before */
    stoker_status status = stk_make_folders(work->cache->folder, work->err);
    if (status == STOKER_OK) status = lock(work, &held);
    if (status != STOKER_OK) return explain(work, status, miss);
    status = load(work, out); /* another may have built it before the lock was ours */
    if (is_miss(status)) {
        if (was_locked) remove_leftovers(work);
        status = build_files(work, out);
        *out_built = status == STOKER_OK;
    }
    stk_file_lock_release(held);
    return status < 0 ? explain(work, status, miss) : status;
}

static stoker_status open_files(struct work *work, struct stk_npy *out, bool *out_built)
{
    stoker_error miss = {0};
    stoker_error *err = work->err;
    work->err = &miss; /* a miss is no error of the caller's */
    stoker_status status = load(work, out);
    work->err = err;
    if (status == STOKER_OK) return status;
    if (is_miss(status) && !work->cache->assume_hit) {
        STK_ASSERT(work->plan->known);
        return work->cache->may_build ? build_under_lock(work, &miss, out, out_built)
                                      : wait_for_builder(work, &miss, out);
    }
    *err = miss;
    return status;
}

stoker_status stk_cache_open(const stoker_index_cache *cache, const struct stk_cache_plan *plan, struct stk_npy *out,
                             bool *out_built, stoker_error *err)
{
    stoker_error own = {0}; /* the status is not all that is looked at */
    struct work work = {.cache = cache, .plan = plan, .err = err ? err : &own};
    STK_ASSERT(plan->count <= STK_CACHE_ARRAYS_MAX);
    bool built = false;
    if (!cache->folder) {
        STK_TRY(build_in_memory(&work, out));
        *out_built = true;
        return STOKER_OK;
    }
    STK_TRY(init(&work));
    stoker_status status = open_files(&work, out, &built);
    fini(&work);
    if (status == STOKER_OK) *out_built = built;
    return status;
}
