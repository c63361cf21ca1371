/* SPDX-License-Identifier: Apache-2.0 */
#include "control/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "sys/thread.h"
#include "tests/support/unit.h"

struct link {
    struct stk_channel *a, *b;
    unsigned open_before;
};

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory)) count++;
    (void)closedir(directory);
    return count;
}

static struct link open_link(void)
{
    struct link link = {NULL, NULL, open_descriptors()};
    int fds[2];
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[0], 7, &link.a, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[1], 9, &link.b, NULL), STOKER_OK);
    return link;
}

static void close_link(struct link *link)
{
    stk_channel_destroy(link->a);
    stk_channel_destroy(link->b);
    assert_int_equal(open_descriptors(), link->open_before);
}

/* Byte i of message `seed`. */
static uint8_t pattern(uint64_t seed, size_t i) { return (uint8_t)(seed * 131 + i * 7 + (i >> 8)); }

static stoker_status send_bytes(struct stk_channel *channel, uint64_t seed, size_t size, const int *fds, uint32_t count,
                                stoker_error *err)
{
    struct stk_writer writer;
    stoker_status status = stk_channel_begin(channel, (uint16_t)(1 + seed % 50), size, &writer, err);
    if (status != STOKER_OK) return status;
    for (size_t i = 0; i < size; i++) writer.data[i] = pattern(seed, i);
    writer.used = size;
    return stk_channel_end(channel, &writer, fds, count, err);
}

static void expect_bytes(const struct stk_incoming *in, uint64_t seed, size_t size)
{
    assert_int_equal(in->frame.type, 1 + seed % 50);
    assert_int_equal(in->frame.incarnation, 7);
    assert_int_equal(in->body.size, size);
    const uint8_t *bytes = in->body.data;
    size_t wrong = 0;
    for (size_t i = 0; i < size; i++) wrong += bytes[i] != pattern(seed, i);
    assert_int_equal(wrong, 0);
}

static void test_small_messages_both_ways(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_incoming in;
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_AGAIN);
    assert_int_equal(send_bytes(link.a, 1, 10, NULL, 0, NULL), STOKER_OK);
    assert_int_equal(send_bytes(link.a, 2, 0, NULL, 0, NULL), STOKER_OK);
    assert_false(stk_channel_wants_write(link.a));
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_OK);
    expect_bytes(&in, 1, 10);
    assert_int_equal(in.fd_count, 0);
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_OK);
    expect_bytes(&in, 2, 0);
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_AGAIN);
    assert_int_equal(send_bytes(link.b, 3, 5, NULL, 0, NULL), STOKER_OK);
    assert_int_equal(stk_channel_receive_wait(link.a, UINT64_MAX, &in, NULL), STOKER_OK);
    assert_int_equal(in.frame.incarnation, 9);
    close_link(&link);
}

static void test_structs_through_the_macro(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_message_loader_ref sent = {4, 11}, got = {0, 0};
    struct stk_incoming in;
    stoker_status status;
    STK_CHANNEL_SEND(status, link.a, STK_MESSAGE_LOADER_BEGIN, loader_ref, &sent, NULL, 0, NULL);
    assert_int_equal(status, STOKER_OK);
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_OK);
    assert_int_equal(in.frame.type, STK_MESSAGE_LOADER_BEGIN);
    assert_int_equal(stk_loader_ref_decode(in.body, &got, NULL), STOKER_OK);
    assert_memory_equal(&sent, &got, sizeof sent);
    close_link(&link);
}

struct sender {
    struct stk_channel *channel;
    uint64_t count;
    size_t size;
    int fds[STK_MESSAGE_FDS_MAX];
    uint64_t fd_every; /* 0: never */
    stoker_status status;
};

static void send_all(void *argument)
{
    struct sender *sender = argument;
    for (uint64_t i = 0; i < sender->count && sender->status == STOKER_OK; i++) {
        uint32_t fds = sender->fd_every && i % sender->fd_every == 0 ? 1 + (uint32_t)(i % STK_MESSAGE_FDS_MAX) : 0;
        sender->status = send_bytes(sender->channel, i, sender->size ? sender->size : i % 300, sender->fds, fds, NULL);
    }
    if (sender->status == STOKER_OK) sender->status = stk_channel_flush_wait(sender->channel, UINT64_MAX, NULL);
}

