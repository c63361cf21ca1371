/* SPDX-License-Identifier: Apache-2.0
 *
 * A native worker in a process of its own, fed by the test: what it writes, what it answers, and what ends it.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/service.h>

#include "control/channel.h"
#include "source/source.h"
#include "sys/shmem.h"

enum { FRAMES = 4, SIDE = 16, SAMPLE = FRAMES * 3 * SIDE * SIDE, PLACE = 4096, SEGMENT = 64 << 10 };

struct fed_worker {
    pid_t pid;
    struct stk_channel *channel;
    int segment_fd;
    uint8_t *memory;
    bool segment_sent;
    uint64_t next_item;
    struct stk_incoming in;
};

static void start(struct fed_worker *worker)
{
    int fds[2];
    *worker = (struct fed_worker){0};
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    worker->pid = fork();
    if (worker->pid == 0) {
        (void)close(fds[0]);
        exit(stoker_worker_run(fds[1], NULL) == STOKER_OK ? 0 : 1);
    }
    (void)close(fds[1]);
    assert_int_equal(stk_channel_create(fds[0], 1, &worker->channel, NULL), STOKER_OK);
    assert_int_equal(stk_shmem_create(NULL, SEGMENT, &worker->segment_fd, NULL), STOKER_OK);
    void *address;
    assert_int_equal(stk_shmem_map(worker->segment_fd, SEGMENT, 1, &address, NULL), STOKER_OK);
    worker->memory = address;
    memset(worker->memory, 0xaa, SEGMENT);
}

/* Closes the socket if it is still open, and gives the worker's exit status. */
static int finish(struct fed_worker *worker)
{
    int status;
    stk_channel_destroy(worker->channel);
    assert_int_equal(waitpid(worker->pid, &status, 0), worker->pid);
    stk_shmem_unmap(worker->memory, SEGMENT);
    (void)close(worker->segment_fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void send_source(struct fed_worker *worker, uint64_t id, const stoker_source *source)
{
    stoker_status status;
    struct stk_message_source message = {id, source->kind};
    STK_CHANNEL_SEND(status, worker->channel, STK_MESSAGE_SOURCE, source, &message, &source->blob_fd, 1, NULL);
    assert_int_equal(status, STOKER_OK);
}

static struct stk_message_task task_of(struct fed_worker *worker, uint32_t kind, uint64_t offset, uint64_t size)
{
    struct stk_message_task task = {.item_id = ++worker->next_item, .kind = kind, .source_id = 1};
    task.samples = kind == STK_TASK_BATCH ? 0 : 1;
    task.target = (struct stk_message_region){1, 1, SEGMENT, offset, size, !worker->segment_sent};
    return task;
}

static void send_task(struct fed_worker *worker, const struct stk_message_task *task)
{
    stoker_status status;
    STK_CHANNEL_SEND(status, worker->channel, STK_MESSAGE_TASK, task, task, &worker->segment_fd, task->target.fd_sent,
                     NULL);
    assert_int_equal(status, STOKER_OK);
    worker->segment_sent = true;
}

/* Sends it and gives the answer. */
static struct stk_message_done ask(struct fed_worker *worker, const struct stk_message_task *task)
{
    struct stk_message_done done;
    send_task(worker, task);
    assert_int_equal(stk_channel_receive_wait(worker->channel, UINT64_MAX, &worker->in, NULL), STOKER_OK);
    assert_int_equal(worker->in.frame.type, STK_MESSAGE_DONE);
    assert_int_equal(stk_done_decode(worker->in.body, &done, NULL), STOKER_OK);
    assert_int_equal(done.item_id, task->item_id);
    return done;
}

/* The worker must end by itself. */
static void expect_end(struct fed_worker *worker)
{
    assert_true(stk_channel_receive_wait(worker->channel, UINT64_MAX, &worker->in, NULL) != STOKER_OK);
    assert_int_equal(finish(worker), 1);
}

static stoker_source *source_of(const char *path)
{
    stoker_path_list list = {.paths = &path, .count = 1};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    stoker_source *source = NULL;
    spec.frames = FRAMES;
    spec.width = spec.height = SIDE;
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, NULL), STOKER_OK);
    return source;
}

