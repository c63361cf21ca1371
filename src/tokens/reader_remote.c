/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets in object storage. The index is copied whole to a folder of this host and read from there; the data are read
 * by range.
 *
 * Any number of processes may open one dataset at once: one of them copies, under a lock, and the copy appears whole. A
 * copy that is there already is used if the object still has its size and the same bytes in two places (the header, and
 * the end of the offsets, which are sums over all that comes before): Megatron-LM copies anew each time.
 */
#include "tokens/reader_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/file.h"
#include "sys/publish.h"

#define BLOCK_BYTES_DEFAULT (UINT64_C(256) << 20) /* as Megatron-LM */
enum { BLOCKS_KEPT = 2, PROBE_BYTES = 4096 };

static stoker_status open_range(const char *url, const stoker_dataset_options *options, struct stk_range_retry retry,
                                struct stk_range **out_range, stoker_error *err)
{
    if (options->ranges) return stk_range_open_user(options->ranges, url, out_range, err);
    return stk_range_open_url(url, options->object, retry, out_range, err);
}

stoker_status stk_remote_bin(const char *url, const stoker_dataset_options *options, struct stk_range_retry retry,
                             struct stk_range **out_range, stoker_error *err)
{
    struct stk_range *range = NULL;
    STK_TRY(open_range(url, options, retry, &range, err));
    if (options->ranges) { /* a caller's reader keeps what it likes */
        *out_range = range;
        return STOKER_OK;
    }
    uint64_t block_bytes = options->block_bytes ? options->block_bytes : BLOCK_BYTES_DEFAULT;
    uint64_t kept;
    if (__builtin_mul_overflow(block_bytes, (uint64_t)BLOCKS_KEPT, &kept)) kept = UINT64_MAX;
    stoker_status status = stk_range_open_blocks(range, block_bytes, kept, out_range, err);
    if (status < 0) stk_range_close(range); /* it is taken by success only */
    return status;
}

/* Does the copy hold what the object holds between `from` and `to`? */
static bool same_bytes(struct stk_range *range, const struct stk_file *copy, uint64_t from, uint64_t to)
{
    uint8_t theirs[PROBE_BYTES], ours[PROBE_BYTES];
    size_t got = 0, size = (size_t)(to - from);
    return stk_range_read(range, from, size, theirs, NULL) == STOKER_OK &&
           stk_file_read(copy, from, ours, size, &got, NULL) == STOKER_OK && got == size &&
           memcmp(theirs, ours, size) == 0;
}

static bool is_current(struct stk_range *range, const char *path)
{
    struct stk_file copy;
    struct stk_index_layout layout = {0};
    uint8_t header[STK_INDEX_HEADER_BYTES];
    uint64_t size = 0;
    size_t got = 0;
    if (stk_file_open(path, &copy, NULL) != STOKER_OK) return false;
    bool current = false;
    if (stk_range_size(range, &size, NULL) == STOKER_OK && size == copy.size &&
        stk_file_read(&copy, 0, header, sizeof header, &got, NULL) == STOKER_OK &&
        stk_index_header_decode(header, got, path, &layout, NULL) == STOKER_OK &&
        stk_index_place(&layout, size, path, NULL) == STOKER_OK) {
        uint64_t end = layout.documents_at;
        uint64_t from = end > PROBE_BYTES ? end - PROBE_BYTES : 0;
        current = same_bytes(range, &copy, 0, STK_INDEX_HEADER_BYTES) && same_bytes(range, &copy, from, end);
    }
    stk_file_close(&copy);
    return current;
}

static char *joined(const char *left, const char *right)
{
    size_t size = strlen(left) + strlen(right) + 1;
    char *text = malloc(size);
    if (text) (void)snprintf(text, size, "%s%s", left, right);
    return text;
}

static stoker_status copy_index(struct stk_range *range, const char *path, stoker_error *err)
{
    struct stk_file_lock *lock = NULL;
    char *lock_path = joined(path, ".lock"), *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    stoker_status status = STOKER_OK;
    /* Without the lock first: all ranks of a host ask at once, and mostly the copy is good. */
    if (is_current(range, path)) goto done;
    if (!lock_path || !folder) status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to copy '%s'", path);
    if (status == STOKER_OK && slash && slash != folder) {
        *slash = 0;
        status = stk_make_folders(folder, err);
    }
    if (status == STOKER_OK) status = stk_file_lock_acquire(lock_path, UINT64_MAX, &lock, err);
    if (status == STOKER_OK && !is_current(range, path)) status = stk_range_download(range, path, err);
    stk_file_lock_release(lock);
done:
    free(lock_path);
    free(folder);
    return status;
}

stoker_status stk_remote_index(const char *prefix, const stoker_dataset_options *options, struct stk_range_retry retry,
                               char **out_path, stoker_error *err)
{
    struct stk_range *range = NULL;
    char *url = NULL, *path = NULL;
    if (!options->index_cache_dir)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "'%s' lies in object storage: a folder for its index is needed (index_cache_dir)", prefix);
    url = joined(prefix, ".idx");
    stoker_status status = url ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open '%s'", prefix);
    if (status == STOKER_OK) status = stk_url_local_path(options->index_cache_dir, url, &path, err);
    if (status == STOKER_OK) status = open_range(url, options, retry, &range, err);
    if (status == STOKER_OK) status = copy_index(range, path, err);
    stk_range_close(range);
    free(url);
    if (status == STOKER_OK)
        *out_path = path;
    else
        free(path);
    return status;
}
