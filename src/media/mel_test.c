/* SPDX-License-Identifier: Apache-2.0
 *
 * Spectrograms: sizes, a tone in its band, silence, the ends, what is refused. tests/python/test_audio.py compares
 * values with references.
 */
#include "media/mel.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/unit.h"

#define RATE 16000u
#define SAMPLES 16000u

static float tone[SAMPLES];

static void fill_tone(double hertz)
{
    for (uint32_t i = 0; i < SAMPLES; i++) tone[i] = (float)(0.5 * sin(2 * 3.14159265358979323846 * hertz * i / RATE));
}

static stoker_status compute(const stoker_mel_spec *spec, uint64_t count, float *dst, stoker_error *err)
{
    const stoker_mono_sound sound = {tone, count, RATE};
    return stoker_mel_compute(spec, &sound, dst, err);
}

static float *make(const stoker_mel_spec *spec)
{
    stoker_error err;
    float *dst = malloc(spec->bands * stoker_mel_frames(spec, SAMPLES) * sizeof *dst);
    assert_non_null(dst);
    stoker_status status = compute(spec, SAMPLES, dst, &err);
    if (status == STOKER_ERR_UNSUPPORTED) {
        free(dst);
        STK_SKIP("built without kissfft");
    }
    assert_int_equal(status, STOKER_OK);
    return dst;
}

static void test_mel_counts_frames(void **state)
{
    (void)state;
    stoker_mel_spec spec = STOKER_MEL_SPEC_INIT;
    assert_int_equal(stoker_mel_frames(&spec, 480000), 3000);
    assert_int_equal(stoker_mel_frames(&spec, 479999), 2999);
    assert_int_equal(stoker_mel_frames(&spec, 201), 1);
    assert_int_equal(stoker_mel_frames(&spec, 200), 0);
    spec.last_frame = 1;
    assert_int_equal(stoker_mel_frames(&spec, 480000), 3001);
    spec.bands = 0;
    assert_int_equal(stoker_mel_frames(&spec, 480000), 0);
}

/* Centres of the 80 bands are known: linear up to 1,000 Hz (15 mel), 45.245640471924965 mel at 8,000 Hz. */
static void test_mel_puts_a_tone_into_its_band(void **state)
{
    (void)state;
    stoker_mel_spec spec = STOKER_MEL_SPEC_INIT;
    for (uint32_t band = 3; band < 26; band += 4) {
        fill_tone((band + 1) * 45.245640471924965 / 81 * 200 / 3);
        float *mel = make(&spec);
        uint64_t frames = stoker_mel_frames(&spec, SAMPLES);
        uint32_t best = 0;
        for (uint32_t b = 1; b < spec.bands; b++)
            if (mel[b * frames + 50] > mel[best * frames + 50]) best = b;
        assert_in_range(best, band - 1, band + 1); /* lines are 40 Hz apart, bands 37 */
        free(mel);
    }
}

static void test_mel_of_silence_is_the_floor(void **state)
{
    (void)state;
    stoker_mel_spec spec = STOKER_MEL_SPEC_INIT;
    memset(tone, 0, sizeof tone);
    float *mel = make(&spec);
    for (size_t i = 0; i < 80 * 100; i++) assert_true(mel[i] == (-10.0f + 4.0f) * 0.25f);
    free(mel);
    /* A tone in the second half only: the first half lies 8 below the largest value. */
    fill_tone(1000);
    memset(tone, 0, sizeof tone / 2);
    mel = make(&spec);
    float most = -100;
    for (size_t i = 0; i < 80 * 100; i++) most = mel[i] > most ? mel[i] : most;
    assert_true(fabsf(mel[10] - (most - 2.0f)) < 1e-6f);
    free(mel);
}

/* Frames only move with the sound: the same 400 samples give the same values anywhere. */
static void test_mel_frames_do_not_depend_on_their_place(void **state)
{
    (void)state;
    stoker_mel_spec spec = STOKER_MEL_SPEC_INIT;
    spec.range = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) tone[i] = (float)((i % 160u * 37u) % 101u) / 101.0f; /* period: one hop */
    float *mel = make(&spec);
    for (uint32_t b = 0; b < spec.bands; b++)
        for (uint32_t t = 3; t < 97; t++) assert_true(mel[b * 100 + t] == mel[b * 100 + 2]);
    free(mel);
}