static bool all_are(const uint8_t *bytes, size_t size, uint8_t value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value) return false;
    return true;
}

/* A8: nothing is written outside the region; what is written is what the source makes. */
static void test_a8_sample_fills_its_place_and_no_byte_more(void **state)
{
    (void)state;
    struct fed_worker worker;
    uint8_t expected[SAMPLE];
    stoker_source *source = source_of(GOLDEN_MEDIA "/h264_bframes_g12.mp4");
    assert_int_equal(stoker_source_materialise(source, 0, expected, NULL), STOKER_OK);
    start(&worker);
    send_source(&worker, 1, source);
    struct stk_message_task task = task_of(&worker, STK_TASK_MAKE, PLACE, SAMPLE);
    struct stk_message_done done = ask(&worker, &task);
    assert_int_equal(done.status, STOKER_OK);
    assert_true(done.wall_ns > 0 && done.cpu_ns > 0);
    assert_true(done.frames_presented > 0);
    assert_memory_equal(worker.memory + PLACE, expected, SAMPLE);
    assert_true(all_are(worker.memory, PLACE, 0xaa));
    assert_true(all_are(worker.memory + PLACE + SAMPLE, SEGMENT - PLACE - SAMPLE, 0xaa));
    /* A copy, in the same way. */
    task = task_of(&worker, STK_TASK_COPY, 5 * PLACE, SAMPLE);
    task.from = task.target;
    task.from.offset = PLACE;
    assert_int_equal(ask(&worker, &task).status, STOKER_OK);
    assert_memory_equal(worker.memory + 5 * PLACE, expected, SAMPLE);
    assert_true(all_are(worker.memory + 5 * PLACE + SAMPLE, SEGMENT - 5 * PLACE - SAMPLE, 0xaa));
    stoker_source_close(source);
    assert_int_equal(finish(&worker), 0); /* a closed socket is the usual end */
}

/* A8: a place of another size than the sample's is not touched. */
static void test_a8_place_of_another_size_is_refused(void **state)
{
    (void)state;
    struct fed_worker worker;
    stoker_source *source = source_of(GOLDEN_MEDIA "/h264_bframes_g12.mp4");
    start(&worker);
    send_source(&worker, 1, source);
    struct stk_message_task task = task_of(&worker, STK_TASK_MAKE, 0, SAMPLE - 1);
    struct stk_message_done done = ask(&worker, &task);
    assert_int_equal(done.status, STOKER_ERR_INTERNAL);
    assert_true(done.text.size > 0);
    assert_true(all_are(worker.memory, SEGMENT, 0xaa));
    task = task_of(&worker, STK_TASK_MAKE, 0, SAMPLE);
    task.source_id = 2;
    assert_int_equal(ask(&worker, &task).status, STOKER_ERR_INTERNAL); /* a source that it does not know */
    stoker_source_close(source);
    assert_int_equal(finish(&worker), 0);
}

/* A8: a file that changed since it was described is MISMATCH. */
static void test_a8_changed_file_is_a_mismatch(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-worker-test-XXXXXX", text[512];
    struct fed_worker worker;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "not yet a clip", 14), 14);
    stoker_source *source = source_of(path);
    assert_int_equal(write(fd, "longer", 6), 6);
    (void)close(fd);
    start(&worker);
    send_source(&worker, 1, source);
    struct stk_message_task task = task_of(&worker, STK_TASK_MAKE, 0, SAMPLE);
    struct stk_message_done done = ask(&worker, &task);
    (void)unlink(path);
    assert_int_equal(done.status, STOKER_ERR_MISMATCH);
    (void)snprintf(text, sizeof text, "%.*s", (int)done.text.size, (const char *)done.text.data);
    assert_non_null(strstr(text, "14"));
    assert_non_null(strstr(text, "20"));
    stoker_source_close(source);
    assert_int_equal(finish(&worker), 0);
}

