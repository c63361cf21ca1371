/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects over HTTP against a server that answers by a script: which requests are made, how answers are judged, what is
 * tried again. tests/python/test_object_store.py has the tests with servers of other makes.
 */
#include "store/http_fixture.h"
#include "store/range_internal.h"
#include "tests/support/allocations.h"

#define PART(range) "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Range: bytes " range "\r\n"

struct waits {
    uint64_t delays_ns[16];
    unsigned count;
};

static void count_wait(void *user, uint64_t delay_ns)
{
    struct waits *waits = user;
    assert_true(waits->count < 16);
    waits->delays_ns[waits->count++] = delay_ns;
}

static struct waits waits;

/* A range over the server; delays are counted and do not pass. */
static struct stk_range *open_on(const struct http_server *server, const char *scheme,
                                 const stoker_object_options *base)
{
    struct stk_range *range = NULL;
    struct stk_range_retry retry = {3, 1000};
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    char url[96], endpoint[64];
    if (base) options = *base;
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", server->port);
    if (strcmp(scheme, "s3") == 0) {
        options.endpoint = endpoint;
        (void)snprintf(url, sizeof url, "s3://bucket/dir/x.bin");
    } else {
        (void)snprintf(url, sizeof url, "%s/dir/x.bin", endpoint);
    }
    assert_int_equal(stk_range_open_url(url, &options, retry, &range, NULL), STOKER_OK);
    waits = (struct waits){0};
    range->wait = (struct stk_range_wait){count_wait, &waits};
    return range;
}

static void expect_bytes(const uint8_t *got, uint64_t offset, size_t size)
{
    for (size_t i = 0; i < size; i++) assert_int_equal(got[i], (offset + i) % 251);
}

