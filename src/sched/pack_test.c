/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/pack.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/packing.h"
#include "tests/support/unit.h"

static stoker_pack_options options_of(uint32_t tokens, uint32_t data, uint32_t context)
{
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = tokens;
    options.data_ranks = data;
    options.context_ranks = context;
    return options;
}

static void test_nothing_to_pack_is_no_microbatch(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        stoker_pack_options options = options_of(8, 2, 2);
        struct packing packing;
        assert_int_equal(packing_make(&packing, (stoker_pack_kind)kind, NULL, 0, &options, NULL), STOKER_OK);
        assert_int_equal(packing.schedule.microbatches, 0);
        assert_int_equal(packing.schedule.ranks, 4);
        assert_int_equal(packing.schedule.span_count, 0);
        packing_drop(&packing);
    }
}

static void check_refused(const uint32_t *lengths, size_t count, const stoker_pack_options *options,
                          stoker_status status, const char *words)
{
    for (int kind = 0; kind < 3; kind++) {
        struct packing packing;
        stoker_error err = {0};
        assert_int_equal(packing_make(&packing, (stoker_pack_kind)kind, lengths, count, options, &err), status);
        if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
        packing_drop(&packing);
    }
}

static void test_bad_input_is_named(void **state)
{
    (void)state;
    uint32_t lengths[] = {3, 0, 5}, huge[] = {2147483647, 1};
    stoker_pack_options options = options_of(8, 1, 1);
    check_refused(lengths, 3, &options, STOKER_ERR_INVALID_ARGUMENT, "sample 1 has no token");
    check_refused(huge, 2, &options, STOKER_ERR_LIMIT, "samples 0 to 1 have 2147483648 tokens");
    options.tokens_per_rank = 0;
    check_refused(lengths, 1, &options, STOKER_ERR_INVALID_ARGUMENT, "tokens per rank is 0");
    options = options_of(8, 1u << 20, 2);
    check_refused(lengths, 1, &options, STOKER_ERR_LIMIT, "1048576 data-parallel * 2 context-parallel ranks");
    options = options_of(8, 1, 1);
    assert_int_equal(stoker_pack_schedule_bytes(STOKER_PACK_BEST_FIT, (size_t)STK_PACK_SAMPLES_MAX + 1), 0);
    assert_int_equal(stoker_pack_schedule_bytes((stoker_pack_kind)7, 1), 0);
    stoker_pack_schedule schedule;
    stoker_error err = {0};
    assert_int_equal(stoker_pack_schedule_make(STOKER_PACK_BEST_FIT, lengths, (size_t)STK_PACK_SAMPLES_MAX + 1,
                                               &options, NULL, 0, &schedule, &err),
                     STOKER_ERR_LIMIT);
}

static void test_memory_must_be_large_enough_and_aligned(void **state)
{
    (void)state;
    uint32_t lengths[] = {3, 4, 5};
    stoker_pack_options options = options_of(8, 1, 1);
    for (int kind = 0; kind < 3; kind++) {
        size_t size = stoker_pack_schedule_bytes((stoker_pack_kind)kind, 3);
        unsigned char *memory = aligned_alloc(16, (size + 31) / 16 * 16);
        stoker_pack_schedule schedule;
        assert_non_null(memory);
        assert_int_equal(
            stoker_pack_schedule_make((stoker_pack_kind)kind, lengths, 3, &options, memory, size - 1, &schedule, NULL),
            STOKER_ERR_INVALID_ARGUMENT);
        assert_int_equal(
            stoker_pack_schedule_make((stoker_pack_kind)kind, lengths, 3, &options, memory + 4, size, &schedule, NULL),
            STOKER_ERR_INVALID_ARGUMENT);
        assert_int_equal(
            stoker_pack_schedule_make((stoker_pack_kind)kind, lengths, 3, &options, memory, size, &schedule, NULL),
            STOKER_OK);
        free(memory);
    }
}

static void test_options_of_other_versions(void **state)
{
    (void)state;
    struct {
        stoker_pack_options options;
        uint32_t more[2];
    } newer = {.options = options_of(8, 1, 1)};
    uint32_t lengths[] = {3, 4, 5};
    struct packing packing;
    newer.options.struct_size = sizeof newer;
    assert_int_equal(packing_make(&packing, STOKER_PACK_DP_BALANCED, lengths, 3, &newer.options, NULL), STOKER_OK);
    packing_drop(&packing);
    newer.more[1] = 1; /* an option that this version does not know */
    assert_int_equal(packing_make(&packing, STOKER_PACK_DP_BALANCED, lengths, 3, &newer.options, NULL),
                     STOKER_ERR_UNSUPPORTED);
    packing_drop(&packing);
    newer.options.struct_size = offsetof(stoker_pack_options, data_ranks); /* an older one: one rank */
    newer.options.data_ranks = 1000;
    assert_int_equal(packing_make(&packing, STOKER_PACK_DP_BALANCED, lengths, 3, &newer.options, NULL), STOKER_OK);
    assert_int_equal(packing.schedule.ranks, 1);
    packing_drop(&packing);
}

static void test_sort_is_falling_and_stable(void **state)
{
    (void)state;
    uint64_t keys[1000] = {0};
    uint32_t order[1000], scratch[1000];
    for (uint32_t count = 0; count < 1000; count += 37) {
        for (uint32_t i = 0; i < count; i++) keys[i] = i * UINT64_C(2654435761) % 64;
        stk_pack_sort(keys, count, order, scratch);
        for (uint32_t i = 1; i < count; i++) {
            assert_true(keys[order[i - 1]] >= keys[order[i]]);
            if (keys[order[i - 1]] == keys[order[i]]) assert_true(order[i - 1] < order[i]);
        }
    }
}

static void test_sums_are_exact_where_single_precision_is_not(void **state)
{
    (void)state;
    uint32_t lengths[] = {16777217, 3, 100000007}; /* 2^24 + 1 has no float32 */
    stoker_pack_statistics sums;
    assert_int_equal(stoker_pack_sum(lengths, 3, &sums, NULL), STOKER_OK);
    assert_int_equal(sums.tokens, 116777227);
    assert_int_equal(sums.squares, UINT64_C(281475010265089) + 9 + UINT64_C(10000001400000049));
    assert_int_equal(stoker_pack_sum(NULL, 0, &sums, NULL), STOKER_OK);
    assert_int_equal(sums.squares, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_pack_is_no_microbatch),
        cmocka_unit_test(test_bad_input_is_named),
        cmocka_unit_test(test_memory_must_be_large_enough_and_aligned),
        cmocka_unit_test(test_options_of_other_versions),
        cmocka_unit_test(test_sort_is_falling_and_stable),
        cmocka_unit_test(test_sums_are_exact_where_single_precision_is_not),
    };
    return stk_run_tests(tests);
}
