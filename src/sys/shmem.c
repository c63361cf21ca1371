/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared segments: see shmem.h. Every page is there before a descriptor leaves this file, and seals (or, in a
 * directory, the size check at mapping) keep it so: that is what turns the SIGBUS of an overcommitted segment into an
 * error at creation.
 *
 * A file in a directory is unlinked from the start, so that even SIGKILL leaves the directory empty.
 */
#include "sys/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

#define SEGMENT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define BLOB_SEALS (SEGMENT_SEALS | F_SEAL_WRITE)
enum { INTERRUPTED_STEP_BYTES = 1 << 20 };

static const char no_space_hint[] = "lower max_bytes, or choose another directory (shm_dir, STOKER_SHM_DIR)";

static stoker_status fail_no_descriptor(int os_error, stoker_error *err)
{
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_NOFILE, &limit); /* zero in the text is the worst that can come of it */
    return stk_fail_os(err, STOKER_ERR_LIMIT, os_error,
                       "no free descriptor for shared memory: raise ulimit -n, now %llu, or keep fewer batches",
                       (unsigned long long)limit.rlim_cur);
}

static stoker_status open_memfd(const char *name, int *out_fd, stoker_error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0) {
        *out_fd = fd;
        return STOKER_OK;
    }
    if (errno == EMFILE || errno == ENFILE) return fail_no_descriptor(errno, err);
    return stk_fail_os(err, errno == ENOMEM ? STOKER_ERR_NO_MEMORY : STOKER_ERR_IO, errno,
                       "cannot create shared memory");
}

static stoker_status open_in_directory(const char *directory, int *out_fd, stoker_error *err)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) { /* a filesystem without O_TMPFILE */
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/.stoker-XXXXXX", directory);
        if (length < 0 || (size_t)length >= sizeof path)
            return stk_fail(err, STOKER_ERR_LIMIT, "the name of directory '%s' is too long", directory);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0 && unlink(path) != 0) {
            int os_error = errno;
            (void)close(fd);
            return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot unlink '%s'", path);
        }
    }
    if (fd >= 0) {
        *out_fd = fd;
        return STOKER_OK;
    }
    if (errno == EMFILE || errno == ENFILE) return fail_no_descriptor(errno, err);
    /* A folder that is not there is a fault of the machine's setting: NOT_FOUND would look like a missing sample. */
    stoker_status status = errno == ENOSPC || errno == EDQUOT ? STOKER_ERR_NO_SPACE : STOKER_ERR_IO;
    return stk_fail_os(err, status, errno, "cannot create shared memory in directory '%s' (shm_dir, STOKER_SHM_DIR)",
                       directory);
}

/* Free bytes of the directory's filesystem; UINT64_MAX when it states no bound (a tmpfs without a size). */
static uint64_t directory_room(int fd)
{
    struct statfs info;
    uint64_t room;
    if (fstatfs(fd, &info) != 0 || info.f_blocks == 0) return UINT64_MAX;
    if (__builtin_mul_overflow((uint64_t)info.f_bavail, (uint64_t)info.f_bsize, &room)) return UINT64_MAX;
    return room;
}

static stoker_status fail_no_space(const char *directory, uint64_t needed, uint64_t available, stoker_error *err)
{
    const double mib = 1 << 20;
    return stk_fail(err, STOKER_ERR_NO_SPACE, "%.1f MiB needed, %.1f MiB available in directory '%s': %s",
                    (double)needed / mib, (double)available / mib, directory, no_space_hint);
}

/* A tmpfs takes memory, any other filesystem only space. */
static bool takes_memory(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) != 0 || info.f_type == TMPFS_MAGIC;
}

static stoker_status reserve(int fd, const char *directory, size_t size, stoker_error *err)
{
    bool memory = !directory || takes_memory(fd);
    size_t step = STK_RESERVE_STEP_BYTES;
    for (size_t done = 0; done < size;) {
        /* The whole rest is compared each time: a refusal that is certain comes before memory is taken from others. */
        if (memory) STK_TRY(stk_memory_room(size - done, NULL, NULL, err));
        if (directory) {
            uint64_t room = directory_room(fd);
            if (room < size - done) return fail_no_space(directory, size - done, room, err);
        }
        size_t part = size - done < step ? size - done : step;
        int failed = posix_fallocate(fd, (off_t)done, (off_t)part);
        if (failed == 0) {
            done += part;
        } else if (failed == EINTR) {
            step = INTERRUPTED_STEP_BYTES; /* the kernel undid the step: a profiler's timer must not stop us for ever */
        } else if (failed == EFBIG) {
            return stk_fail_os(
                err, STOKER_ERR_LIMIT, failed,
                "cannot reserve %zu bytes of shared memory: raise the limit of file sizes (ulimit -f), or "
                "lower max_bytes",
                size);
        } else if (failed == ENOSPC && directory) {
            return fail_no_space(directory, size - done, directory_room(fd), err);
        } else {
            return stk_fail_os(err, failed == ENOSPC || failed == ENOMEM ? STOKER_ERR_NO_MEMORY : STOKER_ERR_IO, failed,
                               "cannot reserve %zu bytes of shared memory: lower max_bytes or num_workers", size);
        }
    }
    return STOKER_OK;
}

