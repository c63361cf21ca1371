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

/* One read is cut at this size: Linux moves at most 2 GiB a call, and a huge length must not depend on that. */
#define READ_BYTES_MAX ((size_t)1 << 30)

static int64_t mtime_of(const struct stat *facts)
{
    return (int64_t)facts->st_mtim.tv_sec * 1000000000 + facts->st_mtim.tv_nsec;
}

stoker_status stk_file_open(const char *path, struct stk_file *out_file, stoker_error *err)
{
    /* O_NONBLOCK: opening a pipe without a writer would block before its kind can be seen. It has no effect on regular
     * files. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int os_error = errno;
        stoker_status status = os_error == ENOENT || os_error == ENOTDIR ? STOKER_ERR_NOT_FOUND : STOKER_ERR_IO;
        return stk_fail_os(err, status, os_error, "cannot open '%s'", path);
    }
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
    out_file->fd = fd;
    out_file->size = (uint64_t)facts.st_size;
    out_file->mtime_ns = mtime_of(&facts);
    return STOKER_OK;
}

void stk_file_close(struct stk_file *file)
{
    if (!file || file->fd < 0) return;
    (void)close(file->fd); /* opened for reading: nothing to lose */
    file->fd = -1;
}

stoker_status stk_file_read(const struct stk_file *file, uint64_t offset, void *out, size_t size, size_t *out_read,
                            stoker_error *err)
{
    uint8_t *to = out;
    size_t done = 0;
    if (offset > INT64_MAX - size)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "offset %llu is past any file", (unsigned long long)offset);
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
