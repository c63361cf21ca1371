/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and counting of GPT datasets: see stoker/gpt.h. The index comes from index/, its files from cache.c, items
 * from item.c.
 */
#include "tokens/gpt.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "tokens/reader_internal.h"

/* Above plain data structures; nothing that locks is called while it is held but the cache's lock file, whose list has
 * no rank. */
#define RANK 52u

/* ----------------------------------------------------------------------------------------------------------- arrays */

static uint64_t row_value(const stoker_index_array *array, uint64_t at)
{
    if (array->dtype == STOKER_INDEX_INT64) return ((const uint64_t *)array->data)[at];
    return array->dtype == STOKER_INDEX_INT32 ? (uint64_t)(int64_t)((const int32_t *)array->data)[at]
                                              : ((const uint32_t *)array->data)[at];
}

/* A refused value and where it stands. */
static stoker_status refuse(const char *name, uint64_t row, uint64_t value, uint64_t bound, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_CORRUPT, "%s row %" PRIu64 " is %" PRId64 ", expected 0 to %" PRId64, name, row,
                    (int64_t)value, (int64_t)bound - 1);
}

static stoker_status check_types(const stoker_index_array *document, const stoker_index_array *sample,
                                 const stoker_index_array *shuffle, stoker_error *err)
{
    if (document->dtype != STOKER_INDEX_INT32)
        return stk_fail(err, STOKER_ERR_CORRUPT, "document_index is of type %s, expected <i4",
                        stk_index_dtype_text(document->dtype));
    if (sample->dtype != STOKER_INDEX_INT32 && sample->dtype != STOKER_INDEX_INT64)
        return stk_fail(err, STOKER_ERR_CORRUPT, "sample_index is of type %s, expected <i4 or <i8",
                        stk_index_dtype_text(sample->dtype));
    if (shuffle->dtype != STOKER_INDEX_UINT32 && shuffle->dtype != STOKER_INDEX_INT64)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shuffle_index is of type %s, expected <u4 or <i8",
                        stk_index_dtype_text(shuffle->dtype));
    if (document->columns != 1 || sample->columns != 2 || shuffle->columns != 1)
        return stk_fail(err, STOKER_ERR_CORRUPT, "index arrays have %u, %u and %u columns, expected 1, 2 and 1",
                        document->columns, sample->columns, shuffle->columns);
    return STOKER_OK;
}

/* What can be seen without reading the arrays through: types, sizes against each other, first and last rows. */
static stoker_status check_arrays(const struct stoker_gpt_dataset *gpt, const stoker_index_array *document,
                                  const stoker_index_array *sample, const stoker_index_array *shuffle,
                                  stoker_error *err)
{
    STK_TRY(check_types(document, sample, shuffle, err));
    if (sample->rows == 0 || sample->rows - 1 != shuffle->rows)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "sample_index has %" PRIu64 " rows and shuffle_index %" PRIu64 ", expected one more",
                        sample->rows, shuffle->rows);
    uint64_t last = sample->rows - 1;
    if (row_value(sample, 0) != 0 || row_value(sample, 1) != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "sample_index row 0 is (%" PRId64 ", %" PRId64 "), expected (0, 0)",
                        (int64_t)row_value(sample, 0), (int64_t)row_value(sample, 1));
    if (last > 0 && row_value(sample, 2 * last) >= document->rows)
        return refuse("sample_index", last, row_value(sample, 2 * last), document->rows, err);
    for (uint64_t i = 0; i < 2 && document->rows > 0; i++) {
        uint64_t row = i ? document->rows - 1 : 0;
        if (row_value(document, row) >= gpt->request.file_sequences)
            return refuse("document_index", row, row_value(document, row), gpt->request.file_sequences, err);
    }
    for (uint64_t i = 0; i < 2 && last > 0; i++) {
        uint64_t row = i ? last - 1 : 0;
        if (row_value(shuffle, row) >= last) return refuse("shuffle_index", row, row_value(shuffle, row), last, err);
    }
    return STOKER_OK;
}

static stoker_status check_loaded(void *user, const struct stk_npy *arrays, stoker_error *err)
{
    return check_arrays(user, &arrays[STK_GPT_DOCUMENT].array, &arrays[STK_GPT_SAMPLE].array,
                        &arrays[STK_GPT_SHUFFLE].array, err);
}

struct build {
    struct stoker_gpt_dataset *gpt;
    struct stk_gpt_plan plan;
};

static void settled(void *user, enum stk_gpt_array array, uint64_t offset, uint64_t size, bool read_again)
{
    const struct stk_cache_site *site = user;
    site->settled(site, (uint32_t)array, offset, size, read_again);
}

static stoker_status build_arrays(void *user, void *const *data, const struct stk_cache_site *site, stoker_error *err)
{
    const struct build *build = user;
    const struct stk_gpt_progress progress = {settled, (void *)(uintptr_t)site};
    return stk_gpt_build(&build->gpt->request, &build->plan, data, &progress, err);
}

