/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector and plain code give the same bytes, for seeded shapes and pictures of extreme values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/resample_internal.h"
#include "tests/support/unit.h"

static uint32_t seed = 12345;

static uint32_t draw(uint32_t low, uint32_t high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (seed >> 8) % (high - low + 1);
}

static void fill(uint8_t *plane, size_t size)
{
    uint32_t kind = draw(0, 3);
    for (size_t i = 0; i < size; i++)
        plane[i] = kind == 0 ? 255 : kind == 1 ? (uint8_t)(draw(0, 1) * 255) : (uint8_t)draw(0, 255);
}

static void compare_once(void)
{
    static const double weights[][2] = {{0.299, 0.114}, {0.2126, 0.0722}, {0.2627, 0.0593}};
    struct stk_resample_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.from_width = draw(32, 200), spec.from_height = draw(1, 150);
    spec.chroma_shift_x = draw(0, 1), spec.chroma_shift_y = draw(0, 1);
    spec.to_width = draw(spec.from_width / 4 + 1, 260), spec.to_height = draw(spec.from_height / 4 + 1, 200);
    if (draw(0, 5) == 0) spec.to_width = spec.from_width, spec.to_height = spec.from_height;
    spec.keep.width = draw(1, spec.to_width), spec.keep.height = draw(1, spec.to_height);
    spec.keep.x = draw(0, spec.to_width - spec.keep.width), spec.keep.y = draw(0, spec.to_height - spec.keep.height);
    uint32_t matrix = draw(0, 2);
    spec.kr = weights[matrix][0], spec.kb = weights[matrix][1], spec.full_range = draw(0, 1);

    struct stk_resample *resample = NULL;
    stoker_error err;
    stoker_status status = stk_resample_create(&spec, &resample, &err);
    if (status == STOKER_ERR_UNSUPPORTED) return;
    assert_int_equal(status, STOKER_OK);
    struct stk_yuv yuv;
    uint8_t *planes[3];
    for (int p = 0; p < 3; p++) {
        size_t w = p ? (spec.from_width + spec.chroma_shift_x) >> spec.chroma_shift_x : spec.from_width;
        size_t h = p ? (spec.from_height + spec.chroma_shift_y) >> spec.chroma_shift_y : spec.from_height;
        planes[p] = malloc(w * h);
        assert_non_null(planes[p]);
        fill(planes[p], w * h);
        yuv.planes[p] = planes[p];
        yuv.strides[p] = (ptrdiff_t)w;
    }
    size_t stride = (spec.keep.width + 15) / 16 * 16, size = stride * spec.keep.height;
    uint8_t *wide = calloc(3, size), *plain = calloc(3, size);
    assert_non_null(wide);
    assert_non_null(plain);
    uint8_t *const wide_rgb[3] = {wide, wide + size, wide + 2 * size};
    uint8_t *const plain_rgb[3] = {plain, plain + size, plain + 2 * size};
    stk_resample_run(resample, &yuv, wide_rgb, stride);
    stk_resample_run_plain(resample, &yuv, plain_rgb, stride);
    assert_memory_equal(wide, plain, 3 * size);
    for (int p = 0; p < 3; p++) free(planes[p]);
    free(wide);
    free(plain);
    stk_resample_destroy(resample);
}

static void test_resample_wide_equals_plain(void **state)
{
    (void)state;
    if (!stk_resample_is_wide()) STK_SKIP("no AVX2");
    for (int round = 0; round < 400; round++) compare_once();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resample_wide_equals_plain)};
    return stk_run_tests(tests);
}
