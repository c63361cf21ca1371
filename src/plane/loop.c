/* SPDX-License-Identifier: Apache-2.0
 *
 * See loop.h. Level-triggered epoll: a handler that leaves something unread in the kernel is called again.
 */
#include "plane/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"

enum { EVENTS_AT_ONCE = 64 };

stoker_status stk_loop_init(struct stk_loop *loop, stoker_error *err)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot create an epoll descriptor");
    return STOKER_OK;
}

void stk_loop_fini(struct stk_loop *loop)
{
    if (loop->epoll_fd >= 0)
        (void)close(loop->epoll_fd); /* nothing is lost by a failing close of an epoll descriptor */
    loop->epoll_fd = -1;
}

stoker_status stk_loop_add(struct stk_loop *loop, struct stk_watch *watch, int fd, stoker_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = watch}};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot watch descriptor %d", fd);
    watch->fd = fd;
    watch->events = EPOLLIN;
    return STOKER_OK;
}

void stk_loop_remove(struct stk_loop *loop, struct stk_watch *watch)
{
    if (watch->fd < 0) return;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd,
                    NULL); /* it can only fail for a descriptor that is gone already */
    watch->fd = -1;
}

static void watch_output(struct stk_loop *loop, struct stk_watch *watch, bool wanted)
{
    uint32_t events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0u);
    if (watch->fd < 0 || watch->events == events) return;
    struct epoll_event event = {.events = events, .data = {.ptr = watch}};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) == 0) watch->events = events;
}

stoker_status stk_loop_run_once(struct stk_loop *loop, int timeout_ms, stoker_error *err)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(loop->epoll_fd, events, EVENTS_AT_ONCE, timeout_ms);
    if (count < 0 && errno != EINTR) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot wait for events");
    for (int i = 0; i < count; i++) {
        struct stk_watch *watch = events[i].data.ptr;
        if (watch->fd >= 0) watch->ready(watch, events[i].events);
    }
    return STOKER_OK;
}

stoker_status stk_link_open(struct stk_link *link, struct stk_loop *loop, int socket_fd, uint64_t incarnation,
                            stoker_error *err)
{
    stoker_status status = stk_channel_create(socket_fd, incarnation, &link->channel, err);
    link->broken = link->peer_closed = false;
    if (status != STOKER_OK) {
        link->channel = NULL;
        (void)close(socket_fd); /* nothing was sent */
        return status;
    }
    status = stk_loop_add(loop, &link->watch, stk_channel_fd(link->channel), err);
    if (status != STOKER_OK) {
        stk_channel_destroy(link->channel);
        link->channel = NULL;
    }
    return status;
}

void stk_link_close(struct stk_link *link, struct stk_loop *loop)
{
    if (!link->channel) return;
    stk_loop_remove(loop, &link->watch);
    stk_channel_destroy(link->channel);
    link->channel = NULL;
    link->broken = link->peer_closed = false;
}

void stk_link_sent(struct stk_link *link, struct stk_loop *loop, stoker_status status)
{
    if (status < 0) {
        link->broken = true;
        link->peer_closed = status == STOKER_ERR_UNAVAILABLE;
    } else {
        watch_output(loop, &link->watch, stk_channel_wants_write(link->channel));
    }
}

void stk_link_flush(struct stk_link *link, struct stk_loop *loop)
{
    if (!link->channel || link->broken || !stk_channel_wants_write(link->channel)) return;
    stk_link_sent(link, loop, stk_channel_flush(link->channel, NULL));
}
