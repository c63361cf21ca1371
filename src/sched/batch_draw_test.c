/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/batch.h"

#include "tests/support/batching.h"
#include "tests/support/unit.h"

static uint32_t tokens[2000], shapes[2000];
static struct batching plan;

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2000; i++) tokens[i] = 1 + i % 100, shapes[i] = i % 10 == 0 ? 2 : i % 10 < 4 ? 1 : 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    batching_drop(&plan);
    return 0;
}

static void make(const stoker_batch_source *sources, size_t count, uint32_t window)
{
    stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
    options.ranks = 1, options.window_samples = window, options.shape_count = 3, options.seed = 5;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, sources, count, &options, NULL), STOKER_OK);
}

/* Shapes have shares of 0.6, 0.3 and 0.1: 15 samples hold 9, 4 or 5, and 1 or 2. */
static void test_windows_hold_shares_within_one_and_make_up_for_them(void **state)
{
    (void)state;
    const stoker_batch_source source = {tokens, shapes, 2000, 0};
    make(&source, 1, 15);
    uint32_t held[3] = {0};
    for (uint32_t window = 0; window < 100; window++) {
        uint32_t before[3] = {held[0], held[1], held[2]};
        plan.planner->pool_count = 0;
        assert_int_equal(stk_batch_draw(plan.planner, NULL), STOKER_OK);
        assert_int_equal(plan.planner->pool_count, 15);
        for (uint32_t i = 0; i < 15; i++) held[plan.planner->pool_shape[i]]++;
        assert_in_range(held[0] - before[0], 9, 10);
        assert_in_range(held[1] - before[1], 4, 5);
        assert_in_range(held[2] - before[2], 1, 2);
        for (uint32_t g = 0; g < 3; g++) { /* what was rounded away does not pile up */
            static const uint32_t tenths[3] = {6, 3, 1};
            int32_t apart = (int32_t)(10 * held[g]) - (int32_t)(tenths[g] * 15 * (window + 1));
            assert_true(apart > -20 && apart < 20);
        }
    }
}

/* Inside a window each shape is spread: of 100 neighbours about 60, 30 and 10. */
static void test_a_part_of_a_window_is_mixed_too(void **state)
{
    (void)state;
    const stoker_batch_source source = {tokens, shapes, 2000, 0};
    make(&source, 1, 2000);
    assert_int_equal(stk_batch_draw(plan.planner, NULL), STOKER_OK);
    for (uint32_t first = 0; first + 100 <= 2000; first += 50) {
        uint32_t held[3] = {0};
        for (uint32_t i = first; i < first + 100; i++) held[plan.planner->pool_shape[i]]++;
        assert_in_range(held[0], 59, 61);
        assert_in_range(held[1], 29, 31);
        assert_in_range(held[2], 9, 11);
    }
}

/* Weights 2 to 1: every third sample comes from the second source, from the first window on. */
static void test_sources_are_drawn_by_exact_greedy_order(void **state)
{
    (void)state;
    const stoker_batch_source sources[2] = {{tokens, shapes, 1000, 2}, {tokens, shapes, 1000, 1}};
    make(sources, 2, 8);
    uint32_t drawn[2] = {0};
    for (uint32_t window = 0; window < 100; window++) {
        plan.planner->pool_count = 0;
        assert_int_equal(stk_batch_draw(plan.planner, NULL), STOKER_OK);
        for (uint32_t i = 0; i < 8; i++) drawn[plan.planner->pool[i] >= 1000]++;
        int32_t apart = (int32_t)(3 * drawn[1]) - (int32_t)(8 * (window + 1));
        assert_true(apart >= -2 && apart <= 2);
    }
}

static void test_ids_find_their_source(void **state)
{
    (void)state;
    const stoker_batch_source sources[3] = {{tokens, shapes, 7, 0}, {tokens, shapes, 1, 0}, {tokens, shapes, 20, 0}};
    make(sources, 3, 8);
    uint32_t index;
    assert_int_equal(stk_batch_find(plan.planner, 6, &index)->count, 7);
    assert_int_equal(index, 6);
    assert_int_equal(stk_batch_find(plan.planner, 7, &index)->count, 1);
    assert_int_equal(index, 0);
    assert_int_equal(stk_batch_find(plan.planner, 27, &index)->count, 20);
    assert_int_equal(index, 19);
}

static void test_epochs_and_seeds_have_other_orders(void **state)
{
    (void)state;
    const stoker_batch_source source = {tokens, shapes, 2000, 0};
    static uint32_t order[3][2000];
    for (uint32_t run = 0; run < 3; run++) {
        stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
        options.ranks = 1, options.window_samples = 2000, options.shape_count = 3;
        options.seed = run == 1, options.epoch = run == 2;
        batching_drop(&plan);
        assert_int_equal(batching_make(&plan, &source, 1, &options, NULL), STOKER_OK);
        assert_int_equal(stk_batch_draw(plan.planner, NULL), STOKER_OK);
        memcpy(order[run], plan.planner->pool, sizeof order[run]);
    }
    uint32_t same[2] = {0};
    for (uint32_t i = 0; i < 2000; i++) same[0] += order[0][i] == order[1][i], same[1] += order[0][i] == order[2][i];
    assert_in_range(same[0], 0, 40);
    assert_in_range(same[1], 0, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_windows_hold_shares_within_one_and_make_up_for_them, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_part_of_a_window_is_mixed_too, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sources_are_drawn_by_exact_greedy_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ids_find_their_source, setup, teardown),
        cmocka_unit_test_setup_teardown(test_epochs_and_seeds_have_other_orders, setup, teardown),
    };
    return stk_run_tests(tests);
}
