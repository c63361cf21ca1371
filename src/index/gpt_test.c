/* SPDX-License-Identifier: Apache-2.0 */
#include "index/gpt.h"

#include <stdlib.h>

#include "tests/support/unit.h"

/* Lengths where a file has them: two bytes past a multiple of four. */
static char file_bytes[4096];

static struct stk_gpt_request request_of(const int32_t *lengths, uint32_t count)
{
    memcpy(file_bytes + 34, lengths, count * sizeof *lengths);
    return (struct stk_gpt_request){.lengths = file_bytes + 34,
                                    .file_sequences = count,
                                    .end = count,
                                    .samples = UINT64_MAX,
                                    .sequence_length = 8,
                                    .extra_token = 1,
                                    .seed = 1234,
                                    .split = "train"};
}

static struct stk_gpt_plan plan_of(const struct stk_gpt_request *request)
{
    struct stk_gpt_plan plan;
    stoker_error err;
    assert_int_equal(stk_gpt_plan(request, &plan, &err), STOKER_OK);
    return plan;
}

static void refuse(const struct stk_gpt_request *request, stoker_status status, const char *part)
{
    struct stk_gpt_plan plan = {.samples = 77};
    stoker_error err;
    assert_int_equal(stk_gpt_plan(request, &plan, &err), status);
    if (!strstr(err.message, part)) fail_msg("'%s' does not say '%s'", err.message, part);
    assert_int_equal(plan.samples, 77);
}

static void test_one_epoch_without_a_request(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){10, 0, 7}, 3);
    struct stk_gpt_plan plan = plan_of(&request);
    assert_int_equal(plan.tokens_per_epoch, 17);
    assert_int_equal(plan.epochs, 1);
    assert_int_equal(plan.documents, 3);
    assert_int_equal(plan.samples, 2);
    assert_false(plan.separate_final_epoch || plan.wide_samples || plan.wide_shuffle);
}

static void test_epochs_are_the_fewest_that_suffice(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){10, 0, 7}, 3);
    for (request.samples = 0; request.samples < 300; request.samples++) {
        uint64_t epochs = 1;
        while (epochs * 17 < request.samples * 8 + 1) epochs++;
        assert_int_equal(plan_of(&request).epochs, epochs);
        assert_true(plan_of(&request).samples >= request.samples);
    }
}

static void test_little_used_last_epoch_is_separate(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){401, 400}, 2); /* 100 samples an epoch */
    request.samples = 100 + 79;
    assert_true(plan_of(&request).separate_final_epoch);
    assert_int_equal(plan_of(&request).samples_before_final, 100);
    request.samples = 100 + 80;
    assert_false(plan_of(&request).separate_final_epoch);
    request.samples = 100;
    assert_false(plan_of(&request).separate_final_epoch); /* one epoch */
}

static void test_split_without_tokens_is_refused_by_name(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){5, 0, 0, 5}, 4);
    request.first = 1;
    request.end = 3;
    request.split = "valid";
    request.samples = 0; /* the reference would add epochs for ever */
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "split 'valid' (sequences 1 to 3 of 4) has no tokens");
    request.samples = UINT64_MAX;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "no tokens");
    request.end = 1;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "no tokens");
    request.end = 3;
    assert_int_equal(stk_gpt_count_deferred(&request), -1);
    request.extra_token = 0;
    assert_int_equal(stk_gpt_count_deferred(&request), 0);
}

static void test_one_token_gives_an_empty_index(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){1}, 1);
    struct stk_gpt_plan plan = plan_of(&request);
    int32_t document[1] = {9}, sample[2] = {9, 9};
    uint32_t shuffle[1] = {9};
    assert_int_equal(plan.samples, 0);
    assert_int_equal(stk_gpt_build(&request, &plan, (void *[]){document, sample, shuffle}, NULL, NULL), STOKER_OK);
    assert_int_equal(document[0], 0);
    assert_true(sample[0] == 0 && sample[1] == 0 && shuffle[0] == 9);
    request.samples = 0;
    assert_int_equal(plan_of(&request).samples, 0);
    request.samples = 5; /* each sample needs eight epochs, and one token more is needed at the end */
    assert_int_equal(plan_of(&request).epochs, 41);
    assert_int_equal(plan_of(&request).samples, 5);
}

