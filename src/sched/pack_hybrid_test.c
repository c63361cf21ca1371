/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden cases hold the schedule itself (tests/golden/pack_golden.c); here are its edges.
 */
#include "sched/pack.h"

#include <string.h>

#include "tests/support/packing.h"
#include "tests/support/unit.h"

static stoker_status make(struct packing *packing, const uint32_t *lengths, size_t count, uint32_t ranks,
                          stoker_error *err)
{
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = 100;
    options.context_ranks = ranks;
    return packing_make(packing, STOKER_PACK_BALANCED_CP, lengths, count, &options, err);
}

static void test_ranks_needed_is_a_power_of_two(void **state)
{
    (void)state;
    assert_int_equal(stoker_pack_ranks_needed(1, 100), 1);
    assert_int_equal(stoker_pack_ranks_needed(100, 100), 1);
    assert_int_equal(stoker_pack_ranks_needed(101, 100), 2);
    assert_int_equal(stoker_pack_ranks_needed(200, 100), 2);
    assert_int_equal(stoker_pack_ranks_needed(201, 100), 4);
    assert_int_equal(stoker_pack_ranks_needed(2147483647, 1), 1u << 31);
    assert_int_equal(stoker_pack_ranks_needed(UINT32_MAX, 1), 0); /* 2^32 is no uint32_t */
    assert_int_equal(stoker_pack_ranks_needed(7, 0), 0);
}

static void test_one_sample_is_shared_by_all_ranks(void **state)
{
    (void)state;
    uint32_t lengths[] = {50};
    struct packing packing;
    assert_int_equal(make(&packing, lengths, 1, 8, NULL), STOKER_OK);
    assert_int_equal(packing.schedule.microbatches, 1);
    assert_int_equal(packing.schedule.span_count, 1);
    assert_int_equal(packing.schedule.spans[0].ranks, 8);
    packing_drop(&packing);
}

static void test_a_sample_for_more_ranks_than_there_are_is_named(void **state)
{
    (void)state;
    uint32_t lengths[] = {50, 450, 60};
    struct packing packing;
    stoker_error err = {0};
    assert_int_equal(make(&packing, lengths, 3, 4, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sample 1 has 450 tokens and needs 8 ranks of 100 tokens, there are 4"));
    packing_drop(&packing);
}

static void test_ranks_that_are_no_power_of_two_work_or_are_refused(void **state)
{
    (void)state;
    uint32_t lengths[] = {400, 200};
    struct packing packing;
    stoker_error err = {0};
    assert_int_equal(make(&packing, lengths, 2, 6, NULL), STOKER_OK); /* 4 + 2: no rank stays empty */
    packing_drop(&packing);
    assert_int_equal(make(&packing, lengths, 2, 7, &err), STOKER_ERR_UNSUPPORTED); /* one is left, two are needed */
    assert_non_null(strstr(err.message, "there are 7"));
    packing_drop(&packing);
}

static void test_buckets_check_their_input(void **state)
{
    (void)state;
    uint32_t lengths[] = {300, 0}, ends[2];
    size_t count = 9;
    stoker_error err = {0};
    assert_int_equal(stoker_pack_buckets(lengths, 2, 100, ends, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sample 1 has 0 tokens"));
    assert_int_equal(count, 9);
    assert_int_equal(stoker_pack_buckets(lengths, 1, 0, ends, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_pack_buckets(lengths, 0, 100, ends, &count, &err), STOKER_OK);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_needed_is_a_power_of_two),
        cmocka_unit_test(test_one_sample_is_shared_by_all_ranks),
        cmocka_unit_test(test_a_sample_for_more_ranks_than_there_are_is_named),
        cmocka_unit_test(test_ranks_that_are_no_power_of_two_work_or_are_refused),
        cmocka_unit_test(test_buckets_check_their_input),
    };
    return stk_run_tests(tests);
}
