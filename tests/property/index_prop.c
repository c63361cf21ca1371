/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the token index over random inputs: each way to compute something gives what the rule of the reference gives,
 * written here as plainly as it stands. Picks of blends with every variant; shuffles with the state they leave; sample
 * rows against the reference's walk; epochs against adding one at a time; numbers of split texts against strtod().
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/blend_internal.h"
#include "index/gpt.h"
#include "index/random_internal.h"
#include "index/split.h"
#include "tests/property/prop.h"

enum { DATASETS = 32766, PICKS = 6000, VALUES = 40000 };

static struct prop_random rnd;
static double weights[DATASETS];
static uint64_t sizes[DATASETS];
static int16_t dataset[PICKS], wanted[PICKS];
static int64_t sample[PICKS], wanted_sample[PICKS];
static _Alignas(8) char scratch[8 << 20];

static double unit(void) { return (double)(prop_next(&rnd) >> 11) * 0x1p-53; }

/* ---------------------------------------------------------------------------------------------------------- blends */

static uint32_t draw_datasets(void)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 10, 16, 17, 31, 32, 33, 48, 64, 100, 300, 1000};
    if (prop_once_in(&rnd, 100)) return DATASETS;
    return prop_once_in(&rnd, 2) ? counts[prop_below(&rnd, 16)] : 1 + prop_below(&rnd, 120);
}

static double draw_weight(uint32_t kind, uint32_t k, uint32_t datasets)
{
    switch (kind) {
    case 0: return 0.001 + unit();
    case 1: return 1.0;
    case 2: return 1 + prop_below(&rnd, 4);            /* few different ones */
    case 3: return 1 + prop_below(&rnd, datasets);     /* simple ratios */
    case 4: return prop_once_in(&rnd, 2) ? 1e-6 : 1.0; /* extremes */
    case 5: return exp2(-40 * unit());
    case 6: return 1.0 / (k + 1);
    case 7: return k == 0 ? 1.0 : 1e-6 * (1 + k % 3);
    default: return nextafter(1.0, prop_below(&rnd, 3)); /* neighbours, whose errors round alike */
    }
}

static void draw_weights(uint32_t datasets)
{
    uint32_t kind = prop_below(&rnd, 9);
    for (uint32_t k = 0; k < datasets; k++) weights[k] = draw_weight(kind, k, datasets);
    if (!prop_once_in(&rnd, 5)) stk_weights_normalize(weights, datasets, weights);
    if (prop_once_in(&rnd, 10)) { /* sums from which errors drift */
        double factor = exp2(6 * unit() - 3);
        for (uint32_t k = 0; k < datasets; k++) weights[k] *= factor;
    }
}

static struct stk_blend_ways draw_ways(void)
{
    static const uint32_t stay[] = {0, 16, 32, UINT32_MAX};
    struct stk_blend_ways ways = stk_blend_is_wide() && !prop_once_in(&rnd, 3) ? stk_blend_wide : stk_blend_scalar;
    if (!prop_once_in(&rnd, 3)) ways.stay_max = stay[prop_below(&rnd, 4)];
    return ways;
}

static void prop_blend_follows_the_rule(uint64_t seed)
{
    rnd = prop_seed(seed);
    uint32_t datasets = draw_datasets();
    uint64_t size = prop_below(&rnd, datasets > 2000 ? 100 : PICKS);
    PROP_CHECK(stk_blend_scratch_bytes(datasets) <= sizeof scratch);
    draw_weights(datasets);
    stk_blend_plain(weights, datasets, size, wanted, wanted_sample, scratch);
    for (int way = 0; way < 3; way++) {
        const struct stk_blend_ways ways = draw_ways();
        stk_blend_sized_with(&ways, weights, datasets, size, dataset, sample, scratch);
        PROP_CHECK(memcmp(dataset, wanted, size * sizeof *dataset) == 0);
        PROP_CHECK(memcmp(sample, wanted_sample, size * sizeof *sample) == 0);
    }
}

