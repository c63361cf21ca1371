/* SPDX-License-Identifier: Apache-2.0
 *
 * Awkward clips that other loaders were seen to hang, crash or count wrongly on. They are made once in the build folder
 * by tests/support/make_clips.sh, with the ffmpeg program.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/media.h>

#include "tests/golden/clips.h"
#include "tests/golden/frames.h"
#include "sys/thread.h"
#include "tests/support/unit.h"

static char folder[4096];
static bool have_clips;

static int make_clips(void **state)
{
    (void)state;
    const char *place = getenv("STOKER_TEST_CLIPS");
    have_clips = clips_make(place, getenv("STOKER_TEST_MAKE_CLIPS")) &&
                 snprintf(folder, sizeof folder, "%s", place) < (int)sizeof folder;
    return 0;
}

static const char *clip(const char *name)
{
    static char path[8192];
    if (!have_clips) STK_SKIP("no ffmpeg program, or without an encoder");
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
    return path;
}

/* Both counts may lie between two figures: x264's bytes, and so what a cut or an overwritten range hits, depend on how its
 * threads were scheduled. Returns the frames that are promised. */
static uint64_t check_range(const char *name, const uint64_t promised[2], const uint64_t decoded[2], uint32_t width,
                            uint32_t height, size_t rounds)
{
    stoker_media_info info;
    struct frames frames;
    stoker_error err;
    const char *path = clip(name);
    assert_int_equal(stoker_media_probe(path, 0, &info, &err), STOKER_OK);
    uint64_t count = info.frames;
    if (count < promised[0] || count > promised[1])
        fail_msg("%s: %llu frames promised", name, (unsigned long long)count);
    assert_int_equal(info.width, width);
    assert_int_equal(info.height, height);
    assert_int_equal(stoker_media_probe(path, STOKER_PROBE_EXACT, &info, &err), STOKER_OK);
    if (info.frames < decoded[0] || info.frames > decoded[1])
        fail_msg("%s: %llu frames decoded", name, (unsigned long long)info.frames);
    assert_int_equal(frames_decode(path, NULL, 0, &frames, &err), STOKER_OK);
    assert_int_equal(frames.count, info.frames);
    assert_int_equal(frames.width, width);
    assert_int_equal(frames.height, height);
    frames_check_access(path, &frames, rounds);
    frames_drop(&frames);
    return count;
}

static void check_counts(const char *name, uint64_t promised, uint64_t decoded, uint32_t width, uint32_t height,
                         size_t rounds)
{
    (void)check_range(name, (uint64_t[]){promised, promised}, (uint64_t[]){decoded, decoded}, width, height, rounds);
}

static void check_index(const char *name, uint64_t index, stoker_status expected)
{
    struct frames frames;
    stoker_error err;
    assert_int_equal(frames_decode(clip(name), &index, 1, &frames, &err), expected);
    frames_drop(&frames);
}

static void test_situation_10_fewer_frames_than_promised(void **state)
{
    (void)state;
    static const uint64_t about_31[] = {30, 32};
    uint64_t count = check_range("trunc_fast.mp4", about_31, about_31, 320, 240, 30);
    check_index("trunc_fast.mp4", 0, STOKER_OK);
    check_index("trunc_fast.mp4", count - 1, STOKER_OK);
    check_index("trunc_fast.mp4", count, STOKER_ERR_INVALID_ARGUMENT);
    check_index("trunc_fast.mp4", 59, STOKER_ERR_INVALID_ARGUMENT);
    check_counts("bigpts.mp4", 60, 60, 320, 240, 20);
}

static void test_situation_38_damaged_frames_are_counted(void **state)
{
    (void)state;
    (void)check_range("corrupt.mp4", (uint64_t[]){60, 60}, (uint64_t[]){54, 59}, 320, 240, 54);
}

static void test_situation_39_files_without_video(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } files[] = {{"zero_bytes.mp4", "empty"},           {"noframes.mp4", "no video stream"},
                 {"audio_only.mp4", "no video stream"}, {"cover.m4a", "no video stream"},
                 {"trunc_nomoov.mp4", "moov atom"},     {"nokey.ts", "how large"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        stoker_media_info info;
        stoker_error err;
        assert_true(stoker_media_probe(clip(files[i].name), 0, &info, &err) < 0);
        assert_non_null(strstr(err.message, files[i].text));
        assert_null(strchr(err.message, '\n'));
        assert_non_null(strstr(err.context, files[i].name));
    }
}

