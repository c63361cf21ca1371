/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a real DataServer: whom it waits for, how it ends, where it runs.
 */
#include "tests/support/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "sched/journal.h"
#include "sys/process.h"
#include "tests/support/plane_session.h"

static void test_b7_waits_for_the_other_local_ranks(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank first, second;
    plane_start(&server);
    plane_join(&server, &first, 0, 2);
    plane_leave(&first);
    plane_join(&server, &second, 1, 2); /* it is still there: only one of two had come */
    session_end(&server, &second);
}

static void test_stop_ends_at_once_with_work_at_hand(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    plane_request(&rank, 1, 1, 0, "hang");
    pid_t busy = plane_wait_worker(&rank, "busy", 0);
    assert_int_equal(plane_stop(&server), 0);
    assert_int_equal(kill(busy, 0), -1);
    assert_int_equal(errno, ESRCH);
    plane_expect_closed(&rank);
    plane_close(&rank);
    stoker_source_close(source);
}

/* A killed DataServer leaves nobody behind. */
static void test_workers_follow_a_killed_server(void **state)
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
    assert_int_equal(kill(server.pid, SIGKILL), 0);
    for (int i = 0; i < 3; i++) session_expect_end(watches[i]);
    assert_int_equal(plane_wait(&server), 1000 + SIGKILL);
    plane_expect_closed(&rank);
    plane_close(&rank);
    stoker_source_close(source);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    stoker_error err;
    stoker_dataserver_options options = STOKER_DATASERVER_OPTIONS_INIT;
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.key = "short";
    options.program = "stoker";
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.key = "0000000000000000000000000000000000000000000000000000000000000000";
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataserver_run(NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_policy_is_checked(void **state)
{
    (void)state;
    stoker_error err = {0};
    stoker_dataserver_options options = STOKER_DATASERVER_OPTIONS_INIT;
    options.key = "0000000000000000000000000000000000000000000000000000000000000000";
    options.program = "stoker";
    options.policy = "fastest";
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "'fastest'"));
}

/* The server fails, for it has nobody to listen to; its journal is whole all the same. */
static void test_journal_is_a_new_file_and_ends_with_the_server(void **state)
{
    (void)state;
    char folder[] = "/tmp/stoker-journal-XXXXXX", path[64];
    uint8_t bytes[1024];
    struct stk_journal_reader reader;
    struct stk_engine_limits limits;
    struct stk_engine_options how;
    struct stk_journal_step step;
    stoker_error err = {0};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/engine", folder);
    stoker_dataserver_options options = STOKER_DATASERVER_OPTIONS_INIT;
    options.key = "0000000000000000000000000000000000000000000000000000000000000000";
    options.program = "stoker";
    options.policy = "cost";
    options.journal = path;
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file); /* it was only read */
    assert_int_equal(stk_journal_open(&reader, bytes, size, &limits, &how, NULL), STOKER_OK);
    assert_int_equal(limits.lanes, STK_LANES_MAX);
    assert_int_equal(how.place.policy, STK_POLICY_COST);
    assert_int_equal(stk_journal_next(&reader, NULL, 0, &step, NULL), STOKER_END);
    assert_true(reader.ended && !reader.limit_reached);
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* B5: workers run on the union of the CPU sets of their ranks, also those that were started before a rank came. */
static void test_b5_workers_use_the_cpus_of_all_ranks(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank first, second;
    uint8_t all[STK_CPU_MASK_BYTES_MAX], now[STK_CPU_MASK_BYTES_MAX];
    size_t size = stk_process_affinity(all, sizeof all);
    uint32_t cpus[2] = {0, 0}, found = 0;
    for (uint32_t cpu = 0; cpu < 8 * size && found < 2; cpu++)
        if (all[cpu / 8] >> (cpu % 8) & 1) cpus[found++] = cpu;
    if (found < 2) STK_SKIP("one CPU is its own union");
    stoker_source *source = plane_process_source();
    plane_start(&server);
    plane_join_on(&server, &first, 0, 2, cpus[0]);
    plane_open(&first, source, &session_python);
    plane_expect(&first, STK_MESSAGE_LOADER_OPENED);
    pid_t worker = plane_wait_worker(&first, "idle", 0);
    assert_int_equal(plane_cpus_of(worker, now), 1);
    assert_true(now[cpus[0] / 8] >> (cpus[0] % 8) & 1);
    plane_join_on(&server, &second, 1, 2, cpus[1]);
    (void)plane_status(&second);
    assert_int_equal(plane_cpus_of(worker, now), 2);
    assert_int_equal(plane_cpus_of(server.pid, now), 2);
    assert_true(now[cpus[1] / 8] >> (cpus[1] % 8) & 1);
    plane_leave(&second);
    stoker_source_close(source);
    session_end(&server, &first);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b7_waits_for_the_other_local_ranks),
        cmocka_unit_test(test_stop_ends_at_once_with_work_at_hand),
        cmocka_unit_test(test_workers_follow_a_killed_server),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_policy_is_checked),
        cmocka_unit_test(test_journal_is_a_new_file_and_ends_with_the_server),
        cmocka_unit_test(test_b5_workers_use_the_cpus_of_all_ranks),
    };
    return stk_run_tests(tests);
}