static void exhaust_plainly(uint32_t datasets, uint64_t total)
{
    static int64_t taken[DATASETS];
    memset(taken, 0, sizeof taken);
    for (uint64_t i = 0; i < total; i++) {
        double x = i == 0 ? 1.0 : (double)i, most = -HUGE_VAL;
        uint32_t best = 0;
        for (uint32_t k = 0; k < datasets; k++) {
            double error = (double)sizes[k] / (double)total * x - (double)taken[k];
            if ((uint64_t)taken[k] == sizes[k] || !(error > most)) continue;
            most = error;
            best = k;
        }
        wanted[i] = (int16_t)best;
        wanted_sample[i] = taken[best]++;
    }
}

static void prop_exhaustive_blend_follows_the_rule(uint64_t seed)
{
    rnd = prop_seed(seed);
    uint32_t datasets = 1 + prop_below(&rnd, 150), most = 1 + prop_below(&rnd, PICKS / datasets);
    uint64_t total = 0;
    bool few_sizes = prop_once_in(&rnd, 3), uneven = prop_once_in(&rnd, 3);
    for (uint32_t k = 0; k < datasets; k++) {
        sizes[k] = few_sizes ? 1 + k % 3 : prop_below(&rnd, most + 1);
        if (uneven && k > 0) sizes[k] = sizes[k] * k / datasets;
        if (total + sizes[k] > PICKS) sizes[k] = 0;
        total += sizes[k];
    }
    exhaust_plainly(datasets, total);
    for (int way = 0; way < 3; way++) {
        const struct stk_blend_ways ways = draw_ways();
        stk_blend_exhaustive_with(&ways, sizes, datasets, dataset, sample, scratch);
        PROP_CHECK(memcmp(dataset, wanted, total * sizeof *dataset) == 0);
        PROP_CHECK(memcmp(sample, wanted_sample, total * sizeof *sample) == 0);
    }
}

/* -------------------------------------------------------------------------------------------------------- shuffles */

static void prop_shuffle_follows_the_rule(uint64_t seed)
{
    static uint32_t plain[VALUES], values[VALUES];
    static uint64_t long_values[VALUES];
    rnd = prop_seed(seed);
    struct stk_mt19937 random, narrow, wide;
    stk_draws_fn *draws = stk_random_is_wide() && !prop_once_in(&rnd, 3) ? stk_mt19937_draws_wide : stk_mt19937_draws;
    uint32_t count = prop_below(&rnd, prop_once_in(&rnd, 4) ? VALUES : 3000);
    stk_mt19937_seed(&random, (uint32_t)prop_next(&rnd));
    for (uint32_t skipped = prop_below(&rnd, 1300); skipped > 0; skipped--) (void)stk_mt19937_next(&random);
    narrow = wide = random;
    for (uint32_t i = 0; i < count; i++) long_values[i] = values[i] = plain[i] = i;
    for (uint32_t i = count; i-- > 1;) {
        uint32_t j = (uint32_t)stk_mt19937_interval(&random, i), value = plain[i];
        plain[i] = plain[j];
        plain[j] = value;
    }
    stk_shuffle_32_with(draws, &narrow, values, count);
    stk_shuffle_64_with(draws, &wide, long_values, count);
    PROP_CHECK(memcmp(values, plain, count * sizeof *values) == 0);
    for (uint32_t i = 0; i < count; i++) PROP_CHECK(long_values[i] == plain[i]);
    PROP_CHECK(memcmp(&narrow, &random, sizeof random) == 0);
    PROP_CHECK(memcmp(&wide, &random, sizeof random) == 0);
}

/* --------------------------------------------------------------------------------------------------------- samples */

/* Lengths at an odd address, as no reader has them, and their documents in a random order. */
static char lengths[1 + 4 * 600];
static int32_t document[3000];

