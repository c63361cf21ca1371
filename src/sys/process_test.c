/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

/* Runs `sh -c script` with descriptor 3 = the write end of a pipe and gives what it wrote there, up to its end. */
static void run_script(struct stk_spawn spawn, const char *script, char *out, size_t size)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    int ends[2], pidfd = -2;
    pid_t pid = 0;
    stoker_error err = {0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    spawn.argv = argv;
    spawn.keep_fds = &ends[1];
    spawn.keep_count = 1;
    assert_int_equal(stk_process_spawn(&spawn, &pid, &pidfd, &err), STOKER_OK);
    assert_int_equal(err.status, STOKER_OK);
    assert_true(pid > 0);
    (void)close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], out + used, size - 1 - used)) > 0) used += (size_t)got;
    while (used > 0 && out[used - 1] == '\n') used--;
    out[used] = 0;
    (void)close(ends[0]);
    if (spawn.detach) {
        assert_int_equal(pidfd, -1);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* not ours */
    } else {
        struct pollfd wait = {pidfd, POLLIN, 0};
        assert_int_equal(poll(&wait, 1, 60000), 1);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        (void)close(pidfd);
    }
}

static void test_child_gets_only_what_it_should(void **state)
{
    (void)state;
    char text[512];
    int leaked = open("/dev/null", O_RDONLY); /* without close-on-exec, as a careless library would leave it */
    assert_true(leaked >= 0);
    run_script((struct stk_spawn){0}, "exec 1>&3; ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0", text,
               sizeof text);
    assert_string_equal(text, "0 1 2 3 4 /dev/null"); /* 4 is ls's own view of the directory */
    (void)close(leaked);
}

static void test_environment_and_folder(void **state)
{
    (void)state;
    char text[512];
    const char *envp[] = {"PATH=/usr/bin:/bin", "STK_WORD=hello", NULL};
    run_script((struct stk_spawn){.envp = envp, .cwd = "/usr"}, "exec 1>&3; pwd; echo $STK_WORD", text, sizeof text);
    assert_string_equal(text, "/usr\nhello");
}

static void test_signals_are_fresh(void **state)
{
    (void)state;
    char text[512];
    sigset_t all, before;
    (void)sigfillset(&all);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    run_script((struct stk_spawn){0}, "exec 1>&3; grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'", text,
               sizeof text);
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(text, "SigBlk:%llxSigIgn:%llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 0);
    assert_int_equal(ignored & ~(3ull << 31), 0); /* glibc ignores its two private signals in what it spawns */
    (void)signal(SIGPIPE, old);
    sigset_t now;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &now), 0);
    assert_int_equal(sigismember(&now, SIGUSR1), 1); /* the caller's own mask is left alone */
}

static void test_new_session_and_detach(void **state)
{
    (void)state;
    char text[512];
    long long pid = 0, parent = 0, session = 0;
    static const char script[] =
        "exec 1>&3; read a b c d e f g </proc/self/stat; echo $$; cut -d' ' -f4,6 /proc/$$/stat";
    run_script((struct stk_spawn){0}, script, text, sizeof text);
    assert_int_equal(sscanf(text, "%lld %lld %lld", &pid, &parent, &session), 3);
    assert_int_equal(parent, getpid());
    assert_int_equal(session, getsid(0));
    for (int i = 0; i < 20; i++) {
        run_script((struct stk_spawn){.new_session = 1, .detach = 1}, script, text, sizeof text);
        assert_int_equal(sscanf(text, "%lld %lld %lld", &pid, &parent, &session), 3);
        assert_int_not_equal(parent, getpid());
        assert_int_equal(session, pid);
    }
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1); /* no middle process is left */
    assert_int_equal(errno, ECHILD);
}

