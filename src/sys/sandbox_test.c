/* SPDX-License-Identifier: Apache-2.0
 *
 * What is given up is given up for good, so each attempt runs in a child. Rule C4.
 */
#include "sys/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/thread.h"
#include "tests/support/unit.h"

enum { CANNOT_LOCK = 250, NO_ERROR = 251 };

static char folder[] = "/tmp/stoker-sandbox-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* Exit status of a child that locks itself and then calls `attempt`. */
static int locked_so(enum stk_sandbox_network network, int (*attempt)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stoker_error err = {0};
        stoker_status status = stk_sandbox_lock(network, &err);
        if (status == STOKER_ERR_UNSUPPORTED) _exit(CANNOT_LOCK);
        _exit(status == STOKER_OK ? attempt() : 249);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status)); /* never killed */
    return WEXITSTATUS(status);
}

static int locked(int (*attempt)(void)) { return locked_so(STK_SANDBOX_OFFLINE, attempt); }

/* The error that the attempt met. */
static int met(long result) { return result < 0 ? errno : NO_ERROR; }

static int make_socket(void) { return met(socket(AF_INET, SOCK_STREAM, 0)); }
static int make_unix_socket(void) { return met(socket(AF_UNIX, SOCK_STREAM, 0)); }
static int run_program(void)
{
    char *const argv[] = {"/bin/true", NULL};
    return met(execv(argv[0], argv));
}
static int fork_one(void)
{
    pid_t child = fork();
    if (child == 0) _exit(0);
    return met(child);
}
static int trace_parent(void) { return met(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL)); }
static int signal_parent(void) { return met(kill(getppid(), 0)); }
static int create_file(void)
{
    (void)!chdir(folder);
    return met(open("new", O_WRONLY | O_CREAT, 0600));
}
static int create_with_creat(void) { return met(syscall(SYS_openat, AT_FDCWD, "new", O_RDONLY | O_CREAT, 0600)); }
static int open_to_write(void) { return met(open("/dev/null", O_WRONLY)); }
static int open_read_write(void) { return met(open("/dev/null", O_RDWR)); }
static int open_without_name(void) { return met(open("/tmp", O_TMPFILE | O_RDWR, 0600)); }
static int open_by_another_call(void)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_RDWR, 0, 0};
    return met(syscall(437 /* openat2 */, AT_FDCWD, "/dev/null", &how, sizeof how));
}
static int remove_a_folder(void) { return met(rmdir(folder)); }
static int rename_a_folder(void) { return met(rename(folder, "/tmp/stoker-sandbox-renamed")); }
static int change_mode(void) { return met(chmod(folder, 0777)); }

static void expect(int (*attempt)(void), int error)
{
    int status = locked(attempt);
    if (status == CANNOT_LOCK) STK_SKIP("seccomp cannot be used here");
    assert_int_equal(status, error);
}

static void test_c4_no_network(void **state)
{
    (void)state;
    expect(make_socket, EPERM);
    expect(make_unix_socket, EPERM);
}

static void test_c4_no_programs_and_processes(void **state)
{
    (void)state;
    expect(run_program, EPERM);
    expect(fork_one, EPERM);
}

static void test_c4_no_other_process_is_touched(void **state)
{
    (void)state;
    expect(trace_parent, EPERM);
    expect(signal_parent, EPERM);
}

static void test_c4_nothing_is_opened_for_writing(void **state)
{
    (void)state;
    expect(create_file, EPERM);
    expect(create_with_creat, EPERM);
    expect(open_to_write, EPERM);
    expect(open_read_write, EPERM);
    expect(open_without_name, EPERM);
    expect(open_by_another_call, ENOSYS);
}

static void test_c4_names_cannot_be_changed(void **state)
{
    (void)state;
    expect(remove_a_folder, EPERM);
    expect(rename_a_folder, EPERM);
    expect(change_mode, EPERM);
}

/* ---- what a worker needs */

