/* SPDX-License-Identifier: Apache-2.0
 *
 * The token index against what NumPy and Megatron-LM gave (tests/golden/megatron/numpy, helpers and config):
 * generator, shuffles, sums, mock lengths, document, sample and shuffle index, blends, splits and sizes. Every case
 * of the files is looked at; what they hold for other parts (texts of numbers and of .npy headers, lists of blends)
 * is left to those.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "index/blend.h"
#include "index/gpt.h"
#include "index/random.h"
#include "index/split.h"
#include "sys/digest.h"
#include "tests/support/unit.h"

static json_t *numpy, *blends, *samples, *documents, *splits;

static json_t *load_file(const char *name)
{
    char path[4096];
    json_error_t error;
    assert_true(snprintf(path, sizeof path, "%s/%s", STK_GOLDEN_MEGATRON, name) < (int)sizeof path);
    json_t *value = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!value) fail_msg("%s: %s", path, error.text);
    return value;
}

static int load(void **state)
{
    (void)state;
    numpy = load_file("numpy/numpy.json");
    blends = load_file("helpers/blending.json");
    samples = load_file("helpers/sample_index.json");
    documents = load_file("helpers/document_shuffle_index.json");
    splits = load_file("config/splits_blends_sizes.json");
    return 0;
}

static int unload(void **state)
{
    (void)state;
    json_decref(numpy);
    json_decref(blends);
    json_decref(samples);
    json_decref(documents);
    json_decref(splits);
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- reading */

static uint64_t number(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static const char *text(json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    assert_non_null(value);
    return value;
}

static void *memory(size_t size)
{
    void *bytes = calloc(1, size + 1);
    assert_non_null(bytes);
    return bytes;
}

static void check_digest(const void *data, size_t size, json_t *object, const char *name)
{
    char hex[65];
    stk_sha256_hex(data, size, hex);
    const char *wanted = text(object, name);
    if (strcmp(hex, wanted) != 0) {
        char *shown = json_dumps(object, JSON_COMPACT);
        fail_msg("%s is %s in %.600s", name, hex, shown);
    }
}

static void check_integers(json_t *array, int64_t (*at)(const void *, size_t), const void *values)
{
    if (!json_is_array(array)) return; /* long ones are given as digests alone */
    for (size_t i = 0; i < json_array_size(array); i++)
        assert_true(at(values, i) == json_integer_value(json_array_get(array, i)));
}

static int64_t int16_at(const void *values, size_t i) { return ((const int16_t *)values)[i]; }
static int64_t int32_at(const void *values, size_t i) { return ((const int32_t *)values)[i]; }
static int64_t int64_at(const void *values, size_t i) { return ((const int64_t *)values)[i]; }

/* Elements of a one-dimensional .npy file of version 1.0: all of them, or a failed test. */
static void *read_npy(const char *folder, const char *name, const char *descr, size_t element, size_t *out_count)
{
    char path[4096], header[257] = {0};
    unsigned char start[10];
    assert_true(snprintf(path, sizeof path, "%s/%s/%s", STK_GOLDEN_MEGATRON, folder, name) < (int)sizeof path);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    assert_int_equal(fread(start, 1, sizeof start, file), sizeof start);
    assert_memory_equal(start, "\x93NUMPY\x01\x00", 8);
    size_t header_size = start[8] | (size_t)start[9] << 8;
    assert_true(header_size < sizeof header && fread(header, 1, header_size, file) == header_size);
    assert_non_null(strstr(header, descr));
    const char *shape = strstr(header, "'shape': (");
    assert_non_null(shape);
    *out_count = (size_t)strtoull(shape + 10, NULL, 10);
    void *values = memory(*out_count * element);
    assert_int_equal(fread(values, element, *out_count, file), *out_count);
    assert_int_equal(fgetc(file), EOF);
    (void)fclose(file);
    return values;
}

static double *read_hex(json_t *array, size_t *out_count)
{
    *out_count = json_array_size(array);
    double *values = memory(*out_count * sizeof *values);
    for (size_t i = 0; i < *out_count; i++) values[i] = strtod(json_string_value(json_array_get(array, i)), NULL);
    return values;
}

static int32_t *read_integers(json_t *array, size_t *out_count)
{
    *out_count = json_array_size(array);
    int32_t *values = memory(*out_count * sizeof *values);
    for (size_t i = 0; i < *out_count; i++) values[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return values;
}

/* ----------------------------------------------------------------------------------------------------------- numpy */

static void test_shuffled_ranges(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(numpy, "shuffle"), index, item)
    {
        struct stk_mt19937 narrow, wide;
        size_t size = number(item, "size");
        uint32_t *values = memory(size * sizeof *values);
        uint64_t *long_values = memory(size * sizeof *long_values);
        for (uint32_t i = 0; i < size; i++) long_values[i] = values[i] = i;
        stk_mt19937_seed(&narrow, (uint32_t)number(item, "seed"));
        wide = narrow;
        stk_mt19937_shuffle_32(&narrow, values, size);
        stk_mt19937_shuffle_64(&wide, long_values, size);
        check_digest(values, size * sizeof *values, item, "sha256_le_i32");
        check_integers(json_object_get(item, "first_20"), int32_at, values);
        for (size_t i = 0; i < size; i++) assert_true(long_values[i] == values[i]);
        assert_int_equal(stk_mt19937_next(&narrow), number(item, "next_uint32_after"));
        assert_int_equal(stk_mt19937_next(&wide), number(item, "next_uint32_after"));
        free(values);
        free(long_values);
    }
    assert_int_equal(index, 50);
}

static void test_raw_streams(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(numpy, "raw_uint32"), index, item)
    {
        struct stk_mt19937 random;
        uint32_t drawn[1000];
        stk_mt19937_seed(&random, (uint32_t)number(item, "seed"));
        for (int i = 0; i < 1000; i++) drawn[i] = stk_mt19937_next(&random);
        check_digest(drawn, sizeof drawn, item, "first_1000_sha256_le_u32");
        for (size_t i = 0; i < 10; i++)
            assert_true(drawn[i] == json_integer_value(json_array_get(json_object_get(item, "first_10"), i)));
    }
    assert_int_equal(index, 5);
}

