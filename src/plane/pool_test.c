/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that are killed, stopped, hang or end at once, and ranks that die, against a real DataServer: nothing is
 * lost, nothing hangs, and memory is used again only when nobody can write to it any more.
 */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/process.h"
#include "tests/support/plane_server.h"

static const struct plane_loader python = {.loader_id = 1, .num_workers = 2};

static void begin(struct plane_server *server, struct plane_rank *rank, const stoker_source *source,
                  const struct plane_loader *loader)
{
    plane_start(server);
    plane_join(server, rank, 0, 1);
    plane_open(rank, source, loader);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, loader->loader_id, 1);
}

static void finish(struct plane_server *server, struct plane_rank *rank)
{
    plane_leave(rank);
    assert_int_equal(plane_wait(server), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void expect_filled(const struct plane_batch *batch, size_t size, uint8_t value)
{
    assert_int_equal(batch->ready.region.size, size + 4);
    for (size_t i = 0; i < size; i++) assert_int_equal(batch->data[i], value);
}

/* One batch, taken and released: from then on the lane knows its size. */
static void warm_up(struct plane_rank *rank, uint64_t sequence, size_t size)
{
    struct plane_batch batch;
    char request[64];
    (void)snprintf(request, sizeof request, "fill %zu 1", size);
    plane_request(rank, 1, 1, sequence, request);
    plane_take(rank, sequence, &batch);
    expect_filled(&batch, size, 1);
    plane_release(rank, &batch);
}

static void test_killed_worker_costs_a_retry(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    warm_up(&rank, 0, 100000);
    plane_request(&rank, 1, 1, 1, "hang-once 100000 9");
    pid_t busy = plane_wait_worker(&rank, "busy", 0);
    assert_int_equal(kill(busy, SIGKILL), 0);
    plane_take(&rank, 1, &batch);
    expect_filled(&batch, 100000, 9);
    assert_int_equal(batch.ready.tasks_retried, 1);
    plane_release(&rank, &batch);
    assert_non_null(strstr(rank.last_notice, "worker_lost: worker "));
    assert_non_null(strstr(rank.last_notice, "tried again elsewhere"));
    (void)plane_wait_worker(&rank, "idle", 1); /* it was replaced */
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_task_that_kills_two_workers_fails(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512];
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    for (uint64_t i = 0; i < 4; i++) { /* also again and again: each is an error of its own, and the loader goes on */
        plane_request(&rank, 1, 1, i, "die");
        assert_int_equal(plane_take_failure(&rank, i, text, sizeof text), STOKER_ERR_INTERNAL);
        assert_non_null(strstr(text, "was lost while making it, try 2"));
    }
    warm_up(&rank, 4, 1000);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_idle_worker_is_replaced(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    (void)plane_wait_worker(&rank, "idle", 1);
    pid_t victim = plane_wait_worker(&rank, "idle", 0);
    assert_int_equal(kill(victim, SIGKILL), 0);
    plane_wait_number(&rank, "started", 3);
    (void)plane_wait_worker(&rank, "idle", 1);
    warm_up(&rank, 0, 1000);
    stoker_source_close(source);
    finish(&server, &rank);
}

/* A4: a stopped worker is killed before its memory is used again, so that it can never write into what came after. */
static void test_a4_stopped_worker_never_writes_again(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    struct plane_loader options = python;
    options.stall_limit_ns = STK_SECOND_NS / 2;
    begin(&server, &rank, source, &options);
    warm_up(&rank, 0, 100000);
    plane_request(&rank, 1, 1, 1, "hang-once 100000 9"); /* it has filled its slab with 0xee */
    pid_t busy = plane_wait_worker(&rank, "busy", 0);
    int watch = stk_process_open(busy);
    assert_true(watch >= 0);
    assert_int_equal(kill(busy, SIGSTOP), 0);
    plane_take(&rank, 1, &batch);
    expect_filled(&batch, 100000, 9);
    plane_release(&rank, &batch);
    if (!strstr(rank.last_notice, "worker_stalled: worker ") || !strstr(rank.last_notice, "state T"))
        fail_msg("the notice does not say what the worker was doing: %s", rank.last_notice);
    for (uint64_t i = 2; i < 4; i++) { /* the slab is used twice more */
        plane_request(&rank, 1, 1, i, "fill 100000 3");
        plane_take(&rank, i, &batch);
        (void)kill(busy, SIGCONT);
        expect_filled(&batch, 100000, 3);
        plane_release(&rank, &batch);
    }
    struct pollfd ended = {watch, POLLIN, 0};
    assert_int_equal(poll(&ended, 1, 0), 1);
    (void)close(watch);
    assert_int_equal(plane_number(plane_status(&rank), "killed_stalled"), 1);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_task_that_hangs_twice_fails_in_time(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512];
    stoker_source *source = plane_process_source();
    struct plane_loader options = python;
    options.stall_limit_ns = STK_SECOND_NS / 5;
    begin(&server, &rank, source, &options);
    plane_request(&rank, 1, 1, 0, "hang");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_TIMEOUT);
    assert_non_null(strstr(text, "busy with one task for"));
    warm_up(&rank, 1, 1000);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_native_worker_that_is_killed_is_replaced(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch, again;
    char path[4096];
    const char *list[] = {path};
    (void)snprintf(path, sizeof path, "%s/h264_bframes_g12.mp4", GOLDEN_MEDIA);
    stoker_path_list paths = {list, 1};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = spec.width = spec.height = 16;
    stoker_source *source = NULL;
    assert_int_equal(stoker_source_create_video(&paths, &spec, &source, NULL), STOKER_OK);
    const struct plane_loader native = {.loader_id = 1, .num_workers = 2, .batch_samples_max = 4};
    begin(&server, &rank, source, &native);
    const uint64_t ids[4] = {0};
    pid_t stopped = plane_wait_worker(&rank, "idle", 0), other = plane_wait_worker(&rank, "idle", 1);
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    assert_int_equal(kill(other, SIGSTOP), 0); /* both take a sample and keep it */
    plane_request_ids(&rank, 1, 1, 0, ids, 4);
    (void)plane_wait_worker(&rank, "busy", 1);
    assert_int_equal(kill(stopped, SIGKILL), 0);
    assert_int_equal(kill(other, SIGKILL), 0);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.tasks_retried, 2);
    plane_request_ids(&rank, 1, 1, 1, ids, 4);
    plane_take(&rank, 1, &again);
    assert_int_equal(again.ready.tasks_retried, 0);
    assert_memory_equal(batch.data, again.data, batch.ready.leaves[0].size);
    plane_release(&rank, &batch);
    plane_release(&rank, &again);
    assert_int_equal(plane_number(plane_status(&rank), "replaced"), 2);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_dead_template_is_an_error_that_names_it(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512], expected[64];
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    warm_up(&rank, 0, 1000);
    pid_t template = (pid_t)plane_number(plane_status(&rank), "template_pid");
    plane_request(&rank, 1, 1, 1, "hang");
    (void)plane_wait_worker(&rank, "busy", 0);
    assert_int_equal(kill(template, SIGKILL), 0);
    assert_true(plane_take_failure(&rank, 1, text, sizeof text) < 0);
    (void)snprintf(expected, sizeof expected, "template process (pid %ld) ended", (long)template);
    assert_non_null(strstr(text, expected));
    plane_request(&rank, 1, 1, 2, "fill 1000 1");
    assert_true(plane_take_failure(&rank, 2, text, sizeof text) < 0);
    assert_non_null(strstr(text, expected));
    /* Another iteration tries again. */
    struct plane_batch batch;
    plane_begin(&rank, 1, 2);
    plane_request(&rank, 1, 2, 0, "fill 1000 4");
    plane_take(&rank, 0, &batch);
    expect_filled(&batch, 1000, 4);
    plane_release(&rank, &batch);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_workers_that_end_at_once_are_given_up(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512];
    stoker_source *source = plane_bad_source("stillborn");
    begin(&server, &rank, source, &python);
    while (!strstr(plane_status(&rank), "\"state\": \"broken\"")) continue;
    plane_request(&rank, 1, 1, 0, "fill 1000 1");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_INTERNAL);
    assert_non_null(strstr(text, "5 workers in a row ended within 10 s"));
    stoker_source_close(source);
    finish(&server, &rank);
}

/* Waits until the process with this pidfd is gone. */
static void expect_end(int pidfd)
{
    struct pollfd ended = {pidfd, POLLIN, 0};
    assert_int_equal(poll(&ended, 1, 20000), 1);
    (void)close(pidfd);
}

/* A9: a rank forks a helper that sleeps, the rank is killed: its slabs come back although the helper holds its socket.
 */
static void test_a9_slabs_of_a_killed_rank_come_back(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank other;
    int ready[2];
    stoker_source *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &other, 1, 2);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct plane_rank rank;
        struct plane_batch batch;
        plane_join(&server, &rank, 0, 2);
        plane_open(&rank, source, &python);
        plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
        plane_begin(&rank, 1, 1);
        plane_request(&rank, 1, 1, 0, "fill 3000000 1");
        plane_take(&rank, 0, &batch);
        plane_request(&rank, 1, 1, 1, "hang");
        pid_t helper = fork();
        if (helper == 0) { /* inherits the socket */
            (void)close(ready[0]);
            for (;;) (void)pause();
        }
        (void)!write(ready[1], &helper, sizeof helper);
        for (;;) (void)pause();
    }
    pid_t helper;
    assert_int_equal(read(ready[0], &helper, sizeof helper), (int)sizeof helper);
    (void)plane_wait_worker(&other, "busy", 0);
    assert_true(plane_number(plane_status(&other), "used_bytes") >= 3000000);
    uint64_t before_ns = stk_clock_now_ns();
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    plane_wait_number(&other, "used_bytes", 0);
    assert_true(stk_clock_now_ns() - before_ns < 2 * STK_SECOND_NS); /* the rule's own figure */
    assert_int_equal(plane_number(plane_status(&other), "quarantined_bytes"), 0);
    assert_non_null(strstr(other.last_notice, "rank_lost: rank 0 "));
    assert_int_equal(kill(helper, SIGKILL), 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
    stoker_source_close(source);
    plane_leave(&other);
    assert_int_equal(plane_wait(&server), 0);
}