stoker_status stk_shmem_create(const char *directory, size_t size, int *out_fd, stoker_error *err)
{
    STK_ASSERT(size > 0);
    if (size > (size_t)INT64_MAX / 2)
        return stk_fail(err, STOKER_ERR_LIMIT, "a segment of %zu bytes is past any machine", size);
    int fd = -1;
    STK_TRY(directory ? open_in_directory(directory, &fd, err) : open_memfd("stoker", &fd, err));
    stoker_status status = reserve(fd, directory, size, err);
    if (status == STOKER_OK && !directory && fcntl(fd, F_ADD_SEALS, SEGMENT_SEALS) != 0)
        status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot seal shared memory");
    if (status != STOKER_OK) {
        (void)close(fd); /* the file goes with it */
        return status;
    }
    *out_fd = fd;
    return STOKER_OK;
}

stoker_status stk_shmem_punch(int fd, size_t size, stoker_error *err)
{
    while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size) != 0) {
        if (errno == EINTR) continue;
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot give back %zu bytes of shared memory", size);
    }
    return STOKER_OK;
}

/* The seals of a memfd. Files of a tmpfs answer F_GET_SEALS too, so the name decides what the descriptor is. */
static bool is_memfd(int fd)
{
    char link[64], target[16];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target);
    return length >= 7 && memcmp(target, "/memfd:", 7) == 0;
}

static stoker_status stat_size(int fd, uint64_t *out_size, stoker_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot stat a shared segment");
    if (!S_ISREG(info.st_mode)) return stk_fail(err, STOKER_ERR_MISMATCH, "a shared segment is not a regular file");
    *out_size = (uint64_t)info.st_size;
    return STOKER_OK;
}

stoker_status stk_shmem_map(int fd, size_t size, int dont_fork, void **out_address, stoker_error *err)
{
    uint64_t found = 0;
    STK_TRY(stat_size(fd, &found, err));
    if (found != size || size == 0)
        return stk_fail(err, STOKER_ERR_MISMATCH, "a shared segment has %llu bytes, %zu were announced",
                        (unsigned long long)found, size);
    if (is_memfd(fd)) {
        int seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
            return stk_fail(err, STOKER_ERR_MISMATCH, "a shared segment is not sealed against shrinking (seals %d)",
                            seals);
    }
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        return stk_fail_os(err, errno == ENOMEM ? STOKER_ERR_NO_MEMORY : STOKER_ERR_IO, errno,
                           "cannot map a shared segment of %zu bytes", size);
    if (dont_fork && madvise(address, size, MADV_DONTFORK) != 0) {
        int os_error = errno;
        (void)munmap(address, size);
        return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot keep a shared segment out of forked children");
    }
    (void)madvise(address, size, MADV_DONTDUMP); /* payload of a training run has no use in a core file */
    *out_address = address;
    return STOKER_OK;
}

void stk_shmem_unmap(void *address, size_t size)
{
    if (!address) return;
    int failed = munmap(address, size);
    STK_ASSERT(failed == 0);
}

static stoker_status write_all(int fd, const char *data, size_t size, stoker_error *err)
{
    for (size_t done = 0; done < size;) {
        size_t part = size - done < STK_RESERVE_STEP_BYTES ? size - done : STK_RESERVE_STEP_BYTES;
        STK_TRY(stk_memory_room(size - done, NULL, NULL, err));
        ssize_t wrote = write(fd, data + done, part);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0)
            return stk_fail_os(err, STOKER_ERR_NO_MEMORY, errno, "cannot write %zu bytes to shared memory", size);
        done += (size_t)wrote;
    }
    return STOKER_OK;
}

stoker_status stk_shmem_blob_create(const void *data, size_t size, int *out_fd, stoker_error *err)
{
    int fd = -1;
    STK_TRY(open_memfd("stoker-blob", &fd, err));
    stoker_status status = write_all(fd, data, size, err);
    if (status == STOKER_OK && fcntl(fd, F_ADD_SEALS, BLOB_SEALS) != 0)
        status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot seal shared memory");
    if (status != STOKER_OK) {
        (void)close(fd); /* the memory goes with it */
        return status;
    }
    *out_fd = fd;
    return STOKER_OK;
}

stoker_status stk_shmem_blob_map(int fd, const void **out_data, size_t *out_size, stoker_error *err)
{
    static const char nothing[1]; /* an empty file cannot be mapped */
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & BLOB_SEALS) != BLOB_SEALS)
        return stk_fail(err, STOKER_ERR_MISMATCH, "a blob is not sealed (seals %d, needed %d)", seals, BLOB_SEALS);
    uint64_t size = 0;
    STK_TRY(stat_size(fd, &size, err));
    if (size == 0) {
        *out_data = nothing;
        *out_size = 0;
        return STOKER_OK;
    }
    /* Private, because kernels before 6.7 refuse a shared mapping of a write-sealed file even for reading. */
    void *address = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED)
        return stk_fail_os(err, errno == ENOMEM ? STOKER_ERR_NO_MEMORY : STOKER_ERR_IO, errno,
                           "cannot map a blob of %llu bytes", (unsigned long long)size);
    *out_data = address;
    *out_size = size;
    return STOKER_OK;
}

void stk_shmem_blob_unmap(const void *data, size_t size)
{
    if (!data || size == 0) return;
    int failed = munmap((void *)(uintptr_t)data, size);
    STK_ASSERT(failed == 0);
}
