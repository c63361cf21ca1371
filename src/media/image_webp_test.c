/* SPDX-License-Identifier: Apache-2.0
 *
 * WebP: both kinds of coding, the first frame of an animation, and cut files.
 */
#include "media/image_fixture.h"

static void test_webp_decodes_each_kind(void **state)
{
    (void)state;
    if (!stk_webp_available()) STK_SKIP("built without libwebp");
    struct fixture_run run = fixture_decode("valid_webp_lossy", stk_webp_decode, false, false, 1);
    assert_int_equal(run.status, STOKER_OK);
    assert_true(fixture_distance(run.pixels.data, run.pixels.stride, 3) <= 30);
    static const char *const exact[] = {"valid_webp_lossless_alpha", "valid_webp_exif3", "valid_webp_animation"};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        run = fixture_decode(exact[i], stk_webp_decode, false, false, 1);
        assert_int_equal(run.status, STOKER_OK);
        assert_int_equal(fixture_distance(run.pixels.data, run.pixels.stride, run.pixels.channels), 0);
    }
    run = fixture_decode("valid_webp_lossless_alpha", stk_webp_decode, true, false, 1);
    assert_int_equal(run.pixels.channels, 4);
    assert_int_equal(run.pixels.data[4 * 5 + 3], 255 - 80);
}

static void test_webp_damage(void **state)
{
    (void)state;
    if (!stk_webp_available()) STK_SKIP("built without libwebp");
    struct fixture_run run = fixture_decode("bad_webp_cut", stk_webp_decode, false, true, 1);
    assert_int_equal(run.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(run.err.message, "WebP data is damaged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_webp_decodes_each_kind),
        cmocka_unit_test(test_webp_damage),
    };
    return stk_run_tests(tests);
}
