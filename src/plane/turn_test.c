/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that are whole batches, parts of batches, and neither.
 */
#include "tests/support/unit.h"

#include "plane/turn.h"

static void expect_batch(struct stk_turn *turn, uint32_t part, uint32_t parts, uint64_t expected)
{
    uint64_t batch = UINT64_MAX;
    assert_true(stk_turn_take(turn, part, parts, &batch));
    assert_int_equal(batch, expected);
}

static void test_each_request_is_a_batch_without_parts(void **state)
{
    (void)state;
    struct stk_turn turn = {0};
    for (uint64_t i = 0; i < 5; i++) expect_batch(&turn, 0, (uint32_t)(i % 2), i);
}

static void test_parts_share_their_batch(void **state)
{
    (void)state;
    struct stk_turn turn = {0};
    for (uint64_t batch = 0; batch < 3; batch++)
        for (uint32_t part = 0; part < 4; part++) expect_batch(&turn, part, 4, batch);
    expect_batch(&turn, 0, 1, 3);
    expect_batch(&turn, 0, 2, 4);
    expect_batch(&turn, 1, 2, 4);
}

static void test_a_first_part_ends_a_batch_that_was_given_up(void **state)
{
    (void)state;
    struct stk_turn turn = {0};
    expect_batch(&turn, 0, 3, 0);
    expect_batch(&turn, 0, 2, 1);
    expect_batch(&turn, 1, 2, 1);
    expect_batch(&turn, 0, 0, 2);
}

static void test_parts_out_of_turn_are_refused(void **state)
{
    (void)state;
    struct stk_turn turn = {0};
    uint64_t batch = 77;
    assert_false(stk_turn_take(&turn, 1, 2, &batch)); /* nothing began */
    assert_false(stk_turn_take(&turn, 3, 3, &batch));
    assert_false(stk_turn_take(&turn, 1, 0, &batch));
    expect_batch(&turn, 0, 4, 0);
    assert_false(stk_turn_take(&turn, 2, 4, &batch));
    assert_false(stk_turn_take(&turn, 1, 3, &batch));
    assert_int_equal(batch, 77);
    expect_batch(&turn, 1, 4, 0);
    assert_false(stk_turn_take(&turn, 1, 4, &batch)); /* again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_request_is_a_batch_without_parts),
        cmocka_unit_test(test_parts_share_their_batch),
        cmocka_unit_test(test_a_first_part_ends_a_batch_that_was_given_up),
        cmocka_unit_test(test_parts_out_of_turn_are_refused),
    };
    return stk_run_tests(tests);
}
