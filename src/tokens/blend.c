/* SPDX-License-Identifier: Apache-2.0
 *
 * Blends of datasets: see stoker/gpt.h. The order comes from index/blend.c, the files from cache.c.
 */
#include <stdbool.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/gpt.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "index/blend.h"
#include "index/random.h"
#include "sys/filemap.h"
#include "sys/thread.h"
#include "tokens/cache.h"

#define RANK 53u /* as that of datasets, in gpt.c */

enum { DATASET, SAMPLE, ARRAYS };

struct stoker_blend_index {
    /* fixed after open */
    uint32_t datasets;
    uint64_t size;
    stoker_index_cache cache; /* texts are copies */
    struct stk_mutex *lock;
    /* guarded by lock; once ready, fixed */
    bool is_ready, built;
    struct stk_npy arrays[ARRAYS];
};

struct build {
    const stoker_blend_options *options;
    uint32_t datasets;
};

static const int16_t *numbers(const struct stk_npy *arrays) { return arrays[DATASET].array.data; }

/* --------------------------------------------------------------------------------------------------------- counting */

/* Four tables, so that equal numbers in a row do not wait for each other. */
static stoker_status count_samples(const int16_t *dataset, uint64_t rows, uint32_t datasets, uint64_t *out_counts,
                                   stoker_error *err)
{
    uint64_t *tables = calloc(4 * ((size_t)datasets + 1), sizeof *tables);
    if (!tables) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to count %u datasets", datasets);
    uint64_t *const table[4] = {tables, tables + datasets + 1, tables + 2 * ((size_t)datasets + 1),
                                tables + 3 * ((size_t)datasets + 1)};
    uint64_t i = 0;
    for (; i < rows; i++) {
        uint16_t number = (uint16_t)dataset[i]; /* the last place of a table counts what is none */
        table[i & 3][number < datasets ? number : datasets]++;
    }
    uint64_t strange = table[0][datasets] + table[1][datasets] + table[2][datasets] + table[3][datasets];
    if (strange == 0)
        for (uint32_t k = 0; k < datasets; k++) out_counts[k] = table[0][k] + table[1][k] + table[2][k] + table[3][k];
    free(tables);
    if (strange != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "dataset_index has %" PRIu64 " numbers that are not 0 to %u", strange,
                        datasets - 1);
    return STOKER_OK;
}

static stoker_status check_limits(const struct build *build, const int16_t *dataset, uint64_t rows, stoker_error *err)
{
    const uint64_t *limits = build->options->limits;
    if (!limits) return STOKER_OK;
    uint64_t *counts = calloc((size_t)build->datasets + 1, sizeof *counts);
    if (!counts) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to count %u datasets", build->datasets);
    stoker_status status = count_samples(dataset, rows, build->datasets, counts, err);
    for (uint32_t k = 0; k < build->datasets && status == STOKER_OK; k++)
        if (counts[k] > limits[k])
            status =
                stk_fail(err, STOKER_ERR_LIMIT, "the blend takes %" PRIu64 " samples of dataset %u, which has %" PRIu64,
                         counts[k], k, limits[k]);
    free(counts);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- building */

static stoker_status build_arrays(void *user, void *const *data, const struct stk_cache_site *site, stoker_error *err)
{
    (void)site; /* the two arrays are filled side by side */
    const struct build *build = user;
    const stoker_blend_options *options = build->options;
    uint64_t rows = options->size;
    void *scratch = malloc(stk_blend_scratch_bytes(build->datasets));
    if (!scratch) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to blend %u datasets", build->datasets);
    if (options->sizes) {
        rows = 0;
        for (uint32_t k = 0; k < build->datasets; k++) rows += options->sizes[k]; /* checked in total_size() */
        stk_blend_exhaustive(options->sizes, build->datasets, data[DATASET], data[SAMPLE], scratch);
    } else {
        stk_blend_sized(options->weights, build->datasets, rows, data[DATASET], data[SAMPLE], scratch);
    }
    free(scratch);
    return check_limits(build, data[DATASET], rows, err);
}

static stoker_status check_arrays(void *user, const struct stk_npy *arrays, stoker_error *err)
{
    const struct build *build = user;
    const stoker_index_array *dataset = &arrays[DATASET].array, *sample = &arrays[SAMPLE].array;
    if (dataset->dtype != STOKER_INDEX_INT16 || sample->dtype != STOKER_INDEX_INT64)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "dataset_index is of type %s and dataset_sample_index of %s, expected"
                        " <i2 and <i8",
                        stk_index_dtype_text(dataset->dtype), stk_index_dtype_text(sample->dtype));
    if (dataset->rows != sample->rows)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "dataset_index has %" PRIu64 " rows and dataset_sample_index %" PRIu64 ", expected as many",
                        dataset->rows, sample->rows);
    for (uint64_t i = 0; i < 2 && dataset->rows > 0; i++) {
        uint64_t row = i ? dataset->rows - 1 : 0;
        int16_t number = numbers(arrays)[row];
        int64_t position = ((const int64_t *)sample->data)[row];
        if (number < 0 || (uint32_t)number >= build->datasets || position < 0 || (uint64_t)position > row)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "row %" PRIu64 " is sample %" PRId64 " of dataset %d, expected at most %" PRIu64
                            " of dataset 0 to %u",
                            row, position, number, row, build->datasets - 1);
    }
    return STOKER_OK;
}