static void test_chained_shuffles(void **state)
{
    (void)state;
    struct stk_mt19937 random;
    json_t *chain = json_object_get(numpy, "chained_shuffles"), *step;
    size_t index;
    stk_mt19937_seed(&random, (uint32_t)number(chain, "seed"));
    json_array_foreach(json_object_get(chain, "steps"), index, step)
    {
        uint32_t values[1000];
        size_t size = number(step, "size");
        assert_true(size <= 1000 && size == json_array_size(json_object_get(step, "result")));
        for (uint32_t i = 0; i < size; i++) values[i] = i;
        stk_mt19937_shuffle_32(&random, values, size);
        check_integers(json_object_get(step, "result"), int32_at, values);
    }
    assert_int_equal(index, 5);
}

static void test_pairwise_sums(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(numpy, "pairwise_sum"), index, item)
    {
        size_t count;
        double *weights = json_object_get(item, "weights_file")
                              ? read_npy("numpy", text(item, "weights_file"), "'<f8'", sizeof(double), &count)
                              : read_hex(json_object_get(item, "weights_hex"), &count);
        assert_int_equal(count, number(item, "n"));
        assert_true(stk_pairwise_sum(weights, count) == strtod(text(item, "sum_hex"), NULL));
        json_t *shown = json_object_get(item, "normalized_repr");
        stk_weights_normalize(weights, count, weights);
        check_digest(weights, count * sizeof *weights, item, "normalized_sha256_le_f64");
        for (size_t i = 0; i < json_array_size(shown); i++)
            assert_true(weights[i] == strtod(json_string_value(json_array_get(shown, i)), NULL));
        free(weights);
    }
    assert_int_equal(index, 19);
}

