/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast scaler against the same filter in floating point, over shapes that meet every edge; what it refuses; and
 * that a kept rectangle is exactly that part of the whole.
 */
#include "media/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

struct picture {
    uint32_t width, height, shift_x, shift_y;
    uint8_t *planes[3];
    struct stk_yuv yuv;
};

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 24;
}

/* Blocks of exact size, so that the address sanitizer sees the first byte read past one. */
static void make_picture(struct picture *picture, uint32_t width, uint32_t height, uint32_t shift_x, uint32_t shift_y)
{
    uint32_t seed = width * 31 + height;
    *picture = (struct picture){width, height, shift_x, shift_y, {NULL, NULL, NULL}, {{NULL, NULL, NULL}, {0, 0, 0}}};
    for (int p = 0; p < 3; p++) {
        uint32_t w = p ? (width + (1u << shift_x) - 1) >> shift_x : width;
        uint32_t h = p ? (height + (1u << shift_y) - 1) >> shift_y : height;
        picture->planes[p] = malloc((size_t)w * h);
        assert_non_null(picture->planes[p]);
        for (size_t i = 0; i < (size_t)w * h; i++) picture->planes[p][i] = (uint8_t)next_random(&seed);
        picture->yuv.planes[p] = picture->planes[p];
        picture->yuv.strides[p] = (ptrdiff_t)w;
    }
}

static void drop_picture(struct picture *picture)
{
    for (int p = 0; p < 3; p++) free(picture->planes[p]);
}

