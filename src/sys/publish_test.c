/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/thread.h"
#include "tests/support/folder.h"

/* The program is linked with --wrap=open64: a file system without O_TMPFILE, and one that fails to sync, are made here.
 * */
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
static bool without_tmpfile;
static int fsync_fails_at;

int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode =
        va_arg(arguments, unsigned); /* the callers of the code under test always give one or do not need it */
    va_end(arguments);
    if (without_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_open64(path, flags, mode);
}

int __wrap_fsync(int fd)
{
    if (fsync_fails_at > 0 && --fsync_fails_at == 0) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

static int begin(void **state)
{
    without_tmpfile = false;
    fsync_fails_at = 0;
    return folder_make(state);
}

static void expect_text(const char *name, const char *text)
{
    char found[64] = {0};
    FILE *file = fopen(folder_path(name), "r");
    assert_non_null(file);
    (void)fread(found, 1, sizeof found - 1, file);
    (void)fclose(file);
    assert_string_equal(found, text);
}

static void publish_text(const char *name, const char *text)
{
    stoker_error err = {0};
    struct stk_publish publish;
    assert_int_equal(stk_publish_begin(folder_path(name), &publish, &err), STOKER_OK);
    assert_int_equal(stk_publish_write(&publish, 0, text, strlen(text), &err), STOKER_OK);
    assert_int_equal(stk_publish_commit(&publish, &err), STOKER_OK);
    assert_int_equal(publish.fd, -1);
    stk_publish_abort(&publish);
    assert_int_equal(err.status, STOKER_OK);
}

static void appears_whole_or_not_at_all(void)
{
    struct stk_publish publish;
    unsigned hidden = without_tmpfile ? 1 : 0;
    assert_int_equal(stk_publish_begin(folder_path("a"), &publish, NULL), STOKER_OK);
    assert_int_equal(stk_publish_write(&publish, 3, "def", 3, NULL), STOKER_OK);
    assert_int_equal(stk_publish_write(&publish, 0, "abc", 3, NULL), STOKER_OK);
    assert_int_equal(folder_entries(), hidden);
    assert_int_equal(stk_publish_commit(&publish, NULL), STOKER_OK);
    assert_int_equal(folder_entries(), 1);
    expect_text("a", "abcdef");
    publish_text("a", "new"); /* takes the place of another */
    expect_text("a", "new");
    assert_int_equal(folder_entries(), 1);

    assert_int_equal(stk_publish_begin(folder_path("a"), &publish, NULL), STOKER_OK);
    assert_int_equal(stk_publish_write(&publish, 0, "lost", 4, NULL), STOKER_OK);
    stk_publish_abort(&publish);
    stk_publish_abort(&publish);
    expect_text("a", "new");
    assert_int_equal(folder_entries(), 1);
}

static void test_publish_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    appears_whole_or_not_at_all();
}

static void begin_pair(struct stk_publish *first, struct stk_publish *second)
{
    assert_int_equal(stk_publish_begin(folder_path("one"), first, NULL), STOKER_OK);
    assert_int_equal(stk_publish_begin(folder_path("two"), second, NULL), STOKER_OK);
    assert_int_equal(stk_publish_write(first, 0, "1", 1, NULL), STOKER_OK);
    assert_int_equal(stk_publish_write(second, 0, "2", 1, NULL), STOKER_OK);
    stk_publish_push(first, 0, 1);
}

static void test_pairs_appear_together(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct stk_publish first, second;
        stoker_error err = {0};
        without_tmpfile = i == 1;
        begin_pair(&first, &second);
        assert_int_equal(stk_publish_commit_pair(&first, &second, &err), STOKER_OK);
        assert_int_equal(first.fd, -1);
        assert_int_equal(second.fd, -1);
        expect_text("one", "1");
        expect_text("two", "2");
        assert_int_equal(unlink(folder_path("one")), 0);
        assert_int_equal(unlink(folder_path("two")), 0);
        for (int fault = 1; fault <= 3; fault++) { /* of one file, the other, the folder */
            begin_pair(&first, &second);
            fsync_fails_at = fault;
            assert_int_equal(stk_publish_commit_pair(&first, &second, &err), STOKER_ERR_IO);
            assert_int_equal(folder_entries(), 0);
        }
        begin_pair(&first, &second);
        assert_int_equal(mkdir(folder_path("two"), 0700), 0);
        assert_int_equal(stk_publish_commit_pair(&first, &second, &err), STOKER_ERR_IO);
        assert_non_null(strstr(err.message, "two"));
        assert_int_equal(folder_entries(), 1);
        assert_int_equal(rmdir(folder_path("two")), 0);
    }
}

static void test_publish_without_tmpfile(void **state)
{
    (void)state;
    without_tmpfile = true;
    appears_whole_or_not_at_all();
}

