/* SPDX-License-Identifier: Apache-2.0
 *
 * Templates of Python lanes that fail or die.
 */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/process.h"
#include "tests/support/plane_session.h"

static void test_template_that_fails_is_told(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct stk_message_verdict verdict;
    plane_start(&server);
    plane_join(&server, &rank, 0, 1);
    stoker_source *source = plane_bad_source("bad");
    plane_open(&rank, source, &session_python);
    plane_expect(&rank, STK_MESSAGE_LOADER_FAILED);
    assert_int_equal(stk_verdict_decode(rank.in.body, &verdict, NULL), STOKER_OK);
    assert_int_equal(verdict.loader_id, 1);
    assert_true(verdict.status < 0);
    assert_memory_equal(verdict.text.data, "cannot unpickle", verdict.text.size);
    assert_memory_equal(verdict.detail.data, "trace", verdict.detail.size);
    stoker_source_close(source);
    source = plane_bad_source("crash");
    plane_open(&rank, source, &session_python); /* the id is free again */
    plane_expect(&rank, STK_MESSAGE_LOADER_FAILED);
    assert_int_equal(stk_verdict_decode(rank.in.body, &verdict, NULL), STOKER_OK);
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", (int)verdict.text.size, (const char *)verdict.text.data);
    assert_non_null(strstr(text, "before the dataset was loaded: exited with status 3"));
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* An accident costs what was being made another try, not the iteration. */
static void test_killed_template_is_started_again(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    session_warm_up(&rank, 0, 1000);
    for (uint64_t i = 1; i < 4; i++) { /* each time: a task was finished in between */
        pid_t template = (pid_t)plane_number(plane_status(&rank), "template_pid");
        plane_request(&rank, 1, 1, i, "hang-once 1000 7");
        (void)plane_wait_begun(&rank, 0);
        assert_int_equal(kill(template, SIGKILL), 0);
        plane_take(&rank, i, &batch);
        session_expect_filled(&batch, 1000, 7);
        assert_int_equal(batch.ready.tasks_retried, 1);
        plane_release(&rank, &batch);
        assert_true(plane_number(plane_status(&rank), "template_pid") != template);
    }
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* Killed again before anything was finished, it is given up until the next iteration. */
static void test_dead_template_is_an_error_that_names_it(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512], expected[64];
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    session_warm_up(&rank, 0, 1000);
    pid_t first = (pid_t)plane_number(plane_status(&rank), "template_pid"), template = first;
    assert_int_equal(kill(first, SIGKILL), 0);
    while (template == first || template == 0) template = (pid_t)plane_number(plane_status(&rank), "template_pid");
    assert_int_equal(kill(template, SIGKILL), 0);
    plane_wait_number(&rank, "template_pid", 0);
    plane_request(&rank, 1, 1, 1, "fill 1000 1");
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
    session_expect_filled(&batch, 1000, 4);
    plane_release(&rank, &batch);
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* What was made before the template died is delivered, also if it had to wait for its turn (rule A5). */
static void test_finished_batches_outlive_their_template(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batches[4], late;
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.max_bytes = 40 << 20;
    options.num_workers = 1;
    session_begin(&server, &rank, source, &options);
    for (uint64_t i = 0; i < 6; i++) plane_request(&rank, 1, 1, i, "fill 8000000 3");
    for (uint64_t i = 0; i < 4; i++) plane_take(&rank, i, &batches[i]);
    plane_wait_number(&rank, "held", 1);
    assert_int_equal(kill((pid_t)plane_number(plane_status(&rank), "template_pid"), SIGKILL), 0);
    for (uint64_t i = 0; i < 4; i++) {
        plane_step(&rank, &batches[i]);
        plane_release(&rank, &batches[i]);
    }
    for (uint64_t i = 4; i < 6; i++) { /* the last one was not begun: the next template makes it */
        plane_take(&rank, i, &late);
        session_expect_filled(&late, 8000000, 3);
        plane_step(&rank, &late);
        plane_release(&rank, &late);
    }
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* A template that does not end by itself is killed at the close of its loader, which does not wait for it. */
static void test_template_that_never_ends_is_killed(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_bad_source("deaf");
    session_begin(&server, &rank, source, &session_python);
    plane_request(&rank, 1, 1, 0, "fill 1000 1");
    int watch = stk_process_open((pid_t)plane_number(plane_status(&rank), "template_pid"));
    struct stk_message_loader_ref ref = {1, 0};
    PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
    plane_leave(&rank);
    assert_int_equal(plane_wait(&server), 0);
    session_expect_end(watch);
    stoker_source_close(source);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_that_fails_is_told),
        cmocka_unit_test(test_killed_template_is_started_again),
        cmocka_unit_test(test_dead_template_is_an_error_that_names_it),
        cmocka_unit_test(test_finished_batches_outlive_their_template),
        cmocka_unit_test(test_template_that_never_ends_is_killed),
    };
    return stk_run_tests(tests);
}
