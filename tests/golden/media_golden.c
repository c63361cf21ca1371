/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden clips against expected.json, which the ffmpeg program wrote: what opens and what must fail, packets,
 * presented frames, size after rotation, colours; and each frame by random access against the decode in order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <stoker/media.h>

#include "media/ffmpeg.h"
#include "tests/golden/frames.h"
#include "tests/support/unit.h"

static json_t *expected;

static int load(void **state)
{
    (void)state;
    json_error_t error;
    expected = json_load_file(STK_GOLDEN_MEDIA "/expected.json", 0, &error);
    return expected ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(expected);
    return 0;
}

static long long number(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void path_of(char *out, size_t size, const char *name)
{
    assert_true(snprintf(out, size, "%s/%s", STK_GOLDEN_MEDIA, name) < (int)size);
}

static bool opens(json_t *clip)
{
    return strcmp(json_string_value(json_object_get(clip, "open")), "ok") == 0 &&
           json_is_object(json_object_get(clip, "video"));
}

/* Packets that the reference counts include the cut one at the end of a truncated file. */
static void check_packets(const char *path, json_t *clip)
{
    struct stk_file file;
    struct stk_av *av = NULL;
    stoker_error err;
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_OK);
    assert_int_equal(stk_av_open(&file, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_scan(av, 0, &err), STOKER_OK);
    const struct stk_packet_table *table = stk_av_table(av);
    long long packets = number(clip, "packets"), frames = number(clip, "decoded_frames");
    assert_true((long long)table->count == packets ||
                (strstr(path, "truncated") && (long long)table->count == packets - 1));
    json_t *times = json_object_get(clip, "pts");
    for (size_t i = 0; table->by_time && i < json_array_size(times); i++)
        assert_true(table->shown[i].pts == json_integer_value(json_array_get(times, i)));
    assert_int_equal(table->shown_count, frames);
    stk_av_close(av);
    stk_file_close(&file);
}

static void test_probe_agrees_with_the_reference(void **state)
{
    (void)state;
    const char *name;
    json_t *clip;
    json_object_foreach(json_object_get(expected, "clips"), name, clip)
    {
        char path[4096];
        stoker_media_info info;
        stoker_error err;
        path_of(path, sizeof path, name);
        stoker_status status = stoker_media_probe(path, 0, &info, &err);
        if (!opens(clip)) {
            assert_true(status < 0);
            assert_true(err.message[0] != 0);
            continue;
        }
        assert_int_equal(status, STOKER_OK);
        json_t *video = json_object_get(clip, "video"), *size = json_object_get(clip, "dims_after_rotation");
        assert_string_equal(info.codec, json_string_value(json_object_get(video, "codec_name")));
        assert_int_equal(info.width, json_integer_value(json_array_get(size, 0)));
        assert_int_equal(info.height, json_integer_value(json_array_get(size, 1)));
        assert_int_equal(info.frames, number(clip, "decoded_frames"));
        assert_int_equal(info.bytes, number(clip, "bytes"));
        assert_int_equal((360 - info.rotation) % 360, number(video, "rotation_ccw_deg_side_data"));
        check_packets(path, clip);
        assert_int_equal(stoker_media_probe(path, STOKER_PROBE_EXACT, &info, &err), STOKER_OK);
        assert_int_equal(info.frames, number(clip, "decoded_frames"));
    }
}

static void check_means(const char *name, json_t *clip, const struct frames *frames, double tolerance)
{
    const char *index;
    json_t *mean;
    json_object_foreach(json_object_get(clip, "mean_rgb"), index, mean)
    {
        size_t frame = (size_t)strtoul(index, NULL, 10);
        assert_true(frame < frames->count);
        for (size_t c = 0; c < 3; c++) {
            double wanted = json_real_value(json_array_get(mean, c)), got = frames->means[frame][c];
            if (!(fabs(got - wanted) <= tolerance))
                fail_msg("%s: frame %zu channel %zu: mean %.3f, expected %.3f", name, frame, c, got, wanted);
        }
    }
}

static void test_frames_agree_with_the_reference_and_with_random_access(void **state)
{
    (void)state;
    double tolerance = json_real_value(json_object_get(expected, "mean_rgb_tolerance"));
    const char *name;
    json_t *clip;
    json_object_foreach(json_object_get(expected, "clips"), name, clip)
    {
        char path[4096];
        struct frames frames;
        stoker_error err;
        path_of(path, sizeof path, name);
        stoker_status status = frames_decode(path, NULL, 0, &frames, &err);
        if (!opens(clip) || number(clip, "decoded_frames") == 0) {
            assert_true(status < 0);
            continue;
        }
        assert_int_equal(status, STOKER_OK);
        assert_int_equal(frames.count, number(clip, "decoded_frames"));
        check_means(name, clip, &frames, tolerance);
        frames_check_access(path, &frames, frames.count);
        uint64_t past = frames.count;
        struct frames none;
        assert_int_equal(frames_decode(path, &past, 1, &none, &err), STOKER_ERR_INVALID_ARGUMENT);
        frames_drop(&none);
        frames_drop(&frames);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_agrees_with_the_reference),
        cmocka_unit_test(test_frames_agree_with_the_reference_and_with_random_access),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, load, unload);
}
