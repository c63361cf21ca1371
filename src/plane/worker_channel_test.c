/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels of templates and workers against the other end of a socket pair.
 */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "control/channel.h"
#include "plane/worker_channel.h"
#include "sys/clock.h"
#include "sys/shmem.h"
#include "sys/thread.h"

enum { SEGMENT_BYTES = 1 << 20 };
#define PATIENCE_NS (20 * STK_SECOND_NS)

struct pair {
    struct stk_channel *server;
    stoker_worker_channel *worker;
    stoker_template_channel *template;
    struct stk_incoming incoming;
    int segment_fd;
    uint8_t *memory;
};

static void setup(struct pair *pair, bool template)
{
    int fds[2];
    void *memory = NULL;
    memset(pair, 0, sizeof *pair);
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[0], 1, &pair->server, NULL), STOKER_OK);
    if (template) {
        assert_int_equal(stoker_template_channel_open(fds[1], &pair->template, NULL), STOKER_OK);
    } else {
        assert_int_equal(stoker_worker_channel_open(fds[1], &pair->worker, NULL), STOKER_OK);
    }
    assert_int_equal(stk_shmem_create(NULL, SEGMENT_BYTES, &pair->segment_fd, NULL), STOKER_OK);
    assert_int_equal(stk_shmem_map(pair->segment_fd, SEGMENT_BYTES, 0, &memory, NULL), STOKER_OK);
    pair->memory = memory;
}

static void teardown(struct pair *pair)
{
    stoker_worker_channel_close(pair->worker);
    stoker_template_channel_close(pair->template);
    stk_channel_destroy(pair->server);
    stk_shmem_unmap(pair->memory, SEGMENT_BYTES);
    (void)close(pair->segment_fd);
}

static struct stk_incoming *expect(struct pair *pair, uint16_t type)
{
    assert_int_equal(stk_channel_receive_wait(pair->server, stk_clock_now_ns() + PATIENCE_NS, &pair->incoming, NULL),
                     STOKER_OK);
    assert_int_equal(pair->incoming.frame.type, type);
    return &pair->incoming;
}

static struct stk_message_done expect_done(struct pair *pair)
{
    struct stk_message_done done;
    assert_int_equal(stk_done_decode(expect(pair, STK_MESSAGE_DONE)->body, &done, NULL), STOKER_OK);
    return done;
}

static void send_task(struct pair *pair, uint64_t item_id, uint64_t segment_id, uint64_t size, const char *payload,
                      bool send_fd)
{
    struct stk_message_task task = {
        .item_id = item_id, .kind = STK_TASK_BATCH, .attempt = 1, .payload = {payload, strlen(payload)}};
    if (segment_id) {
        task.target = (struct stk_message_region){.slab_id = item_id,
                                                  .segment_id = segment_id,
                                                  .segment_bytes = SEGMENT_BYTES,
                                                  .offset = 4096,
                                                  .size = size,
                                                  .fd_sent = send_fd};
    }
    stoker_status status;
    STK_CHANNEL_SEND(status, pair->server, STK_MESSAGE_TASK, task, &task, &pair->segment_fd, send_fd ? 1 : 0, NULL);
    assert_int_equal(status, STOKER_OK);
}

static void test_task_is_done_in_its_slab(void **state)
{
    (void)state;
    struct pair pair;
    stoker_worker_task task;
    stoker_error error;
    setup(&pair, false);
    for (uint64_t i = 0; i < 3; i++) { /* the segment is sent once */
        send_task(&pair, 10 + i, 5, 8192, i == 1 ? "a longer request than the others" : "ids", i == 0);
        assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
        assert_int_equal(task.item_id, 10 + i);
        assert_int_equal(task.attempt, 1);
        assert_int_equal(task.slab_size, 8192);
        assert_memory_equal(task.payload, i == 1 ? "a longer" : "ids", i == 1 ? 8 : 3);
        memset(task.slab, (int)i + 1, 100);
        assert_int_equal(pair.memory[4096 + 99], i + 1);
        stoker_worker_result result = {
            .used = 1000, .skeleton_offset = 900, .skeleton_size = 100, .samples_skipped = 2};
        assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_ERR_WRONG_STATE);
        assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_OK);
        struct stk_message_done done = expect_done(&pair);
        assert_int_equal(done.item_id, 10 + i);
        assert_int_equal(done.status, STOKER_OK);
        assert_int_equal(done.used, 1000);
        assert_int_equal(done.skeleton_offset, 900);
        assert_int_equal(done.skeleton_size, 100);
        assert_int_equal(done.samples_skipped, 2);
        assert_true(done.wall_ns > 0);
    }
    struct stk_message_unmap unmap = {5};
    stoker_status status;
    STK_CHANNEL_SEND(status, pair.server, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0, NULL);
    assert_int_equal(status, STOKER_OK);
    send_task(&pair, 20, 5, 8192, "again", true);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
    stk_channel_destroy(pair.server);
    pair.server = NULL;
    teardown(&pair); /* in the middle of a task */
}

