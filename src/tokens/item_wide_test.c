/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of items with AVX2 against the portable ones, for every size up to a few vectors and any alignment.
 */
#include "tokens/item.h"

#include <stdlib.h>

#include <stoker/dataset.h>

#include "tests/support/unit.h"

enum { MOST = 70, CELLS = MOST + 4 };

static uint64_t state_of_noise = 1;

static uint64_t noise(void)
{
    state_of_noise = state_of_noise * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state_of_noise >> 33;
}

static const struct stk_item_ops *wide_or_skip(void)
{
    const struct stk_item_ops *wide = stk_item_wide();
    if (!wide) STK_SKIP("no AVX2");
    return wide;
}

static void test_widening_is_the_same(void **state)
{
    (void)state;
    const struct stk_item_ops *wide = wide_or_skip();
    static const int codes[] = {STOKER_TOKEN_UINT8, STOKER_TOKEN_INT8,  STOKER_TOKEN_INT16,
                                STOKER_TOKEN_INT32, STOKER_TOKEN_INT64, STOKER_TOKEN_UINT16};
    for (size_t code = 0; code < sizeof codes / sizeof codes[0]; code++)
        for (size_t count = 0; count <= MOST; count++)
            for (size_t shift = 0; shift < 3; shift++) {
                size_t size = count * stoker_token_dtype_size(codes[code]);
                uint8_t *from = malloc(size + shift + 1); /* a read past the end is seen by a sanitizer */
                assert_non_null(from);
                for (size_t i = 0; i < size + shift; i++) from[i] = (uint8_t)noise();
                int64_t a[CELLS], b[CELLS];
                memset(a, 0x55, sizeof a);
                memset(b, 0x55, sizeof b);
                wide->widen(codes[code], from + shift, count, a + shift);
                stk_item_plain.widen(codes[code], from + shift, count, b + shift);
                assert_memory_equal(a, b, sizeof a);
                free(from);
            }
}

/* Elements of three values near a border of the type, and what is looked for around it and far from it. */
static void test_looking_for_a_value_is_the_same(void **state)
{
    (void)state;
    const struct stk_item_ops *wide = wide_or_skip();
    static const int codes[] = {STOKER_TOKEN_UINT8, STOKER_TOKEN_INT8,  STOKER_TOKEN_INT16,
                                STOKER_TOKEN_INT32, STOKER_TOKEN_INT64, STOKER_TOKEN_UINT16};
    int found = 0, missed = 0;
    for (size_t code = 0; code < sizeof codes / sizeof codes[0]; code++)
        for (size_t count = 0; count <= MOST; count++)
            for (size_t shift = 0; shift < 3; shift++) {
                size_t bytes = stoker_token_dtype_size(codes[code]), size = count * bytes;
                uint8_t *from = malloc(size + shift + 1);
                assert_non_null(from);
                memset(from, 0xFF, size + shift);
                if (count > 0) from[shift + noise() % count * bytes] = 0xFD;
                int64_t values[CELLS];
                stk_item_plain.widen(codes[code], from + shift, count, values);
                const int64_t wanted[] = {-3,        -1,        0xFD,      0xFF,       0xFFFD,  0xFFFF,
                                          INT32_MAX, INT64_MIN, INT64_MAX, 0xFFFFFFFF, 0x1FFFD, -0x10003};
                for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
                    bool there = stk_item_plain.find(values, count, wanted[w]);
                    assert_int_equal(stk_item_plain.holds(codes[code], from + shift, count, wanted[w]), there);
                    assert_int_equal(wide->holds(codes[code], from + shift, count, wanted[w]), there);
                    found += there, missed += !there;
                }
                free(from);
            }
    assert_true(found > 1000 && missed > 1000);
}

static void test_loops_over_values_are_the_same(void **state)
{
    (void)state;
    const struct stk_item_ops *wide = wide_or_skip();
    for (size_t count = 0; count <= MOST; count++)
        for (size_t shift = 0; shift < 3; shift++) {
            int64_t a[CELLS], b[CELLS];
            float loss_a[CELLS], loss_b[CELLS];
            for (size_t i = 0; i < CELLS; i++) {
                a[i] = b[i] = noise() % 3 ? (int64_t)(noise() % 3) - 1 : INT64_C(1) << 32; /* 0 in its low half */
                loss_a[i] = loss_b[i] = 0.5f;
            }
            for (int64_t value = -2; value < 3; value++)
                assert_int_equal(wide->find(a + shift, count, value), stk_item_plain.find(b + shift, count, value));
            wide->fill(loss_a + shift, count, 1.0f);
            stk_item_plain.fill(loss_b + shift, count, 1.0f);
            wide->unmask(a + shift, count, 0, loss_a + shift);
            stk_item_plain.unmask(b + shift, count, 0, loss_b + shift);
            assert_memory_equal(loss_a, loss_b, sizeof loss_a);
            wide->clear(a + shift, count, -1);
            stk_item_plain.clear(b + shift, count, -1);
            assert_memory_equal(a, b, sizeof a);
            wide->ramp(a + shift, count);
            stk_item_plain.ramp(b + shift, count);
            assert_memory_equal(a, b, sizeof a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widening_is_the_same),
        cmocka_unit_test(test_looking_for_a_value_is_the_same),
        cmocka_unit_test(test_loops_over_values_are_the_same),
    };
    return stk_run_tests(tests);
}
