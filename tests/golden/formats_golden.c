/* SPDX-License-Identifier: Apache-2.0
 *
 * One clip of each codec in each container, and of each awkward kind, against the ffmpeg program: as many frames, in its
 * order, turned as it turns them (8x8 grey thumbs, for their colours are another test's). The clips are made once in the
 * build folder by tests/support/make_formats.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/media.h>

#include "tests/golden/clips.h"
#include "tests/support/unit.h"

enum { THUMB = 64, CLIPS_MAX = 128 };

static char folder[4096];
static struct {
    char name[64];
    uint64_t frames;
    bool seen;
} listed[CLIPS_MAX];
static size_t count;

static int make(void **state)
{
    (void)state;
    char path[4200];
    const char *place = getenv("STOKER_TEST_FORMATS");
    if (!clips_make(place, getenv("STOKER_TEST_MAKE_FORMATS"))) return 0;
    assert_true(snprintf(folder, sizeof folder, "%s", place) < (int)sizeof folder);
    (void)snprintf(path, sizeof path, "%s/counts.txt", folder);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    unsigned long long frames;
    while (count < CLIPS_MAX && fscanf(file, "%63s %llu", listed[count].name, &frames) == 2)
        listed[count++].frames = frames;
    return fclose(file);
}

struct thumbs {
    uint8_t *grey;
    size_t count;
};

static stoker_status add_thumb(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                               stoker_error *err)
{
    struct thumbs *thumbs = user;
    (void)err;
    assert_int_equal(width * height, THUMB);
    if (position >= thumbs->count) {
        thumbs->grey = realloc(thumbs->grey, (position + 1) * THUMB);
        assert_non_null(thumbs->grey);
        thumbs->count = position + 1;
    }
    for (size_t i = 0; i < THUMB; i++)
        thumbs->grey[position * THUMB + i] =
            (uint8_t)((299u * rgb[3 * i] + 587u * rgb[3 * i + 1] + 114u * rgb[3 * i + 2] + 500u) / 1000u);
    return STOKER_OK;
}

static uint8_t *read_expected(const char *name, size_t frames)
{
    char path[4200];
    (void)snprintf(path, sizeof path, "%s/thumbs/%s", folder, name);
    uint8_t *thumbs = malloc(frames * THUMB + 1);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(thumbs);
    assert_int_equal(fread(thumbs, THUMB, frames, file), frames);
    assert_int_equal(fclose(file), 0);
    return thumbs;
}

/* Grey levels of limited range were kept by ffmpeg; ours are of full range. */
static double difference(const uint8_t *ours, const uint8_t *theirs, bool full)
{
    double sum = 0;
    for (size_t i = 0; i < THUMB; i++) {
        double level = full ? theirs[i] : ((double)theirs[i] - 16) * 255 / 219;
        double off = ours[i] - (level < 0 ? 0 : level > 255 ? 255 : level);
        sum += off < 0 ? -off : off;
    }
    return sum / THUMB;
}

static void check_clip(const char *name, uint64_t frames)
{
    char path[4200];
    stoker_media_info info;
    stoker_error err;
    struct thumbs ours = {NULL, 0};
    const stoker_frame_list list = {.width = 8, .height = 8};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (stoker_media_probe(path, STOKER_PROBE_EXACT, &info, &err) != STOKER_OK) fail_msg("%s: %s", name, err.message);
    if (info.frames != frames)
        fail_msg("%s: %llu frames, ffmpeg has %llu", name, (unsigned long long)info.frames, (unsigned long long)frames);
    if (stoker_media_probe(path, 0, &info, &err) != STOKER_OK || info.frames != frames)
        fail_msg("%s: %llu frames promised, ffmpeg has %llu", name, (unsigned long long)info.frames,
                 (unsigned long long)frames);
    if (stoker_frames_read(path, &list, add_thumb, &ours, &err) != STOKER_OK) fail_msg("%s: %s", name, err.message);
    assert_int_equal(ours.count, frames);
    uint8_t *expected = read_expected(name, frames);
    /* Of planes of colours ffmpeg takes the grey after it has halved two of them. */
    const bool compared = strncmp(name, "h264_rgb", 8) != 0;
    for (size_t i = 0; i < frames && compared; i++) {
        double limited = difference(ours.grey + i * THUMB, expected + i * THUMB, false),
               full = difference(ours.grey + i * THUMB, expected + i * THUMB, true);
        if (limited > 2 && full > 2) fail_msg("%s: frame %zu differs from ffmpeg's by %.1f levels", name, i, limited);
    }
    free(expected);
    free(ours.grey);
}

