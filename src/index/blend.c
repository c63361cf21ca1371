/* SPDX-License-Identifier: Apache-2.0
 *
 * Blends: at each position the dataset that is furthest behind its share. The rule looks at every dataset for every
 * position; here datasets of equal weight are joined first, few entries are looked at in vectors, and many are kept
 * asleep while they cannot be chosen (blend_calendar.c). All of them give the picks of the rule, which stays as
 * stk_blend_plain().
 */
#include "index/blend.h"

#include <string.h>

#include "base/assert.h"
#include "index/blend_internal.h"

/* --------------------------------------------------------------------------------------------------------- weights */

double stk_pairwise_sum(const double *values, size_t count)
{
    double sum = 0;
    size_t i = 0;
    if (count > 128) {
        size_t half = count / 2 - count / 2 % 8;
        return stk_pairwise_sum(values, half) + stk_pairwise_sum(values + half, count - half);
    }
    if (count >= 8) {
        double part[8];
        for (; i < 8; i++) part[i] = values[i];
        for (; i + 8 <= count; i += 8)
            for (size_t k = 0; k < 8; k++) part[k] += values[i + k];
        sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; i < count; i++) sum += values[i];
    return sum;
}

void stk_weights_normalize(const double *weights, size_t count, double *out_weights)
{
    double sum = stk_pairwise_sum(weights, count);
    for (size_t i = 0; i < count; i++) out_weights[i] = weights[i] / sum;
}

/* --------------------------------------------------------------------------------------------------------- scratch */

static void *carve(char *base, size_t *used, size_t count, size_t size)
{
    size_t at = *used;
    *used += (count * size + 7) / 8 * 8;
    return base ? base + at : NULL;
}

struct sorting {
    uint64_t *key; /* [datasets] equal for datasets of one entry */
    uint16_t *order, *other, *leader, *entry_of;
};

/* Lays the arrays out in scratch (NULL: counts only); returns their bytes. */
static size_t lay_out(struct stk_blend *blend, struct sorting *sorting, char *base)
{
    size_t used = 0, datasets = blend->datasets, filled = datasets + STK_BLEND_LANES;
    blend->buckets = 256;
    while (blend->buckets < 4 * blend->datasets && blend->buckets < 65536) blend->buckets *= 2;
    blend->entry = carve(base, &used, datasets, sizeof *blend->entry);
    blend->member = carve(base, &used, datasets, sizeof *blend->member);
    blend->head = carve(base, &used, blend->buckets, sizeof *blend->head);
    blend->slot_weight = carve(base, &used, filled, sizeof *blend->slot_weight);
    blend->slot_taken = carve(base, &used, filled, sizeof *blend->slot_taken);
    blend->slot_entry = carve(base, &used, filled, sizeof *blend->slot_entry);
    blend->free_slot = carve(base, &used, datasets, sizeof *blend->free_slot);
    sorting->key = carve(base, &used, datasets, sizeof(uint64_t));
    sorting->order = carve(base, &used, datasets, sizeof(uint16_t));
    sorting->other = carve(base, &used, datasets, sizeof(uint16_t));
    sorting->leader = carve(base, &used, datasets, sizeof(uint16_t));
    sorting->entry_of = carve(base, &used, datasets, sizeof(uint16_t));
    return used;
}

size_t stk_blend_scratch_bytes(uint32_t datasets)
{
    struct stk_blend blend = {.datasets = datasets};
    struct sorting sorting;
    return lay_out(&blend, &sorting, NULL);
}

/* --------------------------------------------------------------------------------------------------------- entries */

/* Numbers of datasets by key, then by number: a merge sort from the bottom up. */
static void sort_by_key(struct sorting *sorting, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) sorting->order[i] = (uint16_t)i;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t middle = start + width < count ? start + width : count;
            uint32_t end = start + 2 * width < count ? start + 2 * width : count;
            for (uint32_t a = start, b = middle, to = start; to < end; to++) {
                bool left =
                    a < middle && (b == end || sorting->key[sorting->order[a]] <= sorting->key[sorting->order[b]]);
                sorting->other[to] = sorting->order[left ? a++ : b++];
            }
        }
        uint16_t *swap = sorting->order;
        sorting->order = sorting->other;
        sorting->other = swap;
    }
}

/* Joins datasets of equal keys. Entries are in the order of their first members, and members ascend. */
static void make_entries(struct stk_blend *blend, struct sorting *sorting)
{
    uint32_t datasets = blend->datasets, from = 0;
    sort_by_key(sorting, datasets);
    for (uint32_t i = 0; i < datasets; i++) {
        uint16_t dataset = sorting->order[i];
        bool same = i > 0 && sorting->key[dataset] == sorting->key[sorting->order[i - 1]];
        sorting->leader[dataset] = same ? sorting->leader[sorting->order[i - 1]] : dataset;
    }
    blend->count = 0;
    for (uint32_t k = 0; k < datasets; k++) {
        if (sorting->leader[k] == k) {
            blend->entry[blend->count] = (struct stk_blend_entry){.count = 0};
            sorting->entry_of[k] = (uint16_t)blend->count++;
        }
        sorting->entry_of[k] = sorting->entry_of[sorting->leader[k]];
        blend->entry[sorting->entry_of[k]].count++;
    }
    for (uint32_t e = 0; e < blend->count; e++) {
        blend->entry[e].member = blend->member + from;
        from += blend->entry[e].count;
    }
    for (uint32_t k = 0; k < datasets; k++) {
        struct stk_blend_entry *entry = &blend->entry[sorting->entry_of[k]];
        blend->member[(entry->member - blend->member) + entry->at++] = (uint16_t)k;
    }
}

