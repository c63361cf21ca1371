/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/unit.h"

static const int64_t least[] = {0, 0, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN, 0, 0, 0};
static const int64_t most[] = {0, UINT8_MAX, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX, 0, 0, UINT16_MAX};

static bool is_floating(int code) { return code == STOKER_TOKEN_FLOAT64 || code == STOKER_TOKEN_FLOAT32; }

/* One value of a type at an odd address, from int64. */
static void put(int code, int64_t value, uint8_t *out)
{
    double real = (double)value;
    float single = (float)value;
    if (code == STOKER_TOKEN_FLOAT64)
        memcpy(out, &real, sizeof real);
    else if (code == STOKER_TOKEN_FLOAT32)
        memcpy(out, &single, sizeof single);
    else
        memcpy(out, &value, stoker_token_dtype_size(code)); /* little-endian: the low bytes come first */
}

static int64_t get(int code, const uint8_t *in)
{
    uint64_t value = 0;
    double real;
    float single;
    if (code == STOKER_TOKEN_FLOAT64) return memcpy(&real, in, sizeof real), (int64_t)real;
    if (code == STOKER_TOKEN_FLOAT32) return memcpy(&single, in, sizeof single), (int64_t)single;
    size_t size = stoker_token_dtype_size(code);
    memcpy(&value, in, size);
    if (least[code] < 0 && size < 8 && (value >> (size * 8 - 1)) != 0) value |= ~UINT64_C(0) << (size * 8);
    return (int64_t)value;
}

static void test_every_pair_keeps_values_that_fit(void **state)
{
    (void)state;
    enum { COUNT = 37 };
    for (int from = 1; from <= 8; from++)
        for (int to = 1; to <= 8; to++) {
            uint8_t in[COUNT * 8 + 1], out[COUNT * 8 + 9];
            size_t from_bytes = stoker_token_dtype_size(from), to_bytes = stoker_token_dtype_size(to);
            int64_t values[COUNT];
            for (int i = 0; i < COUNT; i++) {
                bool negative = (is_floating(from) || least[from] < 0) && (is_floating(to) || least[to] < 0);
                values[i] = negative && i % 2 ? -i * 3 : i * 3; /* at most 108 */
                put(from, values[i], in + 1 + (size_t)i * from_bytes);
            }
            memset(out, 0xEE, sizeof out);
            assert_true(stk_elements_convert((stoker_elements){in + 1, COUNT, from}, to, false, out + 1));
            for (int i = 0; i < COUNT; i++) assert_int_equal(get(to, out + 1 + (size_t)i * to_bytes), values[i]);
            assert_int_equal(out[0], 0xEE);
            assert_int_equal(out[1 + COUNT * to_bytes], 0xEE);
        }
}

static void test_values_at_the_borders(void **state)
{
    (void)state;
    enum { COUNT = 21 };
    for (int to = 1; to <= 8; to++) {
        if (is_floating(to) || to == STOKER_TOKEN_INT64) continue;
        const int64_t good[] = {least[to], most[to]};
        const int64_t bad[] = {least[to] - 1, most[to] + 1, INT64_MIN, INT64_MAX};
        for (int at = 0; at < COUNT; at++) {
            int64_t values[COUNT] = {0};
            uint8_t out[COUNT * 8];
            char text[32];
            stoker_elements in = {values, COUNT, STOKER_TOKEN_INT64};
            for (size_t i = 0; i < 2; i++) {
                values[at] = good[i];
                assert_true(stk_elements_convert(in, to, false, out));
                assert_int_equal(get(to, out + (size_t)at * stoker_token_dtype_size(to)), good[i]);
            }
            for (size_t i = 0; i < 4; i++) {
                values[at] = bad[i];
                assert_false(stk_elements_convert(in, to, false, out));
                assert_int_equal(stk_elements_misfit(in, to, false, text, sizeof text), at);
                assert_int_equal(strtoll(text, NULL, 10), bad[i]);
                assert_true(stk_elements_convert(in, to, true, out)); /* modulo 2^bits */
                uint64_t mask = ~UINT64_C(0) >> (64 - 8 * stoker_token_dtype_size(to));
                assert_true((((uint64_t)get(to, out + (size_t)at * stoker_token_dtype_size(to)) ^ (uint64_t)bad[i]) &
                             mask) == 0);
            }
        }
    }
}