static stoker_status load(struct stoker_blend_index *blend, const stoker_blend_options *options, bool assume_hit,
                          stoker_error *err)
{
    struct build build = {options, blend->datasets};
    stoker_index_cache cache = blend->cache;
    cache.assume_hit = assume_hit;
    const struct stk_cache_plan wanted = {
        .count = ARRAYS,
        .known = !assume_hit,
        .arrays = {{"dataset_index", STOKER_INDEX_INT16, blend->size, 1, 0},
                   {"dataset_sample_index", STOKER_INDEX_INT64, blend->size, 1, 0}},
        .user = &build,
        .build = build_arrays,
        .check = check_arrays,
    };
    return stk_cache_open(&cache, &wanted, blend->arrays, &blend->built, err);
}

/* ---------------------------------------------------------------------------------------------------------- opening */

static stoker_status total_size(const stoker_blend_options *options, uint64_t *out_size, stoker_error *err)
{
    uint64_t total = options->size;
    if (options->sizes) {
        total = 0;
        for (uint32_t k = 0; k < options->datasets; k++)
            if (__builtin_add_overflow(total, options->sizes[k], &total))
                return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the datasets of the blend have over 2^64 samples");
    }
    if (total > (uint64_t)INT64_MAX / 16)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a blend of %" PRIu64 " samples is too large", total);
    *out_size = total;
    return STOKER_OK;
}

static stoker_status check_options(const stoker_blend_options *options, stoker_error *err)
{
    if (!options || options->struct_size != sizeof *options)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the options have %u bytes, this library knows %zu",
                        options ? options->struct_size : 0, sizeof *options);
    bool files_only = options->defer || options->cache.assume_hit;
    if (files_only && !options->cache.folder)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s needs a cache folder",
                        options->defer ? "deferred mapping" : "an assumed cache hit");
    if (options->datasets < 1 || options->datasets > STK_BLEND_DATASETS_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a blend of %u datasets, expected 1 to %u", options->datasets,
                        STK_BLEND_DATASETS_MAX);
    if (!options->weights && !options->sizes)
        return files_only ? STOKER_OK
                          : stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "weights or sizes of the blend must be given");
    for (uint32_t k = 0; k < options->datasets && !options->sizes; k++)
        if (!(options->weights[k] > 0.0))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "weight %u of the blend is %g, expected above 0", k,
                            options->weights[k]);
    for (uint32_t k = 0; k < options->datasets && options->sizes; k++)
        if (options->sizes[k] == 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "dataset %u of the blend has no samples", k);
    return STOKER_OK;
}

