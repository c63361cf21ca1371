/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of quarantine lists: from a list to a blob and back, and blobs that nobody sends by mistake.
 */
#include "plane/badlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "sys/shmem.h"
#include "tests/support/unit.h"
#include "wire/message.h"

static char path[] = "/tmp/stoker-badlist-XXXXXX";

static int make_path(void **state)
{
    (void)state;
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0 || unlink(path) != 0;
}

static int drop_path(void **state)
{
    (void)state;
    char beside[sizeof path + 8];
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(beside, sizeof beside, "%s%s", path, suffixes[i]);
        (void)unlink(beside); /* where it was made */
    }
    return 0;
}

static void add(const char *file, uint64_t bytes, int64_t mtime_ns)
{
    stoker_quarantine *list = NULL;
    const stoker_quarantine_entry entry = {
        .path = file, .bytes = bytes, .mtime_ns = mtime_ns, .status = STOKER_ERR_CORRUPT, .error = "x"};
    assert_int_equal(stoker_quarantine_open(path, STOKER_QUARANTINE_WRITE, &list, NULL), STOKER_OK);
    assert_int_equal(stoker_quarantine_add(list, &entry, 1, NULL), STOKER_OK);
    stoker_quarantine_close(list);
}

static struct stk_badlist read_list(void)
{
    struct stk_badlist bad = {0};
    int fd = -1;
    stoker_error err = {0};
    assert_int_equal(stk_badlist_create(path, &fd, &err), STOKER_OK);
    assert_int_equal(stk_badlist_open(fd, &bad, &err), STOKER_OK);
    return bad;
}

static void test_each_version_is_found_and_no_other(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "/clips/%d.mp4", i * 7 % 50);
        add(name, (uint64_t)(i * 7 % 50), -5 + i * 7 % 50);
    }
    add("/clips/7.mp4", 8, 2);
    add("/clips/\xc3\xa4.mp4", UINT64_C(1) << 40, INT64_MAX);
    struct stk_badlist bad = read_list();
    assert_int_equal(bad.count, 52);
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "/clips/%d.mp4", i);
        assert_true(stk_badlist_holds(&bad, name, (uint64_t)i, -5 + i));
        assert_false(stk_badlist_holds(&bad, name, (uint64_t)i + 100, -5 + i));
        assert_false(stk_badlist_holds(&bad, name, (uint64_t)i, 500 + i));
        assert_false(stk_badlist_holds(&bad, name + 1, (uint64_t)i, -5 + i));
    }
    assert_true(stk_badlist_holds(&bad, "/clips/7.mp4", 8, 2));
    assert_true(stk_badlist_holds(&bad, "/clips/\xc3\xa4.mp4", UINT64_C(1) << 40, INT64_MAX));
    stk_badlist_close(&bad);
}

static void test_c1_digest_is_that_of_the_list(void **state)
{
    (void)state;
    char digest[STOKER_DIGEST_HEX_BYTES];
    uint64_t count = 9;
    stoker_quarantine *list = NULL;
    struct stk_badlist bad = read_list();
    assert_int_equal(bad.count, 0);
    assert_string_equal(bad.digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_false(stk_badlist_holds(&bad, "/a", 0, 0));
    stk_badlist_close(&bad);
    add("/b", 2, 3);
    add("/a", 2, 3);
    bad = read_list();
    assert_int_equal(stoker_quarantine_open(path, STOKER_QUARANTINE_READ, &list, NULL), STOKER_OK);
    assert_int_equal(stoker_quarantine_digest(list, digest, &count, NULL), STOKER_OK);
    assert_int_equal(count, bad.count);
    assert_string_equal(digest, bad.digest);
    stoker_quarantine_close(list);
    stk_badlist_close(&bad);
}

/* ---- blobs from outside */

enum { ONE_BYTES = 24 + 3 + 16 };

static size_t put_blob(uint8_t *out, const char *const *paths, size_t count)
{
    size_t size = 24;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(paths[i]) + 1;
        memcpy(out + size, paths[i], length);
        stk_store_u64(out + size + length, 5);
        stk_store_u64(out + size + length + 8, 6);
        size += length + 16;
    }
    stk_store_u64(out, UINT64_C(1) << 32 | 0x424b5453u);
    stk_store_u64(out + 8, size);
    stk_store_u64(out + 16, count);
    return size;
}

