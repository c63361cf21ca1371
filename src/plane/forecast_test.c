/* SPDX-License-Identifier: Apache-2.0
 *
 * What a real DataServer learns of the costs of its samples, and from what it does not.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/plane_session.h"

static void take(struct plane_rank *rank, uint64_t sequence)
{
    struct plane_batch batch;
    plane_take(rank, sequence, &batch);
    plane_release(rank, &batch);
}

/* Each of the two workers teaches nothing with its first sample (rule D2). */
static void test_d2_native_samples_teach_but_for_the_first_of_each_worker(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    static const uint64_t ids[8] = {CLIP_H264, CLIP_ROT90, CLIP_VFR,   CLIP_H264,
                                    CLIP_VFR,  CLIP_H264,  CLIP_ROT90, CLIP_VFR};
    stoker_source *source = session_media_source();
    session_begin(&server, &rank, source, &session_native);
    plane_wait_number(&rank, "costs_learned", 0);
    for (uint64_t i = 0; i < 4; i++) plane_request_ids(&rank, 1, 1, i, ids, 8);
    for (uint64_t i = 0; i < 4; i++) {
        struct stk_message_ready ready;
        struct plane_batch batch;
        plane_expect(&rank, STK_MESSAGE_READY);
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        plane_map(&rank, &ready, &batch);
        plane_release(&rank, &batch);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    const char *text = strstr(plane_status(&rank), "\"costs_learned\": ");
    assert_non_null(text);
    int learned = 0;
    assert_int_equal(sscanf(text, "\"costs_learned\": %d", &learned), 1);
    assert_in_range(learned, 30, 31); /* one worker may have been too slow to get any */
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* Failed and retried samples teach nothing. */
static void test_d2_failed_samples_teach_nothing(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[1024];
    stoker_source *source = session_media_source();
    struct plane_loader options = session_native;
    options.num_workers = 1;
    options.retries = 2;
    session_begin(&server, &rank, source, &options);
    const uint64_t good[1] = {CLIP_H264}, bad[1] = {CLIP_AUDIO};
    plane_request_ids(&rank, 1, 1, 0, good, 1); /* the worker's first */
    take(&rank, 0);
    for (uint64_t i = 1; i < 4; i++) {
        plane_request_ids(&rank, 1, 1, i, bad, 1);
        assert_true(plane_take_failure(&rank, i, text, sizeof text) < 0);
    }
    plane_wait_number(&rank, "costs_learned", 0);
    plane_request_ids(&rank, 1, 1, 4, good, 1);
    take(&rank, 4);
    plane_wait_number(&rank, "costs_learned", 1);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_batches_of_python_teach_with_their_estimate(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    session_warm_up(&rank, 0, 1000);
    for (uint64_t i = 1; i < 12; i++) {
        static const char payload[] = "fill 1000 7";
        struct stk_message_request request = {1, 1, i, {0}, {payload, sizeof payload - 1}, {0}, 4, 2000000};
        PLANE_SEND(&rank, STK_MESSAGE_REQUEST, request, &request);
    }
    for (uint64_t i = 1; i < 12; i++) {
        struct stk_message_ready ready;
        struct plane_batch batch;
        plane_expect(&rank, STK_MESSAGE_READY);
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        plane_map(&rank, &ready, &batch);
        plane_release(&rank, &batch);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    const char *text = strstr(plane_status(&rank), "\"costs_learned\": ");
    int learned = 0;
    assert_non_null(text);
    assert_int_equal(sscanf(text, "\"costs_learned\": %d", &learned), 1);
    assert_in_range(learned, 10, 11);
    stoker_source_close(source);
    session_end(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_d2_native_samples_teach_but_for_the_first_of_each_worker),
        cmocka_unit_test(test_d2_failed_samples_teach_nothing),
        cmocka_unit_test(test_batches_of_python_teach_with_their_estimate),
    };
    return stk_run_tests(tests);
}
