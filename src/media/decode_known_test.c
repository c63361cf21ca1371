/* SPDX-License-Identifier: Apache-2.0
 *
 * A known scan never changes a sample: not when it is right, not when it is of another file, not when frames are lost.
 */
#include "media/decode_known.h"

#include <stdlib.h>
#include <string.h>

#include "media/decode_internal.h"
#include "media/media_fixture.h"

static struct stk_form form_of(uint32_t frames)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    struct stk_form form;
    spec.frames = frames, spec.width = 32, spec.height = 24;
    spec.damaged_max = 1;
    assert_int_equal(stk_form_init(&form, &spec, NULL), STOKER_OK);
    return form;
}

static void test_samples_do_not_depend_on_a_known_scan(void **state)
{
    (void)state;
    static const char *const clips[] = {"h264_bframes_g12.mp4", "rot90.mp4",         "hevc10_opengop.mp4",
                                        "editlist_cut.mp4",     "fragmented.mp4",    "vfr.mp4",
                                        "sar16_11.mp4",         "corrupt_bytes.mp4", "truncated_faststart.mp4",
                                        "vp9_odd227x171.webm",  "ptswrap.ts",        "mpeg4_bframes_nopts.avi",
                                        "gif_delays.gif"};
    struct stk_decoder *decoder = NULL;
    assert_int_equal(stk_decoder_create(&decoder, NULL), STOKER_OK);
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++)
        for (uint32_t frames = 1; frames <= 64; frames += 9) {
            struct stk_form form = form_of(frames);
            struct stk_file file = open_clip(clips[i]);
            struct stk_scan scan;
            stoker_video_result plain, known;
            uint8_t *a = calloc(1, form.sample_bytes), *b = calloc(1, form.sample_bytes);
            assert_true(a && b);
            assert_int_equal(stk_scan_file(&file, &scan, NULL), STOKER_OK);
            assert_int_equal(stk_decoder_video(decoder, &file, &form, 0, NULL, a, &plain, NULL), STOKER_OK);
            assert_int_equal(stk_decoder_video_known(decoder, &file, &form, 0, &scan, NULL, b, &known, NULL),
                             STOKER_OK);
            assert_memory_equal(a, b, form.sample_bytes);
            assert_memory_equal(&plain, &known, sizeof plain);

            /* Another count is met at a packet, and the file is scanned after all. */
            if (scan.count > 2) scan.packets[scan.count / 2].size ^= 1;
            memset(b, 0, form.sample_bytes);
            assert_int_equal(stk_decoder_video_known(decoder, &file, &form, 0, &scan, NULL, b, &known, NULL),
                             STOKER_OK);
            assert_memory_equal(a, b, form.sample_bytes);
            assert_null(decoder->scan);
            stk_scan_fini(&scan);
            stk_file_close(&file);
            free(a);
            free(b);
        }
    stk_decoder_destroy(decoder);
}

static void test_a_scan_is_used_where_the_container_has_an_index(void **state)
{
    (void)state;
    struct stk_decoder *decoder = NULL;
    struct stk_form form = form_of(2);
    struct stk_file file = open_clip("h264_bframes_g12.mp4");
    struct stk_scan scan;
    uint8_t *dst = calloc(1, form.sample_bytes);
    assert_non_null(dst);
    assert_int_equal(stk_decoder_create(&decoder, NULL), STOKER_OK);
    assert_int_equal(stk_scan_file(&file, &scan, NULL), STOKER_OK);
    scan.packets[0].size++; /* it is read first, and differs: so it was looked at */
    assert_int_equal(stk_decoder_video_known(decoder, &file, &form, 0, &scan, NULL, dst, NULL, NULL), STOKER_OK);
    struct stk_pass pass = {.deliver = NULL};
    decoder->scan = &scan;
    assert_int_equal(stk_pass_begin(&pass, decoder, &file, NULL), STOKER_OK);
    assert_int_equal(pass.table->packets[0].size, scan.packets[0].size);
    stk_pass_end(&pass);
    free(dst);
    stk_scan_fini(&scan);
    stk_file_close(&file);
    stk_decoder_destroy(decoder);
}

static void test_a_failure_keeps_its_own_message(void **state)
{
    (void)state;
    struct stk_decoder *decoder = NULL;
    struct stk_form form = form_of(4);
    struct stk_file file = open_clip("zero_frames.mp4");
    stoker_error err = {0};
    uint8_t *dst = calloc(1, form.sample_bytes);
    assert_non_null(dst);
    assert_int_equal(stk_decoder_create(&decoder, NULL), STOKER_OK);
    assert_int_equal(stk_decoder_video_known(decoder, &file, &form, 0, NULL, NULL, dst, NULL, &err),
                     STOKER_ERR_CORRUPT);
    assert_string_equal(err.message, "the video stream holds no frames");
    free(dst);
    stk_file_close(&file);
    stk_decoder_destroy(decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_do_not_depend_on_a_known_scan),
        cmocka_unit_test(test_a_scan_is_used_where_the_container_has_an_index),
        cmocka_unit_test(test_a_failure_keeps_its_own_message),
    };
    return stk_run_tests(tests);
}
