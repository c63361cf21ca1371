/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers of a real DataServer that are killed: nothing is lost, nothing hangs.
 */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/plane_session.h"

/* Returns when the server has noticed: until then it may hand a task to the dying worker. */
static void kill_and_wait(struct plane_rank *observer, pid_t victim)
{
    char pattern[32];
    (void)snprintf(pattern, sizeof pattern, "{\"pid\": %ld, ", (long)victim);
    (void)kill(victim, SIGKILL); /* it may have ended since it was listed */
    while (strstr(plane_status(observer), pattern)) continue;
}

static void test_killed_worker_costs_a_retry(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    session_warm_up(&rank, 0, 100000);
    plane_request(&rank, 1, 1, 1, "hang-once 100000 9");
    pid_t busy = plane_wait_begun(&rank, 0);
    assert_int_equal(kill(busy, SIGKILL), 0);
    plane_take(&rank, 1, &batch);
    session_expect_filled(&batch, 100000, 9);
    assert_int_equal(batch.ready.tasks_retried, 1);
    plane_release(&rank, &batch);
    assert_non_null(strstr(rank.last_notice, "worker_lost: worker "));
    assert_non_null(strstr(rank.last_notice, "tried again elsewhere"));
    (void)plane_wait_worker(&rank, "idle", 1); /* it was replaced */
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_task_that_kills_two_workers_fails(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512];
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    for (uint64_t i = 0; i < 4; i++) { /* also again and again: each is an error of its own, and the loader goes on */
        plane_request(&rank, 1, 1, i, "die");
        assert_int_equal(plane_take_failure(&rank, i, text, sizeof text), STOKER_ERR_LOST);
        assert_non_null(strstr(text, "was lost while making it, try 2: killed by signal 9 (Killed)"));
    }
    session_warm_up(&rank, 4, 1000);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_idle_worker_is_replaced(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    (void)plane_wait_worker(&rank, "idle", 1);
    pid_t victim = plane_wait_worker(&rank, "idle", 0);
    assert_int_equal(kill(victim, SIGKILL), 0);
    plane_wait_number(&rank, "started", 3);
    (void)plane_wait_worker(&rank, "idle", 1);
    session_warm_up(&rank, 0, 1000);
    stoker_source_close(source);
    session_end(&server, &rank);
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
    stoker_path_list paths = {.paths = list, .count = 1};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = spec.width = spec.height = 16;
    stoker_source *source = NULL;
    assert_int_equal(stoker_source_create_video(&paths, &spec, &source, NULL), STOKER_OK);
    session_begin(&server, &rank, source, &session_native);
    const uint64_t ids[4] = {0};
    pid_t stopped = plane_wait_worker(&rank, "idle", 0), other = plane_wait_worker(&rank, "idle", 1);
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    assert_int_equal(kill(other, SIGSTOP), 0); /* both are given a sample and read nothing of it */
    plane_request_ids(&rank, 1, 1, 0, ids, 4);
    (void)plane_wait_worker(&rank, "busy", 1);
    assert_int_equal(kill(stopped, SIGKILL), 0);
    assert_int_equal(kill(other, SIGKILL), 0);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.tasks_retried, 0); /* what was never begun is not tried again */
    plane_request_ids(&rank, 1, 1, 1, ids, 4);
    plane_take(&rank, 1, &again);
    assert_int_equal(again.ready.tasks_retried, 0);
    assert_memory_equal(batch.data, again.data, batch.ready.leaves[0].size);
    plane_release(&rank, &batch);
    plane_release(&rank, &again);
    assert_int_equal(plane_number(plane_status(&rank), "replaced"), 2);
    stoker_source_close(source);
    session_end(&server, &rank);
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
    struct plane_loader options = session_python;
    options.num_workers = 3;
    session_begin(&server, &rank, source, &options);
    plane_join(&server, &observer, 1, 2);
    session_warm_up(&rank, 0, 50000);
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
        session_expect_filled(&batch, 50000, (uint8_t)(ready.sequence % 251));
        plane_release(&rank, &batch);
        taken++;
    }
    assert_true(plane_number(plane_status(&observer), "replaced") > 3);
    plane_wait_number(&observer, "used_bytes", 0);
    stoker_source_close(source);
    plane_leave(&observer);
    session_end(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_worker_costs_a_retry),
        cmocka_unit_test(test_task_that_kills_two_workers_fails),
        cmocka_unit_test(test_idle_worker_is_replaced),
        cmocka_unit_test(test_native_worker_that_is_killed_is_replaced),
        cmocka_unit_test(test_nothing_is_lost_under_kills),
    };
    return stk_run_tests(tests);
}
