/* SPDX-License-Identifier: Apache-2.0
 *
 * Tries of the reader of token files against the recorded ones of Megatron-LM's: how often a read that fails is tried
 * again, and after which delays. Delays are counted, not waited for. (What is written and read is compared in
 * tests/python/test_megatron_files.py.)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "store/range_internal.h"
#include "tests/support/unit.h"
#include "tokens/reader_internal.h"

struct waits {
    uint64_t seconds[16];
    size_t count;
};

static void count_wait(void *user, uint64_t delay_ns)
{
    struct waits *waits = user;
    assert_true(waits->count < 16);
    assert_int_equal(delay_ns % 1000000000u, 0);
    waits->seconds[waits->count++] = delay_ns / 1000000000u;
}

static void test_a_lost_file_is_tried_as_often_as_recorded(void **state)
{
    (void)state;
    json_error_t fault;
    json_t *golden = json_load_file(STK_GOLDEN_MEGATRON "/readers/file_retry.json", 0, &fault);
    assert_non_null(golden);
    const json_t *sleeps = json_object_get(golden, "sleeps");
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    struct waits waits = {{0}, 0};
    char folder[] = "/tmp/stk-golden-XXXXXX", path[64];
    options.access = STOKER_DATASET_FILE;
    options.unchecked = 1; /* the data need not be there at the opening */
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/x.idx", folder);
    assert_int_equal(symlink(STK_GOLDEN_MEGATRON "/builder/items_uint16.idx", path), 0);
    (void)snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(stoker_dataset_open(path, &options, &dataset, &err), STOKER_OK);
    dataset->bin->range->wait = (struct stk_range_wait){count_wait, &waits};
    uint16_t token;
    assert_int_equal(stoker_dataset_read(dataset, (stoker_dataset_run){0, 0, 1}, &token, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(waits.count, json_integer_value(json_object_get(golden, "default_max_retries")));
    assert_int_equal(waits.count, json_array_size(sleeps));
    for (size_t i = 0; i < waits.count; i++)
        assert_int_equal(waits.seconds[i], json_integer_value(json_array_get(sleeps, i)));
    assert_int_equal(waits.seconds[0], json_integer_value(json_object_get(golden, "default_first_sleep")));
    stoker_dataset_close(dataset);
    (void)snprintf(path, sizeof path, "%s/x.idx", folder);
    (void)unlink(path);
    (void)rmdir(folder);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_lost_file_is_tried_as_often_as_recorded)};
    return stk_run_tests(tests);
}
