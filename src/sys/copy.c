/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from file to file: see copy.h. Where files can share blocks, copy_file_range copies nothing at all. Elsewhere
 * it moves page by page through a pipe; writing from a mapping of the source, whose pages are looked up in one call,
 * into blocks that were reserved in one call takes two thirds of its time (measured on ext4). Reading and writing is
 * what always works.
 */
#include "sys/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; EINVAL before */
#endif

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

/* A source that is cut meanwhile is no SIGBUS here: the kernel reads the mapping, and says EFAULT. */
static ssize_t step_mapped(int from, int to, uint64_t done, uint64_t to_offset, size_t size, void *buffer)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skipped = (size_t)(done % page);
    struct stat facts;
    (void)buffer;
    if (fstat(from, &facts) != 0) return -1;
    if (facts.st_size < 0 || (uint64_t)facts.st_size <= done) return 0;
    if ((uint64_t)facts.st_size - done < size) size = (size_t)((uint64_t)facts.st_size - done); /* zeros follow */
    uint8_t *data = mmap(NULL, skipped + size, PROT_READ, MAP_SHARED, from, (off_t)(done - skipped));
    if (data == MAP_FAILED) return -1;
    (void)madvise(data, skipped + size, MADV_POPULATE_READ); /* a hint */
    ssize_t wrote = pwrite(to, data + skipped, size, (off_t)(to_offset + done));
    int os_error = errno;
    if (wrote > 0 && (fstat(from, &facts) != 0 || (uint64_t)facts.st_size < done + (uint64_t)wrote))
        wrote = 0;                      /* it was cut meanwhile: the end may be zeros that were never in it */
    (void)munmap(data, skipped + size); /* it cannot fail for what was mapped */
    errno = os_error;
    return wrote;
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
           os_error == EPERM || os_error == EBADF || os_error == EOVERFLOW || os_error == ETXTBSY ||
           os_error == ENODEV || os_error == EACCES || os_error == ENOMEM || os_error == EFAULT;
}

/* File systems whose copies share blocks, or are made by a server. */
static bool may_share_blocks(int to)
{
    struct statfs facts;
    if (fstatfs(to, &facts) != 0) return false;
    switch ((uint32_t)facts.f_type) {
    case 0x9123683e: /* btrfs */
    case 0x58465342: /* XFS */
    case 0xca451a4e: /* bcachefs */
    case 0x2fc12fc1: /* ZFS */
    case 0x7461636f: /* OCFS2 */
    case 0x6969:     /* NFS */
    case 0xff534d42: /* CIFS */
    case 0xfe534d42: /* SMB2 */
    case 0x00c36400: /* Ceph */ return true;
    default: return false;
    }
}

/* In one piece on the disk, and a disk that is too full is noticed now. Errors other than that say nothing. */
static stoker_status reserve(int from, int to, uint64_t to_offset, uint64_t size, stoker_error *err)
{
    struct stat facts;
    if (fstat(from, &facts) != 0 || facts.st_size <= 0) return STOKER_OK;
    if (size > (uint64_t)facts.st_size) size = (uint64_t)facts.st_size; /* it ends before: the copy says so */
    if (size == 0 || fallocate(to, FALLOC_FL_KEEP_SIZE, (off_t)to_offset, (off_t)size) == 0) return STOKER_OK;
    if (errno != ENOSPC && errno != EDQUOT) return STOKER_OK;
    return stk_fail_os(err, STOKER_ERR_NO_SPACE, errno, "cannot reserve %llu bytes", (unsigned long long)size);
}

stoker_status stk_copy_bytes(int from, int to, uint64_t to_offset, uint64_t size, bool push, const atomic_bool *stop,
                             stoker_error *err)
{
    static step_fn *const ways[] = {step_range, step_mapped, step_buffer};
    enum { LAST = sizeof ways / sizeof ways[0] - 1 };
    void *buffer = NULL;
    size_t way = may_share_blocks(to) ? 0 : 1;
    stoker_status status = STOKER_OK;
    if (size > INT64_MAX || to_offset > INT64_MAX - size)
        return stk_fail(err, STOKER_ERR_LIMIT, "the file would be larger than any file");
    if (way > 0) status = reserve(from, to, to_offset, size, err);
    for (uint64_t done = 0; done < size && status == STOKER_OK;) {
        size_t part = size - done < STEP_BYTES ? (size_t)(size - done) : STEP_BYTES;
        if (stop && atomic_load_explicit(stop, memory_order_relaxed)) { /* nothing else is handed over with it */
            status = stk_fail(err, STOKER_ERR_CANCELED, "stopped at byte %llu of %llu", (unsigned long long)done,
                              (unsigned long long)size);
            break;
        }
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