static void test_samples_of_one_token(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){2, 0, 1}, 3);
    int32_t document[3], sample[8], expected[8] = {0, 0, 0, 1, 2, 0};
    uint32_t shuffle[2];
    request.sequence_length = 1;
    struct stk_gpt_plan plan = plan_of(&request);
    assert_int_equal(plan.samples, 2);
    assert_int_equal(stk_gpt_build(&request, &plan, (void *[]){document, sample, shuffle}, NULL, NULL), STOKER_OK);
    const struct stk_sample_walk walk = {.lengths = file_bytes + 34,
                                         .document = (const int32_t[]){0, 1, 2},
                                         .documents = 3,
                                         .sequence_length = 1,
                                         .extra_token = 1,
                                         .samples = 2,
                                         .split = "train"};
    assert_int_equal(stk_sample_index_build(&walk, sample, NULL), STOKER_OK);
    assert_memory_equal(sample, expected, 6 * sizeof *sample);
}

static void test_partial_sample_that_ends_in_an_empty_document_is_refused(void **state)
{
    (void)state;
    (void)request_of((const int32_t[]){4, 0}, 2);
    struct stk_sample_walk walk = {.lengths = file_bytes + 34,
                                   .document = (const int32_t[]){0, 1},
                                   .documents = 2,
                                   .sequence_length = 8,
                                   .extra_token = 1,
                                   .samples = 1,
                                   .split = "valid"};
    int32_t sample[4];
    int64_t wide[4];
    stoker_error err;
    assert_int_equal(stk_sample_index_build(&walk, sample, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "split 'valid': row 1 of the sample index has offset -1"));
    walk.wide = 1; /* what the reference does not look at in 64 bits */
    assert_int_equal(stk_sample_index_build(&walk, wide, &err), STOKER_OK);
    assert_true(wide[2] == 1 && wide[3] == -1);
}

static void test_counts_beyond_31_and_32_bits(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){INT32_MAX, INT32_MAX, INT32_MAX}, 3);
    request.sequence_length = 4096;
    struct stk_gpt_plan plan = plan_of(&request);
    assert_true(plan.tokens_per_epoch == UINT64_C(6442450941));
    assert_int_equal(plan.samples, 1572863);
    request.samples = UINT32_MAX;
    plan = plan_of(&request);
    assert_true(plan.epochs == (UINT64_C(4294967295) * 4096 + 1 + UINT64_C(6442450940)) / UINT64_C(6442450941));
    assert_true(plan.wide_shuffle && !plan.wide_samples);

    request = request_of((const int32_t[]){1}, 1);
    request.sequence_length = 1;
    request.samples = INT32_MAX - 1; /* documents: one more */
    assert_false(plan_of(&request).wide_samples);
    request.samples = INT32_MAX;
    assert_true(plan_of(&request).wide_samples);
    request.samples = UINT32_MAX - 2;
    assert_false(plan_of(&request).wide_shuffle);
    request.samples = UINT32_MAX - 1;
    assert_true(plan_of(&request).wide_shuffle);
}

static void test_what_cannot_be_counted_is_refused(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){5, 5}, 2);
    request.samples = UINT64_MAX - 1;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "more than 64-bit numbers count");
    assert_int_equal(stk_gpt_count_deferred(&request), -1);
    request.samples = (uint64_t)INT64_MAX / 2 - 9;
    request.sequence_length = 1;
    request.keep_partial = 1;
    assert_true(plan_of(&request).samples == UINT64_C(1) << 62);
    request.samples = (uint64_t)INT64_MAX / 2 + 1;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "more than 64-bit numbers count");
    request.samples = 1;
    request.sequence_length = 0;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "sequence length is 0");
    request.sequence_length = INT32_MAX;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "sequence length is 2147483647");
    request.sequence_length = 8;
    request.extra_token = 2;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "2 extra tokens");
    request.extra_token = 1;
    request.end = 3;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "sequences 0 to 3, but the dataset has 2");
    request.file_sequences = request.end = (uint64_t)INT32_MAX + 2;
    refuse(&request, STOKER_ERR_INVALID_ARGUMENT, "document index holds at most 2147483647");
}

static void test_negative_length_is_corrupt(void **state)
{
    (void)state;
    struct stk_gpt_request request = request_of((const int32_t[]){5, 9, -3}, 3);
    refuse(&request, STOKER_ERR_CORRUPT, "length of sequence 2 is -3");
    request.end = 2;
    assert_int_equal(plan_of(&request).tokens_per_epoch, 14);
}