static void test_large_messages_pass(void **state)
{
    (void)state;
    struct link link = open_link();
    struct sender sender = {.channel = link.a, .count = 3, .size = 30u << 20};
    struct stk_thread *thread = NULL;
    struct stk_incoming in;
    assert_int_equal(stk_thread_start("send", send_all, &sender, &thread, NULL), STOKER_OK);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(stk_channel_receive_wait(link.b, UINT64_MAX, &in, NULL), STOKER_OK);
        expect_bytes(&in, i, 30u << 20);
    }
    stk_thread_join(thread);
    assert_int_equal(sender.status, STOKER_OK);
    close_link(&link);
}

static int marker(void)
{
    char path[] = "/tmp/stk-channel-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static ino_t inode_of(int fd)
{
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    return info.st_ino;
}

/* Many messages of mixed sizes, some with descriptors, the sender far ahead of the receiver. */
static void test_many_messages_with_descriptors(void **state)
{
    (void)state;
    struct link link = open_link();
    struct sender sender = {.channel = link.a, .count = 20000, .fd_every = 97};
    struct stk_thread *thread = NULL;
    struct stk_incoming in;
    ino_t inodes[STK_MESSAGE_FDS_MAX];
    for (unsigned i = 0; i < STK_MESSAGE_FDS_MAX; i++) {
        sender.fds[i] = marker();
        inodes[i] = inode_of(sender.fds[i]);
    }
    assert_int_equal(stk_thread_start("send", send_all, &sender, &thread, NULL), STOKER_OK);
    int kept = -1;
    for (uint64_t i = 0; i < sender.count; i++) {
        assert_int_equal(stk_channel_receive_wait(link.b, UINT64_MAX, &in, NULL), STOKER_OK);
        expect_bytes(&in, i, i % 300);
        assert_int_equal(in.fd_count, i % 97 == 0 ? 1 + i % STK_MESSAGE_FDS_MAX : 0);
        for (uint32_t k = 0; k < in.fd_count; k++) {
            assert_int_equal(inode_of(in.fds[k]), inodes[k]);
            assert_int_equal(fcntl(in.fds[k], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        }
        if (i == 97) {
            kept = in.fds[1];
            in.fds[1] = -1;
        }
    }
    stk_thread_join(thread);
    assert_int_equal(sender.status, STOKER_OK);
    assert_int_equal(inode_of(kept), inodes[1]); /* taken, so not closed */
    (void)close(kept);
    for (unsigned i = 0; i < STK_MESSAGE_FDS_MAX; i++) (void)close(sender.fds[i]);
    close_link(&link);
}

/* The receiver does not read while a burst is queued: descriptors wait as duplicates and survive the sender's close. */
static void test_queued_descriptors_are_duplicates(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_incoming in;
    int fd = marker();
    ino_t inode = inode_of(fd);
    enum { COUNT = 40 };
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(send_bytes(link.a, i, 30000, &fd, i % 3 == 2, NULL), STOKER_OK);
    assert_true(stk_channel_wants_write(link.a));
    assert_int_equal(stk_channel_flush(link.a, NULL), STOKER_AGAIN);
    assert_int_equal(stk_channel_flush_wait(link.a, 0, NULL), STOKER_AGAIN);
    (void)close(fd);
    for (uint64_t i = 0; i < COUNT; i++) {
        stoker_status status;
        while ((status = stk_channel_receive(link.b, &in, NULL)) == STOKER_AGAIN)
            assert_true(stk_channel_flush(link.a, NULL) >= 0);
        assert_int_equal(status, STOKER_OK);
        expect_bytes(&in, i, 30000);
        assert_int_equal(in.fd_count, i % 3 == 2);
        if (in.fd_count) assert_int_equal(inode_of(in.fds[0]), inode);
    }
    assert_false(stk_channel_wants_write(link.a));
    close_link(&link);
}

static void test_destroy_closes_what_was_never_taken(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_incoming in;
    int fd = marker();
    for (uint64_t i = 0; i < 40; i++) assert_int_equal(send_bytes(link.a, i, 30000, &fd, 1, NULL), STOKER_OK);
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_OK);
    (void)close(fd);
    close_link(&link); /* counts the open descriptors */
}

static void test_peer_closes_between_messages(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_incoming in;
    stoker_error err = {0};
    assert_int_equal(send_bytes(link.a, 1, 10, NULL, 0, NULL), STOKER_OK);
    stk_channel_destroy(link.a);
    link.a = NULL;
    assert_int_equal(send_bytes(link.b, 1, 10, NULL, 0, &err), STOKER_ERR_UNAVAILABLE);
    assert_int_equal(send_bytes(link.b, 1, 10, NULL, 0, &err), STOKER_ERR_UNAVAILABLE);
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_OK); /* what it said before is not lost */
    expect_bytes(&in, 1, 10);
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_END);
    assert_int_equal(stk_channel_receive_wait(link.b, UINT64_MAX, &in, NULL), STOKER_END);
    close_link(&link);
}

