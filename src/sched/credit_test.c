/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/credit.h"

#include <string.h>

#include "tests/support/unit.h"

static struct stk_credit credit; /* too large for a comfortable stack */

static void test_a1_creation_fails_naming_both_figures(void **state)
{
    (void)state;
    stoker_error err = {0};
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 60, 100, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "120"));
    assert_non_null(strstr(err.message, "100"));
    assert_non_null(strstr(err.message, "max_bytes"));

    assert_int_equal(stk_credit_lane_open(&credit, 0, 40, 100, &err), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 11, 100, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "102"));
    assert_false(credit.lanes[1].open);
    assert_int_equal(credit.reserved, 80);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 10, 100, &err), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 2, 0, 100, &err),
                     STOKER_OK); /* size unknown: reserves nothing yet */
}

static void test_a1_only_memory_above_the_reserves_is_shared(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 50, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 10, 50, NULL), STOKER_OK);
    assert_true(stk_credit_take(&credit, 0, 30)); /* 20 of its own, 10 shared: all of the shared part */
    assert_int_equal(credit.charged, 10);
    assert_false(stk_credit_take(&credit, 0, 1));
    assert_true(stk_credit_take(&credit, 1, 20));
    assert_false(stk_credit_take(&credit, 1, 1));
    stk_credit_give(&credit, 0, 5);
    assert_true(stk_credit_take(&credit, 1, 5));
    assert_int_equal(credit.charged, 10);
}

static void test_a1_one_more_batch_fits_whatever_is_pinned(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 50, NULL), STOKER_OK);
    uint64_t pinned = 0;
    for (int i = 0; i < 20; i++) {
        assert_true(stk_credit_take(&credit, 0, 10));
        if (stk_credit_pin(&credit, 0, 10))
            pinned += 10;
        else
            stk_credit_give(&credit, 0, 10);
    }
    assert_int_equal(pinned, 40); /* the fifth place is kept for the batch that comes next */
}

static void test_a5_pin_is_refused_when_others_hold_the_shared_part(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 60, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 10, 60, NULL), STOKER_OK);
    assert_true(stk_credit_take(&credit, 1, 40));
    assert_true(stk_credit_take(&credit, 0, 10));
    assert_true(stk_credit_pin(&credit, 0, 10)); /* pinned + largest is within the reserve */
    assert_true(stk_credit_take(&credit, 0, 10));
    assert_false(stk_credit_pin(&credit, 0, 10));
    stk_credit_give(&credit, 1, 40);
    assert_true(stk_credit_pin(&credit, 0, 10));
    stk_credit_unpin(&credit, 0, 20);
    stk_credit_give(&credit, 0, 20);
    assert_int_equal(credit.charged, 0);
}

static void test_a1_a_lane_stays_within_its_own_max_bytes(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 1000, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 10, 30, NULL), STOKER_OK);
    assert_int_equal(credit.limit, 1000);
    assert_true(stk_credit_take(&credit, 1, 30));
    assert_false(stk_credit_take(&credit, 1, 1));
    assert_true(stk_credit_take(&credit, 0, 500));
}

static void test_a2_growth_reserves_two_or_one_or_fails_with_figures(void **state)
{
    (void)state;
    stoker_error err = {0};
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 0, 100, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 10, 100, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_grow(&credit, 0, 30, &err), STOKER_OK);
    assert_int_equal(credit.lanes[0].reserve, 60);
    assert_int_equal(stk_credit_lane_grow(&credit, 0, 20, &err), STOKER_OK); /* smaller: nothing changes */
    assert_int_equal(credit.lanes[0].largest, 30);
    assert_int_equal(stk_credit_lane_grow(&credit, 0, 70, &err), STOKER_OK);
    assert_int_equal(credit.lanes[0].reserve, 70);
    assert_int_equal(stk_credit_lane_grow(&credit, 0, 81, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "81"));
    assert_non_null(strstr(err.message, "100"));
    assert_int_equal(stk_credit_lane_grow(&credit, 0, 101, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "101"));
    assert_int_equal(credit.lanes[0].largest, 70);
}

static void test_b6_force_goes_beyond_and_blocks_others_until_returned(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 40, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 10, 40, NULL), STOKER_OK);
    assert_true(stk_credit_take(&credit, 0, 20));
    assert_false(stk_credit_take(&credit, 0, 10));
    stk_credit_force(&credit, 0, 10);
    assert_int_equal(credit.charged, 10);
    assert_true(stk_credit_take(&credit, 1, 20)); /* its reserve is its own */
    stk_credit_give(&credit, 0, 30);
    assert_int_equal(credit.charged, 0);
}

static void test_a1_an_opening_lane_has_its_reserve_at_once(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 100, NULL), STOKER_OK);
    assert_true(stk_credit_take(&credit, 0, 100));
    assert_int_equal(stk_credit_lane_open(&credit, 1, 20, 100, NULL), STOKER_OK);
    assert_true(stk_credit_take(&credit, 1, 40));
    assert_false(stk_credit_take(&credit, 1, 1));
    stk_credit_give(&credit, 0, 40);
    assert_false(stk_credit_take(&credit, 0, 1)); /* the shared part has shrunk to 40 */
    stk_credit_give(&credit, 0, 1);
    assert_true(stk_credit_take(&credit, 1, 1));
}

static void test_close_restores_the_limit_of_the_others(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 1000, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 30, 70, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 2, 30, 70, NULL), STOKER_OK);
    stk_credit_lane_close(&credit, 0);
    assert_int_equal(credit.limit, 120); /* not below what the others were promised */
    assert_false(stk_credit_take(&credit, 1, 61));
    stk_credit_lane_close(&credit, 2);
    assert_int_equal(credit.limit, 70);
    stk_credit_lane_close(&credit, 1);
    assert_int_equal(credit.limit, 0);
    assert_int_equal(credit.reserved, 0);
}

static void test_a4_orphaned_bytes_count_against_the_limit(void **state)
{
    (void)state;
    stk_credit_init(&credit);
    assert_int_equal(stk_credit_lane_open(&credit, 0, 10, 100, NULL), STOKER_OK);
    assert_int_equal(stk_credit_lane_open(&credit, 1, 10, 100, NULL), STOKER_OK);
    assert_true(stk_credit_take(&credit, 0, 30));
    stk_credit_orphan(&credit, 0, 30);
    stk_credit_lane_close(&credit, 0);
    assert_false(stk_credit_take(&credit, 1, 71));
    assert_true(stk_credit_take(&credit, 1, 70));
    stk_credit_orphan_give(&credit, 30);
    assert_true(stk_credit_take(&credit, 1, 30));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a1_creation_fails_naming_both_figures),
        cmocka_unit_test(test_a1_only_memory_above_the_reserves_is_shared),
        cmocka_unit_test(test_a1_one_more_batch_fits_whatever_is_pinned),
        cmocka_unit_test(test_a5_pin_is_refused_when_others_hold_the_shared_part),
        cmocka_unit_test(test_a1_a_lane_stays_within_its_own_max_bytes),
        cmocka_unit_test(test_a2_growth_reserves_two_or_one_or_fails_with_figures),
        cmocka_unit_test(test_b6_force_goes_beyond_and_blocks_others_until_returned),
        cmocka_unit_test(test_a1_an_opening_lane_has_its_reserve_at_once),
        cmocka_unit_test(test_close_restores_the_limit_of_the_others),
        cmocka_unit_test(test_a4_orphaned_bytes_count_against_the_limit),
    };
    return stk_run_tests(tests);
}
