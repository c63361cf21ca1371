/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/batch.h"

#include <stdio.h>

#include "tests/support/batching.h"
#include "tests/support/unit.h"

static struct batching plan;
static uint32_t ones[4096];
static uint64_t draws;

static int setup(void **state)
{
    (void)state;
    draws = 88172645463325252u;
    for (uint32_t i = 0; i < 4096; i++) ones[i] = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    batching_drop(&plan);
    return 0;
}

static uint64_t below(uint64_t bound)
{
    draws ^= draws << 13, draws ^= draws >> 7, draws ^= draws << 17;
    return (draws >> 16) % bound;
}

/* Gives these loads (falling) to the ranks; returns the largest sum. */
static uint64_t assign(const uint64_t *loads, uint32_t ranks, uint32_t rows)
{
    const stoker_batch_source source = {ones, NULL, 4096, 0};
    stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
    uint32_t list[64];
    options.ranks = ranks, options.cells = rows;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, &source, 1, &options, NULL), STOKER_OK);
    for (uint32_t i = 0; i < ranks * rows; i++) plan.planner->cells.load[i] = loads[i], plan.planner->rows[i] = i;
    for (uint32_t i = 0; i < rows; i++) list[i] = i;
    stk_batch_assign(plan.planner, list, rows, true);
    uint64_t most = 0;
    static uint8_t seen[4096];
    memset(seen, 0, sizeof seen);
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < rows; i++) {
            uint32_t cell = plan.planner->held[r * rows + i];
            assert_int_equal(seen[cell]++, 0); /* each cell once */
            sum += loads[cell];
        }
        assert_int_equal(sum, plan.planner->rank_load[r]);
        if (sum > most) most = sum;
    }
    return most;
}

static void test_one_rank_or_one_row_is_what_it_is(void **state)
{
    (void)state;
    const uint64_t loads[6] = {9, 7, 5, 3, 2, 1};
    assert_int_equal(assign(loads, 1, 6), 27);
    assert_int_equal(assign(loads, 6, 1), 9);
}

static void test_a_greedy_plan_is_improved(void **state)
{
    (void)state;
    const uint64_t loads[6] = {8, 7, 6, 5, 4, 3}; /* in rows: 8 5 4 and 7 6 3 */
    assert_int_equal(assign(loads, 2, 3), 17);
    const uint64_t pairs[4] = {4, 3, 2, 1};
    assert_int_equal(assign(pairs, 2, 2), 5);
    const uint64_t zeros[8] = {0};
    assert_int_equal(assign(zeros, 4, 2), 0);
}

/* Against search over all plans: never more than five percent above the optimum; the means are printed. */
static void test_within_5_percent_of_the_exact_optimum(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{2, 2}, {2, 4}, {2, 6}, {3, 3}, {3, 4}, {4, 2}, {4, 3}, {6, 2}, {4, 4}, {8, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint32_t ranks = sizes[s][0], rows = sizes[s][1];
        double sum = 0, worst = 0;
        for (uint32_t i = 0; i < 200; i++) {
            uint64_t loads[16];
            for (uint32_t k = 0; k < ranks * rows; k++)
                loads[k] = i % 3 == 0 ? 1 + below(10000) : i % 3 == 1 ? 100000 / (1 + below(50)) : 1 + below(20);
            qsort(loads, ranks * rows, sizeof loads[0], batching_falling);
            double ratio = (double)assign(loads, ranks, rows) / (double)batching_optimum(loads, ranks, rows);
            assert_true(ratio >= 1);
            sum += ratio;
            worst = ratio > worst ? ratio : worst;
        }
        printf("# %u ranks of %u: %.4f of the optimum, worst %.4f\n", ranks, rows, sum / 200, worst);
        assert_true(worst <= 1.05);
    }
}

/* Steps that are too large for a search are near what no plan can be below. */
static void test_large_steps_are_near_their_mean(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        static uint64_t loads[512];
        uint64_t sum = 0;
        for (uint32_t k = 0; k < 512; k++) sum += loads[k] = 200 + below(8000);
        qsort(loads, 512, sizeof loads[0], batching_falling);
        assert_true(assign(loads, 64, 8) * 64 * 100 <= sum * 101);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_rank_or_one_row_is_what_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_greedy_plan_is_improved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_within_5_percent_of_the_exact_optimum, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_steps_are_near_their_mean, setup, teardown),
    };
    return stk_run_tests(tests);
}
