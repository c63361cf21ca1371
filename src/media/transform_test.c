/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms, rounding, the fit of pictures, rotation and layouts, with canaries around every destination.
 */
#include "media/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

static stoker_video_spec spec_of(uint32_t frames, uint32_t width, uint32_t height, stoker_dtype dtype,
                                 stoker_video_layout layout)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = frames, spec.width = width, spec.height = height, spec.dtype = dtype, spec.layout = layout;
    return spec;
}

static void test_form_refuses_what_it_cannot_mean(void **state)
{
    (void)state;
    struct stk_form form;
    stoker_error err;
    stoker_video_spec good = spec_of(4, 16, 8, STOKER_DTYPE_FLOAT32, STOKER_LAYOUT_TCHW), spec = good;
    assert_int_equal(stk_form_init(&form, &good, &err), STOKER_OK);
    assert_int_equal(form.sample_bytes, 4 * 3 * 16 * 8 * 4);
#define REFUSES(change)                                                                                                \
    do {                                                                                                               \
        spec = good;                                                                                                   \
        change;                                                                                                        \
        assert_int_equal(stk_form_init(&form, &spec, &err), STOKER_ERR_INVALID_ARGUMENT);                              \
    } while (0)
    REFUSES(spec.frames = 0);
    REFUSES(spec.frames = 65537);
    REFUSES(spec.width = 0);
    REFUSES(spec.height = 65537);
    REFUSES(spec.dtype = STOKER_DTYPE_INT64);
    REFUSES(spec.dtype = (stoker_dtype)77);
    REFUSES(spec.layout = (stoker_video_layout)3);
    REFUSES(spec.resize = (stoker_resize_mode)3);
    REFUSES((spec.resize = STOKER_RESIZE_PAD, spec.augment.crop = STOKER_CROP_RANDOM));
    REFUSES(spec.mode = (stoker_video_mode)2);
    REFUSES(spec.filter = STOKER_VIDEO_BICUBIC);
    REFUSES(spec.augment.flip = 2);
    REFUSES(spec.short_clip = (stoker_short_clip)2);
    REFUSES(spec.damaged_max = NAN);
    REFUSES(spec.damaged_max = 1.5);
    REFUSES(spec.mean[1] = NAN);
    REFUSES(spec.std[2] = -1);
    REFUSES((spec.dtype = STOKER_DTYPE_UINT8, spec.std[0] = 1));
    REFUSES((spec.frames = 65536, spec.width = spec.height = 1024)); /* over 16 GiB */
    REFUSES((spec.frames = 65536, spec.width = spec.height = 65536));
#undef REFUSES
    spec = good;
    spec.struct_size += 8;
    assert_int_equal(stk_form_init(&form, &spec, &err), STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_video_sample_bytes(&spec), 0);
    assert_int_equal(stoker_video_sample_bytes(&good), 4 * 3 * 16 * 8 * 4);
}

