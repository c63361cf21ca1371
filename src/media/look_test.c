/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of pictures: parts, windows that reach past the edge, letter boxes, rotations and orientations; and what is
 * laid around, mirrored and cut, pixel by pixel.
 */
#include "media/look.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

static const stoker_augment NOTHING = {STOKER_CROP_CENTRE, 0, {0, 0, 0, 0}, {0.08f, 1}, {0.75f, 1.3f}, 0, 0, 0, 0, 0};

static void test_nothing_random_is_the_usual_fit(void **state)
{
    (void)state;
    for (uint32_t w = 10; w < 400; w += 37)
        for (uint32_t h = 10; h < 400; h += 41)
            for (int32_t rotation = 0; rotation < 360; rotation += 90) {
                bool turned = rotation % 180;
                const struct stk_extent seen = {turned ? h : w, turned ? w : h};
                struct stk_look look =
                    stk_look_plan(STOKER_RESIZE_SHORT_SIDE_CROP, &NOTHING, 5, seen, (struct stk_extent){64, 48});
                struct stk_fit fit = stk_look_fit(&look, rotation);
                struct stk_fit usual = stk_fit_picture(STOKER_RESIZE_SHORT_SIDE_CROP, w, h, rotation, 64, 48);
                assert_true(stk_look_is_plain(&look));
                assert_memory_equal(&fit, &usual, sizeof fit);
            }
}

static void test_padded_pictures_are_whole_and_in_the_middle(void **state)
{
    (void)state;
    struct stk_look look =
        stk_look_plan(STOKER_RESIZE_PAD, &NOTHING, 0, (struct stk_extent){200, 100}, (struct stk_extent){64, 64});
    assert_int_equal(look.scaled.width, 64);
    assert_int_equal(look.scaled.height, 32);
    assert_int_equal(look.place.x, 0);
    assert_int_equal(look.place.y, 16);
    assert_false(stk_look_is_covered(&look));
    look = stk_look_plan(STOKER_RESIZE_PAD, &NOTHING, 0, (struct stk_extent){1, 5000}, (struct stk_extent){64, 64});
    assert_int_equal(look.scaled.width, 1);
    assert_int_equal(look.scaled.height, 64);
    look = stk_look_plan(STOKER_RESIZE_PAD, &NOTHING, 0, (struct stk_extent){30, 30}, (struct stk_extent){64, 64});
    assert_true(stk_look_is_plain(&look));
}

/* A window of 8 x 6 over a 10 x 6 picture with 3 pixels around it. */
static void test_windows_may_reach_past_the_edge(void **state)
{
    (void)state;
    stoker_augment augment = NOTHING;
    augment.crop = STOKER_CROP_RANDOM, augment.crop_pad = 3;
    bool left = false, right = false, inside = false;
    for (uint64_t draw = 0; draw < 500; draw++) {
        struct stk_look look = stk_look_plan(STOKER_RESIZE_SHORT_SIDE_CROP, &augment, draw, (struct stk_extent){10, 6},
                                             (struct stk_extent){8, 6});
        assert_int_equal(look.scaled.width, 10);
        assert_true(look.keep.x + look.keep.width <= 10 && look.keep.y + look.keep.height <= 6);
        assert_true(look.place.x + look.keep.width <= 8 && look.place.y + look.keep.height <= 6);
        assert_true(look.keep.width >= 5 && look.keep.height >= 3);
        left = left || look.place.x > 0;
        right = right || look.keep.width + look.place.x < 8;
        inside = inside || look.keep.width == 8;
        if (look.place.x > 0) assert_int_equal(look.keep.x, 0);
    }
    assert_true(left && right && inside);
    augment.crop_pad = 1000; /* mostly nothing of the picture is seen */
    bool empty = false;
    for (uint64_t draw = 0; draw < 50; draw++) {
        struct stk_look look =
            stk_look_plan(STOKER_RESIZE_EXACT, &augment, draw, (struct stk_extent){10, 6}, (struct stk_extent){8, 6});
        empty = empty || look.keep.width == 0;
        assert_int_equal(look.keep.width == 0, look.keep.height == 0);
    }
    assert_true(empty);
}