static void test_dropped_source_is_forgotten(void **state)
{
    (void)state;
    struct fed_worker worker;
    stoker_status status;
    stoker_source *source = source_of(GOLDEN_MEDIA "/rot90.mp4");
    start(&worker);
    for (uint64_t id = 1; id <= 20; id++) send_source(&worker, id, source);
    struct stk_message_source drop = {1, 0};
    STK_CHANNEL_SEND(status, worker.channel, STK_MESSAGE_SOURCE_DROP, source, &drop, NULL, 0, NULL);
    assert_int_equal(status, STOKER_OK);
    struct stk_message_task task = task_of(&worker, STK_TASK_MAKE, 0, SAMPLE);
    assert_int_equal(ask(&worker, &task).status, STOKER_ERR_INTERNAL);
    task = task_of(&worker, STK_TASK_MAKE, 0, SAMPLE);
    task.source_id = 20;
    assert_int_equal(ask(&worker, &task).status, STOKER_OK);
    stoker_source_close(source);
    assert_int_equal(finish(&worker), 0);
}

/* What makes no sense ends the worker: its DataServer replaces it. */
static void test_senseless_messages_end_it(void **state)
{
    (void)state;
    struct fed_worker worker;
    struct stk_message_task task;
    stoker_status status;
    stoker_source *source = source_of(GOLDEN_MEDIA "/rot90.mp4");

    start(&worker); /* a task of a Python worker */
    task = task_of(&worker, STK_TASK_BATCH, 0, SAMPLE);
    task.payload = (struct stk_span){"x", 1};
    send_task(&worker, &task);
    expect_end(&worker);

    start(&worker); /* a segment that it was never given */
    task = task_of(&worker, STK_TASK_MAKE, 0, SAMPLE);
    task.target.fd_sent = 0;
    send_task(&worker, &task);
    expect_end(&worker);

    start(&worker); /* a source twice */
    send_source(&worker, 1, source);
    send_source(&worker, 1, source);
    expect_end(&worker);

    start(&worker); /* a message of ranks */
    struct stk_message_unmap unmap = {1};
    STK_CHANNEL_SEND(status, worker.channel, STK_MESSAGE_READY, unmap, &unmap, NULL, 0, NULL);
    assert_int_equal(status, STOKER_OK);
    expect_end(&worker);

    start(&worker); /* no message at all */
    assert_int_equal(write(stk_channel_fd(worker.channel), "noise noise noise noise noise noise", 35), 35);
    expect_end(&worker);
    stoker_source_close(source);
}

static void test_unmapped_segment_is_gone(void **state)
{
    (void)state;
    struct fed_worker worker;
    stoker_status status;
    stoker_source *source = source_of(GOLDEN_MEDIA "/rot90.mp4");
    start(&worker);
    send_source(&worker, 1, source);
    struct stk_message_task task = task_of(&worker, STK_TASK_MAKE, 0, SAMPLE);
    assert_int_equal(ask(&worker, &task).status, STOKER_OK);
    struct stk_message_unmap unmap = {1};
    STK_CHANNEL_SEND(status, worker.channel, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0, NULL);
    assert_int_equal(status, STOKER_OK);
    worker.segment_sent = false; /* it may come again */
    task = task_of(&worker, STK_TASK_MAKE, PLACE, SAMPLE);
    assert_int_equal(ask(&worker, &task).status, STOKER_OK);
    stoker_source_close(source);
    assert_int_equal(finish(&worker), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a8_sample_fills_its_place_and_no_byte_more),
        cmocka_unit_test(test_a8_place_of_another_size_is_refused),
        cmocka_unit_test(test_a8_changed_file_is_a_mismatch),
        cmocka_unit_test(test_dropped_source_is_forgotten),
        cmocka_unit_test(test_senseless_messages_end_it),
        cmocka_unit_test(test_unmapped_segment_is_gone),
    };
    return stk_run_tests(tests);
}
