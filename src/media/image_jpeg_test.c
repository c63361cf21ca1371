/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG: colour spaces, reduced decoding, and what is said of damage.
 */
#include "media/image_fixture.h"

static void test_jpeg_decodes_each_kind(void **state)
{
    (void)state;
    if (!stk_jpeg_available()) STK_SKIP("built without libturbojpeg");
    static const struct {
        const char *name;
        int apart_max; /* lossy; chroma of 4:2:0 is blurred over neighbours */
    } expected[] = {{"valid_jpeg_444_progressive", 8},
                    {"valid_jpeg_420", 30},
                    {"valid_jpeg_restart", 30},
                    {"valid_jpeg_exif6", 30},
                    {"valid_jpeg_after_end", 30}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct fixture_run run = fixture_decode(expected[i].name, stk_jpeg_decode, false, false, 1);
        assert_int_equal(run.status, STOKER_OK);
        assert_int_equal(run.pixels.width, FIXTURE_WIDTH);
        assert_int_equal(run.pixels.channels, 3);
        assert_true(fixture_distance(run.pixels.data, run.pixels.stride, 3) <= expected[i].apart_max);
    }
    struct fixture_run grey = fixture_decode("valid_jpeg_grey", stk_jpeg_decode, false, false, 1);
    assert_int_equal(grey.status, STOKER_OK);
    assert_memory_equal(grey.pixels.data + 30, grey.pixels.data + 31, 1);
    struct fixture_run inks = fixture_decode("valid_jpeg_cmyk", stk_jpeg_decode, false, false, 1);
    assert_int_equal(inks.status, STOKER_OK);
    assert_int_equal(inks.pixels.channels, 3);
    assert_true(fixture_distance(inks.pixels.data, inks.pixels.stride, 3) <= 30);
}

static void test_jpeg_reduces(void **state)
{
    (void)state;
    if (!stk_jpeg_available()) STK_SKIP("built without libturbojpeg");
    for (uint32_t reduce = 2; reduce <= 8; reduce *= 2) {
        struct fixture_run run = fixture_decode("valid_jpeg_444_progressive", stk_jpeg_decode, false, false, reduce);
        assert_int_equal(run.status, STOKER_OK);
        assert_int_equal(run.pixels.width, (FIXTURE_WIDTH + reduce - 1) / reduce);
        assert_int_equal(run.pixels.height, (FIXTURE_HEIGHT + reduce - 1) / reduce);
        /* The first pixel is the mean of the first reduce x reduce. */
        assert_true(abs((int)run.pixels.data[0] - (int)(16 * (reduce - 1) / 2)) <= 10);
    }
}

static void test_jpeg_damage(void **state)
{
    (void)state;
    if (!stk_jpeg_available()) STK_SKIP("built without libturbojpeg");
    struct fixture_run run = fixture_decode("bad_jpeg_cut", stk_jpeg_decode, false, true, 1);
    assert_int_equal(run.status, STOKER_ERR_CORRUPT);
    assert_true(run.pixels.usable);
    assert_non_null(strstr(run.err.message, "Premature end"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jpeg_decodes_each_kind),
        cmocka_unit_test(test_jpeg_reduces),
        cmocka_unit_test(test_jpeg_damage),
    };
    return stk_run_tests(tests);
}
