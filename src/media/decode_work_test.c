/* SPDX-License-Identifier: Apache-2.0
 *
 * What plans really decode, on hand-made packet tables and against the decoder's own answer on clips.
 */
#include "media/decode_work.h"

#include <stdlib.h>
#include <string.h>

#include "media/decode_internal.h"
#include "media/media_fixture.h"
#include "media/plan_fixture.h"

static void expect_leaves(const char *codec, size_t count, const int64_t *pts, const char *expected)
{
    static const uint32_t flags[16] = {K};
    struct fixture f;
    uint8_t leaf[16];
    fill(&f, count, pts, flags);
    stk_decode_work_leaves(&f.table, codec, leaf);
    for (size_t i = 0; i < count; i++) assert_int_equal(leaf[i], expected[i] == 'b');
}

static void test_packets_that_nothing_refers_to(void **state)
{
    (void)state;
    const int64_t in_order[] = {0, 1, 2, 3}, single[] = {0, 2, 1, 4, 3}, pyramid[] = {0, 4, 2, 1, 3, 5};
    const int64_t two[] = {0, 3, 1, 2, 6, 4, 5}, deep[] = {0, 8, 4, 2, 1, 3, 6, 5, 7, 9};
    expect_leaves("h264", 4, in_order, "....");
    expect_leaves("h264", 5, single, "..b.b");
    expect_leaves("hevc", 6, pyramid, "...bb.");
    expect_leaves("h264", 6, pyramid, "...bb.");
    expect_leaves("hevc", 10, deep, "....bb.bb.");
    /* Two in the order of their times: H.264 refers to the first, MPEG-4 to neither. */
    expect_leaves("h264", 7, two, "...b..b");
    expect_leaves("mpeg4", 7, two, "..bb.bb");
    expect_leaves("h264", 0, in_order, "");
}

static void test_left_out_packets_are_no_work(void **state)
{
    (void)state;
    const int64_t pts[] = {0, 2, 1, 4, 3, 6, 5};
    const uint32_t flags[] = {K, 0, 0, 0, 0, 0, 0};
    const uint64_t last[] = {6}, leaf_too[] = {3, 6};
    const struct stk_av_facts facts = {.codec = "h264", .width = 10, .height = 20};
    struct stk_plan_costs costs = stk_plan_costs_of("h264", 200);
    void *memory = malloc(stk_decode_plan_room(2));
    struct stk_decode_plan plan;
    struct stk_decode_work work;
    struct fixture f;
    fill(&f, 7, pts, flags);
    stk_decode_plan_by_time(&plan, &f.table, &costs, last, 1, memory); /* packets 0 to 5, of which 2 and 4 are leaves */
    assert_int_equal(stk_decode_work_of_plan(&plan, &f.table, &facts, &work, NULL), STOKER_OK);
    assert_int_equal(work.packets, 4);
    assert_int_equal(work.bytes, 4000);
    assert_int_equal(work.pixels, 800);
    stk_decode_plan_by_time(&plan, &f.table, &costs, leaf_too, 2, memory); /* frame 3 is packet 4 */
    assert_int_equal(stk_decode_work_of_plan(&plan, &f.table, &facts, &work, NULL), STOKER_OK);
    assert_int_equal(work.packets, 5);
    costs.skipped_share = 1; /* the decoder leaves nothing out */
    stk_decode_plan_by_time(&plan, &f.table, &costs, last, 1, memory);
    assert_int_equal(stk_decode_work_of_plan(&plan, &f.table, &facts, &work, NULL), STOKER_OK);
    assert_int_equal(work.packets, 6);
    stk_decode_plan_in_order(&plan, &f.table, 7, last, 1, memory);
    assert_int_equal(stk_decode_work_of_plan(&plan, &f.table, &facts, &work, NULL), STOKER_OK);
    assert_int_equal(work.packets, 7);
    free(memory);
}

/* A scan alone says what the decoder then does. */
static void test_a_scan_foretells_the_work_of_a_sample(void **state)
{
    (void)state;
    static const char *const clips[] = {"h264_bframes_g12.mp4", "rot90.mp4", "vfr.mp4"};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    struct stk_decoder *decoder = NULL;
    struct stk_form form;
    spec.frames = 3, spec.width = spec.height = 32;
    assert_int_equal(stk_form_init(&form, &spec, NULL), STOKER_OK);
    assert_int_equal(stk_decoder_create(&decoder, NULL), STOKER_OK);
    void *dst = malloc(form.sample_bytes);
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        struct stk_decode_work done, told;
        stoker_video_result result;
        struct stk_scan scan;
        struct stk_file file = open_clip(clips[i]);
        stk_decoder_set_work(decoder, &done);
        assert_int_equal(stk_decoder_video(decoder, &file, &form, 0, NULL, dst, &result, NULL), STOKER_OK);
        assert_int_equal(stk_scan_file(&file, &scan, NULL), STOKER_OK);
        assert_int_equal(stk_decode_work_of_scan(&scan, &form, 0, 0, &told, NULL), STOKER_OK);
        assert_memory_equal(&told, &done, sizeof told);
        assert_true(told.packets > 0 && told.packets <= result.packets_decoded && told.bytes <= result.bytes_read);
        if (i == 0) assert_true(told.packets < result.packets_decoded);
        assert_int_equal(stk_decode_work_of_scan(&scan, &form, 0, scan.frames, &told, NULL), STOKER_OK);
        assert_int_equal(told.packets, scan.count); /* a damaged file is decoded from its start */
        stk_scan_fini(&scan);
        stk_file_close(&file);
    }
    free(dst);
    stk_decoder_destroy(decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets_that_nothing_refers_to),
        cmocka_unit_test(test_left_out_packets_are_no_work),
        cmocka_unit_test(test_a_scan_foretells_the_work_of_a_sample),
    };
    return stk_run_tests(tests);
}
