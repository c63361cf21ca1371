/* SPDX-License-Identifier: Apache-2.0
 *
 * GIF: the first frame, transparency, interlacing, and where bad data ends.
 */
#include "media/image_fixture.h"

static void test_gif_decodes(void **state)
{
    (void)state;
    struct fixture_run run = fixture_decode("valid_gif", stk_gif_decode, false, false, 1);
    assert_int_equal(run.status, STOKER_OK);
    assert_int_equal(run.pixels.channels, 3);
    assert_int_equal(fixture_distance(run.pixels.data, run.pixels.stride, 3), 0); /* 192 pixels, as many colours */
    run = fixture_decode("valid_gif_transparent", stk_gif_decode, true, false, 1);
    assert_int_equal(run.status, STOKER_OK);
    assert_int_equal(run.pixels.channels, 4);
    assert_true(fixture_distance(run.pixels.data, run.pixels.stride, 4) <= 110); /* 8 colours, in the right lines */
    size_t clear = 0;
    for (size_t i = 0; i < (size_t)FIXTURE_WIDTH * FIXTURE_HEIGHT; i++) clear += run.pixels.data[4 * i + 3] == 0;
    assert_true(clear > 0 && clear < 192);
}

static void test_gif_damage(void **state)
{
    (void)state;
    struct fixture_run run = fixture_decode("bad_gif_cut", stk_gif_decode, false, true, 1);
    assert_int_equal(run.status, STOKER_ERR_CORRUPT);
    assert_true(run.pixels.usable);
    assert_non_null(strstr(run.err.message, "ends at byte 974"));
    run = fixture_decode("bad_gif_outside", stk_gif_decode, false, false, 1);
    assert_int_equal(run.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(run.err.message, "16x12 at 9,0 of a canvas of 16x12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gif_decodes),
        cmocka_unit_test(test_gif_damage),
    };
    return stk_run_tests(tests);
}
