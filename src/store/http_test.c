/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of answers: what is read of them, and what is passed over.
 */
#include "store/http.h"

#include <string.h>

#include "tests/support/unit.h"

static struct stk_http_answer parse(const char *head)
{
    struct stk_http_answer answer;
    stk_http_answer_init(&answer);
    while (*head) {
        const char *end = strchr(head, '\n');
        size_t size = end ? (size_t)(end - head) + 1 : strlen(head);
        stk_http_answer_line(&answer, head, size);
        head += size;
    }
    return answer;
}

static void test_http_reads_a_partial_answer(void **state)
{
    (void)state;
    struct stk_http_answer answer = parse("HTTP/1.1 206 Partial Content\r\ncontent-RANGE:bytes 100-199/2048\r\n"
                                          "Content-Length: 100\r\nETag: \"abc\" \r\nLast-Modified: Tue\r\n"
                                          "x-amz-bucket-region: eu-west-1\r\nRetry-After: 7\r\n\r\n");
    assert_int_equal(answer.status, 206);
    assert_true(answer.has_range);
    assert_int_equal(answer.range_first, 100);
    assert_int_equal(answer.range_last, 199);
    assert_int_equal(answer.range_total, 2048);
    assert_int_equal(answer.content_length, 100);
    assert_string_equal(answer.etag, "\"abc\"");
    assert_string_equal(answer.last_modified, "Tue");
    assert_string_equal(answer.bucket_region, "eu-west-1");
    assert_int_equal(answer.retry_after_s, 7);
}

static void test_http_the_last_status_counts(void **state)
{
    (void)state;
    struct stk_http_answer answer = parse("HTTP/1.1 302 Found\r\nETag: \"old\"\r\nContent-Length: 5\r\n\r\n"
                                          "HTTP/2 200 \r\n\r\n");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.etag, "");
    assert_true(answer.content_length == STK_HTTP_UNKNOWN);
    assert_int_equal(parse("HTTP/1.1 99999\r\n").status, 0);
    assert_int_equal(parse("HTTP/1.1\r\n").status, 0);
}

static void test_http_reads_content_ranges_strictly(void **state)
{
    (void)state;
    static const char *const bad[] = {"bytes",
                                      "bytes 1-",
                                      "bytes 5-4/10",
                                      "bytes 0-10/10",
                                      "bytes 0-1/2 x",
                                      "pages 0-1/2",
                                      "bytes 0-1",
                                      "bytes -1/5",
                                      "bytes 0-99999999999999999999/*",
                                      "bytes 0-1/99999999999999999999",
                                      "bytes */",
                                      "",
                                      "bytes 0--1/3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[128] = "Content-Range: ";
        memcpy(line + 15, bad[i], strlen(bad[i]) + 1);
        struct stk_http_answer answer = parse(line);
        assert_false(answer.has_range);
        assert_false(answer.range_unmet);
    }
    struct stk_http_answer answer = parse("Content-Range: Bytes  3-7/*\r\n");
    assert_true(answer.has_range);
    assert_true(answer.range_total == STK_HTTP_UNKNOWN);
    answer = parse("Content-Range: bytes */0\r\n");
    assert_true(answer.range_unmet);
    assert_int_equal(answer.range_total, 0);
    answer = parse("Content-Range: bytes 0-1/2\r\nContent-Range: none\r\n"); /* the later one counts */
    assert_false(answer.has_range);
}

static void test_http_passes_over_what_it_cannot_use(void **state)
{
    (void)state;
    static char line[600] = "ETag: ";
    memset(line + 6, 'x', sizeof line - 7);
    assert_string_equal(parse(line).etag, "");
    assert_string_equal(parse("ETag: a\tb\r\n").etag, ""); /* it could not be sent back */
    assert_true(parse("Content-Length: 12a\r\n").content_length == STK_HTTP_UNKNOWN);
    assert_true(parse("Content-Length: -1\r\n").content_length == STK_HTTP_UNKNOWN);
    assert_int_equal(parse("Retry-After: Tue, 1 Jan\r\n").retry_after_s, 0);
    assert_int_equal(parse("no colon\r\n: empty\r\n\r\n").status, 0);
}

static void expect_code(const char *body, const char *expected)
{
    char code[64];
    stk_http_error_code(body, strlen(body), code);
    assert_string_equal(code, expected);
}

static void test_http_finds_codes_of_errors(void **state)
{
    (void)state;
    expect_code("<?xml?><Error><Code>NoSuchKey</Code><Key>x</Key></Error>", "NoSuchKey");
    expect_code("<Code>a b</Code>", "");
    expect_code("<Code>", "");
    expect_code("<Code>Access", "");
    expect_code("<html>Not here</html>", "");
    expect_code("", "");
    expect_code("<Code>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</Code>", "");
}

static void test_http_compares_versions(void **state)
{
    (void)state;
    assert_true(stk_http_same_version("\"a\"", "", "\"a\"", ""));
    assert_true(stk_http_same_version("W/\"a\"", "x", "\"a\"", "y"));
    assert_false(stk_http_same_version("\"a\"", "x", "\"b\"", "x"));
    assert_false(stk_http_same_version("", "x", "\"b\"", "y"));
    assert_true(stk_http_same_version("", "x", "\"b\"", "x"));
    assert_true(stk_http_same_version("", "", "", "y"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_reads_a_partial_answer),
        cmocka_unit_test(test_http_the_last_status_counts),
        cmocka_unit_test(test_http_reads_content_ranges_strictly),
        cmocka_unit_test(test_http_passes_over_what_it_cannot_use),
        cmocka_unit_test(test_http_finds_codes_of_errors),
        cmocka_unit_test(test_http_compares_versions),
    };
    return stk_run_tests(tests);
}