static void test_kept_partial_sample_is_counted_in_single_precision(void **state)
{
    (void)state;
    assert_int_equal(stk_sample_count(17, 8, 1, 0), 2);
    assert_int_equal(stk_sample_count(18, 8, 1, 0), 2);
    assert_int_equal(stk_sample_count(18, 8, 1, 1), 3);
    assert_int_equal(stk_sample_count(33554435, 4096, 1, 1), 8192); /* exactly 8193: lost above 2^24 tokens */
    assert_int_equal(stk_sample_count(0, 8, 1, 1), 0);
    assert_int_equal(stk_sample_count(0, 8, 1, 0), 0);
    struct stk_gpt_request request = request_of((const int32_t[]){33554435}, 1);
    request.sequence_length = 4096;
    request.keep_partial = 1;
    assert_int_equal(plan_of(&request).samples, 8192);
    assert_int_equal(stk_gpt_count_deferred(&request), 8193); /* this one the reference counts in double */
    request.keep_partial = 0;
    assert_int_equal(stk_gpt_count_deferred(&request), 8192);
}

static void test_arrays_are_drawn_from_one_generator(void **state)
{
    (void)state;
    static const uint32_t seeds[] = {0, 1234, UINT32_MAX};
    struct stk_gpt_request request = request_of((const int32_t[]){9, 9, 5, 0, 9, 9, 9, 9}, 8);
    request.first = 2;
    request.samples = 8;
    for (int s = 0; s < 3; s++) {
        struct stk_mt19937 random;
        int32_t document[40], expected[40], sample[60];
        uint32_t shuffle[30], order[30];
        request.seed = seeds[s];
        struct stk_gpt_plan plan = plan_of(&request);
        assert_int_equal(plan.epochs, 2);
        assert_true(plan.separate_final_epoch);
        assert_int_equal(stk_gpt_build(&request, &plan, (void *[]){document, sample, shuffle}, NULL, NULL), STOKER_OK);
        for (int i = 0; i < 12; i++) expected[i] = 2 + i % 6;
        for (uint32_t i = 0; i < plan.samples; i++) order[i] = i;
        stk_mt19937_seed(&random, seeds[s]);
        stk_mt19937_shuffle_32(&random, (uint32_t *)expected, 6);
        stk_mt19937_shuffle_32(&random, (uint32_t *)expected + 6, 6);
        stk_mt19937_shuffle_32(&random, order, plan.samples_before_final);
        stk_mt19937_shuffle_32(&random, order + plan.samples_before_final, plan.samples - plan.samples_before_final);
        assert_memory_equal(document, expected, 12 * sizeof *document);
        assert_memory_equal(shuffle, order, plan.samples * sizeof *shuffle);
    }
}

static void test_wide_shuffle_has_the_order_of_the_narrow_one(void **state)
{
    (void)state;
    struct stk_mt19937 random;
    uint32_t narrow[50];
    int64_t wide[50];
    stk_mt19937_seed(&random, 5);
    stk_shuffle_index_build(&random, 30, 50, 0, narrow);
    stk_mt19937_seed(&random, 5);
    stk_shuffle_index_build(&random, 30, 50, 1, wide);
    for (int i = 0; i < 50; i++) assert_int_equal(narrow[i], wide[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_epoch_without_a_request),
        cmocka_unit_test(test_epochs_are_the_fewest_that_suffice),
        cmocka_unit_test(test_little_used_last_epoch_is_separate),
        cmocka_unit_test(test_split_without_tokens_is_refused_by_name),
        cmocka_unit_test(test_one_token_gives_an_empty_index),
        cmocka_unit_test(test_samples_of_one_token),
        cmocka_unit_test(test_partial_sample_that_ends_in_an_empty_document_is_refused),
        cmocka_unit_test(test_counts_beyond_31_and_32_bits),
        cmocka_unit_test(test_what_cannot_be_counted_is_refused),
        cmocka_unit_test(test_negative_length_is_corrupt),
        cmocka_unit_test(test_kept_partial_sample_is_counted_in_single_precision),
        cmocka_unit_test(test_arrays_are_drawn_from_one_generator),
        cmocka_unit_test(test_wide_shuffle_has_the_order_of_the_narrow_one),
    };
    return stk_run_tests(tests);
}
