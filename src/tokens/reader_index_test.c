/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/reader_internal.h"

#include "base/limits.h"
#include "tokens/files_fixture.h"

enum { SEQUENCES = 8000 }; /* 12 bytes each: above the border of reading */

static const char *write_large(void)
{
    static int32_t lengths[SEQUENCES];
    static const int64_t documents[] = {0, SEQUENCES};
    static uint8_t bin[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++) lengths[i] = 1, bin[i] = (uint8_t)i;
    struct fixture_index index = {1, SEQUENCES, 2, lengths, NULL, documents, NULL};
    return fixture_write("large", &index, bin, sizeof bin);
}

static void test_large_files_are_mapped_and_small_ones_read(void **state)
{
    (void)state;
    struct stk_index_file file = {0};
    (void)write_large();
    assert_int_equal(stk_index_file_load(in_folder("large.idx"), false, NULL, &file, NULL), STOKER_OK);
    assert_true(file.mapped);
    assert_true(file.size > STK_INDEX_READ_BYTES_MAX);
    assert_int_equal(file.layout.sequences, SEQUENCES);
    stk_index_file_unload(&file);
    (void)fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(stk_index_file_load(in_folder("three.idx"), false, NULL, &file, NULL), STOKER_OK);
    assert_false(file.mapped);
    stk_index_file_unload(&file);
    stk_index_file_unload(&file);
}

static void test_without_mappings_all_is_read(void **state)
{
    (void)state;
    struct stk_index_file one = {0}, two = {0};
    (void)write_large();
    stk_maps_set_limit(1);
    assert_int_equal(stk_index_file_load(in_folder("large.idx"), false, NULL, &one, NULL), STOKER_OK);
    assert_int_equal(stk_index_file_load(in_folder("large.idx"), false, NULL, &two, NULL), STOKER_OK);
    assert_true(one.mapped);
    assert_false(two.mapped);
    assert_memory_equal(one.data, two.data, one.size);
    stk_index_file_unload(&one);
    stk_index_file_unload(&two);
    assert_int_equal(stk_index_file_load(in_folder("large.idx"), false, NULL, &one, NULL), STOKER_OK);
    assert_true(one.mapped); /* it was given back */
    stk_index_file_unload(&one);
    stk_maps_set_limit(0);
}

static void test_bad_files_leave_nothing(void **state)
{
    (void)state;
    struct stk_index_file file = {0};
    stoker_error err = {0};
    stk_maps_set_limit(1);
    (void)write_large();
    for (int i = 0; i < 3; i++) { /* were one kept, the second could not be mapped */
        assert_int_equal(stk_index_file_load(in_folder("large.idx"), true, NULL, &file, &err), STOKER_ERR_CORRUPT);
        assert_non_null(strstr(err.message, "sequence modes"));
        assert_null(file.data);
    }
    assert_true(stk_maps_take());
    assert_false(stk_maps_take());
    stk_maps_give();
    stk_maps_set_limit(0);
    assert_int_equal(stk_index_file_load(in_folder("no.idx"), false, NULL, &file, &err), STOKER_ERR_NOT_FOUND);
    write_bytes(in_folder("empty.idx"), "", 0);
    assert_int_equal(stk_index_file_load(in_folder("empty.idx"), false, NULL, &file, &err), STOKER_ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_large_files_are_mapped_and_small_ones_read),
        FIXTURE_TEST(test_without_mappings_all_is_read),
        FIXTURE_TEST(test_bad_files_leave_nothing),
    };
    return stk_run_tests(tests);
}
