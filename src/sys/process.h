/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes: start by posix_spawn, watch by pidfd, kill for certain.
 */
#ifndef STK_SYS_PROCESS_H
#define STK_SYS_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <stoker/error.h>

struct stk_spawn {
    const char *const *argv; /* argv[0] is searched in PATH if it holds no '/' */
    const char *const *envp; /* NULL: the caller's */
    const char *cwd;         /* NULL: the caller's */
    const int *keep_fds;     /* descriptors that the child gets, under the numbers 3, 4, ... in this order; all others
                                are closed */
    size_t keep_count;
    const uint8_t *cpu_mask; /* affinity, bit i of byte i/8; NULL: the caller's */
    size_t cpu_mask_size;
    int new_session;         /* setsid: a terminal's Ctrl-C does not reach it */
    int detach;              /* fork twice: the child is not ours to reap and *out_pidfd is -1 */
};

/* All signals are unblocked and reset to default in the child, stdin is /dev/null. On success *out_pid and, if not
 * NULL, *out_pidfd (close-on-exec) are set. NOT_FOUND, IO, NO_MEMORY; the message names argv[0]. */
stoker_status stk_process_spawn(const struct stk_spawn *spawn, pid_t *out_pid, int *out_pidfd, stoker_error *err);
/* A pidfd for a process that is not our child; -1 if it is gone. Readable once the process has ended. */
int stk_process_open(pid_t pid);
void stk_process_kill(int pidfd); /* SIGKILL; ends stopped processes too */
/* State letter of /proc/<pid>/stat ('R', 'S', 'D', 'T', 'Z'), 0 if gone. */
char stk_process_state(pid_t pid);
/* Wait status of a process that has ended and is not our child: from its zombie or, on Linux 6.15 and later, from the
 * pidfd that was opened before. False if neither tells (its parent reaped it first, or we may not look). */
int stk_process_ending(pid_t pid, int pidfd, int *out_status);
/* CPU time that a process has used with all its threads, 0 if it is gone. */
uint64_t stk_process_cpu_ns(pid_t pid);
/* Process id of the parent, 0 if the process is gone. */
pid_t stk_process_parent(pid_t pid);
/* One line of what a process is doing: state, wait channel, system call, kernel stack where permitted. For warnings. */
void stk_process_describe(pid_t pid, char *out, size_t size);
/* CPU mask of the calling process in the form of stk_spawn. Returns bytes used (at most cap). */
size_t stk_process_affinity(uint8_t *mask, size_t cap);
/* Sets the mask of another process and of what it forks from then on. Best effort: a process that is gone,
 * or a mask without a CPU that it may use, is passed over. */
void stk_process_set_affinity(pid_t pid, const uint8_t *mask, size_t size);

/* Who is at the other end of a connected Unix socket: its process and user when it connected or began to listen. IO. */
stoker_status stk_process_peer(int socket_fd, int64_t *out_pid, uint32_t *out_uid, stoker_error *err);

#endif
