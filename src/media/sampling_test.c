/* SPDX-License-Identifier: Apache-2.0
 *
 * Each convention against its formula, over all small clips; the places where libraries differ; randomness of clips.
 */
#include "media/sampling.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/unit.h"

static struct stk_sampling sampling_of(stoker_video_spec spec)
{
    struct stk_sampling sampling;
    stoker_error err;
    if (stk_sampling_init(&sampling, &spec, &err) != STOKER_OK) fail_msg("%s", err.message);
    return sampling;
}

static struct stk_sampling plain(stoker_sampling convention, uint32_t frames, uint32_t stride)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.sampling = convention, spec.frames = frames, spec.stride = stride;
    return sampling_of(spec);
}

static uint32_t choose(const struct stk_sampling *sampling, uint64_t n, uint64_t draw, uint64_t *out)
{
    const struct stk_clip clip = {n, 30000, 1001};
    uint32_t count = 0, again = 0;
    stoker_error err;
    if (stk_sampling_choose(sampling, &clip, draw, out, &count, &err) != STOKER_OK) fail_msg("%s", err.message);
    assert_int_equal(stk_sampling_count(sampling, &clip, &again, &err), STOKER_OK);
    assert_int_equal(count, again);
    assert_in_range(count, 1, sampling->frames);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(out[i] < n);
        assert_true(i == 0 || out[i] > out[i - 1]);
    }
    return count;
}

static void test_uniform_rounds_half_to_even(void **state)
{
    (void)state;
    uint64_t got[64];
    /* 71 frames, 29 wanted: 70/28 = 2.5 gives 2, 7.5 gives 8 */
    struct stk_sampling sampling = plain(STOKER_SAMPLING_UNIFORM, 29, 0);
    assert_int_equal(choose(&sampling, 71, 0, got), 29);
    assert_int_equal(got[1], 2);
    assert_int_equal(got[3], 8);
    for (uint32_t wanted = 1; wanted < 40; wanted++) {
        sampling = plain(STOKER_SAMPLING_UNIFORM, wanted, 0);
        for (uint64_t n = 1; n < 200; n++) {
            uint32_t count = choose(&sampling, n, 0, got);
            assert_int_equal(count, n < wanted ? n : wanted);
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(got[i],
                                 count == 1 ? 0 : (uint64_t)rint((double)i * (double)(n - 1) / (double)(count - 1)));
        }
    }
    assert_int_equal(stk_sampling_uniform(UINT32_MAX, 65536, 65535), UINT32_MAX - 1);
    assert_int_equal(stk_sampling_uniform(3, 5, 4), 2);
}

static void test_step_rounds_down(void **state)
{
    (void)state;
    uint64_t got[64];
    for (uint32_t wanted = 1; wanted < 40; wanted++) {
        struct stk_sampling sampling = plain(STOKER_SAMPLING_STEP, wanted, 0);
        for (uint64_t n = 1; n < 200; n++) {
            uint32_t count = choose(&sampling, n, 0, got);
            assert_int_equal(count, n < wanted ? n : wanted);
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(got[i], n < wanted ? i : (uint64_t)floor((double)i * (double)n / (double)wanted));
        }
    }
}

static void test_clips_begin_where_their_name_says(void **state)
{
    (void)state;
    uint64_t got[8];
    struct stk_sampling first = plain(STOKER_SAMPLING_FIRST, 4, 3), middle = plain(STOKER_SAMPLING_MIDDLE, 4, 3),
                        last = plain(STOKER_SAMPLING_LAST, 4, 3);
    assert_int_equal(choose(&first, 21, 0, got), 4);
    assert_int_equal(got[0], 0);
    assert_int_equal(got[3], 9);
    assert_int_equal(choose(&middle, 21, 0, got), 4); /* 11 are left over: 5 before, 6 behind */
    assert_int_equal(got[0], 5);
    assert_int_equal(got[3], 14);
    assert_int_equal(choose(&last, 21, 0, got), 4);
    assert_int_equal(got[0], 11);
    assert_int_equal(got[3], 20);
}

