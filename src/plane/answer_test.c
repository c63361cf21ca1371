/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker that was killed and does not end (it hangs in the kernel): its batch is made again in other memory, and
 * its slab is used again only after it has reported or ended. No test can make such a process, so the server's loop
 * runs here and is told that a stopped worker is one.
 */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plane/server_internal.h"
#include "tests/support/plane_server.h"

static volatile sig_atomic_t told;

static void on_tell(int signal_number)
{
    (void)signal_number;
    told = 1;
}

/* As stoker_dataserver_run(); at SIGUSR1 each busy worker counts as stuck. */
static stoker_status run_told(const stoker_dataserver_options *options, stoker_error *err)
{
    struct stk_server *server;
    struct sigaction action = {.sa_handler = on_tell};
    (void)sigaction(SIGUSR1, &action, NULL);
    stoker_status status = stk_server_create(options, &server, err);
    if (status != STOKER_OK) return status;
    while (status == STOKER_OK && !stk_server_is_over(server)) {
        status = stk_server_step(server, err);
        if (!told) continue;
        told = 0;
        uint32_t cursor = 0;
        for (struct stk_worker *worker; (worker = stk_pool_walk(server->pool, &cursor));)
            if (worker->state == STK_WORKER_BUSY) stk_server_pool_ops.stuck(server, worker);
    }
    stk_server_destroy(server);
    return status;
}

static void begin(struct plane_server *server, struct plane_rank *rank, const stoker_source *source)
{
    static const struct plane_loader python = {.loader_id = 1, .num_workers = 2, .max_bytes = 1 << 20};
    struct plane_batch batch;
    plane_start_with(server, run_told);
    plane_join(server, rank, 0, 1);
    plane_open(rank, source, &python);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 1);
    plane_request(rank, 1, 1, 0, "fill 100000 1"); /* from now on the size is known */
    plane_take(rank, 0, &batch);
    plane_release(rank, &batch);
}

static void expect_filled(const struct plane_batch *batch, size_t size, uint8_t value)
{
    for (size_t i = 0; i < size; i++) assert_int_equal(batch->data[i], value);
}

/* A4: STOP a worker in the middle of its write, let the retry end, use its slab twice, CONT, compare bytes. */
static void test_a4_late_writer_finds_its_slab_fenced(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch kept, batch;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source);
    plane_request(&rank, 1, 1, 1, "wait-once 100000 9");
    pid_t late = plane_wait_begun(&rank, 0);
    assert_int_equal(kill(late, SIGSTOP), 0);
    assert_int_equal(kill(server.pid, SIGUSR1), 0);
    plane_take(&rank, 1, &kept);
    expect_filled(&kept, 100000, 9);
    assert_int_equal(kept.ready.tasks_retried, 1);
    const char *status = plane_status(&rank);
    char holder[64];
    (void)snprintf(holder, sizeof holder, "\"holder\": {\"kind\": \"worker\", \"pid\": %ld}", (long)late);
    assert_non_null(strstr(status, holder)); /* named in the metric */
    assert_int_equal(plane_number(status, "quarantined_bytes"), 100004);
    for (uint64_t i = 2; i < 6; i++) {
        plane_request(&rank, 1, 1, i, "fill 100000 3");
        plane_take(&rank, i, &batch);
        if (i == 5) { /* it goes on, writes all of its old slab, and reports: its answer is dropped (C3) */
            assert_int_equal(kill(late, SIGCONT), 0);
            assert_int_equal(kill(late, SIGUSR1), 0);
            plane_wait_number(&rank, "quarantined_bytes", 0);
        }
        expect_filled(&batch, 100000, 3);
        plane_release(&rank, &batch);
    }
    expect_filled(&kept, 100000, 9);
    plane_release(&rank, &kept);
    (void)plane_wait_worker(&rank, "idle", 1); /* and it may work again */
    assert_int_equal(plane_number(plane_status(&rank), "replaced"), 0);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    plane_leave(&rank);
    assert_int_equal(plane_wait(&server), 0);
}

/* The batch of a stuck worker was cancelled: it ends at once, its memory later. */
static void test_stuck_worker_does_not_hold_up_a_cancelled_batch(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source);
    plane_request(&rank, 1, 1, 1, "wait-once 100000 9");
    pid_t late = plane_wait_begun(&rank, 0);
    plane_begin(&rank, 1, 2);
    assert_int_equal(plane_number(plane_status(&rank), "in_flight"), 1);
    assert_int_equal(kill(server.pid, SIGUSR1), 0);
    plane_wait_number(&rank, "in_flight", 0);
    assert_int_equal(plane_number(plane_status(&rank), "quarantined_bytes"), 100004);
    plane_request(&rank, 1, 2, 0, "fill 100000 3");
    plane_take(&rank, 0, &batch);
    assert_int_equal(kill(late, SIGKILL), 0);
    plane_wait_number(&rank, "quarantined_bytes", 0);
    expect_filled(&batch, 100000, 3);
    plane_release(&rank, &batch);
    stoker_source_close(source);
    plane_leave(&rank);
    assert_int_equal(plane_wait(&server), 0);
}

/* A batch whose every worker gets stuck fails at the second. */
static void test_batch_that_sticks_twice_fails(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[512];
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source);
    plane_request(&rank, 1, 1, 1, "hang");
    pid_t first = plane_wait_begun(&rank, 0);
    assert_int_equal(kill(server.pid, SIGUSR1), 0);
    plane_wait_number(&rank, "quarantined_bytes", 100004);
    pid_t second = plane_wait_begun(&rank, 1); /* both are busy now: the first is still listed, in either place */
    if (second == first) second = plane_wait_begun(&rank, 0);
    assert_int_not_equal(second, first);
    assert_int_equal(kill(server.pid, SIGUSR1), 0);
    assert_int_equal(plane_take_failure(&rank, 1, text, sizeof text), STOKER_ERR_LOST);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(kill(second, SIGKILL), 0);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    plane_leave(&rank);
    assert_int_equal(plane_wait(&server), 0);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a4_late_writer_finds_its_slab_fenced),
        cmocka_unit_test(test_stuck_worker_does_not_hold_up_a_cancelled_batch),
        cmocka_unit_test(test_batch_that_sticks_twice_fails),
    };
    return stk_run_tests(tests);
}
