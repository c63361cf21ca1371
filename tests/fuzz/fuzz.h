/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzz target is: one parser of outside bytes. libFuzzer calls stk_fuzz_one() with what it invents; driver.c
 * calls it with each file of the corpus, so that the corpus is a plain test with any compiler. A target checks what it
 * can: that what is accepted is used within its bounds, and that writing it again gives the same bytes.
 */
#ifndef STK_TESTS_FUZZ_H
#define STK_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* True if the parser accepts the input; the driver compares this with the name of the file (valid_*, bad_*). */
int stk_fuzz_one(const uint8_t *data, size_t size);

/* A property of the parser that does not hold. Ends the program, as libFuzzer expects. */
#define STK_FUZZ_CHECK(condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
