/* SPDX-License-Identifier: Apache-2.0
 *
 * Native sources of patches: what is described before a decode, batches whose samples differ in size, blobs that travel
 * or are damaged, files that are bad.
 */
#include <stoker/vision.h>

#include <stdio.h>

#include "base/assert.h"
#include "source/source_fixture.h"

#define CLIPS STK_GOLDEN_MEDIA "/"
#define IMAGES STK_GOLDEN_IMAGES "/"

static stoker_patch_spec video_form(void)
{
    stoker_patch_spec spec = STOKER_PATCH_SPEC_INIT;
    spec.rule = (stoker_patch_rule){14, 2, 2, STOKER_FIT_FRAME, 0, 3136, 50000, 0, 0};
    spec.frames.frames = 4;
    spec.dtype = STOKER_DTYPE_UINT8;
    return spec;
}

static stoker_patch_spec image_form(void)
{
    stoker_patch_spec spec = video_form();
    spec.media = STOKER_PATCHES_OF_IMAGES;
    spec.frames = (stoker_frame_rule){STOKER_FRAMES_UNIFORM, 0, 0, 0, 0, 0};
    return spec;
}

static struct stoker_source *make(const char *const *paths, const stoker_clip_facts *facts, size_t count,
                                  const stoker_patch_spec *spec)
{
    const stoker_clip_list list = {paths, facts, count};
    struct stoker_source *source = NULL;
    stoker_error err = {0};
    if (stoker_source_create_patches(&list, spec, &source, &err) != STOKER_OK) fail_msg("%s", err.message);
    return source;
}

static const char *const clips[] = {CLIPS "h264_bframes_g12.mp4", CLIPS "rot90.mp4", CLIPS "vp9_odd227x171.webm"};

static void test_describes_rows_and_tokens_without_a_decode(void **state)
{
    (void)state;
    const char *paths[] = {"/nowhere/a.mp4", "/nowhere/b.mp4", "/nowhere/c.mp4"};
    const stoker_clip_facts facts[] = {{1920, 1080, 300, 10}, {224, 224, 30, 1}, {0, 0, 0, 0}};
    stoker_patch_spec spec = video_form();
    spec.rule =
        (stoker_patch_rule){14, 2, 2, STOKER_FIT_FRAME, STOKER_FIT_WHOLE_FACTOR, 128 * 784, 768 * 784, 24576 * 784, 0};
    spec.frames = (stoker_frame_rule){STOKER_FRAMES_UNIFORM, 0, 2.0, 4, 768, 2};
    spec.dtype = STOKER_DTYPE_BFLOAT16;
    struct stoker_source *source = make(paths, facts, 3, &spec), *copy = reopen(source);
    assert_memory_equal(source->digest, copy->digest, 32);
    stoker_descriptor d;
    assert_int_equal(stoker_source_describe(copy, 0, &d, NULL), STOKER_OK);
    assert_int_equal(d.ndim, 2);
    assert_int_equal(d.shape[0], 10 * 40 * 72); /* 20 frames of 560 x 1008 */
    assert_int_equal(d.shape[1], 1176);
    assert_int_equal(d.tokens, 7200);
    assert_int_equal(d.dtype, STOKER_DTYPE_BFLOAT16);
    assert_int_equal(d.sample_bytes, stk_align_up(28800 * 1176 * 2, 256) + 24);
    assert_int_equal(stoker_source_describe(copy, 1, &d, NULL), STOKER_OK);
    assert_int_equal(d.shape[0], 2 * 24 * 24);
    assert_int_equal(stoker_source_describe(copy, 2, &d, NULL), STOKER_OK);
    assert_int_equal(d.shape[0], 0);
    assert_int_equal(d.tokens, 0);
    assert_string_equal(stoker_source_member(copy, 0), "pixel_values_videos");
    assert_string_equal(stoker_source_member(copy, 1), "video_grid_thw");
    assert_null(stoker_source_member(copy, 2));
    assert_true(stk_source_is_ragged(copy));
    assert_int_equal(stk_source_rows(copy, 1), 1152);
    struct stk_batch_layout layout; /* two of the largest */
    assert_int_equal(stk_source_layout(copy, 2, &layout, NULL), STOKER_OK);
    assert_int_equal(layout.leaves[0].shape[0], 57600);
    assert_int_equal(layout.leaves[0].shape[1], 1176);
    assert_int_equal(layout.leaves[0].ndim, 2);
    assert_int_equal(layout.leaves[1].shape[0], 2);
    assert_int_equal(layout.leaves[1].shape[1], 3);
    stoker_error err = {0};
    uint8_t small[64];
    assert_int_equal(stoker_source_materialise(copy, 2, small, &err), STOKER_ERR_NOT_FOUND);
    stoker_source_close(source);
    stoker_source_close(copy);
}

