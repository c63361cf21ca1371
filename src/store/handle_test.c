/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of the public API: open, size, read, download, close.
 */
#include <stoker/dataset.h>

#include "store/http_fixture.h"

static void test_handle_opens_reads_and_closes(void **state)
{
    (void)state;
    const struct reply replies[] = {
        {.head = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n"},
        {.head = "HTTP/1.1 206 P\r\nContent-Range: bytes 5-14/20\r\n", .from = 5, .size = 10},
        {.head = "HTTP/1.1 206 P\r\nContent-Range: bytes 15-19/20\r\n", .from = 15, .size = 5},
        {.head = "HTTP/1.1 206 P\r\nContent-Range: bytes 0-19/20\r\n", .size = 20},
        {.head = "HTTP/1.1 500 Oops\r\n"}};
    struct http_server *server = http_server_start(replies, 5);
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    stoker_object *object = NULL;
    stoker_error err = {0};
    uint64_t size = 0;
    uint8_t got[20];
    char url[64], path[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/x", server->port);
    (void)snprintf(path, sizeof path, "/tmp/stoker-handle-%ld", (long)getpid());
    options.retries = -1;
    assert_int_equal(stoker_object_open(url, &options, &object, &err), STOKER_OK);
    assert_int_equal(stoker_object_size(object, &size, &err), STOKER_OK);
    assert_int_equal(size, 20);
    assert_int_equal(stoker_object_read(object, (stoker_object_range){5, 10}, got, &err), STOKER_OK);
    assert_int_equal(got[9], 14);
    assert_int_equal(stoker_object_read(object, (stoker_object_range){15, 10}, got, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "ends before byte 25"));
    assert_int_equal(stoker_object_download(object, path, &err), STOKER_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, 20, file), 20);
    assert_int_equal(got[19], 19);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stoker_object_read(object, (stoker_object_range){0, 1}, got, &err), STOKER_ERR_UNAVAILABLE);
    stoker_object_close(object);
    stoker_object_close(NULL);
    http_server_stop(server);
}

static void test_handle_refuses_bad_arguments(void **state)
{
    (void)state;
    stoker_object *object = NULL;
    stoker_error err = {0};
    assert_int_equal(stoker_object_open(NULL, NULL, &object, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_object_open("s3://b", NULL, &object, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handle_opens_reads_and_closes),
        cmocka_unit_test(test_handle_refuses_bad_arguments),
    };
    return stk_run_tests(tests);
}
