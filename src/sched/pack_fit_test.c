/* SPDX-License-Identifier: Apache-2.0
 *
 * Best fit against DP-balanced, against what no schedule can be below, and against the optimum of small cases.
 */
#include "sched/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/packing.h"
#include "tests/support/unit.h"

enum { SAMPLES_MAX = 2048 };

static uint32_t lengths[SAMPLES_MAX];
static uint64_t random_state;

static uint32_t below(uint32_t bound)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * UINT64_C(0x2545f4914f6cdd1d) >> 32) * bound >> 32);
}

/* Lengths of five kinds of batches for a budget of 8,192 tokens. */
static uint32_t draw(int kind)
{
    switch (kind) {
    case 0: { /* long tail: halved again and again, as chat data are */
        uint32_t longest = 8192;
        while (longest > 128 && below(100) < 55) longest /= 2;
        return longest / 2 + 1 + below(longest / 2);
    }
    case 1: return 1 + below(4096);
    case 2: return below(10) == 0 ? 4096 + below(4097) : 128 + below(385); /* few long, many short */
    case 3: return 128 + below(897);
    default: return 1 + below(8192);
    }
}

struct result {
    double packs, time, tokens, squares; /* fit over DP-balanced; time over the least possible; largest over mean */
};

/* Largest over mean of the sums of ranks. */
static void spread_of(const stoker_pack_schedule *schedule, double *out_tokens, double *out_squares)
{
    static double tokens[64], squares[64];
    double tokens_most = 0, squares_most = 0, tokens_all = 0, squares_all = 0;
    memset(tokens, 0, sizeof tokens);
    memset(squares, 0, sizeof squares);
    for (size_t i = 0; i < schedule->span_count; i++) {
        const stoker_pack_span *span = &schedule->spans[i];
        for (uint32_t k = span->first; k < span->first + span->count; k++) {
            double length = lengths[schedule->samples[k]];
            tokens[span->first_rank] += length;
            squares[span->first_rank] += length * length;
        }
    }
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        tokens_all += tokens[r];
        squares_all += squares[r];
        if (tokens[r] > tokens_most) tokens_most = tokens[r];
        if (squares[r] > squares_most) squares_most = squares[r];
    }
    *out_tokens += tokens_most * schedule->ranks / tokens_all;
    *out_squares += squares_most * schedule->ranks / squares_all;
}

static void compare(int kind, uint32_t ranks, uint32_t count, struct result *fit, struct result *reference)
{
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = 8192;
    options.data_ranks = ranks;
    memset(fit, 0, sizeof *fit);
    memset(reference, 0, sizeof *reference);
    for (int seed = 0; seed < 10; seed++) {
        random_state = (uint64_t)(seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)kind;
        uint64_t tokens = 0, squares = 0;
        for (uint32_t i = 0; i < count; i++) {
            lengths[i] = draw(kind);
            tokens += lengths[i];
            squares += (uint64_t)lengths[i] * lengths[i];
        }
        uint64_t linear = squares / tokens;
        double least = ((double)squares + (double)linear * (double)tokens) / ranks;
        struct packing ours, theirs;
        assert_int_equal(packing_make(&ours, STOKER_PACK_BEST_FIT, lengths, count, &options, NULL), STOKER_OK);
        assert_int_equal(packing_make(&theirs, STOKER_PACK_DP_BALANCED, lengths, count, &options, NULL), STOKER_OK);
        fit->packs += (double)ours.schedule.microbatches / theirs.schedule.microbatches;
        fit->time += (double)packing_time(&ours.schedule, lengths, linear) / least;
        reference->time += (double)packing_time(&theirs.schedule, lengths, linear) / least;
        spread_of(&ours.schedule, &fit->tokens, &fit->squares);
        spread_of(&theirs.schedule, &reference->tokens, &reference->squares);
        packing_drop(&ours);
        packing_drop(&theirs);
    }
}

