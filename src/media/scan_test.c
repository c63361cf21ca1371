/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans as values, and decodes that take their packets from one: the same packets, and a scan that is of another file
 * is noticed.
 */
#include "media/scan.h"

#include <stdlib.h>
#include <string.h>

#include "media/ffmpeg_internal.h"
#include "media/media_fixture.h"

static void test_a_scan_is_what_the_demultiplexer_found(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t frames;
        uint32_t width;
    } clips[] = {{"h264_bframes_g12.mp4", 60, 320},
                 {"editlist_cut.mp4", 60, 320},
                 {"vp9_odd227x171.webm", 0, 227},
                 {"zero_frames.mp4", 0, 0}};
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        struct stk_file file = open_clip(clips[i].name);
        struct stk_scan scan;
        struct stk_av *av = NULL;
        stoker_error err;
        assert_int_equal(stk_scan_file(&file, &scan, &err), STOKER_OK);
        assert_int_equal(stk_av_open(&file, &av, &err), STOKER_OK);
        assert_int_equal(stk_av_scan(av, 0, &err), STOKER_OK);
        assert_int_equal(scan.count, stk_av_table(av)->count);
        assert_int_equal(scan.frames, stk_av_table(av)->shown_count);
        for (size_t p = 0; p < scan.count; p++) {
            const struct stk_packet *a = &scan.packets[p], *b = &stk_av_table(av)->packets[p];
            assert_true(a->pts == b->pts && a->dts == b->dts && a->size == b->size && a->flags == b->flags);
        }
        assert_true(scan.duration_s == stk_av_duration(av));
        if (clips[i].width) assert_int_equal(scan.facts.width, clips[i].width);
        if (clips[i].frames) assert_int_equal(scan.frames, clips[i].frames);
        stk_av_close(av);
        stk_scan_fini(&scan);
        stk_file_close(&file);
    }
    struct stk_file file = open_clip("audio_only.m4a");
    struct stk_scan scan;
    stoker_error err;
    assert_int_equal(stk_scan_file(&file, &scan, &err), STOKER_ERR_NOT_FOUND);
    assert_string_equal(err.message, "no video stream");
    stk_file_close(&file);
}

static void test_an_adopted_scan_gives_the_packets_of_the_file(void **state)
{
    (void)state;
    static const uint32_t order[] = {0, 1, 50, 51, 12, 59, 0, 36};
    struct stk_file file = open_clip("h264_bframes_g12.mp4");
    struct stk_scan scan;
    struct stk_av *scanned = NULL, *adopted = NULL;
    stoker_error err;
    assert_int_equal(stk_scan_file(&file, &scan, &err), STOKER_OK);
    assert_int_equal(stk_av_open(&file, &scanned, &err), STOKER_OK);
    assert_int_equal(stk_av_scan(scanned, UINT64_MAX, &err), STOKER_OK);
    assert_int_equal(stk_av_open(&file, &adopted, &err), STOKER_OK);
    assert_int_equal(stk_av_adopt(adopted, &scan, &err), STOKER_OK);
    assert_int_equal(stk_av_table(adopted)->shown_count, 60);
    assert_true(stk_av_table(adopted)->by_time);
    assert_true(stk_av_duration(adopted) == stk_av_duration(scanned));
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        AVPacket *a = NULL, *b = NULL;
        assert_int_equal(stk_av_fetch(scanned, order[i], &a, &err), STOKER_OK);
        assert_int_equal(stk_av_fetch(adopted, order[i], &b, &err), STOKER_OK);
        assert_int_equal(a->size, b->size);
        assert_memory_equal(a->data, b->data, (size_t)a->size);
        assert_true(a->pts == b->pts && a->dts == b->dts && a->flags == b->flags);
    }
    assert_int_equal(stk_av_adopt(adopted, &scan, &err), STOKER_AGAIN); /* it has packets */
    stk_av_close(scanned);
    stk_av_close(adopted);
    stk_scan_fini(&scan);
    stk_file_close(&file);
}

static void test_a_scan_of_another_file_is_not_adopted(void **state)
{
    (void)state;
    struct stk_file first = open_clip("h264_bframes_g12.mp4"), other = open_clip("rot90.mp4"),
                    webm = open_clip("vp9_odd227x171.webm");
    struct stk_scan scan, scan_webm;
    struct stk_av *av = NULL;
    stoker_error err;
    assert_int_equal(stk_scan_file(&first, &scan, &err), STOKER_OK);
    assert_int_equal(stk_scan_file(&webm, &scan_webm, &err), STOKER_OK);
    assert_int_equal(stk_av_open(&other, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_adopt(av, &scan, &err), STOKER_AGAIN);
    stk_av_close(av);
    assert_int_equal(stk_av_open(&webm, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_adopt(av, &scan_webm, &err), STOKER_AGAIN); /* no index of its own */
    assert_int_equal(stk_av_scan(av, 0, &err), STOKER_OK);
    stk_av_close(av);
    stk_scan_fini(&scan);
    stk_scan_fini(&scan_webm);
    stk_file_close(&first);
    stk_file_close(&other);
    stk_file_close(&webm);
}

static void test_a_packet_that_reads_differently_makes_the_scan_stale(void **state)
{
    (void)state;
    struct stk_file file = open_clip("h264_bframes_g12.mp4");
    struct stk_scan scan;
    struct stk_av *av = NULL;
    AVPacket *packet = NULL;
    stoker_error err;
    assert_int_equal(stk_scan_file(&file, &scan, &err), STOKER_OK);
    scan.packets[5].size++;
    assert_int_equal(stk_av_open(&file, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_adopt(av, &scan, &err), STOKER_OK);
    assert_int_equal(stk_av_fetch(av, 4, &packet, &err), STOKER_OK);
    assert_false(stk_av_is_stale(av));
    assert_int_equal(stk_av_fetch(av, 5, &packet, &err), STOKER_ERR_CORRUPT);
    assert_true(stk_av_is_stale(av));
    stk_av_close(av);
    stk_scan_fini(&scan);
    stk_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scan_is_what_the_demultiplexer_found),
        cmocka_unit_test(test_an_adopted_scan_gives_the_packets_of_the_file),
        cmocka_unit_test(test_a_scan_of_another_file_is_not_adopted),
        cmocka_unit_test(test_a_packet_that_reads_differently_makes_the_scan_stale),
    };
    return stk_run_tests(tests);
}
