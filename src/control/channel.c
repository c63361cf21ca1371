/* SPDX-License-Identifier: Apache-2.0
 *
 * Framed messages with descriptors: see channel.h.
 *
 * Both queues are single buffers that only grow, so a connection that has reached its working size allocates nothing.
 * A frame's descriptors go out with its first byte. The kernel ends a read behind the bytes that carried descriptors,
 * so they arrive in the order of the frames and never later than the header that counts them: a queue of eight entries
 * (the frame that is being completed and the one whose first byte came with the same read) is all that an honest peer
 * can fill.
 */
#include "control/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "sys/clock.h"

enum {
    BUFFER_BYTES_MIN = 64 << 10, /* one read of many small messages */
    ARRIVED_FDS_MAX = 2 * STK_MESSAGE_FDS_MAX
};

/* Descriptors of a queued frame that has not begun to leave. */
struct parcel {
    uint64_t position; /* of the frame's first byte in the stream */
    uint32_t count;
    int fds[STK_MESSAGE_FDS_MAX];
};

struct stk_channel {
    int fd;
    uint64_t incarnation;      /* ours */
    uint64_t peer_incarnation; /* of the first frame that came */
    bool peer_known;
    stoker_status dead; /* OK, or what every further call returns */
    bool unread;        /* it did so before it had read, or got, all of ours */
    bool send_closed;   /* the peer closed; what it sent before is still to be received */

    /* Sending: bytes [out_start, out_end) of `out` wait; sent_bytes have left. */
    uint8_t *out;
    size_t out_cap, out_start, out_end;
    uint64_t sent_bytes;
    bool begun;
    uint16_t begun_type;
    struct parcel *parcels; /* ring of parcel_cap entries */
    size_t parcel_cap, parcel_first, parcel_count;

    /* Receiving: bytes [in_start, in_end) of `in` wait; `lent` of them belong to the message handed out last. */
    uint8_t *in;
    size_t in_cap, in_start, in_end, lent;
    int arrived[ARRIVED_FDS_MAX];
    uint32_t arrived_count;
    int lent_fds[STK_MESSAGE_FDS_MAX];
    uint32_t lent_fd_count;
    bool ended;
};

static void close_fds(int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (fds[i] >= 0) (void)close(fds[i]); /* duplicates or unwanted: no data is lost */
}

static stoker_status fail_no_descriptor(stoker_error *err, int os_error, const char *doing)
{
    struct rlimit limit = {0, 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit); /* zero in the text is the worst that can come of it */
    return stk_fail_os(err, STOKER_ERR_LIMIT, os_error, "no free descriptor %s: raise ulimit -n, now %llu", doing,
                       (unsigned long long)limit.rlim_cur);
}

static stoker_status fail_dead(const struct stk_channel *channel, stoker_error *err)
{
    return stk_fail(err, channel->dead, "the connection was given up after an earlier error");
}

static void drop_queue(struct stk_channel *channel)
{
    for (; channel->parcel_count > 0; channel->parcel_count--) {
        STK_ASSERT(channel->parcels);
        struct parcel *parcel = &channel->parcels[channel->parcel_first];
        close_fds(parcel->fds, parcel->count);
        channel->parcel_first = (channel->parcel_first + 1) % channel->parcel_cap;
    }
    channel->sent_bytes += channel->out_end - channel->out_start;
    channel->out_start = channel->out_end = 0;
}

/* Ends the channel for good; `status` has its message in *err already. */
static stoker_status give_up(struct stk_channel *channel, stoker_status status)
{
    channel->dead = status;
    drop_queue(channel);
    return status;
}