static void test_situation_40_long_and_joined_files(void **state)
{
    (void)state;
    check_counts("loop.mp4", 1860, 1860, 320, 240, 60);
    check_counts("long.ts", 600, 600, 320, 240, 10);
}

static void test_situation_42_hevc_ends_at_its_last_frame(void **state)
{
    (void)state;
    check_counts("hevc161.mp4", 161, 161, 64, 64, 161);
    check_index("hevc161.mp4", 160, STOKER_OK);
    check_index("hevc161.mp4", 161, STOKER_ERR_INVALID_ARGUMENT);
}

static void test_situation_44_containers_without_a_count(void **state)
{
    (void)state;
    check_counts("frag.mp4", 60, 60, 320, 240, 20);
    check_counts("base.mkv", 60, 60, 320, 240, 20);
    check_counts("alpha.webm", 60, 60, 320, 240, 20);
}

static void test_situation_46_odd_sizes(void **state)
{
    (void)state;
    check_counts("odd420.webm", 60, 60, 321, 241, 20);
    check_counts("odd444.mp4", 60, 60, 321, 241, 20);
}

static void test_situation_47_rotation_is_applied_once(void **state)
{
    (void)state;
    check_counts("rot90.mp4", 60, 60, 240, 320, 20);
}

static void check_look(const char *name, const char *pixel_format, uint32_t bits, const char *range, bool alpha)
{
    stoker_media_info info;
    stoker_error err;
    assert_int_equal(stoker_media_probe(clip(name), 0, &info, &err), STOKER_OK);
    assert_string_equal(info.pixel_format, pixel_format);
    assert_int_equal(info.bit_depth, bits);
    if (range) assert_string_equal(info.range, range);
    assert_int_equal(info.alpha, alpha);
}

static void test_situation_48_deep_and_full_range_and_alpha(void **state)
{
    (void)state;
    check_counts("tenbit.mp4", 60, 60, 320, 240, 20);
    check_look("tenbit.mp4", "yuv420p10le", 10, "limited", false);
    check_look("fullrange.mp4", "yuvj420p", 8, "full", false);
    check_look("alpha.mov", "argb", 8, NULL, true);
    check_look("alpha.webm", "yuv420p", 8, "limited", true);
    check_counts("fullrange.mp4", 60, 60, 320, 240, 20);
    check_counts("alpha.mov", 60, 60, 320, 240, 20);
}

static void test_situation_51_variable_rate(void **state)
{
    (void)state;
    check_counts("vfr.mp4", 60, 60, 320, 240, 60);
}

static void test_situation_52_trimmed_by_an_edit_list(void **state)
{
    (void)state;
    check_counts("editlist.mp4", 44, 44, 320, 240, 44);
    check_index("editlist.mp4", 43, STOKER_OK);
    check_index("editlist.mp4", 44, STOKER_ERR_INVALID_ARGUMENT);
}

/* Frame k by time is frame k by count: for some times of its display. */
static void check_times(const char *name, double rate, uint64_t frames)
{
    struct frames all;
    stoker_error err;
    assert_int_equal(frames_decode(clip(name), NULL, 0, &all, &err), STOKER_OK);
    assert_int_equal(all.count, frames);
    for (uint64_t k = 0; k < frames; k += 5) {
        double seconds = ((double)k + 0.5) / rate;
        struct frames got;
        assert_int_equal(frames_decode_at(clip(name), &seconds, 1, &got, &err), STOKER_OK);
        assert_true(got.hashes[0] == all.hashes[k]);
        frames_drop(&got);
    }
    frames_drop(&all);
}

static void test_situation_50_webm_and_b_frames(void **state)
{
    (void)state;
    static const char *const names[] = {"odd420.webm", "alpha.webm", "base.mp4", "base.mkv", "tenbit.mp4", "frag.mp4"};
    uint64_t random = 50;
    for (size_t c = 0; c < sizeof names / sizeof names[0]; c++) {
        struct frames all;
        stoker_error err;
        assert_int_equal(frames_decode(clip(names[c]), NULL, 0, &all, &err), STOKER_OK);
        for (int i = 0; i < 1000 / 6 + 1; i++) { /* a thousand random frames in all */
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t k = (random >> 33) % all.count;
            struct frames got;
            assert_int_equal(frames_decode(clip(names[c]), &k, 1, &got, &err), STOKER_OK);
            if (got.hashes[0] != all.hashes[k]) fail_msg("%s: frame %llu", names[c], (unsigned long long)k);
            frames_drop(&got);
        }
        frames_drop(&all);
    }
}

