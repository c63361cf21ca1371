/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging: the manifest of all sources, from the manifests of each.
 */
#include "media/manifest_fixture.h"

static const char *const all[] = {"x/a.mp4", "x/bad.mp4", "y.webm"};
static const char *const second[] = {"y.webm"};

static int begin(void **state)
{
    if (fixture_begin(state) != 0 || mkdir(inside("x"), 0700) != 0) return -1;
    fixture_clip("h264_bframes_g12.mp4", "x/a.mp4");
    fixture_clip("vp9_odd227x171.webm", "y.webm");
    fixture_write(inside("x/bad.mp4"), "nothing", 7);
    (void)fixture_build("x/one", all, 2, NULL); /* in another folder: its paths are kept differently */
    (void)fixture_build("two", second, 1, NULL);
    return 0;
}

static stoker_status merge(const char *out, const char *a, const char *b, stoker_error *err)
{
    char texts[2][256];
    (void)snprintf(texts[0], sizeof texts[0], "%s", inside(a));
    (void)snprintf(texts[1], sizeof texts[1], "%s", inside(b));
    const char *paths[] = {texts[0], texts[1]};
    const stoker_manifest_sources manifests = {paths, 2};
    return stoker_manifest_merge(inside(out), &manifests, err);
}

static void prop_merged_parts_are_the_whole(void **state)
{
    (void)state;
    stoker_error err;
    assert_int_equal(merge("m", "x/one", "two", &err), STOKER_OK);
    (void)fixture_build("whole", all, 3, NULL);
    assert_same_files("m", "whole");
    stoker_manifest *manifest = fixture_open("x/one");
    assert_string_equal(fixture_entry(manifest, 0).path, "a.mp4");
    stoker_manifest_close(manifest);
}

static void test_a_file_in_two_manifests_is_named(void **state)
{
    (void)state;
    stoker_error err;
    (void)fixture_build("whole", all, 3, NULL);
    assert_int_equal(merge("m", "whole", "two", &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "/y.webm' stands in '"));
    assert_int_not_equal(access(inside("m"), F_OK), 0);
}

static void test_what_is_no_manifest_is_named(void **state)
{
    (void)state;
    stoker_error err;
    assert_int_equal(merge("m", "two", "y.webm", &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.context, "y.webm"));
    assert_int_equal(merge("m", "two", "absent", &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(stoker_manifest_merge(NULL, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(prop_merged_parts_are_the_whole, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_file_in_two_manifests_is_named, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_what_is_no_manifest_is_named, begin, fixture_end),
    };
    return stk_run_tests(tests);
}