static void test_publish_takes_the_mode_of_the_umask(void **state)
{
    (void)state;
    struct stat facts;
    mode_t old = umask(027);
    for (int i = 0; i < 2; i++) {
        without_tmpfile = i == 1;
        publish_text("a", "x");
        assert_int_equal(stat(folder_path("a"), &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0640);
        assert_int_equal(unlink(folder_path("a")), 0);
    }
    (void)umask(old);
}

static void test_publish_leaves_nothing_when_killed(void **state)
{
    (void)state;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        STK_SKIP("no O_TMPFILE here");
    }
    (void)close(fd);
    pid_t child = fork();
    if (child == 0) {
        struct stk_publish publish;
        if (stk_publish_begin(folder_path("a"), &publish, NULL) == STOKER_OK &&
            stk_publish_write(&publish, 0, "x", 1, NULL) == STOKER_OK)
            (void)raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(folder_entries(), 0);
}

static void test_fault_publish_failures_leave_what_was_there(void **state)
{
    (void)state;
    stoker_error err = {0};
    struct stk_publish publish;
    assert_int_equal(stk_publish_begin("/nonexistent/x/a", &publish, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/x/a"));
    assert_int_equal(stk_publish_begin("/proc/a", &publish, &err) < 0, 1);
    assert_int_equal(stk_publish_begin(folder_path("d"), &publish, &err), STOKER_OK);
    assert_int_equal(mkdir(folder_path("d"), 0700), 0); /* meanwhile */
    assert_int_equal(stk_publish_commit(&publish, &err), STOKER_ERR_IO);
    assert_int_equal(publish.fd, -1);
    assert_int_equal(rmdir(folder_path("d")), 0);
    assert_int_equal(folder_entries(), 0);

    publish_text("a", "old");
    assert_int_equal(stk_publish_begin(folder_path("a"), &publish, &err), STOKER_OK);
    fsync_fails_at = 1;
    assert_int_equal(stk_publish_commit(&publish, &err), STOKER_ERR_IO);
    expect_text("a", "old");
    assert_int_equal(folder_entries(), 1);

    assert_int_equal(stk_publish_begin(folder_path("b"), &publish, &err), STOKER_OK);
    fsync_fails_at = 2; /* of the folder */
    assert_int_equal(stk_publish_commit(&publish, &err), STOKER_ERR_IO);
    assert_int_equal(folder_entries(), 1);

    assert_int_equal(stk_publish_begin(folder_path("c"), &publish, &err), STOKER_OK);
    assert_int_equal(stk_publish_write(&publish, INT64_MAX, "x", 1, &err), STOKER_ERR_LIMIT);
    stk_publish_abort(&publish);
}

/* What is not a file keeps its name: a folder with all that is in it, or a device. */
static void test_only_files_lose_their_names(void **state)
{
    (void)state;
    stoker_error err = {0};
    struct stk_publish publish;
    assert_int_equal(mkdir(folder_path("d"), 0700), 0);
    assert_int_equal(symlink("/dev/null", folder_path("device")), 0);
    assert_int_equal(stk_publish_begin(folder_path("d"), &publish, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "a folder has this name"));
    assert_int_equal(stk_publish_begin("/dev/null", &publish, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "device"));
    assert_int_equal(stk_publish_begin(folder_path("device"), &publish, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(folder_entries(), 2);
    assert_int_equal(unlink(folder_path("device")), 0);
    assert_int_equal(rmdir(folder_path("d")), 0);

    /* Links to nothing and to a file are replaced. */
    assert_int_equal(symlink("nowhere", folder_path("link")), 0);
    publish_text("link", "new");
    publish_text("file", "old");
    assert_int_equal(symlink("file", folder_path("other")), 0);
    publish_text("other", "new");
    expect_text("file", "old");
}

static void test_fault_a_full_disk_is_an_error(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        stoker_error err = {0};
        struct stk_publish publish;
        struct rlimit limit = {4096, 4096};
        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        if (stk_publish_begin(folder_path("a"), &publish, &err) != STOKER_OK) _exit(3);
        static char data[8192];
        if (stk_publish_write(&publish, 0, data, sizeof data, &err) != STOKER_ERR_IO) _exit(4);
        stk_publish_abort(&publish);
        _exit(strstr(err.message, "offset 4096") && err.os_error == EFBIG ? 0 : 5);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(folder_entries(), 0);
}

static void test_folders_are_made_with_parents(void **state)
{
    (void)state;
    stoker_error err = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/x//y/z/", folder);
    assert_int_equal(stk_make_folders(path, &err), STOKER_OK);
    assert_int_equal(stk_make_folders(path, &err), STOKER_OK);
    publish_text("f", "x");
    (void)snprintf(path, sizeof path, "%s/f/y", folder);
    assert_int_equal(stk_make_folders(path, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "f/y"));
    assert_int_equal(stk_make_folders("/proc/x", &err) < 0, 1);
    assert_int_equal(rmdir(folder_path("x/y/z")), 0);
    assert_int_equal(rmdir(folder_path("x/y")), 0);
    assert_int_equal(rmdir(folder_path("x")), 0);
}

static void test_lock_has_one_holder_in_this_process(void **state)
{
    (void)state;
    struct stk_file_lock *one = NULL, *two = NULL, *other = NULL;
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), 0, &one, NULL), STOKER_OK);
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), 0, &two, NULL), STOKER_AGAIN);
    assert_int_equal(stk_file_lock_acquire(folder_path("./lock"), 5000000, &two, NULL), STOKER_AGAIN);
    assert_null(two);
    assert_int_equal(stk_file_lock_acquire(folder_path("other"), 0, &other, NULL), STOKER_OK);
    stk_file_lock_release(one);
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), 0, &two, NULL), STOKER_OK);
    stk_file_lock_release(two);
    stk_file_lock_release(other);
    stk_file_lock_release(NULL);
    stoker_error err = {0};
    assert_int_equal(stk_file_lock_acquire("/nonexistent/lock", UINT64_MAX, &one, &err), STOKER_ERR_NOT_FOUND);
}