static void test_best_fit_is_better_than_dp_balanced(void **state)
{
    (void)state;
    static const char *kinds[] = {"long tail", "uniform to 1/2", "few long", "short", "uniform to 1"};
    static const uint32_t shapes[][2] = {{4, 128}, {8, 512}, {32, 2048}};
    printf("# kind            ranks samples | packs/DP  time/least (DP)   max/mean of L (DP)   of L*L (DP)\n");
    for (int kind = 0; kind < 5; kind++) {
        for (size_t s = 0; s < 3; s++) {
            struct result fit, dp;
            compare(kind, shapes[s][0], shapes[s][1], &fit, &dp);
            printf("# %-15s %5u %7u | %.3f     %.3f (%.3f)     %.3f (%.3f)        %.3f (%.3f)\n", kinds[kind],
                   shapes[s][0], shapes[s][1], fit.packs / 10, fit.time / 10, dp.time / 10, fit.tokens / 10,
                   dp.tokens / 10, fit.squares / 10, dp.squares / 10);
            assert_true(fit.packs <= 10.0);
            assert_true(fit.time <= 1.05 * 10);     /* close to what no schedule is below */
            assert_true(fit.time <= 0.9 * dp.time); /* and clear of the reference */
            assert_true(fit.tokens <= dp.tokens);
            assert_true(fit.squares <= dp.squares);
        }
    }
}

/* The fewest packs and, on as many, the least time, by trying everything: packs are filled in order of their first
 * sample, so that each partition is seen once. */
struct search {
    uint32_t count, data, budget;
    uint64_t linear, tokens[8], loads[8];
    uint32_t packs_least;
    uint64_t time_least[9];
};

static uint64_t time_of(const struct search *s, uint32_t packs)
{
    uint64_t loads[8], time = 0;
    memcpy(loads, s->loads, sizeof loads);
    for (uint32_t i = 0; i < packs; i++)
        for (uint32_t k = i + 1; k < packs; k++)
            if (loads[k] > loads[i]) {
                uint64_t swap = loads[i];
                loads[i] = loads[k];
                loads[k] = swap;
            }
    for (uint32_t i = 0; i < packs; i += s->data) time += loads[i];
    return time;
}

static void try_all(struct search *s, uint32_t at, uint32_t packs)
{
    if (at == s->count) {
        if (packs < s->packs_least) s->packs_least = packs;
        if (packs % s->data != 0) return;
        uint64_t time = time_of(s, packs);
        if (time < s->time_least[packs]) s->time_least[packs] = time;
        return;
    }
    uint64_t length = lengths[at], cost = length * (length + s->linear);
    for (uint32_t p = 0; p <= packs && p < 8; p++) {
        if (p < packs && s->tokens[p] + length > s->budget) continue;
        uint64_t tokens = s->tokens[p], load = s->loads[p];
        s->tokens[p] = p < packs ? tokens + length : length;
        s->loads[p] = p < packs ? load + cost : cost;
        try_all(s, at + 1, p < packs ? packs : packs + 1);
        s->tokens[p] = tokens;
        s->loads[p] = load;
    }
}

