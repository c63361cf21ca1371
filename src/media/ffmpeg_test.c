/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and scanning: which stream, which packets, which facts; and that a file read twice gives the packets of the
 * first time, whatever order they are asked for.
 */
#include <string.h>

#include "media/ffmpeg_internal.h"
#include "media/media_fixture.h"

static struct stk_av *open_av(const struct stk_file *file, uint64_t keep_bytes)
{
    struct stk_av *av = NULL;
    stoker_error err;
    assert_int_equal(stk_av_open(file, &av, &err), STOKER_OK);
    assert_int_equal(stk_av_scan(av, keep_bytes, &err), STOKER_OK);
    return av;
}

static void test_scan_knows_hidden_and_cut_packets(void **state)
{
    (void)state;
    const struct {
        const char *name;
        size_t packets, shown;
        bool by_time;
    } clips[] = {{"editlist_cut.mp4", 75, 60, true}, {"truncated_faststart.mp4", 42, 42, true},
                 {"fragmented.mp4", 60, 60, true},   {"mpeg4_bframes_nopts.avi", 50, 50, false},
                 {"ptswrap.ts", 50, 50, true},       {"zero_frames.mp4", 0, 0, true},
                 {"gif_delays.gif", 8, 8, true}};
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        struct stk_file file = open_clip(clips[i].name);
        struct stk_av *av = open_av(&file, STK_AV_KEEP_BYTES);
        const struct stk_packet_table *table = stk_av_table(av);
        assert_int_equal(table->count, clips[i].packets);
        assert_int_equal(table->shown_count, clips[i].shown);
        assert_int_equal(table->by_time, clips[i].by_time);
        assert_false(table->broken);
        stk_av_close(av);
        stk_file_close(&file);
    }
}

static void test_open_says_why_not(void **state)
{
    (void)state;
    const struct {
        const char *name;
        stoker_status status;
        const char *text;
    } clips[] = {{"audio_only.m4a", STOKER_ERR_NOT_FOUND, "no video stream"},
                 {"truncated_moov_at_end.mp4", STOKER_ERR_CORRUPT, "moov atom not found"},
                 {"expected.json", STOKER_ERR_CORRUPT, "cannot open: neither video nor sound"}};
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        struct stk_file file = open_clip(clips[i].name);
        struct stk_av *av = NULL;
        stoker_error err;
        assert_int_equal(stk_av_open(&file, &av, &err), clips[i].status);
        assert_non_null(strstr(err.message, clips[i].text));
        assert_null(av);
        stk_file_close(&file);
    }
    const struct stk_file empty = {.fd = -1};
    struct stk_av *av = NULL;
    stoker_error err;
    assert_int_equal(stk_av_open(&empty, &av, &err), STOKER_ERR_CORRUPT);
}

/* The same packets from a second read, in orders that make it seek, read on and start again. */
static void test_fetch_gives_the_scanned_packets_in_any_order(void **state)
{
    (void)state;
    const char *names[] = {"h264_bframes_g12.mp4",    "fragmented.mp4",         "hevc10_opengop.mp4", "ptswrap.ts",
                           "mpeg4_bframes_nopts.avi", "vp9_odd227x171.webm",    "editlist_cut.mp4",   "gif_delays.gif",
                           "interlaced_tff.mkv",      "truncated_faststart.mp4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct stk_file file = open_clip(names[i]);
        struct stk_av *kept = open_av(&file, STK_AV_KEEP_BYTES), *again = open_av(&file, 0);
        uint32_t count = (uint32_t)stk_av_table(kept)->count, at = 0;
        assert_non_null(kept->kept);
        assert_null(again->kept);
        for (uint32_t step = 0; step < 2 * count; step++) {
            AVPacket *expected = NULL, *got = NULL;
            stoker_error err;
            assert_int_equal(stk_av_fetch(kept, at, &expected, &err), STOKER_OK);
            assert_int_equal(stk_av_fetch(again, at, &got, &err), STOKER_OK);
            assert_int_equal(got->size, expected->size);
            assert_memory_equal(got->data, expected->data, (size_t)got->size);
            assert_true(got->pts == expected->pts);
            at = step % 3 == 2 ? (at + 37) % count : (at + 1) % count;
        }
        stk_av_close(kept);
        stk_av_close(again);
        stk_file_close(&file);
    }
}

static void test_facts_of_a_turned_picture(void **state)
{
    (void)state;
    struct stk_file file = open_clip("rot90.mp4");
    struct stk_av *av = open_av(&file, 0);
    const struct stk_av_facts *facts = stk_av_facts(av);
    assert_string_equal(facts->codec, "h264");
    assert_int_equal(facts->width, 320);
    assert_int_equal(facts->height, 180);
    assert_int_equal(facts->rotation, 270);
    assert_true(facts->skips);
    assert_true(stk_av_duration(av) > 0.99 && stk_av_duration(av) < 1.01);
    stk_av_close(av);
    stk_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_knows_hidden_and_cut_packets),
        cmocka_unit_test(test_open_says_why_not),
        cmocka_unit_test(test_fetch_gives_the_scanned_packets_in_any_order),
        cmocka_unit_test(test_facts_of_a_turned_picture),
    };
    return stk_run_tests(tests);
}