static void test_mock_lengths(void **state)
{
    (void)state;
    json_t *mock = json_object_get(numpy, "mock_low_level");
    int32_t *lengths = memory(100000 * sizeof *lengths);
    int64_t sum = 0;
    stk_mock_lengths(lengths, 100000);
    for (int i = 0; i < 100000; i++) sum += lengths[i];
    check_integers(json_object_get(mock, "first_50_lengths"), int32_at, lengths);
    check_digest(lengths, 100000 * sizeof *lengths, mock, "sha256_le_i32");
    assert_true((uint64_t)sum == number(mock, "sum"));
    free(lengths);
}

/* --------------------------------------------------------------------------------------------------------- helpers */

/* Lengths as they lie in a file, two bytes past a multiple of four. */
static char *misaligned(const int32_t *lengths, size_t count)
{
    char *bytes = memory(2 + count * sizeof *lengths);
    memcpy(bytes + 2, lengths, count * sizeof *lengths);
    return bytes;
}

static void check_rows(json_t *item, const void *rows, uint64_t last, int64_t (*at)(const void *, size_t))
{
    static const char *const names[] = {"sample_index", "first_rows", "last_rows"};
    for (int n = 0; n < 3; n++) {
        json_t *wanted = json_object_get(item, names[n]), *row;
        size_t index, start = n == 2 ? (size_t)last + 1 - json_array_size(wanted) : 0;
        json_array_foreach(wanted, index, row) for (size_t side = 0; side < 2; side++)
            assert_true(at(rows, 2 * (start + index) + side) == json_integer_value(json_array_get(row, side)));
    }
}

static void check_sample_index(json_t *item)
{
    size_t count, documents_count;
    int32_t *sizes = read_integers(json_object_get(item, "sizes"), &count);
    int32_t *document = json_object_get(item, "document_index_file")
                            ? read_npy("helpers", text(item, "document_index_file"), "'<i4'", 4, &documents_count)
                            : read_integers(json_object_get(item, "document_index"), &documents_count);
    char *bytes = misaligned(sizes, count);
    uint32_t extra = json_is_true(json_object_get(item, "add_extra_token"));
    uint32_t keep = !json_is_true(json_object_get(item, "drop_last_partial"));
    uint64_t length = number(item, "sequence_length");
    uint64_t tokens = number(item, "num_epochs") * number(item, "tokens_per_epoch");
    const struct stk_sample_walk walk = {.lengths = bytes + 2,
                                         .document = document,
                                         .documents = documents_count,
                                         .sequence_length = length,
                                         .extra_token = extra,
                                         .wide = strcmp(text(item, "dtype"), "int64") == 0,
                                         .samples = stk_sample_count(tokens, length, extra, keep),
                                         .split = "golden"};
    json_t *shape = json_object_get(item, "shape");
    assert_true((json_int_t)walk.samples + 1 == json_integer_value(json_array_get(shape, 0)));
    size_t size = (walk.samples + 1) * 2 * (walk.wide ? 8 : 4);
    void *rows = memory(size);
    assert_int_equal(stk_sample_index_build(&walk, rows, NULL), STOKER_OK);
    check_digest(rows, size, item, "sha256_le");
    check_rows(item, rows, walk.samples, walk.wide ? int64_at : int32_at);
    free(rows);
    free(bytes);
    free(sizes);
    free(document);
}

static void test_sample_indices(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(samples, index, item) check_sample_index(item);
    assert_int_equal(index, 36);
}