static int32_t length_of(int32_t sequence)
{
    int32_t length;
    memcpy(&length, lengths + 1 + 4 * sequence, sizeof length);
    return length;
}

static uint32_t draw_lengths(void)
{
    uint32_t count = 1 + prop_below(&rnd, 600), most = 1 + prop_below(&rnd, 60), empty = 1 + prop_below(&rnd, 6);
    for (uint32_t i = 0; i < count; i++) {
        int32_t length = prop_once_in(&rnd, empty) && empty > 1 ? 0 : (int32_t)prop_below(&rnd, most + 1);
        memcpy(lengths + 1 + 4 * i, &length, sizeof length);
    }
    return count;
}

/* The reference's walk, one sample after another. */
static void walk_plainly(const struct stk_sample_walk *walk, int64_t *rows)
{
    int64_t extra = walk->extra_token, offset = 0;
    uint64_t d = 0;
    rows[0] = rows[1] = 0;
    for (uint64_t row = 1; row <= walk->samples; row++) {
        int64_t remaining = (int64_t)walk->sequence_length + extra;
        while (remaining != 0) {
            int64_t length = length_of(walk->document[d]) - offset;
            remaining -= length;
            if (remaining <= 0) {
                offset += remaining + length - extra;
                break;
            }
            if (d == walk->documents - 1) {
                offset = length_of(walk->document[d]) - extra;
                break;
            }
            d++;
            offset = 0;
        }
        rows[2 * row] = (int64_t)d;
        rows[2 * row + 1] = offset;
    }
}

static void prop_sample_rows_follow_the_walk(uint64_t seed)
{
    static int64_t plain[2 * VALUES], wide[2 * VALUES + 1];
    static int32_t narrow[2 * VALUES + 1];
    rnd = prop_seed(seed);
    uint32_t count = draw_lengths(), epochs = 1 + prop_below(&rnd, 3000 / count);
    uint64_t tokens = 0;
    struct stk_mt19937 random;
    stk_mt19937_seed(&random, (uint32_t)seed);
    stk_document_index_build(&random, 0, count, epochs, prop_once_in(&rnd, 2), document);
    for (uint32_t i = 0; i < count; i++) tokens += (uint64_t)length_of((int32_t)i);
    struct stk_sample_walk walk = {.lengths = lengths + 1,
                                   .document = document,
                                   .documents = (uint64_t)count * epochs,
                                   .sequence_length = 1 + prop_below(&rnd, prop_once_in(&rnd, 3) ? 500 : 40),
                                   .extra_token = prop_below(&rnd, 2),
                                   .split = "law"};
    walk.samples = stk_sample_count(tokens * epochs, walk.sequence_length, walk.extra_token, prop_below(&rnd, 2));
    walk.samples += prop_below(&rnd, 2); /* one too many happens in single precision */
    if (walk.samples >= VALUES) walk.samples = VALUES - 1;
    walk_plainly(&walk, plain);
    bool refused = plain[2 * walk.samples + 1] < 0;
    narrow[2 * walk.samples + 2] = 77;
    wide[2 * walk.samples + 2] = 77;
    PROP_CHECK((stk_sample_index_build(&walk, narrow, NULL) < 0) == refused);
    walk.wide = 1;
    PROP_CHECK(stk_sample_index_build(&walk, wide, NULL) == STOKER_OK);
    for (uint64_t i = 0; i < 2 * walk.samples + 2; i++) PROP_CHECK(wide[i] == plain[i] && narrow[i] == plain[i]);
    PROP_CHECK(narrow[2 * walk.samples + 2] == 77 && wide[2 * walk.samples + 2] == 77);
    memset(wide, 0x55, sizeof wide);
    for (uint64_t rows = 0; walk.row <= walk.samples;) { /* the same in pieces */
        uint64_t piece = prop_below(&rnd, prop_once_in(&rnd, 2) ? 4 : 200), left = walk.samples + 1 - rows;
        PROP_CHECK(stk_sample_walk_rows(&walk, piece, wide + 2 * rows, NULL) == STOKER_OK);
        rows += piece < left ? piece : left;
        PROP_CHECK(walk.row == rows);
    }
    PROP_CHECK(memcmp(wide, plain, (walk.samples + 1) * 2 * sizeof *wide) == 0);
}