/* A killed DataServer leaves nobody behind. */
static void test_workers_follow_a_killed_server(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    warm_up(&rank, 0, 1000);
    plane_request(&rank, 1, 1, 1, "hang");
    pid_t busy = plane_wait_worker(&rank, "busy", 0), idle = plane_wait_worker(&rank, "idle", 0);
    pid_t template = (pid_t)plane_number(plane_status(&rank), "template_pid");
    int watches[] = {stk_process_open(busy), stk_process_open(idle), stk_process_open(template)};
    assert_int_equal(kill(server.pid, SIGKILL), 0);
    for (int i = 0; i < 3; i++) expect_end(watches[i]);
    assert_int_equal(plane_wait(&server), 1000 + SIGKILL);
    plane_expect_closed(&rank);
    plane_close(&rank);
    stoker_source_close(source);
}

/* Closing a loader lets its workers end by themselves, and kills what does not. */
static void test_close_ends_the_workers(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    warm_up(&rank, 0, 1000);
    plane_request(&rank, 1, 1, 1, "hang");
    pid_t busy = plane_wait_worker(&rank, "busy", 0), idle = plane_wait_worker(&rank, "idle", 0);
    pid_t template = (pid_t)plane_number(plane_status(&rank), "template_pid");
    int watches[] = {stk_process_open(busy), stk_process_open(idle), stk_process_open(template)};
    struct stk_message_loader_ref ref = {1, 0};
    PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
    for (int i = 0; i < 3; i++) expect_end(watches[i]);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    finish(&server, &rank);
}

