/* SPDX-License-Identifier: Apache-2.0
 *
 * Native token sources: sample i is item i of a GPT dataset, or of a blend of them, as a dict of tensors. Files are
 * opened when the first sample needs them, in the process that makes it: a source of thousands of datasets costs a
 * worker only what its samples touch, and deferred index arrays are never mapped in the training process.
 *
 * The blob is described in token_blob.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "source/source_internal.h"
#include "source/token_blob.h"
#include "store/file.h"
#include "sys/shmem.h"
#include "sys/thread.h"
#include "tokens/gpt.h"

/* As that of media sources: no other lock is taken while it is held. */
#define RANK 50u

/* Members in the order that a dict has them. */
enum member { DATASET_ID, TOKENS, LABELS, ATTENTION_MASK, LOSS_MASK, POSITION_IDS, CU_SEQLENS, MAX_SEQLEN, MEMBERS };

struct token_source {
    struct stoker_source base;
    /* fixed after open */
    const uint8_t *blob;
    size_t blob_size;
    struct stk_token_head head;
    struct stk_token_set blend;
    uint64_t sample_bytes;
    struct stk_mutex *lock;
    /* guarded by lock; an entry that is set stays */
    stoker_gpt_dataset **datasets;
    stoker_blend_index *blend_index; /* of a blend in files */
};

static struct token_source *of(const struct stoker_source *source)
{
    STK_ASSERT(source->kind == STK_SOURCE_TOKENS);
    return (struct token_source *)(uintptr_t)source; /* what is written behind the fixed part is guarded by the lock */
}

/* ---------------------------------------------------------------------------------------------------------- members */

/* Which members items have. */
static bool has(const struct stk_token_head *head, enum member member)
{
    switch (member) {
    case DATASET_ID: return head->is_blend;
    case ATTENTION_MASK: return head->form.attention_mask;
    case CU_SEQLENS:
    case MAX_SEQLEN: return head->form.documents;
    default: return true;
    }
}

static void fill_leaf(const struct stk_token_head *head, enum member member, struct stk_sample_leaf *out)
{
    static const struct {
        const char *name;
        uint32_t dtype, ndim, bytes;
    } known[MEMBERS] = {
        [DATASET_ID] = {"dataset_id", STOKER_DTYPE_INT16, 0, 2},
        [TOKENS] = {"tokens", STOKER_DTYPE_INT64, 1, 8},
        [LABELS] = {"labels", STOKER_DTYPE_INT64, 1, 8},
        [ATTENTION_MASK] = {"attention_mask", STOKER_DTYPE_BOOL, 3, 1},
        [LOSS_MASK] = {"loss_mask", STOKER_DTYPE_FLOAT32, 1, 4},
        [POSITION_IDS] = {"position_ids", STOKER_DTYPE_INT64, 1, 8},
        [CU_SEQLENS] = {"cu_seqlens", STOKER_DTYPE_INT32, 1, 4},
        [MAX_SEQLEN] = {"max_seqlen", STOKER_DTYPE_INT32, 0, 4},
    };
    const uint64_t length = head->sequence_length;
    *out =
        (struct stk_sample_leaf){.name = known[member].name, .dtype = known[member].dtype, .ndim = known[member].ndim};
    out->shape[0] = member == ATTENTION_MASK ? 1 : member == CU_SEQLENS ? length + 1 : length;
    if (member == ATTENTION_MASK) out->shape[1] = out->shape[2] = length;
    uint64_t elements = 1; /* lengths are below 2^31, so that nothing wraps */
    for (uint32_t i = 0; i < out->ndim; i++) elements *= out->shape[i];
    if (out->ndim == 0) out->shape[0] = 0;
    out->bytes = elements * known[member].bytes;
}

static void token_leaves(const struct stoker_source *source, struct stk_sample_leaves *out)
{
    const struct stk_token_head *head = &of(source)->head;
    for (int member = 0; member < MEMBERS; member++)
        if (has(head, (enum member)member)) fill_leaf(head, (enum member)member, &out->leaf[out->count++]);
}

