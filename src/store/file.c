/* SPDX-License-Identifier: Apache-2.0
 *
 * Local files by position: see file.h.
 */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/range_internal.h"

/* One read is cut at this size: Linux moves at most 2 GiB a call, and a huge length must not depend on that. */
#define READ_BYTES_MAX ((size_t)1 << 30)

static int64_t mtime_of(const struct stat *facts)
{
    return (int64_t)facts->st_mtim.tv_sec * 1000000000 + facts->st_mtim.tv_nsec;
}

/* A name that leads nowhere is a fault of the data, also one that leads round in circles or is no name at all. */
static stoker_status fail_open(const char *path, int os_error, stoker_error *err)
{
    switch (os_error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG: return stk_fail_os(err, STOKER_ERR_NOT_FOUND, os_error, "cannot open '%.400s'", path);
    case ENXIO:
    case ENODEV:
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "'%.400s' is a pipe, socket or device, not a regular file", path);
    case EMFILE:
    case ENFILE:
        return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot open '%.400s': raise the limit of open files%s", path,
                           os_error == EMFILE ? " (ulimit -n)" : " of the machine");
    default: return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot open '%.400s'", path);
    }
}

stoker_status stk_file_open(const char *path, struct stk_file *out_file, stoker_error *err)
{
    /* O_NONBLOCK: opening a pipe without a writer would block before its kind can be seen. It has no effect on regular
     * files. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return fail_open(path, errno, err);
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        int os_error = errno;
        (void)close(fd); /* opened for reading: nothing to lose */
        return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot look at '%s'", path);
    }
    if (!S_ISREG(facts.st_mode)) {
        (void)close(fd);
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "'%s' is %s, not a regular file", path,
                        S_ISDIR(facts.st_mode) ? "a directory" : "a pipe, socket or device");
    }
    *out_file = (struct stk_file){.fd = fd, .size = (uint64_t)facts.st_size, .mtime_ns = mtime_of(&facts)};
    return STOKER_OK;
}

/* The version of an object as a time: FNV-1a over its text, without the sign. */
static int64_t version_number(struct stk_range *range)
{
    char text[2 * STK_HTTP_TEXT_BYTES_MAX] = "";
    uint64_t hash = 0xcbf29ce484222325u;
    if (!range->backend->version || range->backend->version(range, text, sizeof text, NULL) < 0 || !text[0]) return 0;
    for (const char *at = text; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    return (int64_t)(hash >> 1 | 1);
}

stoker_status stk_file_open_object(const char *url, const stoker_object_options *options, struct stk_file *out_file,
                                   stoker_error *err)
{
    const struct stk_range_retry retry = {STK_OBJECT_RETRIES, STK_OBJECT_DELAY_NS};
    struct stk_file file = {.fd = -1};
    struct stk_range *inner = NULL;
    STK_TRY(stk_range_open_url(url, options, retry, &inner, err));
    stoker_status status = stk_range_size(inner, &file.size, err);
    if (status >= 0) {
        file.mtime_ns = version_number(inner);
        status = stk_range_open_blocks(inner, STK_FILE_BLOCK_BYTES, STK_FILE_CACHE_BYTES, &file.range, err);
        if (status >= 0) inner = NULL; /* taken */
    }
    if (status < 0) {
        stk_range_close(inner);
        return status;
    }
    *out_file = file;
    return STOKER_OK;
}

stoker_status stk_file_narrow(struct stk_file *file, uint64_t offset, uint64_t size, stoker_error *err)
{
    if (offset > file->size || size > file->size - offset)
        return stk_fail(err, STOKER_ERR_CORRUPT, "%llu bytes at offset %llu reach past the end, which is at %llu",
                        (unsigned long long)size, (unsigned long long)offset, (unsigned long long)file->size);
    file->part = true;
    file->base += offset;
    file->size = size;
    return STOKER_OK;
}

void stk_file_close(struct stk_file *file)
{
    if (!file) return;
    stk_range_close(file->range);
    file->range = NULL;
    if (file->fd >= 0) (void)close(file->fd); /* opened for reading: nothing to lose */
    file->fd = -1;
}

stoker_status stk_file_read(const struct stk_file *file, uint64_t offset, void *out, size_t size, size_t *out_read,
                            stoker_error *err)
{
    uint8_t *to = out;
    size_t done = 0;
    if (offset > INT64_MAX - size || offset + size > INT64_MAX - file->base)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "offset %llu is past any file", (unsigned long long)offset);
    if (file->part || file->range) {
        if (offset >= file->size) size = 0;
        if (size > file->size - offset) size = (size_t)(file->size - offset);
        offset += file->base;
    }
    if (file->range) {
        *out_read = size;
        return stk_range_read(file->range, offset, size, out, err);
    }
    while (done < size) {
        size_t part = size - done < READ_BYTES_MAX ? size - done : READ_BYTES_MAX;
        ssize_t got = pread(file->fd, to + done, part, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read %zu bytes at offset %llu", part,
                               (unsigned long long)(offset + done));
        if (got == 0) break;
        done += (size_t)got;
    }
    *out_read = done;
    return STOKER_OK;
}

int stk_file_facts(const char *path, uint64_t *out_size, int64_t *out_mtime_ns)
{
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return 0;
    *out_size = (uint64_t)facts.st_size;
    *out_mtime_ns = mtime_of(&facts);
    return 1;
}