static void test_document_and_shuffle_indices(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(documents, index, item)
    {
        struct stk_mt19937 random;
        json_t *range = json_object_get(item, "documents");
        uint64_t first = (uint64_t)json_integer_value(json_array_get(range, 0));
        uint64_t end = (uint64_t)json_integer_value(json_array_get(range, 1));
        uint64_t epochs = number(item, "num_epochs"), total = number(item, "shuffle_total");
        int32_t *document = memory((end - first) * epochs * sizeof *document);
        uint32_t *shuffle = memory(total * sizeof *shuffle);
        assert_string_equal(text(item, "document_index_dtype"), "int32");
        assert_string_equal(text(item, "shuffle_index_dtype"), "uint32");
        stk_mt19937_seed(&random, (uint32_t)number(item, "seed"));
        stk_document_index_build(&random, first, end, epochs,
                                 json_is_true(json_object_get(item, "separate_final_epoch")), document);
        check_digest(document, (end - first) * epochs * sizeof *document, item, "document_index_sha256");
        check_integers(json_object_get(item, "document_index"), int32_at, document);
        stk_shuffle_index_build(&random, number(item, "shuffle_first"), total, 0, shuffle);
        check_integers(json_object_get(item, "shuffle_index"), int32_at, shuffle);
        free(document);
        free(shuffle);
    }
    assert_int_equal(index, 6);
}

static void check_blend(json_t *item)
{
    json_t *weights_hex = json_object_get(item, "weights_hex"), *list = json_object_get(item, "exhaustive_sizes");
    size_t datasets = json_array_size(weights_hex ? weights_hex : list), count;
    uint64_t size = 0, *sizes = memory(datasets * sizeof *sizes);
    for (size_t k = 0; !weights_hex && k < datasets; k++)
        size += sizes[k] = (uint64_t)json_integer_value(json_array_get(list, k));
    if (weights_hex) size = number(item, "size");
    int16_t *dataset = memory(size * sizeof *dataset);
    int64_t *sample = memory(size * sizeof *sample);
    void *scratch = memory(stk_blend_scratch_bytes((uint32_t)datasets));
    if (weights_hex) {
        double *weights = read_hex(weights_hex, &count);
        stk_blend_sized(weights, (uint32_t)datasets, size, dataset, sample, scratch);
        free(weights);
    } else {
        stk_blend_exhaustive(sizes, (uint32_t)datasets, dataset, sample, scratch);
    }
    check_digest(dataset, size * sizeof *dataset, item, "dataset_index_sha256");
    check_digest(sample, size * sizeof *sample, item, "dataset_sample_index_sha256");
    check_integers(json_object_get(item, "dataset_index"), int16_at, dataset);
    check_integers(json_object_get(item, "dataset_sample_index"), int64_at, sample);
    free(scratch);
    free(sample);
    free(dataset);
    free(sizes);
}

static void test_blends(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(blends, index, item) check_blend(item);
    assert_int_equal(index, 16);
}

/* ---------------------------------------------------------------------------------------------------------- config */

/* "[[0, 0.99], [0.99, NaN], null]": NaN is no JSON, so it is read as null. */
static void check_ranges(const struct stk_split_range ranges[STK_SPLITS], const char *wanted)
{
    char changed[512];
    assert_true(strlen(wanted) < sizeof changed - 8);
    size_t size = 0;
    for (const char *c = wanted; *c;) {
        bool nan = strncmp(c, "NaN", 3) == 0;
        size += (size_t)snprintf(changed + size, sizeof changed - size, nan ? "null" : "%c", *c);
        c += nan ? 3 : 1;
    }
    json_t *matrix = json_loads(changed, 0, NULL);
    assert_int_equal(json_array_size(matrix), STK_SPLITS);
    for (size_t i = 0; i < STK_SPLITS; i++) {
        json_t *pair = json_array_get(matrix, i), *start = json_array_get(pair, 0), *end = json_array_get(pair, 1);
        assert_int_equal(ranges[i].exists, !json_is_null(pair));
        if (!ranges[i].exists) continue;
        assert_true(json_is_null(start) ? isnan(ranges[i].start) : ranges[i].start == json_number_value(start));
        assert_true(json_is_null(end) ? isnan(ranges[i].end) : ranges[i].end == json_number_value(end));
    }
    json_decref(matrix);
}

