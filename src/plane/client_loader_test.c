/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders against a DataServer played by the test: order, failures, limits, private copies, what is told to the server.
 */
#include "tests/support/unit.h"

#include <string.h>

#include "base/limits.h"
#include "plane/batch.h"
#include "sys/clock.h"
#include "tests/support/fake_dataserver.h"

#define LONG_NS (20 * STK_SECOND_NS)

static void expect_bytes(const stoker_batch *batch, uint8_t value, uint32_t samples)
{
    stoker_leaf leaf;
    stoker_error error;
    assert_int_equal(stoker_batch_leaf(batch, 0, &leaf, &error), STOKER_OK);
    assert_int_equal(leaf.size, samples * FAKE_SAMPLE_BYTES);
    assert_int_equal(leaf.shape[0], samples);
    assert_int_equal((uintptr_t)leaf.data % STK_LEAF_ALIGNMENT, 0);
    for (size_t i = 0; i < leaf.size; i++) assert_int_equal(((const uint8_t *)leaf.data)[i], value);
}

static uint64_t next_sequence(stoker_loader *loader)
{
    stoker_batch *batch = NULL;
    stoker_error error;
    stoker_batch_info info;
    stoker_status status = stoker_loader_next(loader, LONG_NS, &batch, &error);
    if (status != STOKER_OK) fail_msg("next: %s", stoker_status_name(status));
    stoker_batch_read_info(batch, &info);
    assert_null(info.skeleton);
    stoker_batch_unref(batch);
    return info.sequence;
}

static void test_batches_come_in_the_order_of_the_requests(void **state)
{
    (void)state;
    struct fake_server fake;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(fake_request(&fake, loader, 2), i);
    for (uint64_t i = 3; i-- > 0;) (void)fake_ready(&fake, (struct fake_answer){1, 1, i, 0}, 5, 2);
    for (uint64_t i = 0; i < 3; i++) {
        stoker_batch *batch = NULL;
        stoker_error error;
        assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, &error), STOKER_OK);
        expect_bytes(batch, (uint8_t)(i + 1), 2);
        stoker_batch_unref(batch);
    }
    stoker_batch *none = NULL;
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &none, NULL), STOKER_END);
    assert_null(none);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_any_order_gives_what_finished_first(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = NULL;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    options.batch_samples_max = 8;
    options.any_order = 1;
    fake_start(&fake);
    fake_open_client(&fake);
    assert_int_equal(fake_answer_open(&fake, STK_SOURCE_MEDIA, &options, &loader, NULL), STOKER_OK);
    assert_int_equal(stoker_loader_begin(loader, NULL), STOKER_OK);
    (void)fake_expect(&fake, STK_MESSAGE_LOADER_BEGIN);
    for (int i = 0; i < 3; i++) (void)fake_request(&fake, loader, 1);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, 2, 0}, 5, 1);
    assert_int_equal(next_sequence(loader), 2);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, 1, 0}, 5, 1);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, 0, 0}, 5, 1);
    assert_int_equal(next_sequence(loader), 1);
    assert_int_equal(next_sequence(loader), 0);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_failure_is_raised_once_in_its_step(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_batch *batch = NULL;
    stoker_error error;
    const void *detail;
    size_t size;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (int i = 0; i < 3; i++) (void)fake_request(&fake, loader, 1);
    fake_failed(&fake, (struct fake_answer){1, 1, 1, 0}, STOKER_ERR_CORRUPT, "sample 17: clips/a.mp4: no moov atom",
                "exc");
    (void)fake_ready(&fake, (struct fake_answer){1, 1, 2, 0}, 5, 1);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, 0, 0}, 5, 1);
    assert_int_equal(next_sequence(loader), 0);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, &error), STOKER_ERR_CORRUPT);
    assert_null(batch);
    assert_string_equal(error.message, "sample 17: clips/a.mp4: no moov atom");
    stoker_loader_failure(loader, &detail, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(detail, "exc", 3);
    assert_int_equal(next_sequence(loader), 2);
    stoker_loader_failure(loader, &detail, &size);
    assert_null(detail);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, &error), STOKER_END);
    stoker_loader_stats stats;
    stoker_loader_read_stats(loader, &stats);
    assert_int_equal(stats.failures, 1);
    assert_int_equal(stats.batches, 2);
    assert_int_equal(stats.samples_skipped, 2);
    assert_int_equal(stats.tasks_retried, 4);
    assert_int_equal(stats.last_ready_ns, 1000);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_long_failure_keeps_both_ends(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_batch *batch;
    stoker_error error;
    char text[2048];
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    (void)fake_request(&fake, loader, 1);
    memset(text, 'x', sizeof text);
    memcpy(text, "sample 3: ", 10);
    memcpy(text + sizeof text - 11, ": cut short", 11);
    text[sizeof text - 1] = '\0';
    fake_failed(&fake, (struct fake_answer){1, 1, 0, 0}, STOKER_ERR_IO, text, NULL);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, &error), STOKER_ERR_IO);
    assert_memory_equal(error.message, "sample 3: ", 10);
    assert_non_null(strstr(error.message, "...x"));
    assert_non_null(strstr(error.message, ": cut shor"));
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_next_gives_again_at_its_limit(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_batch *batch = NULL;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    assert_int_equal(stoker_loader_next(loader, 0, &batch, NULL), STOKER_END);
    (void)fake_request(&fake, loader, 1);
    assert_int_equal(stoker_loader_next(loader, 0, &batch, NULL), STOKER_AGAIN);
    assert_int_equal(stoker_loader_next(loader, 2000000, &batch, NULL), STOKER_AGAIN);
    assert_null(batch);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, 0, 0}, 5, 1);
    assert_int_equal(next_sequence(loader), 0);
    stoker_loader_stats stats;
    stoker_loader_read_stats(loader, &stats);
    assert_true(stats.last_wait_ns >= 2000000); /* the wait of the whole sequence of calls, rule D1 */
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_d1_steps_carry_durations(void **state)
{
    (void)state;
    struct fake_server fake;
    struct stk_message_step step;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (int i = 0; i < 2; i++) (void)fake_request(&fake, loader, 1);
    for (uint64_t i = 0; i < 2; i++) {
        (void)fake_ready(&fake, (struct fake_answer){1, 1, i, 0}, 5, 1);
        (void)next_sequence(loader);
        struct stk_incoming *incoming = fake_expect(&fake, STK_MESSAGE_STEP);
        assert_int_equal(stk_step_decode(incoming->body, &step, NULL), STOKER_OK);
        assert_int_equal(step.sequence, i);
        assert_int_equal(step.loader_id, 1);
        assert_int_equal(step.generation, 1);
        if (i == 0) assert_int_equal(step.window_ns, 0);
        if (i == 1) assert_true(step.window_ns > 0);
    }
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void request_part(struct fake_server *fake, stoker_loader *loader, uint16_t part, uint16_t parts)
{
    stoker_error error;
    struct stk_message_request message;
    stoker_request request = {.payload = "p", .payload_size = 1, .part = part, .parts = parts};
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_OK);
    assert_int_equal(stk_request_decode(fake_expect(fake, STK_MESSAGE_REQUEST)->body, &message, NULL), STOKER_OK);
    assert_int_equal(message.payload.size, 1);
    assert_int_equal(message.ids.size, 0);
    assert_int_equal(message.draws.size, parts > 1 ? STK_PART_BYTES : 0);
    if (parts < 2) return;
    assert_int_equal(stk_load_u64(message.draws.data), part);
    assert_int_equal(stk_load_u64((const uint8_t *)message.draws.data + 8), parts);
}

