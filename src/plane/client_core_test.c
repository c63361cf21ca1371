/* SPDX-License-Identifier: Apache-2.0
 *
 * The counted core of a client: the list under many threads, its end, the fork handler, the last goodbye.
 */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plane/batch.h"
#include "plane/client_core.h"
#include "sys/thread.h"

enum { THREADS = 4, PUSHES = 20000 };

static struct stk_client_core *make_core(int *out_peer)
{
    int fds[2];
    struct stk_channel *channel = NULL;
    struct stk_client_core *core = NULL;
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[0], 5, &channel, NULL), STOKER_OK);
    assert_int_equal(stk_client_core_create(channel, 5, &core, NULL), STOKER_OK);
    *out_peer = fds[1];
    return core;
}

struct pusher {
    struct stk_client_core *core;
    struct stoker_batch *batches;
    atomic_uint *refused;
};

static void push_many(void *argument)
{
    struct pusher *pusher = argument;
    for (int i = 0; i < PUSHES; i++) {
        pusher->batches[i].slab_id = (uint64_t)i + 1; /* plain memory that the list has to publish */
        if (!stk_client_core_push(pusher->core, &pusher->batches[i])) atomic_fetch_add(pusher->refused, 1);
        stk_client_core_wake(pusher->core);
    }
}

static size_t count_list(struct stoker_batch *list)
{
    size_t count = 0;
    for (; list; list = list->next) {
        assert_true(list->slab_id >= 1 && list->slab_id <= PUSHES);
        list->slab_id = 0; /* a block that came twice is noticed */
        count++;
    }
    return count;
}

static void test_a6_list_loses_nothing_under_many_threads(void **state)
{
    (void)state;
    int peer;
    struct stk_client_core *core = make_core(&peer);
    struct stk_thread *threads[THREADS];
    struct pusher pushers[THREADS];
    atomic_uint refused = 0;
    for (int i = 0; i < THREADS; i++) {
        pushers[i] = (struct pusher){core, calloc(PUSHES, sizeof(struct stoker_batch)), &refused};
        assert_non_null(pushers[i].batches);
        assert_int_equal(stk_thread_start("pusher", push_many, &pushers[i], &threads[i], NULL), STOKER_OK);
    }
    size_t taken = 0;
    while (taken < (size_t)THREADS * PUSHES / 2) { /* shut while they still push */
        struct pollfd polled = {.fd = core->wake_fd, .events = POLLIN};
        assert_int_equal(poll(&polled, 1, 20000), 1);
        stk_client_core_clear_wake(core);
        taken += count_list(stk_client_core_take(core));
    }
    taken += count_list(stk_client_core_shut(core));
    for (int i = 0; i < THREADS; i++) stk_thread_join(threads[i]);
    assert_int_equal(taken + atomic_load(&refused), (size_t)THREADS * PUSHES);
    assert_null(stk_client_core_shut(core));
    for (int i = 0; i < THREADS; i++) free(pushers[i].batches);
    stk_client_core_unref(core);
    (void)close(peer);
}

static void test_last_reference_says_bye(void **state)
{
    (void)state;
    for (int polite = 0; polite < 2; polite++) {
        int peer;
        uint8_t bytes[64];
        struct stk_frame frame;
        struct stk_client_core *core = make_core(&peer);
        stk_client_core_ref(core);
        atomic_store(&core->say_bye, polite);
        stk_client_core_unref(core);
        assert_int_equal(recv(peer, bytes, sizeof bytes, MSG_DONTWAIT), -1);
        assert_int_equal(errno, EAGAIN);
        stk_client_core_unref(core);
        ssize_t got = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT);
        if (polite) {
            assert_int_equal(got, STK_FRAME_HEADER_BYTES);
            assert_int_equal(stk_frame_decode(bytes, &frame, NULL), STOKER_OK);
            assert_int_equal(frame.type, STK_MESSAGE_BYE);
            assert_int_equal(frame.body_size, 0);
            assert_int_equal(frame.incarnation, 5);
            got = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT);
        }
        assert_int_equal(got, 0);
        (void)close(peer);
    }
}

static void test_a9_child_closes_its_copies(void **state)
{
    (void)state;
    int peer;
    char byte;
    struct stk_client_core *core = make_core(&peer);
    int socket_fd = stk_channel_fd(core->channel), wake_fd = core->wake_fd, hold[2];
    assert_int_equal(pipe(hold), 0);
    assert_true(stk_client_core_is_ours(core));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int good = !stk_client_core_is_ours(core) && fcntl(socket_fd, F_GETFD) < 0 && fcntl(wake_fd, F_GETFD) < 0;
        (void)close(hold[1]);
        (void)!read(hold[0], &byte, 1); /* until the parent has seen the end of the stream */
        _exit(good ? 0 : 1);
    }
    assert_true(stk_client_core_is_ours(core));
    stk_client_core_unref(core);
    /* The child lives and yet the stream has ended: it does not hold the socket. */
    struct pollfd polled = {.fd = peer, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 20000), 1);
    assert_int_equal(recv(peer, &byte, 1, 0), 0);
    int status;
    (void)close(hold[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(hold[0]);
    (void)close(peer);
}

static void test_limit_of_clients(void **state)
{
    (void)state;
    struct stk_client_core *cores[STK_CLIENTS_MAX], *more = NULL;
    int peers[STK_CLIENTS_MAX], fds[2];
    struct stk_channel *channel = NULL;
    stoker_error error;
    for (uint32_t i = 0; i < STK_CLIENTS_MAX; i++) cores[i] = make_core(&peers[i]);
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[0], 5, &channel, NULL), STOKER_OK);
    assert_int_equal(stk_client_core_create(channel, 5, &more, &error), STOKER_ERR_LIMIT);
    assert_null(more);
    (void)close(fds[1]);
    stk_client_core_unref(cores[7]);
    (void)close(peers[7]);
    cores[7] = make_core(&peers[7]); /* a place that was freed is used again */
    for (uint32_t i = 0; i < STK_CLIENTS_MAX; i++) {
        stk_client_core_unref(cores[i]);
        (void)close(peers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a6_list_loses_nothing_under_many_threads),
        cmocka_unit_test(test_last_reference_says_bye),
        cmocka_unit_test(test_a9_child_closes_its_copies),
        cmocka_unit_test(test_limit_of_clients),
    };
    return stk_run_tests(tests);
}