static void test_clips_longer_than_the_file_give_what_there_is(void **state)
{
    (void)state;
    for (stoker_sampling convention = STOKER_SAMPLING_FIRST; convention <= STOKER_SAMPLING_RANDOM; convention++)
        for (uint64_t n = 1; n <= 12; n++) {
            uint64_t got[8];
            struct stk_sampling sampling = plain(convention, 4, 3);
            uint32_t count = choose(&sampling, n, 7, got), expected = n >= 10 ? 4 : (uint32_t)((n - 1) / 3 + 1);
            assert_int_equal(count, expected);
            if (n < 10) assert_int_equal(got[0], 0);
            for (uint32_t i = 1; i < count; i++) assert_int_equal(got[i] - got[i - 1], 3);
        }
}

static void test_b3_random_clip_is_a_function_of_the_draw(void **state)
{
    (void)state;
    struct stk_sampling sampling = plain(STOKER_SAMPLING_RANDOM, 4, 2);
    uint32_t starts[14] = {0};
    for (uint64_t epoch = 0; epoch < 2800; epoch++) {
        uint64_t draw = stk_rng_draw(1, epoch, 17, 0), got[4], again[4];
        assert_int_equal(choose(&sampling, 20, draw, got), 4);
        assert_int_equal(choose(&sampling, 20, draw, again), 4);
        assert_memory_equal(got, again, sizeof got);
        starts[got[0]]++; /* 0 to 13 */
    }
    for (int i = 0; i < 14; i++) assert_in_range(starts[i], 130, 270);
}

/* The formula of the specification, step by step, in rational numbers that doubles hold exactly. */
static uint64_t expected_by_rate(uint64_t n, double per_frame, uint32_t min, uint32_t max, uint32_t f, bool nearest)
{
    double low = ceil(min / (double)f) * f, high = floor((double)(max < n ? max : n) / f) * f;
    double k = (double)n * per_frame;
    k = fmin(fmin(fmax(k, low), high), (double)n);
    return (uint64_t)((nearest ? rint(k / f) : floor(k / f)) * f);
}

static void test_by_rate_follows_its_formula(void **state)
{
    (void)state;
    static const struct {
        double fps;
        uint64_t num, den;
        uint32_t min, max, factor;
    } cases[] = {{2, 32, 1, 4, 768, 2}, {1, 16, 1, 4, 32, 2}, {4, 64, 1, 1, 768, 4},
                 {8, 16, 1, 6, 50, 4},  {2, 64, 1, 5, 7, 2},  {32, 16, 1, 4, 768, 2}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int nearest = 0; nearest < 2; nearest++)
            for (int step = 0; step < 2; step++) {
                stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
                spec.frames = 64, spec.sampling = STOKER_SAMPLING_RATE, spec.fps = cases[c].fps;
                spec.frames_min = cases[c].min, spec.frames_max = cases[c].max, spec.frame_factor = cases[c].factor;
                spec.rounding = (stoker_rounding)nearest, spec.spread = (stoker_spread)step;
                struct stk_sampling sampling = sampling_of(spec);
                uint32_t max = cases[c].max < 64 ? cases[c].max : 64;
                for (uint64_t n = cases[c].factor; n < 1500; n++) {
                    const struct stk_clip clip = {n, cases[c].num, cases[c].den};
                    uint64_t got[64], k = expected_by_rate(n, cases[c].fps / (double)cases[c].num, cases[c].min, max,
                                                           cases[c].factor, nearest);
                    uint32_t count;
                    stoker_error err;
                    stoker_status status = stk_sampling_choose(&sampling, &clip, 0, got, &count, &err);
                    if (k < cases[c].factor || k > n) {
                        assert_int_equal(status, STOKER_ERR_CORRUPT);
                        continue;
                    }
                    assert_int_equal(status, STOKER_OK);
                    assert_int_equal(count, k);
                    for (uint32_t i = 0; i < count; i++)
                        assert_int_equal(got[i], step ? i * n / k : stk_sampling_uniform(n, count, i));
                }
            }
}

