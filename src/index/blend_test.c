/* SPDX-License-Identifier: Apache-2.0 */
#include "index/blend.h"

#include <stdlib.h>

#include "index/blend_internal.h"
#include "tests/support/unit.h"

enum { MOST = 40000 };

static int16_t dataset[MOST], expected[MOST];
static int64_t sample[MOST], expected_sample[MOST];

static void blend(const double *weights, uint32_t datasets, uint64_t size)
{
    void *scratch = malloc(stk_blend_scratch_bytes(datasets));
    assert_non_null(scratch);
    memset(dataset, 0x55, sizeof dataset);
    stk_blend_sized(weights, datasets, size, dataset, sample, scratch);
    stk_blend_plain(weights, datasets, size, expected, expected_sample, scratch);
    assert_memory_equal(dataset, expected, size * sizeof *dataset);
    assert_memory_equal(sample, expected_sample, size * sizeof *sample);
    if (size < MOST) assert_int_equal(dataset[size], 0x5555);
    free(scratch);
}

static void test_the_furthest_behind_is_next(void **state)
{
    (void)state;
    static const int16_t order[] = {0, 1, 2, 0, 0, 1, 2, 0};
    static const int64_t samples[] = {0, 0, 0, 1, 2, 1, 1, 3};
    blend((const double[]){0.5, 0.25, 0.25}, 3, 8);
    assert_memory_equal(dataset, order, sizeof order);
    assert_memory_equal(sample, samples, sizeof samples);
}

/* With a fused multiply-add the errors at step 10 differ: 0.1 * 10 is not 1. */
static void test_products_are_rounded_before_the_difference(void **state)
{
    (void)state;
    static const int16_t order[] = {3, 2, 1, 0, 3, 2, 3, 1, 2, 3, 0, 3, 2, 1, 3, 2, 3, 1, 2, 3, 0, 3, 2, 1};
    blend((const double[]){0.1, 0.2, 0.3, 0.4}, 4, 24);
    for (int i = 0; i < 24; i++)
        if (dataset[i] != order[i]) fail_msg("position %d: dataset %d, expected %d", i, dataset[i], order[i]);
}

static void test_one_dataset_gives_all(void **state)
{
    (void)state;
    blend((const double[]){1.0}, 1, 1000);
    assert_true(dataset[999] == 0 && sample[999] == 999);
    blend((const double[]){1.0}, 1, 0);
}

static void test_equal_weights_take_turns(void **state)
{
    (void)state;
    static double weights[1000];
    for (int k = 0; k < 1000; k++) weights[k] = 1.0 / 1000;
    blend(weights, 1000, 5000);
    for (int i = 0; i < 5000; i++) assert_true(dataset[i] == i % 1000 && sample[i] == i / 1000);
}

static void test_weights_need_not_sum_to_one(void **state)
{
    (void)state;
    blend((const double[]){2.0, 1.0}, 2, 50);
    assert_int_equal(sample[49], 49); /* the first is always further behind */
    blend((const double[]){0.02, 0.01}, 2, 5000);
}

/* Weights for which errors do not rise, or no longer tell one sample from none: the rule decides. */
static void test_odd_weights_follow_the_rule(void **state)
{
    (void)state;
    blend((const double[]){0.0, 0.5, 0.0}, 3, 100);
    blend((const double[]){-1.0, -0.5}, 2, 100);
    blend((const double[]){1e20, 1e20, 3.0}, 3, 100);
    assert_int_equal(dataset[99], 0);
    blend((const double[]){4.9e-324, 1.0, 1e-300}, 3, 2000);
    blend((const double[]){__builtin_inf(), 1.0}, 2, 100);
    blend((const double[]){__builtin_nan(""), 1.0}, 2, 100);
}

static void test_the_most_datasets(void **state)
{
    (void)state;
    static double weights[32766];
    for (int k = 0; k < 32766; k++) weights[k] = 1.0 + (k * 7919 % 32766) * 1e-4;
    stk_weights_normalize(weights, 32766, weights);
    blend(weights, 32766, 300);
    for (int k = 0; k < 32766; k++) weights[k] = 1.0 / 32766;
    blend(weights, 32766, 300);
}

static void test_exhaustive_gives_each_sample_once(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {4, 1, 2, 4};
    static const int16_t order[] = {0, 3, 2, 1, 0, 3, 0, 3, 2, 0, 3};
    static const int64_t samples[] = {0, 0, 0, 0, 1, 1, 2, 2, 1, 3, 3};
    void *scratch = malloc(stk_blend_scratch_bytes(4));
    stk_blend_exhaustive(sizes, 4, dataset, sample, scratch);
    assert_memory_equal(dataset, order, sizeof order);
    assert_memory_equal(sample, samples, sizeof samples);
    stk_blend_exhaustive((const uint64_t[]){0, 0, 0, 0}, 4, dataset, sample, scratch);
    assert_memory_equal(dataset, order, sizeof order);
    stk_blend_exhaustive((const uint64_t[]){0, 3, 0, 0}, 4, dataset, sample, scratch);
    for (int i = 0; i < 3; i++) assert_true(dataset[i] == 1 && sample[i] == i);
    free(scratch);
}

static void test_sum_is_pairwise(void **state)
{
    (void)state;
    static double values[300];
    for (int i = 0; i < 300; i++) values[i] = 0.1;
    assert_true(stk_pairwise_sum(values, 0) == 0.0);
    assert_true(stk_pairwise_sum(values, 7) == 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1);
    assert_true(stk_pairwise_sum(values, 8) == 0.8);
    /* From left to right it would be 30.000000000000156. */
    assert_true(stk_pairwise_sum(values, 300) == 29.999999999999996);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_furthest_behind_is_next),
        cmocka_unit_test(test_products_are_rounded_before_the_difference),
        cmocka_unit_test(test_one_dataset_gives_all),
        cmocka_unit_test(test_equal_weights_take_turns),
        cmocka_unit_test(test_weights_need_not_sum_to_one),
        cmocka_unit_test(test_odd_weights_follow_the_rule),
        cmocka_unit_test(test_the_most_datasets),
        cmocka_unit_test(test_exhaustive_gives_each_sample_once),
        cmocka_unit_test(test_sum_is_pairwise),
    };
    return stk_run_tests(tests);
}
