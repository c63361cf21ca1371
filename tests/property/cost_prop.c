/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the cost model (rules D2 and D3), for any sequence of results: coefficients stay within an eighth and eight
 * times of what they may; predictions are bounded, add up and cover their own lateness; the table never outgrows its
 * block; results that must not teach change nothing; the same calls give the same bytes; in a world that the model can
 * describe it ends up describing it.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/cost.h"
#include "tests/property/prop.h"

enum { MODELS = 12, BLOCK = 64 * 1024 };

static _Alignas(16) unsigned char first[BLOCK], second[BLOCK];

static struct stk_cost_features draw_features(struct prop_random *rnd)
{
    struct stk_cost_features f = {1 + prop_below(rnd, 4), prop_below(rnd, 80000000), prop_below(rnd, 3000000),
                                  prop_below(rnd, 20000000), prop_once_in(rnd, 3) ? prop_below(rnd, 1000000000) : 0};
    return f;
}

static struct stk_cost_key draw_key(struct prop_random *rnd)
{
    struct stk_cost_key key = {prop_below(rnd, 2), prop_below(rnd, STK_COST_CLASSES + 1), prop_below(rnd, 5)};
    if (prop_once_in(rnd, 8)) key.host = STK_COST_ANY_HOST;
    return key;
}

static struct stk_cost_result draw_result(struct prop_random *rnd)
{
    struct stk_cost_result result = {draw_features(rnd), 0, 0, prop_next(rnd) >> prop_below(rnd, 64), 0};
    result.cpu_ns = prop_next(rnd) >> (8 + prop_below(rnd, 50));
    result.wall_ns = result.cpu_ns + (prop_next(rnd) >> (8 + prop_below(rnd, 50)));
    if (prop_once_in(rnd, 4)) result.flags = 1 + prop_below(rnd, 7);
    return result;
}

static void check_bounds(const struct stk_cost_model *model, const struct stk_cost_key *key)
{
    struct stk_cost_coefficients prior, c;
    stk_cost_prior(key->class_id, &prior);
    stk_cost_coefficients(model, key, &c);
    for (int i = 0; i < 5; i++) {
        PROP_CHECK(c.cpu[i] >= 0 && c.io[i] >= 0);
        if (key->class_id == STK_COST_OTHER || key->class_id >= STK_COST_CLASSES) continue; /* its prior is learned */
        PROP_CHECK(c.cpu[i] >= prior.cpu[i] / 8.0001 && c.cpu[i] <= prior.cpu[i] * 8.0001);
        PROP_CHECK(c.io[i] >= prior.io[i] / 8.0001 && c.io[i] <= prior.io[i] * 8.0001);
    }
}

static void check_prediction(const struct stk_cost_model *model, const struct stk_cost_key *key,
                             struct prop_random *rnd)
{
    struct stk_cost_features one = draw_features(rnd), sum = one;
    struct stk_cost a, b, both;
    stk_cost_predict(model, key, &one, &a);
    PROP_CHECK(a.late_ns >= a.cpu_ns + a.io_ns);
    PROP_CHECK(a.cpu_ns <= UINT64_C(1) << 60 && a.io_ns <= UINT64_C(1) << 60);
    struct stk_cost_features other = draw_features(rnd);
    one.hint_ns = other.hint_ns = sum.hint_ns = 0; /* without results an estimate replaces the constant */
    stk_cost_predict(model, key, &one, &a);
    stk_cost_predict(model, key, &other, &b);
    stk_cost_features_add(&sum, &other);
    stk_cost_predict(model, key, &sum, &both);
    uint64_t apart = a.cpu_ns + b.cpu_ns, slack = 2 + apart / 1000000000;
    PROP_CHECK(both.cpu_ns <= apart + slack && apart <= both.cpu_ns + slack);
}

