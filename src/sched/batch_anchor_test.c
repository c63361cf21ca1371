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

static void next(uint32_t count, uint32_t ranks, uint32_t cells, uint32_t shape_count, uint64_t seed)
{
    const stoker_batch_source source = {tokens, shapes, count, 0};
    stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
    options.ranks = ranks, options.cells = cells, options.shape_count = shape_count, options.window_samples = count;
    options.pool_samples = 1, options.seed = seed;
    batching_drop(&plan);
    assert_int_equal(batching_make(&plan, &source, 1, &options, NULL), STOKER_OK);
    assert_int_equal(stoker_batch_next(plan.planner, &plan.window, NULL), STOKER_OK);
}

/* Time of the window over the time of equal loads, in percent. */
static uint64_t percent(void)
{
    uint64_t most = 0, sum = 0;
    for (uint32_t t = 0; t < plan.window.steps; t++) {
        most += batching_most(&plan.window, t) * plan.window.ranks;
        sum += batching_sum(&plan.window, t);
    }
    return most * 100 / sum;
}

static void check_each_once(uint32_t count)
{
    static bool seen[1024];
    for (uint32_t i = 0; i < count; i++) seen[i] = false;
    assert_int_equal(plan.window.cell_places[plan.window.step_cells[plan.window.steps]], count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = plan.window.pool[plan.window.places[i]];
        assert_true(id < count && !seen[id]);
        seen[id] = true;
    }
}

/* A pair of each length and what it lacks of 10,000, and one that nobody can match: its step waits for it as little as
 * any plan can make it, with the 14 dearest others, and the other steps are level. */
static void test_dear_samples_meet_what_they_lack(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 128; i++) {
        tokens[2 * i] = 5000 + 39 * i, tokens[2 * i + 1] = 5000 - 39 * i;
        shapes[2 * i] = shapes[2 * i + 1] = 0;
    }
    tokens[0] = 40000;
    next(256, 8, 2, 1, 1);
    check_each_once(256);
    uint64_t sum = 0, most = 0, waited = 7 * (40000 + 47);
    for (uint32_t i = 0; i < 14; i++) waited -= 5000 + 39 * (127 - i);
    for (uint32_t t = 0; t < plan.window.steps; t++) {
        sum += batching_sum(&plan.window, t);
        most += batching_most(&plan.window, t) * 8;
    }
    assert_true(most >= sum + waited);
    assert_true((most - sum - waited) * 100 <= sum);
}

/* Lengths of a wide distribution, of which the dearest is 30 times the mean. */
static void widely_spread(void)
{
    for (uint32_t i = 0; i < 1024; i++) {
        uint64_t u = 1 + i * UINT64_C(2654435761) % 1021;
        tokens[i] = (uint32_t)(1000000 / (20 + u * u / 64));
        shapes[i] = 0;
    }
}

static void test_ranks_of_widely_spread_lengths_wait_little(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {{8, 2}, {4, 4}, {2, 2}, {16, 2}, {8, 8}};
    widely_spread();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        next(1024, cases[i][0], cases[i][1], 1, i);
        check_each_once(1024);
        assert_true(percent() <= 102);
    }
}

/* The dearest steps of a window are anywhere in it. */
static void test_no_window_begins_with_the_dearest(void **state)
{
    (void)state;
    uint32_t first_half = 0;
    widely_spread();
    for (uint64_t seed = 0; seed < 64; seed++) {
        next(1024, 8, 2, 1, seed);
        uint32_t dearest = 0;
        for (uint32_t t = 1; t < plan.window.steps; t++)
            if (batching_sum(&plan.window, t) > batching_sum(&plan.window, dearest)) dearest = t;
        first_half += dearest < plan.window.steps / 2;
    }
    assert_in_range(first_half, 16, 48);
}

/* Of two shapes every step has as many of each as before: only one shape is dealt so. */
static void test_several_shapes_keep_their_mixture(void **state)
{
    (void)state;
    widely_spread();
    for (uint32_t i = 0; i < 1024; i++) shapes[i] = i & 1;
    next(1024, 8, 2, 2, 1);
    check_each_once(1024);
    for (uint32_t t = 0; t < plan.window.steps; t++) {
        uint32_t odd = 0;
        for (uint32_t c = plan.window.step_cells[t]; c < plan.window.step_cells[t + 1]; c++)
            odd += plan.window.pool[plan.window.places[plan.window.cell_places[c]]] & 1;
        assert_in_range(odd, 0, 16);
        assert_int_equal(odd % 8, 0);
    }
}

/* Alike samples: nobody waits, and the steps are what they were without this. */
static void test_equal_lengths_stay(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) shapes[i] = 0, tokens[i] = 100;
    next(256, 4, 4, 1, 1);
    check_each_once(256);
    assert_int_equal(percent(), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_dear_samples_meet_what_they_lack, teardown),
        cmocka_unit_test_teardown(test_ranks_of_widely_spread_lengths_wait_little, teardown),
        cmocka_unit_test_teardown(test_no_window_begins_with_the_dearest, teardown),
        cmocka_unit_test_teardown(test_several_shapes_keep_their_mixture, teardown),
        cmocka_unit_test_teardown(test_equal_lengths_stay, teardown),
    };
    return stk_run_tests(tests);
}
