/* SPDX-License-Identifier: Apache-2.0
 *
 * Images end to end: forms, sizes, orientation, values, alpha, bounds, and the rule for damaged files.
 */
#include "media/image.h"

#include <math.h>
#include <unistd.h>

#include "media/image_fixture.h"

static stoker_image_spec keep_form(void)
{
    stoker_image_spec spec = STOKER_IMAGE_SPEC_INIT;
    spec.resize = STOKER_IMAGE_KEEP;
    spec.layout = STOKER_IMAGE_HWC;
    return spec;
}

static stoker_status decode(const char *name, const stoker_image_spec *spec, void *dst, size_t size,
                            stoker_image_result *result, stoker_error *err)
{
    struct fixture file = fixture_read(name);
    const stoker_image_bytes bytes = {file.data, file.size};
    stoker_status status = stoker_image_decode(&bytes, spec, dst, size, result, err);
    free(file.data);
    return status;
}

static void test_image_probe(void **state)
{
    (void)state;
    struct fixture file = fixture_read("valid_jpeg_exif6");
    stoker_image_info info;
    stoker_error err;
    assert_int_equal(stoker_image_probe_bytes(file.data, file.size, &info, &err), STOKER_OK);
    assert_int_equal(info.width, FIXTURE_HEIGHT); /* on its side */
    assert_int_equal(info.height, FIXTURE_WIDTH);
    assert_int_equal(info.orientation, 6);
    assert_int_equal(info.bytes, file.size);
    free(file.data);
    assert_int_equal(stoker_image_probe(STK_GOLDEN_IMAGES "/valid_gif", &info, &err), STOKER_OK);
    assert_int_equal(info.format, STOKER_IMAGE_GIF);
    assert_true(info.mtime_ns > 0);
    assert_int_equal(stoker_image_probe("/nowhere/a.png", &info, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(stoker_image_probe(STK_GOLDEN_IMAGES "/bad_text", &info, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.context, "bad_text"));
}

static void test_image_keeps_size_and_turns(void **state)
{
    (void)state;
    if (!stk_image_available(STOKER_IMAGE_PNG)) STK_SKIP("built without libspng");
    uint8_t dst[FIXTURE_WIDTH * FIXTURE_HEIGHT * 3];
    stoker_image_spec spec = keep_form();
    stoker_image_result result;
    stoker_error err;
    assert_int_equal(decode("valid_png_rgba_exif8", &spec, dst, sizeof dst, &result, &err), STOKER_OK);
    assert_int_equal(result.width, FIXTURE_HEIGHT);
    assert_int_equal(result.height, FIXTURE_WIDTH);
    assert_int_equal(result.partial, 0);
    /* Orientation 8: what is seen at (x, y) is stored at (15 - y, x). */
    for (uint32_t y = 0; y < FIXTURE_WIDTH; y++)
        for (uint32_t x = 0; x < FIXTURE_HEIGHT; x++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(dst[(y * FIXTURE_HEIGHT + x) * 3 + (uint32_t)c],
                                 fixture_pixel(FIXTURE_WIDTH - 1 - y, x, c));
    spec.ignore_orientation = 1;
    assert_int_equal(decode("valid_png_rgba_exif8", &spec, dst, sizeof dst, &result, &err), STOKER_OK);
    assert_int_equal(result.width, FIXTURE_WIDTH);
    assert_int_equal(fixture_distance(dst, FIXTURE_WIDTH * 3, 3), 0);
}

static void test_image_values_and_layouts(void **state)
{
    (void)state;
    float dst[3 * FIXTURE_WIDTH * FIXTURE_HEIGHT];
    stoker_image_spec spec = keep_form();
    stoker_error err;
    spec.dtype = STOKER_DTYPE_FLOAT32;
    spec.layout = STOKER_IMAGE_CHW;
    for (int c = 0; c < 3; c++) spec.mean[c] = 0.25f * (float)c, spec.std[c] = 0.5f;
    assert_int_equal(decode("valid_gif", &spec, dst, sizeof dst, NULL, &err), STOKER_OK);
    for (uint32_t y = 0; y < FIXTURE_HEIGHT; y++)
        for (uint32_t x = 0; x < FIXTURE_WIDTH; x++)
            for (int c = 0; c < 3; c++) {
                float expected = ((float)fixture_pixel(x, y, c) / 255.0f - 0.25f * (float)c) / 0.5f;
                float got = dst[((uint32_t)c * FIXTURE_HEIGHT + y) * FIXTURE_WIDTH + x];
                assert_true(fabsf(got - expected) < 1e-5f);
            }
    uint8_t bytes[3 * FIXTURE_WIDTH * FIXTURE_HEIGHT];
    spec = keep_form();
    spec.layout = STOKER_IMAGE_CHW;
    assert_int_equal(decode("valid_gif", &spec, bytes, sizeof bytes, NULL, &err), STOKER_OK);
    assert_int_equal(bytes[FIXTURE_WIDTH * FIXTURE_HEIGHT * 2 + 17], fixture_pixel(1, 1, 2));
    spec.layout = STOKER_IMAGE_HWC;
    spec.dtype = STOKER_DTYPE_FLOAT16;
    uint16_t halves[3 * FIXTURE_WIDTH * FIXTURE_HEIGHT];
    assert_int_equal(decode("valid_gif", &spec, halves, sizeof halves, NULL, &err), STOKER_OK);
    assert_int_equal(halves[(1 * FIXTURE_WIDTH + 2) * 3], stk_half_of(32.0f * (1.0f / 255.0f)));
}

static void test_image_scales_and_crops(void **state)
{
    (void)state;
    stoker_image_spec spec = STOKER_IMAGE_SPEC_INIT;
    stoker_error err;
    stoker_image_result result;
    uint8_t dst[6 * 6 * 3];
    spec.width = spec.height = 6, spec.layout = STOKER_IMAGE_HWC;
    assert_int_equal(stoker_image_sample_bytes(&spec, NULL), sizeof dst);
    assert_int_equal(decode("valid_gif", &spec, dst, sizeof dst, &result, &err), STOKER_OK);
    assert_int_equal(result.width, 6);
    /* Halved to 8x6, one column cut on each side: the first pixel covers columns 2 and 3 and more. */
    assert_true(abs((int)dst[0] - 40) <= 2);
    spec.resize = STOKER_IMAGE_STRETCH;
    assert_int_equal(decode("valid_gif", &spec, dst, sizeof dst, &result, &err), STOKER_OK);
    assert_true(abs((int)dst[0] - 16) <= 6);
}

static void test_image_composites_alpha(void **state)
{
    (void)state;
    if (!stk_image_available(STOKER_IMAGE_PNG)) STK_SKIP("built without libspng");
    uint8_t dst[FIXTURE_WIDTH * FIXTURE_HEIGHT * 3];
    stoker_image_spec spec = keep_form();
    stoker_error err;
    spec.ignore_orientation = 1;
    spec.alpha = STOKER_IMAGE_ALPHA_COMPOSITE;
    spec.background[0] = 200, spec.background[1] = 100, spec.background[2] = 50;
    assert_int_equal(decode("valid_png_rgba_exif8", &spec, dst, sizeof dst, NULL, &err), STOKER_OK);
    for (uint32_t x = 0; x < FIXTURE_WIDTH; x++)
        for (int c = 0; c < 3; c++) {
            double alpha = 255 - 16.0 * x, value = fixture_pixel(x, 3, c) * alpha + spec.background[c] * (255 - alpha);
            assert_int_equal(dst[(3 * FIXTURE_WIDTH + x) * 3 + (uint32_t)c], (int)floor(value / 255 + 0.5));
        }
}

static void test_image_damage_is_bad_unless_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        stoker_image_format format;
        const char *words;
    } bad[] = {{"bad_jpeg_cut", STOKER_IMAGE_JPEG, "the JPEG file ends at byte 669"},
               {"bad_png_cut", STOKER_IMAGE_PNG, "the PNG file ends at byte "},
               {"damaged_png_short", STOKER_IMAGE_PNG, "PNG data is damaged"},
               {"bad_gif_cut", STOKER_IMAGE_GIF, "the GIF file ends at byte 974"},
               {"bad_webp_cut", STOKER_IMAGE_WEBP, "the WebP file ends at byte 106"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (!stk_image_available(bad[i].format)) continue;
        uint8_t dst[FIXTURE_WIDTH * FIXTURE_HEIGHT * 3], again[sizeof dst];
        stoker_image_spec spec = keep_form();
        stoker_image_result result;
        stoker_error err;
        assert_int_equal(decode(bad[i].name, &spec, dst, sizeof dst, NULL, &err), STOKER_ERR_CORRUPT);
        assert_non_null(strstr(err.message, bad[i].words));
        spec.partial = STOKER_IMAGE_PARTIAL_ACCEPT;
        stoker_status status = decode(bad[i].name, &spec, dst, sizeof dst, &result, &err);
        if (status < 0) { /* not one line of it */
            assert_int_equal(status, STOKER_ERR_CORRUPT);
            continue;
        }
        assert_int_equal(result.partial, 1);
        assert_int_equal(decode(bad[i].name, &spec, again, sizeof again, &result, &err), STOKER_OK);
        assert_memory_equal(dst, again, sizeof dst);
    }
}

static void test_image_bounds(void **state)
{
    (void)state;
    uint8_t dst[FIXTURE_WIDTH * FIXTURE_HEIGHT * 3];
    stoker_image_spec spec = keep_form();
    stoker_error err;
    assert_int_equal(decode("bad_png_huge", &spec, dst, sizeof dst, NULL, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "the PNG header says 60000x60000 pixels"));
    assert_int_equal(decode("bad_jpeg_huge", &spec, dst, sizeof dst, NULL, &err), STOKER_ERR_CORRUPT);
    spec.pixels_max = 191;
    assert_int_equal(decode("valid_gif", &spec, dst, sizeof dst, NULL, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "191 in all"));
    spec.pixels_max = 192;
    assert_int_equal(decode("valid_gif", &spec, dst, sizeof dst, NULL, &err), STOKER_OK);
    assert_int_equal(decode("valid_gif", &spec, dst, sizeof dst - 1, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "575 bytes, the sample of 16x12 pixels 576"));
}

static void test_image_forms_that_are_refused(void **state)
{
    (void)state;
    struct stk_image_form form;
    stoker_error err;
    stoker_image_spec spec = STOKER_IMAGE_SPEC_INIT;
    assert_int_equal(stk_image_form_init(&form, &spec, &err), STOKER_ERR_INVALID_ARGUMENT); /* no size */
    assert_int_equal(stoker_image_sample_bytes(&spec, NULL), 0);
    spec.width = spec.height = 8;
    assert_int_equal(stk_image_form_init(&form, &spec, &err), STOKER_OK);
    assert_int_equal(form.spec.pixels_max, 178956970);
    spec.resize = STOKER_IMAGE_KEEP;
    assert_int_equal(stk_image_form_init(&form, &spec, &err), STOKER_ERR_INVALID_ARGUMENT);
    spec.resize = STOKER_IMAGE_STRETCH, spec.background[1] = 1;
    assert_int_equal(stk_image_form_init(&form, &spec, &err), STOKER_ERR_INVALID_ARGUMENT);
    spec.background[1] = 0, spec.filter = (stoker_image_filter)2;
    assert_int_equal(stk_image_form_init(&form, &spec, &err), STOKER_ERR_INVALID_ARGUMENT);
    spec.filter = STOKER_IMAGE_BICUBIC, spec.mean[0] = 0.5f; /* with uint8 */
    assert_int_equal(stk_image_form_init(&form, &spec, &err), STOKER_ERR_INVALID_ARGUMENT);
    spec.mean[0] = 0, spec.struct_size = 8;
    assert_int_equal(stk_image_form_init(&form, &spec, &err), STOKER_ERR_UNSUPPORTED);
    spec = keep_form();
    stoker_image_info info = {.width = 7, .height = 3, .orientation = 6};
    assert_int_equal(stoker_image_sample_bytes(&spec, &info), 63);
    assert_int_equal(stoker_image_sample_bytes(&spec, NULL), 0);
}

static void test_image_without_decoder_says_so(void **state)
{
    (void)state;
    uint8_t dst[FIXTURE_WIDTH * FIXTURE_HEIGHT * 3];
    stoker_image_spec spec = keep_form();
    stoker_error err;
    static const struct {
        stoker_image_format format;
        const char *name;
    } each[] = {{STOKER_IMAGE_JPEG, "valid_jpeg_420"},
                {STOKER_IMAGE_PNG, "valid_png_rgb"},
                {STOKER_IMAGE_WEBP, "valid_webp_lossy"},
                {STOKER_IMAGE_GIF, "valid_gif"}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        stoker_status status = decode(each[i].name, &spec, dst, sizeof dst, NULL, &err);
        assert_int_equal(status, stk_image_available(each[i].format) ? STOKER_OK : STOKER_ERR_UNSUPPORTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_probe),
        cmocka_unit_test(test_image_keeps_size_and_turns),
        cmocka_unit_test(test_image_values_and_layouts),
        cmocka_unit_test(test_image_scales_and_crops),
        cmocka_unit_test(test_image_composites_alpha),
        cmocka_unit_test(test_image_damage_is_bad_unless_accepted),
        cmocka_unit_test(test_image_bounds),
        cmocka_unit_test(test_image_forms_that_are_refused),
        cmocka_unit_test(test_image_without_decoder_says_so),
    };
    return stk_run_tests(tests);
}