/* Returns when the server has noticed: until then it may hand a task to the dying worker. */
static void kill_and_wait(struct plane_rank *observer, pid_t victim)
{
    char pattern[32];
    (void)snprintf(pattern, sizeof pattern, "{\"pid\": %ld, ", (long)victim);
    (void)kill(victim, SIGKILL); /* it may have ended since it was listed */
    while (strstr(plane_status(observer), pattern)) continue;
}

/* Again and again a worker is killed at a random moment: every batch comes once, with its bytes. (Two kills of one
 * batch would be one too many: the next one waits until all that was asked for has come.) */
static void test_nothing_is_lost_under_kills(void **state)
{
    (void)state;
    enum { COUNT = 200, AHEAD = 6, KILL_EVERY = 10 };
    struct plane_server server;
    struct plane_rank rank, observer;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    struct plane_loader options = python;
    options.num_workers = 3;
    begin(&server, &rank, source, &options);
    plane_join(&server, &observer, 1, 2);
    warm_up(&rank, 0, 50000);
    uint64_t asked = 1, taken = 1;
    bool seen[COUNT] = {true};
    uint64_t drain_until = 0;
    uint32_t seed = 4711;
    char request[64];
    while (taken < COUNT) {
        for (; taken >= drain_until && asked < COUNT && asked < taken + AHEAD; asked++) {
            (void)snprintf(request, sizeof request, "fill 50000 %u", (unsigned)(asked % 251));
            plane_request(&rank, 1, 1, asked, request);
        }
        if (taken % KILL_EVERY == 0 && taken >= drain_until) {
            drain_until = asked;
            const char *workers = strstr(plane_status(&observer), "\"workers\": [");
            seed = seed * 1664525u + 1013904223u;
            for (uint32_t skip = seed >> 30; skip > 0 && workers; skip--) workers = strstr(workers + 1, "{\"pid\": ");
            pid_t victim = workers && strncmp(workers, "{\"pid\": ", 8) == 0 ? (pid_t)strtol(workers + 8, NULL, 10) : 0;
            if (victim > 1) kill_and_wait(&observer, victim); /* 0: it is being forked */
        }
        struct stk_message_ready ready;
        plane_expect(&rank, STK_MESSAGE_READY);
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        assert_true(ready.sequence < COUNT && !seen[ready.sequence]);
        seen[ready.sequence] = true;
        plane_map(&rank, &ready, &batch);
        expect_filled(&batch, 50000, (uint8_t)(ready.sequence % 251));
        plane_release(&rank, &batch);
        taken++;
    }
    assert_true(plane_number(plane_status(&observer), "replaced") > 3);
    plane_wait_number(&observer, "used_bytes", 0);
    stoker_source_close(source);
    plane_leave(&observer);
    finish(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_worker_costs_a_retry),
        cmocka_unit_test(test_task_that_kills_two_workers_fails),
        cmocka_unit_test(test_idle_worker_is_replaced),
        cmocka_unit_test(test_a4_stopped_worker_never_writes_again),
        cmocka_unit_test(test_task_that_hangs_twice_fails_in_time),
        cmocka_unit_test(test_native_worker_that_is_killed_is_replaced),
        cmocka_unit_test(test_workers_that_end_at_once_are_given_up),
        cmocka_unit_test(test_dead_template_is_an_error_that_names_it),
        cmocka_unit_test(test_a9_slabs_of_a_killed_rank_come_back),
        cmocka_unit_test(test_workers_follow_a_killed_server),
        cmocka_unit_test(test_close_ends_the_workers),
        cmocka_unit_test(test_nothing_is_lost_under_kills),
    };
    return stk_run_tests(tests);
}