/* The clips whose names begin so; those of one test are not those of another. */
static void check_family(const char *prefix)
{
    size_t found = 0;
    if (!count) STK_SKIP("no ffmpeg program");
    for (size_t i = 0; i < count; i++) {
        if (strncmp(listed[i].name, prefix, strlen(prefix)) != 0 || listed[i].seen) continue;
        listed[i].seen = true;
        check_clip(listed[i].name, listed[i].frames);
        found++;
    }
    if (!found) STK_SKIP("the ffmpeg program has no such encoder");
}

static void test_pts_that_start_anew_or_wrap(void **state)
{
    (void)state;
    check_family("h264_restart");
    check_family("h264_repeat");
    check_family("h264_wrap");
    check_family("h264_late");
}

static void test_edit_lists_rotation_and_sizes(void **state)
{
    (void)state;
    check_family("h264_edit");
    check_family("h264_rot");
    check_family("h264_size_change");
    check_family("h264_sar");
    check_family("h264_vfr");
}

static void test_open_groups(void **state)
{
    (void)state;
    check_family("h264_open_gop");
    check_family("hevc_open_gop");
}

static void test_interlaced_is_flagged(void **state)
{
    (void)state;
    check_family("h264_interlaced");
    check_family("mpeg2_interlaced"); /* ffmpeg does not flag the frames of this one */
    char path[4200];
    stoker_media_info info;
    (void)snprintf(path, sizeof path, "%s/h264_interlaced.ts", folder);
    assert_int_equal(stoker_media_probe(path, 0, &info, NULL), STOKER_OK);
    assert_int_equal(info.interlaced, 1);
}

static uint8_t first_pixel(const char *name, int alpha, uint8_t background, size_t x)
{
    char path[4200];
    uint8_t pixels[16 * 12 * 3];
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    stoker_error err;
    spec.frames = 1, spec.width = 16, spec.height = 12, spec.resize = STOKER_RESIZE_EXACT;
    spec.layout = STOKER_LAYOUT_THWC;
    spec.picture.alpha = (stoker_alpha)alpha;
    for (int c = 0; c < 3; c++) spec.picture.background[c] = background;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (stoker_video_read(path, &spec, pixels, NULL, &err) != STOKER_OK) fail_msg("%s: %s", name, err.message);
    return pixels[(6 * 16 + x) * 3];
}

/* Their alpha grows from left to right. */
static void test_alpha_of_each_codec(void **state)
{
    (void)state;
    static const char *const names[] = {"vp8_alpha.webm", "vp9_alpha.webm", "prores_alpha.mov"};
    for (int i = 0; i < 3; i++) {
        check_family(names[i]);
        int last = 256;
        for (size_t x = 0; x < 16; x += 3) {
            /* What a white background adds to a black one is 255 - alpha. */
            int rest = first_pixel(names[i], 1, 255, x) - first_pixel(names[i], 1, 0, x);
            assert_in_range(rest, 60, 255);
            assert_true(rest < last);
            last = rest;
        }
        assert_int_equal(first_pixel(names[i], 0, 0, 1), first_pixel(names[i], 0, 0, 1));
    }
}

#define FAMILY(name)                                                                                                   \
    static void test_##name##_in_its_containers(void **state)                                                          \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check_family(#name);                                                                                           \
    }
#define FAMILIES(apply)                                                                                                \
    apply(h264) apply(hevc) apply(vp8) apply(vp9) apply(av1) apply(mpeg1) apply(mpeg2) apply(mpeg4) apply(msmpeg4)     \
        apply(wmv2) apply(mjpeg) apply(prores) apply(qtrle) apply(ffv1) apply(huffyuv) apply(raw) apply(theora)        \
            apply(gif) apply(apng) apply(nut)
FAMILIES(FAMILY)

static void test_no_clip_is_forgotten(void **state)
{
    (void)state;
    uint64_t frames = 0;
    if (!count) STK_SKIP("no ffmpeg program");
    for (size_t i = 0; i < count; i++) {
        if (!listed[i].seen) fail_msg("%s belongs to no test", listed[i].name);
        frames += listed[i].frames;
    }
    print_message("# %zu clips, %llu frames\n", count, (unsigned long long)frames);
}

int main(void)
{
#define ENTRY(name) cmocka_unit_test(test_##name##_in_its_containers),
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pts_that_start_anew_or_wrap),
        cmocka_unit_test(test_edit_lists_rotation_and_sizes),
        cmocka_unit_test(test_open_groups),
        cmocka_unit_test(test_interlaced_is_flagged),
        cmocka_unit_test(test_alpha_of_each_codec),
        FAMILIES(ENTRY) cmocka_unit_test(test_no_clip_is_forgotten),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make, NULL);
}