static void test_unsigned_into_signed_of_one_size(void **state)
{
    (void)state;
    uint8_t bytes[] = {127, 128, 255}, out[6];
    int8_t signs[] = {0, -1};
    char text[32];
    assert_false(stk_elements_convert((stoker_elements){bytes, 3, STOKER_TOKEN_UINT8}, STOKER_TOKEN_INT8, false, out));
    assert_int_equal(stk_elements_misfit((stoker_elements){bytes, 3, STOKER_TOKEN_UINT8}, STOKER_TOKEN_INT8, false,
                                         text, sizeof text),
                     1);
    assert_string_equal(text, "128");
    assert_false(stk_elements_convert((stoker_elements){signs, 2, STOKER_TOKEN_INT8}, STOKER_TOKEN_UINT16, false, out));
    assert_true(stk_elements_convert((stoker_elements){signs, 2, STOKER_TOKEN_INT8}, STOKER_TOKEN_UINT16, true, out));
    assert_int_equal(get(STOKER_TOKEN_UINT16, out + 2), 65535);
    assert_int_equal(stk_elements_misfit((stoker_elements){bytes, 3, STOKER_TOKEN_UINT8}, STOKER_TOKEN_UINT8, false,
                                         text, sizeof text) == UINT64_MAX,
                     1);
}

static void test_floats_are_truncated_toward_zero(void **state)
{
    (void)state;
    float in[] = {1.9F, -1.9F, 2.5F, -0.99F};
    int32_t out[4];
    static const int32_t expected[] = {1, -1, 2, 0};
    assert_true(stk_elements_convert((stoker_elements){in, 4, STOKER_TOKEN_FLOAT32}, STOKER_TOKEN_INT32, false, out));
    assert_memory_equal(out, expected, sizeof out);
    double edge[] = {255.999, -0.9};
    uint8_t bytes[2];
    assert_true(
        stk_elements_convert((stoker_elements){edge, 2, STOKER_TOKEN_FLOAT64}, STOKER_TOKEN_UINT8, false, bytes));
    assert_int_equal(bytes[0], 255);
    edge[1] = 256.0;
    assert_false(
        stk_elements_convert((stoker_elements){edge, 2, STOKER_TOKEN_FLOAT64}, STOKER_TOKEN_UINT8, false, bytes));
    assert_true(
        stk_elements_convert((stoker_elements){edge, 2, STOKER_TOKEN_FLOAT64}, STOKER_TOKEN_UINT8, true, bytes));
    assert_int_equal(bytes[1], 0);
}

static void test_floats_that_no_integer_holds(void **state)
{
    (void)state;
    const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 9223372036854775808.0,
                             -9223372036854777856.0};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        double in[] = {1, 2, values[i], 3};
        float single[] = {1, 2, (float)values[i], 3};
        char text[40];
        for (int wrap = 0; wrap < 2; wrap++)
            for (int to = 1; to <= 8; to++) {
                uint8_t out[32];
                bool fits = is_floating(to);
                assert_int_equal(stk_elements_convert((stoker_elements){in, 4, STOKER_TOKEN_FLOAT64}, to, wrap, out),
                                 fits);
                if (!fits)
                    assert_int_equal(stk_elements_misfit((stoker_elements){in, 4, STOKER_TOKEN_FLOAT64}, to, wrap, text,
                                                         sizeof text),
                                     2);
                if (i < 4)
                    assert_int_equal(
                        stk_elements_convert((stoker_elements){single, 4, STOKER_TOKEN_FLOAT32}, to, wrap, out), fits);
            }
        int64_t whole[4];
        stk_elements_to_int64((stoker_elements){in, 4, STOKER_TOKEN_FLOAT64}, whole);
        assert_true(whole[2] == INT64_MIN);
        assert_int_equal(whole[3], 3);
    }
}

static void test_to_int64_in_place_from_the_tail(void **state)
{
    (void)state;
    enum { COUNT = 67 };
    for (int from = 1; from <= 8; from++) {
        int64_t out[COUNT];
        size_t size = stoker_token_dtype_size(from);
        uint8_t *tail = (uint8_t *)out + COUNT * (8 - size);
        for (int i = 0; i < COUNT; i++) put(from, i, tail + (size_t)i * size);
        stk_elements_to_int64((stoker_elements){tail, COUNT, from}, out);
        for (int i = 0; i < COUNT; i++) assert_int_equal(out[i], i);
    }
    stk_elements_to_int64((stoker_elements){NULL, 0, 1}, NULL);
    assert_true(stk_elements_convert((stoker_elements){NULL, 0, 1}, 1, false, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_keeps_values_that_fit),
        cmocka_unit_test(test_values_at_the_borders),
        cmocka_unit_test(test_unsigned_into_signed_of_one_size),
        cmocka_unit_test(test_floats_are_truncated_toward_zero),
        cmocka_unit_test(test_floats_that_no_integer_holds),
        cmocka_unit_test(test_to_int64_in_place_from_the_tail),
    };
    return stk_run_tests(tests);
}
