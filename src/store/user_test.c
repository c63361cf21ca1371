/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges over a caller's reader: one call a read, the size asked once, failures passed on with the name.
 */
#include <string.h>

#include "base/error.h"
#include "store/range_internal.h"
#include "tests/support/unit.h"

struct reader {
    unsigned sizes, reads;
    uint64_t size;
    stoker_status fails;
};

static stoker_status reader_size(void *user, const char *url, uint64_t *out_size, stoker_error *err)
{
    struct reader *reader = user;
    (void)err;
    assert_string_equal(url, "msc://profile/x.bin");
    reader->sizes++;
    *out_size = reader->size;
    return STOKER_OK;
}

static stoker_status reader_read(void *user, const char *url, uint64_t offset, size_t size, void *out,
                                 stoker_error *err)
{
    struct reader *reader = user;
    assert_string_equal(url, "msc://profile/x.bin");
    assert_true(offset + size <= reader->size); /* it is never asked for what is not there */
    reader->reads++;
    if (reader->fails) return stk_fail(err, reader->fails, "the store is on fire");
    for (size_t i = 0; i < size; i++) ((uint8_t *)out)[i] = (uint8_t)(offset + i);
    return STOKER_OK;
}

static void test_user_is_called_once_a_read(void **state)
{
    (void)state;
    struct reader reader = {.size = 100};
    stoker_range_ops ops = {reader_size, reader_read, &reader};
    struct stk_range *range = NULL;
    stoker_error err = {0};
    uint8_t got[16];
    uint64_t size = 0;
    assert_int_equal(stk_range_open_user(&ops, "msc://profile/x.bin", &range, &err), STOKER_OK);
    assert_int_equal(stk_range_read(range, 90, 10, got, &err), STOKER_OK);
    assert_int_equal(got[0], 90);
    assert_int_equal(got[9], 99);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_OK);
    assert_int_equal(size, 100);
    assert_int_equal(reader.reads, 1);
    assert_int_equal(reader.sizes, 1);
    assert_int_equal(stk_range_read(range, 95, 10, got, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stk_range_read(range, 200, 1, got, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stk_range_read(range, 200, 0, got, &err), STOKER_OK);
    reader.reads = 0;
    reader.fails = STOKER_ERR_UNAVAILABLE;
    assert_int_equal(stk_range_read(range, 0, 10, got, &err), STOKER_ERR_UNAVAILABLE);
    assert_string_equal(err.context, "msc://profile/x.bin");
    assert_int_equal(reader.reads, 1); /* retries are the reader's own */
    stk_range_close(range);
}

static void test_user_refuses_bad_readers(void **state)
{
    (void)state;
    struct reader reader = {.size = UINT64_MAX - 5};
    stoker_range_ops ops = {reader_size, NULL, &reader};
    struct stk_range *range = NULL;
    stoker_error err = {0};
    assert_int_equal(stk_range_open_user(&ops, "msc://profile/x.bin", &range, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(range);
    ops.read = reader_read;
    assert_int_equal(stk_range_open_user(&ops, "msc://profile/x.bin", &range, &err), STOKER_OK);
    uint64_t size = 0;
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_ERR_CORRUPT);
    stk_range_close(range);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_is_called_once_a_read),
        cmocka_unit_test(test_user_refuses_bad_readers),
    };
    return stk_run_tests(tests);
}