static void prop_d2_bounded_whatever_comes(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    PROP_CHECK(stk_cost_bytes(MODELS) <= BLOCK);
    memset(first, 0x5a, sizeof first);
    struct stk_cost_model *model = stk_cost_init(first, stk_cost_bytes(MODELS), MODELS);
    for (uint32_t i = 0; i < 120; i++) {
        struct stk_cost_key key = draw_key(&rnd);
        struct stk_cost_result result = draw_result(&rnd);
        memcpy(second, first, sizeof first);
        bool taught = stk_cost_learn(model, &key, &result);
        PROP_CHECK(taught == (!result.flags && result.cpu_ns > 0));
        if (!taught) PROP_CHECK(memcmp(first, second, sizeof first) == 0);
        PROP_CHECK(stk_cost_count(model) <= MODELS);
        check_bounds(model, &key);
        check_prediction(model, &key, &rnd);
        if (prop_once_in(&rnd, 40)) stk_cost_forget_host(model, prop_below(&rnd, 5));
        if (prop_once_in(&rnd, 40)) stk_cost_forget_job(model, prop_below(&rnd, 2));
    }
    for (size_t i = stk_cost_bytes(MODELS); i < BLOCK; i++) PROP_CHECK(first[i] == 0x5a);
}

static void fill(void *block, uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    struct stk_cost_model *model = stk_cost_init(block, BLOCK, MODELS);
    for (uint32_t i = 0; i < 100; i++) {
        struct stk_cost_key key = draw_key(&rnd);
        struct stk_cost_result result = draw_result(&rnd);
        (void)stk_cost_learn(model, &key, &result);
    }
}

static void prop_same_calls_same_bytes(uint64_t seed)
{
    fill(first, seed);
    fill(second, seed);
    PROP_CHECK(memcmp(first, second, stk_cost_bytes(MODELS)) == 0);
}

/* Any coefficients within the bounds, results within ten percent of them, a tenth of them from another world. */
static void prop_a_world_of_its_kind_is_learned(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    struct stk_cost_model *model = stk_cost_init(first, BLOCK, MODELS);
    struct stk_cost_key key = {0, STK_COST_H264 + prop_below(&rnd, 5), 1};
    struct stk_cost_coefficients truth;
    stk_cost_prior(key.class_id, &truth);
    for (int i = 0; i < 5; i++) truth.cpu[i] *= 0.25 + prop_below(&rnd, 4000) / 1000.0;
    uint32_t errors = 0;
    for (uint32_t i = 0; i < 400; i++) {
        struct stk_cost_features f = {1, 2000000 + prop_below(&rnd, 80000000), 20000 + prop_below(&rnd, 2000000),
                                      500000 + prop_below(&rnd, 12000000), 0};
        double ns = truth.cpu[0] + truth.cpu[1] * (double)f.pixels_in * 1e-6 +
                    truth.cpu[2] * (double)f.bytes_in * 1e-6 + truth.cpu[3] * (double)f.pixels_out * 1e-6;
        struct stk_cost cost;
        stk_cost_predict(model, &key, &f, &cost);
        if (i >= 200 && ((double)cost.cpu_ns > 1.12 * ns || (double)cost.cpu_ns < 0.88 * ns)) errors++;
        uint64_t cpu = (uint64_t)(ns * (0.9 + prop_below(&rnd, 200) / 1000.0));
        if (prop_once_in(&rnd, 20)) cpu *= 3;
        struct stk_cost_result result = {f, cpu, cpu, 1, 0};
        PROP_CHECK(stk_cost_learn(model, &key, &result));
    }
    PROP_CHECK(errors <= 20); /* of 200: the median is far within 12 % */
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_d2_bounded_whatever_comes", prop_d2_bounded_whatever_comes, 500},
        {"prop_same_calls_same_bytes", prop_same_calls_same_bytes, 200},
        {"prop_a_world_of_its_kind_is_learned", prop_a_world_of_its_kind_is_learned, 500},
    };
    return prop_main(props, sizeof props / sizeof props[0], argc, argv);
}
