/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "index/blend_internal.h"
#include "tests/support/unit.h"

enum { DATASETS = 400, SIZE = 20000 };

static double weights[DATASETS];
static int16_t dataset[SIZE], expected[SIZE];
static int64_t sample[SIZE], expected_sample[SIZE];
static char scratch[1 << 20] __attribute__((aligned(8)));

/* No entry may stay awake for being one of a few. */
static struct stk_blend_ways all_sleep(void)
{
    struct stk_blend_ways ways = stk_blend_scalar;
    ways.stay_max = 0;
    return ways;
}

static void check(uint32_t datasets)
{
    const struct stk_blend_ways ways = all_sleep();
    assert_true(stk_blend_scratch_bytes(datasets) <= sizeof scratch);
    stk_blend_plain(weights, datasets, SIZE, expected, expected_sample, scratch);
    stk_blend_sized_with(&ways, weights, datasets, SIZE, dataset, sample, scratch);
    assert_memory_equal(dataset, expected, sizeof dataset);
    assert_memory_equal(sample, expected_sample, sizeof sample);
}

static void test_sleepers_wake_in_time(void **state)
{
    (void)state;
    for (uint32_t datasets = 1; datasets <= DATASETS; datasets += datasets < 20 ? 1 : 95) {
        for (uint32_t k = 0; k < datasets; k++) weights[k] = 1.0 + (k * 37 % 101) * 0.317;
        stk_weights_normalize(weights, datasets, weights);
        check(datasets);
    }
}

/* Ties are many, so that the order among the awake and the asleep shows. */
static void test_ties_go_to_the_lowest_number(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 128; k++) weights[k] = (double)(1 + k % 4) / 320;
    check(128);
    for (uint32_t k = 0; k < 64; k++) weights[k] = (double)(k + 1) / 2048;
    check(64);
}

static void test_wakes_beyond_a_turn_of_the_ring(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 30; k++) weights[k] = k < 5 ? 0.2 : 1e-4 / (k + 1);
    check(30);
    for (uint32_t k = 0; k < 30; k++) weights[k] = k == 29 ? 1.0 : 1e-6 * (k + 1);
    check(30);
}

/* The largest error falls or rises without end if the weights do not sum to one: the threshold must follow. */
static void test_threshold_follows_a_drift(void **state)
{
    (void)state;
    static const double sums[] = {0.1, 0.9, 1.1, 30.0};
    for (int s = 0; s < 4; s++) {
        for (uint32_t k = 0; k < 100; k++) weights[k] = (1.0 + (k * 37 % 101) * 0.1) / 605 * sums[s];
        check(100);
    }
}

static void test_datasets_that_are_used_up_leave(void **state)
{
    (void)state;
    const struct stk_blend_ways ways = all_sleep();
    uint64_t sizes[60], seen[60] = {0}, total = 0;
    for (uint32_t k = 0; k < 60; k++) total += sizes[k] = k % 7 == 0 ? 0 : 1 + k * k % 50;
    stk_blend_exhaustive_with(&ways, sizes, 60, dataset, sample, scratch);
    for (uint64_t i = 0; i < total; i++) assert_true(sample[i] == (int64_t)seen[dataset[i]]++);
    for (uint32_t k = 0; k < 60; k++) assert_int_equal(seen[k], sizes[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sleepers_wake_in_time),           cmocka_unit_test(test_ties_go_to_the_lowest_number),
        cmocka_unit_test(test_wakes_beyond_a_turn_of_the_ring), cmocka_unit_test(test_threshold_follows_a_drift),
        cmocka_unit_test(test_datasets_that_are_used_up_leave),
    };
    return stk_run_tests(tests);
}
