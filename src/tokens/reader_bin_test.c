/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/reader_internal.h"

#include "tokens/files_fixture.h"

static const struct stk_range_retry once = {0, 0};

static void test_a_file_is_mapped_whole(void **state)
{
    (void)state;
    struct stk_bin *bin = NULL;
    write_bytes(in_folder("a.bin"), "0123456789", 10);
    assert_int_equal(stk_bin_map(in_folder("a.bin"), once, &bin, NULL), STOKER_OK);
    assert_int_equal(bin->size, 10);
    assert_memory_equal(bin->data, "0123456789", 10);
    stk_bin_close(bin);
    write_bytes(in_folder("b.bin"), "", 0);
    assert_int_equal(stk_bin_map(in_folder("b.bin"), once, &bin, NULL), STOKER_OK);
    assert_int_equal(bin->size, 0);
    assert_non_null(bin->data);
    stk_bin_close(bin);
    stk_bin_close(NULL);
    stoker_error err = {0};
    assert_int_equal(stk_bin_map(in_folder("no.bin"), once, &bin, &err), STOKER_ERR_NOT_FOUND);
}

static void test_without_mappings_it_is_read(void **state)
{
    (void)state;
    struct stk_bin *one = NULL, *two = NULL;
    stoker_error err = {0};
    char got[3];
    write_bytes(in_folder("a.bin"), "0123456789", 10);
    stk_maps_set_limit(1);
    assert_int_equal(stk_bin_map(in_folder("a.bin"), once, &one, &err), STOKER_OK);
    assert_int_equal(stk_bin_map(in_folder("a.bin"), once, &two, &err), STOKER_OK);
    assert_non_null(one->data);
    assert_null(two->data);
    assert_int_equal(two->size, 10);
    assert_int_equal(stk_range_read(two->range, 4, 3, got, &err), STOKER_OK);
    assert_memory_equal(got, "456", 3);
    assert_int_equal(err.status, STOKER_OK);
    stk_bin_close(one);
    stk_bin_close(two);
    stk_maps_set_limit(0);
}

static void test_a_range_is_asked_for_its_size_or_not(void **state)
{
    (void)state;
    struct stk_range *range = NULL;
    struct stk_bin *bin = NULL;
    stoker_error err = {0};
    assert_int_equal(stk_range_open_path(in_folder("late.bin"), once, &range, &err), STOKER_OK);
    assert_int_equal(stk_bin_of_range(range, true, &bin, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(stk_range_open_path(in_folder("late.bin"), once, &range, &err), STOKER_OK);
    assert_int_equal(stk_bin_of_range(range, false, &bin, &err), STOKER_OK);
    assert_true(bin->size == UINT64_MAX);
    stk_bin_close(bin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_a_file_is_mapped_whole),
        FIXTURE_TEST(test_without_mappings_it_is_read),
        FIXTURE_TEST(test_a_range_is_asked_for_its_size_or_not),
    };
    return stk_run_tests(tests);
}
