/* SPDX-License-Identifier: Apache-2.0
 *
 * Absolute paths, and what is kept of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "media/manifest.h"
#include "tests/support/unit.h"

static void test_paths_are_made_absolute_without_dots(void **state)
{
    (void)state;
    static const struct {
        const char *path, *absolute;
    } cases[] = {{"/a/b.mp4", "/a/b.mp4"}, {"/a//b/./c/", "/a/b/c"}, {"/", "/"},
                 {"/a/../b", "/a/../b"},   {"/..a/.b", "/..a/.b"},   {"s3://bucket//a/./b", "s3://bucket//a/./b"}};
    char folder[4096], expected[8192];
    char *path = NULL;
    stoker_error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(stk_manifest_absolute(cases[i].path, &path, &err), STOKER_OK);
        assert_string_equal(path, cases[i].absolute);
        free(path);
    }
    assert_non_null(getcwd(folder, sizeof folder));
    (void)snprintf(expected, sizeof expected, "%s/x/y", folder);
    assert_int_equal(stk_manifest_absolute("./x//y", &path, &err), STOKER_OK);
    assert_string_equal(path, expected);
    free(path);
    assert_int_equal(stk_manifest_absolute("", &path, &err), STOKER_ERR_INVALID_ARGUMENT);
    memset(expected, 'x', 5000);
    expected[0] = '/', expected[5000] = 0;
    assert_int_equal(stk_manifest_absolute(expected, &path, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "a path of 5000 bytes, expected at most 4095"));
}

static void test_paths_below_the_folder_are_kept_relative(void **state)
{
    (void)state;
    char *folder = stk_manifest_folder("/data/set/m.stkm");
    assert_string_equal(folder, "/data/set/");
    assert_string_equal(stk_manifest_relative(folder, "/data/set/a/b.mp4"), "a/b.mp4");
    assert_string_equal(stk_manifest_relative(folder, "/data/set2/b.mp4"), "/data/set2/b.mp4");
    assert_string_equal(stk_manifest_relative(folder, "/data/set/"), "/data/set/");
    assert_string_equal(stk_manifest_relative(folder, "https://host/data/set/b"), "https://host/data/set/b");
    free(folder);
    folder = stk_manifest_folder("/m");
    assert_string_equal(folder, "/");
    assert_string_equal(stk_manifest_relative(folder, "/b.mp4"), "b.mp4");
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_made_absolute_without_dots),
        cmocka_unit_test(test_paths_below_the_folder_are_kept_relative),
    };
    return stk_run_tests(tests);
}
