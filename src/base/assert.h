/* SPDX-License-Identifier: Apache-2.0
 *
 * Assertions that stay on in every build, and arithmetic that cannot wrap. A failed assertion is a bug of ours, never a
 * reaction to bad input: bad input gets an error object.
 */
#ifndef STK_BASE_ASSERT_H
#define STK_BASE_ASSERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Noreturn void stk_assert_failed(const char *condition, const char *file, int line);

#define STK_ASSERT(condition) ((condition) ? (void)0 : stk_assert_failed(#condition, __FILE__, __LINE__))

/* False, with *out untouched, if the result does not fit. For every size that comes from outside. */
static inline bool stk_add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

static inline bool stk_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

/* The smallest multiple of `alignment` (a power of two) that is not below `value`; the caller has bounded `value`. */
static inline uint64_t stk_align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

#endif