static double tap(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* One plane of the scaled picture at one place, in floating point. */
static double sample(const struct picture *picture, int p, double to_width, double to_height, uint32_t x, uint32_t y)
{
    uint32_t w = p ? (picture->width + (1u << picture->shift_x) - 1) >> picture->shift_x : picture->width;
    uint32_t h = p ? (picture->height + (1u << picture->shift_y) - 1) >> picture->shift_y : picture->height;
    double sx = w / to_width, sy = h / to_height, wx = sx > 1 ? sx : 1, wy = sy > 1 ? sy : 1, sum = 0, weight = 0;
    for (uint32_t j = 0; j < h; j++) {
        double a = tap((j + 0.5 - (y + 0.5) * sy) / wy);
        for (uint32_t i = 0; a > 0 && i < w; i++) {
            double b = a * tap((i + 0.5 - (x + 0.5) * sx) / wx);
            sum += b * picture->planes[p][(size_t)j * w + i];
            weight += b;
        }
    }
    return sum / weight;
}

static uint8_t level(double value) { return (uint8_t)lrint(value < 0 ? 0 : value > 255 ? 255 : value); }

static void check_shape(uint32_t width, uint32_t height, uint32_t shift_x, uint32_t shift_y, uint32_t to_width,
                        uint32_t to_height, bool full)
{
    struct picture picture;
    make_picture(&picture, width, height, shift_x, shift_y);
    struct stk_resample_spec spec = {width, height, shift_x, shift_y, to_width, to_height, {0, 0, to_width, to_height},
                                     0.299, 0.114,  full};
    struct stk_resample *resample = NULL;
    stoker_error err;
    assert_int_equal(stk_resample_create(&spec, &resample, &err), STOKER_OK);
    size_t stride = (to_width + 15) / 16 * 16;
    uint8_t *out = malloc(stride * to_height * 3);
    assert_non_null(out);
    uint8_t *const rgb[3] = {out, out + stride * to_height, out + 2 * stride * to_height};
    stk_resample_run(resample, &picture.yuv, rgb, stride);

    for (uint32_t y = 0; y < to_height; y += 3)
        for (uint32_t x = 0; x < to_width; x += 5) {
            double l = sample(&picture, 0, to_width, to_height, x, y),
                   u = sample(&picture, 1, to_width, to_height, x, y);
            double v = sample(&picture, 2, to_width, to_height, x, y), gain = full ? 1 : 255.0 / 224;
            l = full ? l : (l - 16) * 255 / 219;
            u = (u - 128) * gain, v = (v - 128) * gain;
            const uint8_t expected[3] = {level(l + 1.402 * v), level(l - 0.344136 * u - 0.714136 * v),
                                         level(l + 1.772 * u)};
            for (int c = 0; c < 3; c++) {
                int difference = rgb[c][y * stride + x] - expected[c];
                assert_in_range(difference + 1, 0, 2);
            }
        }
    free(out);
    stk_resample_destroy(resample);
    drop_picture(&picture);
}

static void test_resample_equals_the_filter_within_a_level(void **state)
{
    (void)state;
    check_shape(64, 48, 1, 1, 50, 37, false);
    check_shape(63, 47, 1, 1, 40, 30, true);  /* odd: half a chroma sample at the end */
    check_shape(33, 31, 1, 1, 70, 65, false); /* larger */
    check_shape(160, 20, 0, 0, 50, 20, true); /* strong shrinking, one way only */
    check_shape(64, 64, 1, 0, 17, 33, false);
    check_shape(32, 2, 1, 1, 32, 1, false);
    check_shape(40, 40, 1, 1, 11, 40, false);
}

static void test_resample_keeps_the_asked_rectangle(void **state)
{
    (void)state;
    struct picture picture;
    make_picture(&picture, 96, 64, 1, 1);
    struct stk_resample_spec spec = {96, 64, 1, 1, 75, 50, {0, 0, 75, 50}, 0.2126, 0.0722, false};
    struct stk_resample *whole = NULL, *part = NULL;
    stoker_error err;
    assert_int_equal(stk_resample_create(&spec, &whole, &err), STOKER_OK);
    spec.keep = (struct stk_rectangle){11, 7, 33, 21};
    assert_int_equal(stk_resample_create(&spec, &part, &err), STOKER_OK);
    uint8_t large[3][50 * 80], small[3][21 * 48];
    uint8_t *const large_planes[3] = {large[0], large[1], large[2]}, *const small_planes[3] = {small[0], small[1],
                                                                                               small[2]};
    stk_resample_run(whole, &picture.yuv, large_planes, 80);
    stk_resample_run(part, &picture.yuv, small_planes, 48);
    stk_resample_run(part, &picture.yuv, small_planes, 48); /* nothing is left over from the run before */
    for (int c = 0; c < 3; c++)
        for (size_t y = 0; y < 21; y++) assert_memory_equal(small[c] + y * 48, large[c] + (y + 7) * 80 + 11, 33);
    stk_resample_destroy(whole);
    stk_resample_destroy(part);
    drop_picture(&picture);
}

static void test_resample_leaves_what_it_cannot_do(void **state)
{
    (void)state;
    struct stk_resample *resample = NULL;
    stoker_error err;
    const struct stk_resample_spec narrow = {15, 64, 0, 0, 10, 10, {0, 0, 10, 10}, 0.299, 0.114, false};
    assert_int_equal(stk_resample_create(&narrow, &resample, &err), STOKER_ERR_UNSUPPORTED);
    const struct stk_resample_spec narrow_chroma = {30, 64, 1, 1, 10, 10, {0, 0, 10, 10}, 0.299, 0.114, false};
    assert_int_equal(stk_resample_create(&narrow_chroma, &resample, &err), STOKER_ERR_UNSUPPORTED);
    const struct stk_resample_spec tiny = {640, 640, 1, 1, 100, 100, {0, 0, 100, 100}, 0.299, 0.114, false};
    assert_int_equal(stk_resample_create(&tiny, &resample, &err), STOKER_ERR_UNSUPPORTED);
    assert_null(resample);
    stk_resample_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resample_equals_the_filter_within_a_level),
        cmocka_unit_test(test_resample_keeps_the_asked_rectangle),
        cmocka_unit_test(test_resample_leaves_what_it_cannot_do),
    };
    return stk_run_tests(tests);
}
