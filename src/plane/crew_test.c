/* SPDX-License-Identifier: Apache-2.0
 *
 * Crews of a real DataServer as a whole: giving up, closing.
 */
#include "tests/support/unit.h"

#include <string.h>
#include <unistd.h>

#include "sys/process.h"
#include "tests/support/plane_session.h"

static void test_workers_that_end_at_once_are_given_up(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512];
    stoker_source *source = plane_bad_source("stillborn");
    session_begin(&server, &rank, source, &session_python);
    while (!strstr(plane_status(&rank), "\"state\": \"broken\"")) continue;
    plane_request(&rank, 1, 1, 0, "fill 1000 1");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_LOST);
    assert_non_null(strstr(text, "5 workers in a row ended within 10 s"));
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* Closing a loader lets its workers end by themselves, and kills what does not. */
static void test_close_ends_the_workers(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    session_warm_up(&rank, 0, 1000);
    plane_request(&rank, 1, 1, 1, "hang");
    pid_t busy = plane_wait_worker(&rank, "busy", 0), idle = plane_wait_worker(&rank, "idle", 0);
    pid_t template = (pid_t)plane_number(plane_status(&rank), "template_pid");
    int watches[] = {stk_process_open(busy), stk_process_open(idle), stk_process_open(template)};
    struct stk_message_loader_ref ref = {1, 0};
    PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
    for (int i = 0; i < 3; i++) session_expect_end(watches[i]);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_that_end_at_once_are_given_up),
        cmocka_unit_test(test_close_ends_the_workers),
    };
    return stk_run_tests(tests);
}