static uint8_t *make_alone(const struct stoker_source *source, uint64_t id, stoker_descriptor *d)
{
    stoker_error err = {0};
    assert_int_equal(stoker_source_describe(source, id, d, &err), STOKER_OK);
    uint8_t *bytes = calloc(1, (size_t)d->sample_bytes);
    if (stoker_source_materialise(source, id, bytes, &err) != STOKER_OK) fail_msg("%s", err.message);
    return bytes;
}

/* A batch in the order of `ids`, as the plane makes it: each sample at its own rows, between canaries. */
static void expect_batch(const struct stoker_source *source, const uint64_t *ids, uint32_t n)
{
    struct stk_batch_extent extent = {n, 0};
    struct stk_batch_layout layout;
    stoker_error err = {0};
    for (uint32_t i = 0; i < n; i++) extent.rows += stk_source_rows(source, ids[i]);
    assert_int_equal(stk_source_layout_rows(source, &extent, &layout, &err), STOKER_OK);
    assert_int_equal(layout.leaves[0].shape[0], extent.rows);
    uint8_t *base = malloc((size_t)layout.total_bytes + 64);
    memset(base, 0xa5, (size_t)layout.total_bytes + 64);
    uint64_t row = extent.rows;
    for (uint32_t i = n; i-- > 0;) { /* workers finish in any order */
        row -= stk_source_rows(source, ids[i]);
        const struct stk_batch_place place = {i, row};
        const stoker_sample sample = {ids[i], 0};
        void *places[STK_NATIVE_LEAVES_MAX];
        struct stk_made made;
        stk_batch_places_rows(&layout, base, &place, places);
        assert_int_equal(stk_source_make(source, &sample, places, &made, &err), STOKER_OK);
        assert_true(made.frames_presented > 0);
    }
    assert_int_equal(row, 0);
    for (uint32_t i = 0; i < n; i++) {
        stoker_descriptor d;
        uint8_t *alone = make_alone(source, ids[i], &d);
        size_t rows_size = (size_t)(d.shape[0] * d.shape[1]);
        assert_memory_equal(base + layout.leaves[0].offset + row * layout.row_bytes[0], alone, rows_size);
        assert_memory_equal(base + layout.leaves[1].offset + i * 24, alone + stk_align_up(rows_size, 256), 24);
        int64_t grid[3];
        memcpy(grid, base + layout.leaves[1].offset + i * 24, sizeof grid);
        assert_int_equal(grid[0] * grid[1] * grid[2], d.shape[0]);
        row += d.shape[0];
        free(alone);
    }
    for (int i = 0; i < 64; i++) assert_int_equal(base[layout.total_bytes + i], 0xa5);
    free(base);
}

