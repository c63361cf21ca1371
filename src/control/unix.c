/* SPDX-License-Identifier: Apache-2.0
 *
 * Abstract Unix sockets: see channel.h. An abstract name is no file: the bind is atomic, and the name vanishes with the
 * last descriptor of its socket, so no crash can leave one behind (rule B7). Such names carry no permissions, therefore
 * both sides compare the peer's user.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "control/channel.h"
#include "sys/process.h"

enum { NAME_BYTES_MAX = 100 };

static stoker_status fail_socket(stoker_error *err, int os_error, const char *doing, const char *name)
{
    if (os_error == EMFILE || os_error == ENFILE) {
        struct rlimit limit = {0, 0};
        (void)getrlimit(RLIMIT_NOFILE, &limit); /* zero in the text is the worst that can come of it */
        return stk_fail_os(err, STOKER_ERR_LIMIT, os_error, "cannot %s '%s': raise ulimit -n, now %llu", doing, name,
                           (unsigned long long)limit.rlim_cur);
    }
    return stk_fail_os(err, os_error == ENOMEM || os_error == ENOBUFS ? STOKER_ERR_NO_MEMORY : STOKER_ERR_IO, os_error,
                       "cannot %s '%s'", doing, name);
}

static stoker_status fill_address(const char *name, struct sockaddr_un *out, socklen_t *out_size, stoker_error *err)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a socket name of %zu bytes, 1 to %d are allowed", length,
                        NAME_BYTES_MAX);
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, name, length); /* the leading zero byte makes it abstract */
    *out_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return STOKER_OK;
}

/* Takes fd: closes it on failure. */
static stoker_status check_peer(int fd, int64_t *out_pid, stoker_error *err)
{
    int64_t pid = 0;
    uint32_t uid = 0;
    stoker_status status = stk_process_peer(fd, &pid, &uid, err);
    if (status == STOKER_OK && uid != geteuid())
        status = stk_fail(err, STOKER_ERR_WRONG_STATE, "the peer (pid %lld) runs as user %u, we as %u", (long long)pid,
                          uid, (unsigned)geteuid());
    if (status != STOKER_OK) {
        (void)close(fd); /* nothing was sent */
        return status;
    }
    if (out_pid) *out_pid = pid;
    return STOKER_OK;
}

stoker_status stk_unix_listen(const char *name, int *out_fd, stoker_error *err)
{
    struct sockaddr_un address;
    socklen_t size;
    STK_TRY(fill_address(name, &address, &size, err));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail_socket(err, errno, "listen on", name);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, STK_RANKS_MAX) != 0) {
        int os_error = errno;
        (void)close(fd); /* nothing was sent */
        if (os_error == EADDRINUSE) return STOKER_AGAIN;
        return fail_socket(err, os_error, "listen on", name);
    }
    *out_fd = fd;
    return STOKER_OK;
}

stoker_status stk_unix_connect(const char *name, int *out_fd, stoker_error *err)
{
    struct sockaddr_un address;
    socklen_t size;
    STK_TRY(fill_address(name, &address, &size, err));
    /* Non-blocking: with a full queue the kernel would otherwise let us wait for ever. */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail_socket(err, errno, "connect to", name);
    int result;
    do {
        result = connect(fd, (struct sockaddr *)&address, size);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        int os_error = errno;
        (void)close(fd); /* nothing was sent */
        if (os_error == ECONNREFUSED || os_error == EAGAIN || os_error == ENOENT)
            return stk_fail_os(err, STOKER_ERR_UNAVAILABLE, os_error, "nobody answers on '%s'", name);
        return fail_socket(err, os_error, "connect to", name);
    }
    STK_TRY(check_peer(fd, NULL, err));
    *out_fd = fd;
    return STOKER_OK;
}

stoker_status stk_unix_accept(int listen_fd, int *out_fd, int64_t *out_pid, stoker_error *err)
{
    int fd;
    do {
        fd = accept(listen_fd, NULL, NULL);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return STOKER_AGAIN;
        return fail_socket(err, errno, "accept on", "socket");
    }
    /* accept4 is not POSIX; children start with all other descriptors closed, so the moment in between is safe. */
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        int os_error = errno;
        (void)close(fd); /* nothing was sent */
        return fail_socket(err, os_error, "accept on", "socket");
    }
    int64_t pid = 0;
    STK_TRY(check_peer(fd, &pid, err));
    *out_fd = fd;
    if (out_pid) *out_pid = pid;
    return STOKER_OK;
}

stoker_status stk_unix_pair(int out_fds[2], stoker_error *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return fail_socket(err, errno, "create", "socket pair");
    out_fds[0] = fds[0];
    out_fds[1] = fds[1];
    return STOKER_OK;
}
