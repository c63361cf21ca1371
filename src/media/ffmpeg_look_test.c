/* SPDX-License-Identifier: Apache-2.0
 *
 * What pictures are like, and how many there are a second.
 */
#include <string.h>

#include "media/ffmpeg.h"
#include "media/media_fixture.h"

struct expected {
    const char *name, *pixel_format, *matrix, *range;
    uint32_t bit_depth, sar_num, sar_den;
    bool interlaced, alpha;
    uint64_t rate_num, rate_den;
};

static void check(const struct expected *e)
{
    struct stk_file file = open_clip(e->name);
    struct stk_av *av = NULL;
    struct stk_av_look look;
    stoker_error err;
    uint64_t num, den;
    assert_int_equal(stk_av_open(&file, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_scan(av, 0, &err), STOKER_OK);
    assert_int_equal(stk_av_look(av, &look, &err), STOKER_OK);
    stk_av_rate(av, &num, &den);
    if (strcmp(look.pixel_format, e->pixel_format) != 0 || strcmp(look.matrix, e->matrix) != 0 ||
        strcmp(look.range, e->range) != 0 || look.bit_depth != e->bit_depth || look.sar_num != e->sar_num ||
        look.sar_den != e->sar_den || look.interlaced != e->interlaced || look.alpha != e->alpha ||
        num * e->rate_den != den * e->rate_num)
        fail_msg("%s: %s '%s' '%s' %u bits, sar %u:%u, interlaced %d, alpha %d, %llu/%llu frames a second", e->name,
                 look.pixel_format, look.matrix, look.range, look.bit_depth, look.sar_num, look.sar_den,
                 look.interlaced, look.alpha, (unsigned long long)num, (unsigned long long)den);
    stk_av_close(av);
    stk_file_close(&file);
}

static void test_pictures_and_rates_are_told(void **state)
{
    (void)state;
    static const struct expected clips[] = {
        {"h264_bframes_g12.mp4", "yuv420p", "", "", 8, 1, 1, false, false, 30, 1},
        {"fullrange_bt709.mp4", "yuvj420p", "bt709", "full", 8, 1, 1, false, false, 25, 1},
        {"hevc10_opengop.mp4", "yuv420p10le", "bt709", "limited", 10, 1, 1, false, false, 24, 1},
        {"interlaced_tff.mkv", "yuv420p", "", "limited", 8, 1, 1, true, false, 25, 1},
        {"sar16_11.mp4", "yuv420p", "", "", 8, 16, 11, false, false, 25, 1},
        {"alpha_qtrle.mov", "argb", "", "", 8, 1, 1, false, true, 10, 1},
        {"gif_delays.gif", "bgra", "", "", 8, 1, 1, false, true, 20, 3},
        {"vp9_odd227x171.webm", "yuv420p", "", "limited", 8, 1, 1, false, false, 25, 1},
        {"mpeg4_bframes_nopts.avi", "yuv420p", "", "", 8, 1, 1, false, false, 25, 1},
        {"vfr.mp4", "yuv420p", "", "", 8, 1, 1, false, false, 11, 1}, /* the container claims 25 */
    };
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) check(&clips[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pictures_and_rates_are_told)};
    return stk_run_tests(tests);
}
