/* SPDX-License-Identifier: Apache-2.0
 *
 * Native sources: what describe says, blobs that travel, files that changed, memory of damage.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "source/source_fixture.h"
#include "sys/thread.h"

static stoker_video_spec small_form(void)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 4, spec.width = 16, spec.height = 8;
    return spec;
}

static void test_media_source_describes_without_opening(void **state)
{
    (void)state;
    const char *paths[] = {"/nowhere/a.mp4", "relative/b.mp4"};
    const stoker_path_list list = {.paths = paths, .count = 2};
    stoker_video_spec spec = small_form();
    spec.dtype = STOKER_DTYPE_FLOAT16;
    spec.layout = STOKER_LAYOUT_CTHW;
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_OK);
    assert_int_equal(stoker_source_count(source), 2);

    stoker_descriptor d;
    assert_int_equal(stoker_source_describe(source, 1, &d, &err), STOKER_OK);
    assert_int_equal(d.id, 1);
    assert_int_equal(d.path[0], '/'); /* workers have another working directory */
    assert_non_null(strstr(d.path, "/relative/b.mp4"));
    assert_int_equal(d.bytes, 0);
    assert_int_equal(d.ndim, 4);
    const uint64_t shape[] = {3, 4, 8, 16};
    assert_memory_equal(d.shape, shape, sizeof shape);
    assert_int_equal(d.sample_bytes, 3 * 4 * 8 * 16 * 2);
    assert_int_equal(stoker_source_describe(source, 2, &d, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sample 2 is asked for, the source has 2"));

    struct stk_batch_layout layout;
    assert_int_equal(stk_source_layout(source, 5, &layout, &err), STOKER_OK);
    assert_int_equal(layout.leaf_count, 1);
    assert_int_equal(layout.leaves[0].ndim, 5);
    assert_int_equal(layout.leaves[0].shape[0], 5);
    assert_int_equal(layout.leaves[0].shape[1], 3);
    assert_int_equal(layout.total_bytes, 5 * d.sample_bytes);
    assert_int_equal(stk_source_layout(source, 0, &layout, &err), STOKER_ERR_INVALID_ARGUMENT);

    uint8_t dst[3 * 4 * 8 * 16 * 2];
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/a.mp4"));
    stoker_source_close(source);
    stoker_source_close(NULL);
}

static void test_media_blob_travels_and_is_deterministic(void **state)
{
    (void)state;
    const char *paths[] = {"/a", "/b/c"};
    const stoker_path_list list = {.paths = paths, .count = 2};
    stoker_video_spec spec = small_form();
    struct stoker_source *first = NULL, *second = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &spec, &first, &err), STOKER_OK);
    assert_int_equal(stoker_source_create_video(&list, &spec, &second, &err), STOKER_OK);
    assert_memory_equal(first->digest, second->digest, 32);
    stoker_source_close(second);
    spec.frames = 5;
    assert_int_equal(stoker_source_create_video(&list, &spec, &second, &err), STOKER_OK);
    assert_memory_not_equal(first->digest, second->digest, 32);
    stoker_source_close(second);

    struct stoker_source *copy = reopen(first);
    stoker_descriptor d;
    assert_int_equal(stoker_source_describe(copy, 1, &d, &err), STOKER_OK);
    assert_string_equal(d.path, "/b/c");
    assert_memory_equal(first->digest, copy->digest, 32);
    stoker_source_close(first);
    stoker_source_close(copy);
}

static void test_media_source_refuses_bad_forms_and_paths(void **state)
{
    (void)state;
    char *longest = malloc(5001);
    assert_non_null(longest);
    memset(longest, 'x', 5000);
    longest[5000] = 0;
    const char *paths[] = {longest};
    const stoker_path_list list = {.paths = paths, .count = 1};
    stoker_video_spec spec = small_form();
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "xxx"));
    paths[0] = "";
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    paths[0] = "/a";
    spec.mean[0] = 0.5f; /* with uint8 */
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(source);
    free(longest);
}

/* Rule A8: a descriptor is a promise. */
static void test_a8_changed_file_is_a_mismatch(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-source-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    const char *paths[] = {path};
    const stoker_path_list list = {.paths = paths, .count = 1};
    stoker_video_spec spec = small_form();
    struct stoker_source *source = NULL;
    stoker_error err;
    uint8_t dst[4 * 3 * 8 * 16];
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_OK);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.context, path);

    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "11"));
    assert_non_null(strstr(err.message, "10"));

    assert_int_equal(ftruncate(fd, 10), 0);
    const struct timespec times[2] = {{1000, 5}, {1000, 5}};
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "1000000000005"));
    stoker_source_close(source);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

struct reader {
    struct stoker_source *source;
    uint8_t samples[3][4 * 3 * 8 * 16];
    stoker_status status;
};

static void read_all(void *argument)
{
    struct reader *reader = argument;
    for (uint64_t id = 0; id < 3 && reader->status == STOKER_OK; id++)
        reader->status = stoker_source_materialise(reader->source, id, reader->samples[id], NULL);
}

