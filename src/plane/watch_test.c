/* SPDX-License-Identifier: Apache-2.0
 *
 * What a real DataServer notices as time passes: workers that hang or are stopped.
 */
#include "tests/support/unit.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "sys/process.h"
#include "tests/support/plane_session.h"

/* A4: a stopped worker is killed before its memory is used again, so that it can never write into what came after. */
static void test_a4_stopped_worker_never_writes_again(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.stall_limit_ns = STK_SECOND_NS / 2;
    session_begin(&server, &rank, source, &options);
    session_warm_up(&rank, 0, 100000);
    plane_request(&rank, 1, 1, 1, "hang-once 100000 9"); /* it has filled its slab with 0xee */
    pid_t busy = plane_wait_begun(&rank, 0);
    int watch = stk_process_open(busy);
    assert_true(watch >= 0);
    assert_int_equal(kill(busy, SIGSTOP), 0);
    plane_take(&rank, 1, &batch);
    session_expect_filled(&batch, 100000, 9);
    plane_release(&rank, &batch);
    if (!strstr(rank.last_notice, "worker_stalled: worker ") || !strstr(rank.last_notice, "state T"))
        fail_msg("the notice does not say what the worker was doing: %s", rank.last_notice);
    for (uint64_t i = 2; i < 4; i++) { /* the slab is used twice more */
        plane_request(&rank, 1, 1, i, "fill 100000 3");
        plane_take(&rank, i, &batch);
        (void)kill(busy, SIGCONT);
        session_expect_filled(&batch, 100000, 3);
        plane_release(&rank, &batch);
    }
    struct pollfd ended = {watch, POLLIN, 0};
    assert_int_equal(poll(&ended, 1, 0), 1);
    (void)close(watch);
    assert_int_equal(plane_number(plane_status(&rank), "killed_stalled"), 1);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_task_that_hangs_twice_fails_in_time(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512];
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.stall_limit_ns = STK_SECOND_NS / 5;
    session_begin(&server, &rank, source, &options);
    plane_request(&rank, 1, 1, 0, "hang");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_TIMEOUT);
    assert_non_null(strstr(text, "busy with one task for"));
    session_warm_up(&rank, 1, 1000);
    stoker_source_close(source);
    session_end(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a4_stopped_worker_never_writes_again),
        cmocka_unit_test(test_task_that_hangs_twice_fails_in_time),
    };
    return stk_run_tests(tests);
}
