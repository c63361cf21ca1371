/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost_fit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

static uint64_t state_of_draws;

static double draw(double low, double high)
{
    state_of_draws ^= state_of_draws << 13, state_of_draws ^= state_of_draws >> 7,
        state_of_draws ^= state_of_draws << 17;
    return low + (high - low) * (double)(state_of_draws >> 11) / (double)(UINT64_C(1) << 53);
}

static int setup(void **state)
{
    (void)state;
    state_of_draws = 88172645463325252u;
    return 0;
}

static const double prior[STK_COST_TERMS] = {2, 3, 50, 0, 0};
static const double ones[STK_COST_TERMS] = {1, 1, 1, 1, 1};

static void draw_features(double out[STK_COST_TERMS])
{
    out[0] = 1, out[1] = draw(1, 40), out[2] = draw(0.01, 1), out[3] = out[4] = 0;
}

static void assert_near(double value, double expected, double relative)
{
    double distance = value > expected ? value - expected : expected - value;
    if (!(distance <= relative * expected)) fail_msg("%g is not within %g of %g", value, relative, expected);
}

static void test_an_exact_line_is_found(void **state)
{
    (void)state;
    struct stk_fit fit;
    stk_fit_init(&fit, prior, ones);
    for (int i = 0; i < 200; i++) {
        double features[STK_COST_TERMS];
        draw_features(features);
        double y = 4 * features[0] + 1.5 * features[1] + 200 * features[2];
        stk_fit_learn(&fit, features, y, y, 8);
    }
    assert_near(fit.ratio[0] * prior[0], 4, 0.15); /* two percent of the cost: its prior still counts */
    assert_near(fit.ratio[1] * prior[1], 1.5, 0.03);
    assert_near(fit.ratio[2] * prior[2], 200, 0.01);
    assert_true(fit.ratio[3] == 1); /* a term that is not used stays at its prior */
}

/* Small samples count as much as large ones: errors are relative. */
static void test_rows_weigh_the_same_whatever_their_size(void **state)
{
    (void)state;
    struct stk_fit fit;
    stk_fit_init(&fit, prior, ones);
    for (int i = 0; i < 400; i++) {
        const double small[STK_COST_TERMS] = {1, 0, 0, 0, 0}, large[STK_COST_TERMS] = {1000, 0, 0, 0, 0};
        stk_fit_learn(&fit, small, 4, 4, 8);       /* 4 a sample */
        stk_fit_learn(&fit, large, 8000, 8000, 8); /* 8 a sample */
    }
    /* Least sum of (1 - c / 4)^2 + (1 - c / 8)^2: c = (1/4 + 1/8) / (1/16 + 1/64) = 4.8. */
    assert_near(fit.ratio[0] * prior[0], 4.8, 0.01);
}

static void test_d2_coefficients_stay_within_eight_priors(void **state)
{
    (void)state;
    struct stk_fit fit;
    stk_fit_init(&fit, prior, ones);
    for (int i = 0; i < 3000; i++) {
        double features[STK_COST_TERMS];
        draw_features(features);
        double y = i < 1000 ? 1e-3 : i < 2000 ? 1e9 : draw(1e-3, 1e9);
        stk_fit_learn(&fit, features, y, y, 1000);
        for (uint32_t t = 0; t < 3; t++) {
            assert_true(fit.ratio[t] >= 1 / 8.0);
            assert_true(fit.ratio[t] <= 8.0);
        }
    }
}

/* Ten thousand rows that say nothing of a term leave it where it was; and the next that do are not believed alone. */
static void test_d2_silent_directions_do_not_drift(void **state)
{
    (void)state;
    struct stk_fit fit;
    stk_fit_init(&fit, prior, ones);
    const double one_term[STK_COST_TERMS] = {1, 0, 0, 0, 0}, other[STK_COST_TERMS] = {0, 0, 1, 0, 0};
    for (int i = 0; i < 10000; i++) stk_fit_learn(&fit, one_term, 3, 3, 8);
    assert_near(fit.ratio[1], 1, 1e-9);
    assert_near(fit.ratio[2], 1, 1e-9);
    assert_true(fit.gram[0][0] < 1000); /* bounded by forgetting */
    stk_fit_learn(&fit, other, 500, 500, 0.5);
    assert_true(fit.ratio[2] < 8);
    assert_true(fit.ratio[2] > 1);
    assert_near(fit.ratio[0] * prior[0], 3, 0.01);
}

static void test_d2_a_clipped_residual_moves_little(void **state)
{
    (void)state;
    struct stk_fit open, clipped;
    const double features[STK_COST_TERMS] = {1, 10, 0.5, 0, 0};
    stk_fit_init(&open, prior, ones);
    for (int i = 0; i < 100; i++) stk_fit_learn(&open, features, 60, 60, 8);
    clipped = open;
    double before = stk_fit_predict(&open, features);
    for (int i = 0; i < 5; i++) {
        stk_fit_learn(&open, features, 600, 600, 8);
        stk_fit_learn(&clipped, features, 600, 600, 0.05);
    }
    assert_true(stk_fit_predict(&clipped, features) < stk_fit_predict(&open, features));
    assert_near(stk_fit_predict(&clipped, features), before, 0.01);
}

