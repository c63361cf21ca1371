/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/loop.h"

#include "tests/support/unit.h"

#include <fcntl.h>
#include <unistd.h>

struct probe {
    struct stk_loop *loop;
    struct stk_watch watch, *victim;
    int calls;
};

static void on_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    struct probe *probe = watch->owner;
    probe->calls++;
    if (probe->victim) stk_loop_remove(probe->loop, probe->victim);
}

static void open_probe(struct probe *probe, struct stk_loop *loop, int fd)
{
    *probe = (struct probe){.loop = loop};
    probe->watch = (struct stk_watch){on_ready, probe, -1, 0};
    assert_int_equal(stk_loop_add(loop, &probe->watch, fd, NULL), STOKER_OK);
}

static void test_ready_descriptors_are_told(void **state)
{
    (void)state;
    struct stk_loop loop;
    struct probe probe;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(stk_loop_init(&loop, NULL), STOKER_OK);
    open_probe(&probe, &loop, fds[0]);
    assert_int_equal(stk_loop_run_once(&loop, 0, NULL), STOKER_OK);
    assert_int_equal(probe.calls, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(stk_loop_run_once(&loop, -1, NULL), STOKER_OK);
    assert_int_equal(stk_loop_run_once(&loop, -1, NULL), STOKER_OK); /* what was not read is told again */
    assert_int_equal(probe.calls, 2);
    stk_loop_remove(&loop, &probe.watch);
    stk_loop_remove(&loop, &probe.watch);
    assert_int_equal(stk_loop_run_once(&loop, 0, NULL), STOKER_OK);
    assert_int_equal(probe.calls, 2);
    stk_loop_fini(&loop);
    stk_loop_fini(&loop);
    (void)close(fds[0]), (void)close(fds[1]);
}

/* Two are ready at once, and the first to be told removes the other: it is not told any more. */
static void test_removed_watch_is_not_told(void **state)
{
    (void)state;
    struct stk_loop loop;
    struct probe first, second;
    int a[2], b[2];
    assert_int_equal(pipe(a), 0);
    assert_int_equal(pipe(b), 0);
    assert_int_equal(stk_loop_init(&loop, NULL), STOKER_OK);
    open_probe(&first, &loop, a[0]);
    open_probe(&second, &loop, b[0]);
    first.victim = &second.watch;
    second.victim = &first.watch;
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "x", 1), 1);
    assert_int_equal(stk_loop_run_once(&loop, -1, NULL), STOKER_OK);
    assert_int_equal(first.calls + second.calls, 1);
    stk_loop_fini(&loop);
    (void)close(a[0]), (void)close(a[1]), (void)close(b[0]), (void)close(b[1]);
}

static void test_link_breaks_and_takes_nothing_more(void **state)
{
    (void)state;
    struct stk_loop loop;
    struct probe probe = {0};
    struct stk_link link = {.watch = {on_ready, &probe, -1, 0}};
    struct stk_message_unmap unmap = {7};
    int fds[2];
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_loop_init(&loop, NULL), STOKER_OK);
    assert_int_equal(stk_link_open(&link, &loop, fds[0], 1, NULL), STOKER_OK);
    STK_LINK_SEND(&link, &loop, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0);
    assert_false(link.broken);
    (void)close(fds[1]);
    for (int i = 0; i < 2; i++) STK_LINK_SEND(&link, &loop, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0);
    assert_true(link.broken);
    stk_link_close(&link, &loop);
    assert_null(link.channel);
    STK_LINK_SEND(&link, &loop, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0);
    stk_link_flush(&link, &loop);
    stk_link_close(&link, &loop);
    stk_loop_fini(&loop);
}

/* What the socket does not take is sent when the loop finds room. */
static void test_link_sends_the_rest_later(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct stk_loop loop;
    struct probe probe = {0};
    struct stk_link link = {.watch = {on_ready, &probe, -1, 0}};
    struct stk_channel *peer;
    int fds[2];
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_loop_init(&loop, NULL), STOKER_OK);
    assert_int_equal(stk_link_open(&link, &loop, fds[0], 1, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[1], 2, &peer, NULL), STOKER_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        struct stk_message_unmap unmap = {i};
        STK_LINK_SEND(&link, &loop, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0);
    }
    assert_true(stk_channel_wants_write(link.channel));
    for (uint64_t i = 0; i < COUNT;) {
        struct stk_incoming in;
        struct stk_message_unmap unmap;
        stoker_status status = stk_channel_receive(peer, &in, NULL);
        if (status == STOKER_AGAIN) {
            assert_int_equal(stk_loop_run_once(&loop, -1, NULL), STOKER_OK); /* there is room: it is told */
            stk_link_flush(&link, &loop);
            continue;
        }
        assert_int_equal(status, STOKER_OK);
        assert_int_equal(stk_unmap_decode(in.body, &unmap, NULL), STOKER_OK);
        assert_int_equal(unmap.segment_id, i++);
    }
    assert_false(stk_channel_wants_write(link.channel));
    int before = probe.calls;
    assert_int_equal(stk_loop_run_once(&loop, 0, NULL), STOKER_OK);
    assert_int_equal(probe.calls, before); /* room alone does not wake it any more */
    stk_channel_destroy(peer);
    stk_link_close(&link, &loop);
    stk_loop_fini(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready_descriptors_are_told),
        cmocka_unit_test(test_removed_watch_is_not_told),
        cmocka_unit_test(test_link_breaks_and_takes_nothing_more),
        cmocka_unit_test(test_link_sends_the_rest_later),
    };
    return stk_run_tests(tests);
}
