/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter by its definition: weights of the continuous filter, two passes with 8 bits between them; what it keeps
 * untouched; and that turning is the same before and after. Equality with Pillow: tests/python/test_images.py.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "media/filter.h"
#include "tests/support/unit.h"

static uint32_t seed = 7;

static uint32_t draw(uint32_t low, uint32_t high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (seed >> 8) % (high - low + 1);
}

static uint8_t *picture(uint32_t width, uint32_t height)
{
    size_t size = (size_t)width * height * 3;
    uint8_t *rgb = malloc(size + STK_FILTER_SLACK);
    assert_non_null(rgb);
    memset(rgb + size, 0xaa, STK_FILTER_SLACK);
    for (size_t i = 0; i < size; i++) rgb[i] = (uint8_t)draw(0, 255);
    return rgb;
}

static struct stk_filter_spec spec_of(uint32_t from_width, uint32_t from_height, uint32_t to_width, uint32_t to_height)
{
    struct stk_filter_spec spec = {.from_width = from_width,
                                   .from_height = from_height,
                                   .extent_width = from_width,
                                   .extent_height = from_height,
                                   .orientation = 1,
                                   .to_width = to_width,
                                   .to_height = to_height,
                                   .keep = {0, 0, to_width, to_height}};
    return spec;
}

/* The kept picture in a block of its own. */
static uint8_t *scale(const struct stk_filter_spec *spec, const uint8_t *rgb, size_t stride)
{
    struct stk_filter_room room;
    struct stk_filtered out;
    memset(&room, 0, sizeof room);
    assert_int_equal(stk_filter_run(spec, rgb, stride, &room, &out, NULL), STOKER_OK);
    size_t line = (size_t)spec->keep.width * 3;
    uint8_t *copy = malloc(line * spec->keep.height + STK_FILTER_SLACK);
    assert_non_null(copy);
    for (uint32_t y = 0; y < spec->keep.height; y++) memcpy(copy + y * line, out.rgb + y * out.stride, line);
    stk_filter_room_fini(&room);
    return copy;
}

static double curve(stoker_image_filter filter, double x)
{
    x = fabs(x);
    if (filter == STOKER_IMAGE_BILINEAR) return x < 1 ? 1 - x : 0;
    if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
    return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

/* One value of one pass, in real numbers. `step`: from input to input. */
static double sample(stoker_image_filter filter, const uint8_t *from, size_t step, uint32_t inputs, uint32_t outputs,
                     uint32_t output)
{
    double ratio = (double)inputs / outputs, wide = ratio > 1 ? ratio : 1, centre = (output + 0.5) * ratio;
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < inputs; i++) {
        double weight = curve(filter, (i + 0.5 - centre) / wide);
        sum += weight * from[i * step], weights += weight;
    }
    sum /= weights;
    return sum < 0 ? 0 : sum > 255 ? 255 : sum;
}

static void check_definition(stoker_image_filter filter, uint32_t w, uint32_t h, uint32_t to_w, uint32_t to_h)
{
    uint8_t *rgb = picture(w, h), *between = malloc((size_t)to_w * h * 3);
    assert_non_null(between);
    struct stk_filter_spec spec = spec_of(w, h, to_w, to_h);
    spec.filter = filter;
    uint8_t *got = scale(&spec, rgb, (size_t)w * 3);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < to_w; x++)
            for (uint32_t c = 0; c < 3; c++)
                between[((size_t)y * to_w + x) * 3 + c] =
                    (uint8_t)(sample(filter, rgb + (size_t)y * w * 3 + c, 3, w, to_w, x) + 0.5);
    for (uint32_t y = 0; y < to_h; y++)
        for (uint32_t x = 0; x < to_w; x++)
            for (uint32_t c = 0; c < 3; c++) {
                double value = sample(filter, between + (size_t)x * 3 + c, (size_t)to_w * 3, h, to_h, y);
                /* A rounding that falls the other way between the passes moves the result by less than a level. */
                assert_true(fabs(got[((size_t)y * to_w + x) * 3 + c] - value) < 1.6);
            }
    free(rgb);
    free(between);
    free(got);
}

static void test_filter_follows_its_definition(void **state)
{
    (void)state;
    for (int filter = 0; filter < 2; filter++) {
        check_definition((stoker_image_filter)filter, 40, 30, 20, 15);
        check_definition((stoker_image_filter)filter, 37, 23, 11, 17);
        check_definition((stoker_image_filter)filter, 9, 5, 30, 41);
        check_definition((stoker_image_filter)filter, 1, 1, 5, 3);
        check_definition((stoker_image_filter)filter, 200, 3, 1, 1);
    }
}

