/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/leftover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/publish.h"
#include "tests/support/folder.h"

/* The program is linked with --wrap=open64: a file system without O_TMPFILE is made here. */
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = va_arg(arguments, unsigned); /* the callers give one or do not need it */
    va_end(arguments);
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_open64(path, flags, mode);
}

static void tidy(const char *name, bool old)
{
    const char *path = folder_path(name);
    stk_leftovers_remove(&path, 1, old);
}

/* A process that shares no claim with this one. */
static void tidy_in_a_child(const char *name)
{
    pid_t child = fork();
    if (child == 0) {
        tidy(name, true);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* A process that has begun to write the file, and waits to be killed. */
static pid_t writer(const char *name)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct stk_publish publish;
        if (stk_publish_begin(folder_path(name), &publish, NULL) != STOKER_OK || write(ready[1], "r", 1) != 1) _exit(1);
        for (;;) (void)pause();
    }
    assert_true(child > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return child;
}

static void end(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_parts_of_living_processes_stay(void **state)
{
    (void)state;
    pid_t child = writer("a");
    tidy("a", true);
    assert_int_equal(folder_entries(), 1);
    end(child);
    tidy("b", true); /* of another name */
    assert_int_equal(folder_entries(), 1);
    tidy("a", false);
    assert_int_equal(folder_entries(), 0);
}

static void test_parts_of_this_process_stay(void **state)
{
    (void)state;
    struct stk_publish publish, second;
    assert_int_equal(stk_publish_begin(folder_path("a"), &publish, NULL), STOKER_OK);
    tidy("a", true);
    assert_int_equal(folder_entries(), 1);
    /* Looking did not end the claim: another process does not take it either. */
    tidy_in_a_child("a");
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(stk_publish_begin(folder_path("a"), &second, NULL), STOKER_OK);
    assert_int_equal(stk_publish_commit(&publish, NULL), STOKER_OK);
    stk_publish_abort(&second);
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(access(folder_path("a"), F_OK), 0);
}

static void test_a_forked_child_removes_nothing(void **state)
{
    (void)state;
    struct stk_publish publish;
    assert_int_equal(stk_publish_begin(folder_path("a"), &publish, NULL), STOKER_OK);
    pid_t child = fork();
    if (child == 0) {
        stk_publish_abort(&publish);
        _exit(publish.fd == -1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(stk_publish_commit(&publish, NULL), STOKER_OK);
    assert_int_equal(access(folder_path("a"), F_OK), 0);
    assert_int_equal(folder_entries(), 1);
}

static void test_old_files_stay_while_they_are_claimed(void **state)
{
    (void)state;
    char *name = stk_leftover_name(folder_path("a"), STK_ENDING_OLD);
    assert_non_null(name);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0400);
    assert_true(fd >= 0);
    (void)close(fd);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stk_file_lock *claim = stk_file_claim(fd, true);
    assert_non_null(claim);
    tidy("a", true);
    assert_int_equal(folder_entries(), 1);
    tidy_in_a_child("a");
    assert_int_equal(folder_entries(), 1);
    (void)close(fd);
    stk_file_lock_release(claim);
    tidy("a", false); /* only parts */
    assert_int_equal(folder_entries(), 1);
    tidy("a", true);
    assert_int_equal(folder_entries(), 0);
    free(name);
}

static void test_other_names_are_not_touched(void **state)
{
    (void)state;
    char *name = stk_leftover_name(folder_path("a"), STK_ENDING_PART);
    assert_non_null(name);
    static const char *const others[] = {"a", "b.part", ".stoker-", ".stoker-0123456789abcdef.part", ".stoker-a.old"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        (void)close(open(folder_path(others[i]), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    name[strlen(name) - 1] = 'x'; /* of another ending */
    (void)close(open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    tidy("a", true);
    assert_int_equal(folder_entries(), 6);
    free(name);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_parts_of_living_processes_stay), TEST(test_parts_of_this_process_stay),
        TEST(test_a_forked_child_removes_nothing), TEST(test_old_files_stay_while_they_are_claimed),
        TEST(test_other_names_are_not_touched),
    };
    return stk_run_tests(tests);
}
