/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of requests through a real DataServer: native and Python batches, bad samples, memory. Ranks speak message by
 * message.
 */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/plane_session.h"

static void test_native_batches_equal_a_sequential_decode(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = session_media_source();
    session_begin(&server, &rank, source, &session_native);
    static const uint64_t ids[3][4] = {{CLIP_H264, CLIP_ROT90, CLIP_VFR, CLIP_H264},
                                       {CLIP_VFR, CLIP_VFR, CLIP_ROT90, CLIP_H264},
                                       {CLIP_ROT90, CLIP_H264, CLIP_VFR, CLIP_ROT90}};
    for (uint64_t i = 0; i < 3; i++) plane_request_ids(&rank, 1, 1, i, ids[i], 4);
    struct plane_batch batches[3];
    for (int n = 0; n < 3; n++) { /* they finish in any order */
        struct stk_message_ready ready;
        plane_expect(&rank, STK_MESSAGE_READY);
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        assert_true(ready.sequence < 3);
        plane_map(&rank, &ready, &batches[ready.sequence]);
    }
    for (int n = 0; n < 3; n++) {
        session_expect_samples(source, &batches[n], ids[n], 4);
        plane_release(&rank, &batches[n]);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_bad_sample_names_sample_file_and_cause(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[1024];
    stoker_source *source = session_media_source();
    struct plane_loader options = session_native;
    options.retries = 1;
    session_begin(&server, &rank, source, &options);
    const uint64_t bad[] = {CLIP_H264, CLIP_MISSING}, good[] = {CLIP_VFR};
    plane_request_ids(&rank, 1, 1, 0, bad, 2);
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(text, "sample 3 ('"));
    assert_non_null(strstr(text, "missing.mp4'): "));
    assert_non_null(strstr(text, "No such file"));
    /* The loader goes on, and nothing of the failed batch stays. */
    plane_request_ids(&rank, 1, 1, 1, good, 1);
    struct plane_batch batch;
    plane_take(&rank, 1, &batch);
    session_expect_samples(source, &batch, good, 1);
    plane_release(&rank, &batch);
    plane_wait_number(&rank, "used_bytes", 0);
    assert_int_equal(plane_number(plane_status(&rank), "tasks_retried"), 1);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_skip_fills_the_place_and_tells(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = session_media_source();
    struct plane_loader options = session_native;
    options.on_error = STOKER_ON_ERROR_SKIP;
    session_begin(&server, &rank, source, &options);
    const uint64_t ids[] = {CLIP_MISSING, CLIP_ROT90, CLIP_AUDIO, CLIP_VFR};
    const uint64_t shown[] = {CLIP_ROT90, CLIP_ROT90, CLIP_ROT90, CLIP_VFR};
    struct plane_batch batch;
    plane_request_ids(&rank, 1, 1, 0, ids, 4);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 2);
    session_expect_samples(source, &batch, shown, 4);
    assert_int_equal(rank.notices, 2);
    assert_non_null(strstr(rank.last_notice, "sample_skipped: sample "));
    plane_release(&rank, &batch);
    const uint64_t none[] = {CLIP_MISSING, CLIP_AUDIO};
    char text[1024];
    plane_request_ids(&rank, 1, 1, 1, none, 2);
    assert_int_equal(plane_take_failure(&rank, 1, text, sizeof text), STOKER_ERR_NOT_FOUND);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_replace_takes_the_next_sample(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = session_media_source();
    struct plane_loader options = session_native;
    options.on_error = STOKER_ON_ERROR_REPLACE;
    session_begin(&server, &rank, source, &options);
    const uint64_t ids[] = {CLIP_AUDIO, CLIP_H264}, shown[] = {CLIP_VFR, CLIP_H264};
    struct plane_batch batch;
    plane_request_ids(&rank, 1, 1, 0, ids, 2);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 1);
    session_expect_samples(source, &batch, shown, 2);
    plane_release(&rank, &batch);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_python_batches_grow_into_their_size(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    char request[64];
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    /* The first has no size to go by, the second fits, the third is larger than any before, the fourth smaller. */
    static const size_t sizes[] = {100000, 100000, 700000, 10};
    for (int i = 0; i < 4; i++) {
        (void)snprintf(request, sizeof request, "fill %zu %d", sizes[i], i + 1);
        plane_request(&rank, 1, 1, (uint64_t)i, request);
        plane_take(&rank, (uint64_t)i, &batch);
        session_expect_filled(&batch, sizes[i], (uint8_t)(i + 1));
        plane_release(&rank, &batch);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    assert_int_equal(plane_number(plane_status(&rank), "largest_bytes"), 700004);
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* B6: the first batch of a loader runs alone, so that the second knows its size. */
static void test_b6_first_batch_runs_alone(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    for (uint64_t i = 0; i < 4; i++) plane_request(&rank, 1, 1, i, i == 0 ? "hang-once 5000 1" : "fill 5000 2");
    pid_t busy = plane_wait_begun(&rank, 0);
    (void)plane_wait_worker(&rank, "idle", 0); /* the other one has nothing to do */
    assert_int_equal(plane_number(plane_status(&rank), "used_bytes"), 0);
    assert_int_equal(kill(busy, SIGKILL), 0);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.tasks_retried, 1);
    session_expect_filled(&batch, 5000, 1);
    plane_release(&rank, &batch);
    for (int i = 0; i < 3; i++) {
        struct stk_message_ready ready;
        plane_expect(&rank, STK_MESSAGE_READY);
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        plane_map(&rank, &ready, &batch);
        session_expect_filled(&batch, 5000, 2);
        plane_release(&rank, &batch);
    }
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_python_failure_carries_its_detail(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[256];
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    plane_request(&rank, 1, 1, 0, "fail it is broken");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_CORRUPT);
    assert_string_equal(text, "it is broken");
    struct stk_message_failed failed;
    assert_int_equal(stk_failed_decode(rank.in.body, &failed, NULL), STOKER_OK);
    assert_int_equal(failed.detail.size, 6);
    assert_memory_equal(failed.detail.data, "detail", 6);
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* Two workers in a row die before they read the task: no try of it is lost, so it is made all the same. */
static void test_workers_that_die_before_they_begin_cost_no_try(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    plane_wait_number(&rank, "in_flight", 0);
    (void)plane_wait_worker(&rank, "idle", 1);
    pid_t one = plane_wait_worker(&rank, "idle", 0), two = plane_wait_worker(&rank, "idle", 1);
    assert_int_equal(kill(one, SIGSTOP) | kill(two, SIGSTOP), 0);
    plane_request(&rank, 1, 1, 0, "fill 5000 1");
    for (int i = 0; i < 2; i++) {
        pid_t busy = plane_wait_worker(&rank, "busy", 0);
        assert_true(busy == one || busy == two);
        assert_int_equal(kill(busy, SIGKILL), 0);
        if (i == 0) { /* the other one has the task now */
            pid_t next;
            do next = plane_wait_worker(&rank, "busy", 0);
            while (next == busy);
        }
    }
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.tasks_retried, 0);
    session_expect_filled(&batch, 5000, 1);
    plane_release(&rank, &batch);
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* A5: a rank that keeps everything gets private copies, and goes on. */
static void test_a5_keeping_batches_does_not_stop(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    enum { COUNT = 24 };
    struct plane_batch batches[COUNT];
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.max_bytes = 40 << 20;
    session_begin(&server, &rank, source, &options);
    int copies = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        plane_request(&rank, 1, 1, i, "fill 8000000 3");
        plane_take(&rank, i, &batches[i]);
        session_expect_filled(&batches[i], 8000000, 3);
        plane_step(&rank, &batches[i]);
        if (!(batches[i].ready.flags & STK_READY_COPY)) continue;
        plane_release(&rank, &batches[i]);
        copies++;
    }
    assert_true(copies >= COUNT - 5);
    assert_true(copies < COUNT);
    for (int i = 0; i < COUNT; i++) stk_shm_mapping_unref(batches[i].mapping); /* kept to the end, never returned */
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* A5: a rank that is only slow, and keeps nothing, gets no copies: what could only be one waits for its turn. */
static void test_a5_slow_rank_gets_no_copies(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    enum { COUNT = 12 };
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.max_bytes = 40 << 20;
    options.num_workers = 1;
    session_begin(&server, &rank, source, &options);
    for (uint64_t i = 0; i < COUNT; i++) plane_request(&rank, 1, 1, i, "fill 8000000 3");
    for (uint64_t i = 0; i < COUNT; i++) {
        plane_take(&rank, i, &batch);
        assert_int_equal(batch.ready.flags & STK_READY_COPY, 0);
        plane_step(&rank, &batch);
        plane_release(&rank, &batch);
    }
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* What waits for its turn goes with its iteration. */
static void test_waiting_batches_end_with_their_iteration(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batches[4], batch;
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.max_bytes = 40 << 20;
    options.num_workers = 1;
    session_begin(&server, &rank, source, &options);
    for (uint64_t i = 0; i < 12; i++) plane_request(&rank, 1, 1, i, "fill 8000000 3");
    /* Four views and room for one more batch: nothing else is sent before a step. */
    for (uint64_t i = 0; i < 4; i++) plane_take(&rank, i, &batches[i]);
    plane_wait_number(&rank, "held", 1);
    plane_begin(&rank, 1, 2);
    for (uint64_t i = 0; i < 4; i++) plane_release(&rank, &batches[i]);
    plane_request(&rank, 1, 2, 0, "fill 8000000 4");
    plane_take(&rank, 0, &batch);
    session_expect_filled(&batch, 8000000, 4);
    assert_int_equal(batch.ready.generation, 2);
    assert_int_equal(plane_number(plane_status(&rank), "held"), 0);
    plane_release(&rank, &batch);
    stoker_source_close(source);
    session_end(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native_batches_equal_a_sequential_decode),
        cmocka_unit_test(test_bad_sample_names_sample_file_and_cause),
        cmocka_unit_test(test_skip_fills_the_place_and_tells),
        cmocka_unit_test(test_replace_takes_the_next_sample),
        cmocka_unit_test(test_python_batches_grow_into_their_size),
        cmocka_unit_test(test_b6_first_batch_runs_alone),
        cmocka_unit_test(test_python_failure_carries_its_detail),
        cmocka_unit_test(test_workers_that_die_before_they_begin_cost_no_try),
        cmocka_unit_test(test_a5_keeping_batches_does_not_stop),
        cmocka_unit_test(test_a5_slow_rank_gets_no_copies),
        cmocka_unit_test(test_waiting_batches_end_with_their_iteration),
    };
    return stk_run_tests(tests);
}