/* Tells through the pipe that it has the lock, and waits to be killed. */
static pid_t start_holder(void)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct stk_file_lock *lock = NULL;
        if (stk_file_lock_acquire(folder_path("lock"), 0, &lock, NULL) != STOKER_OK || write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;) (void)pause();
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    (void)close(ends[0]);
    return child;
}

static void test_lock_of_another_process_ends_with_it(void **state)
{
    (void)state;
    struct stk_file_lock *lock = NULL;
    pid_t child = start_holder();
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), 0, &lock, NULL), STOKER_AGAIN);
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), 2000000, &lock, NULL), STOKER_AGAIN);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), UINT64_MAX, &lock, NULL), STOKER_OK);
    assert_int_equal(waitpid(child, NULL, 0), child);
    stk_file_lock_release(lock);
}

static void test_lock_is_not_inherited_by_a_child(void **state)
{
    (void)state;
    struct stk_file_lock *lock = NULL, *again = NULL;
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), 0, &lock, NULL), STOKER_OK);
    pid_t child = fork();
    if (child == 0) {
        struct stk_file_lock *mine = NULL;
        bool refused = stk_file_lock_acquire(folder_path("lock"), 0, &mine, NULL) == STOKER_AGAIN;
        stk_file_lock_release(lock); /* of the parent: no effect there */
        bool still = stk_file_lock_acquire(folder_path("lock"), 0, &mine, NULL) == STOKER_AGAIN;
        _exit(refused && still ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(stk_file_lock_acquire(folder_path("lock"), 0, &again, NULL), STOKER_AGAIN);
    stk_file_lock_release(lock);
}

enum { THREADS = 4, ROUNDS = 50 };
static int inside, most_inside, entered;

static void enter_and_leave(void *argument)
{
    const char *path = argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct stk_file_lock *lock = NULL;
        if (stk_file_lock_acquire(path, UINT64_MAX, &lock, NULL) != STOKER_OK) return;
        inside++; /* plain on purpose: the lock orders it */
        if (inside > most_inside) most_inside = inside;
        entered++;
        inside--;
        stk_file_lock_release(lock);
    }
}

static void test_lock_orders_threads(void **state)
{
    (void)state;
    char path[256];
    struct stk_thread *threads[THREADS];
    (void)snprintf(path, sizeof path, "%s", folder_path("lock"));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(stk_thread_start("lock", enter_and_leave, path, &threads[i], NULL), STOKER_OK);
    for (int i = 0; i < THREADS; i++) stk_thread_join(threads[i]);
    assert_int_equal(entered, THREADS * ROUNDS);
    assert_int_equal(most_inside, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_publish_appears_whole_or_not_at_all),
        TEST(test_publish_without_tmpfile),
        TEST(test_pairs_appear_together),
        TEST(test_publish_takes_the_mode_of_the_umask),
        TEST(test_publish_leaves_nothing_when_killed),
        TEST(test_fault_publish_failures_leave_what_was_there),
        TEST(test_only_files_lose_their_names),
        TEST(test_fault_a_full_disk_is_an_error),
        TEST(test_folders_are_made_with_parents),
        TEST(test_lock_has_one_holder_in_this_process),
        TEST(test_lock_of_another_process_ends_with_it),
        TEST(test_lock_is_not_inherited_by_a_child),
        TEST(test_lock_orders_threads),
    };
    return stk_run_tests(tests);
}
