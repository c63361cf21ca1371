/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from file to file: see copy.h. Three ways, each tried when the one before is refused: copy_file_range (file
 * systems that share blocks copy nothing at all), sendfile (no copy through this process), and reading and writing.
 */
#include "sys/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/error.h"

/* After each step the disk may begin; a step is long enough to make a call not matter. */
#define STEP_BYTES ((size_t)8 << 20)
#define BUFFER_BYTES ((size_t)1 << 20)

/* A way to copy up to `size` bytes at the position `done`; as read(2): bytes, 0 at the end, -1 with errno. */
typedef ssize_t step_fn(int from, int to, uint64_t done, uint64_t to_offset, size_t size, void *buffer);

static ssize_t step_range(int from, int to, uint64_t done, uint64_t to_offset, size_t size, void *buffer)
{
    off_t in = (off_t)done, out = (off_t)(to_offset + done);
    (void)buffer;
    return copy_file_range(from, &in, to, &out, size, 0);
}

static ssize_t step_sendfile(int from, int to, uint64_t done, uint64_t to_offset, size_t size, void *buffer)
{
    off_t in = (off_t)done;
    (void)buffer;
    if (lseek(to, (off_t)(to_offset + done), SEEK_SET) < 0) return -1;
    return sendfile(to, from, &in, size);
}

static ssize_t step_buffer(int from, int to, uint64_t done, uint64_t to_offset, size_t size, void *buffer)
{
    ssize_t got = pread(from, buffer, size < BUFFER_BYTES ? size : BUFFER_BYTES, (off_t)done);
    for (ssize_t wrote = 0; wrote < got;) {
        ssize_t part =
            pwrite(to, (char *)buffer + wrote, (size_t)(got - wrote), (off_t)(to_offset + done) + (off_t)wrote);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) return -1;
        wrote += part;
    }
    return got;
}

/* Errors of a way that say nothing of the next. */
static bool is_refusal(int os_error)
{
    return os_error == ENOSYS || os_error == EXDEV || os_error == EINVAL || os_error == EOPNOTSUPP ||
           os_error == EPERM || os_error == EBADF || os_error == EOVERFLOW || os_error == ETXTBSY;
}

stoker_status stk_copy_bytes(int from, int to, uint64_t to_offset, uint64_t size, bool push, stoker_error *err)
{
    static step_fn *const ways[] = {step_range, step_sendfile, step_buffer};
    enum { LAST = sizeof ways / sizeof ways[0] - 1 };
    void *buffer = NULL;
    size_t way = 0;
    stoker_status status = STOKER_OK;
    if (size > INT64_MAX || to_offset > INT64_MAX - size)
        return stk_fail(err, STOKER_ERR_LIMIT, "the file would be larger than any file");
    for (uint64_t done = 0; done < size && status == STOKER_OK;) {
        size_t part = size - done < STEP_BYTES ? (size_t)(size - done) : STEP_BYTES;
        if (way == LAST && !buffer) buffer = malloc(BUFFER_BYTES);
        if (way == LAST && !buffer) {
            status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to copy %llu bytes", (unsigned long long)size);
            break;
        }
        ssize_t moved = ways[way](from, to, done, to_offset, part, buffer);
        if (moved > 0) {
            if (push) /* only a hint */
                (void)sync_file_range(to, (off_t)(to_offset + done), (off_t)moved, SYNC_FILE_RANGE_WRITE);
            done += (uint64_t)moved;
        } else if (way < LAST && (moved == 0 || is_refusal(errno))) {
            way++; /* some file systems say 0 for what they do not support */
        } else if (moved == 0) {
            status = stk_fail(err, STOKER_ERR_CORRUPT, "it ends at byte %llu, %llu bytes were to be copied",
                              (unsigned long long)done, (unsigned long long)size);
        } else if (errno != EINTR) {
            status = stk_fail_os(err, errno == ENOSPC || errno == EDQUOT ? STOKER_ERR_NO_SPACE : STOKER_ERR_IO, errno,
                                 "cannot copy %llu bytes from offset %llu", (unsigned long long)(size - done),
                                 (unsigned long long)done);
        }
    }
    free(buffer);
    return status;
}
