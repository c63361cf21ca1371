/* SPDX-License-Identifier: Apache-2.0
 *
 * A call in a child process: see isolated.h. The result comes back through a pipe, which holds it whole: the child
 * never waits for its reader.
 */
#include "cli/isolated.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

/* The least that a pipe holds. */
enum { RESULT_BYTES_MAX = PIPE_BUF };

struct result {
    stoker_status status;
    stoker_error err;
    unsigned char bytes[];
};

static void run_child(stoker_status (*call)(void *argument, stoker_error *err), void *argument, size_t size,
                      struct result *result, int fd)
{
    result->status = call(argument, &result->err);
    memcpy(result->bytes, argument, size);
    _exit(write(fd, result, sizeof *result + size) == (ssize_t)(sizeof *result + size) ? 0 : 1);
}

static stoker_status take(pid_t child, int fd, struct result *result, size_t size, stoker_error *err)
{
    int how = 0;
    ssize_t got = 0;
    while ((got = read(fd, result, sizeof *result + size)) < 0 && errno == EINTR) {
    }
    while (waitpid(child, &how, 0) < 0)
        if (errno != EINTR) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot wait for a process");
    if (WIFSIGNALED(how))
        return stk_fail(err, STOKER_ERR_CORRUPT, "the library that read it crashed (signal %d, %s)", WTERMSIG(how),
                        strsignal(WTERMSIG(how)));
    if (WEXITSTATUS(how) != 0 || got != (ssize_t)(sizeof *result + size))
        return stk_fail(err, STOKER_ERR_INTERNAL, "a process ended with %d and %zd bytes", WEXITSTATUS(how), got);
    return STOKER_OK;
}

stoker_status cli_isolated(stoker_status (*call)(void *argument, stoker_error *err), void *argument, size_t size,
                           stoker_error *err)
{
    int ends[2];
    pid_t self = getpid();
    struct result *result = calloc(1, sizeof *result + size);
    STK_ASSERT(sizeof *result + size <= RESULT_BYTES_MAX);
    if (!result) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the result of a process");
    if (pipe(ends) != 0) {
        free(result);
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot make a pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail with a valid signal */
        if (getppid() != self) _exit(1);
        (void)close(ends[0]); /* so that only the reader has it */
        run_child(call, argument, size, result, ends[1]);
    }
    stoker_status status = STOKER_OK;
    if (child < 0) status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot start a process");
    (void)close(ends[1]); /* read() ends with the child */
    if (status == STOKER_OK) status = take(child, ends[0], result, size, err);
    (void)close(ends[0]); /* nothing is left in it */
    if (status == STOKER_OK) {
        status = result->status;
        memcpy(argument, result->bytes, size);
        if (status < 0 && err) *err = result->err;
    }
    free(result);
    return status;
}