static stoker_status check_built(void *user, const struct stk_npy *arrays, stoker_error *err)
{
    return check_loaded(((const struct build *)user)->gpt, arrays, err);
}

/* The arrays of a dataset that does not have them yet; `assume_hit`: nothing is planned. */
static stoker_status load(struct stoker_gpt_dataset *gpt, bool assume_hit, stoker_error *err)
{
    struct build build = {.gpt = gpt};
    const struct stk_gpt_plan *plan = &build.plan;
    stoker_index_cache cache = gpt->cache;
    cache.assume_hit = assume_hit;
    if (!assume_hit) STK_TRY(stk_gpt_plan(&gpt->request, &build.plan, err));
    const struct stk_cache_plan wanted = {
        .count = STK_GPT_ARRAYS,
        .known = !assume_hit,
        .arrays = {{"document_index", STOKER_INDEX_INT32, plan->documents, 1, 0},
                   {"sample_index", plan->wide_samples ? STOKER_INDEX_INT64 : STOKER_INDEX_INT32, plan->samples + 1, 2,
                    2},
                   {"shuffle_index", plan->wide_shuffle ? STOKER_INDEX_INT64 : STOKER_INDEX_UINT32, plan->samples, 1,
                    1}},
        .user = &build,
        .build = build_arrays,
        .check = check_built,
    };
    return stk_cache_open(&cache, &wanted, gpt->arrays, &gpt->built, err);
}

void stk_dataset_opened(const stoker_dataset *dataset, const char **out_bin_path, stoker_dataset_options *out_options)
{
    *out_bin_path = dataset->bin_path;
    *out_options = dataset->options;
}

/* ---------------------------------------------------------------------------------------------------------- opening */

static void destroy(struct stoker_gpt_dataset *gpt)
{
    for (int i = 0; i < STK_GPT_ARRAYS; i++) stk_npy_close(&gpt->arrays[i]);
    stk_cache_drop(&gpt->cache);
    stk_mutex_destroy(gpt->lock);
    stoker_dataset_close(gpt->dataset);
    free(gpt->mock);
    free(gpt->split);
    free(gpt);
}

static stoker_status check_options(const stoker_gpt_options *options, stoker_error *err)
{
    if (!options || options->struct_size != sizeof *options)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the options have %u bytes, this library knows %zu",
                        options ? options->struct_size : 0, sizeof *options);
    if (options->sequence_length < 1 || options->sequence_length > STK_SEQUENCE_LENGTH_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sequence_length is %" PRIu64 ", expected 1 to %u",
                        options->sequence_length, STK_SEQUENCE_LENGTH_MAX);
    if ((options->defer || options->cache.assume_hit) && !options->cache.folder)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s needs a cache folder",
                        options->defer ? "deferred mapping" : "an assumed cache hit");
    return STOKER_OK;
}

static stoker_status set_range(struct stoker_gpt_dataset *gpt, const stoker_gpt_options *options, stoker_error *err)
{
    struct stk_gpt_request *request = &gpt->request;
    if (gpt->mock) {
        request->lengths = gpt->mock->lengths;
        request->file_sequences = STK_MOCK_SEQUENCES;
    } else {
        stoker_dataset_facts facts;
        stoker_dataset_get_facts(gpt->dataset, &facts);
        request->lengths = facts.lengths;
        request->file_sequences = facts.sequences;
    }
    request->first = options->first_sequence;
    request->end = options->end_sequence == UINT64_MAX ? request->file_sequences : options->end_sequence;
    if (request->first > request->end || request->end > request->file_sequences)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "the %s split is sequences %" PRIu64 " to %" PRIu64 " of a dataset of %" PRIu64, gpt->split,
                        request->first, request->end, request->file_sequences);
    return STOKER_OK;
}

/* Everything but the arrays. The dataset is shared and the mock taken, even on failure: destroy() returns them. */
static stoker_status init(struct stoker_gpt_dataset *gpt, stoker_dataset *dataset, struct stk_mock *mock,
                          const stoker_gpt_options *options, stoker_error *err)
{
    gpt->dataset = dataset ? stoker_dataset_ref(dataset) : NULL;
    gpt->mock = mock;
    gpt->references = 1;
    STK_TRY(stk_mutex_create(RANK, &gpt->lock, err));
    STK_TRY(stk_cache_copy(&options->cache, &gpt->cache, err));
    const char *split = options->split ? options->split : "unnamed";
    gpt->split = malloc(strlen(split) + 1);
    if (!gpt->split) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the name of a split");
    memcpy(gpt->split, split, strlen(split) + 1);
    STK_TRY(set_range(gpt, options, err));
    struct stk_gpt_request *request = &gpt->request;
    request->samples = options->samples;
    request->sequence_length = options->sequence_length;
    request->extra_token = !options->no_extra_token;
    request->keep_partial = options->keep_partial != 0;
    request->seed = options->random_seed;
    request->split = gpt->split;
    return STOKER_OK;
}