static void test_result_outside_the_slab_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    stoker_worker_task task;
    stoker_error error;
    setup(&pair, false);
    send_task(&pair, 1, 5, 8192, "x", true);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
    stoker_worker_result result = {.used = 8193};
    assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_ERR_INVALID_ARGUMENT);
    result = (stoker_worker_result){.used = 8192, .skeleton_offset = 8000, .skeleton_size = 193};
    assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_ERR_INVALID_ARGUMENT);
    result.skeleton_size = 192;
    result.samples_skipped = STK_BATCH_SAMPLES_MAX + 1;
    assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_ERR_INVALID_ARGUMENT);
    result.samples_skipped = 0;
    assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_OK);
    assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_ERR_WRONG_STATE);
    (void)expect_done(&pair);
    teardown(&pair);
}

struct granter {
    struct pair *pair;
    stoker_status status;
};

static void grant_need(void *argument)
{
    struct granter *granter = argument;
    struct pair *pair = granter->pair;
    struct stk_incoming incoming;
    struct stk_message_need need;
    if (stk_channel_receive_wait(pair->server, stk_clock_now_ns() + PATIENCE_NS, &incoming, NULL) != STOKER_OK) abort();
    if (incoming.frame.type != STK_MESSAGE_NEED || stk_need_decode(incoming.body, &need, NULL) != STOKER_OK) abort();
    static const char text[] = "batch of 9 bytes exceeds max_bytes 8";
    bool good = granter->status == STOKER_OK;
    struct stk_message_grant grant = {.item_id = need.item_id, .status = granter->status};
    if (good) {
        grant.region = (struct stk_message_region){.slab_id = 99,
                                                   .segment_id = 6,
                                                   .segment_bytes = SEGMENT_BYTES,
                                                   .offset = 65536,
                                                   .size = need.size + 7,
                                                   .fd_sent = 1};
    } else {
        grant.text = (struct stk_span){text, sizeof text - 1};
    }
    stoker_status status;
    STK_CHANNEL_SEND(status, pair->server, STK_MESSAGE_GRANT, grant, &grant, &pair->segment_fd, good ? 1 : 0, NULL);
    if (status < 0) abort();
}

