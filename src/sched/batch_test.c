/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/batch.h"

#include "tests/support/batching.h"
#include "tests/support/unit.h"

static uint32_t tokens[4096], shapes[4096];
static struct batching plan;

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4096; i++) {
        shapes[i] = i % 3;
        tokens[i] = shapes[i] == 0 ? 1568 : shapes[i] == 1 ? 7056 : 25088;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    batching_drop(&plan);
    return 0;
}

static stoker_batch_options fixed(uint32_t ranks, uint32_t cells)
{
    stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
    options.ranks = ranks, options.cells = cells, options.shape_count = 3, options.seed = 7;
    return options;
}

static stoker_status make(uint32_t count, const stoker_batch_options *options, stoker_error *err)
{
    const stoker_batch_source source = {tokens, shapes, count, 0};
    batching_drop(&plan);
    return batching_make(&plan, &source, 1, options, err);
}

static void test_an_epoch_has_each_sample_once_in_equal_batches(void **state)
{
    (void)state;
    static uint8_t seen[4096];
    stoker_batch_options options = fixed(4, 5);
    memset(seen, 0, sizeof seen);
    assert_int_equal(make(4000, &options, NULL), STOKER_OK);
    uint32_t steps = 0;
    stoker_status status;
    while ((status = stoker_batch_next(plan.planner, &plan.window, NULL)) == STOKER_OK) {
        const stoker_batch_window *w = &plan.window;
        assert_int_equal(w->repeats, 0);
        for (uint32_t t = 0; t < w->steps; t++, steps++) assert_int_equal(batching_rows(w, t), 5);
        for (uint32_t k = 0; k < w->cell_places[w->step_cells[w->steps]]; k++)
            assert_int_equal(seen[batching_id(w, w->places[k])]++, 0);
    }
    assert_int_equal(status, STOKER_END);
    assert_int_equal(steps, 200);
    for (uint32_t i = 0; i < 4000; i++) assert_int_equal(seen[i], 1);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_END); /* and stays there */
}

/* 103 samples on 4 ranks of 5: five steps, and three samples that become one row of four by a repeat. */
static void test_the_last_step_repeats_or_is_dropped(void **state)
{
    (void)state;
    stoker_batch_options options = fixed(4, 5);
    uint32_t steps = 0, rows = 0, repeats = 0;
    assert_int_equal(make(103, &options, NULL), STOKER_OK);
    while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK) {
        for (uint32_t t = 0; t < plan.window.steps; t++, steps++) rows += batching_rows(&plan.window, t);
        repeats += plan.window.repeats;
    }
    assert_int_equal(steps, 6);
    assert_int_equal(rows, 26);
    assert_int_equal(repeats, 1);

    options.flags = STOKER_BATCH_DROP_LAST;
    steps = 0;
    assert_int_equal(make(103, &options, NULL), STOKER_OK);
    while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK) steps += plan.window.steps;
    assert_int_equal(steps, 5);

    /* One sample, eight ranks: seven repeats of it. */
    options = fixed(8, 2);
    assert_int_equal(make(1, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
    assert_int_equal(plan.window.repeats, 7);
    assert_int_equal(plan.window.loads[7], tokens[0]);
    options.flags = STOKER_BATCH_DROP_LAST;
    assert_int_equal(make(1, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_END);
}

static double spread(uint32_t count, const stoker_batch_options *options)
{
    double ratios = 0;
    uint32_t windows = 0;
    assert_int_equal(make(count, options, NULL), STOKER_OK);
    while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK) {
        double most = 0, mean = 0;
        for (uint32_t t = 0; t < plan.window.steps; t++) {
            most += (double)batching_most(&plan.window, t);
            mean += (double)batching_sum(&plan.window, t) / plan.window.ranks;
        }
        ratios += most / mean;
        windows++;
    }
    return ratios / windows;
}

/* Tubelet encoder tokens of three forms, and lengths of a wide distribution: the step waits for its slowest rank at
 * most five percent longer than for the mean, where a random plan waits 9 to 200 percent. */
static void test_ranks_wait_for_one_another_at_most_5_percent(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 16; ranks *= 2) {
        for (uint32_t cells = 2; cells <= 8; cells *= 2) {
            stoker_batch_options options = fixed(ranks, cells);
            setup(NULL);
            assert_true(spread(4096, &options) <= 1.05);
            for (uint32_t i = 0; i < 4096; i++) tokens[i] = 200 + i * 2654435761u % 8000;
            assert_true(spread(4096, &options) <= 1.05);
            options.linear_tokens = 4096;
            assert_true(spread(4096, &options) <= 1.05);
        }
    }
}

