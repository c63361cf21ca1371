/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/reader_internal.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tokens/files_fixture.h"

/* A store of objects: files of the folder, counted. */
struct store {
    unsigned sizes, reads;
    uint64_t bytes;
};

static const char *file_of(const char *url) { return in_folder(strrchr(url, '/') + 1); }

static stoker_status store_size(void *user, const char *url, uint64_t *out_size, stoker_error *err)
{
    struct stat facts;
    ((struct store *)user)->sizes++;
    if (stat(file_of(url), &facts) != 0) return stk_fail(err, STOKER_ERR_NOT_FOUND, "no object %s", url);
    *out_size = (uint64_t)facts.st_size;
    return STOKER_OK;
}

static stoker_status store_read(void *user, const char *url, uint64_t offset, size_t size, void *out, stoker_error *err)
{
    struct store *store = user;
    store->reads++;
    store->bytes += size;
    FILE *file = fopen(file_of(url), "rb");
    if (!file) return stk_fail(err, STOKER_ERR_NOT_FOUND, "no object %s", url);
    bool read = fseek(file, (long)offset, SEEK_SET) == 0 && fread(out, 1, size, file) == size;
    (void)fclose(file);
    return read ? STOKER_OK : stk_fail(err, STOKER_ERR_CORRUPT, "short");
}

static stoker_dataset_options options_of(struct store *store, stoker_range_ops *ops)
{
    static char cache[256]; /* lives longer than what in_folder() gives */
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    (void)snprintf(cache, sizeof cache, "%s/cache", fixture_folder);
    *ops = (stoker_range_ops){store_size, store_read, store};
    options.access = STOKER_DATASET_OBJECT;
    options.index_cache_dir = cache;
    options.ranges = ops;
    return options;
}

static void expect_reads(const stoker_dataset_options *options)
{
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    int64_t tokens[8];
    assert_int_equal(stoker_dataset_open("msc://p/three", options, &dataset, &err), STOKER_OK);
    assert_int_equal(stoker_dataset_read_int64(dataset, (stoker_dataset_run){2, 0, 7}, tokens, &err), STOKER_OK);
    assert_int_equal(tokens[6], fixture_tokens[12]);
    assert_int_equal(stoker_dataset_read_int64(dataset, (stoker_dataset_run){2, 0, 8}, tokens, &err),
                     STOKER_ERR_CORRUPT);
    assert_int_equal(stoker_dataset_verify(dataset, NULL, &err), STOKER_OK);
    stoker_dataset_close(dataset);
}

static void test_index_is_copied_and_data_are_read_by_range(void **state)
{
    (void)state;
    struct store store = {0};
    stoker_range_ops ops;
    stoker_dataset_options options = options_of(&store, &ops);
    (void)fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    expect_reads(&options);
    assert_int_equal(access(in_folder("cache/p/three.idx"), R_OK), 0);
    options.unchecked = 1;
    expect_reads(&options);
}

static void test_a_good_copy_is_kept_and_a_stale_one_replaced(void **state)
{
    (void)state;
    struct store store = {0};
    struct stat first, second;
    stoker_range_ops ops;
    stoker_dataset_options options = options_of(&store, &ops);
    (void)fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    expect_reads(&options);
    assert_int_equal(stat(in_folder("cache/p/three.idx"), &first), 0);
    expect_reads(&options);
    assert_int_equal(stat(in_folder("cache/p/three.idx"), &second), 0);
    assert_int_equal(first.st_ino, second.st_ino);

    /* As large, but other sequences: the offsets tell. */
    static const int32_t lengths[] = {1, 5, 7};
    struct fixture_index other = fixture_three;
    other.lengths = lengths;
    (void)fixture_write("three", &other, fixture_tokens, sizeof fixture_tokens);
    expect_reads(&options);
    assert_int_equal(stat(in_folder("cache/p/three.idx"), &second), 0);
    assert_int_not_equal(first.st_ino, second.st_ino);

    write_bytes(in_folder("cache/p/three.idx"), "cut", 3); /* what a crash of some other tool may leave */
    expect_reads(&options);
}

static void test_faults_are_told(void **state)
{
    (void)state;
    struct store store = {0};
    stoker_range_ops ops;
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    stoker_dataset_options options = options_of(&store, &ops);
    assert_int_equal(stoker_dataset_open("msc://p/none", &options, &dataset, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "none.idx"));
    options.index_cache_dir = NULL;
    assert_int_equal(stoker_dataset_open("msc://p/none", &options, &dataset, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "index_cache_dir"));
    options.index_cache_dir = "/proc/nowhere";
    assert_int_equal(stoker_dataset_open("msc://p/none", &options, &dataset, &err) < 0, 1);
    assert_int_equal(stoker_dataset_open("/a/path", &options, &dataset, &err), STOKER_ERR_INVALID_ARGUMENT);
    options = options_of(&store, &ops);
    (void)fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(unlink(in_folder("three.bin")), 0);
    assert_int_equal(stoker_dataset_open("msc://p/three", &options, &dataset, &err), STOKER_ERR_NOT_FOUND);
    assert_null(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_index_is_copied_and_data_are_read_by_range),
        FIXTURE_TEST(test_a_good_copy_is_kept_and_a_stale_one_replaced),
        FIXTURE_TEST(test_faults_are_told),
    };
    return stk_run_tests(tests);
}
