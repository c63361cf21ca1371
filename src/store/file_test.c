/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading by position, the end of a file, and what is refused before it can block.
 */
#include "store/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/unit.h"

static char folder[64];

static void path_in(char *out, size_t size, const char *name) { (void)snprintf(out, size, "%s/%s", folder, name); }

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void test_file_reads_by_position_and_ends_short(void **state)
{
    (void)state;
    char path[128];
    path_in(path, sizeof path, "ten");
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite("0123456789", 1, 10, out), 10);
    assert_int_equal(fclose(out), 0);

    struct stk_file file;
    stoker_error err;
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_OK);
    assert_int_equal(file.size, 10);
    assert_true(file.mtime_ns > 0);

    char got[16];
    size_t read = 0;
    assert_int_equal(stk_file_read(&file, 3, got, 4, &read, &err), STOKER_OK);
    assert_int_equal(read, 4);
    assert_memory_equal(got, "3456", 4);
    assert_int_equal(stk_file_read(&file, 8, got, 4, &read, &err), STOKER_OK);
    assert_int_equal(read, 2);
    assert_int_equal(stk_file_read(&file, 100, got, 4, &read, &err), STOKER_OK);
    assert_int_equal(read, 0);
    assert_int_equal(stk_file_read(&file, UINT64_MAX - 1, got, 4, &read, &err), STOKER_ERR_INVALID_ARGUMENT);

    uint64_t size = 0;
    int64_t mtime_ns = 0;
    assert_true(stk_file_facts(path, &size, &mtime_ns));
    assert_int_equal(size, 10);
    assert_true(mtime_ns == file.mtime_ns);
    stk_file_close(&file);
    stk_file_close(&file);
    assert_int_equal(unlink(path), 0);
    assert_false(stk_file_facts(path, &size, &mtime_ns));
}

static void test_file_refuses_what_is_no_regular_file(void **state)
{
    (void)state;
    char path[128];
    struct stk_file file = {.fd = -1};
    stoker_error err;
    path_in(path, sizeof path, "absent");
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "absent"));
    assert_int_equal(stk_file_open(folder, &file, &err), STOKER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "a directory"));

    path_in(path, sizeof path, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_ERR_UNSUPPORTED); /* and does not wait for a writer */
    assert_int_equal(file.fd, -1);
    assert_int_equal(unlink(path), 0);
    stk_file_close(&file);
    stk_file_close(NULL);
}

/* Names that lead nowhere are faults of the data, which a policy may pass over. */
static void test_names_that_lead_nowhere_are_not_found(void **state)
{
    (void)state;
    char path[128], other[128], name[600] = "/tmp/";
    struct stk_file file;
    stoker_error err;
    path_in(path, sizeof path, "circle");
    assert_int_equal(symlink(path, path), 0);
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(err.os_error, ELOOP);
    assert_int_equal(unlink(path), 0);
    memset(name + 5, 'x', 300);
    assert_int_equal(stk_file_open(name, &file, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(err.os_error, ENAMETOOLONG);
    path_in(other, sizeof other, "circle/below");
    assert_int_equal(stk_file_open(other, &file, &err), STOKER_ERR_NOT_FOUND);
}

static void test_a_socket_is_no_file(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stk_file file;
    stoker_error err;
    path_in(address.sun_path, sizeof address.sun_path, "socket");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(stk_file_open(address.sun_path, &file, &err), STOKER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(address.sun_path), 0);
}

static void test_no_descriptor_left_names_the_limit(void **state)
{
    (void)state;
    struct stk_file file;
    stoker_error err;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    stoker_status status = stk_file_open("/dev/null", &file, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, STOKER_ERR_IO);
    assert_non_null(strstr(err.message, "ulimit -n"));
}

static void test_a_part_of_a_file_reads_like_a_file(void **state)
{
    (void)state;
    char path[128], out[16] = "";
    struct stk_file file;
    stoker_error err;
    size_t got = 0;
    path_in(path, sizeof path, "part");
    FILE *made = fopen(path, "w");
    assert_non_null(made);
    assert_int_equal(fwrite("0123456789", 1, 10, made), 10);
    assert_int_equal(fclose(made), 0);
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_OK);
    assert_int_equal(stk_file_narrow(&file, 3, 8, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.message, "8 bytes at offset 3 reach past the end, which is at 10");
    assert_int_equal(stk_file_narrow(&file, UINT64_MAX, 8, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stk_file_narrow(&file, 2, 6, &err), STOKER_OK);
    assert_int_equal(stk_file_narrow(&file, 1, 4, &err), STOKER_OK); /* of the part */
    assert_int_equal(file.size, 4);
    assert_int_equal(stk_file_read(&file, 0, out, sizeof out, &got, &err), STOKER_OK);
    assert_int_equal(got, 4);
    assert_string_equal(out, "3456");
    assert_int_equal(stk_file_read(&file, 3, out, 9, &got, &err), STOKER_OK);
    assert_int_equal(got, 1);
    assert_int_equal(stk_file_read(&file, 5, out, 9, &got, &err), STOKER_OK);
    assert_int_equal(got, 0);
    stk_file_close(&file);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_lead_nowhere_are_not_found),
        cmocka_unit_test(test_a_socket_is_no_file),
        cmocka_unit_test(test_no_descriptor_left_names_the_limit),
        cmocka_unit_test(test_a_part_of_a_file_reads_like_a_file),
        cmocka_unit_test(test_file_reads_by_position_and_ends_short),
        cmocka_unit_test(test_file_refuses_what_is_no_regular_file),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
