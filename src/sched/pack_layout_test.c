/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden cases hold masks and sequence numbers (tests/golden/pack_golden.c); here are slices and bad input.
 */
#include <string.h>

#include "sched/pack.h"
#include "tests/support/unit.h"

static void test_slice_of_two_sequences_on_two_ranks(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 8, 16};
    const int64_t expected[2][8] = {{0, 1, 6, 7, 8, 9, 14, 15}, {2, 3, 4, 5, 10, 11, 12, 13}};
    for (uint32_t rank = 0; rank < 2; rank++) {
        int64_t places[8];
        stoker_pack_part part = {.rank = rank, .ranks = 2};
        assert_int_equal(stoker_pack_slice(cu, 3, part, places, NULL), STOKER_OK);
        assert_memory_equal(places, expected[rank], sizeof places);
    }
}

static void test_one_rank_takes_all_whatever_the_length(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 3, 3, 8};
    int64_t places[8];
    assert_int_equal(stoker_pack_slice(cu, 4, (stoker_pack_part){.rank = 0, .ranks = 1}, places, NULL), STOKER_OK);
    for (int i = 0; i < 8; i++) assert_int_equal(places[i], i);
}

static void test_slices_that_cannot_be_cut_are_named(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 8, 14};
    int64_t places[16];
    stoker_error err = {0};
    assert_int_equal(stoker_pack_slice(cu, 3, (stoker_pack_part){.rank = 1, .ranks = 2}, places, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sequence 1 has 6 tokens"));
    assert_int_equal(stoker_pack_slice(cu, 3, (stoker_pack_part){.rank = 2, .ranks = 2}, places, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_pack_slice(cu, 3, (stoker_pack_part){.rank = 0, .ranks = 0}, places, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_pack_slice(cu, 0, (stoker_pack_part){.rank = 0, .ranks = 1}, places, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
}

static void test_masks_refuse_what_makes_no_sense(void **state)
{
    (void)state;
    const int32_t rising[] = {0, 4, 8}, falling[] = {0, 4, 2}, late[] = {1, 4, 8}, longer[] = {0, 5, 8};
    uint8_t mask[8];
    stoker_error err = {0};
    assert_int_equal(stoker_pack_padding_mask(falling, rising, 3, mask, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "cu_seqlens falls from 4 to 2 at entry 2"));
    assert_int_equal(stoker_pack_padding_mask(rising, late, 3, mask, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "cu_seqlens_padded"));
    assert_int_equal(stoker_pack_padding_mask(longer, rising, 3, mask, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sequence 0 has 5 tokens, padded 4"));
}

static void test_more_tokens_than_int32_are_refused(void **state)
{
    (void)state;
    uint32_t lengths[] = {2147483647, 1};
    int32_t cu[3] = {-1, -1, -1};
    stoker_error err = {0};
    size_t count;
    assert_int_equal(stoker_pack_cumulate(lengths, 1, cu, NULL, &err), STOKER_OK);
    assert_int_equal(cu[1], 2147483647);
    cu[0] = -1;
    assert_int_equal(stoker_pack_cumulate(lengths, 2, cu, NULL, &err), STOKER_ERR_LIMIT);
    assert_int_equal(cu[0], -1);
    const int32_t one[] = {0};
    assert_int_equal(stoker_pack_sequence_index(one, 1, INT64_C(1) << 40, NULL, &count, &err), STOKER_ERR_LIMIT);
    assert_int_equal(stoker_pack_sequence_index(one, 0, 4, NULL, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice_of_two_sequences_on_two_ranks),
        cmocka_unit_test(test_one_rank_takes_all_whatever_the_length),
        cmocka_unit_test(test_slices_that_cannot_be_cut_are_named),
        cmocka_unit_test(test_masks_refuse_what_makes_no_sense),
        cmocka_unit_test(test_more_tokens_than_int32_are_refused),
    };
    return stk_run_tests(tests);
}