/* The rank computes between batches only: parts of one are taken one after the other, and are one step. */
static void test_d1_parts_of_a_batch_are_one_step(void **state)
{
    (void)state;
    struct fake_server fake;
    struct stk_message_step step;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_PROCESS);
    for (uint16_t i = 0; i < 6; i++) request_part(&fake, loader, i % 3, 3);
    request_part(&fake, loader, 0, 1);
    uint64_t first = 0;
    for (uint64_t i = 0; i < 7; i++) {
        uint64_t began = stk_clock_now_ns();
        (void)fake_ready(&fake, (struct fake_answer){1, 1, i, 0}, 5, 1);
        assert_int_equal(next_sequence(loader), i);
        if (i % 3 == 0) first = stk_clock_now_ns();
        if (i % 3 != 2 && i < 6) continue;
        assert_int_equal(stk_step_decode(fake_expect(&fake, STK_MESSAGE_STEP)->body, &step, NULL), STOKER_OK);
        assert_int_equal(step.sequence, i / 3);
        if (i == 2) assert_int_equal(step.window_ns, 0);
        if (i > 2) assert_true(step.window_ns > 0);
        if (i < 6) assert_true(step.wait_ns >= began - first); /* from the first of its calls on */
    }
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

/* What was looked for while the rank computes is no wait: neither where it was not there, nor between parts. */
static void test_d1_who_only_looks_does_not_wait(void **state)
{
    (void)state;
    struct fake_server fake;
    struct stk_message_step step;
    stoker_batch *batch;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_PROCESS);
    for (uint16_t i = 0; i < 4; i++) request_part(&fake, loader, i % 2, 2);
    uint64_t looked_ns = 0;
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(stoker_loader_next(loader, 0, &batch, NULL), STOKER_AGAIN);
        if (i == 2) looked_ns = stk_clock_now_ns();
        (void)fake_ready(&fake, (struct fake_answer){1, 1, i, 0}, 5, 1);
        stoker_status status;
        while ((status = stoker_loader_next(loader, 0, &batch, NULL)) == STOKER_AGAIN) {
        }
        assert_int_equal(status, STOKER_OK);
        stoker_batch_unref(batch);
        uint64_t left_ns = stk_clock_now_ns();
        if (i % 2 == 0) continue;
        assert_int_equal(stk_step_decode(fake_expect(&fake, STK_MESSAGE_STEP)->body, &step, NULL), STOKER_OK);
        assert_int_equal(step.sequence, i / 2);
        if (i == 3) assert_true(step.window_ns + step.wait_ns > 0 && step.wait_ns < left_ns - looked_ns);
    }
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_parts_out_of_turn_are_refused(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_PROCESS);
    stoker_request request = {.payload = "p", .payload_size = 1, .part = 1, .parts = 3};
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_INVALID_ARGUMENT);
    request_part(&fake, loader, 0, 3);
    request.part = 2;
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_INVALID_ARGUMENT);
    assert_string_equal(error.message, "part 2 of 3 after 1 of 3 parts");
    request_part(&fake, loader, 1, 3);
    request_part(&fake, loader, 0, 2); /* the batch was given up */
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_begin_drops_what_came_before(void **state)
{
    (void)state;
    struct fake_server fake;
    uint64_t slabs[4];
    struct stk_message_loader_ref ref;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (int i = 0; i < 2; i++) (void)fake_request(&fake, loader, 1);
    uint64_t first = fake_ready(&fake, (struct fake_answer){1, 1, 0, 0}, 5, 1);
    assert_int_equal(stoker_loader_begin(loader, NULL), STOKER_OK);
    /* The first batch arrived before or after begin(): it is released either way, before or after BEGIN is sent. */
    for (int seen = 0; seen != 3;) {
        assert_int_equal(stk_channel_receive_wait(fake.channel, UINT64_MAX, &fake.incoming, NULL), STOKER_OK);
        if (fake.incoming.frame.type == STK_MESSAGE_LOADER_BEGIN) {
            assert_int_equal(stk_loader_ref_decode(fake.incoming.body, &ref, NULL), STOKER_OK);
            assert_int_equal(ref.generation, 2);
            seen |= 1;
        } else {
            assert_int_equal(fake.incoming.frame.type, STK_MESSAGE_RELEASE);
            struct stk_message_release release;
            assert_int_equal(stk_release_decode(fake.incoming.body, &release, NULL), STOKER_OK);
            assert_int_equal(release.slabs.size, sizeof first);
            assert_int_equal(stk_load_u64(release.slabs.data), first);
            seen |= 2;
        }
    }
    uint64_t late = fake_ready(&fake, (struct fake_answer){1, 1, 1, 0}, 5, 1);
    assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
    assert_int_equal(slabs[0], late);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, NULL, NULL), STOKER_END);
    assert_int_equal(fake_request(&fake, loader, 1), 0);
    (void)fake_ready(&fake, (struct fake_answer){1, 2, 0, 0}, 5, 1);
    assert_int_equal(next_sequence(loader), 0);
    /* An answer for a loader that is closed is released, too. */
    (void)fake_request(&fake, loader, 1);
    stoker_loader_close(loader);
    late = fake_ready(&fake, (struct fake_answer){1, 2, 1, 0}, 5, 1);
    do {
        assert_int_equal(stk_channel_receive_wait(fake.channel, UINT64_MAX, &fake.incoming, NULL), STOKER_OK);
    } while (fake.incoming.frame.type != STK_MESSAGE_LOADER_CLOSE);
    assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
    assert_int_equal(slabs[0], late);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_a5_copies_are_private_and_the_slab_returns(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_batch *batches[2];
    stoker_batch_info info;
    uint64_t slabs[4];
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (int i = 0; i < 2; i++) (void)fake_request(&fake, loader, 2);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t slab = fake_ready(&fake, (struct fake_answer){1, 1, i, STK_READY_COPY}, 5, 2);
        assert_int_equal(stoker_loader_next(loader, LONG_NS, &batches[i], NULL), STOKER_OK);
        assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
        assert_int_equal(slabs[0], slab);
        stoker_batch_read_info(batches[i], &info);
        assert_int_equal(info.bytes, 0);
    }
    memset(fake.segments[0].memory, 0xee, fake.segments[0].size); /* the slabs are somebody else's now */
    for (int i = 0; i < 2; i++) expect_bytes(batches[i], (uint8_t)(i + 1), 2);
    stoker_loader_stats stats;
    stoker_loader_read_stats(loader, &stats);
    assert_int_equal(stats.copies, 2);
    assert_int_equal(stats.bytes_held, 0);
    stoker_batch_unref(batches[0]);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    expect_bytes(batches[1], 2, 2);
    stoker_batch_unref(batches[1]);
    fake_stop(&fake);
}

