/* SPDX-License-Identifier: Apache-2.0
 *
 * The three ways of scaling agree in size and colour, on every pixel format among the golden clips, and more sizes than
 * converters are kept.
 */
#include <stdlib.h>
#include <string.h>

#include "media/ffmpeg.h"
#include "media/media_fixture.h"

static double mean_of(const struct stk_scaled *scaled, int channel, uint32_t width, uint32_t height)
{
    double sum = 0;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) sum += scaled->planes[channel][y * scaled->stride + x];
    return sum / width / height;
}

static void check_clip(const char *name)
{
    struct stk_file file = open_clip(name);
    struct stk_av *av = NULL;
    struct stk_scaler *scaler = NULL;
    struct stk_av_frame frame;
    stoker_error err;
    assert_int_equal(stk_av_open(&file, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_scan(av, STK_AV_KEEP_BYTES, &err), STOKER_OK);
    assert_int_equal(stk_av_restart(av, false, &err), STOKER_OK);
    assert_int_equal(stk_scaler_create(&scaler, &err), STOKER_OK);
    assert_int_equal(stk_av_send(av, 0, true, &err), STOKER_OK);
    if (stk_av_receive(av, &frame, &err) != STOKER_OK) {
        assert_int_equal(stk_av_drain(av, &err), STOKER_OK);
        assert_int_equal(stk_av_receive(av, &frame, &err), STOKER_OK);
    }
    static const stoker_picture_options usual = {STOKER_UNTAGGED_BT601, 0, 0, STOKER_ALPHA_DROP, {0, 0, 0, 0}};
    double means[3] = {0, 0, 0};
    for (uint32_t size = 0; size < 12; size++) {
        uint32_t width = size ? 40 + size * 13 : frame.width, height = size ? 33 + size * 7 : frame.height;
        const struct stk_scaling scaling = {width, height, {0, 0, width, height}};
        struct stk_scaled scaled;
        assert_int_equal(stk_scaler_run(scaler, av, &usual, &scaling, NULL, &scaled, &err), STOKER_OK);
        for (int c = 0; c < 3; c++) {
            double mean = mean_of(&scaled, c, width, height);
            if (size == 0) means[c] = mean;
            assert_true(mean > means[c] - 1 && mean < means[c] + 1);
        }
        /* A part is a part of the whole. */
        uint8_t *line = malloc(20);
        assert_non_null(line);
        memcpy(line, scaled.planes[1] + 9 * scaled.stride + 11, 20);
        const struct stk_scaling part = {width, height, {11, 9, 20, 5}};
        assert_int_equal(stk_scaler_run(scaler, av, &usual, &part, NULL, &scaled, &err), STOKER_OK);
        assert_memory_equal(scaled.planes[1], line, 20);
        free(line);
    }
    stk_scaler_destroy(scaler);
    stk_av_close(av);
    stk_file_close(&file);
}

static void test_scaling_keeps_colours_and_parts(void **state)
{
    (void)state;
    check_clip("h264_bframes_g12.mp4");
    check_clip("fullrange_bt709.mp4");
    check_clip("hevc10_opengop.mp4");
    check_clip("vp9_odd227x171.webm");
    check_clip("alpha_qtrle.mov");
    check_clip("gif_delays.gif");
    stk_scaler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scaling_keeps_colours_and_parts)};
    return stk_run_tests(tests);
}
