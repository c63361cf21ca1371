/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of frames by time and by plan give the frames that their numbers give.
 */
#include <stdlib.h>
#include <string.h>

#include "media/decode.h"
#include "media/ffmpeg.h"
#include "media/media_fixture.h"

struct sums {
    uint64_t of[256];
    size_t count;
    uint32_t width, height;
};

static stoker_status add_sum(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                             stoker_error *err)
{
    struct sums *sums = user;
    (void)err;
    assert_true(position < 256);
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < (size_t)width * height * 3; i++) sum = (sum ^ rgb[i]) * 1099511628211u;
    sums->of[position] = sum;
    sums->width = width, sums->height = height;
    if (position >= sums->count) sums->count = position + 1;
    return STOKER_OK;
}

static struct sums read_list(const char *name, const stoker_frame_list *list)
{
    struct sums sums = {.count = 0};
    stoker_error err;
    if (stoker_frames_read(clip_path(name), list, add_sum, &sums, &err) != STOKER_OK)
        fail_msg("%s: %s", name, err.message);
    return sums;
}

static struct sums read_all(const char *name)
{
    const stoker_frame_list list = {.width = 48, .height = 32};
    return read_list(name, &list);
}

static void expect_at(const char *name, const struct sums *all, double seconds, uint64_t frame)
{
    const stoker_frame_list list = {.seconds = &seconds, .count = 1, .width = 48, .height = 32};
    struct sums got = read_list(name, &list);
    if (got.of[0] != all->of[frame]) fail_msg("%s at %g s is not frame %llu", name, seconds, (unsigned long long)frame);
}

static stoker_status read_seconds(const char *name, double seconds, stoker_error *err)
{
    const stoker_frame_list list = {.seconds = &seconds, .count = 1, .width = 48, .height = 32};
    struct sums sums = {.count = 0};
    return stoker_frames_read(clip_path(name), &list, add_sum, &sums, err);
}

