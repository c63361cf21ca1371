/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures against the examples that Amazon publishes for S3 (bucket examplebucket, 24 May 2013), and the bounds.
 * tests/python/test_object_store.py compares awkward keys with botocore.
 */
#include "store/sigv4.h"

#include <string.h>

#include "tests/support/unit.h"

static const struct stk_sigv4_key example = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                             "us-east-1"};
static const char date[] = "20130524T000000Z";

static void expect_signature(const char *path, const char *query, const char *range, const char *expected)
{
    struct stk_sigv4_header headers[4];
    size_t count = 0;
    headers[count++] = (struct stk_sigv4_header){"host", "examplebucket.s3.amazonaws.com"};
    if (range) headers[count++] = (struct stk_sigv4_header){"range", range};
    headers[count++] = (struct stk_sigv4_header){"x-amz-content-sha256", STK_SIGV4_EMPTY_SHA256};
    headers[count++] = (struct stk_sigv4_header){"x-amz-date", date};
    struct stk_sigv4_request request = {"GET", path, query, headers, count, STK_SIGV4_EMPTY_SHA256};
    char got[STK_SIGV4_AUTHORIZATION_BYTES];
    stoker_error err = {0};
    assert_int_equal(stk_sigv4_sign(&example, &request, date, got, &err), STOKER_OK);
    assert_string_equal(strstr(got, "Signature=") + 10, expected);
    assert_int_equal(strncmp(got,
                             "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                             "SignedHeaders=host;",
                             103),
                     0);
}

static void test_sigv4_gives_the_published_signatures(void **state)
{
    (void)state;
    expect_signature("/test.txt", "", "bytes=0-9", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    expect_signature("/", "lifecycle=", NULL, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    expect_signature("/", "max-keys=2&prefix=J", NULL,
                     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void test_sigv4_date_is_utc(void **state)
{
    (void)state;
    char got[STK_SIGV4_DATE_BYTES];
    stk_sigv4_date(1369353600, got);
    assert_string_equal(got, date);
    stk_sigv4_date(0, got);
    assert_string_equal(got, "19700101T000000Z");
    stk_sigv4_date(INT64_MAX, got);
    assert_string_equal(got, "19700101T000000Z");
}

static void test_sigv4_refuses_what_is_too_long(void **state)
{
    (void)state;
    static char much[70000];
    memset(much, 'a', sizeof much - 1);
    char got[STK_SIGV4_AUTHORIZATION_BYTES];
    struct stk_sigv4_header header = {"host", much};
    struct stk_sigv4_request request = {"GET", "/", "", &header, 1, STK_SIGV4_EMPTY_SHA256};
    stoker_error err = {0};
    assert_int_equal(stk_sigv4_sign(&example, &request, date, got, &err), STOKER_ERR_LIMIT);
    header.value = "h";
    much[2000] = 0;
    struct stk_sigv4_key key = {much, "s", "r"};
    assert_int_equal(stk_sigv4_sign(&key, &request, date, got, &err), STOKER_ERR_LIMIT);
    key = (struct stk_sigv4_key){"a", much, "r"};
    assert_int_equal(stk_sigv4_sign(&key, &request, date, got, &err), STOKER_ERR_LIMIT);
    assert_null(strstr(err.message, "aaa"));
    key = (struct stk_sigv4_key){"a", "s", much};
    assert_int_equal(stk_sigv4_sign(&key, &request, date, got, &err), STOKER_ERR_LIMIT);
    much[100] = 0; /* a secret longer than a block of the digest counts by its digest */
    key = (struct stk_sigv4_key){"a", much, "r"};
    assert_int_equal(stk_sigv4_sign(&key, &request, date, got, &err), STOKER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sigv4_gives_the_published_signatures),
        cmocka_unit_test(test_sigv4_date_is_utc),
        cmocka_unit_test(test_sigv4_refuses_what_is_too_long),
    };
    return stk_run_tests(tests);
}