static void test_attention_counts_squares(void **state)
{
    (void)state;
    stoker_batch_options options = fixed(1, 1);
    options.linear_tokens = 1000;
    assert_int_equal(make(1, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
    assert_int_equal(plan.window.loads[0], 1568 + 1568 * 1568 / 1000);
}

/* Neither the first steps nor any others are those of the long or the short samples. */
static void test_never_a_prefix_sorted_by_tokens(void **state)
{
    (void)state;
    stoker_batch_options options = fixed(4, 4);
    for (uint32_t i = 0; i < 4096; i++) tokens[i] = 1 + i, shapes[i] = 0;
    assert_int_equal(make(4096, &options, NULL), STOKER_OK);
    uint32_t rising = 0, falling = 0, steps = 0;
    uint64_t before = 0;
    while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK) {
        for (uint32_t t = 0; t < plan.window.steps; t++, steps++) {
            uint64_t sum = batching_sum(&plan.window, t);
            rising += sum > before, falling += sum < before;
            before = sum;
        }
    }
    assert_in_range(rising, steps / 3, steps * 2 / 3);
    assert_in_range(falling, steps / 3, steps * 2 / 3);
}

static void test_situation_35_equal_micro_batches_marked_padding(void **state)
{
    (void)state;
    /* One sample of 4000 tokens and eight of 50, budget 512: a micro-batch each, on two ranks. */
    stoker_batch_options options = fixed(2, 1);
    options.budget_tokens = 512;
    tokens[0] = 4000, shapes[0] = 1;
    for (uint32_t i = 1; i < 9; i++) tokens[i] = 50, shapes[i] = 0;
    assert_int_equal(make(9, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
    assert_int_equal(plan.window.steps, 1);
    assert_int_equal(plan.window.step_cells[1], 2);
    assert_int_equal(plan.window.padding, 0);
    assert_int_equal(plan.window.loads[0] + plan.window.loads[1], 4400);
    assert_int_equal(batching_most(&plan.window, 0), 4000);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_END);

    /* On four ranks the eight are split; on sixteen, seven micro-batches are padding. */
    options.ranks = 4;
    assert_int_equal(make(9, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
    assert_int_equal(plan.window.step_cells[1], 4);
    assert_int_equal(plan.window.padding, 0);
    options.ranks = 16;
    assert_int_equal(make(9, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
    assert_int_equal(plan.window.step_cells[1], 16);
    assert_int_equal(plan.window.padding, 7);
    uint32_t empty = 0;
    for (uint32_t c = 0; c < 16; c++) empty += plan.window.cell_places[c] == plan.window.cell_places[c + 1];
    assert_int_equal(empty, 7);
}

static void test_situation_28_a_change_of_weights_counts_from_its_window(void **state)
{
    (void)state;
    const stoker_batch_source sources[2] = {{tokens, shapes, 1000, 1}, {tokens + 1000, shapes + 1000, 1000, 1}};
    const double weights[2] = {1, 3};
    stoker_batch_options options = fixed(2, 2);
    options.window_samples = 400, options.samples = 2000;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, sources, 2, &options, NULL), STOKER_OK);
    for (uint32_t window = 0; window < 5; window++) {
        if (window == 2) assert_int_equal(stoker_batch_reweigh(plan.planner, weights, 2, NULL), STOKER_OK);
        assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
        assert_int_equal(plan.window.samples, 400 * (window + 1));
        uint32_t first = 0;
        for (uint32_t i = 0; i < plan.window.pool_count; i++) first += plan.window.pool[i] < 1000;
        assert_int_equal(first, window < 2 ? 200 : 100);
    }
    const double none[2] = {0, 0}, negative[2] = {1, -1};
    assert_int_equal(stoker_batch_reweigh(plan.planner, none, 2, NULL), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_batch_reweigh(plan.planner, negative, 2, NULL), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_batch_reweigh(plan.planner, weights, 1, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_situation_29_extreme_weights(void **state)
{
    (void)state;
    stoker_error err = {0};
    const stoker_batch_source sources[2] = {{tokens, shapes, 3, 1e-6}, {tokens + 3, shapes + 3, 1000, 1}};
    stoker_batch_options options = fixed(2, 2);
    options.samples = 100000;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, sources, 2, &options, NULL), STOKER_OK);
    uint32_t first = 0, all = 0;
    while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK)
        for (uint32_t i = 0; i < plan.window.pool_count; i++, all++) first += plan.window.pool[i] < 3;
    assert_int_equal(all, 100000);
    assert_true(first <= 1);

    /* The other way round three samples are drawn again and again, or the source is named. */
    const stoker_batch_source turned[2] = {{tokens, shapes, 3, 1}, {tokens + 3, shapes + 3, 1000, 1e-6}};
    options.samples = 5000;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, turned, 2, &options, NULL), STOKER_OK);
    uint32_t seen[3] = {0};
    while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK)
        for (uint32_t i = 0; i < plan.window.pool_count; i++)
            if (plan.window.pool[i] < 3) seen[plan.window.pool[i]]++;
    for (int i = 0; i < 3; i++) assert_in_range(seen[i], 1666, 1667);
    options.flags = STOKER_BATCH_NO_REPEAT;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, turned, 2, &options, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "source 0 has 3 samples"));
}