static void test_slab_grows_and_the_old_one_stays(void **state)
{
    (void)state;
    struct pair pair;
    stoker_worker_task task;
    stoker_error error;
    struct stk_thread *thread;
    void *larger;
    size_t size;
    setup(&pair, false);
    struct granter granter = {&pair, STOKER_OK};
    send_task(&pair, 1, 5, 8192, "ids", true);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
    memset(task.slab, 9, 8192);
    assert_int_equal(stk_thread_start("granter", grant_need, &granter, &thread, NULL), STOKER_OK);
    assert_int_equal(stoker_worker_channel_grow(pair.worker, 200000, &larger, &size, &error), STOKER_OK);
    stk_thread_join(thread);
    assert_int_equal(size, 200007);
    assert_memory_equal(task.payload, "ids", 3); /* the request is still there after another message came */
    memcpy(larger, task.slab, 8192);
    assert_int_equal(pair.memory[65536 + 8191], 9);
    stoker_worker_result result = {.used = 200000};
    assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_OK);
    assert_int_equal(expect_done(&pair).used, 200000);
    /* A task without memory has to ask for it, and may be refused. */
    send_task(&pair, 2, 0, 0, "more", false);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
    assert_null(task.slab);
    result.used = 0;
    assert_int_equal(stoker_worker_channel_done(pair.worker, &result, &error), STOKER_ERR_INVALID_ARGUMENT);
    granter.status = STOKER_ERR_LIMIT;
    assert_int_equal(stk_thread_start("granter", grant_need, &granter, &thread, NULL), STOKER_OK);
    assert_int_equal(stoker_worker_channel_grow(pair.worker, 9, &larger, &size, &error), STOKER_ERR_LIMIT);
    stk_thread_join(thread);
    assert_string_equal(error.message, "batch of 9 bytes exceeds max_bytes 8");
    stoker_worker_failure failure = {.status = STOKER_ERR_LIMIT, .message = error.message};
    assert_int_equal(stoker_worker_channel_fail(pair.worker, &failure, &error), STOKER_OK);
    assert_int_equal(expect_done(&pair).status, STOKER_ERR_LIMIT);
    send_task(&pair, 3, 0, 0, "more", false);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
    failure.status = (stoker_status)-7; /* no status that there is */
    assert_int_equal(stoker_worker_channel_fail(pair.worker, &failure, &error), STOKER_OK);
    assert_int_equal(expect_done(&pair).status, STOKER_ERR_INTERNAL);
    teardown(&pair);
}

struct failer { /* a mebibyte fills the socket: it is written while the other side reads */
    stoker_worker_channel *worker;
    const stoker_worker_failure *failure;
    stoker_status status;
};

static void fail_task(void *argument)
{
    struct failer *failer = argument;
    failer->status = stoker_worker_channel_fail(failer->worker, failer->failure, NULL);
}

static void test_failure_carries_its_detail_within_bounds(void **state)
{
    (void)state;
    struct pair pair;
    stoker_worker_task task;
    stoker_error error;
    setup(&pair, false);
    char *large = calloc(1, STK_DETAIL_BYTES_MAX + 1);
    assert_non_null(large);
    send_task(&pair, 1, 0, 0, "x", false);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
    stoker_worker_failure failure = {STOKER_ERR_CORRUPT, "sample 3: bad", large, STK_DETAIL_BYTES_MAX};
    struct failer failer = {pair.worker, &failure, STOKER_AGAIN};
    struct stk_thread *thread;
    assert_int_equal(stk_thread_start("failer", fail_task, &failer, &thread, NULL), STOKER_OK);
    struct stk_message_done done = expect_done(&pair);
    stk_thread_join(thread);
    assert_int_equal(failer.status, STOKER_OK);
    assert_int_equal(done.status, STOKER_ERR_CORRUPT);
    assert_int_equal(done.text.size, 13);
    assert_int_equal(done.detail.size, STK_DETAIL_BYTES_MAX);
    send_task(&pair, 2, 0, 0, "x", false);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_OK);
    failure.detail_size++;
    failure.status = STOKER_OK; /* no failure has this status */
    assert_int_equal(stoker_worker_channel_fail(pair.worker, &failure, &error), STOKER_OK);
    done = expect_done(&pair);
    assert_int_equal(done.status, STOKER_ERR_INTERNAL);
    assert_int_equal(done.detail.size, 0);
    assert_int_equal(done.text.size, 13 + strlen(STK_DETAIL_LOST_TEXT));
    free(large);
    teardown(&pair);
}

static void test_closed_socket_means_exit(void **state)
{
    (void)state;
    struct pair pair;
    stoker_worker_task task;
    setup(&pair, false);
    stk_channel_destroy(pair.server);
    pair.server = NULL;
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, NULL), STOKER_END);
    teardown(&pair);
    setup(&pair, true);
    stk_channel_destroy(pair.server);
    pair.server = NULL;
    uint32_t worker_id;
    int fd;
    assert_int_equal(stoker_template_channel_next(pair.template, UINT64_MAX, &worker_id, &fd, NULL), STOKER_END);
    teardown(&pair);
}