static void test_mel_options(void **state)
{
    (void)state;
    stoker_mel_spec spec = {
        sizeof spec, 40,   512, 400, 200, 1, STOKER_MEL_HTK, STOKER_MEL_NORM_NONE, STOKER_MEL_LINEAR, 1,
        20,          7600, 0,   0,   0,   1};
    fill_tone(1000);
    float *amplitude = make(&spec);
    spec.power = 2;
    float *power = make(&spec);
    spec.log = STOKER_MEL_LN, spec.floor = 1e-6f;
    float *logs = make(&spec);
    for (size_t i = 0; i < 40 * 81; i++) {
        assert_true(amplitude[i] >= 0 && power[i] >= 0);
        assert_true(fabs((double)logs[i] - log(fmax((double)power[i], 1e-6))) < 1e-5);
    }
    /* A tone of amplitude 0.5 under a Hann window of 400: its line is 0.5 * 400 / 4 = 50; HTK triangles of height 1. */
    double most = 0;
    for (uint32_t b = 0; b < 40; b++) most = fmax(most, (double)amplitude[b * 81 + 40]);
    assert_true(most > 40 && most < 130);
    free(amplitude);
    free(power);
    free(logs);
}

/* Every member is part of what tables are for. */
static void test_mel_knows_its_form(void **state)
{
    (void)state;
    static const stoker_mel_spec good = STOKER_MEL_SPEC_INIT;
    struct stk_mel *mel = NULL;
    stoker_error err;
    stoker_mel_spec other[15];
    size_t count = 0;
    stoker_status status = stk_mel_create(&good, RATE, &mel, &err);
    if (status == STOKER_ERR_UNSUPPORTED) STK_SKIP("built without kissfft");
    assert_int_equal(status, STOKER_OK);
    for (size_t i = 0; i < 15; i++) other[i] = good;
    other[count++].bands++, other[count++].fft += 2, other[count++].window--, other[count++].hop++;
    other[count++].power = 1, other[count++].scale = STOKER_MEL_HTK, other[count++].norm = STOKER_MEL_NORM_NONE;
    other[count++].log = STOKER_MEL_LN, other[count++].last_frame = 1, other[count++].f_min = 1;
    other[count++].f_max = 7000, other[count++].floor = 1, other[count++].range = 9, other[count++].add = 3;
    other[count++].multiply = 2;
    assert_int_equal(count, 15);
    for (size_t i = 0; i < count; i++) assert_false(stk_mel_is(mel, &other[i], RATE));
    assert_true(stk_mel_is(mel, &good, RATE));
    assert_false(stk_mel_is(mel, &good, RATE + 1));
    assert_false(stk_mel_is(NULL, &good, RATE));
    stk_mel_destroy(mel);
}

static void test_mel_refuses(void **state)
{
    (void)state;
    static const stoker_mel_spec good = STOKER_MEL_SPEC_INIT;
    float dst[80];
    stoker_error err;
    stoker_mel_spec bad[16];
    size_t count = 0;
    for (size_t i = 0; i < 16; i++) bad[i] = good;
    bad[count++].bands = 1025;
    bad[count++].fft = 401;
    bad[count++].fft = 20000;
    bad[count++].window = 402;
    bad[count++].window = 1;
    bad[count++].hop = 0;
    bad[count++].power = 3;
    bad[count++].scale = (stoker_mel_scale)2;
    bad[count++].norm = (stoker_mel_norm)2;
    bad[count++].log = (stoker_mel_log)3;
    bad[count++].last_frame = 2;
    bad[count++].f_max = 8001;
    bad[count++].f_min = 8000;
    bad[count++].floor = 0;
    bad[count++].range = -1;
    bad[count++].multiply = NAN;
    for (size_t i = 0; i < count; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(compute(&bad[i], 1000, dst, &err), STOKER_ERR_INVALID_ARGUMENT);
        assert_true(err.message[0] != 0);
    }
    bad[0] = good, bad[0].struct_size++;
    assert_int_equal(compute(&bad[0], 1000, dst, &err), STOKER_ERR_UNSUPPORTED);
    stoker_status status = compute(&good, 200, dst, &err);
    assert_true(status == STOKER_ERR_INVALID_ARGUMENT || status == STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_mel_compute(&good, NULL, dst, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mel_counts_frames),
        cmocka_unit_test(test_mel_puts_a_tone_into_its_band),
        cmocka_unit_test(test_mel_of_silence_is_the_floor),
        cmocka_unit_test(test_mel_frames_do_not_depend_on_their_place),
        cmocka_unit_test(test_mel_options),
        cmocka_unit_test(test_mel_knows_its_form),
        cmocka_unit_test(test_mel_refuses),
    };
    return stk_run_tests(tests);
}
