/* SPDX-License-Identifier: Apache-2.0
 *
 * The portable inner loops of items.
 */
#include "tokens/item.h"

#include <stoker/dataset.h>

#include "tests/support/unit.h"

static void test_widening_keeps_values(void **state)
{
    (void)state;
    const struct stk_item_ops *ops = &stk_item_plain;
    int64_t out[3];
    uint8_t bytes[1 + 24];
    static const int16_t halves[3] = {-32768, -1, 32767};
    static const int32_t words[3] = {INT32_MIN, -1, INT32_MAX};
    static const int64_t longs[3] = {INT64_MIN, 5, INT64_MAX};
    static const uint8_t small[3] = {0, 128, 255};
    ops->widen(STOKER_TOKEN_UINT8, small, 3, out);
    assert_true(out[0] == 0 && out[1] == 128 && out[2] == 255);
    ops->widen(STOKER_TOKEN_INT8, small, 3, out);
    assert_true(out[0] == 0 && out[1] == -128 && out[2] == -1);
    memcpy(bytes + 1, halves, sizeof halves); /* misaligned on purpose */
    ops->widen(STOKER_TOKEN_INT16, bytes + 1, 3, out);
    assert_true(out[0] == -32768 && out[1] == -1 && out[2] == 32767);
    ops->widen(STOKER_TOKEN_UINT16, bytes + 1, 3, out);
    assert_true(out[0] == 32768 && out[1] == 65535 && out[2] == 32767);
    assert_true(ops->holds(STOKER_TOKEN_UINT16, bytes + 1, 3, 65535));
    assert_false(ops->holds(STOKER_TOKEN_UINT16, bytes + 1, 3, -1));
    assert_true(ops->holds(STOKER_TOKEN_INT16, bytes + 1, 3, -1));
    assert_false(ops->holds(STOKER_TOKEN_INT16, bytes + 1, 2, 32767));
    assert_true(ops->holds(STOKER_TOKEN_INT8, small, 3, -128));
    assert_true(ops->holds(STOKER_TOKEN_INT64, longs, 3, INT64_MAX));
    memcpy(bytes + 1, words, sizeof words);
    ops->widen(STOKER_TOKEN_INT32, bytes + 1, 3, out);
    assert_true(out[0] == INT32_MIN && out[1] == -1 && out[2] == INT32_MAX);
    memcpy(bytes + 1, longs, sizeof longs);
    ops->widen(STOKER_TOKEN_INT64, bytes + 1, 3, out);
    assert_memory_equal(out, longs, sizeof longs);
    ops->widen(STOKER_TOKEN_INT64, bytes + 1, 0, out);
    assert_true(stk_item_is_integer(STOKER_TOKEN_UINT16));
    assert_false(stk_item_is_integer(STOKER_TOKEN_FLOAT32));
    assert_false(stk_item_is_integer(0));
}

static void test_masks_look_at_values(void **state)
{
    (void)state;
    const struct stk_item_ops *ops = &stk_item_plain;
    int64_t values[4] = {7, -1, 7, 3}, ramp[4];
    float loss[4];
    ops->fill(loss, 4, 1.0f);
    ops->unmask(values, 4, 7, loss);
    assert_true(loss[0] == 0.0f && loss[1] == 1.0f && loss[2] == 0.0f && loss[3] == 1.0f);
    assert_true(ops->find(values, 4, 3));
    assert_false(ops->find(values, 3, 3));
    assert_false(ops->find(values, 0, 7));
    ops->clear(values, 4, 7);
    assert_true(values[0] == 0 && values[1] == -1 && values[2] == 0 && values[3] == 3);
    ops->ramp(ramp, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(ramp[i], i);
}

static void test_best_is_one_of_the_two(void **state)
{
    (void)state;
    const struct stk_item_ops *wide = stk_item_wide();
    assert_ptr_equal(stk_item_best(), wide ? wide : &stk_item_plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widening_keeps_values),
        cmocka_unit_test(test_masks_look_at_values),
        cmocka_unit_test(test_best_is_one_of_the_two),
    };
    return stk_run_tests(tests);
}