/* ---------------------------------------------------------------------------------------------------------- opening */

/* A descriptor is a promise (rule A8): the data must be what they were when the source was made. */
static stoker_status check_data(const struct stk_token_dataset *wanted, stoker_dataset *dataset, stoker_error *err)
{
    stoker_dataset_facts facts;
    char path[4096 + 8];
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    stoker_dataset_get_facts(dataset, &facts);
    if (facts.sequences != wanted->sequences)
        return stk_fail(err, STOKER_ERR_MISMATCH,
                        "the index has %" PRIu64 " sequences, it had %" PRIu64 " when the source was made",
                        facts.sequences, wanted->sequences);
    size_t length = strlen(wanted->prefix);
    memcpy(path, wanted->prefix, length);
    memcpy(path + length, ".bin", sizeof ".bin");
    if (wanted->bin_bytes > 0 && stk_file_facts(path, &size, &mtime_ns) && size != wanted->bin_bytes)
        return stk_fail(err, STOKER_ERR_MISMATCH,
                        "the data have %" PRIu64 " bytes, they had %" PRIu64 " when the source was made", size,
                        wanted->bin_bytes);
    return STOKER_OK;
}

static stoker_status open_files(const struct stk_token_dataset *wanted, stoker_dataset **out_dataset, stoker_error *err)
{
    stoker_dataset_options options = wanted->options;
    options.unchecked = 1; /* checked once, where the source was made; each read is bounded */
    stoker_dataset *dataset = NULL;
    STK_TRY(stoker_dataset_open(wanted->prefix, &options, &dataset, err));
    stoker_status status = check_data(wanted, dataset, err);
    if (status < 0)
        stoker_dataset_close(dataset);
    else
        *out_dataset = dataset;
    return status;
}

static stoker_status open_dataset(const struct token_source *tokens, uint32_t number, stoker_gpt_dataset **out_gpt,
                                  stoker_error *err)
{
    struct stk_token_dataset wanted;
    stoker_dataset *dataset = NULL;
    struct stk_mock *mock = NULL;
    stk_token_blob_dataset(tokens->blob, number, &wanted);
    stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
    options.sequence_length = tokens->head.sequence_length;
    options.no_extra_token = tokens->head.no_extra_token;
    options.split = wanted.split;
    stoker_status status = wanted.is_mock ? stk_mock_create(wanted.vocabulary, wanted.eod, &mock, err)
                                          : open_files(&wanted, &dataset, err);
    if (status == STOKER_OK && !wanted.set.folder) {
        status = stk_gpt_open_arrays(dataset, mock, &options, wanted.set.arrays, out_gpt, err);
    } else if (status == STOKER_OK) {
        options.cache = (stoker_index_cache){.folder = wanted.set.folder, .stem = wanted.set.stem, .assume_hit = 1};
        status = mock ? stk_gpt_open_mock(mock, &options, out_gpt, err)
                      : stoker_gpt_dataset_open(dataset, &options, out_gpt, err);
    }
    stoker_dataset_close(dataset); /* shared by the result */
    if (status < 0) {
        free(mock);
        stk_error_context(err, "%s", wanted.prefix ? wanted.prefix : "mock data");
    }
    return status;
}

/* Opened outside the lock; dropped if another thread was quicker. */
static stoker_status find_dataset(struct token_source *tokens, uint32_t number, stoker_gpt_dataset **out_gpt,
                                  stoker_error *err)
{
    stk_mutex_lock(tokens->lock);
    stoker_gpt_dataset *known = tokens->datasets[number], *opened = NULL;
    stk_mutex_unlock(tokens->lock);
    if (!known) {
        STK_TRY(open_dataset(tokens, number, &opened, err));
        stk_mutex_lock(tokens->lock);
        known = tokens->datasets[number];
        if (!known) known = tokens->datasets[number] = stoker_gpt_dataset_ref(opened);
        stk_mutex_unlock(tokens->lock);
        stoker_gpt_dataset_close(opened);
    }
    *out_gpt = known;
    return STOKER_OK;
}

