/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes: see process.h. The program that calls us may hold any number of threads, so nothing of it runs
 * between fork and exec: posix_spawn does the work, and a detached child is spawned by a middle process that shares
 * our memory, runs only posix_spawn and ends (the same way in which posix_spawn itself works).
 */
#include "sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

enum {
    FIRST_FD = 3,
    KEEP_MAX = 16,         /* descriptors given to a child; we use two */
    CPU_MASK_BYTES = 1024, /* 8,192 CPUs, the most that Linux is built for */
    MIDDLE_STACK_BYTES = 128 << 10
};

/* What the middle process of a detached spawn reads and writes. */
struct order {
    const struct stk_spawn *spawn;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    pid_t pid;
    int failed;
};

static int open_pidfd(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0u); }

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) (void)close(fds[i]); /* duplicates: nothing is lost */
}

/* Duplicates keep_fds above the numbers that the child will see, so that no dup2 of the child overwrites a source. */
static int lift_fds(const struct stk_spawn *spawn, int lifted[KEEP_MAX])
{
    for (size_t i = 0; i < spawn->keep_count; i++) {
        lifted[i] = fcntl(spawn->keep_fds[i], F_DUPFD_CLOEXEC, FIRST_FD + (int)spawn->keep_count);
        if (lifted[i] < 0) {
            int os_error = errno;
            close_all(lifted, i);
            return os_error;
        }
    }
    return 0;
}

static int fill_actions(const struct stk_spawn *spawn, const int *lifted, posix_spawn_file_actions_t *actions)
{
    int failed = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    for (size_t i = 0; i < spawn->keep_count && !failed; i++)
        failed = posix_spawn_file_actions_adddup2(actions, lifted[i], FIRST_FD + (int)i);
    if (!failed) failed = posix_spawn_file_actions_addclosefrom_np(actions, FIRST_FD + (int)spawn->keep_count);
    if (!failed && spawn->cwd) failed = posix_spawn_file_actions_addchdir_np(actions, spawn->cwd);
    return failed;
}

static int fill_attributes(const struct stk_spawn *spawn, posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (spawn->new_session) flags |= POSIX_SPAWN_SETSID;
    int failed = posix_spawnattr_setflags(attributes, flags);
    if (!failed) failed = posix_spawnattr_setsigmask(attributes, &none);
    if (!failed) failed = posix_spawnattr_setsigdefault(attributes, &all);
    return failed;
}

static void spawn_now(struct order *order)
{
    const struct stk_spawn *spawn = order->spawn;
    char *const *argv = (char *const *)(uintptr_t)spawn->argv; /* posix_spawn does not write there */
    char *const *envp = spawn->envp ? (char *const *)(uintptr_t)spawn->envp : environ;
    order->failed = posix_spawnp(&order->pid, argv[0], order->actions, order->attributes, argv, envp);
}

static int middle_main(void *argument)
{
    spawn_now(argument);
    return 0; /* glibc's clone ends the process without any handler of the program */
}

/* ThreadSanitizer's clone() takes the child for a fork and switches checking off in it, and so in the parent, whose
 * memory it shares; glibc's other name for the function passes it by. */
#ifdef __SANITIZE_THREAD__
int __clone(int (*run)(void *), void *stack, int flags, void *argument, ...);
#define clone __clone
#endif

/* Without an exit signal the middle process is no child that the program's own wait() or SIGCHLD handler could meet. */
static void spawn_detached(struct order *order)
{
    char *stack =
        mmap(NULL, MIDDLE_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        order->failed = errno;
        return;
    }
    pid_t middle = clone(middle_main, stack + MIDDLE_STACK_BYTES, CLONE_VM | CLONE_VFORK, order);
    if (middle < 0) {
        order->failed = errno;
    } else {
        while (waitpid(middle, NULL, __WCLONE) < 0 && errno == EINTR) continue;
    }
    (void)munmap(stack, MIDDLE_STACK_BYTES); /* ours, mapped above */
}

union cpu_mask {
    cpu_set_t set;
    unsigned char bytes[CPU_MASK_BYTES];
};

static void fill_mask(const uint8_t *mask, size_t size, union cpu_mask *out)
{
    memset(out, 0, sizeof *out);
    for (size_t cpu = 0; cpu < size * 8 && cpu < CPU_MASK_BYTES * 8; cpu++)
        if (mask[cpu / 8] >> (cpu % 8) & 1) CPU_SET_S(cpu, CPU_MASK_BYTES, &out->set);
}

/* Sets the affinity of the calling thread, which the child inherits. A mask without a CPU that we may use is passed
 * over: the kernel knows better than the sender of the mask. Returns whether *before must be restored. */
