/* SPDX-License-Identifier: Apache-2.0
 *
 * Blends: sized and exhaustive, counted, saved and deferred; what is refused.
 */
#include <stoker/gpt.h>

#include "index/blend.h"
#include "tests/support/allocations.h"
#include "tokens/files_fixture.h"

static const double weights[3] = {0.5, 0.3, 0.2};
static const uint64_t sizes[3] = {4, 1, 7};

static stoker_blend_options sized(uint64_t size)
{
    stoker_blend_options options = STOKER_BLEND_OPTIONS_INIT;
    options.datasets = 3;
    options.weights = weights;
    options.size = size;
    options.cache.stem = "hash-BlendedDataset-train";
    options.cache.description = "blend";
    return options;
}

static stoker_blend_index *open_or_fail(const stoker_blend_options *options)
{
    stoker_blend_index *blend = NULL;
    stoker_error err = {0};
    if (stoker_blend_index_open(options, &blend, &err) != STOKER_OK) fail_msg("%s: %s", err.context, err.message);
    return blend;
}

static void expect_same(stoker_blend_index *blend, int built, const int16_t *dataset, const int64_t *sample,
                        uint64_t rows)
{
    stoker_index_array got_dataset, got_sample;
    stoker_error err;
    int got_built = -1;
    assert_int_equal(stoker_blend_index_arrays(blend, &got_dataset, &got_sample, &got_built, &err), STOKER_OK);
    assert_int_equal(got_built, built);
    assert_int_equal(got_dataset.rows, rows);
    assert_int_equal(got_sample.rows, rows);
    assert_memory_equal(got_dataset.data, dataset, rows * sizeof *dataset);
    assert_memory_equal(got_sample.data, sample, rows * sizeof *sample);
    assert_int_equal(stoker_blend_index_arrays(blend, NULL, NULL, NULL, &err), STOKER_OK);
}

static void test_sized_blends_in_memory_and_files(void **state)
{
    (void)state;
    enum { SIZE = 100 };
    int16_t dataset[SIZE];
    int64_t sample[SIZE];
    void *scratch = malloc(stk_blend_scratch_bytes(3));
    stk_blend_sized(weights, 3, SIZE, dataset, sample, scratch);
    free(scratch);
    stoker_blend_options options = sized(SIZE);
    stoker_blend_index *memory = open_or_fail(&options);
    expect_same(memory, 1, dataset, sample, SIZE);
    options.cache.folder = in_folder("cache");
    stoker_blend_index *built = open_or_fail(&options), *loaded = open_or_fail(&options);
    expect_same(built, 1, dataset, sample, SIZE);
    expect_same(loaded, 0, dataset, sample, SIZE);
    options.weights = NULL; /* not needed where nothing is built */
    options.defer = 1;
    stoker_blend_index *deferred = open_or_fail(&options);
    expect_same(deferred, 0, dataset, sample, SIZE);
    uint64_t counts[3];
    stoker_error err;
    assert_int_equal(stoker_blend_index_counts(deferred, counts, &err), STOKER_OK);
    assert_true(counts[0] == 50 && counts[1] == 30 && counts[2] == 20);
    stoker_blend_index *all[] = {memory, built, loaded, deferred};
    for (int i = 0; i < 4; i++) stoker_blend_index_close(all[i]);
    stoker_blend_index_close(NULL);
}

static void test_exhaustive_blends_take_everything(void **state)
{
    (void)state;
    stoker_blend_options options = sized(0);
    options.sizes = sizes;
    stoker_blend_index *blend = open_or_fail(&options);
    stoker_index_array dataset;
    stoker_error err;
    uint64_t counts[3];
    assert_int_equal(stoker_blend_index_arrays(blend, &dataset, NULL, NULL, &err), STOKER_OK);
    assert_int_equal(dataset.rows, 12);
    assert_int_equal(stoker_blend_index_counts(blend, counts, &err), STOKER_OK);
    assert_memory_equal(counts, sizes, sizeof counts);
    stoker_blend_index_close(blend);
}

