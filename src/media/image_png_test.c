/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG: exact pixels of every kind, and the lines before damage.
 */
#include "media/image_fixture.h"

static void test_png_is_exact(void **state)
{
    (void)state;
    if (!stk_png_available()) STK_SKIP("built without libspng");
    static const char *const names[] = {"valid_png_rgb", "valid_png_rgba_exif8", "valid_png_deep",
                                        "valid_png_interlaced", "valid_apng"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct fixture_run run = fixture_decode(names[i], stk_png_decode, false, false, 1);
        assert_int_equal(run.status, STOKER_OK);
        assert_int_equal(run.pixels.channels, 3);
        assert_int_equal(fixture_distance(run.pixels.data, run.pixels.stride, 3), 0);
    }
    struct fixture_run grey = fixture_decode("valid_png_grey", stk_png_decode, false, false, 1);
    assert_int_equal(grey.status, STOKER_OK);
    assert_int_equal(grey.pixels.data[45], grey.pixels.data[46]);
}

static void test_png_gives_alpha_if_asked(void **state)
{
    (void)state;
    if (!stk_png_available()) STK_SKIP("built without libspng");
    struct fixture_run run = fixture_decode("valid_png_rgba_exif8", stk_png_decode, true, false, 1);
    assert_int_equal(run.status, STOKER_OK);
    assert_int_equal(run.pixels.channels, 4);
    assert_int_equal(run.pixels.data[3], 255);
    assert_int_equal(run.pixels.data[4 * 3 + 3], 255 - 48);
    assert_int_equal(fixture_distance(run.pixels.data, run.pixels.stride, 4), 0);
    run = fixture_decode("valid_png_rgb", stk_png_decode, true, false, 1); /* it has none */
    assert_int_equal(run.pixels.channels, 3);
    run = fixture_decode("valid_png_palette_trns", stk_png_decode, true, false, 1);
    assert_int_equal(run.status, STOKER_OK);
    assert_int_equal(run.pixels.channels, 4);
    bool clear = false;
    for (size_t i = 0; i < (size_t)FIXTURE_WIDTH * FIXTURE_HEIGHT; i++)
        clear = clear || run.pixels.data[4 * i + 3] == 0;
    assert_true(clear);
}

static void test_png_damage(void **state)
{
    (void)state;
    if (!stk_png_available()) STK_SKIP("built without libspng");
    struct fixture_run run = fixture_decode("damaged_png_short", stk_png_decode, false, true, 1);
    assert_int_equal(run.status, STOKER_ERR_CORRUPT);
    assert_true(run.pixels.usable); /* two or three lines of twelve */
    run = fixture_decode("bad_png_cut", stk_png_decode, false, true, 1);
    assert_int_equal(run.status, STOKER_ERR_CORRUPT);
    assert_true(run.pixels.usable);
    run = fixture_decode("damaged_png_crc", stk_png_decode, false, true, 1);
    assert_int_equal(run.status, STOKER_ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_is_exact),
        cmocka_unit_test(test_png_gives_alpha_if_asked),
        cmocka_unit_test(test_png_damage),
    };
    return stk_run_tests(tests);
}
