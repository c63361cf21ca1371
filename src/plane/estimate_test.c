/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/estimate.h"

#include <stdlib.h>
#include <string.h>

#include "source/source.h"
#include "source/work.h"
#include "tests/support/unit.h"

/* A source of 8 samples of which sample i has i * 1000 bytes. */
static stoker_status describe(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                              stoker_error *err)
{
    (void)source, (void)err;
    if (id >= 8) return STOKER_ERR_NOT_FOUND;
    *out = (stoker_descriptor){.id = id, .bytes = id * 1000, .dtype = STOKER_DTYPE_FLOAT32, .sample_bytes = 12000};
    return STOKER_OK;
}

static const struct stk_source_ops ops = {.describe = describe};
static struct stoker_source source = {.ops = &ops, .kind = STK_SOURCE_MEDIA, .blob_fd = -1, .payload_fd = -1};
static struct stk_estimate *estimate;

static int setup(void **state)
{
    (void)state;
    return stk_estimate_create(&estimate, NULL) == STOKER_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    stk_estimate_destroy(estimate);
    return 0;
}

static void put_ids(uint8_t *out, const uint64_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) stk_store_u64(out + 8 * i, ids[i]);
}

static void test_features_are_those_of_the_descriptor(void **state)
{
    (void)state;
    struct stk_cost_features features = stk_estimate_features(&source, 3);
    assert_int_equal(features.samples, 1);
    assert_int_equal(features.bytes_in, 3000);
    assert_int_equal(features.pixels_out, 1000); /* 12,000 bytes, 4 a value, 3 a pixel */
    features = stk_estimate_features(&source, 99);
    assert_int_equal(features.samples, 1);
    assert_int_equal(features.bytes_in, 0);
    assert_int_equal(stk_estimate_class(&source), STK_COST_VIDEO);
}

static void test_d1_the_longest_predicted_first(void **state)
{
    (void)state;
    const uint64_t ids[5] = {2, 7, 1, 7, 5}, same[3] = {4, 4, 4};
    const struct stk_estimate_of of = {1, STK_COST_VIDEO, &source};
    uint8_t bytes[40];
    struct stk_cost sum;
    const uint32_t *order = NULL;
    put_ids(bytes, ids, 5);
    stk_estimate_ids(estimate, &of, bytes, 5, &sum, &order);
    assert_non_null(order);
    const uint32_t expected[5] = {1, 3, 4, 0, 2}; /* equal ones in the order of their places */
    assert_memory_equal(order, expected, sizeof expected);
    put_ids(bytes, same, 3);
    stk_estimate_ids(estimate, &of, bytes, 3, &sum, &order);
    assert_null(order);
}

static void test_learns_for_one_job_and_class(void **state)
{
    (void)state;
    const struct stk_estimate_of of = {1, STK_COST_VIDEO, &source}, other = {2, STK_COST_VIDEO, &source};
    uint32_t learned;
    for (uint64_t i = 0; i < 50; i++) {
        struct stk_cost_result result = {stk_estimate_features(&source, 1 + i % 7), 5000000, 6000000, 12000, 0};
        stk_estimate_learn(estimate, &of, &result);
    }
    assert_true(stk_estimate_error(estimate, &of, &learned) < 1000);
    assert_int_equal(learned, 50);
    (void)stk_estimate_error(estimate, &other, &learned);
    assert_int_equal(learned, 0);
    const struct stk_cost_features features = {.samples = 1, .hint_ns = 7000000};
    const struct stk_estimate_of python = {3, STK_COST_OTHER, NULL};
    struct stk_cost cost;
    stk_estimate_batch(estimate, &python, &features, &cost);
    assert_int_equal(cost.cpu_ns, 7000000);
}

