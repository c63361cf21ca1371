/* SPDX-License-Identifier: Apache-2.0
 *
 * Native image sources: what describe says, blobs that travel, samples that equal those made directly, bad files.
 */
#include <stoker/image.h>

#include <stdio.h>

#include "source/source_fixture.h"

#define FOLDER STK_GOLDEN_IMAGES "/"

static stoker_image_spec small_form(void)
{
    stoker_image_spec spec = STOKER_IMAGE_SPEC_INIT;
    spec.width = 8, spec.height = 6;
    return spec;
}

static struct stoker_source *make(const char *const *paths, size_t count, const stoker_image_spec *spec)
{
    const stoker_path_list list = {.paths = paths, .count = count};
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_images(&list, spec, &source, &err), STOKER_OK);
    return source;
}

static void test_image_source_describes_and_travels(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "valid_gif", "/nowhere/b.jpg"};
    stoker_image_spec spec = small_form();
    spec.dtype = STOKER_DTYPE_BFLOAT16;
    struct stoker_source *source = make(paths, 2, &spec), *copy = reopen(source);
    assert_memory_equal(source->digest, copy->digest, 32);
    stoker_descriptor d;
    stoker_error err;
    assert_int_equal(stoker_source_describe(copy, 0, &d, &err), STOKER_OK);
    assert_string_equal(d.path, paths[0]);
    const uint64_t shape[] = {3, 6, 8};
    assert_int_equal(d.ndim, 3);
    assert_memory_equal(d.shape, shape, sizeof shape);
    assert_int_equal(d.sample_bytes, 3 * 6 * 8 * 2);
    assert_true(d.bytes > 0 && d.mtime_ns > 0);
    struct stk_batch_layout layout;
    assert_int_equal(stk_source_layout(copy, 5, &layout, &err), STOKER_OK);
    assert_int_equal(layout.leaf_count, 1);
    assert_int_equal(layout.leaves[0].ndim, 4);
    assert_int_equal(layout.total_bytes, 5 * d.sample_bytes);
    uint8_t dst[3 * 6 * 8 * 2];
    assert_int_equal(stoker_source_materialise(copy, 1, dst, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/b.jpg"));
    stoker_source_close(source);
    stoker_source_close(copy);
}

static void test_image_source_makes_what_a_read_makes(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "valid_gif", FOLDER "valid_gif_transparent"};
    stoker_image_spec spec = small_form();
    spec.filter = STOKER_IMAGE_BICUBIC;
    struct stoker_source *source = make(paths, 2, &spec);
    stoker_error err;
    for (uint64_t id = 0; id < 2; id++) {
        uint8_t expected[3 * 6 * 8], got[sizeof expected];
        assert_int_equal(stoker_image_read(paths[id], &spec, expected, sizeof expected, NULL, &err), STOKER_OK);
        for (int again = 0; again < 2; again++) {
            memset(got, 0, sizeof got);
            assert_int_equal(stoker_source_materialise(source, id, got, &err), STOKER_OK);
            assert_memory_equal(got, expected, sizeof got);
        }
    }
    stoker_source_close(source);
}

static void test_image_source_names_bad_files(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "bad_gif_cut", FOLDER "bad_text"};
    stoker_image_spec spec = small_form();
    uint8_t dst[3 * 6 * 8];
    stoker_error err;
    struct stoker_source *source = make(paths, 2, &spec);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "ends at byte 974"));
    assert_non_null(strstr(err.context, "bad_gif_cut"));
    assert_int_equal(stoker_source_materialise(source, 1, dst, &err), STOKER_ERR_CORRUPT);
    stoker_source_close(source);
    spec.partial = STOKER_IMAGE_PARTIAL_ACCEPT;
    source = make(paths, 2, &spec);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_OK);
    stoker_source_close(source);
}

static void test_image_source_marks_partial_images(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "bad_gif_cut", FOLDER "valid_gif"};
    stoker_image_spec spec = small_form();
    stoker_error err;
    spec.partial = STOKER_IMAGE_PARTIAL_MARK;
    struct stoker_source *source = make(paths, 2, &spec);
    assert_string_equal(stoker_source_member(source, 0), "image");
    assert_string_equal(stoker_source_member(source, 1), "partial");
    assert_null(stoker_source_member(source, 2));
    struct stk_batch_layout layout;
    assert_int_equal(stk_source_layout(source, 2, &layout, &err), STOKER_OK);
    assert_int_equal(layout.leaf_count, 2);
    assert_int_equal(layout.leaves[1].dtype, STOKER_DTYPE_BOOL);
    assert_int_equal(layout.leaves[1].ndim, 1);
    uint8_t *batch = malloc(layout.total_bytes), alone[256 + 1];
    assert_non_null(batch);
    for (uint64_t id = 0; id < 2; id++) {
        void *places[STK_NATIVE_LEAVES_MAX];
        struct stk_made made;
        stk_batch_places(&layout, batch, id, places);
        assert_int_equal(stk_source_make(source, &(stoker_sample){id, 0}, places, &made, &err), STOKER_OK);
        assert_int_equal(batch[layout.leaves[1].offset + id], id == 0);
        stoker_descriptor d;
        assert_int_equal(stoker_source_describe(source, id, &d, &err), STOKER_OK);
        assert_int_equal(d.sample_bytes, sizeof alone);
        assert_int_equal(stoker_source_materialise(source, id, alone, &err), STOKER_OK);
        assert_memory_equal(alone, batch + id * 144, 144);
        assert_int_equal(alone[256], id == 0);
    }
    free(batch);
    stoker_source_close(source);
}

static void test_image_source_refuses_bad_forms_and_blobs(void **state)
{
    (void)state;
    const char *paths[] = {"/a", "/b/c"};
    const stoker_path_list list = {.paths = paths, .count = 2};
    stoker_image_spec spec = STOKER_IMAGE_SPEC_INIT;
    struct stoker_source *source = NULL;
    stoker_error err;
    spec.resize = STOKER_IMAGE_KEEP;
    assert_int_equal(stoker_source_create_images(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "cannot be kept"));
    spec = small_form();
    spec.mean[0] = 1;
    assert_int_equal(stoker_source_create_images(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(source);
    spec = small_form();
    source = make(paths, 2, &spec);
    damage(source, stk_image_source_check);
    damage(source, stk_media_source_check); /* which finds the kind itself */
    stoker_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_source_describes_and_travels),
        cmocka_unit_test(test_image_source_makes_what_a_read_makes),
        cmocka_unit_test(test_image_source_names_bad_files),
        cmocka_unit_test(test_image_source_marks_partial_images),
        cmocka_unit_test(test_image_source_refuses_bad_forms_and_blobs),
    };
    return stk_run_tests(tests);
}
