/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder's contract: every frame comes out by draining, damage is counted and not fatal, restarting forgets.
 */
#include <string.h>

#include "media/ffmpeg.h"
#include "media/media_fixture.h"

static size_t receive_all(struct stk_av *av)
{
    struct stk_av_frame frame;
    stoker_error err;
    size_t count = 0;
    while (stk_av_receive(av, &frame, &err) == STOKER_OK) count++;
    return count;
}

static size_t decode_all(struct stk_av *av, bool careful)
{
    stoker_error err;
    size_t frames = 0;
    assert_int_equal(stk_av_restart(av, careful, &err), STOKER_OK);
    for (uint32_t i = 0; i < stk_av_table(av)->count; i++) {
        assert_int_equal(stk_av_send(av, i, true, &err), STOKER_OK);
        frames += receive_all(av);
    }
    assert_int_equal(stk_av_drain(av, &err), STOKER_OK);
    return frames + receive_all(av);
}

static void check_clip(const char *name, size_t frames, bool faults)
{
    struct stk_file file = open_clip(name);
    struct stk_av *av = NULL;
    stoker_error err;
    assert_int_equal(stk_av_open(&file, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_scan(av, STK_AV_KEEP_BYTES, &err), STOKER_OK);
    assert_int_equal(decode_all(av, false), frames);
    assert_int_equal(decode_all(av, false), frames); /* after a drain */
    assert_int_equal(decode_all(av, true), frames);
    if (!faults) assert_int_equal(stk_av_faults(av), 0);
    stk_av_close(av);
    stk_file_close(&file);
}

static void test_every_presented_frame_comes_out(void **state)
{
    (void)state;
    check_clip("h264_bframes_g12.mp4", 60, false);
    check_clip("editlist_cut.mp4", 60, false);
    check_clip("hevc10_opengop.mp4", 24, false);
    check_clip("mpeg4_bframes_nopts.avi", 50, false);
    check_clip("vp9_odd227x171.webm", 25, false);
    check_clip("alpha_qtrle.mov", 10, false);
    check_clip("truncated_faststart.mp4", 42, false);
    check_clip("corrupt_bytes.mp4", 75, true);
}

/* Frames that nothing refers to are left out where they are not needed, and only there. */
static void test_send_leaves_out_what_nothing_needs(void **state)
{
    (void)state;
    struct stk_file file = open_clip("h264_bframes_g12.mp4");
    struct stk_av *av = NULL;
    stoker_error err;
    assert_int_equal(stk_av_open(&file, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_scan(av, STK_AV_KEEP_BYTES, &err), STOKER_OK);
    assert_int_equal(stk_av_restart(av, false, &err), STOKER_OK);
    size_t frames = 0;
    for (uint32_t i = 0; i < stk_av_table(av)->count; i++) {
        assert_int_equal(stk_av_send(av, i, false, &err), STOKER_OK);
        frames += receive_all(av);
    }
    assert_int_equal(stk_av_drain(av, &err), STOKER_OK);
    frames += receive_all(av);
    assert_in_range(frames, 5, 50);
    stk_av_close(av);
    stk_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_presented_frame_comes_out),
        cmocka_unit_test(test_send_leaves_out_what_nothing_needs),
    };
    return stk_run_tests(tests);
}