static void test_small_batches_are_near_their_optimum(void **state)
{
    (void)state;
    double worst = 1, sum = 0;
    int cases = 0, one_more = 0;
    for (random_state = 1; cases < 300;) {
        stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
        struct search s = {.count = 4 + below(5), .data = 1 + below(3), .budget = 100, .packs_least = 9};
        memset(s.time_least, 0xff, sizeof s.time_least);
        uint64_t tokens = 0, squares = 0;
        for (uint32_t i = 0; i < s.count; i++) {
            lengths[i] = 1 + below(below(2) ? 100 : 40);
            tokens += lengths[i];
            squares += (uint64_t)lengths[i] * lengths[i];
        }
        s.linear = squares / tokens;
        options.tokens_per_rank = s.budget;
        options.data_ranks = s.data;
        struct packing packing;
        if (packing_make(&packing, STOKER_PACK_BEST_FIT, lengths, s.count, &options, NULL) == STOKER_OK) {
            try_all(&s, 0, 0);
            uint32_t packs = packing.schedule.microbatches * s.data;
            uint32_t fewest = (s.packs_least + s.data - 1) / s.data * s.data;
            assert_in_range(packs, fewest, fewest + s.data); /* best fit decreasing: one pack more at most, here */
            one_more += packs > fewest;
            double ratio = (double)packing_time(&packing.schedule, lengths, s.linear) / (double)s.time_least[packs];
            assert_true(ratio >= 1.0);
            if (ratio > worst) worst = ratio;
            sum += ratio;
            cases++;
        }
        packing_drop(&packing);
    }
    printf("# %d small cases: time over the optimum %.4f on average, %.4f at worst; more packs than needed in %d\n",
           cases, sum / cases, worst, one_more);
    assert_true(sum / cases <= 1.02);
    assert_true(worst <= 4.0 / 3);
    assert_true(one_more <= 3);
}

static void test_a_sample_over_the_budget_is_alone(void **state)
{
    (void)state;
    static const uint32_t some[] = {3, 90, 4, 5, 6, 2};
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = 20;
    struct packing packing;
    assert_int_equal(packing_make(&packing, STOKER_PACK_BEST_FIT, some, 6, &options, NULL), STOKER_OK);
    assert_int_equal(packing.schedule.microbatches, 2);
    const stoker_pack_span *first = packing_cell(&packing.schedule, 0, 0); /* the dearest comes first */
    assert_int_equal(first->count, 1);
    assert_int_equal(packing.schedule.samples[first->first], 1);
    packing_drop(&packing);
}

static void test_the_cost_of_a_token_decides(void **state)
{
    (void)state;
    /* Two ranks, one micro-batch: by L * L one long sample weighs as much as all others, by L they are halved. */
    static const uint32_t some[] = {60, 20, 20, 20, 20, 20, 20, 20, 20};
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = 1000;
    options.data_ranks = 2;
    options.linear_tokens = 1;
    struct packing packing;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(packing_make(&packing, STOKER_PACK_BEST_FIT, some, 9, &options, NULL), STOKER_OK);
        assert_int_equal(packing.schedule.microbatches, 1);
        uint32_t lone = packing_cell(&packing.schedule, 0, 0)->count,
                 rest = packing_cell(&packing.schedule, 0, 1)->count;
        uint32_t fewer = lone < rest ? lone : rest;
        assert_int_equal(fewer, i == 0 ? 1 : 3);
        packing_drop(&packing);
        options.linear_tokens = 100000;
    }
    options.linear_tokens = UINT32_MAX;
    assert_int_equal(packing_make(&packing, STOKER_PACK_BEST_FIT, some, 9, &options, NULL), STOKER_ERR_LIMIT);
    packing_drop(&packing);
}

static void test_the_largest_figures_do_not_wrap(void **state)
{
    (void)state;
    static const uint32_t some[] = {2147483640, 3, 2, 1, 1};
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = UINT32_MAX;
    options.data_ranks = 2;
    options.context_ranks = 1u << 19;
    options.linear_tokens = 2147483647;
    struct packing packing;
    assert_int_equal(packing_make(&packing, STOKER_PACK_BEST_FIT, some, 5, &options, NULL), STOKER_OK);
    assert_int_equal(packing.schedule.microbatches, 1);
    uint32_t a = packing_cell(&packing.schedule, 0, 0)->count;
    assert_true(a == 1 || a == 4);
    packing_drop(&packing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_fit_is_better_than_dp_balanced),
        cmocka_unit_test(test_small_batches_are_near_their_optimum),
        cmocka_unit_test(test_a_sample_over_the_budget_is_alone),
        cmocka_unit_test(test_the_cost_of_a_token_decides),
        cmocka_unit_test(test_the_largest_figures_do_not_wrap),
    };
    return stk_run_tests(tests);
}