static stoker_status find_blend(struct token_source *tokens, stoker_index_array out[2], stoker_error *err)
{
    if (!tokens->blend.folder) {
        out[0] = tokens->blend.arrays[0], out[1] = tokens->blend.arrays[1];
        return STOKER_OK;
    }
    stk_mutex_lock(tokens->lock);
    stoker_blend_index *known = tokens->blend_index, *opened = NULL;
    stk_mutex_unlock(tokens->lock);
    if (!known) {
        stoker_blend_options options = STOKER_BLEND_OPTIONS_INIT;
        options.datasets = tokens->head.datasets;
        options.cache =
            (stoker_index_cache){.folder = tokens->blend.folder, .stem = tokens->blend.stem, .assume_hit = 1};
        STK_TRY(stoker_blend_index_open(&options, &opened, err));
        stk_mutex_lock(tokens->lock);
        known = tokens->blend_index;
        if (!known) {
            known = tokens->blend_index = opened;
            opened = NULL;
        }
        stk_mutex_unlock(tokens->lock);
        stoker_blend_index_close(opened);
    }
    return stoker_blend_index_arrays(known, &out[0], &out[1], NULL, err);
}

/* Which sample of which dataset sample `id` is. */
static stoker_status locate(struct token_source *tokens, uint64_t id, uint32_t *out_number, int64_t *out_sample,
                            stoker_error *err)
{
    stoker_index_array arrays[2];
    *out_number = 0;
    *out_sample = (int64_t)id;
    if (!tokens->head.is_blend) return STOKER_OK;
    STK_TRY(find_blend(tokens, arrays, err));
    if (arrays[0].dtype != STOKER_INDEX_INT16 || arrays[1].dtype != STOKER_INDEX_INT64 || id >= arrays[0].rows ||
        id >= arrays[1].rows)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the blend has %" PRIu64 " rows, sample %" PRIu64 " is asked for",
                        arrays[0].rows, id);
    int16_t number = ((const int16_t *)arrays[0].data)[id];
    *out_sample = ((const int64_t *)arrays[1].data)[id];
    if (number < 0 || (uint32_t)number >= tokens->head.datasets || *out_sample < 0)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "row %" PRIu64 " of the blend is sample %" PRId64 " of dataset %d of %u", id, *out_sample,
                        number, tokens->head.datasets);
    *out_number = (uint32_t)number;
    return STOKER_OK;
}

/* -------------------------------------------------------------------------------------------------------------- use */

static stoker_status make_tokens(const struct stoker_source *source, const stoker_sample *which, void *const *dst,
                                 struct stk_made *out_made, stoker_error *err)
{
    struct token_source *tokens = of(source);
    stoker_gpt_dataset *gpt = NULL;
    uint32_t number;
    int64_t sample;
    STK_TRY(locate(tokens, which->id, &number, &sample, err));
    STK_TRY(find_dataset(tokens, number, &gpt, err));
    void *at[MEMBERS] = {NULL};
    for (int member = 0, next = 0; member < MEMBERS; member++)
        if (has(&tokens->head, (enum member)member)) at[member] = dst[next++];
    const stoker_gpt_item item = {.tokens = at[TOKENS],
                                  .labels = at[LABELS],
                                  .loss_mask = at[LOSS_MASK],
                                  .position_ids = at[POSITION_IDS],
                                  .attention_mask = at[ATTENTION_MASK],
                                  .cu_seqlens = at[CU_SEQLENS],
                                  .max_seqlen = at[MAX_SEQLEN]};
    stoker_status status = stoker_gpt_dataset_item(gpt, &tokens->head.form, sample, &item, err);
    if (status < 0) {
        struct stk_token_dataset wanted;
        stk_token_blob_dataset(tokens->blob, number, &wanted);
        stk_error_context(err, "%s", wanted.prefix ? wanted.prefix : "mock data");
        return status;
    }
    int16_t short_number = (int16_t)number;
    if (at[DATASET_ID]) memcpy(at[DATASET_ID], &short_number, sizeof short_number);
    *out_made =
        (struct stk_made){.bytes_read = tokens->head.sequence_length}; /* tokens: their width is not known here */
    return STOKER_OK;
}

