/* SPDX-License-Identifier: Apache-2.0
 *
 * Discovery over abstract names (discover.h). Connect; if nobody listens, bind and listen here and hand the listening
 * socket to a DataServer that is started for it: connections wait in the socket's queue until the server accepts
 * them, so nobody has to wait for it to come up. Losers of the race for the name connect again. A winner that dies
 * takes the name with it, and the next one wins.
 *
 * The waits between tries are short polls without descriptors: there is no event for "somebody listens now" on an
 * abstract name.
 */
#include "plane/discover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "control/channel.h"
#include "sys/clock.h"
#include "sys/digest.h"
#include "sys/process.h"

enum { WAIT_MS_MIN = 1, WAIT_MS_MAX = 50 };

/* The first line of a small file; empty if it cannot be read: then the key has one ingredient less on all ranks
 * alike. */
static void read_line(const char *path, char *out, size_t size)
{
    out[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t got = read(fd, out, size - 1);
    (void)close(fd); /* read-only */
    out[got > 0 ? got : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static unsigned long long namespace_inode(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (unsigned long long)info.st_ino : 0;
}

/* Field 22 of /proc/self/stat: with it a process id that is used again makes another key. */
static unsigned long long start_time(void)
{
    char line[1024];
    read_line("/proc/self/stat", line, sizeof line);
    const char *at = strrchr(line, ')'); /* the name before it may hold spaces */
    unsigned long long ticks = 0;
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                      &ticks) != 1) {
        return 0;
    }
    return ticks;
}

/* Text that no other process has. The kernel's random bytes keep other users from guessing it. */
static void describe_process(char *out, size_t size)
{
    uint64_t chance[2] = {0, 0};
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random) memcpy(chance, random, sizeof chance);
    (void)snprintf(out, size, "process %lld %llu %llu %016llx%016llx", (long long)getpid(), start_time(),
                   namespace_inode("/proc/self/ns/pid"), (unsigned long long)chance[0], (unsigned long long)chance[1]);
}

stoker_status stk_discover_key(const char *job_key, char out_key[STK_KEY_BYTES], stoker_error *err)
{
    char own[256], boot[64], text[STK_TEXT_BYTES_MAX + 512];
    if (job_key && strlen(job_key) > STK_TEXT_BYTES_MAX) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "job key of %zu bytes, at most %u are possible",
                        strlen(job_key), STK_TEXT_BYTES_MAX);
    }
    if (!job_key) describe_process(own, sizeof own);
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    /* The job's text comes last, so that it cannot imitate the fields before it. */
    int size = snprintf(text, sizeof text, "stoker wire %u\nuid %lld\nboot %s\nnet %llu\n%s %s", STK_WIRE_VERSION,
                        (long long)getuid(), boot, namespace_inode("/proc/self/ns/net"), job_key ? "job" : "alone",
                        job_key ? job_key : own);
    if (size < 0 || (size_t)size >= sizeof text)
        return stk_fail(err, STOKER_ERR_INTERNAL, "the key's text does not fit");
    stk_sha256_hex(text, (size_t)size, out_key);
    return STOKER_OK;
}

void stk_discover_name(const char *key, char out_name[STK_NAME_BYTES])
{
    (void)snprintf(out_name, STK_NAME_BYTES, "stoker-%.32s", key);
}

static stoker_status start_server(const struct stk_discover *discover, int listen_fd, stoker_error *err)
{
    const char *argv[11] = {discover->program, "dataserver", "--listen-fd", "3", "--key", discover->key};
    int used = 6;
    if (discover->shm_dir) {
        argv[used++] = "--shm-dir";
        argv[used++] = discover->shm_dir;
    }
    if (discover->policy) {
        argv[used++] = "--policy";
        argv[used++] = discover->policy;
    }
    struct stk_spawn spawn = {.argv = argv, .keep_fds = &listen_fd, .keep_count = 1, .new_session = 1, .detach = 1};
    pid_t pid;
    stoker_status status = stk_process_spawn(&spawn, &pid, NULL, err);
    if (status != STOKER_OK) stk_error_context(err, "starting a DataServer");
    return status;
}

/* OK: started. AGAIN: somebody else has the name. */
static stoker_status bind_and_start(const struct stk_discover *discover, const char *name, stoker_error *err)
{
    int listen_fd;
    stoker_status status = stk_unix_listen(name, &listen_fd, err);
    if (status != STOKER_OK) return status;
    status = start_server(discover, listen_fd, err);
    (void)close(listen_fd); /* the server has its own copy; without one, this frees the name */
    return status;
}

static stoker_status out_of_time(const struct stk_discover *discover, const char *name, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_TIMEOUT, "no DataServer answers at '@%s'%s", name,
                    discover->program ? "" : " and no program was given to start one");
}

stoker_status stk_discover_connect(const struct stk_discover *discover, int *out_fd, bool *out_started,
                                   stoker_error *err)
{
    char name[STK_NAME_BYTES];
    stk_discover_name(discover->key, name);
    bool started = false;
    int wait_ms = WAIT_MS_MIN;
    for (;;) {
        int fd;
        stoker_error seen;
        stoker_status status = stk_unix_connect(name, &fd, &seen);
        if (status == STOKER_OK) {
            *out_fd = fd;
            *out_started = started;
            return STOKER_OK;
        }
        if (status < 0 && status != STOKER_ERR_UNAVAILABLE && status != STOKER_ERR_TIMEOUT) {
            if (err) *err = seen;
            return status;
        }
        if (started && seen.os_error == ECONNREFUSED) {
            *out_started = true;
            return stk_fail(err, STOKER_ERR_UNAVAILABLE, "the DataServer that was started ended before it answered");
        }
        uint64_t now = stk_clock_now_ns();
        if (now >= discover->deadline_ns) return out_of_time(discover, name, err);
        if (discover->program && !started) {
            status = bind_and_start(discover, name, err);
            if (status < 0) return status;
            if (status == STOKER_OK) {
                started = true;
                continue;
            }
        }
        uint64_t left_ms = (discover->deadline_ns - now) / 1000000 + 1;
        (void)poll(NULL, 0, left_ms < (uint64_t)wait_ms ? (int)left_ms : wait_ms); /* a signal only shortens the wait */
        wait_ms = wait_ms * 2 < WAIT_MS_MAX ? wait_ms * 2 : WAIT_MS_MAX;
    }
}
