/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds: the bytes depend on the files alone, not on threads, on what was kept, or on where a build was stopped.
 */
#include "media/manifest_fixture.h"
#include "store/tar_fixture.h"

static const char *const folder_alone[] = {"clips"};
static struct archive archive;

static int begin(void **state)
{
    if (fixture_begin(state) != 0 || mkdir(inside("clips"), 0700) != 0) return -1;
    fixture_clip("h264_bframes_g12.mp4", "clips/a.mp4");
    fixture_clip("vp9_odd227x171.webm", "clips/b.webm");
    fixture_clip("ptswrap.ts", "clips/c.ts");
    fixture_clip("audio_only.m4a", "clips/d.mp4");
    fixture_write(inside("clips/e.mp4"), "", 0);
    size_t size = 0;
    uint8_t *data = fixture_read(clip_path("rot90.mp4"), &size);
    archive.size = 0;
    archive_add(&archive, "x/0.txt", '0', "caption");
    archive_sum(archive_header(&archive, "x/0.mp4", '0', size));
    archive_data(&archive, data, size);
    archive_end(&archive);
    archive_write(&archive, inside("clips/s.tar"));
    free(data);
    return 0;
}

static stoker_manifest_build_options with(uint32_t jobs)
{
    stoker_manifest_build_options options = STOKER_MANIFEST_BUILD_OPTIONS_INIT;
    options.jobs = jobs;
    return options;
}

static void test_a_build_has_every_file_in_order(void **state)
{
    (void)state;
    stoker_manifest_progress progress = fixture_build("m", folder_alone, 1, NULL);
    assert_int_equal(progress.done, 6);
    assert_int_equal(progress.total, 6);
    assert_int_equal(progress.bad, 2);
    assert_int_equal(progress.kept + progress.resumed, 0);
    stoker_manifest *manifest = fixture_open("m");
    assert_string_equal(fixture_entry(manifest, 0).path, "clips/a.mp4");
    assert_string_equal(fixture_entry(manifest, 3).error, "no video stream");
    assert_string_equal(fixture_entry(manifest, 4).error, "the file is empty (0 bytes)");
    stoker_manifest_entry member = fixture_entry(manifest, 5);
    assert_string_equal(member.path, "clips/s.tar");
    assert_string_equal(member.member, "x/0.mp4");
    assert_int_equal(member.frames, 25);
    assert_int_equal(member.offset, 3 * 512);
    stoker_manifest_close(manifest);
    assert_int_not_equal(access(inside("m.stoker-journal"), F_OK), 0);
}

static void test_the_bytes_do_not_depend_on_threads(void **state)
{
    (void)state;
    stoker_manifest_build_options options = with(6);
    (void)fixture_build("m", folder_alone, 1, NULL);
    (void)fixture_build("n", folder_alone, 1, &options);
    assert_same_files("m", "n");
}

static void prop_incremental_equals_full(void **state)
{
    (void)state;
    (void)fixture_build("m", folder_alone, 1, NULL);
    stoker_manifest_progress progress = fixture_build("m", folder_alone, 1, NULL);
    assert_int_equal(progress.kept, 6);
    fixture_clip("vfr.mp4", "clips/b.webm");           /* changed */
    fixture_clip("gif_delays.gif", "clips/aa.gif");    /* new */
    assert_int_equal(unlink(inside("clips/c.ts")), 0); /* gone */
    progress = fixture_build("m", folder_alone, 1, NULL);
    assert_int_equal(progress.kept, 4);
    (void)fixture_build("full", folder_alone, 1, NULL);
    assert_same_files("m", "full");
    stoker_manifest_build_options fresh = with(1);
    fresh.fresh = 1;
    progress = fixture_build("m", folder_alone, 1, &fresh);
    assert_int_equal(progress.kept, 0);
    assert_same_files("m", "full");
}

struct stop {
    uint64_t after;
};

static stoker_status stop_after(void *user, const stoker_manifest_progress *progress, stoker_error *err)
{
    const struct stop *stop = user;
    (void)err;
    return progress->done >= stop->after ? STOKER_ERR_CANCELED : STOKER_OK;
}

static void prop_a_stopped_build_goes_on_to_the_same_bytes(void **state)
{
    (void)state;
    (void)fixture_build("full", folder_alone, 1, NULL);
    char folder[256];
    const char *source = folder;
    (void)snprintf(folder, sizeof folder, "%s", inside("clips"));
    const stoker_manifest_sources sources = {&source, 1};
    for (uint64_t after = 1; after <= 6; after++) {
        struct stop stop = {after};
        stoker_manifest_build_options options = with(1);
        stoker_error err;
        options.progress_fn = stop_after;
        options.progress_user = &stop;
        assert_int_equal(stoker_manifest_build(inside("m"), &sources, &options, NULL, &err), STOKER_ERR_CANCELED);
        assert_int_not_equal(access(inside("m"), F_OK), 0); /* nothing has appeared */
        stoker_manifest_progress progress = fixture_build("m", folder_alone, 1, NULL);
        assert_int_equal(progress.resumed, after);
        assert_same_files("m", "full");
        assert_int_equal(unlink(inside("m")), 0);
    }
}

