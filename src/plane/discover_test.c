/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding and starting the one DataServer (rule B7). The program that is started is this test itself, as "dataserver":
 * it tells each connection its process id.
 */
#include "tests/support/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "control/channel.h"
#include "plane/discover.h"
#include "sys/clock.h"
#include "sys/process.h"

enum { STARTERS = 50, PATIENCE_MS = 20000 };

/* The program: serves until nobody came for a while and all connections have ended. */
static int serve(void)
{
    int64_t own = getpid(), peer;
    struct pollfd polled[STARTERS + 1] = {{.fd = 3, .events = POLLIN}};
    nfds_t count = 1;
    while (poll(polled, count, 500) > 0) {
        int fd;
        for (nfds_t i = 1; i < count; i++) {
            if (!polled[i].revents) continue;
            (void)close(polled[i].fd);
            polled[i--] = polled[--count];
        }
        if (!polled[0].revents || stk_unix_accept(3, &fd, &peer, NULL) != STOKER_OK) continue;
        if (send(fd, &own, sizeof own, MSG_NOSIGNAL) != sizeof own) return 1;
        if (count > STARTERS) return 1;
        polled[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return 0;
}

static void test_key_is_equal_for_a_job_and_differs_for_others(void **state)
{
    (void)state;
    char a[STK_KEY_BYTES], b[STK_KEY_BYTES], name[STK_NAME_BYTES];
    stoker_error error;
    assert_int_equal(stk_discover_key("job 1 10.0.0.1:29500", a, &error), STOKER_OK);
    assert_int_equal(stk_discover_key("job 1 10.0.0.1:29500", b, &error), STOKER_OK);
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), 64);
    assert_int_equal(strspn(a, "0123456789abcdef"), 64);
    assert_int_equal(stk_discover_key("job 2 10.0.0.1:29500", b, &error), STOKER_OK);
    assert_string_not_equal(a, b);
    assert_int_equal(stk_discover_key(NULL, a, &error), STOKER_OK);
    assert_int_equal(stk_discover_key(NULL, b, &error), STOKER_OK);
    assert_string_equal(a, b); /* one process, one server */
    stk_discover_name(a, name);
    assert_memory_equal(name, "stoker-", 7);
    assert_memory_equal(name + 7, a, 32);
    assert_int_equal(strlen(name), 39);
    char *text = malloc(STK_TEXT_BYTES_MAX + 2);
    assert_non_null(text);
    memset(text, 'k', STK_TEXT_BYTES_MAX + 1);
    text[STK_TEXT_BYTES_MAX + 1] = '\0';
    assert_int_equal(stk_discover_key(text, a, &error), STOKER_ERR_INVALID_ARGUMENT);
    text[STK_TEXT_BYTES_MAX] = '\0';
    assert_int_equal(stk_discover_key(text, a, &error), STOKER_OK);
    free(text);
}