static void test_filter_keeps_flat_pictures_and_unchanged_sizes(void **state)
{
    (void)state;
    struct stk_filter_spec spec = spec_of(33, 21, 50, 8);
    uint8_t *flat = malloc(33 * 21 * 3 + STK_FILTER_SLACK);
    assert_non_null(flat);
    memset(flat, 201, 33 * 21 * 3 + STK_FILTER_SLACK);
    spec.filter = STOKER_IMAGE_BICUBIC;
    uint8_t *got = scale(&spec, flat, 33 * 3);
    for (size_t i = 0; i < 50 * 8 * 3; i++) assert_int_equal(got[i], 201);
    free(got);
    free(flat);

    uint8_t *rgb = picture(33, 21);
    spec = spec_of(33, 21, 33, 21);
    got = scale(&spec, rgb, 33 * 3);
    assert_memory_equal(got, rgb, 33 * 21 * 3);
    free(got);
    spec.keep = (struct stk_rectangle){5, 7, 11, 3};
    got = scale(&spec, rgb, 33 * 3);
    for (uint32_t y = 0; y < 3; y++) assert_memory_equal(got + y * 33, rgb + ((y + 7) * 33 + 5) * 3, 33);
    free(got);
    free(rgb);
}

static void test_filter_crop_is_a_part_of_the_whole(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        uint32_t w = draw(1, 90), h = draw(1, 90);
        uint8_t *rgb = picture(w, h);
        struct stk_filter_spec spec = spec_of(w, h, draw(1, 70), draw(1, 70));
        spec.filter = (stoker_image_filter)draw(0, 1);
        spec.orientation = (int32_t)draw(1, 8);
        uint8_t *whole = scale(&spec, rgb, (size_t)w * 3);
        spec.keep.width = draw(1, spec.to_width), spec.keep.height = draw(1, spec.to_height);
        spec.keep.x = draw(0, spec.to_width - spec.keep.width),
        spec.keep.y = draw(0, spec.to_height - spec.keep.height);
        uint8_t *part = scale(&spec, rgb, (size_t)w * 3);
        for (uint32_t y = 0; y < spec.keep.height; y++)
            assert_memory_equal(part + (size_t)y * spec.keep.width * 3,
                                whole + (((size_t)y + spec.keep.y) * spec.to_width + spec.keep.x) * 3,
                                (size_t)spec.keep.width * 3);
        free(part);
        free(whole);
        free(rgb);
    }
}

/* The picture as it is seen. */
static uint8_t *turn(const uint8_t *rgb, uint32_t w, uint32_t h, int32_t orientation)
{
    bool sideways = orientation >= 5;
    uint32_t seen_w = sideways ? h : w, seen_h = sideways ? w : h;
    uint8_t *seen = malloc((size_t)w * h * 3 + STK_FILTER_SLACK);
    assert_non_null(seen);
    for (uint32_t y = 0; y < seen_h; y++)
        for (uint32_t x = 0; x < seen_w; x++) {
            uint32_t column = sideways ? y : x, row = sideways ? x : y;
            if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) column = w - 1 - column;
            if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) row = h - 1 - row;
            memcpy(seen + ((size_t)y * seen_w + x) * 3, rgb + ((size_t)row * w + column) * 3, 3);
        }
    return seen;
}

static void test_filter_turns_as_if_turned_before(void **state)
{
    (void)state;
    for (int round = 0; round < 120; round++) {
        uint32_t w = draw(1, 60), h = draw(1, 60);
        int32_t orientation = (int32_t)(round % 8) + 1;
        uint8_t *rgb = picture(w, h), *seen = turn(rgb, w, h, orientation);
        struct stk_filter_spec spec = spec_of(w, h, draw(1, 50), draw(1, 50));
        if (round % 5 == 0) spec.to_width = spec.keep.width = orientation >= 5 ? h : w;
        if (round % 7 == 0) spec.to_height = spec.keep.height = orientation >= 5 ? w : h;
        spec.filter = (stoker_image_filter)(round % 2);
        spec.orientation = orientation;
        uint8_t *got = scale(&spec, rgb, (size_t)w * 3);
        uint32_t seen_w = orientation >= 5 ? h : w, seen_h = orientation >= 5 ? w : h;
        struct stk_filter_spec straight = spec_of(seen_w, seen_h, spec.to_width, spec.to_height);
        straight.filter = spec.filter;
        uint8_t *expected = scale(&straight, seen, (size_t)seen_w * 3);
        assert_memory_equal(got, expected, (size_t)spec.to_width * spec.to_height * 3);
        free(expected);
        free(got);
        free(seen);
        free(rgb);
    }
}

static void test_filter_split(void **state)
{
    (void)state;
    for (uint32_t width = 1; width < 70; width++) {
        uint8_t *rgb = picture(width, 3);
        uint8_t *planes = malloc((size_t)width * 9);
        assert_non_null(planes);
        uint8_t *const to[3] = {planes, planes + width * 3, planes + width * 6};
        const struct stk_filtered from = {rgb, (size_t)width * 3};
        stk_filter_split(&from, width, 3, to);
        for (size_t i = 0; i < (size_t)width * 3; i++)
            for (int c = 0; c < 3; c++) assert_int_equal(to[c][i], rgb[3 * i + (size_t)c]);
        free(planes);
        free(rgb);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter_follows_its_definition),
        cmocka_unit_test(test_filter_keeps_flat_pictures_and_unchanged_sizes),
        cmocka_unit_test(test_filter_crop_is_a_part_of_the_whole),
        cmocka_unit_test(test_filter_turns_as_if_turned_before),
        cmocka_unit_test(test_filter_split),
    };
    return stk_run_tests(tests);
}