static stoker_status open_gpt(stoker_dataset *dataset, struct stk_mock *mock, const stoker_gpt_options *options,
                              const stoker_index_array *arrays, stoker_gpt_dataset **out_gpt, stoker_error *err)
{
    struct stoker_gpt_dataset *gpt = calloc(1, sizeof *gpt);
    if (!gpt) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a dataset");
    stoker_status status = init(gpt, dataset, mock, options, err);
    if (status == STOKER_OK && arrays) {
        for (int i = 0; i < STK_GPT_ARRAYS; i++) gpt->arrays[i].array = arrays[i];
        status = check_loaded(gpt, gpt->arrays, err);
    } else if (status == STOKER_OK && options->defer) {
        gpt->deferred = true;
        gpt->deferred_count = stk_gpt_count_deferred(&gpt->request);
    } else if (status == STOKER_OK) {
        status = load(gpt, options->cache.assume_hit, err);
    }
    if (status < 0) {
        gpt->mock = NULL; /* it was not taken */
        destroy(gpt);
        return status;
    }
    gpt->is_ready = !gpt->deferred;
    *out_gpt = gpt;
    return STOKER_OK;
}

stoker_status stoker_gpt_dataset_open(stoker_dataset *dataset, const stoker_gpt_options *options,
                                      stoker_gpt_dataset **out_gpt, stoker_error *err)
{
    if (!dataset || !out_gpt) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "dataset and out_gpt must be given");
    STK_TRY(check_options(options, err));
    return open_gpt(dataset, NULL, options, NULL, out_gpt, err);
}

stoker_status stk_gpt_open_mock(struct stk_mock *mock, const stoker_gpt_options *options, stoker_gpt_dataset **out_gpt,
                                stoker_error *err)
{
    STK_TRY(check_options(options, err));
    return open_gpt(NULL, mock, options, NULL, out_gpt, err);
}

stoker_status stoker_gpt_dataset_open_mock(int64_t vocabulary, int64_t eod, const stoker_gpt_options *options,
                                           stoker_gpt_dataset **out_gpt, stoker_error *err)
{
    struct stk_mock *mock = NULL;
    if (!out_gpt) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "out_gpt must be given");
    STK_TRY(stk_mock_create(vocabulary, eod, &mock, err));
    stoker_status status = stk_gpt_open_mock(mock, options, out_gpt, err);
    if (status < 0) free(mock);
    return status;
}

stoker_status stk_gpt_open_arrays(stoker_dataset *dataset, struct stk_mock *mock, const stoker_gpt_options *options,
                                  const stoker_index_array arrays[STK_GPT_ARRAYS], stoker_gpt_dataset **out_gpt,
                                  stoker_error *err)
{
    STK_TRY(check_options(options, err));
    return open_gpt(dataset, mock, options, arrays, out_gpt, err);
}

stoker_gpt_dataset *stoker_gpt_dataset_ref(stoker_gpt_dataset *gpt)
{
    stk_mutex_lock(gpt->lock);
    gpt->references++;
    stk_mutex_unlock(gpt->lock);
    return gpt;
}

void stoker_gpt_dataset_close(stoker_gpt_dataset *gpt)
{
    if (!gpt) return;
    stk_mutex_lock(gpt->lock);
    uint32_t left = --gpt->references;
    stk_mutex_unlock(gpt->lock);
    if (left == 0) destroy(gpt);
}

/* -------------------------------------------------------------------------------------------------------------- use */

/* The lock is held while files are mapped: whoever comes second needs what the first one maps. */
stoker_status stoker_gpt_dataset_prepare(stoker_gpt_dataset *gpt, stoker_error *err)
{
    if (!gpt) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "gpt must be given");
    if (!gpt->deferred) return STOKER_OK;
    stoker_status status = STOKER_OK;
    stk_mutex_lock(gpt->lock);
    if (!gpt->is_ready) {
        status = load(gpt, true, err);
        gpt->is_ready = status == STOKER_OK;
    }
    stk_mutex_unlock(gpt->lock);
    return status;
}

int64_t stoker_gpt_dataset_count(const stoker_gpt_dataset *gpt)
{
    if (!gpt) return 0;
    return gpt->deferred ? gpt->deferred_count : (int64_t)gpt->arrays[STK_GPT_SHUFFLE].array.rows;
}

stoker_status stoker_gpt_dataset_arrays(stoker_gpt_dataset *gpt, stoker_index_array *out_document,
                                        stoker_index_array *out_sample, stoker_index_array *out_shuffle,
                                        stoker_error *err)
{
    STK_TRY(stoker_gpt_dataset_prepare(gpt, err));
    if (out_document) *out_document = gpt->arrays[STK_GPT_DOCUMENT].array;
    if (out_sample) *out_sample = gpt->arrays[STK_GPT_SAMPLE].array;
    if (out_shuffle) *out_shuffle = gpt->arrays[STK_GPT_SHUFFLE].array;
    return STOKER_OK;
}
