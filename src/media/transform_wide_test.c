/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector code against plain code: every value of a pixel, many scales, every alignment, nothing written past the end.
 */
#include "media/transform_internal.h"

#include <stdlib.h>
#include <string.h>

#include "media/transform.h"
#include "tests/support/unit.h"

static const struct stk_affine affines[] = {
    {1.0f / 255, 0}, {1 / (255 * 0.229f), -0.485f / 0.229f}, {3e5f, -1e3f}, {1e-8f, 1e-9f}, {-0.7f, 4}, {1e38f, 0}};
enum { AFFINES = sizeof affines / sizeof affines[0] };

static void test_wide_values_equal_plain_ones(void **state)
{
    (void)state;
    uint8_t in[256];
    float floats[256];
    uint16_t bfloats[256], halves[256];
    for (int i = 0; i < 256; i++) in[i] = (uint8_t)i;
    for (size_t a = 0; a < AFFINES; a++) {
        size_t f = stk_floats_wide(in, floats, 256, affines[a], false),
               b = stk_bfloats_wide(in, bfloats, 256, affines[a]);
        size_t h = stk_halves_wide(in, halves, 256, affines[a]);
        if (f == 0) STK_SKIP("no AVX2");
        assert_int_equal(f, 256);
        assert_int_equal(b, 256);
        assert_int_equal(h, 256);
        for (int i = 0; i < 256; i++) {
            float expected = (float)i * affines[a].scale + affines[a].offset;
            assert_memory_equal(&floats[i], &expected, sizeof expected);
            assert_int_equal(bfloats[i], stk_bfloat_of(expected));
            assert_int_equal(halves[i], stk_half_of(expected));
        }
    }
}

static void test_wide_lines_stay_inside(void **state)
{
    (void)state;
    for (size_t count = 0; count < 70; count++)
        for (int past_cache = 0; past_cache < 2; past_cache++) {
            uint8_t *in = calloc(1, count + 1);
            float *floats = aligned_alloc(32, (count * 4 + 64) / 32 * 32);
            assert_non_null(in);
            assert_non_null(floats);
            memset(floats, 0x5a, (count * 4 + 64) / 32 * 32);
            size_t done = stk_floats_wide(in, floats, count, affines[0], past_cache);
            stk_wide_finish(past_cache);
            assert_true(done <= count);
            assert_int_equal(((const uint8_t *)floats)[done * 4], 0x5a);
            uint16_t *small = malloc(count * 2 + 2);
            assert_non_null(small);
            assert_true(stk_bfloats_wide(in, small, count, affines[0]) <= count);
            assert_true(stk_halves_wide(in, small, count, affines[0]) <= count);
            free(small);
            free(floats);
            free(in);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide_values_equal_plain_ones),
        cmocka_unit_test(test_wide_lines_stay_inside),
    };
    return stk_run_tests(tests);
}
