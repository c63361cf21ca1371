/* SPDX-License-Identifier: Apache-2.0
 *
 * What all ranges share: which names are objects, where an object lies in a local folder, exact reads, delays.
 */
#include "store/range.h"

#include <stdlib.h>
#include <string.h>

#include "store/range_internal.h"
#include "sys/clock.h"
#include "tests/support/unit.h"

static void test_range_knows_the_names_of_objects(void **state)
{
    (void)state;
    assert_true(stk_url_is_object("s3://bucket/key"));
    assert_true(stk_url_is_object("msc://profile/key"));
    assert_true(stk_url_is_object("http://host/a"));
    assert_true(stk_url_is_object("https://host/a"));
    assert_false(stk_url_is_object("/data/s3://x"));
    assert_false(stk_url_is_object("S3://bucket/key"));
    assert_false(stk_url_is_object("s3:/bucket"));
    assert_false(stk_url_is_object("file:///a"));
    assert_false(stk_url_is_object(""));
}

static void expect_local(const char *folder, const char *url, const char *expected)
{
    char *path = NULL;
    stoker_error err;
    assert_int_equal(stk_url_local_path(folder, url, &path, &err), STOKER_OK);
    assert_string_equal(path, expected);
    free(path);
}

static void test_range_local_path_is_the_folder_and_the_rest(void **state)
{
    (void)state;
    expect_local("cache/dir", "s3://b/k/x.idx", "cache/dir/b/k/x.idx");
    expect_local("cache/dir/", "s3://b/k/x.idx", "cache/dir/b/k/x.idx");
    expect_local("cache/dir", "s3://b", "cache/dir/b");
    expect_local("cache/dir", "s3://b//k", "cache/dir/b//k");
    expect_local("cache/dir", "msc://prof/a/b.idx", "cache/dir/prof/a/b.idx");
    expect_local("", "s3://b/k", "b/k");
    expect_local("c", "s3://b/..k/k..", "c/b/..k/k..");

    static const char *const bad[] = {"s3:///etc/passwd", "s3://../x", "s3://b/../../x", "s3://b/..", "/a/b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *path = NULL;
        stoker_error err = {0};
        assert_int_equal(stk_url_local_path("cache", bad[i], &path, &err), STOKER_ERR_INVALID_ARGUMENT);
        assert_null(path);
        assert_non_null(strstr(err.message, bad[i]));
    }
}

static stoker_status ten_read(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                              stoker_error *err)
{
    (void)range;
    (void)err;
    size_t left = offset < 10 ? (size_t)(10 - offset) : 0;
    *out_got = size < left ? size : left;
    if (*out_got) memcpy(out, &"0123456789"[offset], *out_got);
    return STOKER_OK;
}

static stoker_status ten_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    (void)range;
    (void)err;
    *out_size = 10;
    return STOKER_OK;
}

static void ten_close(struct stk_range *range) { stk_range_free(range); }

static void test_range_reads_are_exact(void **state)
{
    (void)state;
    static const struct stk_range_backend backend = {ten_read, ten_size, NULL, ten_close, 1};
    struct stk_range *range = NULL;
    stoker_error err = {0};
    char got[16];
    assert_int_equal(stk_range_create(sizeof *range, &backend, "ten", &range, &err), STOKER_OK);
    assert_int_equal(stk_range_read(range, 6, 4, got, &err), STOKER_OK);
    assert_memory_equal(got, "6789", 4);
    assert_int_equal(stk_range_read(range, 99, 0, NULL, &err), STOKER_OK); /* nothing is nowhere out of range */
    assert_int_equal(err.status, 0);
    assert_int_equal(stk_range_read(range, 7, 4, got, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.message, "'ten' ends before byte 11: 4 bytes at offset 7 were wanted");
    assert_int_equal(stk_range_read(range, UINT64_MAX - 2, 4, got, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "past any object"));
    stk_range_close(range);
    stk_range_close(NULL);
}

static void test_range_refuses_names_without_end(void **state)
{
    (void)state;
    static const struct stk_range_backend backend = {ten_read, ten_size, NULL, ten_close, 1};
    static char name[10000];
    memset(name, 'a', sizeof name - 1);
    struct stk_range *range = NULL;
    stoker_error err = {0};
    assert_int_equal(stk_range_create(sizeof *range, &backend, name, &range, &err), STOKER_ERR_LIMIT);
    assert_null(range);
}

static void test_range_delays_double_up_to_the_bound(void **state)
{
    (void)state;
    assert_true(stk_range_delay(10, 0, 1000) == 10);
    assert_true(stk_range_delay(10, 3, 1000) == 80);
    assert_true(stk_range_delay(10, 7, 1000) == 1000);
    assert_true(stk_range_delay(10, UINT32_MAX, UINT64_MAX) == UINT64_MAX);
    assert_true(stk_range_delay(0, UINT32_MAX, UINT64_MAX) == 0);
    assert_true(stk_range_delay(5000, 0, 1000) == 1000);
}

static void test_range_pause_takes_its_time(void **state)
{
    (void)state;
    struct stk_range range = {0};
    uint64_t before = stk_clock_now_ns();
    stk_range_pause(&range, 2000000);
    assert_true(stk_clock_now_ns() - before >= 2000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_knows_the_names_of_objects),
        cmocka_unit_test(test_range_local_path_is_the_folder_and_the_rest),
        cmocka_unit_test(test_range_reads_are_exact),
        cmocka_unit_test(test_range_refuses_names_without_end),
        cmocka_unit_test(test_range_delays_double_up_to_the_bound),
        cmocka_unit_test(test_range_pause_takes_its_time),
    };
    return stk_run_tests(tests);
}