static void test_held_bytes_follow_the_views(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_batch *batch;
    stoker_loader_stats stats;
    stoker_batch_info info;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    (void)fake_request(&fake, loader, 2);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, 0, 0}, 5, 2);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, NULL), STOKER_OK);
    stoker_batch_read_info(batch, &info);
    assert_int_equal(info.bytes, 2 * FAKE_SAMPLE_BYTES);
    stoker_loader_read_stats(loader, &stats);
    assert_int_equal(stats.bytes_held, 2 * FAKE_SAMPLE_BYTES);
    stoker_batch_ref(batch);
    stoker_batch_unref(batch);
    stoker_loader_read_stats(loader, &stats);
    assert_int_equal(stats.bytes_held, 2 * FAKE_SAMPLE_BYTES);
    stoker_batch_unref(batch);
    stoker_loader_read_stats(loader, &stats);
    assert_int_equal(stats.bytes_held, 0);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_requests_are_checked(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    stoker_loader *loader = NULL;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    uint64_t ids[9] = {0};
    options.batch_samples_max = 8;
    fake_start(&fake);
    fake_open_client(&fake);
    assert_int_equal(fake_answer_open(&fake, STK_SOURCE_MEDIA, &options, &loader, NULL), STOKER_OK);
    stoker_request request = {.ids = ids, .id_count = 1};
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_WRONG_STATE);
    assert_int_equal(stoker_loader_begin(loader, NULL), STOKER_OK);
    (void)fake_expect(&fake, STK_MESSAGE_LOADER_BEGIN);
    request.id_count = 9;
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "9 sample ids, expected 1 to 8"));
    request.id_count = 0;
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_INVALID_ARGUMENT);
    request.id_count = 2;
    ids[1] = FAKE_SAMPLES;
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "sample id 100 of a source of 100 samples"));
    stoker_request both = {.payload = "x", .payload_size = 1};
    assert_int_equal(stoker_loader_request(loader, &both, &error), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_loader_next(loader, 0, NULL, NULL), STOKER_END); /* none of them is outstanding */
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_payloads_travel_whole(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    static uint8_t payload[300000];
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_PROCESS);
    for (size_t i = 0; i < sizeof payload; i++) payload[i] = (uint8_t)(i * 7);
    stoker_request request = {.payload = payload, .payload_size = sizeof payload};
    for (int i = 0; i < 20; i++) assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_OK);
    for (uint64_t i = 0; i < 20; i++) {
        struct stk_message_request message;
        struct stk_incoming *incoming = fake_expect(&fake, STK_MESSAGE_REQUEST);
        assert_int_equal(stk_request_decode(incoming->body, &message, NULL), STOKER_OK);
        assert_int_equal(message.sequence, i);
        assert_int_equal(message.payload.size, sizeof payload);
        assert_memory_equal(message.payload.data, payload, sizeof payload);
    }
    request.payload_size = (size_t)STK_PAYLOAD_BYTES_MAX + 1;
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_INVALID_ARGUMENT);
    request.payload_size = 0;
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_INVALID_ARGUMENT);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_calls_after_the_client_closed(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    stoker_batch *batch;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    (void)fake_request(&fake, loader, 1);
    stoker_client_close(fake.client);
    (void)fake_expect(&fake, STK_MESSAGE_LOADER_CLOSE);
    uint64_t id = 0;
    stoker_request request = {.ids = &id, .id_count = 1};
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, &error), STOKER_ERR_WRONG_STATE);
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_WRONG_STATE);
    assert_int_equal(stoker_loader_begin(loader, &error), STOKER_ERR_WRONG_STATE);
    stoker_loader_close(loader);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_come_in_the_order_of_the_requests),
        cmocka_unit_test(test_any_order_gives_what_finished_first),
        cmocka_unit_test(test_failure_is_raised_once_in_its_step),
        cmocka_unit_test(test_long_failure_keeps_both_ends),
        cmocka_unit_test(test_next_gives_again_at_its_limit),
        cmocka_unit_test(test_d1_steps_carry_durations),
        cmocka_unit_test(test_d1_parts_of_a_batch_are_one_step),
        cmocka_unit_test(test_d1_who_only_looks_does_not_wait),
        cmocka_unit_test(test_parts_out_of_turn_are_refused),
        cmocka_unit_test(test_begin_drops_what_came_before),
        cmocka_unit_test(test_a5_copies_are_private_and_the_slab_returns),
        cmocka_unit_test(test_held_bytes_follow_the_views),
        cmocka_unit_test(test_requests_are_checked),
        cmocka_unit_test(test_payloads_travel_whole),
        cmocka_unit_test(test_calls_after_the_client_closed),
    };
    return stk_run_tests(tests);
}
