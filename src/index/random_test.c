/* SPDX-License-Identifier: Apache-2.0 */
#include "index/random.h"

#include <stdlib.h>

#include "index/random_internal.h"
#include "tests/support/unit.h"

/* The definition: for i from the end, swap with a drawn position that is not after i. */
static void shuffle_plainly(struct stk_mt19937 *random, uint32_t *values, uint64_t count)
{
    for (uint64_t i = count; i-- > 1;) {
        uint64_t j = stk_mt19937_interval(random, i);
        uint32_t value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

static void test_stream_is_mt19937(void **state)
{
    (void)state;
    struct stk_mt19937 random;
    stk_mt19937_seed(&random, 5489);
    for (int i = 1; i < 10000; i++) (void)stk_mt19937_next(&random);
    assert_int_equal(stk_mt19937_next(&random), 4123659995u); /* the value that the standard of C++ names */
}

static void test_seeds_are_all_of_32_bits(void **state)
{
    (void)state;
    struct stk_mt19937 random;
    stk_mt19937_seed(&random, 0);
    assert_int_equal(stk_mt19937_next(&random), 2357136044u);
    stk_mt19937_seed(&random, UINT32_MAX);
    assert_int_equal(stk_mt19937_next(&random), 419326371u);
}

static void test_interval_of_one_value_draws_nothing(void **state)
{
    (void)state;
    struct stk_mt19937 random;
    stk_mt19937_seed(&random, 7);
    assert_int_equal(stk_mt19937_interval(&random, 0), 0);
    assert_int_equal(random.position, STK_MT_WORDS);
}

static void test_interval_beyond_32_bits_draws_the_high_half_first(void **state)
{
    (void)state;
    const uint64_t max = UINT64_C(0x0000001234567890), mask = UINT64_C(0x0000001FFFFFFFFF);
    struct stk_mt19937 random, words;
    stk_mt19937_seed(&random, 7);
    stk_mt19937_seed(&words, 7);
    for (int i = 0; i < 1000; i++) {
        uint64_t expected;
        do {
            expected = (uint64_t)stk_mt19937_next(&words) << 32;
            expected = (expected | stk_mt19937_next(&words)) & mask;
        } while (expected > max);
        assert_true(stk_mt19937_interval(&random, max) == expected);
    }
    assert_memory_equal(&random, &words, sizeof random);
    assert_true(stk_mt19937_interval(&random, UINT32_MAX) == stk_mt19937_next(&words));
}

static void test_shuffle_is_its_definition_and_leaves_its_state(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 3, 8, 9, 95, 96, 97, 98, 623, 1024, 1025, 1121, 2000, 70000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t count = (size_t)counts[c];
        struct stk_mt19937 plain, narrow, wide;
        uint32_t *expected = calloc(count + 1, sizeof *expected), *values = calloc(count + 1, sizeof *values);
        uint64_t *long_values = calloc(count + 1, sizeof *long_values);
        assert_true(expected && values && long_values);
        for (uint32_t i = 0; i < count; i++) long_values[i] = expected[i] = values[i] = i;
        stk_mt19937_seed(&plain, 99);
        narrow = wide = plain;
        shuffle_plainly(&plain, expected, count);
        stk_shuffle_32_with(stk_mt19937_draws, &narrow, values, count);
        stk_shuffle_64_with(stk_mt19937_draws, &wide, long_values, count);
        assert_memory_equal(values, expected, count * sizeof *values);
        for (size_t i = 0; i < count; i++) assert_true(long_values[i] == expected[i]);
        assert_memory_equal(&narrow, &plain, sizeof plain);
        assert_memory_equal(&wide, &plain, sizeof plain);
        free(expected);
        free(values);
        free(long_values);
    }
}

static void test_shuffle_goes_on_within_a_block(void **state)
{
    (void)state;
    uint32_t values[300], expected[300];
    struct stk_mt19937 random, plain;
    stk_mt19937_seed(&random, 3);
    plain = random;
    for (int times = 0; times < 50; times++) {
        for (uint32_t i = 0; i < 300; i++) values[i] = expected[i] = i;
        stk_mt19937_shuffle_32(&random, values, (uint64_t)(times * 6));
        shuffle_plainly(&plain, expected, (uint64_t)(times * 6));
        assert_memory_equal(values, expected, sizeof values);
        assert_memory_equal(&random, &plain, sizeof random);
    }
}

static void test_mock_lengths_are_those_of_numpy(void **state)
{
    (void)state;
    static const int32_t expected[] = {3484, 2609, 2094, 1105, 1261, 168, 309, 68, 718, 3331};
    int32_t lengths[10];
    stk_mock_lengths(lengths, 10);
    assert_memory_equal(lengths, expected, sizeof lengths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_is_mt19937),
        cmocka_unit_test(test_seeds_are_all_of_32_bits),
        cmocka_unit_test(test_interval_of_one_value_draws_nothing),
        cmocka_unit_test(test_interval_beyond_32_bits_draws_the_high_half_first),
        cmocka_unit_test(test_shuffle_is_its_definition_and_leaves_its_state),
        cmocka_unit_test(test_shuffle_goes_on_within_a_block),
        cmocka_unit_test(test_mock_lengths_are_those_of_numpy),
    };
    return stk_run_tests(tests);
}