static stoker_status check(const uint8_t *blob, size_t size)
{
    /* A block of the exact size, so that the address sanitizer sees the first byte read past it. */
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size) memcpy(copy, blob, size);
    uint64_t count = 0;
    stoker_error err = {0};
    stoker_status status = stk_badlist_check(copy, size, NULL, &count, &err);
    assert_true(status == STOKER_OK || err.message[0] != 0);
    free(copy);
    return status;
}

static void test_blobs_are_checked_to_the_last_byte(void **state)
{
    (void)state;
    uint8_t blob[256];
    const char *const rising[] = {"/a", "/b"}, *const falling[] = {"/b", "/a"}, *const same[] = {"/a", "/a"},
                      *const none[] = {""};
    size_t size = put_blob(blob, rising, 2);
    assert_int_equal(check(blob, size), STOKER_OK);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(check(blob, cut), STOKER_ERR_CORRUPT); /* the header knows better */
        stk_store_u64(blob + 8, cut);
        if (cut >= 24) assert_int_equal(check(blob, cut), STOKER_ERR_CORRUPT);
        stk_store_u64(blob + 8, size);
    }
    stk_store_u64(blob + 16, 1); /* bytes behind the last entry */
    assert_int_equal(check(blob, size), STOKER_ERR_CORRUPT);
    stk_store_u64(blob + 16, UINT64_MAX);
    assert_int_equal(check(blob, size), STOKER_ERR_LIMIT);
    assert_int_equal(check(blob, put_blob(blob, falling, 2)), STOKER_ERR_CORRUPT);
    assert_int_equal(check(blob, put_blob(blob, same, 2)), STOKER_ERR_CORRUPT);
    assert_int_equal(check(blob, put_blob(blob, none, 1)), STOKER_ERR_CORRUPT);
}

static void test_open_takes_the_descriptor_and_wants_seals(void **state)
{
    (void)state;
    uint8_t blob[64];
    const char *const one[] = {"/a"};
    struct stk_badlist bad = {0};
    int fd = -1;
    size_t size = put_blob(blob, one, 1);
    assert_int_equal(size, ONE_BYTES);
    assert_int_equal(stk_shmem_blob_create(blob, size, &fd, NULL), STOKER_OK);
    assert_int_equal(stk_badlist_open(fd, &bad, NULL), STOKER_OK);
    assert_true(stk_badlist_holds(&bad, "/a", 5, 6));
    stk_badlist_close(&bad);
    blob[0] = 0;
    assert_int_equal(stk_shmem_blob_create(blob, size, &fd, NULL), STOKER_OK);
    assert_int_equal(stk_badlist_open(fd, &bad, NULL), STOKER_ERR_CORRUPT);
    assert_int_equal(close(fd), -1);
    fd = dup(STDIN_FILENO);
    assert_int_equal(stk_badlist_open(fd, &bad, NULL), STOKER_ERR_MISMATCH);
    stk_badlist_close(&bad);
}

int main(void)
{
#define PATH_TEST(name) cmocka_unit_test_setup_teardown(name, make_path, drop_path)
    const struct CMUnitTest tests[] = {
        PATH_TEST(test_each_version_is_found_and_no_other),
        PATH_TEST(test_c1_digest_is_that_of_the_list),
        cmocka_unit_test(test_blobs_are_checked_to_the_last_byte),
        cmocka_unit_test(test_open_takes_the_descriptor_and_wants_seals),
    };
    return stk_run_tests(tests);
}