static void test_situation_51_frames_by_time(void **state)
{
    (void)state;
    check_times("base.mp4", 30, 60);
    check_times("base.mkv", 30, 60);
    check_times("editlist.mp4", 30, 44); /* times start at 0, whatever the edit list hides */
    check_times("bigpts.mp4", 30, 60);
}

/* Decoding before a fork leaves no thread and no lock behind that the child would wait for. */
static void test_situation_54_decode_then_fork(void **state)
{
    (void)state;
    struct frames before;
    stoker_error err;
    assert_int_equal(frames_decode(clip("hevc161.mp4"), NULL, 0, &before, &err), STOKER_OK);
    for (int child = 0; child < 3; child++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct frames own;
            (void)alarm(100); /* a hang ends as a signal */
            bool same = frames_decode(clip("hevc161.mp4"), NULL, 0, &own, &err) == STOKER_OK &&
                        own.count == before.count &&
                        memcmp(own.hashes, before.hashes, own.count * sizeof *own.hashes) == 0;
            _exit(same ? 0 : 1);
        }
        int status = -1;
        while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    frames_drop(&before);
}

struct reader {
    uint64_t random;
    uint64_t decoded;
};

/* Clips and frames in random order; which of them can be decoded at all is the business of other tests. */
static void read_at_random(void *argument)
{
    static const char *const names[] = {"base.mp4",       "vfr.mp4",    "rot90.mp4",    "odd444.mp4",  "odd420.webm",
                                        "tenbit.mp4",     "alpha.webm", "alpha.mov",    "corrupt.mp4", "trunc_fast.mp4",
                                        "reschange.h264", "frag.mp4",   "editlist.mp4", "hevc161.mp4", "zero_bytes.mp4",
                                        "noframes.mp4",   "cover.m4a",  "nokey.ts",     "bigpts.mp4"};
    struct reader *reader = argument;
    for (int i = 0; i < 30; i++) {
        char path[8192];
        uint64_t index;
        struct frames got;
        stoker_error err;
        reader->random = reader->random * 6364136223846793005u + 1442695040888963407u;
        const char *name = names[(reader->random >> 33) % (sizeof names / sizeof names[0])];
        index = (reader->random >> 50) % 70;
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        if (frames_decode(path, &index, 1, &got, &err) == STOKER_OK) reader->decoded++;
        frames_drop(&got);
    }
}

static void test_situation_55_sixteen_readers_at_random(void **state)
{
    (void)state;
    struct reader readers[16];
    struct stk_thread *threads[16];
    if (!have_clips) STK_SKIP("no ffmpeg program, or without an encoder");
    for (uint64_t i = 0; i < 16; i++) {
        readers[i] = (struct reader){i, 0};
        assert_int_equal(stk_thread_start("reader", read_at_random, &readers[i], &threads[i], NULL), STOKER_OK);
    }
    for (int i = 0; i < 16; i++) stk_thread_join(threads[i]);
    for (int i = 0; i < 16; i++) assert_in_range(readers[i].decoded, 5, 30);
}

static void test_size_changes_in_mid_stream(void **state)
{
    (void)state;
    check_counts("reschange.h264", 50, 50, 320, 240, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_situation_10_fewer_frames_than_promised),
        cmocka_unit_test(test_situation_38_damaged_frames_are_counted),
        cmocka_unit_test(test_situation_39_files_without_video),
        cmocka_unit_test(test_situation_40_long_and_joined_files),
        cmocka_unit_test(test_situation_42_hevc_ends_at_its_last_frame),
        cmocka_unit_test(test_situation_44_containers_without_a_count),
        cmocka_unit_test(test_situation_46_odd_sizes),
        cmocka_unit_test(test_situation_47_rotation_is_applied_once),
        cmocka_unit_test(test_situation_48_deep_and_full_range_and_alpha),
        cmocka_unit_test(test_situation_50_webm_and_b_frames),
        cmocka_unit_test(test_situation_51_variable_rate),
        cmocka_unit_test(test_situation_51_frames_by_time),
        cmocka_unit_test(test_situation_52_trimmed_by_an_edit_list),
        cmocka_unit_test(test_situation_54_decode_then_fork),
        cmocka_unit_test(test_situation_55_sixteen_readers_at_random),
        cmocka_unit_test(test_size_changes_in_mid_stream),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_clips, NULL);
}
