/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/leftover.h"

#include <dirent.h>
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
#include "tests/support/unit.h"

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

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stk-leftover-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static unsigned entries(void)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(directory);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    DIR *directory = opendir(folder);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    (void)closedir(directory);
    return rmdir(folder);
}

static const char *in(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void tidy(const char *name, bool old)
{
    const char *path = in(name);
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
        if (stk_publish_begin(in(name), &publish, NULL) != STOKER_OK || write(ready[1], "r", 1) != 1) _exit(1);
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
    assert_int_equal(entries(), 1);
    end(child);
    tidy("b", true); /* of another name */
    assert_int_equal(entries(), 1);
    tidy("a", false);
    assert_int_equal(entries(), 0);
}

static void test_parts_of_this_process_stay(void **state)
{
    (void)state;
    struct stk_publish publish, second;
    assert_int_equal(stk_publish_begin(in("a"), &publish, NULL), STOKER_OK);
    tidy("a", true);
    assert_int_equal(entries(), 1);
    /* Looking did not end the claim: another process does not take it either. */
    tidy_in_a_child("a");
    assert_int_equal(entries(), 1);
    assert_int_equal(stk_publish_begin(in("a"), &second, NULL), STOKER_OK);
    assert_int_equal(stk_publish_commit(&publish, NULL), STOKER_OK);
    stk_publish_abort(&second);
    assert_int_equal(entries(), 1);
    assert_int_equal(access(in("a"), F_OK), 0);
}

static void test_a_forked_child_removes_nothing(void **state)
{
    (void)state;
    struct stk_publish publish;
    assert_int_equal(stk_publish_begin(in("a"), &publish, NULL), STOKER_OK);
    pid_t child = fork();
    if (child == 0) {
        stk_publish_abort(&publish);
        _exit(publish.fd == -1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(entries(), 1);
    assert_int_equal(stk_publish_commit(&publish, NULL), STOKER_OK);
    assert_int_equal(access(in("a"), F_OK), 0);
    assert_int_equal(entries(), 1);
}

static void test_old_files_stay_while_they_are_claimed(void **state)
{
    (void)state;
    char *name = stk_leftover_name(in("a"), STK_ENDING_OLD);
    assert_non_null(name);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0400);
    assert_true(fd >= 0);
    (void)close(fd);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stk_file_lock *claim = stk_file_claim(fd, true);
    assert_non_null(claim);
    tidy("a", true);
    assert_int_equal(entries(), 1);
    tidy_in_a_child("a");
    assert_int_equal(entries(), 1);
    (void)close(fd);
    stk_file_lock_release(claim);
    tidy("a", false); /* only parts */
    assert_int_equal(entries(), 1);
    tidy("a", true);
    assert_int_equal(entries(), 0);
    free(name);
}

static void test_other_names_are_not_touched(void **state)
{
    (void)state;
    char *name = stk_leftover_name(in("a"), STK_ENDING_PART);
    assert_non_null(name);
    static const char *const others[] = {"a", "b.part", ".stoker-", ".stoker-0123456789abcdef.part", ".stoker-a.old"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        (void)close(open(in(others[i]), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    name[strlen(name) - 1] = 'x'; /* of another ending */
    (void)close(open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    tidy("a", true);
    assert_int_equal(entries(), 6);
    free(name);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_parts_of_living_processes_stay), TEST(test_parts_of_this_process_stay),
        TEST(test_a_forked_child_removes_nothing), TEST(test_old_files_stay_while_they_are_claimed),
        TEST(test_other_names_are_not_touched),
    };
    return stk_run_tests(tests);
}