static void test_another_pace_is_learned(void **state)
{
    (void)state;
    struct stk_fit fit;
    double features[STK_COST_TERMS];
    stk_fit_init(&fit, prior, ones);
    for (int i = 0; i < 4000; i++) {
        draw_features(features);
        double y = (i < 2000 ? 1.0 : 3.0) * (2 * features[0] + 3 * features[1] + 50 * features[2]);
        stk_fit_learn(&fit, features, y, y, 8);
    }
    assert_near(stk_fit_predict(&fit, features), 6 * features[0] + 9 * features[1] + 150 * features[2], 0.05);
}

static void test_another_prior_keeps_the_line(void **state)
{
    (void)state;
    struct stk_fit fit;
    double features[STK_COST_TERMS];
    const double twice[STK_COST_TERMS] = {4, 6, 100, 0, 0};
    stk_fit_init(&fit, prior, ones);
    for (int i = 0; i < 200; i++) {
        draw_features(features);
        double y = 4 * features[0] + 3 * features[1] + 100 * features[2];
        stk_fit_learn(&fit, features, y, y, 8);
    }
    double before = stk_fit_predict(&fit, features);
    stk_fit_set_prior(&fit, twice);
    assert_near(stk_fit_predict(&fit, features), before, 0.01);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void test_quantiles_are_those_of_the_last_ratios(void **state)
{
    (void)state;
    struct stk_ratios ratios;
    double last[STK_COST_RESIDUALS], sorted[STK_COST_RESIDUALS], errors[STK_COST_RESIDUALS];
    memset(&ratios, 0, sizeof ratios);
    assert_int_equal(stk_ratios_quantile(&ratios, 950), STK_RATIO_ONE);
    assert_int_equal(stk_ratios_error_permille(&ratios, 950), 0);
    for (uint32_t i = 0; i < 1000; i++) {
        double ratio = i % 7 ? draw(0.7, 1.4) : draw(0.1, 6);
        last[i % STK_COST_RESIDUALS] = ratio;
        stk_ratios_add(&ratios, ratio * 1000, 1000);
        if (i < STK_COST_RESIDUALS || i % 50) continue;
        for (uint32_t k = 0; k < STK_COST_RESIDUALS; k++) {
            sorted[k] = last[k];
            errors[k] = last[k] > 1 ? 1 - 1 / last[k] : 1 / last[k] - 1;
        }
        qsort(sorted, STK_COST_RESIDUALS, sizeof sorted[0], compare);
        qsort(errors, STK_COST_RESIDUALS, sizeof errors[0], compare);
        /* 950 permille of 128 is 121.6: the 122nd. */
        assert_near(stk_ratios_quantile(&ratios, 950), sorted[121] * STK_RATIO_ONE, 0.002);
        assert_near(stk_ratios_quantile(&ratios, 500), sorted[63] * STK_RATIO_ONE, 0.002);
        assert_near(stk_ratios_error_permille(&ratios, 950), errors[121] * 1000, 0.01);
        assert_near(stk_ratios_error_permille(&ratios, 1000), errors[127] * 1000, 0.02);
    }
}

static void test_extreme_ratios_are_bounded(void **state)
{
    (void)state;
    struct stk_ratios ratios;
    memset(&ratios, 0, sizeof ratios);
    stk_ratios_add(&ratios, 1e30, 1);
    assert_int_equal(stk_ratios_quantile(&ratios, 1000), UINT16_MAX);
    stk_ratios_add(&ratios, 1, 0);
    stk_ratios_add(&ratios, 0, 1e30);
    assert_int_equal(stk_ratios_quantile(&ratios, 1), 1);
    assert_int_equal(stk_ratios_error_permille(&ratios, 1000), 1023000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_an_exact_line_is_found, setup),
        cmocka_unit_test_setup(test_rows_weigh_the_same_whatever_their_size, setup),
        cmocka_unit_test_setup(test_d2_coefficients_stay_within_eight_priors, setup),
        cmocka_unit_test_setup(test_d2_silent_directions_do_not_drift, setup),
        cmocka_unit_test_setup(test_d2_a_clipped_residual_moves_little, setup),
        cmocka_unit_test_setup(test_another_pace_is_learned, setup),
        cmocka_unit_test_setup(test_another_prior_keeps_the_line, setup),
        cmocka_unit_test_setup(test_quantiles_are_those_of_the_last_ratios, setup),
        cmocka_unit_test_setup(test_extreme_ratios_are_bounded, setup),
    };
    return stk_run_tests(tests);
}