static void test_a_frame_is_shown_until_the_next_one(void **state)
{
    (void)state;
    struct sums all = read_all("h264_bframes_g12.mp4"); /* 60 frames, 30 a second */
    for (uint64_t i = 0; i < 60; i += 7) {
        expect_at("h264_bframes_g12.mp4", &all, (double)i / 30, i);
        expect_at("h264_bframes_g12.mp4", &all, ((double)i + 0.9) / 30, i);
    }
    stoker_error err;
    assert_int_equal(read_seconds("h264_bframes_g12.mp4", 1.999, &err), STOKER_OK);
    assert_int_equal(read_seconds("h264_bframes_g12.mp4", 2.0, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "second 2 is asked for, the clip lasts 2 seconds"));
    assert_int_equal(read_seconds("h264_bframes_g12.mp4", -0.001, &err), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_situation_51_frames_of_a_variable_rate_by_time(void **state)
{
    (void)state;
    struct sums all = read_all("vfr.mp4");
    struct stk_file file = open_clip("vfr.mp4");
    struct stk_av *av = NULL;
    assert_int_equal(stk_av_open(&file, &av, NULL), STOKER_OK);
    assert_int_equal(stk_av_scan(av, 0, NULL), STOKER_OK);
    const struct stk_packet_table *table = stk_av_table(av);
    double base = stk_av_facts(av)->time_base;
    assert_int_equal(table->shown_count, all.count);
    for (size_t i = 0; i + 1 < table->shown_count; i++) {
        double from = (double)(table->shown[i].pts - table->shown[0].pts) * base,
               to = (double)(table->shown[i + 1].pts - table->shown[0].pts) * base;
        expect_at("vfr.mp4", &all, from, i);
        expect_at("vfr.mp4", &all, from + 0.99 * (to - from), i);
    }
    stk_av_close(av);
    stk_file_close(&file);
}

static void test_situation_52_times_of_a_trimmed_clip_start_at_zero(void **state)
{
    (void)state;
    struct sums all = read_all("editlist_cut.mp4");
    expect_at("editlist_cut.mp4", &all, 0, 0);
    expect_at("editlist_cut.mp4", &all, 1.0, 25);
}

static void test_files_without_times_go_by_their_rate(void **state)
{
    (void)state;
    struct sums all = read_all("mpeg4_bframes_nopts.avi"); /* 25 a second */
    expect_at("mpeg4_bframes_nopts.avi", &all, 0, 0);
    expect_at("mpeg4_bframes_nopts.avi", &all, 1.0, 25);
    expect_at("mpeg4_bframes_nopts.avi", &all, 1.999, 49);
}

static void test_a_list_of_times_may_be_in_any_order(void **state)
{
    (void)state;
    const double seconds[] = {1.5, 0.1, 1.5, 0};
    const uint64_t frames[] = {45, 3, 45, 0};
    const stoker_frame_list by_time = {.seconds = seconds, .count = 4, .width = 48, .height = 32},
                            by_number = {.indices = frames, .count = 4, .width = 48, .height = 32};
    struct sums a = read_list("h264_bframes_g12.mp4", &by_time), b = read_list("h264_bframes_g12.mp4", &by_number);
    assert_int_equal(a.count, 4);
    assert_memory_equal(a.of, b.of, 4 * sizeof a.of[0]);
}

static void test_a_plan_gives_the_frames_that_it_keeps(void **state)
{
    (void)state;
    static const char *const clips[] = {"h264_bframes_g12.mp4", "hevc10_opengop.mp4", "mpeg4_bframes_nopts.avi",
                                        "vfr.mp4"};
    for (size_t c = 0; c < 4; c++) {
        const uint64_t frames[] = {20, 3, 11, 3}, kept[] = {3, 11, 20};
        struct sums all = read_all(clips[c]);
        stoker_frame_list list = {.indices = frames, .count = 4, .width = 48, .height = 32};
        stoker_plan *plan = NULL, *again = NULL;
        stoker_error err;
        uint8_t bytes[256];
        assert_int_equal(stoker_frames_plan(clip_path(clips[c]), &list, &plan, &err), STOKER_OK);
        size_t size = stoker_plan_encode(plan, bytes, sizeof bytes);
        assert_in_range(size, 1, sizeof bytes);
        assert_int_equal(stoker_plan_decode(bytes, size, &again, &err), STOKER_OK);
        list = (stoker_frame_list){.plan = again, .width = 48, .height = 32};
        struct sums got = read_list(clips[c], &list);
        assert_int_equal(got.count, 3);
        for (int i = 0; i < 3; i++) assert_true(got.of[i] == all.of[kept[i]]);
        struct sums none = {.count = 0};
        assert_int_equal(stoker_frames_read(clip_path("rot90.mp4"), &list, add_sum, &none, &err), STOKER_ERR_MISMATCH);
        stoker_plan_close(plan);
        stoker_plan_close(again);
    }
}

static void test_a_plan_of_all_frames(void **state)
{
    (void)state;
    struct sums all = read_all("gif_delays.gif");
    stoker_frame_list list = {.width = 48, .height = 32};
    stoker_plan *plan = NULL;
    assert_int_equal(stoker_frames_plan(clip_path("gif_delays.gif"), &list, &plan, NULL), STOKER_OK);
    stoker_plan_info info;
    stoker_plan_read_info(plan, &info);
    assert_false(info.by_time);
    assert_int_equal(info.frame_count, 0);
    assert_int_equal(info.frames, all.count);
    list.plan = plan;
    struct sums got = read_list("gif_delays.gif", &list);
    assert_int_equal(got.count, all.count);
    assert_memory_equal(got.of, all.of, all.count * sizeof all.of[0]);
    stoker_plan_close(plan);
}

static void test_lists_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    const uint64_t frame = 0;
    const double second = 0;
    const stoker_frame_list both = {.indices = &frame, .seconds = &second, .count = 1};
    stoker_error err;
    stoker_plan *plan = NULL;
    struct sums sums = {.count = 0};
    assert_int_equal(stoker_frames_read(clip_path("vfr.mp4"), &both, add_sum, &sums, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_frames_plan(clip_path("vfr.mp4"), &both, &plan, &err), STOKER_ERR_INVALID_ARGUMENT);
    const stoker_frame_list none = {.indices = &frame, .count = 0};
    assert_int_equal(stoker_frames_plan(clip_path("vfr.mp4"), &none, &plan, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(plan);
}

static void test_size_of_the_file_with_square_pixels(void **state)
{
    (void)state;
    const uint64_t frame = 3;
    stoker_frame_list list = {.indices = &frame, .count = 1};
    struct sums stored = read_list("sar16_11.mp4", &list);
    list.picture.apply_sar = 1;
    struct sums square = read_list("sar16_11.mp4", &list);
    assert_int_equal(square.height, stored.height);
    assert_int_equal(square.width, (stored.width * 16 + 5) / 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_frame_is_shown_until_the_next_one),
        cmocka_unit_test(test_situation_51_frames_of_a_variable_rate_by_time),
        cmocka_unit_test(test_situation_52_times_of_a_trimmed_clip_start_at_zero),
        cmocka_unit_test(test_files_without_times_go_by_their_rate),
        cmocka_unit_test(test_a_list_of_times_may_be_in_any_order),
        cmocka_unit_test(test_a_plan_gives_the_frames_that_it_keeps),
        cmocka_unit_test(test_a_plan_of_all_frames),
        cmocka_unit_test(test_lists_that_mean_nothing_are_refused),
        cmocka_unit_test(test_size_of_the_file_with_square_pixels),
    };
    return stk_run_tests(tests);
}
