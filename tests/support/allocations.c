/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers that the linker puts before the allocator; see allocations.h.
 */
#include "tests/support/allocations.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_uint_fast64_t total;
static _Thread_local uint64_t until_failure;
static _Thread_local int has_failed;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

uint64_t allocations_count(void) { return atomic_load(&total); }

void allocations_fail(uint64_t n)
{
    until_failure = n;
    if (n > 0) has_failed = 0;
}

int allocations_failed(void) { return has_failed; }

static int fails(void)
{
    atomic_fetch_add(&total, 1);
    if (until_failure == 0 || --until_failure > 0) return 0;
    return has_failed = 1;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }

void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}