static void test_resume_goes_on_in_the_open_window(void **state)
{
    (void)state;
    static uint32_t expected[4096], pool[4096];
    stoker_batch_options options = fixed(4, 2);
    uint32_t count = 0, at = 0;
    assert_int_equal(make(3000, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
    uint32_t pool_count = plan.window.pool_count;
    memcpy(pool, plan.window.pool, pool_count * sizeof *pool);
    uint64_t windows = plan.window.windows;
    do {
        const stoker_batch_window *w = &plan.window;
        for (uint32_t k = 0; k < w->cell_places[w->step_cells[w->steps]]; k++)
            expected[count++] = batching_id(w, w->places[k]);
    } while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK);

    assert_int_equal(make(3000, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_skip(plan.planner, windows, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_open(plan.planner, pool, pool_count, NULL), STOKER_OK);
    while (stoker_batch_next(plan.planner, &plan.window, NULL) == STOKER_OK) {
        const stoker_batch_window *w = &plan.window;
        for (uint32_t k = 0; k < w->cell_places[w->step_cells[w->steps]]; k++)
            assert_int_equal(batching_id(w, w->places[k]), expected[at++]);
    }
    assert_int_equal(at, count);
    const uint32_t wrong = 3000;
    assert_int_equal(stoker_batch_open(plan.planner, &wrong, 1, NULL), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_batch_open(plan.planner, pool, 100000, NULL), STOKER_ERR_LIMIT);
    assert_int_equal(stoker_batch_skip(plan.planner, 1, NULL), STOKER_END);
}

static void refuse(stoker_batch_options options, uint32_t count, stoker_status status, const char *text)
{
    stoker_error err = {0};
    const stoker_batch_source source = {tokens, shapes, count, 0};
    assert_int_equal(stoker_batch_bytes(&source, 1, &options), 0);
    assert_int_equal(make(count, &options, &err), status);
    if (!strstr(err.message, text)) fail_msg("'%s' does not say '%s'", err.message, text);
}

static void test_bad_arguments_are_named(void **state)
{
    (void)state;
    stoker_batch_options options = fixed(0, 1);
    refuse(options, 100, STOKER_ERR_INVALID_ARGUMENT, "0 ranks");
    options = fixed(1u << 17, 1);
    refuse(options, 100, STOKER_ERR_LIMIT, "131072 ranks");
    options = fixed(2, 1);
    refuse(options, 0, STOKER_ERR_INVALID_ARGUMENT, "no samples");
    options.window_samples = 15;
    refuse(options, 100, STOKER_ERR_INVALID_ARGUMENT, "a window of 15 samples, expected 16 or more");
    options.window_samples = 16;
    assert_int_equal(make(100, &options, NULL), STOKER_OK);
    options.shape_count = 2;
    refuse(options, 100, STOKER_ERR_INVALID_ARGUMENT, "sample 2 of source 0 has shape 2, there are 2");
    options = fixed(2, 1);
    tokens[50] = 0;
    refuse(options, 100, STOKER_ERR_INVALID_ARGUMENT, "sample 50 of source 0 has 0 tokens");
    tokens[50] = 1;
    options.samples = 101;
    stoker_error err = {0};
    assert_int_equal(make(100, &options, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "an epoch of 101 samples, the sources hold 100"));
    struct {
        stoker_batch_options known;
        uint32_t unknown;
    } larger = {fixed(2, 1), 1};
    larger.known.struct_size = sizeof larger;
    const stoker_batch_source source = {tokens, shapes, 100, 0};
    assert_int_equal(stoker_batch_bytes(&source, 1, &larger.known), 0);
    stoker_batch_source negative = {tokens, shapes, 100, -1};
    options = fixed(2, 1);
    assert_int_equal(stoker_batch_bytes(&negative, 1, &options), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_epoch_has_each_sample_once_in_equal_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_last_step_repeats_or_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranks_wait_for_one_another_at_most_5_percent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attention_counts_squares, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_a_prefix_sorted_by_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_situation_35_equal_micro_batches_marked_padding, setup, teardown),
        cmocka_unit_test_setup_teardown(test_situation_28_a_change_of_weights_counts_from_its_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_situation_29_extreme_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resume_goes_on_in_the_open_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_arguments_are_named, setup, teardown),
    };
    return stk_run_tests(tests);
}
