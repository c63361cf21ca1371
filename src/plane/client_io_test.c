/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O thread against a DataServer played by the test: segments, drops from any thread and at any time, the death
 * of the server.
 */
#include "tests/support/unit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "tests/support/fake_dataserver.h"

#define LONG_NS (20 * STK_SECOND_NS)

static uint8_t first_byte(const stoker_batch *batch)
{
    stoker_leaf leaf;
    assert_int_equal(stoker_batch_leaf(batch, 0, &leaf, NULL), STOKER_OK);
    return *(const uint8_t *)leaf.data;
}

static stoker_batch *take(stoker_loader *loader)
{
    stoker_batch *batch = NULL;
    stoker_error error;
    stoker_status status = stoker_loader_next(loader, LONG_NS, &batch, &error);
    if (status != STOKER_OK) fail_msg("next: %s", stoker_status_name(status));
    return batch;
}

static stoker_batch *round_trip(struct fake_server *fake, stoker_loader *loader, uint64_t segment_id)
{
    uint64_t sequence = fake_request(fake, loader, 1);
    (void)fake_ready(fake, (struct fake_answer){1, 1, sequence, 0}, segment_id, 1);
    stoker_batch *batch = take(loader);
    assert_int_equal(first_byte(batch), (uint8_t)(sequence + 1));
    return batch;
}

