/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/run.h"

#include "tests/support/unit.h"

#define MIB (UINT64_C(1) << 20)

static void test_a2_classes_have_four_steps_between_powers_of_two(void **state)
{
    (void)state;
    assert_int_equal(stk_run_class_bytes(1), 4096);
    assert_int_equal(stk_run_class_bytes(16385), 20480);
    assert_int_equal(stk_run_class_bytes(262144 + 300), 327680);
    assert_int_equal(stk_run_class_bytes(4 * MIB), 4 * MIB);
    assert_int_equal(stk_run_class_bytes(4 * MIB + 1), 5 * MIB);
    assert_int_equal(stk_run_class_bytes(7 * MIB), 7 * MIB);
    assert_int_equal(stk_run_class_bytes(7 * MIB + 1), 8 * MIB);
    assert_int_equal(stk_run_class_bytes(8 * MIB + 1), 10 * MIB);
    assert_int_equal(stk_run_class_bytes(1024 * MIB), 1024 * MIB);
    assert_int_equal(stk_run_class_bytes(1024 * MIB + 1), 1026 * MIB); /* no class: whole steps */
}

static void test_a2_a_shared_segment_is_a_small_part_of_the_memory(void **state)
{
    (void)state;
    assert_int_equal(stk_run_shared_bytes(1), MIB / 4);
    assert_int_equal(stk_run_shared_bytes(31 * MIB), MIB / 4);
    assert_int_equal(stk_run_shared_bytes(32 * MIB), MIB / 2);
    assert_int_equal(stk_run_shared_bytes(255 * MIB), 2 * MIB);
    assert_int_equal(stk_run_shared_bytes(2048 * MIB), 4 * MIB);
    assert_true(stk_run_is_shared(1, 256 * MIB));
    assert_true(stk_run_is_shared(MIB / 2, 256 * MIB));
    assert_false(stk_run_is_shared(MIB / 2 + 1, 256 * MIB));
    assert_int_equal(stk_run_segment_bytes(MIB / 2 + 1, 256 * MIB), 5 * MIB / 8);
    assert_int_equal(stk_run_reserve_bytes(MIB / 2 + 1, 256 * MIB), 4 * MIB); /* a smaller one may come */
    assert_false(stk_run_is_shared(1, MIB / 4));
    assert_int_equal(stk_run_segment_bytes(1, MIB / 4), 4096);
}

static void test_a2_reserve_bytes_never_fall_with_size_and_fit_what_fits(void **state)
{
    (void)state;
    static const uint64_t bounds[] = {MIB / 4, 1 * MIB, 7 * MIB, 8 * MIB, 100 * MIB, 2048 * MIB};
    for (unsigned b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        uint64_t before = 0;
        for (uint64_t size = 1; size <= bounds[b] && size < 130 * MIB; size += 12345) {
            uint64_t bytes = stk_run_reserve_bytes(size, bounds[b]);
            assert_true(stk_run_segment_bytes(size, bounds[b]) >= size);
            assert_true(stk_run_segment_bytes(size, bounds[b]) <= bytes);
            assert_true(bytes >= size);
            assert_true(bytes >= before);
            before = bytes;
            if (2 * (size + STK_PAGE_BYTES) <= bounds[b]) assert_true(2 * bytes <= bounds[b]);
        }
    }
}

static void test_a2_freed_runs_coalesce(void **state)
{
    (void)state;
    uint64_t taken = 0;
    uint32_t first[64], at = 99;
    for (uint32_t i = 0; i < 64; i++) {
        assert_true(stk_run_take(&taken, 1, &first[i]));
        assert_int_equal(first[i], i);
    }
    assert_false(stk_run_take(&taken, 1, &at));
    for (uint32_t i = 0; i < 64; i += 2) stk_run_give(&taken, i, 1);
    assert_false(stk_run_take(&taken, 2, &at));
    stk_run_give(&taken, 31, 1);
    assert_true(stk_run_take(&taken, 3, &at));
    assert_int_equal(at, 30);
    stk_run_give(&taken, 30, 3);
    for (uint32_t i = 1; i < 64; i += 2)
        if (i != 31) stk_run_give(&taken, i, 1);
    assert_int_equal(taken, 0);
    assert_true(stk_run_take(&taken, 64, &at));
    assert_int_equal(at, 0);
    assert_int_equal(taken, UINT64_MAX);
}

static void test_every_run_length_is_found_where_it_fits(void **state)
{
    (void)state;
    for (uint32_t count = 1; count < 64; count++) {
        uint64_t taken = 0;
        uint32_t at = 99;
        assert_true(stk_run_take(&taken, 64 - count, &at));
        assert_true(stk_run_take(&taken, count, &at));
        assert_int_equal(at, 64 - count);
        assert_false(stk_run_take(&taken, 1, &at));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a2_classes_have_four_steps_between_powers_of_two),
        cmocka_unit_test(test_a2_a_shared_segment_is_a_small_part_of_the_memory),
        cmocka_unit_test(test_a2_reserve_bytes_never_fall_with_size_and_fit_what_fits),
        cmocka_unit_test(test_a2_freed_runs_coalesce),
        cmocka_unit_test(test_every_run_length_is_found_where_it_fits),
    };
    return stk_run_tests(tests);
}
