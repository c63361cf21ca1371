/* SPDX-License-Identifier: Apache-2.0
 *
 * See estimate.h. One host, so that every model is that of all hosts: what is learned in one iteration of a loader is
 * known in the next.
 */
#include "plane/estimate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "sched/pack.h"
#include "source/source.h"

#define MODELS 1024u /* of loaders that were open of late; 1.5 MB */
#define IMAGE_MAGIC 0x494b5453u
#define AUDIO_MAGIC 0x414b5453u

struct stk_estimate {
    void *block;
    struct stk_cost_model *model;
    uint64_t *keys; /* [STK_BATCH_SAMPLES_MAX] each */
    uint32_t *order, *scratch;
};

stoker_status stk_estimate_create(struct stk_estimate **out_estimate, stoker_error *err)
{
    size_t size = (stk_cost_bytes(MODELS) + 15) & ~(size_t)15;
    struct stk_estimate *estimate = calloc(1, sizeof *estimate);
    if (estimate) {
        estimate->block = aligned_alloc(16, size);
        estimate->keys = calloc(STK_BATCH_SAMPLES_MAX, sizeof *estimate->keys);
        estimate->order = calloc(STK_BATCH_SAMPLES_MAX, sizeof *estimate->order);
        estimate->scratch = calloc(STK_BATCH_SAMPLES_MAX, sizeof *estimate->scratch);
    }
    if (!estimate || !estimate->block || !estimate->keys || !estimate->order || !estimate->scratch) {
        stk_estimate_destroy(estimate);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a cost model of %zu bytes", size);
    }
    estimate->model = stk_cost_init(estimate->block, size, MODELS);
    *out_estimate = estimate;
    return STOKER_OK;
}

void stk_estimate_destroy(struct stk_estimate *estimate)
{
    if (!estimate) return;
    free(estimate->block);
    free(estimate->keys);
    free(estimate->order);
    free(estimate->scratch);
    free(estimate);
}

uint32_t stk_estimate_class(const struct stoker_source *source)
{
    uint8_t head[4] = {0};
    if (source->kind == STK_SOURCE_TOKENS) return STK_COST_TOKENS;
    if (source->kind != STK_SOURCE_MEDIA) return STK_COST_OTHER;
    /* The kinds of media differ in the magic of their blobs; a file's codec is not known before it is opened. */
    if (pread(source->blob_fd, head, sizeof head, 0) != (ssize_t)sizeof head) return STK_COST_VIDEO;
    uint32_t magic = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
    return magic == IMAGE_MAGIC ? STK_COST_IMAGE : magic == AUDIO_MAGIC ? STK_COST_AUDIO : STK_COST_VIDEO;
}

static uint64_t dtype_bytes(stoker_dtype dtype)
{
    switch (dtype) {
    case STOKER_DTYPE_FLOAT16:
    case STOKER_DTYPE_BFLOAT16:
    case STOKER_DTYPE_INT16: return 2;
    case STOKER_DTYPE_FLOAT32:
    case STOKER_DTYPE_INT32: return 4;
    case STOKER_DTYPE_INT64: return 8;
    default: return 1;
    }
}

struct stk_cost_features stk_estimate_features(const struct stoker_source *source, uint64_t id)
{
    struct stk_cost_features features = {.samples = 1};
    stoker_descriptor sample = {0};
    if (source->ops->describe(source, id, &sample, NULL) != STOKER_OK) return features; /* it fails when it is made */
    features.bytes_in = sample.bytes;
    features.pixels_out = sample.sample_bytes / dtype_bytes(sample.dtype) / 3;
    return features;
}

static struct stk_cost_key key_of(const struct stk_estimate_of *of)
{
    return (struct stk_cost_key){of->job, of->class_id, STK_COST_ANY_HOST};
}

static uint64_t load_id(const uint8_t *ids, uint32_t place) { return stk_load_u64(ids + 8 * (size_t)place); }

void stk_estimate_ids(struct stk_estimate *estimate, const struct stk_estimate_of *of, const uint8_t *ids,
                      uint32_t count, struct stk_cost *out_sum, const uint32_t **out_order)
{
    const struct stk_cost_key key = key_of(of);
    struct stk_cost_features sum = {0};
    bool alike = true;
    if (out_order) *out_order = NULL;
    if (of->class_id == STK_COST_TOKENS) { /* items of one length: one stands for all */
        sum = stk_estimate_features(of->source, load_id(ids, 0));
        sum.samples *= count, sum.bytes_in *= count, sum.pixels_out *= count;
        stk_cost_predict(estimate->model, &key, &sum, out_sum);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct stk_cost_features one = stk_estimate_features(of->source, load_id(ids, i));
        struct stk_cost cost;
        stk_cost_features_add(&sum, &one);
        if (!out_order) continue;
        stk_cost_predict(estimate->model, &key, &one, &cost);
        estimate->keys[i] = cost.cpu_ns + cost.io_ns;
        alike = alike && estimate->keys[i] == estimate->keys[0];
    }
    stk_cost_predict(estimate->model, &key, &sum, out_sum);
    if (!out_order || alike) return;
    stk_pack_sort(estimate->keys, count, estimate->order, estimate->scratch);
    *out_order = estimate->order;
}

void stk_estimate_batch(struct stk_estimate *estimate, const struct stk_estimate_of *of,
                        const struct stk_cost_features *features, struct stk_cost *out)
{
    const struct stk_cost_key key = key_of(of);
    stk_cost_predict(estimate->model, &key, features, out);
}

uint32_t *stk_estimate_scratch(struct stk_estimate *estimate) { return estimate->scratch; }

void stk_estimate_learn(struct stk_estimate *estimate, const struct stk_estimate_of *of,
                        const struct stk_cost_result *result)
{
    const struct stk_cost_key key = key_of(of);
    (void)stk_cost_learn(estimate->model, &key, result); /* what teaches nothing is no fault */
}

uint32_t stk_estimate_error(const struct stk_estimate *estimate, const struct stk_estimate_of *of,
                            uint32_t *out_learned)
{
    const struct stk_cost_key key = key_of(of);
    const struct stk_cost_features nothing = {.samples = 1};
    struct stk_cost cost;
    stk_cost_predict(estimate->model, &key, &nothing, &cost);
    *out_learned = cost.learned;
    return stk_cost_error_permille(estimate->model, &key, 950);
}
