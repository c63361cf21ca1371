/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts and fails the allocations of the code under test. A program that uses it is linked with --wrap for each (see
 * src/plane/meson.build): every call of malloc, calloc, realloc and aligned_alloc in its objects comes through here.
 */
#ifndef STK_TESTS_ALLOCATIONS_H
#define STK_TESTS_ALLOCATIONS_H

#include <stdint.h>

/* Allocations of all threads since the start. */
uint64_t allocations_count(void);
/* The n-th allocation from now on of the calling thread fails, once; 0: none does. */
void allocations_fail(uint64_t n);
/* Did the one that was asked for last? */
int allocations_failed(void);

#endif
