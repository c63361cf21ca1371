/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/batch.h"

#include "tests/support/batching.h"
#include "tests/support/unit.h"

static uint32_t tokens[1024], shapes[1024];
static struct batching plan;

static int teardown(void **state)
{
    (void)state;
    batching_drop(&plan);
    return 0;
}

static void next(uint32_t count, uint32_t ranks, uint32_t cells)
{
    const stoker_batch_source source = {tokens, shapes, count, 0};
    stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
    options.ranks = ranks, options.cells = cells, options.shape_count = 4, options.window_samples = count;
    options.pool_samples = 1;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, &source, 1, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
}

/* 16 samples of each of four shapes, 8 ranks, one each: every step is of one shape, and no rank waits. */
static void test_ranks_get_alike_samples(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 64; i++) shapes[i] = i / 16, tokens[i] = 10u << (3 * shapes[i]);
    next(64, 8, 1);
    const stoker_batch_window *w = &plan.window;
    assert_int_equal(w->steps, 8);
    for (uint32_t t = 0; t < 8; t++)
        for (uint32_t r = 1; r < 8; r++) assert_int_equal(w->loads[t * 8 + r], w->loads[t * 8]);
}

/* 20, 20, 12 and 12: one row of mixed shapes is left, of neighbours in load; all other steps are even. */
static void test_what_is_left_shares_as_few_rows_as_it_can(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        shapes[i] = i < 20 ? 0 : i < 40 ? 1 : i < 52 ? 2 : 3;
        tokens[i] = 10u << (3 * shapes[i]);
    }
    next(64, 8, 1);
    uint32_t uneven = 0;
    for (uint32_t t = 0; t < plan.window.steps; t++)
        uneven += batching_most(&plan.window, t) * 8 != batching_sum(&plan.window, t);
    assert_int_equal(uneven, 2); /* 4 + 4 of the two dear shapes, 4 + 4 of the two cheap ones */
}

/* Two shapes in equal parts and two samples a rank: no step is of one shape only. */
static void test_steps_are_mixed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1024; i++) shapes[i] = i & 1, tokens[i] = shapes[i] ? 1000 : 10;
    next(1024, 8, 2);
    assert_int_equal(plan.window.steps, 64);
    for (uint32_t t = 0; t < 64; t++) assert_int_equal(batching_sum(&plan.window, t), 8 * 1010);
}

/* Over many steps no rank gets more than another. */
static void test_no_rank_is_favoured(void **state)
{
    (void)state;
    uint64_t sums[4] = {0};
    for (uint32_t i = 0; i < 1024; i++) shapes[i] = 0, tokens[i] = i % 7 == 0 ? 5000 : 1 + i;
    next(1024, 4, 1);
    for (uint32_t t = 0; t < plan.window.steps; t++)
        for (uint32_t r = 0; r < 4; r++) sums[r] += plan.window.loads[t * 4 + r];
    for (uint32_t r = 1; r < 4; r++) {
        assert_true(sums[r] * 100 < sums[0] * 103);
        assert_true(sums[0] * 100 < sums[r] * 103);
    }
}

/* One sample is as dear as 40 others: its step takes the rows of the next dearest ones, so that the others do not wait
 * for it; apart from that all is mixed. */
static void test_a_dear_sample_gets_dear_company(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) shapes[i] = 0, tokens[i] = i % 4 == 0 ? 1000 : 100;
    tokens[17] = 4000;
    next(256, 4, 4);
    uint64_t most = 0, sum = 0;
    for (uint32_t t = 0; t < plan.window.steps; t++) {
        most += batching_most(&plan.window, t) * 4;
        sum += batching_sum(&plan.window, t);
    }
    assert_true(most * 100 <= sum * 106); /* 1.17 without the exchange */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_ranks_get_alike_samples, teardown),
        cmocka_unit_test_teardown(test_what_is_left_shares_as_few_rows_as_it_can, teardown),
        cmocka_unit_test_teardown(test_steps_are_mixed, teardown),
        cmocka_unit_test_teardown(test_no_rank_is_favoured, teardown),
        cmocka_unit_test_teardown(test_a_dear_sample_gets_dear_company, teardown),
    };
    return stk_run_tests(tests);
}