static void prop_plan_counts_as_the_reference(uint64_t seed)
{
    rnd = prop_seed(seed);
    uint32_t count = draw_lengths();
    struct stk_gpt_request request = {.lengths = lengths + 1,
                                      .file_sequences = count,
                                      .first = prop_below(&rnd, count + 1),
                                      .samples = prop_below(&rnd, 3000),
                                      .sequence_length = 1 + prop_below(&rnd, 100),
                                      .extra_token = prop_below(&rnd, 2),
                                      .split = "law"};
    struct stk_gpt_plan plan;
    uint64_t tokens = 0, epochs = 0, sum = 0;
    request.end = request.first + prop_below(&rnd, count - (uint32_t)request.first + 1);
    for (uint64_t i = request.first; i < request.end; i++) tokens += (uint64_t)length_of((int32_t)i);
    stoker_status status = stk_gpt_plan(&request, &plan, NULL);
    PROP_CHECK((status < 0) == (tokens == 0));
    if (status < 0) return;
    do {
        epochs++;
        sum += tokens;
    } while (sum < request.samples * request.sequence_length + request.extra_token);
    PROP_CHECK(plan.epochs == epochs && plan.tokens_per_epoch == tokens);
    PROP_CHECK(plan.documents == epochs * (request.end - request.first));
    PROP_CHECK(plan.samples == (sum - request.extra_token) / request.sequence_length);
    PROP_CHECK(plan.samples >= request.samples);
    PROP_CHECK(stk_gpt_count_deferred(&request) == (int64_t)plan.samples);
    if (epochs == 1) {
        PROP_CHECK(!plan.separate_final_epoch);
        return;
    }
    uint64_t before = (sum - tokens - request.extra_token) / request.sequence_length;
    uint64_t each = (tokens - request.extra_token) / request.sequence_length;
    PROP_CHECK(plan.separate_final_epoch == (request.samples - before < (uint64_t)(0.80 * (double)each)));
    PROP_CHECK(!plan.separate_final_epoch || plan.samples_before_final == before);
}

/* ---------------------------------------------------------------------------------------------------------- splits */

static void prop_split_numbers_are_nearest(uint64_t seed)
{
    rnd = prop_seed(seed);
    char text[400];
    uint32_t size = 0, digits = 1 + prop_below(&rnd, prop_once_in(&rnd, 4) ? 290 : 40),
             dot = prop_below(&rnd, digits + 1);
    for (uint32_t i = 0; i < digits; i++) {
        if (i == dot) text[size++] = '.';
        text[size++] = (char)('0' + prop_below(&rnd, 10));
    }
    memcpy(text + size, " 1", 3);
    double vector[STK_SPLITS], number = strtod(text, NULL), sum = number + 1.0 + 0.0;
    PROP_CHECK(stk_split_parse(text, vector, NULL) == STOKER_OK);
    PROP_CHECK(vector[0] == number / sum && vector[1] == 1.0 / sum && vector[2] == 0.0);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_blend_follows_the_rule", prop_blend_follows_the_rule, 3000},
        {"prop_exhaustive_blend_follows_the_rule", prop_exhaustive_blend_follows_the_rule, 1000},
        {"prop_shuffle_follows_the_rule", prop_shuffle_follows_the_rule, 2000},
        {"prop_sample_rows_follow_the_walk", prop_sample_rows_follow_the_walk, 3000},
        {"prop_plan_counts_as_the_reference", prop_plan_counts_as_the_reference, 3000},
        {"prop_split_numbers_are_nearest", prop_split_numbers_are_nearest, 5000},
    };
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
