/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses: where an object is asked for, how its key is spelled, what messages say.
 */
#include "store/target.h"

#include "tests/support/unit.h"

static void expect_s3(const char *url, const char *endpoint, int style, const char *sent, const char *host,
                      const char *path)
{
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    struct stk_target target;
    stoker_error err = {0};
    options.endpoint = endpoint;
    options.path_style = style;
    assert_int_equal(stk_target_init(url, &options, &target, &err), STOKER_OK);
    assert_true(target.s3);
    assert_string_equal(target.url, sent);
    assert_string_equal(target.host, host);
    assert_string_equal(target.path, path);
    assert_string_equal(target.name, url);
    stk_target_fini(&target);
}

static void test_target_of_amazon(void **state)
{
    (void)state;
    expect_s3("s3://bucket/some/x.bin", NULL, 0, "https://bucket.s3.us-east-1.amazonaws.com/some/x.bin",
              "bucket.s3.us-east-1.amazonaws.com", "/some/x.bin");
    expect_s3("s3://dotted.bucket/k", NULL, 0, "https://s3.us-east-1.amazonaws.com/dotted.bucket/k",
              "s3.us-east-1.amazonaws.com", "/dotted.bucket/k");
    expect_s3("s3://bucket/k", NULL, 1, "https://s3.us-east-1.amazonaws.com/bucket/k", "s3.us-east-1.amazonaws.com",
              "/bucket/k");

    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    struct stk_target target;
    options.region = "cn-north-1";
    assert_int_equal(stk_target_init("s3://bucket/k", &options, &target, NULL), STOKER_OK);
    assert_string_equal(target.host, "bucket.s3.cn-north-1.amazonaws.com.cn");
    stk_target_fini(&target);
}

static void test_target_of_an_endpoint(void **state)
{
    (void)state;
    expect_s3("s3://bucket/k", "http://127.0.0.1:9000", 0, "http://127.0.0.1:9000/bucket/k", "127.0.0.1:9000",
              "/bucket/k");
    expect_s3("s3://bucket/k", "http://127.0.0.1:9000/", -1, "http://bucket.127.0.0.1:9000/k", "bucket.127.0.0.1:9000",
              "/k");
    expect_s3("s3://bucket/k", "https://store.example:443/base//", 0, "https://store.example/base/bucket/k",
              "store.example", "/base/bucket/k");
    expect_s3("s3://bucket/k", "http://store.example:80", 0, "http://store.example/bucket/k", "store.example",
              "/bucket/k");
    expect_s3("s3://bucket/k", "http://[::1]:9000", 0, "http://[::1]:9000/bucket/k", "[::1]:9000", "/bucket/k");
    expect_s3("s3://My_Bucket/k", "http://h", 0, "http://h/My_Bucket/k", "h", "/My_Bucket/k");
}

static void test_target_spells_keys(void **state)
{
    (void)state;
    expect_s3("s3://b-1/a b+c%d~e//f/../g?h#i=j&\xc3\xa9", "http://h", 0,
              "http://h/b-1/a%20b%2Bc%25d~e//f/../g%3Fh%23i%3Dj%26%C3%A9", "h",
              "/b-1/a%20b%2Bc%25d~e//f/../g%3Fh%23i%3Dj%26%C3%A9");
    expect_s3("s3://b-1//k", "http://h", 0, "http://h/b-1//k", "h", "/b-1//k");
}

static void expect_split(const char *url, const char *bucket, const char *key)
{
    const char *got_bucket, *got_key;
    size_t size;
    stk_s3_split(url, &got_bucket, &size, &got_key);
    assert_int_equal(size, strlen(bucket));
    assert_memory_equal(got_bucket, bucket, size);
    assert_string_equal(got_key, key);
}

static void test_target_splits_bucket_and_key(void **state)
{
    (void)state;
    expect_split("s3://b/k/x.idx", "b", "k/x.idx");
    expect_split("s3://b", "b", "");
    expect_split("s3://b/", "b", "");
    expect_split("s3://b//k", "b", "/k");
}

static void expect_http(const char *url, const char *sent, const char *name)
{
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    struct stk_target target;
    assert_int_equal(stk_target_init(url, &options, &target, NULL), STOKER_OK);
    assert_false(target.s3);
    assert_string_equal(target.url, sent);
    assert_string_equal(target.name, name);
    stk_target_fini(&target);
}

static void test_target_of_http_keeps_secrets_out_of_messages(void **state)
{
    (void)state;
    expect_http("http://h/a%20b", "http://h/a%20b", "http://h/a%20b");
    expect_http("http://h/a b\xc3\xa9", "http://h/a%20b%C3%A9", "http://h/a b\xc3\xa9");
    expect_http("https://me:pass@word@h:1/a?X-Amz-Signature=1#f", "https://me:pass@word@h:1/a?X-Amz-Signature=1#f",
                "https://h:1/a");
    expect_http("https://h/a@b", "https://h/a@b", "https://h/a@b");
    expect_http("https://h?token=x@y", "https://h?token=x@y", "https://h");
    expect_http("http://h/a\r\nX: y", "http://h/a%0D%0AX:%20y", "http://h/a\r\nX: y");
}

static void expect_refused(const char *url, const char *endpoint, const char *region, int style, const char *says)
{
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    struct stk_target target = {0};
    stoker_error err = {0};
    options.endpoint = endpoint;
    options.region = region;
    options.path_style = style;
    assert_int_equal(stk_target_init(url, &options, &target, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, says));
    assert_null(target.url);
}

static void test_target_refuses(void **state)
{
    (void)state;
    expect_refused("s3://", NULL, NULL, 0, "names no object");
    expect_refused("s3://b", NULL, NULL, 0, "names no object");
    expect_refused("s3://b/", NULL, NULL, 0, "names no object");
    expect_refused("s3:///k", NULL, NULL, 0, "names no object");
    expect_refused("ftp://h/k", NULL, NULL, 0, "expected s3://");
    expect_refused("s3://bucket/k", "localhost:9000", NULL, 0, "not of the form");
    expect_refused("s3://bucket/k", "http://", NULL, 0, "not of the form");
    expect_refused("s3://bucket/k", "http://h\r\nX: y", NULL, 0, "not of the form");
    expect_refused("s3://bucket/k", "http://user:secret@h", NULL, 0, "not of the form");
    expect_refused("s3://bucket/k", NULL, "a/b", 0, "no region");
    expect_refused("s3://bucket/k", NULL, "a\nb", 0, "no region");
    expect_refused("s3://My_Bucket/k", "http://h", NULL, -1, "path style");
    static char much[9000] = "s3://bucket/";
    memset(much + 12, 'a', sizeof much - 13);
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    struct stk_target target;
    assert_int_equal(stk_target_init(much, &options, &target, NULL), STOKER_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target_of_amazon),
        cmocka_unit_test(test_target_of_an_endpoint),
        cmocka_unit_test(test_target_spells_keys),
        cmocka_unit_test(test_target_splits_bucket_and_key),
        cmocka_unit_test(test_target_of_http_keeps_secrets_out_of_messages),
        cmocka_unit_test(test_target_refuses),
    };
    return stk_run_tests(tests);
}
