/* SPDX-License-Identifier: Apache-2.0
 *
 * Framed messages with descriptors over a connected Unix stream socket (control/unix.c). Non-blocking by default: the
 * owner polls the descriptor, drains what arrived, and flushes what it queued; blocking helpers serve the simple loops
 * of workers.
 *
 * Rules: one owner thread, except that channels of different processes are independent. Descriptors that arrive belong
 * to the receiver of the message. A peer that breaks the framing, or lets more than STK_CHANNEL_BACKLOG_BYTES_MAX pile
 * up, is reported as PROTOCOL or LIMIT and the channel is dead afterwards.
 */
#ifndef STK_CONTROL_CHANNEL_H
#define STK_CONTROL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "wire/message.h"

struct stk_channel;

/* A message that arrived. Body and descriptors lie in the channel and are borrowed until the next receive; take a
 * descriptor by copying it out of fds and setting the entry to -1. Entries left in place are closed by the next receive
 * and by destroy. */
struct stk_incoming {
    struct stk_frame frame;
    struct stk_span body;
    int *fds;
    uint32_t fd_count;
};

/* Takes socket_fd, sets it non-blocking and close-on-exec. `incarnation` goes into every frame sent. */
stoker_status stk_channel_create(int socket_fd, uint64_t incarnation, struct stk_channel **out_channel,
                                 stoker_error *err);
void stk_channel_destroy(struct stk_channel *channel); /* closes; NULL allowed */
int stk_channel_fd(const struct stk_channel *channel);
/* Closes the socket in a forked child without touching anything else (async-signal-safe). */
void stk_channel_abandon(struct stk_channel *channel);

/* Begins a message of at most body_bytes: returns a writer into the send queue (valid until end), or sets `full` on a
 * dead channel. */
stoker_status stk_channel_begin(struct stk_channel *channel, uint16_t type, size_t body_bytes,
                                struct stk_writer *out_writer, stoker_error *err);
/* Ends it: the frame is queued and sent as far as the socket takes it. The caller keeps its descriptors; those that the
 * socket does not take at once are duplicated. LIMIT if no number is free for that: the message is dropped whole and
 * the channel lives. UNAVAILABLE once the peer has closed; what it sent before can still be received. */
stoker_status stk_channel_end(struct stk_channel *channel, const struct stk_writer *writer, const int *fds,
                              uint32_t fd_count, stoker_error *err);
/* Encodes and sends one message struct in one go and sets `status`. */
#define STK_CHANNEL_SEND(status, channel, type, name, message, fds, fd_count, err)                                     \
    do {                                                                                                               \
        struct stk_writer stk_send_writer;                                                                             \
        (status) = stk_channel_begin((channel), (type), stk_##name##_size(message), &stk_send_writer, (err));          \
        if ((status) == STOKER_OK) {                                                                                   \
            stk_##name##_encode(&stk_send_writer, (message));                                                          \
            (status) = stk_channel_end((channel), &stk_send_writer, (fds), (fd_count), (err));                         \
        }                                                                                                              \
    } while (0)

/* After the peer has closed: it left bytes of ours unread, or never got them. */
bool stk_channel_unread(const struct stk_channel *channel);

bool stk_channel_wants_write(const struct stk_channel *channel);     /* poll for POLLOUT */
stoker_status stk_channel_flush(struct stk_channel *channel, stoker_error *err); /* AGAIN: more remains */

/* OK: *out holds a message. AGAIN: nothing complete yet. END: the peer closed between messages. UNAVAILABLE: it closed
 * inside one. */
stoker_status stk_channel_receive(struct stk_channel *channel, struct stk_incoming *out, stoker_error *err);

/* Blocking forms: poll until done or the monotonic time deadline_ns (UINT64_MAX: for ever); AGAIN at the deadline. */
stoker_status stk_channel_receive_wait(struct stk_channel *channel, uint64_t deadline_ns, struct stk_incoming *out,
                                       stoker_error *err);
stoker_status stk_channel_flush_wait(struct stk_channel *channel, uint64_t deadline_ns, stoker_error *err);

/* Abstract Unix sockets, named by text (at most 100 bytes). listen: AGAIN if the name is taken. connect: UNAVAILABLE if
 * nobody listens, WRONG_STATE if the other side runs under another user (peer credentials). accept: AGAIN if nobody
 * waits; checks the same. */
stoker_status stk_unix_listen(const char *name, int *out_fd, stoker_error *err);
stoker_status stk_unix_connect(const char *name, int *out_fd, stoker_error *err);
stoker_status stk_unix_accept(int listen_fd, int *out_fd, int64_t *out_pid, stoker_error *err);
stoker_status stk_unix_pair(int out_fds[2], stoker_error *err);

#endif