static void test_peer_closes_with_our_bytes_unread(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_incoming in;
    assert_int_equal(send_bytes(link.b, 1, 10, NULL, 0, NULL), STOKER_OK);
    stk_channel_destroy(link.a);
    link.a = NULL;
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_END); /* and not "connection reset" */
    close_link(&link);
}

/* Raw bytes into one end of a channel. */
static struct stk_channel *open_raw(int *out_raw)
{
    int fds[2];
    struct stk_channel *channel = NULL;
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[0], 1, &channel, NULL), STOKER_OK);
    *out_raw = fds[1];
    return channel;
}

static void test_peer_closes_inside_a_message(void **state)
{
    (void)state;
    uint8_t bytes[STK_FRAME_HEADER_BYTES + 20] = {0};
    const struct stk_frame frame = {STK_MESSAGE_BYE, 0, 20, 1};
    struct stk_incoming in;
    stoker_error err = {0};
    stk_frame_encode(&frame, bytes);
    for (size_t cut = 1; cut < sizeof bytes; cut++) {
        int raw;
        struct stk_channel *channel = open_raw(&raw);
        assert_int_equal(send(raw, bytes, cut, 0), (ssize_t)cut);
        assert_int_equal(stk_channel_receive(channel, &in, &err), STOKER_AGAIN);
        (void)close(raw);
        assert_int_equal(stk_channel_receive(channel, &in, &err), STOKER_ERR_UNAVAILABLE);
        stk_channel_destroy(channel);
    }
}

static void test_bytes_one_by_one(void **state)
{
    (void)state;
    uint8_t bytes[STK_FRAME_HEADER_BYTES + 3] = {0};
    const struct stk_frame frame = {STK_MESSAGE_BYE, 0, 3, 1};
    struct stk_incoming in;
    int raw;
    stk_frame_encode(&frame, bytes);
    struct stk_channel *channel = open_raw(&raw);
    for (int round = 0; round < 5000; round++) { /* crosses the end of the buffer several times */
        for (size_t i = 0; i < sizeof bytes; i++) {
            assert_int_equal(send(raw, bytes + i, 1, 0), 1);
            assert_int_equal(stk_channel_receive(channel, &in, NULL), i + 1 < sizeof bytes ? STOKER_AGAIN : STOKER_OK);
        }
        assert_int_equal(in.body.size, 3);
    }
    (void)close(raw);
    stk_channel_destroy(channel);
}

static void expect_hostile(const uint8_t *bytes, size_t size)
{
    int raw;
    struct stk_incoming in;
    stoker_error err = {0};
    struct stk_channel *channel = open_raw(&raw);
    assert_int_equal(send(raw, bytes, size, 0), (ssize_t)size);
    assert_int_equal(stk_channel_receive(channel, &in, &err), STOKER_ERR_PROTOCOL);
    assert_int_equal(stk_channel_receive(channel, &in, &err), STOKER_ERR_PROTOCOL); /* dead for good */
    assert_int_equal(send_bytes(channel, 1, 1, NULL, 0, &err), STOKER_ERR_PROTOCOL);
    (void)close(raw);
    stk_channel_destroy(channel);
}