stoker_status stk_channel_create(int socket_fd, uint64_t incarnation, struct stk_channel **out_channel,
                                 stoker_error *err)
{
    struct stk_channel *channel = calloc(1, sizeof *channel);
    uint8_t *in = malloc(BUFFER_BYTES_MIN), *out = malloc(BUFFER_BYTES_MIN);
    int flags = fcntl(socket_fd, F_GETFL);
    if (!channel || !in || !out) {
        (void)stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a connection");
    } else if (flags < 0 || fcntl(socket_fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
               fcntl(socket_fd, F_SETFD, FD_CLOEXEC) != 0) {
        (void)stk_fail_os(err, STOKER_ERR_IO, errno, "cannot set up socket %d", socket_fd);
    } else {
        channel->fd = socket_fd;
        channel->incarnation = incarnation;
        channel->in = in;
        channel->in_cap = BUFFER_BYTES_MIN;
        channel->out = out;
        channel->out_cap = BUFFER_BYTES_MIN;
        *out_channel = channel;
        return STOKER_OK;
    }
    stoker_status status = channel && in && out ? STOKER_ERR_IO : STOKER_ERR_NO_MEMORY;
    free(in);
    free(out);
    free(channel);
    return status;
}

void stk_channel_destroy(struct stk_channel *channel)
{
    if (!channel) return;
    drop_queue(channel);
    close_fds(channel->lent_fds, channel->lent_fd_count);
    close_fds(channel->arrived, channel->arrived_count);
    if (channel->fd >= 0) (void)close(channel->fd); /* a socket: nothing is lost that the peer does not see as closed */
    free(channel->parcels);
    free(channel->in);
    free(channel->out);
    free(channel);
}

int stk_channel_fd(const struct stk_channel *channel) { return channel->fd; }

void stk_channel_abandon(struct stk_channel *channel)
{
    if (channel->fd >= 0) (void)close(channel->fd); /* the parent's copy stays open */
    channel->fd = -1;
    channel->dead = STOKER_ERR_WRONG_STATE;
}

/* Makes room for `need` more bytes behind out_end. Moves the waiting bytes to the front only when they fill less than
 * half of the buffer, so each byte moves a bounded number of times. */
static stoker_status make_room(struct stk_channel *channel, size_t need, stoker_error *err)
{
    size_t waiting = channel->out_end - channel->out_start;
    if (waiting == 0) channel->out_start = channel->out_end = 0;
    if (channel->out_cap - channel->out_end >= need) return STOKER_OK;
    if (waiting + need > channel->out_cap || waiting > channel->out_cap / 2) {
        size_t cap = channel->out_cap * 2 > waiting + need ? channel->out_cap * 2 : waiting + need;
        uint8_t *grown = malloc(cap);
        if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu unsent bytes", waiting + need);
        memcpy(grown, channel->out + channel->out_start, waiting);
        free(channel->out);
        channel->out = grown;
        channel->out_cap = cap;
    } else {
        memmove(channel->out, channel->out + channel->out_start, waiting);
    }
    channel->out_start = 0;
    channel->out_end = waiting;
    return STOKER_OK;
}

stoker_status stk_channel_begin(struct stk_channel *channel, uint16_t type, size_t body_bytes,
                                struct stk_writer *out_writer, stoker_error *err)
{
    STK_ASSERT(!channel->begun);
    *out_writer = (struct stk_writer){NULL, 0, 0, true};
    if (channel->dead != STOKER_OK) return fail_dead(channel, err);
    if (channel->send_closed) return stk_fail(err, STOKER_ERR_UNAVAILABLE, "the peer closed the connection");
    if (body_bytes > STK_MESSAGE_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "a message of %zu bytes, at most %u are allowed", body_bytes,
                        STK_MESSAGE_BYTES_MAX);
    size_t waiting = channel->out_end - channel->out_start, need = STK_FRAME_HEADER_BYTES + body_bytes;
    if (waiting + need > STK_CHANNEL_BACKLOG_BYTES_MAX)
        return give_up(channel,
                       stk_fail(err, STOKER_ERR_LIMIT, "the peer does not read: %zu bytes wait, at most %u are kept",
                                waiting, STK_CHANNEL_BACKLOG_BYTES_MAX));
    STK_TRY(make_room(channel, need, err));
    *out_writer = (struct stk_writer){channel->out + channel->out_end + STK_FRAME_HEADER_BYTES, body_bytes, 0, false};
    channel->begun = true;
    channel->begun_type = type;
    return STOKER_OK;
}

static stoker_status grow_parcels(struct stk_channel *channel, stoker_error *err)
{
    if (channel->parcel_count < channel->parcel_cap) return STOKER_OK;
    size_t cap = channel->parcel_cap ? channel->parcel_cap * 2 : 16; /* bounded: each entry holds a descriptor */
    struct parcel *grown = malloc(cap * sizeof *grown);
    if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for unsent descriptors");
    STK_ASSERT(channel->parcel_cap > 0 || channel->parcel_count == 0);
    for (size_t i = 0; i < channel->parcel_count; i++)
        grown[i] = channel->parcels[(channel->parcel_first + i) % channel->parcel_cap];
    free(channel->parcels);
    channel->parcels = grown;
    channel->parcel_cap = cap;
    channel->parcel_first = 0;
    return STOKER_OK;
}

/* Queues descriptors for the frame that begins at `position`. */
static stoker_status add_parcel(struct stk_channel *channel, uint64_t position, const int *fds, uint32_t count,
                                stoker_error *err)
{
    STK_TRY(grow_parcels(channel, err));
    struct parcel *parcel = &channel->parcels[(channel->parcel_first + channel->parcel_count) % channel->parcel_cap];
    for (uint32_t i = 0; i < count; i++) {
        parcel->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        if (parcel->fds[i] < 0) {
            int os_error = errno;
            close_fds(parcel->fds, i);
            if (os_error == EMFILE) return fail_no_descriptor(err, os_error, "to queue a message");
            return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot duplicate descriptor %d", fds[i]);
        }
    }
    parcel->position = position;
    parcel->count = count;
    channel->parcel_count++;
    return STOKER_OK;
}

/* One sendmsg of `size` bytes with descriptors. Bytes taken, or minus errno. */
static ssize_t send_some(int fd, uint8_t *data, size_t size, const int *fds, uint32_t fd_count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(STK_MESSAGE_FDS_MAX * sizeof(int))];
    } control;
    struct iovec piece = {data, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

/* What a failed send means for the channel. AGAIN leaves it as it is. */
static stoker_status judge_send(struct stk_channel *channel, int os_error, stoker_error *err)
{
    if (os_error == EAGAIN || os_error == EWOULDBLOCK) return STOKER_AGAIN;
    if (os_error == EPIPE || os_error == ECONNRESET) {
        channel->send_closed = channel->unread = true;
        drop_queue(channel);
        return stk_fail_os(err, STOKER_ERR_UNAVAILABLE, os_error, "the peer closed the connection");
    }
    if (os_error == ETOOMANYREFS)
        return give_up(channel, fail_no_descriptor(err, os_error, "in flight to the peer, which does not read"));
    return give_up(channel, stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot send to the peer"));
}

static void note_sent(struct stk_channel *channel, size_t sent)
{
    channel->out_start += sent;
    channel->sent_bytes += sent;
    if (channel->out_start == channel->out_end) channel->out_start = channel->out_end = 0;
}

stoker_status stk_channel_flush(struct stk_channel *channel, stoker_error *err)
{
    if (channel->dead != STOKER_OK) return fail_dead(channel, err);
    while (channel->out_start < channel->out_end) {
        size_t size = channel->out_end - channel->out_start;
        struct parcel *parcel = channel->parcel_count ? &channel->parcels[channel->parcel_first] : NULL;
        size_t first = 0; /* the parcel's own frame may be followed by others up to the next parcel */
        if (parcel && parcel->position == channel->sent_bytes) {
            first = 1;
            struct parcel *next =
                channel->parcel_count > 1 ? &channel->parcels[(channel->parcel_first + 1) % channel->parcel_cap] : NULL;
            if (next) size = (size_t)(next->position - channel->sent_bytes);
        } else if (parcel) {
            size = (size_t)(parcel->position - channel->sent_bytes);
        }
        ssize_t sent = send_some(channel->fd, channel->out + channel->out_start, size, first ? parcel->fds : NULL,
                                 first ? parcel->count : 0);
        if (sent < 0) return judge_send(channel, (int)-sent, err);
        if (first) {
            close_fds(parcel->fds, parcel->count);
            channel->parcel_first = (channel->parcel_first + 1) % channel->parcel_cap;
            channel->parcel_count--;
        }
        note_sent(channel, (size_t)sent);
    }
    return STOKER_OK;
}

stoker_status stk_channel_end(struct stk_channel *channel, const struct stk_writer *writer, const int *fds,
                              uint32_t fd_count, stoker_error *err)
{
    STK_ASSERT(channel->begun);
    STK_ASSERT(!writer->full);
    STK_ASSERT(fd_count <= STK_MESSAGE_FDS_MAX);
    channel->begun = false;
    bool idle = channel->out_start == channel->out_end;
    uint64_t position = channel->sent_bytes + (channel->out_end - channel->out_start);
    struct stk_frame frame = {channel->begun_type, (uint16_t)fd_count, (uint32_t)writer->used, channel->incarnation};
    size_t size = STK_FRAME_HEADER_BYTES + writer->used;
    uint8_t *start = channel->out + channel->out_end;
    stk_frame_encode(&frame, start);

    if (idle) { /* the usual case: straight to the socket, nothing duplicated */
        ssize_t sent = send_some(channel->fd, start, size, fds, fd_count);
        channel->out_end += sent > 0 ? size : 0;
        if (sent > 0) note_sent(channel, (size_t)sent);
        if (sent >= 0) return STOKER_OK; /* the rest waits for the socket; its descriptors have left */
        stoker_status status = judge_send(channel, (int)-sent, err);
        if (status != STOKER_AGAIN) return status;
    }
    if (fd_count > 0) STK_TRY(add_parcel(channel, position, fds, fd_count, err));
    channel->out_end += size;
    if (idle) return STOKER_OK; /* the socket has just refused */
    stoker_status status = stk_channel_flush(channel, err);
    return status == STOKER_AGAIN ? STOKER_OK : status;
}

bool stk_channel_wants_write(const struct stk_channel *channel) { return channel->out_start < channel->out_end; }

/* Gives the message handed out last back to the buffer. */
static void take_back(struct stk_channel *channel)
{
    close_fds(channel->lent_fds, channel->lent_fd_count);
    channel->lent_fd_count = 0;
    channel->in_start += channel->lent;
    channel->lent = 0;
    if (channel->in_start == channel->in_end) channel->in_start = channel->in_end = 0;
}

/* Makes the buffer hold a frame of `total` bytes that begins at in_start. */
static stoker_status make_place(struct stk_channel *channel, size_t total, stoker_error *err)
{
    if (channel->in_cap - channel->in_start >= total) return STOKER_OK;
    size_t have = channel->in_end - channel->in_start;
    if (total <= channel->in_cap) {
        memmove(channel->in, channel->in + channel->in_start, have);
    } else {
        uint8_t *grown = malloc(total);
        if (!grown)
            return give_up(channel, stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a message of %zu bytes", total));
        memcpy(grown, channel->in + channel->in_start, have);
        free(channel->in);
        channel->in = grown;
        channel->in_cap = total;
    }
    channel->in_start = 0;
    channel->in_end = have;
    return STOKER_OK;
}

/* Hands out the first frame of the buffer if it is complete, else AGAIN with the buffer ready for more of it. */
static stoker_status take_frame(struct stk_channel *channel, struct stk_incoming *out, stoker_error *err)
{
    size_t have = channel->in_end - channel->in_start;
    if (have < STK_FRAME_HEADER_BYTES) {
        STK_TRY(make_place(channel, STK_FRAME_HEADER_BYTES, err));
        if (have == 0 && channel->arrived_count > 0)
            return give_up(channel, stk_fail(err, STOKER_ERR_PROTOCOL, "%u descriptors came with no message",
                                             channel->arrived_count));
        return STOKER_AGAIN;
    }
    struct stk_frame frame;
    stoker_status status = stk_frame_decode(channel->in + channel->in_start, &frame, err);
    if (status != STOKER_OK) return give_up(channel, status);
    if (frame.fd_count > channel->arrived_count)
        return give_up(channel, stk_fail(err, STOKER_ERR_PROTOCOL, "message %u announces %u descriptors, %u came",
                                         frame.type, frame.fd_count, channel->arrived_count));
    /* Two processes on one socket (a forked child that kept it) would mix their frames (rule C3). */
    if (channel->peer_known && frame.incarnation != channel->peer_incarnation)
        return give_up(channel, stk_fail(err, STOKER_ERR_PROTOCOL,
                                         "message %u is of incarnation %llx, those before were of %llx", frame.type,
                                         (unsigned long long)frame.incarnation,
                                         (unsigned long long)channel->peer_incarnation));
    channel->peer_known = true;
    channel->peer_incarnation = frame.incarnation;
    size_t total = STK_FRAME_HEADER_BYTES + frame.body_size;
    if (have < total) {
        STK_TRY(make_place(channel, total, err));
        return STOKER_AGAIN;
    }
    channel->lent = total;
    channel->lent_fd_count = frame.fd_count;
    memcpy(channel->lent_fds, channel->arrived, frame.fd_count * sizeof(int));
    channel->arrived_count -= frame.fd_count;
    memmove(channel->arrived, channel->arrived + frame.fd_count, channel->arrived_count * sizeof(int));
    out->frame = frame;
    out->body = (struct stk_span){channel->in + channel->in_start + STK_FRAME_HEADER_BYTES, frame.body_size};
    out->fds = channel->lent_fds;
    out->fd_count = frame.fd_count;
    return STOKER_OK;
}

static stoker_status keep_arrived(struct stk_channel *channel, struct msghdr *message, stoker_error *err)
{
    uint32_t came = 0;
    bool excess = false;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            came++;
            if (channel->arrived_count < ARRIVED_FDS_MAX) {
                channel->arrived[channel->arrived_count++] = fd;
            } else {
                (void)close(fd); /* unasked for */
                excess = true;
            }
        }
    }
    if (message->msg_flags & MSG_CTRUNC) { /* the kernel found no number for one, or the peer sent more than we take */
        if (came < STK_MESSAGE_FDS_MAX)
            return give_up(channel, fail_no_descriptor(err, EMFILE, "to receive a message"));
        excess = true;
    }
    if (excess)
        return give_up(channel, stk_fail(err, STOKER_ERR_PROTOCOL, "more descriptors came than messages announce"));
    return STOKER_OK;
}

/* One recvmsg into the free end of the buffer. OK: something came. END: the peer closed. */
static stoker_status read_some(struct stk_channel *channel, stoker_error *err)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(STK_MESSAGE_FDS_MAX * sizeof(int))];
    } control;
    struct iovec piece = {channel->in + channel->in_end, channel->in_cap - channel->in_end};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    STK_ASSERT(piece.iov_len > 0);
    ssize_t got;
    do {
        got = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        channel->in_end += (size_t)got;
        return keep_arrived(channel, &message, err);
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return STOKER_AGAIN;
    if (got < 0 && errno != ECONNRESET) /* reset: it closed with unread bytes of ours, as a killed process does */
        return give_up(channel, stk_fail_os(err, STOKER_ERR_IO, errno, "cannot receive from the peer"));
    if (got < 0) channel->unread = true;
    channel->ended = true;
    return STOKER_END;
}

