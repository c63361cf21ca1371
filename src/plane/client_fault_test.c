/* SPDX-License-Identifier: Apache-2.0
 *
 * The client when memory fails, and how much of it a batch costs: each call with its n-th allocation failing gives
 * NO_MEMORY, leaves its outputs alone and leaks nothing (the sanitizers look); a loader that has warmed up allocates
 * nothing.
 */
#include "tests/support/unit.h"

#include "base/limits.h"
#include "tests/support/allocations.h"
#include "tests/support/fake_dataserver.h"

enum { TRIES_MAX = 64, UNSENT_MAX = 4 };
#define LONG_NS (20 * STK_SECOND_NS)

static void fault_open_client(void **state)
{
    (void)state;
    int failures = 0;
    for (uint64_t n = 1;; n++) {
        assert_true(n < TRIES_MAX);
        struct fake_server fake;
        stoker_client *client = NULL;
        stoker_error error;
        fake_start(&fake);
        stoker_client_options options = fake_options(&fake);
        options.connect_timeout_ns = LONG_NS;
        fake.arm_fn = allocations_fail;
        fake.arm_n = n;
        stoker_status status = fake_greet(&fake, &options, &client, &error);
        int failed = allocations_failed();
        if (status == STOKER_OK) stoker_client_close(client);
        fake_stop(&fake);
        if (!failed) break;
        if (status == STOKER_OK) continue; /* it can be done without */
        failures++;
        assert_int_equal(status, STOKER_ERR_NO_MEMORY);
        assert_null(client);
    }
    assert_true(failures >= 5);
}

static void fault_loader_calls(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    stoker_loader *loader = NULL;
    int failures = 0;
    options.batch_samples_max = 8;
    fake_start(&fake);
    fake_open_client(&fake);
    for (uint64_t n = 1; !loader; n++) {
        assert_true(n < TRIES_MAX);
        fake.arm_fn = allocations_fail;
        fake.arm_n = n;
        stoker_status status = fake_answer_open(&fake, STK_SOURCE_MEDIA, &options, &loader, &error);
        if (status == STOKER_OK) break;
        failures++;
        assert_int_equal(status, STOKER_ERR_NO_MEMORY);
        assert_null(loader);
    }
    assert_true(failures >= 2);
    fake.arm_fn = NULL;
    assert_int_equal(stoker_loader_begin(loader, &error), STOKER_OK);
    (void)fake_expect(&fake, STK_MESSAGE_LOADER_BEGIN);
    uint64_t id = 0;
    stoker_request request = {.ids = &id, .id_count = 1};
    stoker_status status;
    for (uint64_t n = 1;; n++) {
        assert_true(n < TRIES_MAX);
        allocations_fail(n);
        status = stoker_loader_request(loader, &request, &error);
        allocations_fail(0);
        if (status == STOKER_OK) break;
        assert_int_equal(status, STOKER_ERR_NO_MEMORY);
        assert_int_equal(stoker_loader_next(loader, 0, NULL, NULL), STOKER_END); /* nothing half-asked is outstanding */
    }
    /* A private copy that cannot be made fails its batch, returns the slab, and the next batch comes. */
    (void)fake_expect(&fake, STK_MESSAGE_REQUEST);
    uint64_t slabs[4];
    uint64_t slab = fake_ready(&fake, (struct fake_answer){fake.loader_open.loader_id, 1, 0, STK_READY_COPY}, 5, 1);
    do { /* it must have arrived before the copy is asked for */
        stoker_batch *batch = NULL;
        allocations_fail(1);
        status = stoker_loader_next(loader, 1000000, &batch, &error);
        allocations_fail(0);
        assert_null(batch);
    } while (status == STOKER_AGAIN);
    assert_int_equal(status, STOKER_ERR_NO_MEMORY);
    assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
    assert_int_equal(slabs[0], slab);
    assert_int_equal(stoker_loader_next(loader, 0, NULL, NULL), STOKER_END);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

/* But for the buffers of messages: they are as many as were ever unsent at a time, and the thread that sends them may
 * be late for the first time at any batch. */
static void test_warm_loader_allocates_nothing(void **state)
{
    (void)state;
    struct fake_server fake;
    uint64_t before = 0, slabs[4];
    fake_start(&fake);
    fake_open_client(&fake);
    stoker_loader *loader = fake_open_loader(&fake, STK_SOURCE_MEDIA);
    for (int i = 0; i < 200; i++) {
        if (i == 100) before = allocations_count();
        stoker_batch *batch;
        uint64_t sequence = fake_request(&fake, loader, 2);
        (void)fake_ready(&fake, (struct fake_answer){1, 1, sequence, 0}, 5, 2);
        assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, NULL), STOKER_OK);
        stoker_batch_unref(batch);
        assert_int_equal(fake_expect_release(&fake, slabs, 4), 1);
    }
    assert_in_range(allocations_count() - before, 0, UNSENT_MAX);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_open_client),
        cmocka_unit_test(fault_loader_calls),
        cmocka_unit_test(test_warm_loader_allocates_nothing),
    };
    return stk_run_tests(tests);
}