static void test_object_reads_a_range(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = PART("100-199/2048") "Content-Length: 100\r\n", .from = 100, .size = 100},
                                    {.head = PART("0-9/2048") "Content-Length: 10\r\n", .size = 10}};
    struct http_server *server = http_server_start(replies, 2);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[100];
    uint64_t size = 0;
    stoker_error err = {0};
    assert_int_equal(stk_range_read(range, 100, 100, got, &err), STOKER_OK);
    expect_bytes(got, 100, 100);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_OK); /* the first answer told it */
    assert_int_equal(size, 2048);
    assert_int_equal(stk_range_read(range, 0, 10, got, &err), STOKER_OK);
    assert_non_null(strstr(server->requests[0], "GET /dir/x.bin HTTP/1.1\r\n"));
    assert_non_null(strstr(server->requests[0], "range: bytes=100-199\r\n"));
    assert_null(strstr(server->requests[0], "if-match"));
    assert_null(strstr(server->requests[0], "authorization"));
    assert_non_null(strstr(server->requests[1], "if-match: \"v1\"\r\n"));
    assert_int_equal(waits.count, 0);
    assert_int_equal(err.status, 0);
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_signs_requests_of_s3(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = PART("0-9/10"), .size = 10}};
    struct http_server *server = http_server_start(replies, 1);
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    options.access_key_id = "AKID";
    options.secret_access_key = "verysecret";
    options.session_token = "sometoken";
    options.region = "eu-west-1";
    struct stk_range *range = open_on(server, "s3", &options);
    uint8_t got[10];
    assert_int_equal(stk_range_read(range, 0, 10, got, NULL), STOKER_OK);
    const char *request = server->requests[0];
    assert_non_null(strstr(request, "GET /bucket/dir/x.bin HTTP/1.1\r\n"));
    assert_non_null(strstr(request, "authorization: AWS4-HMAC-SHA256 Credential=AKID/"));
    assert_non_null(strstr(request, "/eu-west-1/s3/aws4_request,SignedHeaders=host;range;x-amz-content-sha256;"
                                    "x-amz-date;x-amz-security-token,Signature="));
    assert_non_null(strstr(request, "x-amz-security-token: sometoken\r\n"));
    assert_null(strstr(request, "verysecret"));
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_the_end_of_the_object(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = PART("2000-2047/2048"), .from = 2000, .size = 48},
                                    {.head = "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */2048\r\n"},
                                    {.head = "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */2048\r\n"}};
    struct http_server *server = http_server_start(replies, 3);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[100];
    size_t count = 0;
    stoker_error err = {0};
    assert_int_equal(stk_range_read_some(range, 2000, 100, got, &count, &err), STOKER_OK);
    assert_int_equal(count, 48);
    assert_int_equal(stk_range_read_some(range, 4000, 100, got, &count, &err), STOKER_OK);
    assert_int_equal(count, 0);
    assert_int_equal(stk_range_read(range, 4000, 10, got, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "ends before byte 4010"));
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_size_by_head_or_by_one_byte(void **state)
{
    (void)state;
    uint64_t size = 0;
    stoker_error err = {0};
    const struct reply head[] = {{.head = "HTTP/1.1 200 OK\r\nContent-Length: 123\r\nETag: \"v1\"\r\n"}};
    struct http_server *server = http_server_start(head, 1);
    struct stk_range *range = open_on(server, "http", NULL);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_OK);
    assert_int_equal(size, 123);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_OK); /* asked once */
    assert_non_null(strstr(server->requests[0], "HEAD /dir/x.bin"));
    stk_range_close(range);
    http_server_stop(server);

    const struct reply refused[] = {{.head = "HTTP/1.1 403 Forbidden\r\n"}, {.head = PART("0-0/77"), .size = 1}};
    server = http_server_start(refused, 2);
    range = open_on(server, "http", NULL);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_OK);
    assert_int_equal(size, 77);
    assert_non_null(strstr(server->requests[1], "range: bytes=0-0\r\n"));
    stk_range_close(range);
    http_server_stop(server);

    const struct reply empty[] = {{.head = "HTTP/1.1 405 Not Allowed\r\n"},
                                  {.head = "HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\n"}};
    server = http_server_start(empty, 2);
    range = open_on(server, "http", NULL);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_OK);
    assert_int_equal(size, 0);
    stk_range_close(range);
    http_server_stop(server);

    const struct reply unsaid[] = {{.head = "HTTP/1.1 501 No\r\n"}, {.head = PART("0-0/*"), .size = 1}};
    server = http_server_start(unsaid, 2);
    range = open_on(server, "http", NULL);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "does not say its size"));
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_tries_again_what_may_pass(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = "HTTP/1.1 503 Slow Down\r\nRetry-After: 9\r\n"},
                                    {.head = NULL},
                                    {.head = "HTTP/1.1 429 Too Many\r\n"},
                                    {.head = PART("0-9/10"), .size = 10}};
    struct http_server *server = http_server_start(replies, 4);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[10];
    stoker_error err = {0};
    assert_int_equal(stk_range_read(range, 0, 10, got, &err), STOKER_OK);
    assert_int_equal(err.status, 0);
    assert_int_equal(waits.count, 3);
    assert_true(waits.delays_ns[0] == UINT64_C(9000000000)); /* as the server said */
    assert_true(waits.delays_ns[1] >= 1000 && waits.delays_ns[1] <= 2000);
    assert_true(waits.delays_ns[2] >= 2000 && waits.delays_ns[2] <= 4000);
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_gives_up_after_its_tries(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = "HTTP/1.1 500 Oops\r\n", .text = "<Code>InternalError</Code>"},
                                    {.head = "HTTP/1.1 500 Oops\r\n", .text = "<Code>InternalError</Code>"},
                                    {.head = "HTTP/1.1 500 Oops\r\n", .text = "<Code>InternalError</Code>"},
                                    {.head = "HTTP/1.1 500 Oops\r\n", .text = "<Code>InternalError</Code>"}};
    struct http_server *server = http_server_start(replies, 4);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[10];
    stoker_error err = {0};
    assert_int_equal(stk_range_read(range, 0, 10, got, &err), STOKER_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "HTTP 500 InternalError"));
    assert_non_null(strstr(err.context, "tried 4 times"));
    assert_int_equal(waits.count, 3);
    stk_range_close(range);
    http_server_stop(server);
}