static void test_threads_share_a_source(void **state)
{
    (void)state;
    const char *paths[] = {STK_GOLDEN_MEDIA "/h264_bframes_g12.mp4", STK_GOLDEN_MEDIA "/mpeg4_bframes_nopts.avi",
                           STK_GOLDEN_MEDIA "/corrupt_bytes.mp4"};
    const stoker_path_list list = {.paths = paths, .count = 3};
    stoker_video_spec form = small_form();
    struct stoker_source *source = NULL;
    struct stk_thread *threads[4];
    static struct reader readers[4];
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &form, &source, &err), STOKER_OK);
    for (int i = 0; i < 4; i++) {
        readers[i].source = source;
        readers[i].status = STOKER_OK;
        assert_int_equal(stk_thread_start("reader", read_all, &readers[i], &threads[i], &err), STOKER_OK);
    }
    for (int i = 0; i < 4; i++) stk_thread_join(threads[i]);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(readers[i].status, STOKER_OK);
        assert_memory_equal(readers[i].samples, readers[0].samples, sizeof readers[0].samples);
    }
    stoker_source_close(source);
}

static void test_damaged_media_blobs_are_refused(void **state)
{
    (void)state;
    const char *paths[] = {"/a", "/b/c", "/d"};
    const stoker_path_list list = {.paths = paths, .count = 3};
    stoker_video_spec form = small_form();
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &form, &source, &err), STOKER_OK);
    damage(source, stk_media_source_check);
    stoker_source_close(source);
}

/* Threads share a source: each takes a decoder of its own. Twice the same clip, whole and damaged, gives the same
 * bytes. */
static void test_materialise_is_repeatable(void **state)
{
    (void)state;
    const char *paths[] = {STK_GOLDEN_MEDIA "/h264_bframes_g12.mp4", STK_GOLDEN_MEDIA "/mpeg4_bframes_nopts.avi",
                           STK_GOLDEN_MEDIA "/corrupt_bytes.mp4"};
    const stoker_path_list list = {.paths = paths, .count = 3};
    stoker_video_spec form = small_form();
    struct stoker_source *source = NULL;
    stoker_error err;
    uint8_t first[4 * 3 * 8 * 16], second[4 * 3 * 8 * 16];
    assert_int_equal(stoker_source_create_video(&list, &form, &source, &err), STOKER_OK);
    for (uint64_t id = 0; id < 3; id++) {
        assert_int_equal(stoker_source_materialise(source, id, first, &err), STOKER_OK);
        assert_int_equal(stoker_source_materialise(source, id, second, &err), STOKER_OK);
        assert_memory_equal(first, second, sizeof first);
        assert_int_equal(stoker_video_read(paths[id], &form, second, NULL, &err), STOKER_OK);
        assert_memory_equal(first, second, sizeof first);
    }
    stoker_source_close(source);
}

static void test_every_option_travels(void **state)
{
    (void)state;
    const char *paths[] = {STK_GOLDEN_MEDIA "/sar16_11.mp4"};
    const stoker_path_list list = {.paths = paths, .count = 1};
    stoker_video_spec form = small_form();
    struct stoker_source *source = NULL, *copy = NULL;
    stoker_error err;
    enum { BYTES = 6 * 3 * 8 * 16 };
    uint8_t here[BYTES], there[BYTES], other[BYTES];
    form.frames = 6, form.sampling = STOKER_SAMPLING_RATE, form.fps = 2.5, form.frames_min = 2, form.frames_max = 6;
    form.frame_factor = 2, form.rounding = STOKER_ROUNDING_NEAREST, form.spread = STOKER_SPREAD_STEP;
    form.picture = (stoker_picture_options){STOKER_UNTAGGED_BT709, 1, 1, STOKER_ALPHA_COMPOSITE, {1, 2, 3, 0}};
    assert_int_equal(stoker_source_create_video(&list, &form, &source, &err), STOKER_OK);
    assert_int_equal(stk_source_open_blob(STK_SOURCE_MEDIA, dup(source->blob_fd), -1, &copy, &err), STOKER_OK);
    assert_int_equal(stoker_source_materialise(copy, 0, there, &err), STOKER_OK);
    assert_int_equal(stoker_video_read(paths[0], &form, here, NULL, &err), STOKER_OK);
    assert_memory_equal(here, there, BYTES);
    stoker_source_close(copy);
    /* Each of them is in the blob: without it the source is another one. */
    stoker_video_spec without[8];
    for (int i = 0; i < 8; i++) without[i] = form;
    without[0].fps = 2, without[1].frames_min = 4, without[2].rounding = STOKER_ROUNDING_FLOOR;
    without[3].spread = STOKER_SPREAD_UNIFORM, without[4].picture.untagged = STOKER_UNTAGGED_BT601;
    without[5].picture.apply_sar = 0, without[6].picture.background[2] = 4, without[7].count_frames = 1;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(stoker_source_create_video(&list, &without[i], &copy, &err), STOKER_OK);
        assert_memory_not_equal(copy->digest, source->digest, 32);
        stoker_source_close(copy);
    }
    form.picture.apply_sar = 0;
    assert_int_equal(stoker_video_read(paths[0], &form, other, NULL, &err), STOKER_OK);
    assert_memory_not_equal(here, other, BYTES);
    stoker_source_close(source);
}

