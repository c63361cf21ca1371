/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-made packet tables.
 */
#include "media/plan_fixture.h"

static void test_plan_shown_sorts_hides_and_judges_times(void **state)
{
    (void)state;
    struct fixture f;
    const int64_t pts[] = {-20, -10, 0, 30, 10, 20};
    const uint32_t flags[] = {K | H, H, 0, 0, 0, 0};
    fill(&f, 6, pts, flags);
    assert_true(f.table.by_time);
    assert_int_equal(f.table.shown_count, 4);
    const uint32_t expected[] = {2, 4, 5, 3};
    for (size_t i = 0; i < 4; i++) assert_int_equal(f.shown[i].packet, expected[i]);
    assert_int_equal(stk_plan_find(&f.table, 20), 2);
    assert_true(stk_plan_find(&f.table, 15) == SIZE_MAX);
    assert_true(stk_plan_find(&f.table, -20) == SIZE_MAX);
    assert_int_equal(stk_plan_delay(&f.table), 1);

    const int64_t twice[] = {0, 10, 0, 10};
    const uint32_t keys[] = {K, 0, K, 0};
    fill(&f, 4, twice, keys);
    assert_false(f.table.by_time);
    assert_int_equal(f.table.shown_count, 4);

    const int64_t unknown[] = {0, STK_TIME_NONE, 20, 30};
    fill(&f, 4, unknown, keys);
    assert_false(f.table.by_time);

    fill(&f, 0, unknown, keys);
    assert_int_equal(f.table.shown_count, 0);
}

static void test_a_clock_that_starts_anew_is_no_order(void **state)
{
    (void)state;
    struct fixture f;
    const int64_t joined[] = {50, 51, 10, 11}; /* each once, but in another order than they are shown */
    const uint32_t flags[] = {K, 0, K, 0};
    fill(&f, 4, joined, flags);
    assert_false(f.table.by_time);
    const int64_t open_group[] = {0, 6, 4, 5};
    const uint32_t open_flags[] = {K, K, 0, 0};
    fill(&f, 4, open_group, open_flags);
    assert_true(f.table.by_time);
}

static void test_plan_delay_counts_held_frames(void **state)
{
    (void)state;
    struct fixture f;
    const int64_t pyramid[] = {0, 4, 2, 1, 3, 8, 6, 5, 7};
    const uint32_t flags[] = {K, 0, 0, 0, 0, 0, 0, 0, 0};
    fill(&f, 9, pyramid, flags);
    assert_int_equal(stk_plan_delay(&f.table), 2);
    const int64_t straight[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    fill(&f, 9, straight, flags);
    assert_int_equal(stk_plan_delay(&f.table), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_shown_sorts_hides_and_judges_times),
        cmocka_unit_test(test_a_clock_that_starts_anew_is_no_order),
        cmocka_unit_test(test_plan_delay_counts_held_frames),
    };
    return stk_run_tests(tests);
}