static void test_task_of_another_kind_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    stoker_worker_task task;
    stoker_error error;
    setup(&pair, false);
    struct stk_message_template_report report = {.worker_id = 1};
    stoker_status status;
    STK_CHANNEL_SEND(status, pair.server, STK_MESSAGE_FORK, template_report, &report, NULL, 0, NULL);
    assert_int_equal(status, STOKER_OK);
    assert_int_equal(stoker_worker_channel_next(pair.worker, &task, &error), STOKER_ERR_PROTOCOL);
    teardown(&pair);
}

static void test_template_reports_and_is_asked_to_fork(void **state)
{
    (void)state;
    struct pair pair;
    struct stk_message_template_report report;
    stoker_error error;
    uint32_t worker_id = 0;
    int worker_fd = -1, fds[2];
    setup(&pair, true);
    assert_int_equal(stoker_template_channel_report(pair.template, NULL, NULL, 0, &error), STOKER_OK);
    assert_int_equal(stk_template_report_decode(expect(&pair, STK_MESSAGE_TEMPLATE_REPORT)->body, &report, NULL),
                     STOKER_OK);
    assert_int_equal(report.status, STOKER_OK);
    assert_int_equal(report.pid, getpid());
    assert_int_equal(stoker_template_channel_report(pair.template, "no module named 'x'", "pickle", 6, &error),
                     STOKER_OK);
    assert_int_equal(stk_template_report_decode(expect(&pair, STK_MESSAGE_TEMPLATE_REPORT)->body, &report, NULL),
                     STOKER_OK);
    assert_true(report.status < 0);
    assert_int_equal(report.text.size, 19);
    assert_memory_equal(report.detail.data, "pickle", 6);
    assert_int_equal(stoker_template_channel_next(pair.template, 1000000, &worker_id, &worker_fd, &error),
                     STOKER_AGAIN);
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    struct stk_message_template_report order = {.worker_id = 3};
    stoker_status status;
    STK_CHANNEL_SEND(status, pair.server, STK_MESSAGE_FORK, template_report, &order, &fds[1], 1, NULL);
    assert_int_equal(status, STOKER_OK);
    (void)close(fds[1]);
    assert_int_equal(stoker_template_channel_next(pair.template, PATIENCE_NS, &worker_id, &worker_fd, &error),
                     STOKER_OK);
    assert_int_equal(worker_id, 3);
    assert_true(fcntl(worker_fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(stoker_template_channel_forked(pair.template, worker_id, -1, &error), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_template_channel_forked(pair.template, worker_id, 777, &error), STOKER_OK);
    assert_int_equal(stk_template_report_decode(expect(&pair, STK_MESSAGE_FORKED)->body, &report, NULL), STOKER_OK);
    assert_int_equal(report.worker_id, 3);
    assert_int_equal(report.pid, 777);
    assert_int_equal(write(worker_fd, "x", 1), 1); /* it is the other end of the pair */
    char byte;
    assert_int_equal(read(fds[0], &byte, 1), 1);
    (void)close(worker_fd);
    (void)close(fds[0]);
    teardown(&pair);
}

static void test_process_dies_with_its_parent(void **state)
{
    (void)state;
    int ends[2], status;
    pid_t grandchild;
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pid_t self = getpid();
        grandchild = fork();
        if (grandchild == 0) {
            (void)close(ends[0]);
            if (stoker_worker_die_with_parent(self + 1, NULL) != STOKER_ERR_UNAVAILABLE) _exit(1);
            if (stoker_worker_die_with_parent(self, NULL) != STOKER_OK) _exit(1);
            (void)!write(ends[1], "r", 1);
            (void)pause();
            _exit(0);
        }
        (void)close(ends[1]);
        (void)pause();
        _exit(0);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the grandchild's end closes only when it is dead */
    (void)close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_is_done_in_its_slab),
        cmocka_unit_test(test_result_outside_the_slab_is_refused),
        cmocka_unit_test(test_slab_grows_and_the_old_one_stays),
        cmocka_unit_test(test_failure_carries_its_detail_within_bounds),
        cmocka_unit_test(test_closed_socket_means_exit),
        cmocka_unit_test(test_task_of_another_kind_is_refused),
        cmocka_unit_test(test_template_reports_and_is_asked_to_fork),
        cmocka_unit_test(test_process_dies_with_its_parent),
    };
    return stk_run_tests(tests);
}
