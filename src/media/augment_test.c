/* SPDX-License-Identifier: Apache-2.0
 *
 * What random transforms choose: a function of draw and size, within its bounds, spread as documented, and the same
 * numbers for ever.
 */
#include "media/augment.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/unit.h"

static stoker_augment checked(stoker_augment augment)
{
    stoker_augment out;
    stoker_error err = {0};
    if (stk_augment_init(&out, &augment, &err) != STOKER_OK) fail_msg("%s", err.message);
    return out;
}

static uint64_t draw_of(uint64_t id) { return stk_rng_draw(7, 3, id, 0); }

static void test_parts_lie_inside_and_keep_the_bounds(void **state)
{
    (void)state;
    const stoker_augment augment = checked((stoker_augment){.crop = STOKER_CROP_RESIZED});
    double shares = 0, logs = 0;
    enum { N = 20000 };
    for (uint64_t id = 0; id < N; id++) {
        const struct stk_extent picture = {640, 480};
        struct stk_rectangle part = stk_augment_part(&augment, draw_of(id), picture);
        assert_true(part.width >= 1 && part.x + part.width <= 640 && part.height >= 1 && part.y + part.height <= 480);
        double share = (double)part.width * part.height / (640 * 480), ratio = (double)part.width / part.height;
        assert_true(share > 0.075 && share <= 1);
        assert_true(ratio > 0.74 && ratio < 1.35);
        shares += share, logs += log(ratio);
    }
    assert_true(fabs(shares / N - 0.47) < 0.04); /* large parts of a wrong shape do not fit: below (0.08 + 1) / 2 */
    assert_true(fabs(logs / N) < 0.05);
}

static void test_a_part_that_never_fits_is_the_middle(void **state)
{
    (void)state;
    const stoker_augment augment = checked((stoker_augment){.crop = STOKER_CROP_RESIZED, .scale = {1, 1}});
    const struct stk_rectangle wide = stk_augment_part(&augment, 5, (struct stk_extent){1000, 10});
    assert_int_equal(wide.height, 10);
    assert_int_equal(wide.width, 13); /* rint(10 * 4/3) */
    assert_int_equal(wide.x, 493);
    const struct stk_rectangle high = stk_augment_part(&augment, 5, (struct stk_extent){9, 1000});
    assert_int_equal(high.width, 9);
    assert_int_equal(high.height, 12);
    assert_int_equal(high.y, 494);
    const struct stk_rectangle one = stk_augment_part(&augment, 5, (struct stk_extent){1, 1});
    assert_int_equal(one.width * one.height, 1);
}

static void test_places_reach_every_corner(void **state)
{
    (void)state;
    const stoker_augment augment = checked((stoker_augment){.crop = STOKER_CROP_RANDOM, .crop_pad = 2});
    uint32_t seen[9][7];
    memset(seen, 0, sizeof seen);
    for (uint64_t id = 0; id < 63 * 200; id++) {
        struct stk_place place =
            stk_augment_place(&augment, draw_of(id), (struct stk_extent){12, 10}, (struct stk_extent){10, 6});
        assert_true(place.x < 7 && place.y < 9);
        seen[place.y][place.x]++;
    }
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 7; x++) assert_true(seen[y][x] > 120 && seen[y][x] < 290);
}

static void test_flips_as_often_as_said(void **state)
{
    (void)state;
    stoker_augment augment = checked((stoker_augment){.flip = 0.25f});
    uint32_t flips = 0;
    for (uint64_t id = 0; id < 20000; id++) flips += stk_augment_flips(&augment, draw_of(id));
    assert_true(flips > 4700 && flips < 5300);
    augment.flip = 0;
    for (uint64_t id = 0; id < 1000; id++) assert_false(stk_augment_flips(&augment, draw_of(id)));
    augment.flip = 1;
    for (uint64_t id = 0; id < 1000; id++) assert_true(stk_augment_flips(&augment, draw_of(id)));
}

