/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/channel.h"
#include "tests/support/unit.h"

static void name_of(const char *word, char *out, size_t size)
{
    (void)snprintf(out, size, "stk-test-%d-%s", (int)getpid(), word);
}

static void test_name_is_a_lock_that_vanishes(void **state)
{
    (void)state;
    char name[64];
    int first = -1, second = -1;
    stoker_error err = {0};
    name_of("lock", name, sizeof name);
    assert_int_equal(stk_unix_connect(name, &second, &err), STOKER_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, name));
    assert_int_equal(stk_unix_listen(name, &first, &err), STOKER_OK);
    assert_int_equal(stk_unix_listen(name, &second, &err), STOKER_AGAIN);
    assert_int_equal(second, -1);
    assert_int_equal(fcntl(first, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(close(first), 0);
    assert_int_equal(stk_unix_listen(name, &second, &err), STOKER_OK);
    assert_int_equal(close(second), 0);
}

static void test_connect_and_accept(void **state)
{
    (void)state;
    char name[64], byte = 0;
    int listener = -1, client = -1, server = -1;
    int64_t pid = 0;
    name_of("accept", name, sizeof name);
    assert_int_equal(stk_unix_listen(name, &listener, NULL), STOKER_OK);
    assert_int_equal(stk_unix_accept(listener, &server, &pid, NULL), STOKER_AGAIN);
    assert_int_equal(stk_unix_connect(name, &client, NULL), STOKER_OK);
    assert_int_equal(stk_unix_accept(listener, &server, &pid, NULL), STOKER_OK);
    assert_int_equal(pid, getpid());
    assert_int_equal(fcntl(server, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(send(client, "x", 1, 0), 1);
    assert_int_equal(recv(server, &byte, 1, 0), 1);
    (void)close(client), (void)close(server), (void)close(listener);
}

static void test_another_user_is_refused_by_both_sides(void **state)
{
    (void)state;
    if (geteuid() != 0) STK_SKIP("only root can become someone else");
    char name[64];
    int listener = -1, server = -1, status = 0;
    stoker_error err = {0};
    name_of("user", name, sizeof name);
    assert_int_equal(stk_unix_listen(name, &listener, NULL), STOKER_OK);
    pid_t child = fork();
    if (child == 0) {
        int fd = -1;
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        _exit(stk_unix_connect(name, &fd, NULL) == STOKER_ERR_WRONG_STATE ? 0 : 1);
    }
    struct pollfd wait = {listener, POLLIN, 0};
    assert_int_equal(poll(&wait, 1, 60000), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(stk_unix_accept(listener, &server, NULL, &err), STOKER_ERR_WRONG_STATE);
    assert_non_null(strstr(err.message, "user 65534"));
    assert_int_equal(server, -1);
    (void)close(listener);
}

static void test_bad_names(void **state)
{
    (void)state;
    char name[128];
    int fd = -1;
    memset(name, 'n', sizeof name);
    name[101] = 0;
    assert_int_equal(stk_unix_listen(name, &fd, NULL), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stk_unix_connect("", &fd, NULL), STOKER_ERR_INVALID_ARGUMENT);
    name[100] = 0;
    assert_int_equal(stk_unix_listen(name, &fd, NULL), STOKER_OK);
    (void)close(fd);
}

static void test_a_full_queue_does_not_block(void **state)
{
    (void)state;
    char name[64];
    int listener = -1, clients[600];
    unsigned count = 0;
    stoker_status status = STOKER_OK;
    name_of("full", name, sizeof name);
    assert_int_equal(stk_unix_listen(name, &listener, NULL), STOKER_OK);
    while (count < 600 && (status = stk_unix_connect(name, &clients[count], NULL)) == STOKER_OK) count++;
    assert_int_equal(status, STOKER_ERR_UNAVAILABLE);
    while (count > 0) (void)close(clients[--count]);
    (void)close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name_is_a_lock_that_vanishes),          cmocka_unit_test(test_connect_and_accept),
        cmocka_unit_test(test_another_user_is_refused_by_both_sides), cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_a_full_queue_does_not_block),
    };
    return stk_run_tests(tests);
}