static void test_affinity(void **state)
{
    (void)state;
    uint8_t mask[1024], one[1024] = {0}, after[1024];
    char text[64], expected[64];
    size_t used = stk_process_affinity(mask, sizeof mask);
    assert_true(used > 0 && mask[used - 1] != 0);
    unsigned cpu = 0;
    while (!(mask[cpu / 8] >> (cpu % 8) & 1)) cpu++;
    one[cpu / 8] = (uint8_t)(1u << (cpu % 8));
    (void)snprintf(expected, sizeof expected, "%u", cpu);
    for (int detach = 0; detach < 2; detach++) {
        struct stk_spawn spawn = {.cpu_mask = one, .cpu_mask_size = cpu / 8 + 1, .detach = detach};
        run_script(spawn, "exec 1>&3; grep Cpus_allowed_list /proc/self/status | cut -f2", text, sizeof text);
        assert_string_equal(text, expected);
    }
    assert_int_equal(stk_process_affinity(after, sizeof after), used);
    assert_memory_equal(mask, after, used);
    /* A mask that names no CPU of ours leaves the caller's. */
    uint8_t none[1] = {0};
    struct stk_spawn spawn = {.cpu_mask = none, .cpu_mask_size = 1};
    run_script(spawn, "echo started >&3", text, sizeof text);
    assert_string_equal(text, "started");
}

static void test_descriptors_are_renumbered(void **state)
{
    (void)state;
    /* Sources that stand where targets will be, in the opposite order. */
    int low[4], ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < 4; i++) low[i] = open(i & 1 ? "/dev/zero" : "/dev/full", O_RDONLY | O_CLOEXEC);
    int keep[5] = {ends[1], low[3], low[2], low[1], low[0]};
    const char *argv[] = {"sh", "-c", "for i in 4 5 6 7; do readlink /proc/self/fd/$i; done | tr '\\n' ' ' >&3", NULL};
    struct stk_spawn spawn = {.argv = argv, .keep_fds = keep, .keep_count = 5};
    pid_t pid = 0;
    assert_int_equal(stk_process_spawn(&spawn, &pid, NULL, NULL), STOKER_OK);
    (void)close(ends[1]);
    char text[256] = "";
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], text + used, sizeof text - 1 - used)) > 0) used += (size_t)got;
    assert_string_equal(text, "/dev/zero /dev/full /dev/zero /dev/full ");
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(ends[0]);
    for (int i = 0; i < 4; i++) (void)close(low[i]);
}

static void test_what_cannot_start_is_named(void **state)
{
    (void)state;
    for (int detach = 0; detach < 2; detach++) {
        const char *argv[] = {"/nonexistent/program", NULL};
        struct stk_spawn spawn = {.argv = argv, .detach = detach};
        pid_t pid = -7;
        int pidfd = -7;
        stoker_error err = {0};
        assert_int_equal(stk_process_spawn(&spawn, &pid, &pidfd, &err), STOKER_ERR_NOT_FOUND);
        assert_non_null(strstr(err.message, "/nonexistent/program"));
        assert_int_equal(pid, -7);
        assert_int_equal(pidfd, -7);
        argv[0] = "/etc/passwd";
        assert_int_equal(stk_process_spawn(&spawn, &pid, &pidfd, &err), STOKER_ERR_IO);
        assert_int_equal(err.os_error, EACCES);
        argv[0] = "true";
        spawn.cwd = "/nonexistent";
        assert_int_equal(stk_process_spawn(&spawn, &pid, &pidfd, &err), STOKER_ERR_NOT_FOUND);
        assert_non_null(strstr(err.message, "in '/nonexistent'"));
    }
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
}

static void test_kill_ends_a_stopped_process(void **state)
{
    (void)state;
    const char *argv[] = {"sleep", "1000", NULL};
    struct stk_spawn spawn = {.argv = argv};
    pid_t pid = 0;
    int pidfd = -1, status = 0;
    char text[1024];
    assert_int_equal(stk_process_spawn(&spawn, &pid, &pidfd, NULL), STOKER_OK);
    assert_int_equal(stk_process_parent(pid), getpid());
    uint8_t mask[1024], one[1024] = {0};
    size_t used = stk_process_affinity(mask, sizeof mask);
    one[used - 1] = mask[used - 1] & (uint8_t)-mask[used - 1]; /* its lowest CPU */
    stk_process_set_affinity(pid, one, used);
    char path[64], line[128], allowed[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) (void)sscanf(line, "Cpus_allowed_list: %63s", allowed);
    (void)fclose(file);
    assert_int_equal(strtol(allowed, NULL, 10), (long)(8 * (used - 1) + (size_t)__builtin_ctz(one[used - 1])));
    assert_null(strchr(allowed, ','));
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(stk_process_state(pid), 'T');
    stk_process_describe(pid, text, sizeof text);
    assert_non_null(strstr(text, "(sleep): state T"));
    assert_null(strchr(text, '\n'));
    int other = stk_process_open(pid);
    assert_true(other >= 0);
    stk_process_kill(other);
    struct pollfd wait = {pidfd, POLLIN, 0};
    assert_int_equal(poll(&wait, 1, 60000), 1);
    assert_int_equal(stk_process_state(pid), 'Z');
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    stk_process_kill(pidfd); /* gone: no effect */
    stk_process_kill(-1);
    assert_int_equal(stk_process_state(pid), 0);
    assert_int_equal(stk_process_parent(pid), 0);
    stk_process_set_affinity(pid, one, used); /* gone: no effect */
    stk_process_describe(pid, text, sizeof text);
    assert_non_null(strstr(text, "has ended"));
    assert_int_equal(stk_process_open(pid), -1);
    assert_int_equal(stk_process_open(-1), -1);
    (void)close(other), (void)close(pidfd);
}

