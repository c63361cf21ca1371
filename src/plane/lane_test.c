/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders of a real DataServer: limits at opening, iterations, closing while views live.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/plane_session.h"

static void test_begin_drops_what_was_asked_before(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.num_workers = 1;
    options.stall_limit_ns = STK_SECOND_NS / 5;
    session_begin(&server, &rank, source, &options);
    plane_request(&rank, 1, 1, 0, "fill 1000 1");
    plane_take(&rank, 0, &batch);
    plane_release(&rank, &batch);
    for (uint64_t i = 1; i < 6; i++) plane_request(&rank, 1, 1, i, "hang");
    (void)plane_wait_worker(&rank, "busy", 0);
    plane_begin(&rank, 1, 2);
    plane_request(&rank, 1, 2, 0, "fill 1000 7");
    plane_take(&rank, 0, &batch); /* as soon as the stall limit has freed the worker of the old task */
    assert_int_equal(batch.ready.generation, 2);
    session_expect_filled(&batch, 1000, 7);
    plane_release(&rank, &batch);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_views_outlive_their_loader(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch kept, batch;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    plane_request(&rank, 1, 1, 0, "fill 200000 1");
    plane_take(&rank, 0, &kept);
    struct stk_message_loader_ref ref = {1, 0};
    PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
    struct plane_loader second = session_python;
    second.loader_id = 2;
    plane_open(&rank, source, &second);
    plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&rank, 2, 1);
    for (uint64_t i = 0; i < 8; i++) {
        plane_request(&rank, 2, 1, i, "fill 200000 2");
        plane_take(&rank, i, &batch);
        plane_release(&rank, &batch);
    }
    session_expect_filled(&kept, 200000, 1);
    assert_int_equal(plane_number(strstr(plane_status(&rank), "\"segments\""), "slabs"), 1);
    plane_release(&rank, &kept);
    plane_wait_number(&rank, "quarantined_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* A1: what does not fit twice is refused with both figures; a batch over max_bytes is an error, not a wait. */
static void test_a1_limits_are_named(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct stk_message_verdict verdict;
    struct plane_batch batch;
    char text[512];
    stoker_source *media = session_media_source(), *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &rank, 0, 1);
    struct plane_loader options = session_native;
    options.max_bytes = 100000;
    plane_open(&rank, media, &options);
    plane_expect(&rank, STK_MESSAGE_LOADER_FAILED);
    assert_int_equal(stk_verdict_decode(rank.in.body, &verdict, NULL), STOKER_OK);
    assert_int_equal(verdict.status, STOKER_ERR_LIMIT);
    (void)snprintf(text, sizeof text, "%.*s", (int)verdict.text.size, (const char *)verdict.text.data);
    assert_non_null(strstr(text, "100000"));
    options = session_python;
    options.max_bytes = 10000000;
    plane_open(&rank, source, &options);
    plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&rank, 1, 1);
    plane_request(&rank, 1, 1, 0, "fill 20000000 1");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_LIMIT);
    assert_non_null(strstr(text, "20000004"));
    assert_non_null(strstr(text, "10000000"));
    plane_request(&rank, 1, 1, 1, "fill 1000 1");
    plane_take(&rank, 1, &batch);
    plane_release(&rank, &batch);
    stoker_source_close(media);
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* Four requests, two batches: the engine is told two steps, and each part is made in its place. */
static void test_d1_parts_are_one_step_of_the_engine(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    char request[32];
    stoker_source *source = plane_process_source();
    struct plane_loader options = session_python;
    options.num_workers = 1; /* batches come in order */
    session_begin(&server, &rank, source, &options);
    for (uint32_t i = 0; i < 4; i++) {
        (void)snprintf(request, sizeof request, "fill %u %u", 1000 + i, i + 1);
        plane_request_part(&rank, i, i % 2, 2, request);
    }
    for (uint32_t i = 0; i < 4; i++) {
        plane_take(&rank, i, &batch);
        session_expect_filled(&batch, 1000 + i, (uint8_t)(i + 1));
        plane_release(&rank, &batch);
    }
    struct stk_message_step step = {.loader_id = 1, .generation = 1, .window_ns = 7000000};
    for (; step.sequence < 2; step.sequence++) {
        PLANE_SEND(&rank, STK_MESSAGE_STEP, step, &step);
        plane_wait_number(&rank, "next", (long long)step.sequence + 1);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    PLANE_SEND(&rank, STK_MESSAGE_STEP, step, &step); /* a third one was not asked for */
    plane_expect_closed(&rank);
    stoker_source_close(source);
    plane_close(&rank);
    assert_int_equal(plane_stop(&server), 0);
}

static void test_a_part_out_of_turn_ends_the_connection(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    session_begin(&server, &rank, source, &session_python);
    plane_request_part(&rank, 0, 0, 3, "fill 10 1");
    plane_request_part(&rank, 1, 2, 3, "fill 10 1");
    plane_expect_closed(&rank);
    stoker_source_close(source);
    plane_close(&rank);
    assert_int_equal(plane_stop(&server), 0);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begin_drops_what_was_asked_before),
        cmocka_unit_test(test_views_outlive_their_loader),
        cmocka_unit_test(test_a1_limits_are_named),
        cmocka_unit_test(test_d1_parts_are_one_step_of_the_engine),
        cmocka_unit_test(test_a_part_out_of_turn_ends_the_connection),
    };
    return stk_run_tests(tests);
}
