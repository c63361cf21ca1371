/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, grids, token counts and frame choices: worked examples of the public rules, laws over many sizes, refusals.
 * The comparison with the public processors themselves is tests/python/test_processors.py.
 */
#include "media/fit.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/unit.h"

static const stoker_patch_rule UTILITY = {
    14, 2, 2, STOKER_FIT_FRAME, STOKER_FIT_WHOLE_FACTOR, 128 * 784, 768 * 784, 24576 * 784, 0};
static const stoker_patch_rule PROCESSOR = {14, 2, 2, STOKER_FIT_FRAME, 0, 56 * 56, 1280 * 784, 0, 0};
static const stoker_patch_rule CLIP = {16, 2, 2, STOKER_FIT_CLIP, 0, 4096, 25165824, 0, 0};

static stoker_patch_plan plan_of(const stoker_patch_rule *rule, uint32_t frames, uint32_t width, uint32_t height)
{
    const stoker_clip clip = {frames, width, height};
    stoker_patch_plan plan;
    stoker_error err = {0};
    if (stoker_patch_plan_clip(rule, &clip, &plan, &err) != STOKER_OK) fail_msg("%s", err.message);
    return plan;
}

static void expect(const stoker_patch_plan *plan, uint32_t width, uint32_t height, uint32_t t, uint32_t h, uint32_t w,
                   uint64_t tokens)
{
    const stoker_patch_plan wanted = {width, height, t, h, w, plan->row_values, (uint64_t)t * h * w, tokens};
    assert_memory_equal(plan, &wanted, sizeof wanted);
}

static void test_checks_of_the_per_frame_rule(void **state)
{
    (void)state;
    stoker_patch_plan plan = plan_of(&UTILITY, 64, 1920, 1080);
    expect(&plan, 1008, 560, 32, 40, 72, 23040);
    assert_int_equal(plan.row_values, 3 * 2 * 14 * 14);
    plan = plan_of(&UTILITY, 16, 224, 224); /* the lower limit enlarges */
    expect(&plan, 336, 336, 8, 24, 24, 1152);
    plan = plan_of(&UTILITY, 16, 640, 360);
    expect(&plan, 644, 364, 8, 26, 46, 2392);
}

static void test_halves_go_to_the_even_factor(void **state)
{
    (void)state;
    stoker_patch_rule free_rule = PROCESSOR;
    free_rule.pixels_min = 1;
    stoker_patch_plan plan = plan_of(&free_rule, 1, 70, 42); /* 2.5 and 1.5 factors */
    expect(&plan, 56, 56, 1, 4, 4, 4);
    plan = plan_of(&free_rule, 1, 126, 98); /* 4.5 and 3.5 */
    expect(&plan, 112, 112, 1, 8, 8, 16);
}

static void test_share_of_a_frame_has_a_floor(void **state)
{
    (void)state;
    /* 768 frames: a share would be 50,176 pixels, less than the lower limit; 1.05 of that is left. */
    stoker_patch_plan plan = plan_of(&UTILITY, 768, 1920, 1080);
    assert_true((uint64_t)plan.width * plan.height <= 105369);
    assert_int_equal(plan.width, 420);
    assert_int_equal(plan.height, 224);
    /* The processors divide integers: the same here. */
    stoker_patch_rule processor = UTILITY;
    processor.flags = 0;
    processor.clip_pixels = (uint64_t)(128000 * 784 * 0.9);
    plan = plan_of(&processor, 768, 1920, 1080);
    assert_int_equal(plan.grid_t, 384);
}