/* The part of a turned picture holds the pixels that the part of the upright one does. */
static void test_parts_are_found_in_stored_pictures(void **state)
{
    (void)state;
    enum { W = 7, H = 5 };
    for (int32_t orientation = 1; orientation <= 8; orientation++) {
        bool sideways = orientation >= 5;
        const uint32_t sw = sideways ? H : W, sh = sideways ? W : H;
        const struct stk_look look = {.part = {2, 1, 3, 2}};
        const struct stk_rectangle part = stk_look_stored(&look, (struct stk_extent){W, H}, orientation);
        uint32_t found = 0;
        for (uint32_t y = 0; y < sh; y++)
            for (uint32_t x = 0; x < sw; x++) {
                /* Where this stored pixel is seen, by the definition of the orientations. */
                uint32_t seen_x[] = {0, x, sw - 1 - x, sw - 1 - x, x, y, sh - 1 - y, sh - 1 - y, y};
                uint32_t seen_y[] = {0, y, y, sh - 1 - y, sh - 1 - y, x, x, sw - 1 - x, sw - 1 - x};
                bool in_seen = seen_x[orientation] >= 2 && seen_x[orientation] < 5 && seen_y[orientation] >= 1 &&
                               seen_y[orientation] < 3;
                bool in_part = x >= part.x && x < part.x + part.width && y >= part.y && y < part.y + part.height;
                assert_int_equal(in_seen, in_part);
                found += in_part;
            }
        assert_int_equal(found, 6);
    }
}

static void test_what_is_around_has_the_colour_of_the_form(void **state)
{
    (void)state;
    struct stk_look look = {.keep = {0, 0, 3, 2}, .place = {2, 1}, .result = {6, 4}, .pad = {9, 8, 7}};
    uint8_t kept[3][6];
    struct stk_look_room room = {0};
    struct stk_planes out;
    const struct stk_planes planes = {{kept[0], kept[1], kept[2]}, 3};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 6; i++) kept[c][i] = (uint8_t)(100 + 10 * c + i);
    for (int flip = 0; flip < 2; flip++) {
        look.flip = flip;
        assert_int_equal(stk_look_finish(&look, &planes, NULL, &room, &out, NULL), STOKER_OK);
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t y = 0; y < 4; y++)
                for (uint32_t x = 0; x < 6; x++) {
                    uint32_t from = flip ? 5 - x : x;
                    bool inside = from >= 2 && from < 5 && y >= 1 && y < 3;
                    uint8_t wanted = inside ? kept[c][(y - 1) * 3 + from - 2] : look.pad[c];
                    assert_int_equal(out.rgb[c][y * out.stride + x], wanted);
                }
    }
    stk_look_room_fini(&room);
}

static void test_parts_are_scaled_without_what_is_beside_them(void **state)
{
    (void)state;
    enum { W = 40, H = 30 };
    static uint8_t picture[3][W * H];
    for (int c = 0; c < 3; c++) memset(picture[c], 255, sizeof picture[c]);
    for (uint32_t y = 10; y < 20; y++)
        for (uint32_t x = 5; x < 25; x++)
            for (int c = 0; c < 3; c++) picture[c][y * W + x] = (uint8_t)(50 + c);
    const struct stk_look look = {
        .part = {5, 10, 20, 10}, .scaled = {16, 16}, .keep = {0, 0, 16, 16}, .result = {16, 16}};
    const struct stk_planes planes = {{picture[0], picture[1], picture[2]}, W};
    struct stk_look_room room = {0};
    struct stk_filtered out;
    for (int filter = 0; filter < 2; filter++) {
        assert_int_equal(stk_look_scale(&look, (stoker_image_filter)filter, &planes, &room, &out, NULL), STOKER_OK);
        for (uint32_t y = 0; y < 16; y++)
            for (uint32_t x = 0; x < 48; x++) assert_int_equal(out.rgb[y * out.stride + x], 50 + x % 3);
    }
    stk_look_room_fini(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_random_is_the_usual_fit),
        cmocka_unit_test(test_padded_pictures_are_whole_and_in_the_middle),
        cmocka_unit_test(test_windows_may_reach_past_the_edge),
        cmocka_unit_test(test_parts_are_found_in_stored_pictures),
        cmocka_unit_test(test_what_is_around_has_the_colour_of_the_form),
        cmocka_unit_test(test_parts_are_scaled_without_what_is_beside_them),
    };
    return stk_run_tests(tests);
}
