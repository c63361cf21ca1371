/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of the corpus' files, hostile orientation blocks, and every cut of every file.
 */
#include "media/image_fixture.h"

static struct stk_image_head head_of(const char *name)
{
    struct fixture file = fixture_read(name);
    struct stk_image_head head;
    stoker_error err;
    assert_int_equal(stk_image_head_read(file.data, file.size, &head, &err), STOKER_OK);
    free(file.data);
    return head;
}

static void test_image_head_reads_each_format(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        stoker_image_format format;
        uint32_t channels, depth;
        int32_t orientation;
        bool alpha;
    } expected[] = {
        {"valid_jpeg_420", STOKER_IMAGE_JPEG, 3, 8, 1, false},
        {"valid_jpeg_grey", STOKER_IMAGE_JPEG, 1, 8, 1, false},
        {"valid_jpeg_cmyk", STOKER_IMAGE_JPEG, 4, 8, 1, false},
        {"valid_jpeg_exif6", STOKER_IMAGE_JPEG, 3, 8, 6, false},
        {"valid_png_rgb", STOKER_IMAGE_PNG, 3, 8, 1, false},
        {"valid_png_rgba_exif8", STOKER_IMAGE_PNG, 4, 8, 8, true},
        {"valid_png_grey", STOKER_IMAGE_PNG, 1, 8, 1, false},
        {"valid_png_palette_trns", STOKER_IMAGE_PNG, 4, 8, 1, true},
        {"valid_png_deep", STOKER_IMAGE_PNG, 3, 16, 1, false},
        {"valid_apng", STOKER_IMAGE_PNG, 3, 8, 1, false},
        {"valid_webp_lossy", STOKER_IMAGE_WEBP, 3, 8, 1, false},
        {"valid_webp_lossless_alpha", STOKER_IMAGE_WEBP, 4, 8, 1, true},
        {"valid_webp_exif3", STOKER_IMAGE_WEBP, 3, 8, 3, false},
        {"valid_gif", STOKER_IMAGE_GIF, 3, 8, 1, false},
        {"valid_gif_transparent", STOKER_IMAGE_GIF, 4, 8, 1, true},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct stk_image_head head = head_of(expected[i].name);
        assert_int_equal(head.format, expected[i].format);
        assert_int_equal(head.width, FIXTURE_WIDTH);
        assert_int_equal(head.height, FIXTURE_HEIGHT);
        assert_int_equal(head.channels, expected[i].channels);
        assert_int_equal(head.bit_depth, expected[i].depth);
        assert_int_equal(head.orientation, expected[i].orientation);
        assert_int_equal(head.alpha, expected[i].alpha);
        assert_true(head.whole);
    }
    struct stk_image_head moving = head_of("valid_webp_animation");
    assert_true(moving.frame_size > 0 && moving.whole);
    assert_int_equal(moving.frame_width, FIXTURE_WIDTH);
}

static void test_image_head_refuses_what_is_none(void **state)
{
    (void)state;
    stoker_error err;
    struct stk_image_head head;
    assert_int_equal(stk_image_head_read((const uint8_t *)"", 0, &head, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.message, "the file is empty");
    struct fixture text = fixture_read("bad_text");
    assert_int_equal(stk_image_head_read(text.data, text.size, &head, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "begin with 3c 68 74 6d"));
    free(text.data);
    struct fixture cut = fixture_read("bad_jpeg_head");
    assert_int_equal(stk_image_head_read(cut.data, cut.size, &head, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "ends at byte 100"));
    free(cut.data);
}

/* A file that was cut anywhere has no head, or says that it is not whole; never more. */
static void test_image_head_sees_every_cut(void **state)
{
    (void)state;
    static const char *const names[] = {"valid_jpeg_420",   "valid_jpeg_444_progressive", "valid_png_rgba_exif8",
                                        "valid_webp_lossy", "valid_webp_animation",       "valid_gif_transparent"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct fixture file = fixture_read(names[i]);
        for (size_t size = 0; size < file.size; size++) {
            stoker_error err;
            struct stk_image_head head;
            uint8_t *part = malloc(size ? size : 1);
            assert_non_null(part);
            memcpy(part, file.data, size);
            /* The trailer of a GIF is no part of its first picture. */
            if (stk_image_head_read(part, size, &head, &err) == STOKER_OK)
                assert_true(!head.whole || (head.format == STOKER_IMAGE_GIF && size + 1 == file.size));
            free(part);
        }
        free(file.data);
    }
}

static void test_image_head_orientation_bounds(void **state)
{
    (void)state;
    uint8_t block[] = {'I',  'I', '*', 0, 8, 0, 0, 0, 2, 0, /* two entries at 8 */
                       0x0f, 1,   2,   0, 1, 0, 0, 0, 0, 0, 0, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
    assert_int_equal(stk_image_orientation(block, sizeof block), 6);
    for (size_t size = 0; size < sizeof block; size++) {
        uint8_t *part = malloc(size ? size : 1);
        assert_non_null(part);
        memcpy(part, block, size);
        assert_int_equal(stk_image_orientation(part, size), 1);
        free(part);
    }
    block[30] = 9; /* no orientation */
    assert_int_equal(stk_image_orientation(block, sizeof block), 1);
    block[30] = 6, block[8] = 0xff, block[9] = 0xff; /* more entries than there is room for */
    assert_int_equal(stk_image_orientation(block, sizeof block), 6);
    memset(block + 4, 0xff, 4); /* the directory lies past the end */
    assert_int_equal(stk_image_orientation(block, sizeof block), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_head_reads_each_format),
        cmocka_unit_test(test_image_head_refuses_what_is_none),
        cmocka_unit_test(test_image_head_sees_every_cut),
        cmocka_unit_test(test_image_head_orientation_bounds),
    };
    return stk_run_tests(tests);
}
