/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden cases hold the schedule itself (tests/golden/pack_golden.c); here are its edges.
 */
#include "sched/pack.h"

#include <string.h>

#include "tests/support/packing.h"
#include "tests/support/unit.h"

static struct stk_pack_job job_of(const uint32_t *lengths, uint32_t count, uint32_t tokens, uint32_t data)
{
    return (struct stk_pack_job){
        .lengths = lengths,
        .count = count,
        .options = {.tokens_per_rank = tokens, .data_ranks = data, .context_ranks = 1, .stage_group = 1}};
}

static void test_a_pack_may_be_exactly_full(void **state)
{
    (void)state;
    uint32_t lengths[] = {4, 4, 1};
    struct stk_pack_range packs[4];
    struct stk_pack_job job = job_of(lengths, 3, 8, 1);
    assert_int_equal(stk_pack_fill_in_order(&job, packs), 2);
    assert_int_equal(packs[0].count, 2);
    assert_int_equal(packs[1].first, 2);
}

static void test_a_long_sample_is_alone_and_leaves_an_empty_pack_only_in_front(void **state)
{
    (void)state;
    uint32_t lengths[] = {9, 1, 9, 1};
    struct stk_pack_range packs[5];
    struct stk_pack_job job = job_of(lengths, 4, 8, 1);
    assert_int_equal(stk_pack_fill_in_order(&job, packs), 5);
    const uint32_t counts[] = {0, 1, 1, 1, 1};
    for (size_t i = 0; i < 5; i++) assert_int_equal(packs[i].count, counts[i]);
}

static void test_packs_are_split_from_the_end_but_never_the_first(void **state)
{
    (void)state;
    uint32_t lengths[] = {2, 2, 2, 2, 2, 2};
    struct stk_pack_range packs[7];
    struct stk_pack_job job = job_of(lengths, 6, 4, 5);
    uint32_t count = stk_pack_fill_in_order(&job, packs);
    assert_int_equal(count, 3);
    assert_true(stk_pack_split_last(&job, packs, &count));
    assert_int_equal(count, 5);
    const uint32_t firsts[] = {0, 2, 4, 5, 3}, counts[] = {2, 1, 1, 1, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(packs[i].first, firsts[i]);
        assert_int_equal(packs[i].count, counts[i]);
    }

    job = job_of(lengths, 2, 4, 2); /* two samples, two ranks: yet the reference gives up */
    count = stk_pack_fill_in_order(&job, packs);
    assert_false(stk_pack_split_last(&job, packs, &count));
}

static void test_too_few_samples_names_the_figures(void **state)
{
    (void)state;
    uint32_t lengths[] = {5, 5, 5};
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = 8;
    options.data_ranks = 2;
    options.stage_group = 4;
    struct packing packing;
    stoker_error err = {0};
    assert_int_equal(packing_make(&packing, STOKER_PACK_DP_BALANCED, lengths, 3, &options, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "Not enough samples to move: 3 samples fill 3 packs of 8 tokens"));
    assert_non_null(strstr(err.message, "multiple of 8 (2 data-parallel ranks, groups of 4"));
    packing_drop(&packing);
}

static void test_context_ranks_share_a_pack(void **state)
{
    (void)state;
    uint32_t lengths[] = {8, 8, 8, 8};
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = 3;
    options.data_ranks = 2;
    options.context_ranks = 3;
    struct packing packing;
    assert_int_equal(packing_make(&packing, STOKER_PACK_DP_BALANCED, lengths, 4, &options, NULL), STOKER_OK);
    assert_int_equal(packing.schedule.microbatches, 2);
    assert_int_equal(packing.schedule.ranks, 6);
    assert_ptr_equal(packing_cell(&packing.schedule, 1, 3), packing_cell(&packing.schedule, 1, 5));
    assert_int_equal(packing.schedule.samples[packing_cell(&packing.schedule, 1, 4)->first], 3);
    packing_drop(&packing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pack_may_be_exactly_full),
        cmocka_unit_test(test_a_long_sample_is_alone_and_leaves_an_empty_pack_only_in_front),
        cmocka_unit_test(test_packs_are_split_from_the_end_but_never_the_first),
        cmocka_unit_test(test_too_few_samples_names_the_figures),
        cmocka_unit_test(test_context_ranks_share_a_pack),
    };
    return stk_run_tests(tests);
}