static void test_hostile_headers(void **state)
{
    (void)state;
    uint8_t good[STK_FRAME_HEADER_BYTES], bad[STK_FRAME_HEADER_BYTES];
    const struct stk_frame frame = {STK_MESSAGE_BYE, 0, 0, 1}, with_fd = {STK_MESSAGE_BYE, 1, 0, 1};
    stk_frame_encode(&frame, good);
    memset(bad, 0xff, sizeof bad);
    expect_hostile(bad, sizeof bad);
    memcpy(bad, good, sizeof bad);
    bad[0] ^= 1; /* magic */
    expect_hostile(bad, sizeof bad);
    stk_frame_encode(&with_fd, bad);
    expect_hostile(bad, sizeof bad); /* announces a descriptor that does not come */
}

static void send_with_fds(int raw, const void *bytes, size_t size, int fd, unsigned count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(16 * sizeof(int))];
    } control;
    struct iovec piece = {(void *)(uintptr_t)bytes, size};
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes};
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (unsigned i = 0; i < count; i++) memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    assert_int_equal(sendmsg(raw, &message, 0), (ssize_t)size);
}

/* Rule C3: every message carries the incarnation of its sender, and a connection has one sender. */
static void test_c3_a_second_incarnation_is_refused(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    struct stk_channel *channel = NULL;
    assert_int_equal(stk_channel_create(fds[1], 9, &channel, NULL), STOKER_OK);
    static const uint64_t incarnations[] = {5, 5, 6};
    for (int i = 0; i < 3; i++) {
        const struct stk_frame frame = {.type = STK_MESSAGE_BYE, .incarnation = incarnations[i]};
        uint8_t bytes[STK_FRAME_HEADER_BYTES];
        stk_frame_encode(&frame, bytes);
        assert_int_equal(write(fds[0], bytes, sizeof bytes), sizeof bytes);
    }
    struct stk_incoming in;
    stoker_error err = {0};
    assert_int_equal(stk_channel_receive(channel, &in, NULL), STOKER_OK);
    assert_int_equal(stk_channel_receive(channel, &in, NULL), STOKER_OK);
    assert_int_equal(in.frame.incarnation, 5);
    assert_int_equal(stk_channel_receive(channel, &in, &err), STOKER_ERR_PROTOCOL);
    assert_string_equal(err.message, "message 9 is of incarnation 6, those before were of 5");
    stk_channel_destroy(channel);
    (void)close(fds[0]);
}

static void test_unasked_descriptors(void **state)
{
    (void)state;
    uint8_t bytes[STK_FRAME_HEADER_BYTES + 100] = {0};
    const struct stk_frame plain = {STK_MESSAGE_BYE, 0, 100, 1};
    struct stk_incoming in;
    unsigned before = open_descriptors();
    int raw, fd = marker();

    struct stk_channel *channel = open_raw(&raw); /* more at once than any message may have */
    stk_frame_encode(&plain, bytes);
    send_with_fds(raw, bytes, sizeof bytes, fd, 16);
    assert_int_equal(stk_channel_receive(channel, &in, NULL), STOKER_ERR_PROTOCOL);
    (void)close(raw);
    stk_channel_destroy(channel);

    channel = open_raw(&raw); /* a message that announces none */
    send_with_fds(raw, bytes, sizeof bytes, fd, 1);
    assert_int_equal(stk_channel_receive(channel, &in, NULL), STOKER_OK);
    assert_int_equal(in.fd_count, 0);
    assert_int_equal(stk_channel_receive(channel, &in, NULL), STOKER_ERR_PROTOCOL);
    (void)close(raw);
    stk_channel_destroy(channel);

    channel = open_raw(&raw); /* with every byte of a body that never ends */
    stoker_status status = STOKER_AGAIN;
    for (size_t i = 0; i < 50 && status == STOKER_AGAIN; i++) {
        send_with_fds(raw, bytes + i, 1, fd, 4);
        status = stk_channel_receive(channel, &in, NULL);
    }
    assert_int_equal(status, STOKER_ERR_PROTOCOL);
    (void)close(raw);
    stk_channel_destroy(channel);
    (void)close(fd);
    assert_int_equal(open_descriptors(), before);
}

