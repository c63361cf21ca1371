/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "index/blend_internal.h"
#include "tests/support/unit.h"

enum { DATASETS = 200, SIZE = 10000 };

static double weights[DATASETS];
static int16_t dataset[SIZE], expected[SIZE];
static int64_t sample[SIZE], expected_sample[SIZE];
static char scratch[1 << 20] __attribute__((aligned(8)));

/* Registers for few slots, memory for many (stay_max: all stay awake), and batches of both with sleepers. */
static void check(uint32_t datasets)
{
    static const uint32_t stay[] = {0, 32, UINT32_MAX};
    stk_blend_plain(weights, datasets, SIZE, expected, expected_sample, scratch);
    for (int s = 0; s < 3; s++) {
        struct stk_blend_ways ways = stk_blend_wide;
        ways.stay_max = stay[s];
        stk_blend_sized_with(&ways, weights, datasets, SIZE, dataset, sample, scratch);
        assert_memory_equal(dataset, expected, sizeof dataset);
        assert_memory_equal(sample, expected_sample, sizeof sample);
    }
}

static void test_each_number_of_slots(void **state)
{
    (void)state;
    if (!stk_blend_is_wide()) STK_SKIP("no AVX2");
    for (uint32_t datasets = 1; datasets <= DATASETS; datasets += datasets < 70 ? 1 : 43) {
        for (uint32_t k = 0; k < datasets; k++) weights[k] = 1.0 + (k * 37 % 211) * 0.317;
        stk_weights_normalize(weights, datasets, weights);
        check(datasets);
    }
}

static void test_ties_go_to_the_lowest_number(void **state)
{
    (void)state;
    if (!stk_blend_is_wide()) STK_SKIP("no AVX2");
    for (uint32_t datasets = 2; datasets <= 128; datasets = datasets * 3 / 2) {
        for (uint32_t k = 0; k < datasets; k++) weights[k] = (double)(1 + k % 5) / 256;
        check(datasets);
        for (uint32_t k = 0; k < datasets; k++) weights[k] = (double)(datasets - k) / 4096;
        check(datasets);
    }
}

static void test_datasets_that_are_used_up_leave(void **state)
{
    (void)state;
    if (!stk_blend_is_wide()) STK_SKIP("no AVX2");
    for (uint32_t datasets = 1; datasets <= 150; datasets += 1 + datasets / 3) {
        uint64_t sizes[150], total = 0;
        struct stk_blend_ways plain = stk_blend_scalar;
        plain.stay_max = UINT32_MAX;
        for (uint32_t k = 0; k < datasets; k++) total += sizes[k] = k * k % 50;
        stk_blend_exhaustive_with(&plain, sizes, datasets, expected, expected_sample, scratch);
        for (uint32_t stay = 0; stay < 100; stay += 33) {
            struct stk_blend_ways ways = stk_blend_wide;
            ways.stay_max = stay;
            stk_blend_exhaustive_with(&ways, sizes, datasets, dataset, sample, scratch);
            assert_memory_equal(dataset, expected, total * sizeof *dataset);
            assert_memory_equal(sample, expected_sample, total * sizeof *sample);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_number_of_slots),
        cmocka_unit_test(test_ties_go_to_the_lowest_number),
        cmocka_unit_test(test_datasets_that_are_used_up_leave),
    };
    return stk_run_tests(tests);
}