static void test_unmapped_segment_stays_under_a_view(void **state)
{
    (void)state;
    struct fake_server fake;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    stoker_batch *kept = round_trip(&fake, loader, 5);
    fake_unmap(&fake, 5);
    fake_unmap(&fake, 77);                              /* one that the client never had */
    stoker_batch *other = round_trip(&fake, loader, 5); /* the id is known no more: its descriptor came again */
    assert_int_equal(first_byte(kept), 1);
    stoker_batch_unref(kept);
    stoker_batch_unref(other);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

/* A rank that has no room for a segment (ulimit -v) loses that batch, not its connection. */
static void test_segment_that_cannot_be_mapped_costs_one_batch(void **state)
{
    (void)state;
#ifdef STK_SANITIZED
    STK_SKIP("the sanitizer's shadow memory passes any limit");
#endif
    struct fake_server fake;
    struct rlimit before, none;
    uint64_t slabs[4];
    stoker_batch *batch = NULL;
    stoker_error err = {0};
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    stoker_batch_unref(round_trip(&fake, loader, 5));
    assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
    uint64_t sequence = fake_request(&fake, loader, 1);
    fake_prepare(&fake, 6); /* which maps it, too */
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    uint64_t slab = fake_ready(&fake, (struct fake_answer){1, 1, sequence, 0}, 6, 1);
    stoker_status status = stoker_loader_next(loader, LONG_NS, &batch, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(status, STOKER_ERR_NO_MEMORY);
    assert_non_null(strstr(err.message, "cannot map a shared segment"));
    assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
    assert_int_equal(slabs[0], slab);
    stoker_batch_unref(round_trip(&fake, loader, 6)); /* its descriptor is not sent again */
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

struct dropper {
    stoker_batch **batches;
    int from, step, count;
};

static void drop_some(void *argument)
{
    struct dropper *dropper = argument;
    for (int i = dropper->from; i < dropper->count; i += dropper->step) stoker_batch_unref(dropper->batches[i]);
}

static void test_a6_drops_from_other_threads(void **state)
{
    (void)state;
    enum { BATCHES = 400, THREADS = 4 };
    struct fake_server fake;
    stoker_batch *batches[BATCHES];
    bool released[BATCHES + 1] = {false};
    struct stk_thread *threads[THREADS];
    struct dropper droppers[THREADS];
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (int i = 0; i < BATCHES; i++) {
        uint64_t sequence = fake_request(&fake, loader, 1);
        assert_int_equal(fake_ready(&fake, (struct fake_answer){1, 1, sequence, 0}, 5, 1), i + 1);
        batches[i] = take(loader);
    }
    for (int i = 0; i < THREADS; i++) {
        droppers[i] = (struct dropper){batches, i, THREADS, BATCHES};
        assert_int_equal(stk_thread_start("dropper", drop_some, &droppers[i], &threads[i], NULL), STOKER_OK);
    }
    for (size_t total = 0; total < BATCHES;) {
        uint64_t slabs[256];
        size_t count = fake_expect_release(&fake, slabs, 256);
        for (size_t i = 0; i < count; i++) {
            assert_true(slabs[i] >= 1 && slabs[i] <= BATCHES && !released[slabs[i]]);
            released[slabs[i]] = true;
        }
        total += count;
    }
    for (int i = 0; i < THREADS; i++) stk_thread_join(threads[i]);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_a6_drop_after_close_ends_the_connection(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_batch *kept[2];
    int bye;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (int i = 0; i < 2; i++) kept[i] = round_trip(&fake, loader, 5);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    (void)fake_expect(&fake, STK_MESSAGE_LOADER_CLOSE);
    assert_int_equal(first_byte(kept[0]), 1);
    stoker_batch_unref(kept[0]);
    /* One view is left: the server must not see an end, it would give the memory away. */
    assert_int_equal(stk_channel_receive(fake.channel, &fake.incoming, NULL), STOKER_AGAIN);
    assert_int_equal(first_byte(kept[1]), 2);
    stoker_batch_unref(kept[1]);
    fake_expect_end(&fake, &bye);
    assert_true(bye);
    fake_stop(&fake);
}

static void test_a6_drop_races_with_close(void **state)
{
    (void)state;
    enum { BATCHES = 64, THREADS = 3 };
    for (int round = 0; round < 20; round++) {
        struct fake_server fake;
        stoker_batch *batches[BATCHES];
        struct stk_thread *threads[THREADS];
        struct dropper droppers[THREADS];
        int bye;
        fake_start(&fake);
        fake_open_client(&fake);
        stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
        for (int i = 0; i < BATCHES; i++) batches[i] = round_trip(&fake, loader, 5);
        for (int i = 0; i < THREADS; i++) {
            droppers[i] = (struct dropper){batches, i, THREADS, BATCHES};
            assert_int_equal(stk_thread_start("dropper", drop_some, &droppers[i], &threads[i], NULL), STOKER_OK);
        }
        stoker_loader_close(loader);
        stoker_client_close(fake.client);
        for (int i = 0; i < THREADS; i++) stk_thread_join(threads[i]);
        fake_expect_end(&fake, &bye);
        fake_stop(&fake);
    }
}

static void close_loader(void *loader) { stoker_loader_close(loader); }

static void test_loader_and_client_close_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct fake_server fake;
        struct stk_thread *thread;
        int bye;
        fake_start(&fake);
        fake_open_client(&fake);
        stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
        (void)fake_request(&fake, loader, 1);
        (void)fake_ready(&fake, (struct fake_answer){1, 1, 0, 0}, 5, 1);
        assert_int_equal(stk_thread_start("closer", close_loader, loader, &thread, NULL), STOKER_OK);
        stoker_client_close(fake.client);
        stk_thread_join(thread);
        (void)fake_expect(&fake, STK_MESSAGE_LOADER_CLOSE);
        fake_expect_end(&fake, &bye);
        fake_stop(&fake);
    }
}

struct waiter {
    stoker_loader *loader;
    stoker_status status;
    stoker_error error;
    atomic_bool waiting;
};

static void wait_for_batch(void *argument)
{
    struct waiter *waiter = argument;
    stoker_batch *batch;
    atomic_store(&waiter->waiting, true);
    waiter->status = stoker_loader_next(waiter->loader, UINT64_MAX, &batch, &waiter->error);
}

static void test_dead_server_is_named_at_every_call(void **state)
{
    (void)state;
    struct fake_server fake;
    struct stk_thread *thread;
    stoker_error error;
    stoker_batch *batch;
    char expected[128];
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    stoker_batch *kept = round_trip(&fake, loader, 5);
    (void)fake_request(&fake, loader, 1);
    struct waiter waiter = {.loader = loader};
    assert_int_equal(stk_thread_start("waiter", wait_for_batch, &waiter, &thread, NULL), STOKER_OK);
    while (!atomic_load(&waiter.waiting)) (void)sched_yield();
    fake_die(&fake);
    stk_thread_join(thread);
    (void)snprintf(expected, sizeof expected, "the DataServer (pid %d) of this job is gone", FAKE_SERVER_PID);
    assert_int_equal(waiter.status, STOKER_ERR_UNAVAILABLE);
    assert_string_equal(waiter.error.message, expected);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, &error), STOKER_ERR_UNAVAILABLE);
    assert_string_equal(error.message, expected);
    uint64_t id = 0;
    stoker_request request = {.ids = &id, .id_count = 1};
    assert_int_equal(stoker_loader_request(loader, &request, &error), STOKER_ERR_UNAVAILABLE);
    assert_int_equal(stoker_loader_begin(loader, &error), STOKER_ERR_UNAVAILABLE);
    char *json = NULL;
    assert_int_equal(stoker_client_status(fake.client, LONG_NS, &json, &error), STOKER_ERR_UNAVAILABLE);
    assert_string_equal(error.message, expected);
    assert_int_equal(first_byte(kept), 1); /* what was handed out stays */
    stoker_batch_unref(kept);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_server_dies_while_a_loader_opens(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    stoker_loader *loader = NULL;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    options.batch_samples_max = 1;
    fake_start(&fake);
    fake_open_client(&fake);
    assert_int_equal(fake_die_at_open(&fake, &options, &loader, &error), STOKER_ERR_UNAVAILABLE);
    assert_null(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_message_that_makes_no_sense_ends_the_connection(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    stoker_batch *batch;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    (void)fake_request(&fake, loader, 1);
    struct stk_message_ready ready = {.loader_id = 1,
                                      .generation = 1,
                                      .region = {.slab_id = 1, .segment_id = 123, .segment_bytes = 4096, .size = 4096}};
    stoker_status status;
    STK_CHANNEL_SEND(status, fake.channel, STK_MESSAGE_READY, ready, &ready, NULL, 0, NULL);
    assert_int_equal(status, STOKER_OK);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, &error), STOKER_ERR_PROTOCOL);
    assert_non_null(strstr(error.context, "pid 4242"));
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_a9_child_can_do_nothing_and_harm_nothing(void **state)
{
    (void)state;
    struct fake_server fake;
    uint64_t slabs[4];
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    stoker_batch *kept = round_trip(&fake, loader, 5);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stoker_batch *batch;
        stoker_error error;
        uint64_t id = 0;
        char *json;
        stoker_loader *more;
        stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
        stoker_request request = {.ids = &id, .id_count = 1};
        int good = first_byte(kept) == 1; /* inherited memory can still be read */
        good &= stoker_loader_next(loader, LONG_NS, &batch, &error) == STOKER_ERR_WRONG_STATE;
        good &= stoker_loader_request(loader, &request, &error) == STOKER_ERR_WRONG_STATE;
        good &= stoker_loader_begin(loader, &error) == STOKER_ERR_WRONG_STATE;
        good &= stoker_client_status(fake.client, LONG_NS, &json, &error) == STOKER_ERR_WRONG_STATE;
        good &= stoker_loader_open(fake.client, NULL, &options, &more, &error) == STOKER_ERR_WRONG_STATE;
        good &= strstr(error.message, "fork") != NULL;
        stoker_batch_unref(kept);
        stoker_loader_close(loader);
        stoker_client_close(fake.client);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* Nothing reached the server, and the parent goes on. */
    stoker_batch *next = round_trip(&fake, loader, 5);
    assert_int_equal(first_byte(kept), 1);
    stoker_batch_unref(kept);
    assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
    assert_int_equal(slabs[0], 1);
    stoker_batch_unref(next);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_a9_rank_that_ends_is_seen_though_its_child_lives(void **state)
{
    (void)state;
    struct fake_server fake;
    int hold[2], bye, status;
    char byte;
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(hold[1]);
        (void)!read(hold[0], &byte, 1);
        _exit(0);
    }
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_expect_end(&fake, &bye);
    (void)close(hold[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)close(hold[0]);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmapped_segment_stays_under_a_view),
        cmocka_unit_test(test_segment_that_cannot_be_mapped_costs_one_batch),
        cmocka_unit_test(test_a6_drops_from_other_threads),
        cmocka_unit_test(test_a6_drop_after_close_ends_the_connection),
        cmocka_unit_test(test_a6_drop_races_with_close),
        cmocka_unit_test(test_loader_and_client_close_at_once),
        cmocka_unit_test(test_dead_server_is_named_at_every_call),
        cmocka_unit_test(test_server_dies_while_a_loader_opens),
        cmocka_unit_test(test_message_that_makes_no_sense_ends_the_connection),
        cmocka_unit_test(test_a9_child_can_do_nothing_and_harm_nothing),
        cmocka_unit_test(test_a9_rank_that_ends_is_seen_though_its_child_lives),
    };
    return stk_run_tests(tests);
}