static void test_count_of_frames_is_a_second_tensor(void **state)
{
    (void)state;
    const char *paths[] = {STK_GOLDEN_MEDIA "/gif_delays.gif", STK_GOLDEN_MEDIA "/h264_bframes_g12.mp4"};
    const stoker_path_list list = {.paths = paths, .count = 2};
    stoker_video_spec form = small_form();
    struct stoker_source *source = NULL;
    struct stk_batch_layout layout;
    stoker_descriptor descriptor;
    stoker_error err;
    enum { VIDEO = 12 * 3 * 8 * 16, PLACE = (VIDEO + 255) / 256 * 256 };
    static uint8_t sample[PLACE + 8], video[VIDEO];
    form.frames = 12, form.count_frames = 1;
    assert_int_equal(stoker_source_create_video(&list, &form, &source, &err), STOKER_OK);
    assert_string_equal(stoker_source_member(source, 0), "video");
    assert_string_equal(stoker_source_member(source, 1), "frames");
    assert_int_equal(stoker_source_describe(source, 0, &descriptor, &err), STOKER_OK);
    assert_int_equal(descriptor.sample_bytes, sizeof sample);
    assert_int_equal(stk_source_layout(source, 3, &layout, &err), STOKER_OK);
    assert_int_equal(layout.leaf_count, 2);
    assert_int_equal(layout.leaves[1].dtype, STOKER_DTYPE_INT64);
    assert_int_equal(layout.leaves[1].ndim, 1);
    for (uint64_t id = 0; id < 2; id++) {
        int64_t frames;
        assert_int_equal(stoker_source_materialise(source, id, sample, &err), STOKER_OK);
        memcpy(&frames, sample + PLACE, sizeof frames);
        assert_int_equal(frames, id == 0 ? 8 : 12);
        assert_int_equal(stoker_video_read(paths[id], &form, video, NULL, &err), STOKER_OK);
        assert_memory_equal(sample, video, VIDEO);
    }
    stoker_source_close(source);
}

static void test_b3_random_clip_depends_on_the_draw_alone(void **state)
{
    (void)state;
    const char *paths[] = {STK_GOLDEN_MEDIA "/h264_bframes_g12.mp4", STK_GOLDEN_MEDIA "/truncated_faststart.mp4"};
    const stoker_path_list list = {.paths = paths, .count = 2};
    stoker_video_spec form = small_form();
    struct stoker_source *source = NULL, *fresh = NULL;
    stoker_error err;
    enum { BYTES = 4 * 3 * 8 * 16, DRAWS = 12 };
    static uint8_t samples[2][DRAWS][BYTES], again[BYTES];
    form.sampling = STOKER_SAMPLING_RANDOM, form.stride = 2;
    assert_int_equal(stoker_source_create_video(&list, &form, &source, &err), STOKER_OK);
    size_t differ = 0;
    for (uint64_t id = 0; id < 2; id++)
        for (uint64_t i = 0; i < DRAWS; i++) {
            const stoker_draw_key key = {.seed = 5, .epoch = i, .id = id};
            const stoker_sample sample = {id, stoker_sample_draw(&key)};
            assert_int_equal(stoker_source_make(source, &sample, samples[id][i], &err), STOKER_OK);
            if (i > 0 && memcmp(samples[id][i], samples[id][0], BYTES) != 0) differ++;
        }
    assert_true(differ > DRAWS);
    /* Another process, in another order. */
    assert_int_equal(stk_source_open_blob(STK_SOURCE_MEDIA, dup(source->blob_fd), -1, &fresh, &err), STOKER_OK);
    for (uint64_t i = DRAWS; i-- > 0;)
        for (uint64_t id = 2; id-- > 0;) {
            const stoker_draw_key key = {.seed = 5, .epoch = i, .id = id};
            const stoker_sample sample = {id, stoker_sample_draw(&key)};
            assert_int_equal(stoker_source_make(fresh, &sample, again, &err), STOKER_OK);
            assert_memory_equal(again, samples[id][i], BYTES);
        }
    stoker_source_close(fresh);
    stoker_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_media_source_describes_without_opening),
        cmocka_unit_test(test_media_blob_travels_and_is_deterministic),
        cmocka_unit_test(test_media_source_refuses_bad_forms_and_paths),
        cmocka_unit_test(test_a8_changed_file_is_a_mismatch),
        cmocka_unit_test(test_materialise_is_repeatable),
        cmocka_unit_test(test_every_option_travels),
        cmocka_unit_test(test_count_of_frames_is_a_second_tensor),
        cmocka_unit_test(test_b3_random_clip_depends_on_the_draw_alone),
        cmocka_unit_test(test_threads_share_a_source),
        cmocka_unit_test(test_damaged_media_blobs_are_refused),
    };
    return stk_run_tests(tests);
}
