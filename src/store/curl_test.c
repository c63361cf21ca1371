/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport: one request, a body that the caller stops, faults by their kind, and a forked child.
 */
#include "store/http.h"

#include <sys/wait.h>

#include "store/http_fixture.h"

struct body {
    uint8_t data[256];
    size_t used, stop_at;
};

static bool take(void *user, const struct stk_http_answer *answer, const uint8_t *data, size_t size)
{
    struct body *body = user;
    if (answer->status == 0) abort(); /* the head comes first */
    size_t part = size < sizeof body->data - body->used ? size : sizeof body->data - body->used;
    memcpy(body->data + body->used, data, part);
    body->used += part;
    return body->used < body->stop_at;
}

static stoker_status get(const char *url, struct body *body, struct stk_http_answer *answer, stoker_error *err)
{
    static const char *const lines[] = {"x-test: 1"};
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    options.connect_timeout_ns = options.stall_timeout_ns = STK_SECOND_NS;
    struct stk_http_call call = {
        .url = url, .headers = lines, .header_count = 1, .options = &options, .body = take, .user = body};
    return stk_http_perform(&call, answer, err);
}

static void url_of(const struct http_server *server, char out[64])
{
    (void)snprintf(out, 64, "http://127.0.0.1:%u/a/../b//c", server->port);
}

static void test_curl_gives_head_and_body(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = "HTTP/1.1 200 OK\r\nETag: \"e\"\r\n", .text = "hello"},
                                    {.head = "HTTP/1.1 404 Not Found\r\n", .text = "gone"},
                                    {.head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n", .size = 100000}};
    struct http_server *server = http_server_start(replies, 3);
    struct stk_http_answer answer;
    stoker_error err = {0};
    char url[64];
    url_of(server, url);
    assert_int_equal(stk_http_start(&err), STOKER_OK);
    struct body body = {.stop_at = SIZE_MAX};
    assert_int_equal(get(url, &body, &answer, &err), STOKER_OK);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.etag, "\"e\"");
    assert_int_equal(body.used, 5);
    assert_memory_equal(body.data, "hello", 5);
    assert_non_null(strstr(server->requests[0], "GET /a/../b//c HTTP/1.1\r\n")); /* as it was given */
    assert_non_null(strstr(server->requests[0], "x-test: 1\r\n"));

    body = (struct body){.stop_at = SIZE_MAX};
    assert_int_equal(get(url, &body, &answer, &err), STOKER_OK); /* an answer is no failure of the transport */
    assert_int_equal(answer.status, 404);
    body = (struct body){.stop_at = 1};
    assert_int_equal(get(url, &body, &answer, &err), STOKER_OK); /* neither is a body that is not wanted */
    assert_int_equal(err.status, 0);
    stk_http_stop();
    http_server_stop(server);
}

static void test_curl_tells_faults_apart(void **state)
{
    (void)state;
    const struct reply replies[] = {
        {.head = NULL}, {.head = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n", .size = 20}, {.silent = true}};
    struct http_server *server = http_server_start(replies, 3);
    struct stk_http_answer answer;
    struct body body = {.stop_at = SIZE_MAX};
    stoker_error err = {0};
    char url[64];
    url_of(server, url);
    assert_int_equal(stk_http_start(&err), STOKER_OK);
    assert_int_equal(get(url, &body, &answer, &err), STOKER_ERR_UNAVAILABLE);
    assert_int_equal(get(url, &body, &answer, &err), STOKER_ERR_UNAVAILABLE);
    assert_int_equal(body.used, 20);
    assert_int_equal(get(url, &body, &answer, &err), STOKER_ERR_TIMEOUT);
    assert_true(err.message[0] != 0);
    http_server_stop(server);
    assert_int_equal(get(url, &body, &answer, &err), STOKER_ERR_UNAVAILABLE); /* nobody listens any more */
    assert_int_equal(get("http://[", &body, &answer, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(get("file:///etc/passwd", &body, &answer, &err), STOKER_ERR_INVALID_ARGUMENT);
    stk_http_stop();
}

static void test_curl_a_child_has_connections_of_its_own(void **state)
{
    (void)state;
    const struct reply replies[] = {{.head = "HTTP/1.1 200 OK\r\n", .text = "one"},
                                    {.head = "HTTP/1.1 200 OK\r\n", .text = "two"},
                                    {.head = "HTTP/1.1 200 OK\r\n", .text = "three"}};
    struct http_server *server = http_server_start(replies, 3);
    struct stk_http_answer answer;
    struct body body = {.stop_at = SIZE_MAX};
    char url[64];
    url_of(server, url);
    assert_int_equal(stk_http_start(NULL), STOKER_OK);
    assert_int_equal(get(url, &body, &answer, NULL), STOKER_OK);
    pid_t child = fork();
    if (child == 0) {
        struct body own = {.stop_at = SIZE_MAX};
        bool good = get(url, &own, &answer, NULL) == STOKER_OK && memcmp(own.data, "two", 3) == 0;
        stk_http_stop();
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    body = (struct body){.stop_at = SIZE_MAX};
    assert_int_equal(get(url, &body, &answer, NULL), STOKER_OK);
    assert_memory_equal(body.data, "three", 5);
    stk_http_stop();
    http_server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curl_gives_head_and_body),
        cmocka_unit_test(test_curl_tells_faults_apart),
        cmocka_unit_test(test_curl_a_child_has_connections_of_its_own),
    };
    return stk_run_tests(tests);
}