bool stk_channel_unread(const struct stk_channel *channel) { return channel->unread; }

stoker_status stk_channel_receive(struct stk_channel *channel, struct stk_incoming *out, stoker_error *err)
{
    take_back(channel);
    if (channel->dead != STOKER_OK) return fail_dead(channel, err);
    for (;;) {
        stoker_status status = take_frame(channel, out, err);
        if (status != STOKER_AGAIN) return status;
        status = channel->ended ? STOKER_END : read_some(channel, err);
        if (status == STOKER_OK) continue;
        if (status == STOKER_END && channel->in_end > channel->in_start)
            return stk_fail(err, STOKER_ERR_UNAVAILABLE, "the peer closed inside a message, after %zu bytes of it",
                            channel->in_end - channel->in_start);
        return status;
    }
}

/* Polls until one of `events` or the deadline. False at the deadline. */
static bool wait_for(const struct stk_channel *channel, short events, uint64_t deadline_ns)
{
    for (;;) {
        int timeout = -1;
        if (deadline_ns != UINT64_MAX) {
            uint64_t now = stk_clock_now_ns();
            if (now >= deadline_ns) return false;
            uint64_t ms = (deadline_ns - now + 999999) / 1000000;
            timeout = ms > 3600000 ? 3600000 : (int)ms;
        }
        struct pollfd entry = {channel->fd, events, 0};
        int ready = poll(&entry, 1, timeout);
        if (ready > 0) return true;
        if (ready < 0) STK_ASSERT(errno == EINTR);
    }
}

stoker_status stk_channel_receive_wait(struct stk_channel *channel, uint64_t deadline_ns, struct stk_incoming *out,
                                       stoker_error *err)
{
    for (;;) {
        stoker_status status = stk_channel_receive(channel, out, err);
        if (status != STOKER_AGAIN) return status;
        bool more = stk_channel_wants_write(channel);
        if (!wait_for(channel, more ? POLLIN | POLLOUT : POLLIN, deadline_ns)) return STOKER_AGAIN;
        if (!more) continue;
        status = stk_channel_flush(channel, err);
        if (status < 0 && status != STOKER_ERR_UNAVAILABLE) return status; /* closed: what came before is still read */
    }
}

stoker_status stk_channel_flush_wait(struct stk_channel *channel, uint64_t deadline_ns, stoker_error *err)
{
    for (;;) {
        stoker_status status = stk_channel_flush(channel, err);
        if (status != STOKER_AGAIN) return status;
        if (!wait_for(channel, POLLOUT, deadline_ns)) return STOKER_AGAIN;
    }
}
