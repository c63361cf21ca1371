/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as memory: see filemap.h.
 */
#include "sys/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

/* Below this size huge pages save nothing. */
#define HUGE_BYTES_MIN ((size_t)4 << 20)

static stoker_status fail_map(int os_error, size_t size, stoker_error *err)
{
    if (os_error == ENOMEM)
        return stk_fail_os(err, STOKER_ERR_LIMIT, os_error,
                           "cannot map %zu bytes: too many mappings (raise vm.max_map_count) or no address space left",
                           size);
    return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot map %zu bytes", size);
}

static void advise_huge(void *data, size_t size)
{
    if (size >= HUGE_BYTES_MIN) (void)madvise(data, size, MADV_HUGEPAGE); /* a hint: without it all works, slower */
}

void stk_filemap_hint_huge(void *data, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)data % page) % page;
    if (size > before) advise_huge((uint8_t *)data + before, (size - before) / page * page);
}

stoker_status stk_filemap_read(int fd, size_t size, const void **out_data, stoker_error *err)
{
    STK_ASSERT(size > 0);
    void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return fail_map(errno, size, err);
    advise_huge(data, size);
    *out_data = data;
    return STOKER_OK;
}

static int reserve(int fd, size_t size)
{
    int os_error;
    if (size > (size_t)INT64_MAX) return EFBIG;
    if (ftruncate(fd, (off_t)size) != 0) return errno;
    do os_error = posix_fallocate(fd, 0, (off_t)size);
    while (os_error == EINTR);
    return os_error;
}

stoker_status stk_filemap_create(int fd, size_t size, void **out_data, stoker_error *err)
{
    STK_ASSERT(size > 0);
    int os_error = reserve(fd, size);
    if (os_error != 0)
        return stk_fail_os(err, os_error == ENOSPC || os_error == EDQUOT ? STOKER_ERR_NO_SPACE : STOKER_ERR_IO,
                           os_error, "cannot reserve %zu bytes", size);
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return fail_map(errno, size, err);
    advise_huge(data, size);
    *out_data = data;
    return STOKER_OK;
}

stoker_status stk_filemap_memory(size_t size, void **out_data, stoker_error *err)
{
    STK_ASSERT(size > 0);
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return stk_fail_os(err, STOKER_ERR_NO_MEMORY, errno, "no memory for %zu bytes", size);
    advise_huge(data, size);
    *out_data = data;
    return STOKER_OK;
}

void stk_filemap_forget(void *data, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)data, end = first + size;
    uintptr_t skipped = (page - first % page) % page;
    if (skipped + page > size) return;
    first += skipped;
    (void)madvise((uint8_t *)data + skipped, end / page * page - first, MADV_DONTNEED); /* only a hint */
}

void stk_filemap_seal(void *data, size_t size) { (void)mprotect(data, size, PROT_READ); /* a guard, not a need */ }

void stk_filemap_close(const void *data, size_t size)
{
    if (data) STK_ASSERT(munmap((void *)(uintptr_t)data, size) == 0);
}