static bool borrow_affinity(const struct stk_spawn *spawn, cpu_set_t *before)
{
    if (!spawn->cpu_mask || sched_getaffinity(0, CPU_MASK_BYTES, before) != 0) return false;
    union cpu_mask wanted;
    fill_mask(spawn->cpu_mask, spawn->cpu_mask_size, &wanted);
    return sched_setaffinity(0, CPU_MASK_BYTES, &wanted.set) == 0;
}

/* With all signals blocked: no handler of the program runs in the middle process, which shares its memory. */
static void spawn_guarded(struct order *order)
{
    union {
        cpu_set_t set;
        unsigned char bytes[CPU_MASK_BYTES];
    } before;
    sigset_t all, mask;
    (void)sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &mask);
    STK_ASSERT(failed == 0);
    bool restore = borrow_affinity(order->spawn, &before.set);
    if (order->spawn->detach)
        spawn_detached(order);
    else
        spawn_now(order);
    if (restore) (void)sched_setaffinity(0, CPU_MASK_BYTES, &before.set); /* was ours a moment ago */
    failed = pthread_sigmask(SIG_SETMASK, &mask, NULL);
    STK_ASSERT(failed == 0);
}

static stoker_status fail_spawn(const struct stk_spawn *spawn, int os_error, stoker_error *err)
{
    stoker_status status = os_error == ENOENT || os_error == ENOTDIR  ? STOKER_ERR_NOT_FOUND
                           : os_error == ENOMEM || os_error == EAGAIN ? STOKER_ERR_NO_MEMORY
                           : os_error == EMFILE || os_error == ENFILE ? STOKER_ERR_LIMIT
                                                                      : STOKER_ERR_IO;
    if (spawn->cwd) return stk_fail_os(err, status, os_error, "cannot start '%s' in '%s'", spawn->argv[0], spawn->cwd);
    return stk_fail_os(err, status, os_error, "cannot start '%s'", spawn->argv[0]);
}

static int run_order(const struct stk_spawn *spawn, pid_t *out_pid)
{
    int lifted[KEEP_MAX] = {0};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = lift_fds(spawn, lifted);
    if (failed) return failed;
    failed = posix_spawn_file_actions_init(&actions);
    if (failed) goto close_lifted;
    failed = posix_spawnattr_init(&attributes);
    if (failed) goto destroy_actions;
    failed = fill_actions(spawn, lifted, &actions);
    if (!failed) failed = fill_attributes(spawn, &attributes);
    if (!failed) {
        struct order order = {spawn, &actions, &attributes, 0, 0};
        spawn_guarded(&order);
        failed = order.failed;
        *out_pid = order.pid;
    }
    (void)posix_spawnattr_destroy(&attributes); /* cannot fail in glibc, nor the next */
destroy_actions:
    (void)posix_spawn_file_actions_destroy(&actions);
close_lifted:
    close_all(lifted, spawn->keep_count);
    return failed;
}

stoker_status stk_process_spawn(const struct stk_spawn *spawn, pid_t *out_pid, int *out_pidfd, stoker_error *err)
{
    STK_ASSERT(spawn->keep_count <= KEEP_MAX);
    pid_t pid = -1;
    int failed = run_order(spawn, &pid);
    if (failed) return fail_spawn(spawn, failed, err);
    int pidfd = -1;
    if (out_pidfd && !spawn->detach) {
        pidfd = open_pidfd(pid);
        if (pidfd < 0) {
            failed = errno;
            (void)kill(pid, SIGKILL); /* unreaped, so the number is still its own */
            while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
            return stk_fail_os(err, failed == EMFILE || failed == ENFILE ? STOKER_ERR_LIMIT : STOKER_ERR_IO, failed,
                               "cannot watch '%s'", spawn->argv[0]);
        }
    }
    *out_pid = pid;
    if (out_pidfd) *out_pidfd = pidfd;
    return STOKER_OK;
}

int stk_process_open(pid_t pid) { return pid > 0 ? open_pidfd(pid) : -1; }

void stk_process_kill(int pidfd)
{
    if (pidfd >= 0) (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0u); /* ESRCH: it has ended, as wanted */
}

/* Reads /proc/<pid>/<name>, terminated, without the last newline. False if it cannot be read. */
static bool read_proc(pid_t pid, const char *name, char *out, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, out, size - 1);
    (void)close(fd); /* nothing was written */
    if (got < 0) return false;
    while (got > 0 && (out[got - 1] == '\n' || out[got - 1] == 0)) got--;
    out[got] = 0;
    return true;
}