static void run_nothing(void *argument) { *(int *)argument = 1; }

static int work(void)
{
    char bytes[16];
    int ran = 0, fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, bytes, sizeof bytes) <= 0 || close(fd) != 0) return 1;
    void *memory = mmap(NULL, (size_t)64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || munmap(memory, (size_t)64 << 20) != 0) return 2;
    struct stk_thread *thread;
    if (stk_thread_start("test", run_nothing, &ran, &thread, NULL) != STOKER_OK) return 3;
    stk_thread_join(thread);
    if (!ran) return 4;
    if (write(STDERR_FILENO, "", 0) != 0) return 5;
    return kill(getpid(), 0) == 0 && raise(0) == 0 ? 0 : 6;
}

static void test_c4_reading_threads_and_memory_go_on(void **state)
{
    (void)state;
    expect(work, 0);
}

static int abort_now(void)
{
    (void)signal(SIGABRT, _exit); /* that the signal arrives is what counts: no core file of a test */
    abort();
}

static void test_c4_an_assertion_still_ends_the_process(void **state)
{
    (void)state;
    expect(abort_now, SIGABRT);
}

/* ---- memory */

static int limited(uint64_t limit, size_t wanted)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (stk_sandbox_limit_memory(limit, NULL) != STOKER_OK) _exit(9);
        void *memory = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void *shared = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        _exit((memory == MAP_FAILED) | (shared == MAP_FAILED) << 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_private_memory_is_limited_and_shared_is_not(void **state)
{
    (void)state;
#ifdef STK_SANITIZED
    STK_SKIP("shadow memory is private memory, terabytes of it");
#endif
    assert_int_equal(limited((uint64_t)256 << 20, (size_t)512 << 20), 1);
    assert_int_equal(limited((uint64_t)1024 << 20, (size_t)512 << 20), 0);
}

static void test_a_tighter_limit_stays(void **state)
{
    (void)state;
#ifdef STK_SANITIZED
    STK_SKIP("shadow memory is private memory, terabytes of it");
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {(rlim_t)256 << 20, (rlim_t)256 << 20}, after;
        if (setrlimit(RLIMIT_DATA, &limit) != 0) _exit(1);
        if (stk_sandbox_limit_memory((uint64_t)1 << 30, NULL) != STOKER_OK) _exit(2);
        _exit(getrlimit(RLIMIT_DATA, &after) == 0 && after.rlim_cur == limit.rlim_cur ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int be_a_server(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? 248 : met(listen(fd, 1));
}

static void test_who_reads_object_storage_may_connect_and_no_more(void **state)
{
    (void)state;
    int seen = locked_so(STK_SANDBOX_CONNECTS, make_socket);
    if (seen == CANNOT_LOCK) STK_SKIP("seccomp cannot be used here");
    assert_int_equal(seen, NO_ERROR);
    assert_int_equal(locked_so(STK_SANDBOX_CONNECTS, be_a_server), EPERM);
    assert_int_equal(locked_so(STK_SANDBOX_CONNECTS, run_program), EPERM);
    assert_int_equal(locked_so(STK_SANDBOX_CONNECTS, fork_one), EPERM);
    assert_int_equal(locked_so(STK_SANDBOX_CONNECTS, create_file), EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c4_no_network),
        cmocka_unit_test(test_c4_no_programs_and_processes),
        cmocka_unit_test(test_c4_no_other_process_is_touched),
        cmocka_unit_test(test_c4_nothing_is_opened_for_writing),
        cmocka_unit_test(test_c4_names_cannot_be_changed),
        cmocka_unit_test(test_c4_reading_threads_and_memory_go_on),
        cmocka_unit_test(test_who_reads_object_storage_may_connect_and_no_more),
        cmocka_unit_test(test_c4_an_assertion_still_ends_the_process),
        cmocka_unit_test(test_private_memory_is_limited_and_shared_is_not),
        cmocka_unit_test(test_a_tighter_limit_stays),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
