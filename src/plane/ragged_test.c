/* SPDX-License-Identifier: Apache-2.0
 *
 * Places of batches whose samples differ in size: rows in plan order, and what takes the place of bad samples, which is
 * the same in whatever order they are found (rule C1).
 */
#include "plane/ragged.h"

#include <stdlib.h>
#include <string.h>

#include "sched/dispatch.h"
#include "tests/support/unit.h"

static struct stk_ragged *make(uint32_t count)
{
    struct stk_ragged *ragged = NULL;
    assert_int_equal(stk_ragged_create(count, &ragged, NULL), STOKER_OK);
    for (uint32_t i = 0; i < count; i++) {
        ragged->place[i].planned = ragged->place[i].id = 10 + i;
        ragged->place[i].planned_draw = ragged->place[i].draw = 100 + i;
    }
    return ragged;
}

static void expect_ids(const struct stk_ragged *ragged, const uint64_t *ids)
{
    for (uint32_t i = 0; i < ragged->count; i++) assert_int_equal(ragged->place[i].id, ids[i]);
}

static void test_skip_takes_the_good_one_before_else_after(void **state)
{
    (void)state;
    uint32_t skipped = 0;
    struct stk_ragged *ragged = make(6);
    stk_ragged_mark(ragged, 0);
    stk_ragged_mark(ragged, 3);
    stk_ragged_mark(ragged, 4);
    assert_int_equal(ragged->bad, 3);
    assert_true(stk_ragged_substitute(ragged, STK_POLICY_SKIP, 100, &skipped));
    assert_int_equal(skipped, 3);
    assert_int_equal(ragged->bad, 0);
    expect_ids(ragged, (const uint64_t[]){11, 11, 12, 12, 12, 15});
    assert_int_equal(ragged->place[4].draw, 102); /* a copy has the randomness of what it copies */
    /* The second round finds another one bad, in a place that only copies it. */
    stk_ragged_mark(ragged, 4);
    assert_true(stk_ragged_substitute(ragged, STK_POLICY_SKIP, 100, &skipped));
    assert_int_equal(skipped, 4);
    expect_ids(ragged, (const uint64_t[]){11, 11, 11, 11, 11, 15});
    stk_ragged_destroy(ragged);
}

static void test_skip_does_not_depend_on_the_order_of_discovery(void **state)
{
    (void)state;
    uint64_t wanted[8];
    for (uint32_t order = 0; order < 6; order++) {
        static const uint32_t bad[3] = {1, 2, 6};
        static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        uint32_t skipped = 0;
        struct stk_ragged *ragged = make(8);
        for (int i = 0; i < 3; i++) {
            stk_ragged_mark(ragged, bad[orders[order][i]]);
            assert_true(stk_ragged_substitute(ragged, STK_POLICY_SKIP, 100, &skipped));
        }
        assert_int_equal(skipped, 3);
        for (int i = 0; i < 8; i++) {
            if (order == 0) wanted[i] = ragged->place[i].id;
            assert_int_equal(ragged->place[i].id, wanted[i]);
        }
        stk_ragged_destroy(ragged);
    }
}

static void test_nothing_good_fails(void **state)
{
    (void)state;
    uint32_t skipped = 0;
    struct stk_ragged *ragged = make(2);
    stk_ragged_mark(ragged, 0);
    stk_ragged_mark(ragged, 1);
    assert_false(stk_ragged_substitute(ragged, STK_POLICY_SKIP, 100, &skipped));
    stk_ragged_destroy(ragged);
}

static void test_replace_takes_the_next_ids_and_gives_up_after_eight(void **state)
{
    (void)state;
    uint32_t skipped = 0;
    struct stk_ragged *ragged = make(3);
    for (uint64_t tries = 1; tries <= STK_REPLACE_TRIES; tries++) {
        stk_ragged_mark(ragged, 1);
        assert_true(stk_ragged_substitute(ragged, STK_POLICY_REPLACE, 13, &skipped));
        assert_int_equal(skipped, 1);
        expect_ids(ragged, (const uint64_t[]){10, (11 + tries) % 13, 12});
        assert_int_equal(ragged->place[1].draw, 101);
    }
    stk_ragged_mark(ragged, 1);
    assert_false(stk_ragged_substitute(ragged, STK_POLICY_REPLACE, 13, &skipped));
    stk_ragged_destroy(ragged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skip_takes_the_good_one_before_else_after),
        cmocka_unit_test(test_skip_does_not_depend_on_the_order_of_discovery),
        cmocka_unit_test(test_nothing_good_fails),
        cmocka_unit_test(test_replace_takes_the_next_ids_and_gives_up_after_eight),
    };
    return stk_run_tests(tests);
}
