/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of single files: good ones, bad ones, and counts that a decode finds.
 */
#include "media/manifest_entry.h"

#include "media/media_fixture.h"

/* The value points into the struct that it is in, so that is the caller's. */
static void make(const char *clip, bool exact, struct stk_manifest_made *made)
{
    struct stk_file file = open_clip(clip);
    assert_int_equal(stk_manifest_make(&file, exact, made, NULL), STOKER_OK);
    assert_int_equal(made->value.record.bytes, file.size);
    assert_true(made->value.record.mtime_ns == file.mtime_ns);
    stk_file_close(&file);
}

static void test_a_good_file_has_facts_and_packets(void **state)
{
    (void)state;
    struct stk_manifest_made made;
    make("rot90.mp4", false, &made);
    assert_string_equal(made.value.codec, "h264");
    assert_null(made.value.error);
    assert_int_equal(made.value.record.width, 180);
    assert_int_equal(made.value.record.height, 320);
    assert_int_equal(made.value.record.rotation, 270);
    assert_int_equal(made.value.record.frames, 25);
    assert_int_equal(made.value.record.frames_exact, STK_MANIFEST_UNKNOWN);
    assert_in_range(made.value.record.table_size, 75, 25 * 8);
    stk_manifest_made_fini(&made);
}

static void test_a_bad_file_has_its_sentence(void **state)
{
    (void)state;
    struct stk_manifest_made made;
    make("audio_only.m4a", false, &made);
    assert_int_equal(made.value.record.status, STOKER_ERR_NOT_FOUND);
    assert_string_equal(made.value.error, "no video stream");
    assert_null(made.value.codec);
    assert_int_equal(made.value.record.packets + made.value.record.table_size, 0);
    stk_manifest_made_fini(&made);
    make("truncated_moov_at_end.mp4", false, &made);
    assert_int_equal(made.value.record.status, STOKER_ERR_CORRUPT);
    assert_true(strlen(made.value.error) > 10);
    stk_manifest_made_fini(&made);
}

static void test_exact_counts_what_comes_out(void **state)
{
    (void)state;
    struct stk_manifest_made made;
    make("h264_bframes_g12.mp4", true, &made);
    assert_int_equal(made.value.record.frames_exact, 60);
    stk_manifest_made_fini(&made);
    make("zero_frames.mp4", true, &made);
    assert_int_equal(made.value.record.frames_exact, 0);
    stk_manifest_made_fini(&made);
}

static void test_only_faults_of_the_file_last(void **state)
{
    (void)state;
    assert_true(stk_manifest_is_lasting(STOKER_OK));
    assert_true(stk_manifest_is_lasting(STOKER_ERR_CORRUPT));
    assert_true(stk_manifest_is_lasting(STOKER_ERR_NOT_FOUND));
    assert_false(stk_manifest_is_lasting(STOKER_ERR_IO));
    assert_false(stk_manifest_is_lasting(STOKER_ERR_TIMEOUT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_file_has_facts_and_packets),
        cmocka_unit_test(test_a_bad_file_has_its_sentence),
        cmocka_unit_test(test_exact_counts_what_comes_out),
        cmocka_unit_test(test_only_faults_of_the_file_last),
    };
    return stk_run_tests(tests);
}