static void test_half_and_bfloat_round_to_nearest_even(void **state)
{
    (void)state;
    const struct {
        float value;
        uint16_t half;
    } cases[] = {{0, 0},
                 {-0.0f, 0x8000},
                 {1, 0x3c00},
                 {-2, 0xc000},
                 {65504, 0x7bff},
                 {65519, 0x7bff},
                 {65520, 0x7c00},
                 {INFINITY, 0x7c00},
                 {1.0f + 1.0f / 2048, 0x3c00},
                 {1.0f + 3.0f / 2048, 0x3c02},
                 {0.00006103515625f, 0x0400},
                 {5.9604644775390625e-8f, 1},
                 {2.98023223876953125e-8f, 0},
                 {8.94069671630859375e-8f, 2},
                 {1e-10f, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(stk_half_of(cases[i].value), cases[i].half);
    assert_int_equal(stk_half_of(NAN) & 0x7e00, 0x7e00);
    /* Every half is the nearest of itself. */
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        int exponent = (int)(bits >> 10);
        float value = exponent ? ldexpf(1024 + (float)(bits & 1023), exponent - 25) : ldexpf((float)bits, -24);
        assert_int_equal(stk_half_of(value), bits);
        assert_int_equal(stk_half_of(-value), bits | 0x8000);
    }
    assert_int_equal(stk_bfloat_of(1), 0x3f80);
    assert_int_equal(stk_bfloat_of(1.0f + 1.0f / 256), 0x3f80);
    assert_int_equal(stk_bfloat_of(1.0f + 3.0f / 256), 0x3f82);
    assert_int_equal(stk_bfloat_of(INFINITY), 0x7f80);
    assert_true((stk_bfloat_of(NAN) & 0x7fff) > 0x7f80);
}

static void check_fit(int32_t rotation, const uint32_t picture[2], const uint32_t size[2], const uint32_t expected[6])
{
    struct stk_fit fit =
        stk_fit_picture(STOKER_RESIZE_SHORT_SIDE_CROP, picture[0], picture[1], rotation, size[0], size[1]);
    const uint32_t got[6] = {fit.scaled_width, fit.scaled_height, fit.keep.x,
                             fit.keep.y,       fit.keep.width,    fit.keep.height};
    assert_memory_equal(got, expected, sizeof got);
}

static void test_fit_cuts_the_long_side_and_rounds_half_to_even(void **state)
{
    (void)state;
    check_fit(0, (const uint32_t[]){640, 360}, (const uint32_t[]){224, 224},
              (const uint32_t[]){398, 224, 87, 0, 224, 224});
    check_fit(0, (const uint32_t[]){360, 640}, (const uint32_t[]){224, 224},
              (const uint32_t[]){224, 398, 0, 87, 224, 224});
    check_fit(0, (const uint32_t[]){227, 224}, (const uint32_t[]){224, 224},
              (const uint32_t[]){227, 224, 2, 0, 224, 224});
    check_fit(0, (const uint32_t[]){225, 224}, (const uint32_t[]){224, 224},
              (const uint32_t[]){225, 224, 0, 0, 224, 224});
    check_fit(0, (const uint32_t[]){100, 100}, (const uint32_t[]){50, 20}, (const uint32_t[]){50, 50, 0, 15, 50, 20});
    /* Seen upright the picture is 360x640 in both; margins swap sides where they are not equal (surplus 1: 0 and 1). */
    check_fit(90, (const uint32_t[]){225, 224}, (const uint32_t[]){224, 224},
              (const uint32_t[]){225, 224, 0, 0, 224, 224});
    check_fit(180, (const uint32_t[]){225, 224}, (const uint32_t[]){224, 224},
              (const uint32_t[]){225, 224, 1, 0, 224, 224});
    check_fit(270, (const uint32_t[]){225, 224}, (const uint32_t[]){224, 224},
              (const uint32_t[]){225, 224, 1, 0, 224, 224});
    check_fit(90, (const uint32_t[]){640, 360}, (const uint32_t[]){100, 50},
              (const uint32_t[]){177, 100, 64, 0, 50, 100});
    struct stk_fit fit = stk_fit_picture(STOKER_RESIZE_EXACT, 640, 360, 90, 30, 40);
    assert_int_equal(fit.scaled_width, 40);
    assert_int_equal(fit.scaled_height, 30);
}

static void test_rotation_turns_clockwise(void **state)
{
    (void)state;
    const uint8_t from[6] = {1, 2, 3, 4, 5, 6}; /* 3 wide, 2 high */
    uint8_t to[6];
    const uint8_t quarter[] = {4, 1, 5, 2, 6, 3}, half[] = {6, 5, 4, 3, 2, 1}, three[] = {3, 6, 2, 5, 1, 4};
    stk_rotate_plane(from, 3, 3, 2, 90, to, 2);
    assert_memory_equal(to, quarter, 6);
    stk_rotate_plane(from, 3, 3, 2, 180, to, 3);
    assert_memory_equal(to, half, 6);
    stk_rotate_plane(from, 3, 3, 2, 270, to, 2);
    assert_memory_equal(to, three, 6);
}

/* Cutting then turning gives what turning then cutting gives. */
static void test_rotated_rectangle_is_the_seen_centre(void **state)
{
    (void)state;
    enum { W = 23, H = 16, SIDE = 11 };
    uint8_t picture[W * H], turned[W * H], cut[SIDE * SIDE];
    for (int i = 0; i < W * H; i++) picture[i] = (uint8_t)(i * 7);
    const int32_t rotations[] = {90, 180, 270};
    for (int r = 0; r < 3; r++) {
        bool side = rotations[r] != 180;
        size_t width = side ? H : W, height = side ? W : H;
        stk_rotate_plane(picture, W, W, H, rotations[r], turned, width);
        /* EXACT of the seen size keeps the scale at 1; take the centre by hand as the fit does. */
        struct stk_fit fit =
            stk_fit_picture(STOKER_RESIZE_SHORT_SIDE_CROP, W, H, rotations[r], side ? H : SIDE, side ? SIDE : H);
        if (fit.scaled_width != W || fit.scaled_height != H) fail();
        uint8_t kept[W * H];
        stk_rotate_plane(picture + fit.keep.y * W + fit.keep.x, W, fit.keep.width, fit.keep.height, rotations[r], kept,
                         side ? fit.keep.height : fit.keep.width);
        size_t out_width = side ? H : SIDE, out_height = side ? SIDE : H;
        size_t x = (width - out_width) / 2, y = (height - out_height) / 2;
        for (size_t row = 0; row < out_height; row++)
            assert_memory_equal(kept + row * out_width, turned + (row + y) * width + x, out_width);
    }
    (void)cut;
}

/* Two frames through each layout and type against the definition, in a block of exact size (address sanitizer). */
static void check_layout(stoker_dtype dtype, stoker_video_layout layout)
{
    enum { T = 2, H = 3, W = 21 };
    stoker_video_spec spec = spec_of(T, W, H, dtype, layout);
    if (dtype != STOKER_DTYPE_UINT8)
        for (int c = 0; c < 3; c++) spec.mean[c] = 0.1f * (float)(c + 1), spec.std[c] = 0.5f + (float)c;
    struct stk_form form;
    assert_int_equal(stk_form_init(&form, &spec, NULL), STOKER_OK);
    uint8_t planes[3][H * 32], *dst = malloc(form.sample_bytes);
    assert_non_null(dst);
    for (uint32_t t = 0; t < T; t++) {
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < H * 32; i++) planes[c][i] = (uint8_t)(i * 5 + c * 17 + (int)t * 91);
        const struct stk_planes view = {{planes[0], planes[1], planes[2]}, 32};
        stk_form_store(&form, &view, dst, t);
    }
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < 3; c++)
            for (size_t y = 0; y < H; y++)
                for (size_t x = 0; x < W; x++) {
                    size_t at = layout == STOKER_LAYOUT_TCHW   ? ((t * 3 + c) * H + y) * W + x
                                : layout == STOKER_LAYOUT_CTHW ? ((c * T + t) * H + y) * W + x
                                                               : ((t * H + y) * W + x) * 3 + c;
                    uint8_t in = (uint8_t)((int)(y * 32 + x) * 5 + (int)c * 17 + (int)t * 91);
                    float value = (float)in * form.scale[c] + form.offset[c];
                    if (dtype == STOKER_DTYPE_UINT8) assert_int_equal(dst[at], in);
                    if (dtype == STOKER_DTYPE_FLOAT32) assert_memory_equal(dst + 4 * at, &value, 4);
                    uint16_t small = dtype == STOKER_DTYPE_FLOAT16 ? stk_half_of(value) : stk_bfloat_of(value);
                    if (form.value_bytes == 2) assert_memory_equal(dst + 2 * at, &small, 2);
                    if (dtype != STOKER_DTYPE_UINT8) {
                        double exact = (in / 255.0 - (double)spec.mean[c]) / (double)spec.std[c];
                        assert_true(fabs(exact - (double)value) < 1e-5);
                    }
                }
    free(dst);
}

static void test_store_follows_every_layout_and_type(void **state)
{
    (void)state;
    const stoker_dtype types[] = {STOKER_DTYPE_UINT8, STOKER_DTYPE_FLOAT16, STOKER_DTYPE_BFLOAT16,
                                  STOKER_DTYPE_FLOAT32};
    const stoker_video_layout layouts[] = {STOKER_LAYOUT_TCHW, STOKER_LAYOUT_CTHW, STOKER_LAYOUT_THWC};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++) check_layout(types[i], layouts[j]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form_refuses_what_it_cannot_mean),
        cmocka_unit_test(test_half_and_bfloat_round_to_nearest_even),
        cmocka_unit_test(test_fit_cuts_the_long_side_and_rounds_half_to_even),
        cmocka_unit_test(test_rotation_turns_clockwise),
        cmocka_unit_test(test_rotated_rectangle_is_the_seen_centre),
        cmocka_unit_test(test_store_follows_every_layout_and_type),
    };
    return stk_run_tests(tests);
}
