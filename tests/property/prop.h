/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame of every property test: runs laws over seeded inputs and prints the seed of a failure. Seeds that failed once
 * are lines "law seed" of seeds.txt and run first, for ever.
 *
 *     <test>                       the default number of seeds
 *     <test> COUNT [FIRST [LAW]]   COUNT seeds from FIRST on, of all laws or of one; "1 SEED" repeats one failure
 */
#ifndef STK_TESTS_PROP_H
#define STK_TESTS_PROP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prop {
    const char *name;
    void (*run_fn)(uint64_t seed);
    uint32_t seeds; /* by default */
};

/* TAP, one line a law; the exit status of the program. */
int prop_main(const struct prop *props, size_t count, int argc, char **argv);

/* Ends this seed as failed. */
_Noreturn void prop_fail(const char *condition, const char *file, int line);
#define PROP_CHECK(condition) ((condition) ? (void)0 : prop_fail(#condition, __FILE__, __LINE__))

/* xorshift64*: same numbers on every machine. */
struct prop_random {
    uint64_t state;
};
struct prop_random prop_seed(uint64_t seed);
uint64_t prop_next(struct prop_random *random);
/* 0 ... bound - 1 */
uint32_t prop_below(struct prop_random *random, uint32_t bound);
/* True once in `n` times. */
bool prop_once_in(struct prop_random *random, uint32_t n);

#endif
