/* SPDX-License-Identifier: Apache-2.0
 *
 * The public entry points: arguments, errors that name the file, results that are touched on success only.
 */
#include <string.h>

#include <stoker/media.h>

#include "media/media_fixture.h"

static void test_probe_tells_facts_and_errors(void **state)
{
    (void)state;
    stoker_media_info info;
    stoker_error err;
    assert_int_equal(stoker_media_probe(clip_path("rot90.mp4"), 0, &info, &err), STOKER_OK);
    assert_string_equal(info.codec, "h264");
    assert_int_equal(info.width, 180);
    assert_int_equal(info.height, 320);
    assert_int_equal(info.rotation, 270);
    assert_int_equal(info.frames, 25);
    assert_int_equal(info.bytes, 30055);
    assert_int_equal(stoker_media_probe(clip_path("rot90.mp4"), STOKER_PROBE_EXACT, &info, &err), STOKER_OK);
    assert_int_equal(info.frames, 25);

    memset(&info, 0x5a, sizeof info);
    const stoker_media_info untouched = info;
    assert_int_equal(stoker_media_probe(clip_path("audio_only.m4a"), 0, &info, &err), STOKER_ERR_NOT_FOUND);
    assert_string_equal(err.message, "no video stream");
    assert_non_null(strstr(err.context, "audio_only.m4a"));
    assert_int_equal(stoker_media_probe(clip_path("absent.mp4"), 0, &info, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(stoker_media_probe(clip_path("rot90.mp4"), 8, &info, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_media_probe(NULL, 0, &info, NULL), STOKER_ERR_INVALID_ARGUMENT);
    assert_memory_equal(&info, &untouched, sizeof info);
}

static stoker_status stop_at_second(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                                    stoker_error *err)
{
    (void)position, (void)rgb, (void)err;
    assert_int_equal(width, 20);
    assert_int_equal(height, 10);
    return ++*(int *)user == 2 ? STOKER_ERR_CANCELED : STOKER_OK;
}

static void test_frames_read_obeys_its_caller(void **state)
{
    (void)state;
    const uint64_t indices[] = {7, 0, 3}, outside[] = {0, 25};
    stoker_frame_list list = {.indices = indices, .count = 3, .width = 20, .height = 10};
    stoker_error err;
    int calls = 0;
    const char *path = clip_path("rot90.mp4");
    assert_int_equal(stoker_frames_read(path, &list, stop_at_second, &calls, &err), STOKER_ERR_CANCELED);
    assert_int_equal(calls, 2);
    list.indices = outside, list.count = 2;
    assert_int_equal(stoker_frames_read(path, &list, stop_at_second, &calls, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "frame 25 is asked for, the last of 25 frames is 24"));
    assert_int_equal(calls, 2);
    list.count = 0;
    assert_int_equal(stoker_frames_read(path, &list, stop_at_second, &calls, &err), STOKER_OK);
    assert_int_equal(stoker_frames_read(path, NULL, stop_at_second, &calls, &err), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_video_read_fills_one_sample(void **state)
{
    (void)state;
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 4, spec.width = 16, spec.height = 24;
    uint8_t dst[4 * 3 * 16 * 24];
    stoker_video_result result;
    stoker_error err;
    assert_int_equal(stoker_video_sample_bytes(&spec), sizeof dst);
    assert_int_equal(stoker_video_read(clip_path("rot90.mp4"), &spec, dst, &result, &err), STOKER_OK);
    assert_int_equal(result.frames_presented, 25);
    assert_int_equal(result.frames_promised, 25);
    assert_in_range(result.packets_decoded, 4, 25);
    spec.frames = 0;
    assert_int_equal(stoker_video_read(clip_path("rot90.mp4"), &spec, dst, &result, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_video_read(clip_path("rot90.mp4"), NULL, dst, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_tells_facts_and_errors),
        cmocka_unit_test(test_frames_read_obeys_its_caller),
        cmocka_unit_test(test_video_read_fills_one_sample),
    };
    return stk_run_tests(tests);
}
