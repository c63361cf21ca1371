/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT datasets: opening, counting, files, deferred mapping, mock data, and files that cannot be trusted.
 */
#include "tokens/gpt.h"

#include <sys/stat.h>

#include "tests/support/allocations.h"
#include "tokens/files_fixture.h"

enum { SEQUENCES = 40, TOKENS = SEQUENCES * (SEQUENCES + 1) / 2 - SEQUENCES };

/* Sequence i has i tokens (so the first is empty): i * 100 + position. */
static stoker_dataset *open_steps(void)
{
    static uint16_t tokens[TOKENS + SEQUENCES];
    static int32_t lengths[SEQUENCES];
    static int64_t documents[SEQUENCES + 1];
    size_t used = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        lengths[i] = i;
        documents[i + 1] = i + 1;
        for (int j = 0; j < i; j++) tokens[used++] = (uint16_t)(i * 100 + j);
    }
    const struct fixture_index index = {8, SEQUENCES, SEQUENCES + 1, lengths, NULL, documents, NULL};
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    const char *prefix = fixture_write("steps", &index, tokens, used * sizeof *tokens);
    if (stoker_dataset_open(prefix, NULL, &dataset, &err) != STOKER_OK) fail_msg("%s", err.message);
    return dataset;
}

static stoker_gpt_options options_of(uint64_t samples)
{
    stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
    options.random_seed = 5;
    options.sequence_length = 16;
    options.samples = samples;
    options.split = "train";
    options.cache.stem = "hash-GPTDataset-train";
    options.cache.description = "{}";
    return options;
}

static stoker_gpt_dataset *open_or_fail(stoker_dataset *dataset, const stoker_gpt_options *options)
{
    stoker_gpt_dataset *gpt = NULL;
    stoker_error err = {0};
    if (stoker_gpt_dataset_open(dataset, options, &gpt, &err) != STOKER_OK)
        fail_msg("%s: %s", err.context, err.message);
    return gpt;
}

static void expect_same_arrays(stoker_gpt_dataset *a, stoker_gpt_dataset *b)
{
    stoker_index_array left[3], right[3];
    stoker_error err;
    assert_int_equal(stoker_gpt_dataset_arrays(a, &left[0], &left[1], &left[2], &err), STOKER_OK);
    assert_int_equal(stoker_gpt_dataset_arrays(b, &right[0], &right[1], &right[2], &err), STOKER_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(left[i].rows, right[i].rows);
        assert_int_equal(left[i].dtype, right[i].dtype);
        assert_memory_equal(left[i].data, right[i].data,
                            left[i].rows * left[i].columns * stk_index_dtype_size(left[i].dtype));
    }
}

static void test_every_token_once_in_an_epoch(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_steps();
    stoker_gpt_options options = options_of(UINT64_MAX);
    stoker_gpt_dataset *gpt = open_or_fail(dataset, &options);
    static uint8_t seen[10000];
    memset(seen, 0, sizeof seen);
    int64_t count = stoker_gpt_dataset_count(gpt), text[17], documents[17], lengths[17];
    assert_int_equal(count, (TOKENS - 1) / 16);
    stoker_error err;
    for (int64_t k = 0; k < count; k++) {
        stoker_gpt_text out = {text, 0, documents, lengths, 17, 0};
        assert_int_equal(stoker_gpt_dataset_text(gpt, (uint64_t)k, &out, &err), STOKER_OK);
        assert_int_equal(out.count, 17);
        int64_t sum = 0, at = 0;
        for (uint64_t p = 0; p < out.parts; p++) {
            for (int64_t j = 0; j < lengths[p]; j++) assert_int_equal(text[at + j] / 100, documents[p]);
            at += lengths[p];
            sum += lengths[p];
        }
        assert_int_equal(sum, 17);
        for (int i = 0; i < 16; i++) assert_int_equal(seen[text[i]]++, 0); /* the 17th begins another sample */
    }
    stoker_gpt_text out = {text, 0, NULL, NULL, 0, 0};
    assert_int_equal(stoker_gpt_dataset_text(gpt, (uint64_t)count, &out, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "the train split has"));
    assert_int_equal(stoker_gpt_dataset_text(gpt, 0, &out, &err), STOKER_OK); /* parts not wanted, but counted */
    assert_true(out.parts > 0);
    assert_ptr_equal(stoker_gpt_dataset_ref(gpt), gpt);
    stoker_gpt_dataset_close(gpt);
    stoker_dataset_close(dataset); /* the dataset is shared */
    assert_int_equal(stoker_gpt_dataset_text(gpt, 0, &out, &err), STOKER_OK);
    stoker_gpt_dataset_close(gpt);
    stoker_gpt_dataset_close(NULL);
}

