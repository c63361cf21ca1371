/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of cost models: see cost.h. Models hang in chains of a hash table and in one list by the time of their last
 * result; neither order shows outside. Priors are those of one core of a current server CPU (docs/reference/cost.md).
 */
#include "sched/cost.h"

#include <string.h>

#include "base/assert.h"
#include "sched/cost_fit.h"

#define NONE UINT32_MAX
#define MS 1e6
/* Results of a class without a prior that set it: enough for a mean, few enough that the bounds soon mean something. */
#define ANCHOR_RESULTS 16u
/* Fewer results than this know no 95 % quantile: twice the prediction stands for it. */
#define QUANTILE_RESULTS 20u
#define PRIOR_LATE (2u * STK_RATIO_ONE)
#define PRIOR_ERROR_PERMILLE 1000u
#define OUTPUT_MEMORY 16u
#define COST_NS_MAX (UINT64_C(1) << 60)

struct cost_sums { /* of a class without a built-in prior */
    double samples, hint, cpu, io;
};

struct cost_entry {
    struct stk_cost_key key;
    uint32_t chain;        /* next in the bucket; of free entries the next free one */
    uint32_t older, newer; /* by last result */
    uint32_t learned;
    uint64_t output_bytes;
    struct cost_sums sums;
    struct stk_fit cpu, io;
    struct stk_ratios ratios;
};

struct stk_cost_model {
    uint32_t cap, bucket_count; /* fixed */
    uint32_t count, free, oldest, newest;
    /* then bucket_count bucket heads, then cap entries: no pointers, so that equal models are equal bytes */
};

/* samples, Mpx_in, MB_in, Mpx_out, hint. One thread of a server core; bytes are read at about 1 GB/s, a file costs a
 * tenth of a millisecond. Video of an unknown codec carries its pixels in its bytes: 0.5 MB hold 100 frames of 448p. */