static void test_key_without_a_job_is_the_processs_own(void **state)
{
    (void)state;
    char own[STK_KEY_BYTES], childs[STK_KEY_BYTES];
    int ends[2], status;
    assert_int_equal(stk_discover_key(NULL, own, NULL), STOKER_OK);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int good = stk_discover_key(NULL, childs, NULL) == STOKER_OK && write(ends[1], childs, sizeof childs) > 0;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(read(ends[0], childs, sizeof childs), sizeof childs);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_not_equal(own, childs);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void make_key(char out_key[STK_KEY_BYTES], const char *what)
{
    char text[64];
    (void)snprintf(text, sizeof text, "test %s %ld", what, (long)getpid());
    assert_int_equal(stk_discover_key(text, out_key, NULL), STOKER_OK);
}

static void test_b7_nobody_answers(void **state)
{
    (void)state;
    char key[STK_KEY_BYTES];
    int fd = -1;
    bool started;
    stoker_error error;
    make_key(key, "nobody");
    struct stk_discover discover = {.key = key, .deadline_ns = stk_clock_now_ns() + 20000000};
    assert_int_equal(stk_discover_connect(&discover, &fd, &started, &error), STOKER_ERR_TIMEOUT);
    assert_non_null(strstr(error.message, "stoker-"));
    assert_int_equal(fd, -1);
}

/* What one of many ranks does: connect, report the server's pid, wait until all have. */
static int join_in(const char *key, int report_fd, int hold_fd)
{
    struct stk_discover discover = {
        .key = key, .program = "/proc/self/exe", .deadline_ns = stk_clock_now_ns() + STK_CONNECT_TIMEOUT_NS};
    int fd;
    bool started;
    int64_t pid;
    char byte;
    stoker_error error;
    if (stk_discover_connect(&discover, &fd, &started, &error) != STOKER_OK) {
        (void)fprintf(stderr, "# %s\n", error.message);
        return 1;
    }
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (poll(&polled, 1, PATIENCE_MS) != 1 || recv(fd, &pid, sizeof pid, 0) != sizeof pid) return 2;
    if (write(report_fd, &pid, sizeof pid) != sizeof pid) return 3;
    return read(hold_fd, &byte, 1) == 0 ? 0 : 4;
}

static void test_b7_fifty_starters_make_one_server(void **state)
{
    (void)state;
    char key[STK_KEY_BYTES];
    int report[2], hold[2];
    int64_t first = 0, pid;
    make_key(key, "fifty");
    assert_int_equal(pipe(report), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t children[STARTERS];
    for (int i = 0; i < STARTERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            (void)close(hold[1]);
            _exit(join_in(key, report[1], hold[0]));
        }
    }
    (void)close(report[1]);
    for (int i = 0; i < STARTERS; i++) {
        assert_int_equal(read(report[0], &pid, sizeof pid), sizeof pid);
        if (i == 0) first = pid;
        assert_int_equal(pid, first);
    }
    (void)close(hold[1]);
    for (int i = 0; i < STARTERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    (void)close(report[0]);
    (void)close(hold[0]);
    int pidfd = stk_process_open((pid_t)first);
    if (pidfd >= 0) { /* the server leaves by itself: nothing is left behind */
        struct pollfd polled = {.fd = pidfd, .events = POLLIN};
        assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
        (void)close(pidfd);
    }
}

static void test_b7_name_of_a_dead_owner_is_free(void **state)
{
    (void)state;
    char key[STK_KEY_BYTES], name[STK_NAME_BYTES], byte;
    int ends[2], status;
    make_key(key, "dead");
    stk_discover_name(key, name);
    assert_int_equal(pipe(ends), 0);
    pid_t owner = fork();
    assert_true(owner >= 0);
    if (owner == 0) { /* takes the name and dies before any server runs */
        int fd;
        if (stk_unix_listen(name, &fd, NULL) != STOKER_OK || write(ends[1], "x", 1) != 1) _exit(1);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    int fd = -1;
    assert_int_equal(stk_unix_listen(name, &fd, NULL), STOKER_AGAIN);
    assert_int_equal(kill(owner, SIGKILL), 0);
    assert_int_equal(waitpid(owner, &status, 0), owner);
    (void)close(ends[0]);
    (void)close(ends[1]);
    int report[2], hold[2];
    int64_t pid;
    assert_int_equal(pipe(report), 0);
    assert_int_equal(pipe(hold), 0);
    (void)close(hold[1]);
    assert_int_equal(join_in(key, report[1], hold[0]), 0);
    assert_int_equal(read(report[0], &pid, sizeof pid), sizeof pid);
    assert_int_not_equal(pid, owner);
    (void)close(report[0]);
    (void)close(report[1]);
    (void)close(hold[0]);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "dataserver") == 0) return serve();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_is_equal_for_a_job_and_differs_for_others),
        cmocka_unit_test(test_key_without_a_job_is_the_processs_own),
        cmocka_unit_test(test_b7_nobody_answers),
        cmocka_unit_test(test_b7_fifty_starters_make_one_server),
        cmocka_unit_test(test_b7_name_of_a_dead_owner_is_free),
    };
    return stk_run_tests(tests);
}
