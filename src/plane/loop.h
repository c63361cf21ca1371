/* SPDX-License-Identifier: Apache-2.0
 *
 * The one loop of a DataServer: descriptors that it watches, and channels among them.
 *
 * A watch lives in its owner's struct, which is never freed while the loop runs: an event that was fetched before a
 * watch was removed finds fd -1 and is skipped; one that finds the watch in use again wakes its new owner for nothing,
 * which is harmless because every handler reads until there is no more and checks what it was told.
 *
 * A send that fails marks the link broken and nothing else; its owner drops it at a place where nobody iterates over
 * it.
 */
#ifndef STK_PLANE_LOOP_H
#define STK_PLANE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

#include "control/channel.h"

struct stk_watch;
typedef void (*stk_ready_fn)(struct stk_watch *watch, uint32_t events);

struct stk_watch {
    stk_ready_fn ready;
    void *owner;
    int fd; /* -1: not watched; borrowed */
    uint32_t events;
};

struct stk_loop {
    int epoll_fd;
};

#define STK_WATCH_NONE                                                                                                 \
    {                                                                                                                  \
        0, 0, -1, 0                                                                                                    \
    }

stoker_status stk_loop_init(struct stk_loop *loop, stoker_error *err);
void stk_loop_fini(struct stk_loop *loop);
/* Watches fd for input. The caller has set ready and owner. */
stoker_status stk_loop_add(struct stk_loop *loop, struct stk_watch *watch, int fd, stoker_error *err);
void stk_loop_remove(struct stk_loop *loop, struct stk_watch *watch); /* a watch that is not added is ignored */
/* Waits up to timeout_ms (-1: for ever) and calls the handlers of what is ready. */
stoker_status stk_loop_run_once(struct stk_loop *loop, int timeout_ms, stoker_error *err);

/* A channel that the loop watches. */
struct stk_link {
    struct stk_channel *channel; /* NULL: closed */
    struct stk_watch watch;
    bool broken;      /* nothing more is sent */
    bool peer_closed; /* that is why; what the peer sent before is still to be received */
};

/* Takes socket_fd, even on failure. */
stoker_status stk_link_open(struct stk_link *link, struct stk_loop *loop, int socket_fd, uint64_t incarnation,
                            stoker_error *err);
void stk_link_close(struct stk_link *link, struct stk_loop *loop); /* a closed link is ignored */
/* After a send with this outcome: notes a failure, asks for room where the socket took only a part. */
void stk_link_sent(struct stk_link *link, struct stk_loop *loop, stoker_status status);
/* On an event: sends what waits. */
void stk_link_flush(struct stk_link *link, struct stk_loop *loop);

/* Encodes and sends one message; a broken or closed link takes nothing. */
#define STK_LINK_SEND(link, loop, type, name, message, fds, fd_count)                                                  \
    do {                                                                                                               \
        if ((link)->channel && !(link)->broken) {                                                                      \
            stoker_status stk_link_status;                                                                             \
            STK_CHANNEL_SEND(stk_link_status, (link)->channel, type, name, message, fds, fd_count, NULL);              \
            stk_link_sent((link), (loop), stk_link_status);                                                            \
        }                                                                                                              \
    } while (0)

#endif