static void test_what_changed_since_a_stopped_build_is_looked_at_again(void **state)
{
    (void)state;
    struct stop stop = {6};
    stoker_manifest_build_options options = with(1);
    options.progress_fn = stop_after;
    options.progress_user = &stop;
    char folder[256];
    const char *source = folder;
    (void)snprintf(folder, sizeof folder, "%s", inside("clips"));
    const stoker_manifest_sources sources = {&source, 1};
    assert_int_equal(stoker_manifest_build(inside("m"), &sources, &options, NULL, NULL), STOKER_ERR_CANCELED);
    fixture_clip("vfr.mp4", "clips/a.mp4");
    assert_int_equal(fixture_build("m", folder_alone, 1, NULL).resumed, 5);
    (void)fixture_build("full", folder_alone, 1, NULL);
    assert_same_files("m", "full");
}

static void test_exact_counts_are_added_to_kept_entries(void **state)
{
    (void)state;
    stoker_manifest_build_options exact = with(2);
    exact.exact = 1;
    (void)fixture_build("m", folder_alone, 1, NULL);
    stoker_manifest_progress progress = fixture_build("m", folder_alone, 1, &exact);
    assert_int_equal(progress.kept, 2); /* the bad ones */
    stoker_manifest *manifest = fixture_open("m");
    assert_int_equal(fixture_entry(manifest, 0).frames_exact, 60);
    stoker_manifest_close(manifest);
    progress = fixture_build("m", folder_alone, 1, NULL); /* and stay */
    assert_int_equal(progress.kept, 6);
    manifest = fixture_open("m");
    assert_int_equal(fixture_entry(manifest, 0).frames_exact, 60);
    stoker_manifest_close(manifest);
}

static void test_nothing_but_a_manifest_is_written_over(void **state)
{
    (void)state;
    char folder[256];
    const char *source = folder;
    (void)snprintf(folder, sizeof folder, "%s", inside("clips"));
    const stoker_manifest_sources sources = {&source, 1};
    stoker_error err;
    char target[256];
    (void)snprintf(target, sizeof target, "%s", inside("clips/a.mp4"));
    assert_int_equal(stoker_manifest_build(target, &sources, NULL, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "is there and is no manifest: it is not written over"));
    assert_int_equal(stoker_manifest_build(inside("absent/m"), &sources, NULL, NULL, &err), STOKER_ERR_NOT_FOUND);
    stoker_manifest_build_options options = with(17);
    assert_int_equal(stoker_manifest_build(inside("m"), &sources, &options, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_manifest_build(NULL, &sources, NULL, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_a_damaged_manifest_is_made_anew(void **state)
{
    (void)state;
    (void)fixture_build("m", folder_alone, 1, NULL);
    (void)fixture_build("full", folder_alone, 1, NULL);
    assert_int_equal(truncate(inside("m"), 500), 0);
    assert_int_equal(fixture_build("m", folder_alone, 1, NULL).kept, 0);
    assert_same_files("m", "full");
}

static void test_missing_files_are_entries(void **state)
{
    (void)state;
    static const char *const names[] = {"clips/a.mp4", "clips/absent.mp4", "clips/absent.tar"};
    assert_int_equal(fixture_build("m", names, 3, NULL).bad, 2);
    stoker_manifest *manifest = fixture_open("m");
    assert_int_equal(fixture_entry(manifest, 1).status, STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(fixture_entry(manifest, 1).error, "No such file"));
    assert_int_equal(fixture_entry(manifest, 2).status, STOKER_ERR_NOT_FOUND);
    stoker_manifest_close(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_build_has_every_file_in_order, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_the_bytes_do_not_depend_on_threads, begin, fixture_end),
        cmocka_unit_test_setup_teardown(prop_incremental_equals_full, begin, fixture_end),
        cmocka_unit_test_setup_teardown(prop_a_stopped_build_goes_on_to_the_same_bytes, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_what_changed_since_a_stopped_build_is_looked_at_again, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_exact_counts_are_added_to_kept_entries, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_nothing_but_a_manifest_is_written_over, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_damaged_manifest_is_made_anew, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_missing_files_are_entries, begin, fixture_end),
    };
    return stk_run_tests(tests);
}