static const struct stk_cost_coefficients priors[STK_COST_CLASSES] = {
    [STK_COST_OTHER] = {{10 * MS, 0, 0, 0, 1}, {0.1 * MS, 0, 1 * MS, 0, 0.01}},
    [STK_COST_TOKENS] = {{0.02 * MS, 0, 1 * MS, 0, 0}, {0.02 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_VIDEO] = {{1.5 * MS, 0.9 * MS, 150 * MS, 1.0 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_H264] = {{1.5 * MS, 0.95 * MS, 92 * MS, 1.0 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_HEVC] = {{1.5 * MS, 1.24 * MS, 151 * MS, 1.0 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_VP9] = {{1.5 * MS, 0.90 * MS, 119 * MS, 1.0 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_AV1] = {{1.5 * MS, 0.53 * MS, 91 * MS, 1.0 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_MPEG4] = {{1.5 * MS, 0.46 * MS, 16 * MS, 1.0 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_VIDEO_SIMPLE] = {{1.5 * MS, 0.6 * MS, 40 * MS, 1.0 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_IMAGE] = {{0.2 * MS, 1.5 * MS, 15 * MS, 3 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_JPEG] = {{0.2 * MS, 1.1 * MS, 11 * MS, 3 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_PNG] = {{0.2 * MS, 4 * MS, 5 * MS, 3 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_WEBP] = {{0.2 * MS, 6 * MS, 30 * MS, 3 * MS, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
    [STK_COST_AUDIO] = {{0.5 * MS, 0, 60 * MS, 0, 0}, {0.1 * MS, 0, 1 * MS, 0, 0}},
};

static const double neutral[STK_COST_TERMS] = {1, 1, 1, 1, 1};

/* ---- features ---- */

static uint64_t add_or_stay(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

void stk_cost_features_add(struct stk_cost_features *sum, const struct stk_cost_features *more)
{
    sum->samples = add_or_stay(sum->samples, more->samples);
    sum->pixels_in = add_or_stay(sum->pixels_in, more->pixels_in);
    sum->bytes_in = add_or_stay(sum->bytes_in, more->bytes_in);
    sum->pixels_out = add_or_stay(sum->pixels_out, more->pixels_out);
    sum->hint_ns = add_or_stay(sum->hint_ns, more->hint_ns);
}

static void in_units(const struct stk_cost_features *features, double out[STK_COST_TERMS])
{
    out[0] = (double)features->samples;
    out[1] = (double)features->pixels_in * 1e-6;
    out[2] = (double)features->bytes_in * 1e-6;
    out[3] = (double)features->pixels_out * 1e-6;
    out[4] = (double)features->hint_ns;
}

/* A dataset that estimates its own costs is believed: the estimate is the whole cost until results say otherwise. */
static void prior_row(uint32_t class_id, double row[STK_COST_TERMS])
{
    if (class_id == STK_COST_OTHER && row[4] > 0) row[0] = 0;
}

static uint32_t known_class(uint32_t class_id) { return class_id < STK_COST_CLASSES ? class_id : STK_COST_OTHER; }

static uint64_t whole_ns(double ns)
{
    if (!(ns > 0)) return 0;
    return ns >= (double)COST_NS_MAX ? COST_NS_MAX : (uint64_t)(ns + 0.5);
}

/* ---- the table ---- */

static size_t round_up(size_t size) { return (size + 15) & ~(size_t)15; }

static uint32_t *buckets_of(const struct stk_cost_model *model)
{
    return (uint32_t *)((uintptr_t)model + round_up(sizeof *model));
}

static struct cost_entry *entries_of(const struct stk_cost_model *model)
{
    return (struct cost_entry *)((uintptr_t)buckets_of(model) + round_up(model->bucket_count * sizeof(uint32_t)));
}

static uint32_t buckets_for(uint32_t models)
{
    uint32_t count = 16;
    while (count < models) count *= 2;
    return count;
}

size_t stk_cost_bytes(uint32_t models)
{
    STK_ASSERT(models > 0 && models <= STK_COST_MODELS_MAX);
    return round_up(sizeof(struct stk_cost_model)) + round_up(buckets_for(models) * sizeof(uint32_t)) +
           (size_t)models * sizeof(struct cost_entry);
}

struct stk_cost_model *stk_cost_init(void *block, size_t size, uint32_t models)
{
    STK_ASSERT(block && (uintptr_t)block % 16 == 0 && size >= stk_cost_bytes(models));
    struct stk_cost_model *model = block;
    memset(block, 0, stk_cost_bytes(models));
    model->cap = models;
    model->bucket_count = buckets_for(models);
    for (uint32_t i = 0; i < model->bucket_count; i++) buckets_of(model)[i] = NONE;
    for (uint32_t i = 0; i < models; i++) entries_of(model)[i].chain = i + 1 < models ? i + 1 : NONE;
    model->oldest = model->newest = NONE;
    return model;
}

static bool same_key(const struct stk_cost_key *a, const struct stk_cost_key *b)
{
    return a->job == b->job && a->class_id == b->class_id && a->host == b->host;
}

static uint32_t *bucket_of(const struct stk_cost_model *model, const struct stk_cost_key *key)
{
    uint64_t mixed = ((uint64_t)key->job << 32 | key->host) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 29 ^ key->class_id) * UINT64_C(0xbf58476d1ce4e5b9);
    return &buckets_of(model)[(mixed >> 32) & (model->bucket_count - 1)];
}

static struct cost_entry *find(const struct stk_cost_model *model, const struct stk_cost_key *key)
{
    for (uint32_t at = *bucket_of(model, key); at != NONE; at = entries_of(model)[at].chain)
        if (same_key(&entries_of(model)[at].key, key)) return &entries_of(model)[at];
    return NULL;
}

/* The model that speaks for the key: its host's, else that of all hosts. */
static const struct cost_entry *find_best(const struct stk_cost_model *model, const struct stk_cost_key *key)
{
    struct stk_cost_key known = {key->job, known_class(key->class_id), key->host};
    const struct cost_entry *entry = find(model, &known);
    if (entry || key->host == STK_COST_ANY_HOST) return entry;
    known.host = STK_COST_ANY_HOST;
    return find(model, &known);
}

static void unlink_age(struct stk_cost_model *model, struct cost_entry *entry)
{
    *(entry->older == NONE ? &model->oldest : &entries_of(model)[entry->older].newer) = entry->newer;
    *(entry->newer == NONE ? &model->newest : &entries_of(model)[entry->newer].older) = entry->older;
}

static void link_newest(struct stk_cost_model *model, struct cost_entry *entry)
{
    uint32_t index = (uint32_t)(entry - entries_of(model));
    entry->older = model->newest;
    entry->newer = NONE;
    *(model->newest == NONE ? &model->oldest : &entries_of(model)[model->newest].newer) = index;
    model->newest = index;
}

static void remove_entry(struct stk_cost_model *model, struct cost_entry *entry)
{
    uint32_t index = (uint32_t)(entry - entries_of(model));
    uint32_t *at = bucket_of(model, &entry->key);
    while (*at != index) at = &entries_of(model)[*at].chain;
    *at = entry->chain;
    unlink_age(model, entry);
    entry->chain = model->free;
    model->free = index;
    model->count--;
}

static struct cost_entry *add_entry(struct stk_cost_model *model, const struct stk_cost_key *key,
                                    const struct cost_entry *like)
{
    if (model->free == NONE) remove_entry(model, &entries_of(model)[model->oldest]);
    uint32_t index = model->free;
    struct cost_entry *entry = &entries_of(model)[index];
    model->free = entry->chain;
    memset(entry, 0, sizeof *entry);
    entry->key = *key;
    const struct stk_cost_coefficients *prior = &priors[key->class_id];
    stk_fit_init(&entry->cpu, like ? like->cpu.prior : prior->cpu, like ? like->cpu.ratio : neutral);
    stk_fit_init(&entry->io, like ? like->io.prior : prior->io, like ? like->io.ratio : neutral);
    if (like) {
        entry->sums = like->sums;
        entry->output_bytes = like->output_bytes;
    }
    uint32_t *bucket = bucket_of(model, key);
    entry->chain = *bucket;
    *bucket = index;
    link_newest(model, entry);
    model->count++;
    return entry;
}

/* ---- learning ---- */

/* The means of the first results are the prior; of a dataset with estimates, the factor and a tenth of the mean. */
static void anchor(struct cost_entry *entry, const double row[STK_COST_TERMS], double cpu, double io)
{
    struct cost_sums *sums = &entry->sums;
    const struct stk_cost_coefficients *built_in = &priors[STK_COST_OTHER];
    struct stk_cost_coefficients prior = *built_in;
    sums->samples += row[0], sums->hint += row[4], sums->cpu += cpu, sums->io += io;
    double share = sums->hint > 0 ? 0.1 : 1.0;
    double io_least = 1000 * sums->samples; /* a prior of 0 could never grow */
    double io_sum = sums->io > io_least ? sums->io : io_least;
    prior.cpu[0] = share * sums->cpu / sums->samples;
    prior.io[0] = share * io_sum / sums->samples;
    if (sums->hint > 0) {
        prior.cpu[4] = sums->cpu / sums->hint;
        prior.io[4] = io_sum / sums->hint;
    }
    stk_fit_set_prior(&entry->cpu, prior.cpu);
    stk_fit_set_prior(&entry->io, prior.io);
}

static double predict_ns(const struct cost_entry *entry, const double row[STK_COST_TERMS], double *out_io)
{
    *out_io = stk_fit_predict(&entry->io, row);
    return stk_fit_predict(&entry->cpu, row);
}

static void teach(struct cost_entry *entry, const struct stk_cost_result *result)
{
    double row[STK_COST_TERMS], guess_io;
    double cpu = (double)result->cpu_ns;
    double wall = result->wall_ns > result->cpu_ns ? (double)result->wall_ns : cpu;
    in_units(&result->features, row);
    double guess = predict_ns(entry, row, &guess_io) + guess_io;
    double clip = entry->ratios.count < QUANTILE_RESULTS ? STK_COST_BOUND
                                                         : stk_ratios_error_permille(&entry->ratios, 950) / 1000.0;
    if (entry->key.class_id == STK_COST_OTHER && entry->learned < ANCHOR_RESULTS)
        anchor(entry, row, cpu, wall - cpu);
    else
        stk_ratios_add(&entry->ratios, wall, guess);
    if (clip < 0.01) clip = 0.01; /* a model that was exact so far must be able to find out */
    stk_fit_learn(&entry->cpu, row, cpu, cpu, clip);
    stk_fit_learn(&entry->io, row, wall - cpu, wall, clip);

    if (entry->learned < UINT32_MAX) entry->learned++;
    uint64_t each = result->output_bytes / result->features.samples;
    uint64_t memory = entry->learned < OUTPUT_MEMORY ? entry->learned : OUTPUT_MEMORY;
    if (each >= entry->output_bytes)
        entry->output_bytes += (each - entry->output_bytes) / memory;
    else
        entry->output_bytes -= (entry->output_bytes - each) / memory;
}

bool stk_cost_learn(struct stk_cost_model *model, const struct stk_cost_key *key, const struct stk_cost_result *result)
{
    if (result->flags || !result->cpu_ns || !result->features.samples) return false;
    struct stk_cost_key known = {key->job, known_class(key->class_id), STK_COST_ANY_HOST};
    struct cost_entry *all = find(model, &known);
    if (!all) all = add_entry(model, &known, NULL);
    unlink_age(model, all), link_newest(model, all);
    if (key->host != STK_COST_ANY_HOST) {
        known.host = key->host;
        struct cost_entry *entry = find(model, &known);
        /* With a table of one model there is room for that of all hosts only. */
        if (!entry && model->cap > 1) entry = add_entry(model, &known, all);
        if (entry) {
            unlink_age(model, entry), link_newest(model, entry);
            teach(entry, result);
        }
    }
    teach(all, result);
    return true;
}

/* ---- asking ---- */

static uint64_t late_ns(const struct cost_entry *entry, uint64_t expected)
{
    uint32_t ratio = PRIOR_LATE;
    if (entry && entry->ratios.count >= QUANTILE_RESULTS) ratio = stk_ratios_quantile(&entry->ratios, 950);
    if (ratio < STK_RATIO_ONE) ratio = STK_RATIO_ONE;
    return whole_ns((double)expected * ratio / STK_RATIO_ONE);
}

void stk_cost_predict(const struct stk_cost_model *model, const struct stk_cost_key *key,
                      const struct stk_cost_features *features, struct stk_cost *out)
{
    const struct cost_entry *entry = find_best(model, key);
    double row[STK_COST_TERMS], cpu, io = 0;
    in_units(features, row);
    if (entry) {
        cpu = predict_ns(entry, row, &io);
    } else {
        const struct stk_cost_coefficients *prior = &priors[known_class(key->class_id)];
        cpu = 0;
        prior_row(known_class(key->class_id), row);
        for (uint32_t i = 0; i < STK_COST_TERMS; i++) cpu += row[i] * prior->cpu[i], io += row[i] * prior->io[i];
    }
    out->cpu_ns = whole_ns(cpu);
    out->io_ns = whole_ns(io);
    out->late_ns = late_ns(entry, out->cpu_ns + out->io_ns);
    if (out->late_ns < out->cpu_ns + out->io_ns) out->late_ns = out->cpu_ns + out->io_ns;
    out->learned = entry ? entry->learned : 0;
    out->output_bytes = 0;
    if (entry && features->samples)
        out->output_bytes =
            entry->output_bytes > UINT64_MAX / features->samples ? UINT64_MAX : entry->output_bytes * features->samples;
}

uint32_t stk_cost_error_permille(const struct stk_cost_model *model, const struct stk_cost_key *key, uint32_t permille)
{
    const struct cost_entry *entry = find_best(model, key);
    if (!entry || !entry->ratios.count) return PRIOR_ERROR_PERMILLE;
    return stk_ratios_error_permille(&entry->ratios, permille);
}

/* ---- forgetting ---- */

static void forget(struct stk_cost_model *model, bool by_job, uint32_t id)
{
    uint32_t at = model->oldest;
    while (at != NONE) {
        struct cost_entry *entry = &entries_of(model)[at];
        at = entry->newer;
        if ((by_job ? entry->key.job : entry->key.host) == id) remove_entry(model, entry);
    }
}

void stk_cost_forget_job(struct stk_cost_model *model, uint32_t job) { forget(model, true, job); }

void stk_cost_forget_host(struct stk_cost_model *model, uint32_t host)
{
    STK_ASSERT(host != STK_COST_ANY_HOST);
    forget(model, false, host);
}

/* ---- status ---- */

void stk_cost_prior(uint32_t class_id, struct stk_cost_coefficients *out) { *out = priors[known_class(class_id)]; }

void stk_cost_coefficients(const struct stk_cost_model *model, const struct stk_cost_key *key,
                           struct stk_cost_coefficients *out)
{
    const struct cost_entry *entry = find_best(model, key);
    stk_cost_prior(key->class_id, out);
    if (!entry) return;
    for (uint32_t i = 0; i < STK_COST_TERMS; i++) {
        out->cpu[i] = entry->cpu.prior[i] * entry->cpu.ratio[i];
        out->io[i] = entry->io.prior[i] * entry->io.ratio[i];
    }
}

uint32_t stk_cost_count(const struct stk_cost_model *model) { return model->count; }
