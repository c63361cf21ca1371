/* SPDX-License-Identifier: Apache-2.0
 *
 * Awkward clips that other loaders were seen to hang, crash or count wrongly on. They are made once in the build folder
 * by tests/support/make_clips.sh, with the ffmpeg program.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/media.h>

#include "tests/golden/frames.h"
#include "tests/support/unit.h"

static char folder[4096];
static bool have_clips;

static bool run_script(const char *script)
{
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        if (chdir(folder) != 0) _exit(1);
        execlp("bash", "bash", script, (char *)NULL);
        _exit(1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The script runs in a folder of its own, which gets its name when all clips are there. */
static int make_clips(void **state)
{
    (void)state;
    const char *place = getenv("STOKER_TEST_CLIPS"), *script = getenv("STOKER_TEST_MAKE_CLIPS");
    struct stat facts;
    if (!place || !script) return 0;
    if (stat(place, &facts) != 0) {
        if (snprintf(folder, sizeof folder, "%s.%ld", place, (long)getpid()) >= (int)sizeof folder) return -1;
        if (mkdir(folder, 0777) != 0) return -1;
        if (!run_script(script)) return 0;
        if (rename(folder, place) != 0 && stat(place, &facts) != 0) return -1;
    }
    have_clips = snprintf(folder, sizeof folder, "%s", place) < (int)sizeof folder;
    return 0;
}

static const char *clip(const char *name)
{
    static char path[8192];
    if (!have_clips) skip(); /* no ffmpeg program, or without an encoder */
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

static void test_situation_48_deep_and_full_range_and_alpha(void **state)
{
    (void)state;
    check_counts("tenbit.mp4", 60, 60, 320, 240, 20);
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
        cmocka_unit_test(test_situation_51_variable_rate),
        cmocka_unit_test(test_situation_52_trimmed_by_an_edit_list),
        cmocka_unit_test(test_size_changes_in_mid_stream),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_clips, NULL);
}