/* The child of another process: `how` is a shell command that it ends by, once it may. */
static int ending_of_grandchild(const char *how, bool reaped)
{
    enum { CHILD_GO, PARENT_GO, PIDS, PIPES };
    char script[256], text[32] = "";
    int pipes[PIPES][2], status = -1;
    (void)snprintf(script, sizeof script, "sh -c 'read x <&3; %s' & echo $! >&5; %s read x <&4", how,
                   reaped ? "wait;" : "");
    for (int i = 0; i < PIPES; i++) assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
    const char *argv[] = {"sh", "-c", script, NULL};
    int keep[] = {pipes[CHILD_GO][0], pipes[PARENT_GO][0], pipes[PIDS][1]};
    struct stk_spawn spawn = {.argv = argv, .keep_fds = keep, .keep_count = 3};
    pid_t parent;
    assert_int_equal(stk_process_spawn(&spawn, &parent, NULL, NULL), STOKER_OK);
    assert_true(read(pipes[PIDS][0], text, sizeof text - 1) > 0);
    pid_t child = (pid_t)strtol(text, NULL, 10);
    int pidfd = stk_process_open(child);
    assert_true(pidfd >= 0);
    assert_int_equal(stk_process_ending(child, -1, &status), 0); /* it lives */
    assert_int_equal(write(pipes[CHILD_GO][1], "\n", 1), 1);
    struct pollfd ended = {pidfd, POLLIN, 0};
    assert_int_equal(poll(&ended, 1, 60000), 1);
    while (reaped && stk_process_state(child)) continue;
    bool known = stk_process_ending(child, pidfd, &status);
    assert_int_equal(write(pipes[PARENT_GO][1], "\n", 1), 1);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    (void)close(pidfd);
    for (int i = 0; i < PIPES; i++) {
        (void)close(pipes[i][0]);
        (void)close(pipes[i][1]);
    }
    return known ? status : -1;
}

static void test_ending_of_another_ones_child(void **state)
{
    (void)state;
    int status = ending_of_grandchild("exit 7", false);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    status = ending_of_grandchild("kill -11 $$", false);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = ending_of_grandchild("exit 7", true); /* only newer kernels still know */
    assert_true(status == -1 || WEXITSTATUS(status) == 7);
}

static void test_peer_of_a_socket(void **state)
{
    (void)state;
    int ends[2];
    int64_t pid = 0;
    uint32_t uid = 77;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(stk_process_peer(ends[0], &pid, &uid, NULL), STOKER_OK);
    assert_int_equal(pid, getpid());
    assert_int_equal(uid, geteuid());
    (void)close(ends[0]), (void)close(ends[1]);
    stoker_error err = {0};
    assert_int_equal(stk_process_peer(ends[0], &pid, &uid, &err), STOKER_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_gets_only_what_it_should),
        cmocka_unit_test(test_environment_and_folder),
        cmocka_unit_test(test_signals_are_fresh),
        cmocka_unit_test(test_new_session_and_detach),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_descriptors_are_renumbered),
        cmocka_unit_test(test_what_cannot_start_is_named),
        cmocka_unit_test(test_kill_ends_a_stopped_process),
        cmocka_unit_test(test_ending_of_another_ones_child),
        cmocka_unit_test(test_peer_of_a_socket),
    };
    return stk_run_tests(tests);
}