static void test_saved_loaded_and_deferred_are_the_same(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_steps();
    stoker_gpt_options options = options_of(300);
    stoker_gpt_dataset *memory = open_or_fail(dataset, &options);
    options.cache.folder = in_folder("cache");
    stoker_gpt_dataset *built = open_or_fail(dataset, &options);
    assert_true(built->built);
    stoker_gpt_dataset *loaded = open_or_fail(dataset, &options);
    assert_false(loaded->built);
    options.cache.assume_hit = 1;
    stoker_gpt_dataset *assumed = open_or_fail(dataset, &options);
    options.defer = 1;
    stoker_gpt_dataset *deferred = open_or_fail(dataset, &options);
    assert_null(deferred->arrays[0].base);
    assert_int_equal(stoker_gpt_dataset_count(deferred), stoker_gpt_dataset_count(built));
    expect_same_arrays(memory, built);
    expect_same_arrays(memory, loaded);
    expect_same_arrays(memory, assumed);
    expect_same_arrays(memory, deferred);
    stoker_gpt_dataset *all[] = {memory, built, loaded, assumed, deferred};
    for (int i = 0; i < 5; i++) stoker_gpt_dataset_close(all[i]);
    stoker_dataset_close(dataset);
}

static void test_deferred_files_are_met_at_first_use(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_steps();
    stoker_gpt_options options = options_of(300);
    options.defer = 1;
    stoker_gpt_dataset *gpt = NULL;
    stoker_error err;
    assert_int_equal(stoker_gpt_dataset_open(dataset, &options, &gpt, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "needs a cache folder"));
    options.cache.folder = in_folder("later");
    gpt = open_or_fail(dataset, &options);
    assert_int_equal(stoker_gpt_dataset_prepare(gpt, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(access(options.cache.folder, F_OK), -1); /* nothing is built, nothing is made */
    options.defer = 0;
    stoker_gpt_dataset *built = open_or_fail(dataset, &options);
    assert_int_equal(stoker_gpt_dataset_prepare(gpt, &err), STOKER_OK);
    assert_int_equal(stoker_gpt_dataset_prepare(gpt, &err), STOKER_OK);
    expect_same_arrays(gpt, built);
    stoker_gpt_dataset_close(gpt);
    stoker_gpt_dataset_close(built);
    stoker_dataset_close(dataset);
}

static void test_bad_requests_are_refused(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_steps();
    stoker_gpt_dataset *gpt = NULL;
    stoker_error err = {0};
    for (int i = 0; i < 7; i++) {
        stoker_gpt_options options = options_of(10);
        if (i == 0) options.sequence_length = 0;
        if (i == 1) options.sequence_length = UINT64_MAX;
        if (i == 2) options.first_sequence = 7, options.end_sequence = 6;
        if (i == 3) options.end_sequence = SEQUENCES + 1;
        if (i == 4) options.first_sequence = options.end_sequence = 3;    /* nobody's split */
        if (i == 5) options.first_sequence = 0, options.end_sequence = 1; /* one empty sequence */
        if (i == 6) options.struct_size--;
        assert_int_equal(stoker_gpt_dataset_open(dataset, &options, &gpt, &err),
                         i == 6 ? STOKER_ERR_UNSUPPORTED : STOKER_ERR_INVALID_ARGUMENT);
        if (i >= 2 && i <= 5) assert_non_null(strstr(err.message, "train"));
    }
    stoker_gpt_options options = options_of(10);
    assert_int_equal(stoker_gpt_dataset_open(NULL, &options, &gpt, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_gpt_dataset_open(dataset, NULL, &gpt, &err), STOKER_ERR_UNSUPPORTED);
    options.cache.assume_hit = 1;
    assert_int_equal(stoker_gpt_dataset_open(dataset, &options, &gpt, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_gpt_dataset_prepare(NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_gpt_dataset_count(NULL), 0);
    assert_null(gpt);
    stoker_dataset_close(dataset);
}

static void test_mock_data(void **state)
{
    (void)state;
    stoker_gpt_options options = options_of(50);
    stoker_gpt_dataset *gpt = NULL;
    stoker_error err;
    int64_t text[17];
    assert_int_equal(stoker_gpt_dataset_open_mock(1000, 999, &options, &gpt, &err), STOKER_OK);
    assert_true(stoker_gpt_dataset_count(gpt) > 50);
    stoker_gpt_text out = {text, 0, NULL, NULL, 0, 0};
    assert_int_equal(stoker_gpt_dataset_text(gpt, 7, &out, &err), STOKER_OK);
    for (uint64_t i = 0; i + 1 < out.count; i++)
        assert_true(text[i] == 999 || text[i + 1] == text[i] + 1 || text[i + 1] == 999);
    stoker_gpt_dataset_close(gpt);
    gpt = NULL;
    options.sequence_length = 0;
    assert_int_equal(stoker_gpt_dataset_open_mock(1000, 999, &options, &gpt, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_gpt_dataset_open_mock(0, 999, &options, &gpt, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(gpt);
}

static void poke(const char *path, uint64_t at, int32_t value)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(128 + at), SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

/* Damage at the ends is seen at the opening and mended; damage inside is seen by the item, which reads nothing
 * wrong. */
static void test_files_are_not_trusted(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_steps();
    stoker_gpt_options options = options_of(UINT64_MAX);
    options.cache.folder = in_folder("cache");
    stoker_gpt_dataset *gpt = open_or_fail(dataset, &options);
    const int64_t count = stoker_gpt_dataset_count(gpt), documents = (int64_t)gpt->arrays[0].array.rows;
    stoker_gpt_dataset_close(gpt);
    char paths[3][200];
    static const char *const names[] = {"document", "sample", "shuffle"};
    for (int i = 0; i < 3; i++)
        (void)snprintf(paths[i], sizeof paths[i], "%s/hash-GPTDataset-train-%s_index.npy", options.cache.folder,
                       names[i]);
    const struct {
        int file, inside;
        int64_t at; /* of an int32 */
        int32_t value;
    } pokes[] = {{0, 0, 0, SEQUENCES},
                 {0, 0, documents - 1, -1},
                 {1, 0, 0, 1},
                 {1, 0, 2 * count, 1 << 20},
                 {2, 0, 0, -1},
                 {2, 0, count - 1, (int32_t)count},
                 {0, 1, documents / 2, 1 << 30},
                 {0, 1, documents / 2, -1},
                 {1, 1, count, -7},
                 {1, 1, count + 1, 1 << 24},
                 {1, 1, count, 1 << 24},
                 {2, 1, count / 2, (int32_t)count}};
    for (size_t i = 0; i < sizeof pokes / sizeof pokes[0]; i++) {
        stoker_error err = {0};
        poke(paths[pokes[i].file], 4 * (uint64_t)pokes[i].at, pokes[i].value);
        options.cache.assume_hit = 1;
        gpt = NULL;
        stoker_status status = stoker_gpt_dataset_open(dataset, &options, &gpt, &err);
        assert_int_equal(status, pokes[i].inside ? STOKER_OK : STOKER_ERR_CORRUPT);
        bool refused = false;
        for (int64_t k = 0; gpt && k < count; k++) {
            int64_t text[17];
            stoker_gpt_text out = {text, 0, NULL, NULL, 0, 0};
            status = stoker_gpt_dataset_text(gpt, (uint64_t)k, &out, &err);
            assert_true(status == STOKER_OK || status == STOKER_ERR_CORRUPT);
            refused = refused || status == STOKER_ERR_CORRUPT;
        }
        assert_int_equal(refused, pokes[i].inside);
        assert_non_null(strstr(err.message, "_index row"));
        stoker_gpt_dataset_close(gpt);
        if (pokes[i].inside) {
            char stem[300];
            (void)snprintf(stem, sizeof stem, "%s", paths[pokes[i].file]);
            assert_int_equal(unlink(stem), 0);
        }
        options.cache.assume_hit = 0;
        gpt = open_or_fail(dataset, &options);
        assert_true(gpt->built);
        stoker_gpt_dataset_close(gpt);
    }
    stoker_dataset_close(dataset);
}

static void test_arrays_from_elsewhere(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_steps();
    stoker_gpt_options options = options_of(30);
    stoker_gpt_dataset *gpt = open_or_fail(dataset, &options), *copy = NULL;
    stoker_index_array arrays[3];
    stoker_error err;
    assert_int_equal(stoker_gpt_dataset_arrays(gpt, &arrays[0], &arrays[1], &arrays[2], &err), STOKER_OK);
    assert_int_equal(stk_gpt_open_arrays(dataset, NULL, &options, arrays, &copy, &err), STOKER_OK);
    expect_same_arrays(gpt, copy);
    stoker_gpt_dataset_close(copy);
    for (int i = 0; i < 6; i++) {
        stoker_index_array bad[3] = {arrays[0], arrays[1], arrays[2]};
        if (i == 0) bad[0].dtype = STOKER_INDEX_INT64;
        if (i == 1) bad[1].dtype = STOKER_INDEX_UINT32;
        if (i == 2) bad[2].dtype = STOKER_INDEX_INT16;
        if (i == 3) bad[1].columns = 1;
        if (i == 4) bad[1].rows--;
        if (i == 5) bad[1].rows = bad[2].rows = 0;
        copy = NULL;
        assert_int_equal(stk_gpt_open_arrays(dataset, NULL, &options, bad, &copy, &err), STOKER_ERR_CORRUPT);
        assert_null(copy);
    }
    stoker_gpt_dataset_close(gpt);
    stoker_dataset_close(dataset);
}

static void test_fault_each_allocation(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_steps();
    stoker_gpt_options options = options_of(30);
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        stoker_gpt_dataset *gpt = NULL, *mock = NULL;
        stoker_error err = {0};
        allocations_fail(n);
        stoker_status status = stoker_gpt_dataset_open(dataset, &options, &gpt, &err);
        failed = allocations_failed();
        allocations_fail(n);
        stoker_status mocked = stoker_gpt_dataset_open_mock(10, 1, &options, &mock, NULL);
        bool both = allocations_failed();
        allocations_fail(0);
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        assert_int_equal(mocked, both ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        assert_true(failed ? gpt == NULL && err.message[0] != 0 : gpt != NULL);
        stoker_gpt_dataset_close(gpt);
        stoker_gpt_dataset_close(mock);
    }
    stoker_dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_every_token_once_in_an_epoch),
        FIXTURE_TEST(test_saved_loaded_and_deferred_are_the_same),
        FIXTURE_TEST(test_deferred_files_are_met_at_first_use),
        FIXTURE_TEST(test_bad_requests_are_refused),
        FIXTURE_TEST(test_mock_data),
        FIXTURE_TEST(test_files_are_not_trusted),
        FIXTURE_TEST(test_arrays_from_elsewhere),
        FIXTURE_TEST(test_fault_each_allocation),
    };
    return stk_run_tests(tests);
}
