/* SPDX-License-Identifier: Apache-2.0
 *
 * See estimate.h. One host, so that every model is that of all hosts: what is learned in one iteration of a loader is
 * known in the next.
 */
#include "plane/estimate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/profile.h>

#include "base/error.h"
#include "sched/pack.h"
#include "source/source.h"
#include "source/work.h"

#define MODELS 1024u /* of loaders that were open of late; 1.5 MB */
#define IMAGE_MAGIC 0x494b5453u
#define AUDIO_MAGIC 0x414b5453u

/* Samples whose work is kept: those of the requests in flight, which are asked for up to three times each. */
#define KEPT 4096u

struct kept_work {
    uint64_t source, id; /* of the digest */
    uint32_t class_id;   /* STK_COST_CLASSES: the source does not know it */
    bool used;
    uint64_t pixels, bytes;
};

struct stk_estimate {
    void *block;
    struct stk_cost_model *model;
    uint64_t *keys; /* [STK_BATCH_SAMPLES_MAX] each */
    uint32_t *order, *scratch;
    struct kept_work *kept; /* [KEPT], by id */
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
        estimate->kept = calloc(KEPT, sizeof *estimate->kept);
    }
    if (!estimate || !estimate->block || !estimate->keys || !estimate->order || !estimate->scratch || !estimate->kept) {
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
    free(estimate->kept);
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

static const struct kept_work *work_of(struct stk_estimate *estimate, const struct stoker_source *source, uint64_t id)
{
    const uint64_t digest = stk_load_u64(source->digest);
    struct kept_work *kept = &estimate->kept[id % KEPT];
    struct stk_source_work work;
    if (kept->used && kept->source == digest && kept->id == id) return kept;
    *kept = (struct kept_work){.source = digest, .id = id, .class_id = STK_COST_CLASSES, .used = true};
    if (stk_source_work(source, id, &work)) {
        kept->class_id = stoker_cost_kind_of(work.codec);
        kept->pixels = work.pixels;
        kept->bytes = work.bytes;
    }
    return kept;
}

uint32_t stk_estimate_sample(struct stk_estimate *estimate, const struct stk_estimate_of *of, uint64_t id,
                             struct stk_cost_features *out)
{
    *out = stk_estimate_features(of->source, id);
    if (!of->source->work || out->bytes_in == 0) return of->class_id; /* also of an id that there is not */
    const struct kept_work *work = work_of(estimate, of->source, id);
    if (work->class_id == STK_COST_CLASSES) return of->class_id;
    out->pixels_in = work->pixels;
    out->bytes_in = work->bytes;
    return work->class_id;
}

static struct stk_cost_key key_of(const struct stk_estimate_of *of)
{
    return (struct stk_cost_key){of->job, of->class_id, STK_COST_ANY_HOST};
}

static uint64_t load_id(const uint8_t *ids, uint32_t place) { return stk_load_u64(ids + 8 * (size_t)place); }

static uint64_t add_ns(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static void add_cost(struct stk_cost *sum, const struct stk_cost *more)
{
    sum->cpu_ns = add_ns(sum->cpu_ns, more->cpu_ns);
    sum->io_ns = add_ns(sum->io_ns, more->io_ns);
    sum->late_ns = add_ns(sum->late_ns, more->late_ns);
    sum->output_bytes = add_ns(sum->output_bytes, more->output_bytes);
    if (more->learned < sum->learned) sum->learned = more->learned;
}

void stk_estimate_ids(struct stk_estimate *estimate, const struct stk_estimate_of *of, const uint8_t *ids,
                      uint32_t count, struct stk_cost *out_sum, const uint32_t **out_order)
{
    const struct stk_cost_key key = key_of(of);
    struct stk_cost_features sum = {0}; /* of the samples of the request's own class */
    struct stk_cost others = {.learned = UINT32_MAX};
    bool alike = true;
    if (out_order) *out_order = NULL;
    if (of->class_id == STK_COST_TOKENS) { /* items of one length: one stands for all */
        sum = stk_estimate_features(of->source, load_id(ids, 0));
        sum.samples *= count, sum.bytes_in *= count, sum.pixels_out *= count;
        stk_cost_predict(estimate->model, &key, &sum, out_sum);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct stk_cost_features one;
        struct stk_cost cost;
        struct stk_cost_key own = key;
        own.class_id = stk_estimate_sample(estimate, of, load_id(ids, i), &one);
        const bool known = own.class_id != of->class_id;
        if (!known) stk_cost_features_add(&sum, &one);
        if (!known && !out_order) continue;
        stk_cost_predict(estimate->model, &own, &one, &cost);
        if (known) add_cost(&others, &cost);
        if (!out_order) continue;
        estimate->keys[i] = cost.cpu_ns + cost.io_ns;
        alike = alike && estimate->keys[i] == estimate->keys[0];
    }
    if (sum.samples > 0) {
        stk_cost_predict(estimate->model, &key, &sum, out_sum);
        add_cost(&others, out_sum);
    }
    *out_sum = others;
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