static uint64_t count_tokens(const struct stoker_source *source) { return of(source)->head.count; }

static stoker_status describe_tokens(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                     stoker_error *err)
{
    (void)err; /* the id was checked: nothing can fail */
    const struct token_source *tokens = of(source);
    *out = (stoker_descriptor){.id = id, .dtype = STOKER_DTYPE_UINT8, .ndim = 1, .sample_bytes = tokens->sample_bytes};
    out->shape[0] = tokens->sample_bytes;
    return STOKER_OK;
}

static void close_tokens(struct stoker_source *source)
{
    struct token_source *tokens = (struct token_source *)source;
    for (uint32_t i = 0; tokens->datasets && i < tokens->head.datasets; i++)
        stoker_gpt_dataset_close(tokens->datasets[i]);
    stoker_blend_index_close(tokens->blend_index);
    free(tokens->datasets);
    stk_mutex_destroy(tokens->lock);
    if (tokens->blob) stk_shmem_blob_unmap(tokens->blob, tokens->blob_size);
    stk_source_fini(source);
    free(tokens);
}

static const struct stk_source_ops token_ops = {count_tokens, describe_tokens, NULL, close_tokens};
static const struct stk_leaf_ops token_leaf_ops = {token_leaves, make_tokens, NULL, NULL};

stoker_status stk_token_source_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    return stk_token_blob_check(blob, size, err);
}

/* Places of one sample alone, as stoker_source_materialise() lays them out. */
static stoker_status measure(struct token_source *tokens, stoker_error *err)
{
    struct stk_batch_layout layout;
    if (tokens->head.count == 0) return STOKER_OK;
    STK_TRY(stk_source_layout(&tokens->base, 1, &layout, err));
    tokens->sample_bytes = layout.total_bytes;
    return STOKER_OK;
}

stoker_status stk_token_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err)
{
    const void *blob = NULL;
    struct token_source *tokens = calloc(1, sizeof *tokens);
    if (!tokens) {
        struct stoker_source unused = {.blob_fd = blob_fd, .payload_fd = payload_fd};
        stk_source_fini(&unused);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    stoker_status status = stk_source_init(&tokens->base, &token_ops, STK_SOURCE_TOKENS, blob_fd, payload_fd, err);
    tokens->base.leaf_ops = &token_leaf_ops;
    if (status == STOKER_OK) status = stk_shmem_blob_map(blob_fd, &blob, &tokens->blob_size, err);
    if (status == STOKER_OK) {
        tokens->blob = blob;
        status = stk_token_blob_check(tokens->blob, tokens->blob_size, err);
    }
    if (status == STOKER_OK) {
        stk_token_blob_head(tokens->blob, &tokens->head, &tokens->blend);
        tokens->datasets = calloc(tokens->head.datasets, sizeof(stoker_gpt_dataset *));
        if (!tokens->datasets) status = stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    if (status == STOKER_OK) status = stk_mutex_create(RANK, &tokens->lock, err);
    if (status == STOKER_OK) status = measure(tokens, err);
    if (status < 0) {
        close_tokens(&tokens->base);
        return status;
    }
    *out_source = &tokens->base;
    return STOKER_OK;
}

stoker_status stoker_source_create_tokens(const stoker_token_spec *spec, stoker_source **out_source, stoker_error *err)
{
    int fd = -1;
    if (!out_source) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "out_source must be given");
    STK_TRY(stk_token_blob_create(spec, &fd, err));
    return stk_token_source_open(fd, -1, out_source, err);
}
