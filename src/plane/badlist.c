/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of quarantine lists: see badlist.h.
 */
#include "plane/badlist.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "sys/digest.h"
#include "sys/shmem.h"
#include "wire/message.h"

#define MAGIC 0x424b5453u /* "STKB" in a dump */
#define VERSION 1u
enum { COUNT_AT = 16, ENTRIES_AT = 24, VERSION_BYTES = 16, PATH_BYTES_MAX = 4095 };

/* ---- write */

struct blob {
    uint8_t *bytes;
    size_t size, cap;
    uint64_t count;
};

static stoker_status add_entry(void *user, const stoker_quarantine_entry *entry, stoker_error *err)
{
    struct blob *blob = user;
    size_t path_size = strlen(entry->path) + 1, needed = blob->size + path_size + VERSION_BYTES;
    if (blob->count == STK_QUARANTINE_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "a quarantine list of more than %u entries", STK_QUARANTINE_MAX);
    if (path_size == 1 || path_size - 1 > PATH_BYTES_MAX) return STOKER_OK; /* no file has such a path */
    if (needed > blob->cap) {
        size_t cap = 2 * needed;
        uint8_t *grown = realloc(blob->bytes, cap);
        if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a quarantine list of %zu bytes", cap);
        blob->bytes = grown;
        blob->cap = cap;
    }
    memcpy(blob->bytes + blob->size, entry->path, path_size);
    stk_store_u64(blob->bytes + blob->size + path_size, entry->bytes);
    stk_store_u64(blob->bytes + blob->size + path_size + 8, (uint64_t)entry->mtime_ns);
    blob->size = needed;
    blob->count++;
    return STOKER_OK;
}

stoker_status stk_badlist_create(const char *path, int *out_fd, stoker_error *err)
{
    stoker_quarantine *list;
    stoker_error seen = {0};
    stoker_status status = stoker_quarantine_open(path, STOKER_QUARANTINE_WRITE, &list, &seen);
    /* One that may only be read acts all the same; the DataServer says that nothing can be added. */
    if (status == STOKER_ERR_IO) status = stoker_quarantine_open(path, STOKER_QUARANTINE_READ, &list, NULL);
    if (status != STOKER_OK) {
        if (err) *err = seen;
        return seen.status;
    }
    struct blob blob = {.size = ENTRIES_AT, .cap = ENTRIES_AT};
    blob.bytes = malloc(blob.cap);
    status = blob.bytes ? stoker_quarantine_walk(list, add_entry, &blob, err)
                        : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a quarantine list");
    if (status == STOKER_OK) {
        stk_store_u64(blob.bytes, (uint64_t)VERSION << 32 | MAGIC);
        stk_store_u64(blob.bytes + 8, blob.size);
        stk_store_u64(blob.bytes + COUNT_AT, blob.count);
        status = stk_shmem_blob_create(blob.bytes, blob.size, out_fd, err);
    }
    free(blob.bytes);
    stoker_quarantine_close(list);
    return status;
}

/* ---- read */

static int compare(const uint8_t *entry, const char *path, uint64_t bytes, int64_t mtime_ns)
{
    int order = strcmp((const char *)entry, path);
    if (order != 0) return order;
    const uint8_t *version = entry + strlen(path) + 1;
    uint64_t entry_bytes = stk_load_u64(version);
    int64_t entry_mtime_ns = (int64_t)stk_load_u64(version + 8);
    if (entry_bytes != bytes) return entry_bytes < bytes ? -1 : 1;
    return entry_mtime_ns == mtime_ns ? 0 : entry_mtime_ns < mtime_ns ? -1 : 1;
}

stoker_status stk_badlist_check(const uint8_t *blob, size_t size, uint64_t *offsets, uint64_t *out_count,
                                stoker_error *err)
{
    if (size < ENTRIES_AT || stk_load_u64(blob) != ((uint64_t)VERSION << 32 | MAGIC) || stk_load_u64(blob + 8) != size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "quarantine blob: the header of %d bytes is not that of %zu bytes",
                        ENTRIES_AT, size);
    uint64_t count = stk_load_u64(blob + COUNT_AT);
    if (count > STK_QUARANTINE_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "quarantine blob: %llu entries, expected at most %u",
                        (unsigned long long)count, STK_QUARANTINE_MAX);
    size_t at = ENTRIES_AT;
    const uint8_t *before = NULL;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *end = at < size ? memchr(blob + at, 0, size - at) : NULL;
        size_t length = end ? (size_t)(end - (blob + at)) : 0;
        if (length == 0 || length > PATH_BYTES_MAX || size - at - length - 1 < VERSION_BYTES)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "quarantine blob: entry %llu at offset %zu of %zu has no path of 1 to %d bytes, or is cut",
                            (unsigned long long)i, at, size, PATH_BYTES_MAX);
        const uint8_t *version = end + 1;
        if (before &&
            compare(before, (const char *)blob + at, stk_load_u64(version), (int64_t)stk_load_u64(version + 8)) >= 0)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "quarantine blob: entry %llu at offset %zu does not come after the one before it",
                            (unsigned long long)i, at);
        if (offsets) offsets[i] = at;
        before = blob + at;
        at += length + 1 + VERSION_BYTES;
    }
    if (at != size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "quarantine blob: the entries end at %zu, the blob at %zu", at, size);
    *out_count = count;
    return STOKER_OK;
}

stoker_status stk_badlist_open(int fd, struct stk_badlist *out_list, stoker_error *err)
{
    const void *data = NULL;
    struct stk_badlist list = {0};
    stoker_status status = stk_shmem_blob_map(fd, &data, &list.size, err);
    if (fd >= 0) (void)close(fd); /* mapped, or of no use */
    if (status != STOKER_OK) return status;
    list.blob = data;
    status = stk_badlist_check(list.blob, list.size, NULL, &list.count, err);
    if (status == STOKER_OK && list.count > 0) {
        list.offsets = malloc((size_t)list.count * sizeof *list.offsets);
        if (!list.offsets)
            status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a quarantine list of %llu entries",
                              (unsigned long long)list.count);
        else
            status = stk_badlist_check(list.blob, list.size, list.offsets, &list.count, err);
    }
    if (status != STOKER_OK) {
        stk_badlist_close(&list);
        return status;
    }
    stk_sha256_hex(list.blob + ENTRIES_AT, list.size - ENTRIES_AT, list.digest);
    *out_list = list;
    return STOKER_OK;
}

void stk_badlist_close(struct stk_badlist *list)
{
    if (list->blob) stk_shmem_blob_unmap(list->blob, list->size);
    free(list->offsets);
    *list = (struct stk_badlist){0};
}

bool stk_badlist_holds(const struct stk_badlist *list, const char *path, uint64_t bytes, int64_t mtime_ns)
{
    uint64_t low = 0, high = list->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = compare(list->blob + list->offsets[middle], path, bytes, mtime_ns);
        if (order == 0) return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}