static void test_clip_rule_counts_all_frames(void **state)
{
    (void)state;
    stoker_patch_plan plan = plan_of(&CLIP, 64, 1920, 1080);
    assert_true(64ull * plan.width * plan.height <= 25165824);
    assert_int_equal(plan.width, 832);
    assert_int_equal(plan.height, 448);
    assert_int_equal(plan.tokens, 32 * 28 * 52 / 4);
    plan = plan_of(&CLIP, 5, 64, 64); /* three groups; 6 * 4096 pixels are within the limits */
    expect(&plan, 64, 64, 3, 4, 4, 12);
    /* Half of a group rounds to the even number of groups: 5 frames count as 4. */
    stoker_patch_rule even = CLIP;
    even.flags = STOKER_FIT_EVEN_FRAMES;
    even.pixels_max = 4 * 64 * 64;
    plan = plan_of(&even, 5, 64, 64);
    assert_int_equal(plan.width, 64);
    even.flags = 0;
    plan = plan_of(&even, 5, 64, 64);
    assert_int_equal(plan.width, 32);
    /* With a bound of one frame. */
    stoker_patch_rule capped = CLIP;
    capped.frame_pixels_max = 768 * 32 * 32;
    plan = plan_of(&capped, 4, 1920, 1080);
    assert_true((uint64_t)plan.width * plan.height <= 768 * 1024);
}

static void test_small_sides_grow_to_a_factor_first(void **state)
{
    (void)state;
    stoker_patch_rule grow = CLIP;
    grow.flags = STOKER_FIT_GROW_FIRST;
    stoker_patch_plan plan = plan_of(&grow, 2, 400, 8);
    expect(&plan, 1600, 32, 1, 2, 100, 50);
    plan = plan_of(&CLIP, 2, 400, 8); /* else a side rounds to nothing, and the lower limit enlarges */
    assert_int_equal(plan.height, 32);
    assert_true(plan.width < 1600);
}

static void test_sides_are_multiples_and_pixels_within_limits(void **state)
{
    (void)state;
    uint64_t seed = 1;
    const stoker_patch_rule *const rules[] = {&UTILITY, &PROCESSOR, &CLIP};
    for (int i = 0; i < 30000; i++) {
        const stoker_patch_rule *rule = rules[i % 3];
        uint32_t numbers[3];
        for (int j = 0; j < 3; j++)
            numbers[j] = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 40);
        const stoker_clip clip = {1 + numbers[0] % 200, 100 + numbers[1] % 3000, 100 + numbers[2] % 3000};
        stoker_patch_plan plan = plan_of(rule, clip.frames, clip.width, clip.height);
        uint32_t factor = rule->patch * rule->merge;
        assert_int_equal(plan.width % factor, 0);
        assert_int_equal(plan.height % factor, 0);
        assert_int_equal(plan.tokens * rule->merge * rule->merge, plan.patches);
        assert_int_equal(plan.grid_t, (clip.frames + 1) / 2);
        uint64_t pixels = (uint64_t)plan.width * plan.height;
        if (rule == &CLIP && clip.frames % 2 == 0) assert_true(pixels * clip.frames <= rule->pixels_max);
        if (rule != &CLIP) assert_true(pixels <= rule->pixels_max && pixels >= rule->pixels_min);
    }
}

