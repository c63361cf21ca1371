/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/batch.h"

#include "tests/support/batching.h"
#include "tests/support/unit.h"

static uint32_t tokens[200], shapes[200];
static struct batching plan;

static int teardown(void **state)
{
    (void)state;
    batching_drop(&plan);
    return 0;
}

/* The pool holds all samples in order, so that places are ids. */
static struct stk_batch_cells *fill(uint32_t count, uint32_t multiple, uint32_t most, uint32_t flags)
{
    static uint32_t ids[200];
    const stoker_batch_source source = {tokens, shapes, count, 0};
    stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
    options.ranks = multiple, options.budget_tokens = 100, options.budget_samples = most, options.shape_count = 4;
    options.flags = flags, options.pool_samples = 200;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, &source, 1, &options, NULL), STOKER_OK);
    for (uint32_t i = 0; i < count; i++) ids[i] = i;
    assert_int_equal(stoker_batch_open(plan.planner, ids, count, NULL), STOKER_OK);
    stk_batch_fill(plan.planner, count, multiple);
    return &plan.planner->cells;
}

static uint64_t sum_of(const struct stk_batch_cells *cells, uint32_t cell)
{
    uint64_t sum = 0;
    for (uint32_t place = cells->head[cell]; place != STK_BATCH_END; place = cells->next[place]) sum += tokens[place];
    return sum;
}

static void set(uint32_t from, uint32_t count, uint32_t length, uint32_t shape)
{
    for (uint32_t i = from; i < from + count; i++) tokens[i] = length, shapes[i] = shape;
}

static void test_fills_micro_batches_to_the_budget(void **state)
{
    (void)state;
    set(0, 4, 60, 0);
    set(4, 4, 40, 0);
    struct stk_batch_cells *cells = fill(8, 1, 0, 0);
    assert_int_equal(cells->count, 4);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(sum_of(cells, i), 100);
}

static void test_shapes_share_no_micro_batch_unless_asked_for(void **state)
{
    (void)state;
    set(0, 2, 50, 0);
    set(2, 1, 50, 1);
    set(3, 1, 50, 3);
    assert_int_equal(fill(4, 1, 0, 0)->count, 3);
    assert_int_equal(fill(4, 1, 0, STOKER_BATCH_MIX_SHAPES)->count, 2);
}

static void test_a_sample_over_the_budget_is_alone(void **state)
{
    (void)state;
    set(0, 1, 4000, 0);
    set(1, 3, 1, 0);
    struct stk_batch_cells *cells = fill(4, 1, 0, 0);
    assert_int_equal(cells->count, 2);
    assert_int_equal(cells->samples[0], 1);
    assert_int_equal(cells->samples[1], 3);
}

static void test_at_most_so_many_samples(void **state)
{
    (void)state;
    set(0, 20, 1, 0);
    struct stk_batch_cells *cells = fill(20, 1, 7, 0);
    assert_int_equal(cells->count, 3);
    for (uint32_t i = 0; i < 3; i++) assert_true(cells->samples[i] <= 7);
}

/* Three full micro-batches for eight ranks: the dearest are halved, and none is empty. */
static void test_splits_before_it_pads(void **state)
{
    (void)state;
    set(0, 30, 10, 0);
    struct stk_batch_cells *cells = fill(30, 8, 0, 0);
    uint32_t held = 0;
    assert_int_equal(cells->count, 8);
    assert_int_equal(plan.planner->padding, 0);
    for (uint32_t i = 0; i < 8; i++) {
        assert_in_range(cells->samples[i], 2, 5);
        assert_int_equal(cells->load[i], 10 * cells->samples[i]);
        held += cells->samples[i];
    }
    assert_int_equal(held, 30);
    cells = fill(3, 8, 0, 0);
    assert_int_equal(cells->count, 8);
    assert_int_equal(plan.planner->padding, 5);
    for (uint32_t i = 3; i < 8; i++) assert_true(cells->samples[i] == 0 && cells->load[i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_fills_micro_batches_to_the_budget, teardown),
        cmocka_unit_test_teardown(test_shapes_share_no_micro_batch_unless_asked_for, teardown),
        cmocka_unit_test_teardown(test_a_sample_over_the_budget_is_alone, teardown),
        cmocka_unit_test_teardown(test_at_most_so_many_samples, teardown),
        cmocka_unit_test_teardown(test_splits_before_it_pads, teardown),
    };
    return stk_run_tests(tests);
}