stoker_status stoker_blend_index_open(const stoker_blend_options *options, stoker_blend_index **out_blend,
                                      stoker_error *err)
{
    uint64_t size = 0;
    if (!out_blend) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "out_blend must be given");
    STK_TRY(check_options(options, err));
    STK_TRY(total_size(options, &size, err));
    struct stoker_blend_index *blend = calloc(1, sizeof *blend);
    if (!blend) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a blend");
    blend->datasets = options->datasets;
    blend->size = size;
    stoker_status status = stk_mutex_create(RANK, &blend->lock, err);
    if (status == STOKER_OK) status = stk_cache_copy(&options->cache, &blend->cache, err);
    if (status == STOKER_OK && !options->defer) {
        status = load(blend, options, options->cache.assume_hit, err);
        blend->is_ready = status == STOKER_OK;
    }
    if (status < 0)
        stoker_blend_index_close(blend);
    else
        *out_blend = blend;
    return status;
}

stoker_status stoker_blend_index_arrays(stoker_blend_index *blend, stoker_index_array *out_dataset,
                                        stoker_index_array *out_sample, int *out_built, stoker_error *err)
{
    if (!blend) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "blend must be given");
    stoker_status status = STOKER_OK;
    stk_mutex_lock(blend->lock);
    if (!blend->is_ready) {
        status = load(blend, NULL, true, err); /* nothing is built from here */
        blend->is_ready = status == STOKER_OK;
    }
    stk_mutex_unlock(blend->lock);
    STK_TRY(status);
    if (out_dataset) *out_dataset = blend->arrays[DATASET].array;
    if (out_sample) *out_sample = blend->arrays[SAMPLE].array;
    if (out_built) *out_built = blend->built;
    return STOKER_OK;
}

stoker_status stoker_blend_index_counts(stoker_blend_index *blend, uint64_t *out_counts, stoker_error *err)
{
    stoker_index_array dataset;
    if (!out_counts) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "out_counts must be given");
    STK_TRY(stoker_blend_index_arrays(blend, &dataset, NULL, NULL, err));
    return count_samples(dataset.data, dataset.rows, blend->datasets, out_counts, err);
}

const stoker_index_cache *stk_blend_cache(const stoker_blend_index *blend) { return &blend->cache; }

void stoker_blend_index_close(stoker_blend_index *blend)
{
    if (!blend) return;
    for (int i = 0; i < ARRAYS; i++) stk_npy_close(&blend->arrays[i]);
    stk_cache_drop(&blend->cache);
    stk_mutex_destroy(blend->lock);
    free(blend);
}

/* ------------------------------------------------------------------------------------------------- single functions */

void stoker_weights_normalize(const double *weights, size_t count, double *out_weights)
{
    stk_weights_normalize(weights, count, out_weights);
}

stoker_status stoker_shuffled_range(uint32_t seed, uint64_t count, stoker_index_dtype dtype, void *out,
                                    stoker_error *err)
{
    struct stk_mt19937 random;
    uint64_t most = dtype == STOKER_INDEX_INT32    ? UINT64_C(1) << 31
                    : dtype == STOKER_INDEX_UINT32 ? UINT64_C(1) << 32
                                                   : UINT64_C(1) << 60;
    if (dtype != STOKER_INDEX_INT32 && dtype != STOKER_INDEX_UINT32 && dtype != STOKER_INDEX_INT64)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "element type %d is none of int32, uint32, int64",
                        (int)dtype);
    if (count > most || (count > 0 && !out))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a range of %" PRIu64 " does not fit %s", count,
                        stk_index_dtype_text(dtype));
    stk_mt19937_seed(&random, seed);
    stk_filemap_hint_huge(out, (size_t)count * (dtype == STOKER_INDEX_INT64 ? 8 : 4)); /* swaps jump far */
    if (dtype == STOKER_INDEX_INT64) {
        uint64_t *values = out;
        for (uint64_t i = 0; i < count; i++) values[i] = i;
        stk_mt19937_shuffle_64(&random, values, count);
    } else {
        uint32_t *values = out;
        for (uint64_t i = 0; i < count; i++) values[i] = (uint32_t)i;
        stk_mt19937_shuffle_32(&random, values, count);
    }
    return STOKER_OK;
}