static void test_refusals_name_value_and_bound(void **state)
{
    (void)state;
    stoker_error err = {0};
    stoker_patch_plan plan;
    stoker_clip clip = {1, 2010, 10};
    assert_int_equal(stoker_patch_plan_clip(&PROCESSOR, &clip, &plan, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.message, "a picture of 2010x10: one side is more than 200 times the other, which the patch "
                                     "rule refuses");
    clip.width = 2000; /* exactly 200 is allowed */
    assert_int_equal(stoker_patch_plan_clip(&PROCESSOR, &clip, &plan, &err), STOKER_OK);
    clip.frames = 0;
    assert_int_equal(stoker_patch_plan_clip(&PROCESSOR, &clip, &plan, &err), STOKER_ERR_INVALID_ARGUMENT);
    clip.frames = 1;
    assert_int_equal(stoker_patch_plan_clip(&PROCESSOR, NULL, &plan, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_patch_rule rule;
#define REFUSES(change, text)                                                                                          \
    do {                                                                                                               \
        rule = PROCESSOR;                                                                                              \
        change;                                                                                                        \
        assert_int_equal(stoker_patch_plan_clip(&rule, &clip, &plan, &err), STOKER_ERR_INVALID_ARGUMENT);              \
        assert_non_null(strstr(err.message, text));                                                                    \
    } while (0)
    REFUSES(rule.patch = 0, "patch is 0");
    REFUSES(rule.merge = 65, "merge is 65");
    REFUSES(rule.temporal = 0, "temporal is 0");
    REFUSES(rule.limits = (stoker_fit_limits)2, "limits 2");
    REFUSES(rule.flags = 8, "flags are 0x8");
    REFUSES(rule.pixels_min = 0, "pixels_min 0");
    REFUSES(rule.pixels_max = 3135, "pixels_max 3135");
    REFUSES(rule.frame_pixels_max = 1, "frame_pixels_max is 1");
    REFUSES((rule.limits = STOKER_FIT_CLIP, rule.clip_pixels = 1), "clip_pixels is 1");
    rule = PROCESSOR;
    rule.pixels_max = UINT64_C(1) << 48;
    clip = (stoker_clip){65536, 65536, 65536};
    assert_int_equal(stoker_patch_plan_clip(&rule, &clip, &plan, &err), STOKER_ERR_LIMIT);
}

static uint32_t count_of(const stoker_frame_rule *rule, uint64_t frames, double seconds)
{
    const stoker_clip_facts facts = {640, 360, frames, seconds};
    uint32_t count;
    stoker_error err = {0};
    if (stoker_frames_count(rule, &facts, &count, &err) != STOKER_OK) fail_msg("%s", err.message);
    return count;
}

static void test_frames_by_rate(void **state)
{
    (void)state;
    const stoker_frame_rule rule = {STOKER_FRAMES_UNIFORM, 0, 2.0, 4, 768, 2};
    assert_int_equal(count_of(&rule, 300, 10), 20);
    assert_int_equal(count_of(&rule, 300, 10.9), 20); /* 21.8: down to whole groups */
    assert_int_equal(count_of(&rule, 30, 1), 4);      /* at least four */
    assert_int_equal(count_of(&rule, 3, 0.1), 2);     /* no more than there are, in whole groups */
    assert_int_equal(count_of(&rule, 1, 0.1), 2);     /* one group all the same */
    assert_int_equal(count_of(&rule, 30000, 1000), 768);
    const stoker_frame_rule single = {STOKER_FRAMES_UNIFORM, 0, 2.0, 4, 768, 0};
    assert_int_equal(count_of(&single, 300, 10.9), 21);
    const stoker_frame_rule fixed = {STOKER_FRAMES_STEP, 16, 0, 0, 0, 0};
    assert_int_equal(count_of(&fixed, 3, 0), 16);
    stoker_error err = {0};
    uint32_t count;
    stoker_clip_facts facts = {640, 360, 30, 0};
    assert_int_equal(stoker_frames_count(&rule, &facts, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_string_equal(err.message, "a clip of 0 seconds cannot be sampled by rate");
    facts.frames = 0;
    assert_int_equal(stoker_frames_count(&fixed, &facts, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_frame_rule bad = {STOKER_FRAMES_UNIFORM, 0, 0, 4, 768, 2};
    facts.frames = 30, facts.duration_s = 1;
    assert_int_equal(stoker_frames_count(&bad, &facts, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
    bad = (stoker_frame_rule){STOKER_FRAMES_UNIFORM, 0, 2, 4, 3, 2};
    assert_int_equal(stoker_frames_count(&bad, &facts, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
    bad = (stoker_frame_rule){(stoker_frame_choice)2, 4, 0, 0, 0, 0};
    assert_int_equal(stoker_frames_count(&bad, &facts, &count, &err), STOKER_ERR_INVALID_ARGUMENT);
}

static void expect_indices(stoker_frame_choice choice, uint64_t n, uint32_t count, const uint64_t *wanted)
{
    for (uint32_t i = 0; i < count; i++) {
        const stoker_frame_place place = {n, count, i};
        assert_int_equal(stoker_frames_index(choice, &place), wanted[i]);
    }
}

static void test_indices_of_both_conventions(void **state)
{
    (void)state;
    expect_indices(STOKER_FRAMES_UNIFORM, 10, 4, (const uint64_t[]){0, 3, 6, 9});
    expect_indices(STOKER_FRAMES_STEP, 10, 4, (const uint64_t[]){0, 2, 5, 7});
    expect_indices(STOKER_FRAMES_UNIFORM, 6, 3, (const uint64_t[]){0, 2, 5}); /* 2.5 to even */
    expect_indices(STOKER_FRAMES_UNIFORM, 9, 1, (const uint64_t[]){0});
    expect_indices(STOKER_FRAMES_STEP, 3, 5, (const uint64_t[]){0, 1, 2, 2, 2});
    expect_indices(STOKER_FRAMES_UNIFORM, 0, 2, (const uint64_t[]){0, 0});
}

static void test_checks_of_tubelets(void **state)
{
    (void)state;
    static const struct {
        stoker_clip clip;
        uint64_t tokens;
    } cases[] = {{{16, 224, 224}, 1568}, {{32, 336, 336}, 7056}, {{64, 448, 448}, 25088}};
    stoker_tubelet_rule rule = {2, 16, 0};
    stoker_tubelet_plan plan;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(stoker_tubelet_plan_clip(&rule, &cases[i].clip, &plan, NULL), STOKER_OK);
        assert_int_equal(plan.tokens, cases[i].tokens);
        assert_int_equal(plan.visible, cases[i].tokens);
    }
    rule.masked = 0.9;
    assert_int_equal(stoker_tubelet_plan_clip(&rule, &cases[0].clip, &plan, NULL), STOKER_OK);
    assert_int_equal(plan.visible, 160);
    rule.masked = 1;
    assert_int_equal(stoker_tubelet_plan_clip(&rule, &cases[0].clip, &plan, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_checks_of_causal_latents(void **state)
{
    (void)state;
    static const struct {
        stoker_clip clip;
        uint64_t tokens;
        uint32_t t, used;
    } cases[] = {{{81, 832, 480}, 32760, 21, 81},
                 {{81, 1280, 720}, 75600, 21, 81},
                 {{16, 224, 224}, 784, 4, 13},
                 {{32, 336, 336}, 3528, 8, 29},
                 {{64, 448, 448}, 12544, 16, 61}};
    const stoker_latent_rule rule = {16, 4, 8, 1, 2};
    stoker_latent_plan plan;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(stoker_latent_plan_clip(&rule, &cases[i].clip, &plan, NULL), STOKER_OK);
        assert_int_equal(plan.tokens, cases[i].tokens);
        assert_int_equal(plan.t, cases[i].t);
        assert_int_equal(plan.h, cases[i].clip.height / 8);
        assert_int_equal(plan.channels, 16);
        assert_int_equal(plan.frames_used, cases[i].used);
    }
    const stoker_latent_rule bad = {16, 0, 8, 1, 2};
    assert_int_equal(stoker_latent_plan_clip(&bad, &cases[0].clip, &plan, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checks_of_the_per_frame_rule),
        cmocka_unit_test(test_halves_go_to_the_even_factor),
        cmocka_unit_test(test_share_of_a_frame_has_a_floor),
        cmocka_unit_test(test_clip_rule_counts_all_frames),
        cmocka_unit_test(test_small_sides_grow_to_a_factor_first),
        cmocka_unit_test(test_sides_are_multiples_and_pixels_within_limits),
        cmocka_unit_test(test_refusals_name_value_and_bound),
        cmocka_unit_test(test_frames_by_rate),
        cmocka_unit_test(test_indices_of_both_conventions),
        cmocka_unit_test(test_checks_of_tubelets),
        cmocka_unit_test(test_checks_of_causal_latents),
    };
    return stk_run_tests(tests);
}