static void ranges_of(const char *split, struct stk_split_range ranges[STK_SPLITS])
{
    double vector[STK_SPLITS];
    assert_int_equal(stk_split_parse(split, vector, NULL), STOKER_OK);
    stk_split_ranges(vector, ranges);
}

static void test_split_texts(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(splits, "split_strings"), index, item)
    {
        double vector[STK_SPLITS];
        struct stk_split_range ranges[STK_SPLITS];
        stoker_status status = stk_split_parse(text(item, "split"), vector, NULL);
        if (json_object_get(item, "error")) {
            assert_int_equal(status, STOKER_ERR_INVALID_ARGUMENT);
            continue;
        }
        assert_int_equal(status, STOKER_OK);
        for (size_t i = 0; i < STK_SPLITS; i++) {
            double wanted = strtod(json_string_value(json_array_get(json_object_get(item, "vector"), i)), NULL);
            assert_true(isnan(wanted) ? isnan(vector[i]) : vector[i] == wanted);
        }
        stk_split_ranges(vector, ranges);
        check_ranges(ranges, text(item, "matrix_json"));
    }
    assert_int_equal(index, 21);
    json_array_foreach(json_object_get(splits, "two_vectors"), index, item)
    {
        struct stk_split_range a[STK_SPLITS], b[STK_SPLITS], common[STK_SPLITS];
        ranges_of(text(item, "a"), a);
        ranges_of(text(item, "b"), b);
        stk_split_common(a, b, common);
        check_ranges(common, text(item, "matrix_json"));
    }
    assert_int_equal(index, 3);
}

static void test_element_borders(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(splits, "borders"), index, item)
    {
        struct stk_split_range ranges[STK_SPLITS];
        ranges_of(text(item, "split"), ranges);
        for (size_t i = 0; i < STK_SPLITS; i++) {
            json_t *pair = json_array_get(json_object_get(item, "borders"), i);
            uint64_t first, end;
            assert_int_equal(ranges[i].exists, !json_is_null(pair));
            if (!ranges[i].exists) continue;
            assert_int_equal(stk_split_elements(&ranges[i], number(item, "elements"), &first, &end, NULL), STOKER_OK);
            assert_true((json_int_t)first == json_integer_value(json_array_get(pair, 0)));
            assert_true((json_int_t)end == json_integer_value(json_array_get(pair, 1)));
        }
    }
    assert_int_equal(index, 144);
}

static void test_sizes_per_dataset(void **state)
{
    (void)state;
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(splits, "sizes"), index, item)
    {
        json_t *weights = json_object_get(item, "weights"), *targets = json_object_get(item, "targets");
        double surplus = json_number_value(json_object_get(item, "surplus"));
        for (size_t k = 0; k < json_array_size(weights); k++) {
            json_t *target_sizes = json_array_get(json_object_get(item, "target_sizes"), k);
            json_t *buffer_sizes = json_array_get(json_object_get(item, "buffer_sizes"), k);
            for (size_t i = 0; i < json_array_size(targets); i++) {
                uint64_t target, buffer, size = (uint64_t)json_integer_value(json_array_get(targets, i));
                stk_split_request(json_number_value(json_array_get(weights, k)), size, surplus, &target, &buffer);
                assert_true((json_int_t)target == json_integer_value(json_array_get(target_sizes, i)));
                assert_true((json_int_t)buffer == json_integer_value(json_array_get(buffer_sizes, i)));
            }
        }
    }
    assert_int_equal(index, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shuffled_ranges),
        cmocka_unit_test(test_raw_streams),
        cmocka_unit_test(test_chained_shuffles),
        cmocka_unit_test(test_pairwise_sums),
        cmocka_unit_test(test_mock_lengths),
        cmocka_unit_test(test_sample_indices),
        cmocka_unit_test(test_document_and_shuffle_indices),
        cmocka_unit_test(test_blends),
        cmocka_unit_test(test_split_texts),
        cmocka_unit_test(test_element_borders),
        cmocka_unit_test(test_sizes_per_dataset),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, load, unload);
}