/* What is counted from zero, and what is only known with the weight. */
static void set_entry(struct stk_blend_entry *entry, double weight, double limit)
{
    entry->at = 0;
    entry->taken = limit > 0.0 ? 0.0 : __builtin_inf(); /* an empty dataset is never chosen */
    entry->weight = weight;
    entry->inverse = 1.0 / weight;
    entry->limit = limit;
}

/* ---------------------------------------------------------------------------------------------------------- blends */

void stk_blend_plain(const double *weights, uint32_t datasets, uint64_t size, int16_t *out_dataset, int64_t *out_sample,
                     void *scratch)
{
    int64_t *taken = scratch;
    for (uint32_t k = 0; k < datasets; k++) taken[k] = 0;
    for (uint64_t i = 0; i < size; i++) {
        double x = i == 0 ? 1.0 : (double)i, most = weights[0] * x - (double)taken[0];
        uint32_t best = 0;
        for (uint32_t k = 1; k < datasets; k++) {
            double error = weights[k] * x - (double)taken[k];
            if (error > most) {
                most = error;
                best = k;
            }
        }
        out_dataset[i] = (int16_t)best;
        out_sample[i] = taken[best]++;
    }
}

/* Weights for which what blend_internal.h and blend_calendar.c say holds: errors rise with x, and differ if the numbers
 * of samples taken differ. */
static bool are_regular(const double *weights, uint32_t datasets, uint64_t size)
{
    for (uint32_t k = 0; k < datasets; k++)
        if (!(weights[k] > 0.0 && weights[k] * (double)size <= STK_BLEND_STEP_MAX)) return false;
    return (double)size <= STK_BLEND_STEP_MAX;
}

void stk_blend_sized_with(const struct stk_blend_ways *ways, const double *weights, uint32_t datasets, uint64_t size,
                          int16_t *out_dataset, int64_t *out_sample, void *scratch)
{
    struct stk_blend blend = {.datasets = datasets, .size = size};
    struct sorting sorting;
    STK_ASSERT(datasets < STK_BLEND_NONE);
    if (size == 0 || datasets == 0) return;
    if (!are_regular(weights, datasets, size)) {
        stk_blend_plain(weights, datasets, size, out_dataset, out_sample, scratch);
        return;
    }
    (void)lay_out(&blend, &sorting, scratch);
    memcpy(sorting.key, weights, datasets * sizeof *weights);
    make_entries(&blend, &sorting);
    for (uint32_t e = 0; e < blend.count; e++)
        set_entry(&blend.entry[e], weights[blend.entry[e].member[0]], __builtin_inf());
    stk_blend_run(&blend, ways, out_dataset, out_sample);
}

void stk_blend_exhaustive_with(const struct stk_blend_ways *ways, const uint64_t *sizes, uint32_t datasets,
                               int16_t *out_dataset, int64_t *out_sample, void *scratch)
{
    struct stk_blend blend = {.datasets = datasets};
    struct sorting sorting;
    STK_ASSERT(datasets < STK_BLEND_NONE);
    for (uint32_t k = 0; k < datasets; k++) blend.size += sizes[k];
    if (blend.size == 0) return;
    (void)lay_out(&blend, &sorting, scratch);
    memcpy(sorting.key, sizes, datasets * sizeof *sizes);
    make_entries(&blend, &sorting);
    for (uint32_t e = 0; e < blend.count; e++) {
        double size = (double)sizes[blend.entry[e].member[0]];
        set_entry(&blend.entry[e], size / (double)blend.size, size);
    }
    stk_blend_run(&blend, ways, out_dataset, out_sample);
}

static const struct stk_blend_ways *ways_here(void)
{
    return stk_blend_is_wide() ? &stk_blend_wide : &stk_blend_scalar;
}

void stk_blend_sized(const double *weights, uint32_t datasets, uint64_t size, int16_t *out_dataset, int64_t *out_sample,
                     void *scratch)
{
    stk_blend_sized_with(ways_here(), weights, datasets, size, out_dataset, out_sample, scratch);
}

void stk_blend_exhaustive(const uint64_t *sizes, uint32_t datasets, int16_t *out_dataset, int64_t *out_sample,
                          void *scratch)
{
    stk_blend_exhaustive_with(ways_here(), sizes, datasets, out_dataset, out_sample, scratch);
}