static void test_backlog_has_a_limit(void **state)
{
    (void)state;
    struct link link = open_link();
    stoker_error err = {0};
    struct stk_writer writer;
    stoker_status status = STOKER_OK;
    unsigned sent = 0;
    while (status == STOKER_OK && sent < 100) {
        status = stk_channel_begin(link.a, STK_MESSAGE_BYE, 16u << 20, &writer, &err);
        if (status != STOKER_OK) break;
        writer.used = 16u << 20; /* contents do not matter: untouched pages cost nothing */
        status = stk_channel_end(link.a, &writer, NULL, 0, &err);
        sent++;
    }
    assert_int_equal(status, STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "does not read"));
    assert_in_range(sent, 14, 17);
    assert_int_equal(stk_channel_flush(link.a, &err), STOKER_ERR_LIMIT);
    assert_int_equal(stk_channel_begin(link.b, 1, (size_t)STK_MESSAGE_BYTES_MAX + 1, &writer, &err), STOKER_ERR_LIMIT);
    assert_true(writer.full);
    close_link(&link);
}

static void test_no_free_descriptor_is_named(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_incoming in;
    stoker_error err = {0};
    struct rlimit before, tight;
    int fd = marker();
    assert_int_equal(send_bytes(link.a, 1, 1, &fd, 1, NULL), STOKER_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)fd + 1; /* every number below is taken */
    int fill[64], filled = 0;
    while (filled < 64 && (fill[filled] = fcntl(0, F_DUPFD, 0)) >= 0 && fill[filled] < fd) filled++;
    assert_true(filled < 64 && fill[filled] > fd);
    (void)close(fill[filled]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    stoker_status status = stk_channel_receive(link.b, &in, &err);
    stoker_error queue_err = {0};
    stoker_status queue_status = STOKER_OK;
    for (int i = 0; i < 100 && queue_status == STOKER_OK; i++)
        queue_status = send_bytes(link.a, 1, 30000, &fd, 1, &queue_err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "ulimit -n"));
    assert_int_equal(queue_status, STOKER_ERR_LIMIT);
    assert_non_null(strstr(queue_err.message, "ulimit -n"));
    assert_int_equal(send_bytes(link.a, 1, 10, NULL, 0, NULL), STOKER_OK); /* the sender lives on */
    while (filled > 0) (void)close(fill[--filled]);
    (void)close(fd);
    close_link(&link);
}

static void test_waits_end_at_the_deadline(void **state)
{
    (void)state;
    struct link link = open_link();
    struct stk_incoming in;
    assert_int_equal(stk_channel_receive_wait(link.a, 0, &in, NULL), STOKER_AGAIN);
    assert_int_equal(stk_channel_flush_wait(link.a, 0, NULL), STOKER_OK);
    stk_channel_abandon(link.a);
    assert_int_equal(stk_channel_receive(link.a, &in, NULL), STOKER_ERR_WRONG_STATE);
    assert_int_equal(stk_channel_receive(link.b, &in, NULL), STOKER_END);
    close_link(&link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_messages_both_ways),
        cmocka_unit_test(test_structs_through_the_macro),
        cmocka_unit_test(test_large_messages_pass),
        cmocka_unit_test(test_many_messages_with_descriptors),
        cmocka_unit_test(test_queued_descriptors_are_duplicates),
        cmocka_unit_test(test_destroy_closes_what_was_never_taken),
        cmocka_unit_test(test_peer_closes_between_messages),
        cmocka_unit_test(test_peer_closes_with_our_bytes_unread),
        cmocka_unit_test(test_peer_closes_inside_a_message),
        cmocka_unit_test(test_bytes_one_by_one),
        cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_c3_a_second_incarnation_is_refused),
        cmocka_unit_test(test_unasked_descriptors),
        cmocka_unit_test(test_backlog_has_a_limit),
        cmocka_unit_test(test_no_free_descriptor_is_named),
        cmocka_unit_test(test_waits_end_at_the_deadline),
    };
    return stk_run_tests(tests);
}