static void test_bad_blends_are_refused(void **state)
{
    (void)state;
    static const double bad_weights[3] = {0.5, -0.0, 0.5};
    static const uint64_t none[3] = {1, 2, 0}, many[3] = {UINT64_MAX, 1, 1}, large[3] = {UINT64_C(1) << 60, 1, 1};
    static const struct {
        const char *names;
    } expected[] = {{"expected 1 to 32766"},    {"expected 1 to 32766"}, {"weight 1 of the blend is -0"},
                    {"dataset 2 of the blend"}, {"over 2^64"},           {"too large"},
                    {"weights or sizes"},       {"cache folder"}};
    for (int i = 0; i < 8; i++) {
        stoker_blend_options options = sized(10);
        stoker_blend_index *blend = NULL;
        stoker_error err = {0};
        if (i == 0) options.datasets = 0;
        if (i == 1) options.datasets = 32767;
        if (i == 2) options.weights = bad_weights;
        if (i == 3) options.sizes = none;
        if (i == 4) options.sizes = many;
        if (i == 5) options.sizes = large;
        if (i == 6) options.weights = NULL;
        if (i == 7) options.defer = 1;
        assert_int_equal(stoker_blend_index_open(&options, &blend, &err), STOKER_ERR_INVALID_ARGUMENT);
        if (!strstr(err.message, expected[i].names)) fail_msg("'%s' for %d", err.message, i);
        assert_null(blend);
    }
    stoker_blend_options options = sized(10);
    options.struct_size = 3;
    stoker_blend_index *blend = NULL;
    assert_int_equal(stoker_blend_index_open(&options, &blend, NULL), STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_blend_index_open(NULL, &blend, NULL), STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_blend_index_arrays(NULL, NULL, NULL, NULL, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_oversampling_is_refused_before_it_is_kept(void **state)
{
    (void)state;
    uint64_t limits[3] = {50, 30, 19};
    stoker_blend_options options = sized(100);
    stoker_blend_index *blend = NULL;
    stoker_error err;
    options.cache.folder = in_folder("cache");
    options.limits = limits;
    assert_int_equal(stoker_blend_index_open(&options, &blend, &err), STOKER_ERR_LIMIT);
    assert_string_equal(err.message, "the blend takes 20 samples of dataset 2, which has 19");
    char path[200];
    (void)snprintf(path, sizeof path, "%s/hash-BlendedDataset-train-dataset_index.npy", options.cache.folder);
    assert_int_equal(access(path, F_OK), -1);
    limits[2] = 20;
    blend = open_or_fail(&options);
    assert_int_equal(access(path, F_OK), 0);
    stoker_blend_index_close(blend);
}

static void test_damaged_numbers_are_counted_as_an_error(void **state)
{
    (void)state;
    stoker_blend_options options = sized(100);
    options.cache.folder = in_folder("cache");
    stoker_blend_index_close(open_or_fail(&options));
    char path[200];
    (void)snprintf(path, sizeof path, "%s/hash-BlendedDataset-train-dataset_index.npy", options.cache.folder);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 128 + 2 * 50, SEEK_SET), 0);
    assert_int_equal(fwrite("\xff\xff\x03\x00", 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
    stoker_blend_index *blend = open_or_fail(&options);
    uint64_t counts[3];
    stoker_error err;
    assert_int_equal(stoker_blend_index_counts(blend, counts, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "2 numbers that are not 0 to 2"));
    assert_int_equal(stoker_blend_index_counts(blend, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_blend_index_close(blend);
}

static void test_ranges_and_weights(void **state)
{
    (void)state;
    uint32_t narrow[100];
    int64_t wide[100];
    stoker_error err;
    assert_int_equal(stoker_shuffled_range(3, 100, STOKER_INDEX_UINT32, narrow, &err), STOKER_OK);
    assert_int_equal(stoker_shuffled_range(3, 100, STOKER_INDEX_INT64, wide, &err), STOKER_OK);
    for (int i = 0; i < 100; i++) assert_int_equal(narrow[i], wide[i]);
    assert_int_equal(stoker_shuffled_range(3, 0, STOKER_INDEX_INT32, NULL, &err), STOKER_OK);
    assert_int_equal(stoker_shuffled_range(3, 1, STOKER_INDEX_INT16, narrow, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_shuffled_range(3, (UINT64_C(1) << 31) + 1, STOKER_INDEX_INT32, narrow, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    double normal[2] = {1, 3};
    stoker_weights_normalize(normal, 2, normal);
    assert_true(normal[0] == 0.25 && normal[1] == 0.75);
}

static void test_fault_each_allocation(void **state)
{
    (void)state;
    uint64_t limits[3] = {100, 100, 100}, counts[3];
    stoker_blend_options options = sized(100);
    options.limits = limits;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        stoker_blend_index *blend = NULL;
        allocations_fail(n);
        stoker_status status = stoker_blend_index_open(&options, &blend, NULL);
        failed = allocations_failed();
        allocations_fail(0);
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        if (!failed) {
            allocations_fail(1);
            assert_int_equal(stoker_blend_index_counts(blend, counts, NULL), STOKER_ERR_NO_MEMORY);
            allocations_fail(0);
        }
        stoker_blend_index_close(blend);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_sized_blends_in_memory_and_files),
        FIXTURE_TEST(test_exhaustive_blends_take_everything),
        FIXTURE_TEST(test_bad_blends_are_refused),
        FIXTURE_TEST(test_oversampling_is_refused_before_it_is_kept),
        FIXTURE_TEST(test_damaged_numbers_are_counted_as_an_error),
        FIXTURE_TEST(test_ranges_and_weights),
        FIXTURE_TEST(test_fault_each_allocation),
    };
    return stk_run_tests(tests);
}