static void test_alike_token_items_are_predicted_at_once(void **state)
{
    (void)state;
    const uint64_t ids[4] = {3, 3, 3, 3};
    const struct stk_estimate_of of = {1, STK_COST_TOKENS, &source};
    uint8_t bytes[32];
    struct stk_cost four, one;
    const uint32_t *order = NULL;
    put_ids(bytes, ids, 4);
    stk_estimate_ids(estimate, &of, bytes, 4, &four, &order);
    stk_estimate_ids(estimate, &of, bytes, 1, &one, NULL);
    assert_null(order);
    assert_in_range(four.cpu_ns, 4 * one.cpu_ns - 4, 4 * one.cpu_ns + 4);
}

static int work_asked;

/* Sample 3 is AV1, those above are H.264, the others are not known. */
static bool know(const struct stoker_source *of_source, uint64_t id, struct stk_source_work *out)
{
    (void)of_source;
    work_asked++;
    if (id < 3) return false;
    *out = (struct stk_source_work){.codec = "h264", .pixels = id * 1000000, .bytes = id * 10};
    if (id == 3) memcpy(out->codec, "av1", 4);
    return true;
}

static void test_what_the_source_knows_is_not_guessed(void **state)
{
    (void)state;
    struct stoker_source knowing = source;
    const struct stk_estimate_of of = {1, STK_COST_VIDEO, &knowing}, h264 = {1, STK_COST_H264, &knowing};
    const uint64_t ids[4] = {1, 3, 4, 7};
    struct stk_cost_features features;
    struct stk_cost all, one, sum = {0};
    uint8_t bytes[32];
    knowing.work = know;
    work_asked = 0;
    assert_int_equal(stk_estimate_sample(estimate, &of, 1, &features), STK_COST_VIDEO);
    assert_int_equal(features.bytes_in, 1000);
    assert_int_equal(stk_estimate_sample(estimate, &of, 3, &features), STK_COST_AV1);
    assert_int_equal(stk_estimate_sample(estimate, &of, 4, &features), STK_COST_H264);
    assert_int_equal(features.pixels_in, 4000000);
    assert_int_equal(features.bytes_in, 40);
    assert_int_equal(features.pixels_out, 1000);
    assert_int_equal(stk_estimate_sample(estimate, &of, 4, &features), STK_COST_H264);
    assert_int_equal(work_asked, 3); /* what was told is kept */
    /* A request of several codecs costs what its samples do. */
    for (uint32_t i = 0; i < 4; i++) {
        put_ids(bytes, &ids[i], 1);
        stk_estimate_ids(estimate, &of, bytes, 1, &one, NULL);
        sum.cpu_ns += one.cpu_ns, sum.late_ns += one.late_ns;
    }
    put_ids(bytes, ids, 4);
    stk_estimate_ids(estimate, &of, bytes, 4, &all, NULL);
    assert_int_equal(all.cpu_ns, sum.cpu_ns);
    assert_int_equal(all.late_ns, sum.late_ns);
    /* What H.264 is found to cost is what the request of H.264 is then said to cost; AV1 stays. */
    put_ids(bytes, &ids[1], 1);
    stk_estimate_ids(estimate, &of, bytes, 1, &one, NULL);
    for (int i = 0; i < 100; i++) {
        struct stk_cost_result result = {features, 40000000, 40000000, 12000, 0};
        stk_estimate_learn(estimate, &h264, &result);
    }
    struct stk_cost after;
    stk_estimate_ids(estimate, &of, bytes, 1, &after, NULL);
    assert_int_equal(after.cpu_ns, one.cpu_ns);
    put_ids(bytes, &ids[2], 1);
    stk_estimate_ids(estimate, &of, bytes, 1, &after, NULL);
    assert_in_range(after.cpu_ns, 30000000, 41000000);
    assert_int_equal(after.learned, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_features_are_those_of_the_descriptor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_d1_the_longest_predicted_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_learns_for_one_job_and_class, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_the_source_knows_is_not_guessed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alike_token_items_are_predicted_at_once, setup, teardown),
    };
    return stk_run_tests(tests);
}
