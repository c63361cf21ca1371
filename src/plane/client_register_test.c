/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing loaders against a DataServer played by the test.
 */
#include "tests/support/unit.h"

#include <string.h>

#include "base/limits.h"
#include "tests/support/fake_dataserver.h"

static void test_open_says_what_was_asked(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = NULL;
    stoker_error error;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    fake_start(&fake);
    fake_open_client(&fake);
    options.batch_samples_max = 8;
    options.retries = 3;
    assert_int_equal(fake_answer_open(&fake, STK_SOURCE_MEDIA, &options, &loader, &error), STOKER_OK);
    assert_int_equal(fake.loader_open_fds, 1);
    assert_int_equal(fake.loader_open.loader_id, 1);
    assert_int_equal(fake.loader_open.order, 0);
    assert_int_equal(fake.loader_open.num_workers, 1);
    assert_int_equal(fake.loader_open.batch_samples_max, 8);
    assert_int_equal(fake.loader_open.retries, 3);
    assert_int_equal(fake.loader_open.sample_bytes, FAKE_SAMPLE_BYTES);
    assert_int_equal(fake.loader_open.max_bytes, STK_MAX_BYTES_DEFAULT);
    assert_int_equal(fake.loader_open.stall_limit_ns, STK_STALL_LIMIT_NS);
    stoker_loader_close(loader);
    (void)fake_expect(&fake, STK_MESSAGE_LOADER_CLOSE);
    assert_int_equal(fake_answer_open(&fake, STK_SOURCE_PROCESS, &options, &loader, &error), STOKER_OK);
    assert_int_equal(fake.loader_open_fds, 2);
    assert_int_equal(fake.loader_open.loader_id, 2);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_open_refused_carries_the_detail(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = NULL;
    stoker_error error;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    char *detail;
    size_t size;
    fake_start(&fake);
    fake_open_client(&fake);
    fake.verdict = STOKER_ERR_LIMIT;
    fake.verdict_text = "two reserves of 10 bytes exceed max_bytes 15";
    fake.verdict_detail = "pickle";
    fake.verdict_detail_size = 6;
    assert_int_equal(fake_answer_open(&fake, STK_SOURCE_PROCESS, &options, &loader, &error), STOKER_ERR_LIMIT);
    assert_null(loader);
    assert_string_equal(error.message, fake.verdict_text);
    stoker_client_failure(fake.client, &detail, &size);
    assert_int_equal(size, 6);
    assert_memory_equal(detail, "pickle", 6);
    stoker_text_free(detail);
    stoker_client_failure(fake.client, &detail, &size); /* it was taken */
    assert_null(detail);
    assert_int_equal(fake_answer_open(&fake, STK_SOURCE_PROCESS, &options, &loader, &error), STOKER_ERR_LIMIT);
    fake.verdict = STOKER_OK;
    assert_int_equal(fake_answer_open(&fake, STK_SOURCE_PROCESS, &options, &loader, &error), STOKER_OK);
    stoker_client_failure(fake.client, &detail, &size);
    assert_null(detail);
    stoker_loader_close(loader);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    struct {
        stoker_loader_options options;
        uint32_t more;
    } larger = {STOKER_LOADER_OPTIONS_INIT, 1};
    fake_start(&fake);
    fake_open_client(&fake);
    static const struct stk_source_ops ops;
    struct stoker_source source = {.ops = &ops, .kind = STK_SOURCE_MEDIA};
    stoker_loader *loader = NULL;
    larger.options.batch_samples_max = 8;
    larger.options.struct_size = sizeof larger;
    assert_int_equal(stoker_loader_open(fake.client, &source, &larger.options, &loader, &error),
                     STOKER_ERR_UNSUPPORTED);
    larger.options.struct_size = sizeof larger.options;
    larger.options.batch_samples_max = 0;
    assert_int_equal(stoker_loader_open(fake.client, &source, &larger.options, &loader, &error),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "batch_samples_max 0"));
    source.kind = STK_SOURCE_PROCESS;
    larger.options.batch_samples_max = STK_BATCH_SAMPLES_MAX + 1;
    assert_int_equal(stoker_loader_open(fake.client, &source, &larger.options, &loader, &error),
                     STOKER_ERR_INVALID_ARGUMENT);
    source.kind = STK_SOURCE_MEDIA;
    larger.options.batch_samples_max = 1;
    larger.options.on_error = (stoker_on_error)9;
    assert_int_equal(stoker_loader_open(fake.client, &source, &larger.options, &loader, &error),
                     STOKER_ERR_INVALID_ARGUMENT);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_says_what_was_asked),
        cmocka_unit_test(test_open_refused_carries_the_detail),
        cmocka_unit_test(test_options_are_checked),
    };
    return stk_run_tests(tests);
}