static void test_colours_come_in_every_order_within_bounds(void **state)
{
    (void)state;
    const stoker_augment augment =
        checked((stoker_augment){.brightness = 0.4f, .contrast = 2.0f, .saturation = 0.1f, .hue = 0.2f});
    uint32_t first[STK_COLOURS] = {0};
    for (uint64_t id = 0; id < 8000; id++) {
        struct stk_colouring colours;
        stk_augment_colours(&augment, draw_of(id), &colours);
        assert_int_equal(colours.count, 4);
        uint32_t steps = 0;
        for (uint32_t i = 0; i < 4; i++) {
            static const float low[] = {0.6f, 0.0f, 0.9f, -0.2f}, high[] = {1.4f, 3.0f, 1.1f, 0.2f};
            enum stk_colour_step step = colours.step[i];
            steps |= 1u << step;
            assert_true(colours.factor[i] >= low[step] - 1e-6f && colours.factor[i] <= high[step] + 1e-6f);
        }
        assert_int_equal(steps, 15);
        first[colours.step[0]]++;
    }
    for (int i = 0; i < STK_COLOURS; i++) assert_true(first[i] > 1800 && first[i] < 2200);
    struct stk_colouring one, all;
    const stoker_augment hue = checked((stoker_augment){.hue = 0.2f});
    stk_augment_colours(&hue, 9, &one);
    stk_augment_colours(&augment, 9, &all);
    assert_int_equal(one.count, 1);
    for (uint32_t i = 0; i < 4; i++) /* another transform more does not move it */
        if (all.step[i] == STK_COLOUR_HUE) assert_true(all.factor[i] == one.factor[0]);
}

/* A seed means the same on every machine and in every version. */
static void test_numbers_never_change(void **state)
{
    (void)state;
    const stoker_augment augment = checked(
        (stoker_augment){.crop = STOKER_CROP_RESIZED, .flip = 0.5f, .brightness = 0.4f, .contrast = 0.4f, .hue = 0.1f});
    static const struct {
        struct stk_rectangle part;
        bool flip;
    } wanted[3] = {{{496, 48, 951, 913}, false}, {{748, 46, 1015, 847}, false}, {{357, 102, 1034, 931}, false}};
    for (uint64_t id = 0; id < 3; id++) {
        struct stk_rectangle part = stk_augment_part(&augment, draw_of(id), (struct stk_extent){1920, 1080});
        if (memcmp(&part, &wanted[id].part, sizeof part) != 0)
            fail_msg("%u, %u, %u, %u", part.x, part.y, part.width, part.height);
        assert_int_equal(stk_augment_flips(&augment, draw_of(id)), wanted[id].flip);
    }
}

static void test_refusals_name_value_and_bound(void **state)
{
    (void)state;
    stoker_augment out;
    stoker_error err = {0};
#define REFUSES(text, ...)                                                                                             \
    do {                                                                                                               \
        const stoker_augment augment = {__VA_ARGS__};                                                                  \
        assert_int_equal(stk_augment_init(&out, &augment, &err), STOKER_ERR_INVALID_ARGUMENT);                         \
        assert_non_null(strstr(err.message, text));                                                                    \
    } while (0)
    REFUSES("crop 3", .crop = (stoker_crop)3);
    REFUSES("crop_pad is 1", .crop_pad = 1);
    REFUSES("scale is 0.5 to 0.25", .scale = {0.5f, 0.25f});
    REFUSES("scale is 0.5 to 1.5", .scale = {0.5f, 1.5f});
    REFUSES("ratio is -1 to 1", .ratio = {-1, 1});
    REFUSES("flip is 1.5", .flip = 1.5f);
    REFUSES("contrast is -1", .contrast = -1);
    REFUSES("hue is 0.75", .hue = 0.75f);
    REFUSES("flip is", .flip = (float)NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_lie_inside_and_keep_the_bounds),
        cmocka_unit_test(test_a_part_that_never_fits_is_the_middle),
        cmocka_unit_test(test_places_reach_every_corner),
        cmocka_unit_test(test_flips_as_often_as_said),
        cmocka_unit_test(test_colours_come_in_every_order_within_bounds),
        cmocka_unit_test(test_numbers_never_change),
        cmocka_unit_test(test_refusals_name_value_and_bound),
    };
    return stk_run_tests(tests);
}