char stk_process_state(pid_t pid)
{
    char text[512];
    if (pid <= 0 || !read_proc(pid, "stat", text, sizeof text)) return 0;
    const char *name_end = strrchr(text, ')'); /* the name itself may hold any character */
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

/* linux/pidfd.h of 6.15; older headers lack it, older kernels answer EINVAL or ENOTTY. */
struct pidfd_info {
    uint64_t mask, cgroup_id;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
#define PIDFD_INFO_EXIT_MASK (UINT64_C(1) << 3)
#define PIDFD_GET_INFO_CALL _IOWR(0xff, 11, struct pidfd_info)

int stk_process_ending(pid_t pid, int pidfd, int *out_status)
{
    char text[1024];
    if (pid > 0 && stk_process_state(pid) == 'Z' && read_proc(pid, "stat", text, sizeof text)) {
        char *at = strrchr(text, ')'); /* end of field 2; exit_code is field 52 */
        for (int field = 2; at && field < 52; field++) at = strchr(at + 1, ' ');
        if (at) {
            *out_status = (int)strtol(at, NULL, 10);
            return 1;
        }
    }
    struct pidfd_info info = {.mask = PIDFD_INFO_EXIT_MASK};
    if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_INFO_CALL, &info) != 0 || !(info.mask & PIDFD_INFO_EXIT_MASK)) return 0;
    *out_status = info.exit_code;
    return 1;
}

uint64_t stk_process_cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

pid_t stk_process_parent(pid_t pid)
{
    char text[512];
    if (pid <= 0 || !read_proc(pid, "stat", text, sizeof text)) return 0;
    const char *name_end = strrchr(text, ')');
    return name_end && strlen(name_end) > 4 ? (pid_t)strtol(name_end + 4, NULL, 10) : 0; /* ") S 17 ..." */
}

/* "[<0>] do_wait+0x57/0x1a0\n..." becomes "do_wait < ..." in place, function names only. */
static void shorten_stack(char *text)
{
    char *to = text;
    for (char *line = text; line;) {
        char *next = strchr(line, '\n');
        if (next) *next++ = 0;
        char *name = strstr(line, "] ");
        if (name) {
            name += 2;
            size_t length = strcspn(name, "+ \n");
            if (to != text) {
                memcpy(to, "< ", 2);
                to += 2;
            }
            memmove(to, name, length);
            to += length;
            *to++ = ' ';
        }
        line = next;
    }
    if (to > text) to--;
    *to = 0;
}

void stk_process_describe(pid_t pid, char *out, size_t size)
{
    char name[64], channel[128], call[256], stack[4096];
    char state = stk_process_state(pid);
    if (!state) {
        (void)snprintf(out, size, "pid %lld has ended", (long long)pid);
        return;
    }
    if (!read_proc(pid, "comm", name, sizeof name)) (void)snprintf(name, sizeof name, "?");
    if (!read_proc(pid, "wchan", channel, sizeof channel) || strcmp(channel, "0") == 0) channel[0] = 0;
    if (!read_proc(pid, "syscall", call, sizeof call)) call[0] = 0; /* needs the right to trace */
    call[strcspn(call, " ")] = 0;
    if (!read_proc(pid, "stack", stack, sizeof stack)) stack[0] = 0; /* needs CAP_SYS_ADMIN */
    shorten_stack(stack);
    (void)snprintf(out, size, "pid %lld (%s): state %c%s%s%s%s%s%s", (long long)pid, name, state,
                   channel[0] ? ", waits in " : "", channel, call[0] ? ", system call " : "", call,
                   stack[0] ? ", kernel stack " : "", stack);
}

size_t stk_process_affinity(uint8_t *mask, size_t cap)
{
    union {
        cpu_set_t set;
        unsigned char bytes[CPU_MASK_BYTES];
    } now;
    memset(&now, 0, sizeof now);
    if (sched_getaffinity(0, CPU_MASK_BYTES, &now.set) != 0) return 0;
    size_t used = 0;
    memset(mask, 0, cap);
    for (size_t cpu = 0; cpu < CPU_MASK_BYTES * 8 && cpu / 8 < cap; cpu++) {
        if (!CPU_ISSET_S(cpu, CPU_MASK_BYTES, &now.set)) continue;
        mask[cpu / 8] |= (uint8_t)(1u << (cpu % 8));
        used = cpu / 8 + 1;
    }
    return used;
}

void stk_process_set_affinity(pid_t pid, const uint8_t *mask, size_t size)
{
    union cpu_mask wanted;
    fill_mask(mask, size, &wanted);
    (void)sched_setaffinity(pid, CPU_MASK_BYTES, &wanted.set); /* a process that is gone needs none */
}

stoker_status stk_process_peer(int socket_fd, int64_t *out_pid, uint32_t *out_uid, stoker_error *err)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read the peer's credentials");
    *out_pid = peer.pid;
    *out_uid = peer.uid;
    return STOKER_OK;
}