static void test_by_rate_where_libraries_differ(void **state)
{
    (void)state;
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 768, spec.sampling = STOKER_SAMPLING_RATE;
    struct stk_sampling sampling = sampling_of(spec);
    /* 233 frames at 29.97: 15.55 frames at 2 a second. Rounding down gives 14, rounding to the nearest 16. */
    const struct stk_clip clip = {233, 30000, 1001};
    uint32_t count;
    assert_int_equal(stk_sampling_count(&sampling, &clip, &count, NULL), STOKER_OK);
    assert_int_equal(count, 14);
    spec.rounding = STOKER_ROUNDING_NEAREST;
    sampling = sampling_of(spec);
    assert_int_equal(stk_sampling_count(&sampling, &clip, &count, NULL), STOKER_OK);
    assert_int_equal(count, 16);
    /* Exactly 1001 frames in integers; one that counts in doubles may find a little less, and round it down. */
    spec.frames = spec.frames_max = 2000, spec.frame_factor = 1, spec.fps = 3, spec.rounding = STOKER_ROUNDING_FLOOR;
    sampling = sampling_of(spec);
    const struct stk_clip exact = {10000, 30000, 1001};
    assert_int_equal(stk_sampling_count(&sampling, &exact, &count, NULL), STOKER_OK);
    assert_int_equal(count, 1001);
}

static void test_by_rate_says_what_is_missing(void **state)
{
    (void)state;
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    stoker_error err;
    uint32_t count;
    spec.frames = 8, spec.sampling = STOKER_SAMPLING_RATE;
    struct stk_sampling sampling = sampling_of(spec);
    const struct stk_clip one = {1, 25, 1}, timeless = {100, 0, 1}, none = {0, 25, 1};
    assert_int_equal(stk_sampling_count(&sampling, &one, &count, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.message, "the clip has 1 frames, sampling by rate needs at least 2");
    assert_int_equal(stk_sampling_count(&sampling, &timeless, &count, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "frames it has a second"));
    assert_int_equal(stk_sampling_count(&sampling, &none, &count, &err), STOKER_ERR_CORRUPT);
}

static void expect_refused(stoker_video_spec spec, const char *text)
{
    struct stk_sampling sampling;
    stoker_error err;
    assert_int_equal(stk_sampling_init(&sampling, &spec, &err), STOKER_ERR_INVALID_ARGUMENT);
    if (!strstr(err.message, text)) fail_msg("'%s' does not name %s", err.message, text);
}

static void test_fields_out_of_bounds_are_named(void **state)
{
    (void)state;
    stoker_video_spec good = STOKER_VIDEO_SPEC_INIT, spec;
    good.frames = 8;
    spec = good, spec.sampling = (stoker_sampling)7, expect_refused(spec, "sampling convention 7");
    spec = good, spec.frames = 0, expect_refused(spec, "frames is 0");
    spec = good, spec.frames = 65537, expect_refused(spec, "frames is 65537");
    spec = good, spec.stride = 2, expect_refused(spec, "stride is 2");
    spec = good, spec.fps = 2, expect_refused(spec, "fps, frames_min");
    spec = good, spec.rounding = (stoker_rounding)2, expect_refused(spec, "rounding 2");
    spec = good, spec.spread = (stoker_spread)2, expect_refused(spec, "spread 2");
    spec = good, spec.sampling = STOKER_SAMPLING_LAST, spec.stride = 65537, expect_refused(spec, "stride is 65537");
    good.sampling = STOKER_SAMPLING_RATE;
    spec = good, spec.fps = -1, expect_refused(spec, "fps is -1");
    spec = good, spec.fps = NAN, expect_refused(spec, "fps is");
    spec = good, spec.fps = 1001, expect_refused(spec, "fps is 1001");
    spec = good, spec.frame_factor = 65, expect_refused(spec, "frame_factor is 65");
    spec = good, spec.frame_factor = 10, expect_refused(spec, "largest number of frames (8)");
    spec = good, spec.frames_min = 65537, expect_refused(spec, "frames_min is 65537");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform_rounds_half_to_even),
        cmocka_unit_test(test_step_rounds_down),
        cmocka_unit_test(test_clips_begin_where_their_name_says),
        cmocka_unit_test(test_clips_longer_than_the_file_give_what_there_is),
        cmocka_unit_test(test_b3_random_clip_is_a_function_of_the_draw),
        cmocka_unit_test(test_by_rate_follows_its_formula),
        cmocka_unit_test(test_by_rate_where_libraries_differ),
        cmocka_unit_test(test_by_rate_says_what_is_missing),
        cmocka_unit_test(test_fields_out_of_bounds_are_named),
    };
    return stk_run_tests(tests);
}