/* One answer, one try, one message. */
static void expect_refused(const char *scheme, struct reply reply, stoker_status status, const char *says)
{
    struct http_server *server = http_server_start(&reply, 1);
    struct stk_range *range = open_on(server, scheme, NULL);
    uint8_t got[10];
    stoker_error err = {0};
    assert_int_equal(stk_range_read(range, 5, 10, got, &err), status);
    if (!strstr(err.message, says)) print_error("%s\n", err.message);
    assert_non_null(strstr(err.message, says));
    assert_non_null(strstr(err.message, "x.bin"));
    assert_int_equal(waits.count, 0);
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_refusals_are_told_at_once(void **state)
{
    (void)state;
    expect_refused("s3", (struct reply){.head = "HTTP/1.1 404 Not Found\r\n", .text = "<Code>NoSuchKey</Code>"},
                   STOKER_ERR_NOT_FOUND, "(HTTP 404 NoSuchKey)");
    expect_refused("s3", (struct reply){.head = "HTTP/1.1 403 Forbidden\r\n", .text = "<Code>AccessDenied</Code>"},
                   STOKER_ERR_IO, "may not be read (HTTP 403 AccessDenied); the request was not signed");
    expect_refused("http", (struct reply){.head = "HTTP/1.1 401 Who\r\n"}, STOKER_ERR_IO, "may not be read (HTTP 401)");
    expect_refused("s3", (struct reply){.head = "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: eu-west-1\r\n"},
                   STOKER_ERR_INVALID_ARGUMENT, "lies in region eu-west-1 and was asked for in us-east-1");
    expect_refused("http", (struct reply){.head = "HTTP/1.1 418 Teapot\r\n"}, STOKER_ERR_IO, "says HTTP 418");
    expect_refused("http", (struct reply){.head = "HTTP/1.1 412 Failed\r\n"}, STOKER_ERR_MISMATCH, "changed while");
}

static void test_object_answers_without_sense(void **state)
{
    (void)state;
    expect_refused("http", (struct reply){.head = PART("0-9/2048"), .size = 10}, STOKER_ERR_PROTOCOL,
                   "bytes 5-14 were asked for, and 0-9 came");
    expect_refused("http", (struct reply){.head = PART("5-15/2048"), .size = 11}, STOKER_ERR_PROTOCOL,
                   "bytes 5-14 were asked for, and 5-15 came");
    expect_refused("http", (struct reply){.head = "HTTP/1.1 206 Partial Content\r\n", .size = 10}, STOKER_ERR_PROTOCOL,
                   "did not say which");
    expect_refused("http", (struct reply){.head = PART("nonsense"), .size = 10}, STOKER_ERR_PROTOCOL,
                   "did not say which");
    expect_refused("http", (struct reply){.head = "HTTP/1.1 416 No\r\nContent-Range: bytes */2048\r\n"},
                   STOKER_ERR_PROTOCOL, "has none at offset 5");
}

static void test_object_a_cut_body_goes_on_where_it_ended(void **state)
{
    (void)state;
    const struct reply replies[] = {
        {.head = PART("0-99/100") "Content-Length: 100\r\n", .size = 40}, /* cut, and libcurl sees it */
        {.head = PART("40-99/100"), .from = 40, .size = 30},              /* cut, and only we can see it */
        {.head = PART("70-99/100"), .from = 70, .size = 30}};
    struct http_server *server = http_server_start(replies, 3);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[100];
    stoker_error err = {0};
    assert_int_equal(stk_range_read(range, 0, 100, got, &err), STOKER_OK);
    expect_bytes(got, 0, 100);
    assert_int_equal(waits.count, 2);
    assert_non_null(strstr(server->requests[1], "range: bytes=40-99\r\n"));
    assert_non_null(strstr(server->requests[2], "range: bytes=70-99\r\n"));
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_a_cut_body_of_no_version_begins_anew(void **state)
{
    (void)state;
    const struct reply replies[] = {
        {.head = "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-99/100\r\n", .from = 7, .size = 40},
        {.head = "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-99/100\r\n", .size = 100}};
    struct http_server *server = http_server_start(replies, 2);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[100];
    assert_int_equal(stk_range_read(range, 0, 100, got, NULL), STOKER_OK);
    expect_bytes(got, 0, 100); /* nothing of the first answer is left */
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_a_server_may_send_less(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = PART("0-59/100"), .size = 60},
                                    {.head = PART("60-99/100"), .from = 60, .size = 40}};
    struct http_server *server = http_server_start(replies, 2);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[100];
    assert_int_equal(stk_range_read(range, 0, 100, got, NULL), STOKER_OK);
    expect_bytes(got, 0, 100);
    assert_int_equal(waits.count, 0); /* that is no fault */
    stk_range_close(range);
    http_server_stop(server);
}

static void test_object_a_server_without_ranges(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n", .size = 3000},
                                    {.head = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n", .size = 3000},
                                    {.head = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n", .size = 3000},
                                    {.head = "HTTP/1.1 200 OK\r\n", .size = 3000}, /* its end is its size */
                                    {.head = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n", .size = 2000}, /* cut */
                                    {.head = "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n", .size = 3000}};
    struct http_server *server = http_server_start(replies, 6);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[200];
    size_t count = 0;
    stoker_error err = {0};
    assert_int_equal(stk_range_read(range, 1000, 100, got, &err), STOKER_OK);
    expect_bytes(got, 1000, 100);
    assert_int_equal(stk_range_read_some(range, 2900, 200, got, &count, &err), STOKER_OK);
    assert_int_equal(count, 100);
    expect_bytes(got, 2900, 100);
    assert_int_equal(stk_range_read_some(range, 5000, 200, got, &count, &err), STOKER_OK);
    assert_int_equal(count, 0);
    assert_int_equal(stk_range_read_some(range, 2900, 200, got, &count, &err), STOKER_OK);
    assert_int_equal(count, 100);
    assert_int_equal(waits.count, 0);
    assert_int_equal(stk_range_read(range, 2500, 200, got, &err), STOKER_OK);
    expect_bytes(got, 2500, 200);
    assert_int_equal(waits.count, 1);
    stk_range_close(range);
    http_server_stop(server);

    const struct reply large[] = {{.head = "HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\n", .size = 3000}};
    server = http_server_start(large, 1);
    range = open_on(server, "http", NULL);
    assert_int_equal(stk_range_read(range, 5000000000, 100, got, &err), STOKER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "does not send ranges"));
    stk_range_close(range);
    http_server_stop(server);
}

static void expect_change(struct reply first, struct reply second, const char *says)
{
    const struct reply replies[] = {first, second};
    struct http_server *server = http_server_start(replies, 2);
    struct stk_range *range = open_on(server, "http", NULL);
    uint8_t got[10];
    stoker_error err = {0};
    assert_int_equal(stk_range_read(range, 0, 10, got, &err), STOKER_OK);
    assert_int_equal(stk_range_read(range, 10, 10, got, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, says));
    assert_int_equal(waits.count, 0);
    stk_range_close(range);
    http_server_stop(server);
}

#define RANGE_A "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-9/100\r\n"
#define RANGE_B "HTTP/1.1 206 Partial\r\nContent-Range: bytes 10-19/100\r\n"

static void test_object_that_changes_is_an_error(void **state)
{
    (void)state;
    expect_change((struct reply){.head = RANGE_A "ETag: \"a\"\r\n", .size = 10},
                  (struct reply){.head = RANGE_B "ETag: \"b\"\r\n", .size = 10}, "its ETag was \"a\" and is \"b\"");
    expect_change((struct reply){.head = RANGE_A "Last-Modified: Mon\r\n", .size = 10},
                  (struct reply){.head = RANGE_B "Last-Modified: Tue\r\n", .size = 10}, "its date was Mon and is Tue");
    expect_change((struct reply){.head = RANGE_A, .size = 10},
                  (struct reply){.head = "HTTP/1.1 206 P\r\nContent-Range: bytes 10-19/200\r\n", .size = 10},
                  "its size was 100 bytes and is 200 bytes");
    expect_change((struct reply){.head = RANGE_A "ETag: \"a\"\r\n", .size = 10},
                  (struct reply){.head = "HTTP/1.1 412 Precondition Failed\r\n"},
                  "changed while it was read (HTTP 412)");
}

static void test_object_waits_and_refusals_are_bounded(void **state)
{
    (void)state;
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    stoker_error err = {0};
    uint8_t got[10];
    const struct reply silent[] = {{.silent = true}};
    options.stall_timeout_ns = 1;
    struct http_server *server = http_server_start(silent, 1);
    struct stk_range *range = NULL;
    struct stk_range_retry none = {0, 0};
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/x.bin", server->port);
    assert_int_equal(stk_range_open_url(url, &options, none, &range, NULL), STOKER_OK);
    assert_int_equal(stk_range_read(range, 0, 10, got, &err), STOKER_ERR_TIMEOUT);
    assert_non_null(strstr(err.context, "x.bin"));
    stk_range_close(range);
    http_server_stop(server);

    server = http_server_start(silent, 0); /* its port is free afterwards: nobody listens */
    range = open_on(server, "http", &options);
    http_server_stop(server);
    assert_int_equal(stk_range_read(range, 0, 10, got, &err), STOKER_ERR_UNAVAILABLE);
    assert_int_equal(waits.count, 3);
    stk_range_close(range);
}

static void test_object_follows_redirections(void **state)
{
    (void)state;
    const struct reply target[] = {{.head = PART("0-9/10"), .size = 10}};
    struct http_server *there = http_server_start(target, 1);
    char head[128];
    (void)snprintf(head, sizeof head, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%u/other\r\nETag: \"not\"\r\n",
                   there->port);
    const struct reply first[] = {{.head = head, .text = "see there"}};
    struct http_server *here = http_server_start(first, 1);
    struct stk_range *range = open_on(here, "http", NULL);
    uint8_t got[10];
    assert_int_equal(stk_range_read(range, 0, 10, got, NULL), STOKER_OK);
    expect_bytes(got, 0, 10);
    assert_non_null(strstr(there->requests[0], "range: bytes=0-9\r\n"));
    stk_range_close(range);
    http_server_stop(here);
    http_server_stop(there);
}

static void test_object_refuses_addresses(void **state)
{
    (void)state;
    struct stk_range *range = NULL;
    struct stk_range_retry retry = {0, 0};
    stoker_error err = {0};
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    assert_int_equal(stk_range_open_url("s3://b", NULL, retry, &range, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stk_range_open_url("msc://p/x", NULL, retry, &range, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.access_key_id = "AKID";
    assert_int_equal(stk_range_open_url("s3://b/k", &options, retry, &range, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(range);
}

static stoker_status open_and_read(const char *url, const stoker_object_options *options, uint8_t *got,
                                   stoker_error *err)
{
    struct stk_range *range = NULL;
    struct stk_range_retry none = {0, 0};
    stoker_status status = stk_range_open_url(url, options, none, &range, err);
    if (status >= 0) status = stk_range_read(range, 0, 10, got, err);
    stk_range_close(range);
    return status;
}

static void test_fault_object_without_memory(void **state)
{
    (void)state;
    const struct reply reply = {.head = PART("0-9/10"), .size = 10};
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    char endpoint[64];
    uint8_t got[10];
    uint64_t n = 0;
    options.access_key_id = "AKID";
    options.secret_access_key = "secret";
    options.endpoint = endpoint;
    for (bool failed = true; failed;) {
        struct http_server *server = http_server_start(&reply, 1);
        (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", server->port);
        stoker_error err = {0};
        allocations_fail(++n);
        stoker_status status = open_and_read("s3://bucket/x.bin", &options, got, &err);
        failed = allocations_failed();
        allocations_fail(0);
        (void)http_server_end(server); /* it was asked, or not */
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        assert_int_equal(err.status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object_reads_a_range),
        cmocka_unit_test(test_object_signs_requests_of_s3),
        cmocka_unit_test(test_object_the_end_of_the_object),
        cmocka_unit_test(test_object_size_by_head_or_by_one_byte),
        cmocka_unit_test(test_object_tries_again_what_may_pass),
        cmocka_unit_test(test_object_gives_up_after_its_tries),
        cmocka_unit_test(test_object_refusals_are_told_at_once),
        cmocka_unit_test(test_object_answers_without_sense),
        cmocka_unit_test(test_object_a_cut_body_goes_on_where_it_ended),
        cmocka_unit_test(test_object_a_cut_body_of_no_version_begins_anew),
        cmocka_unit_test(test_object_a_server_may_send_less),
        cmocka_unit_test(test_object_a_server_without_ranges),
        cmocka_unit_test(test_object_that_changes_is_an_error),
        cmocka_unit_test(test_object_waits_and_refusals_are_bounded),
        cmocka_unit_test(test_object_follows_redirections),
        cmocka_unit_test(test_object_refuses_addresses),
        cmocka_unit_test(test_fault_object_without_memory),
    };
    return stk_run_tests(tests);
}