static void test_samples_of_a_batch_follow_one_another(void **state)
{
    (void)state;
    stoker_patch_spec spec = video_form();
    struct stoker_source *source = make(clips, NULL, 3, &spec);
    assert_true(stk_source_rows(source, 0) != stk_source_rows(source, 1));
    expect_batch(source, (const uint64_t[]){0, 1, 2}, 3);
    expect_batch(source, (const uint64_t[]){2, 2, 1, 0}, 4);
    stoker_source_close(source);
    const char *images[] = {IMAGES "valid_jpeg_420", IMAGES "valid_jpeg_exif6", IMAGES "valid_png_rgb"};
    spec = image_form();
    source = make(images, NULL, 3, &spec);
    assert_string_equal(stoker_source_member(source, 0), "pixel_values");
    assert_string_equal(stoker_source_member(source, 1), "image_grid_thw");
    expect_batch(source, (const uint64_t[]){1, 0, 2}, 3);
    stoker_source_close(source);
}

static void test_given_facts_and_read_ones_are_the_same_source(void **state)
{
    (void)state;
    stoker_clip_facts facts[3];
    for (int i = 0; i < 3; i++) {
        stoker_media_info info;
        assert_int_equal(stoker_media_probe(clips[i], 0, &info, NULL), STOKER_OK);
        facts[i] = (stoker_clip_facts){info.width, info.height, info.frames, info.duration_s};
    }
    stoker_patch_spec spec = video_form();
    struct stoker_source *read = make(clips, NULL, 3, &spec), *given = make(clips, facts, 3, &spec);
    assert_memory_equal(read->digest, given->digest, 32);
    stoker_source_close(read);
    stoker_source_close(given);
}

/* Rule A8: what a file is was decided when it was described. */
static void test_changed_and_bad_files_are_told(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-vision-XXXXXX";
    stoker_error err = {0};
    uint8_t *bytes;
    stoker_descriptor d;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "no video", 8) == 8);
    const char *const paths[] = {path};
    stoker_patch_spec spec = video_form();
    struct stoker_source *source = make(paths, NULL, 1, &spec);
    assert_int_equal(stoker_source_describe(source, 0, &d, &err), STOKER_OK);
    assert_int_equal(d.shape[0], 0);
    bytes = malloc((size_t)d.sample_bytes);
    assert_int_equal(stoker_source_materialise(source, 0, bytes, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.context, path));
    assert_true(write(fd, "more", 4) == 4);
    assert_int_equal(stoker_source_materialise(source, 0, bytes, &err), STOKER_ERR_MISMATCH);
    free(bytes);
    stoker_source_close(source);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_damaged_blobs_are_refused(void **state)
{
    (void)state;
    const char *paths[] = {"/a.mp4", "/b.mp4"};
    const stoker_clip_facts facts[] = {{640, 360, 300, 10}, {224, 224, 30, 1}};
    stoker_patch_spec spec = video_form();
    struct stoker_source *source = make(paths, facts, 2, &spec);
    damage(source, stk_patch_source_check);
    damage(source, stk_media_source_check);
    stoker_source_close(source);
}

static void test_create_refuses_what_it_cannot_mean(void **state)
{
    (void)state;
    struct stoker_source *source = NULL;
    stoker_error err = {0};
    const stoker_clip_list list = {NULL, NULL, 1}, empty = {NULL, NULL, 0};
    stoker_patch_spec spec = video_form();
    assert_int_equal(stoker_source_create_patches(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_source_create_patches(&empty, NULL, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_source_create_patches(&empty, &spec, &source, &err), STOKER_OK);
    struct stk_batch_layout layout;
    assert_int_equal(stk_source_layout(source, 1, &layout, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describes_rows_and_tokens_without_a_decode),
        cmocka_unit_test(test_samples_of_a_batch_follow_one_another),
        cmocka_unit_test(test_given_facts_and_read_ones_are_the_same_source),
        cmocka_unit_test(test_changed_and_bad_files_are_told),
        cmocka_unit_test(test_damaged_blobs_are_refused),
        cmocka_unit_test(test_create_refuses_what_it_cannot_mean),
    };
    return stk_run_tests(tests);
}
