/* SPDX-License-Identifier: Apache-2.0
 *
 * Change of rate and channels: independent of the pieces, as long as it should be, and what is mixed how.
 */
#include "media/audio_fixture.h"
#include "media/ffmpeg_audio.h"

#define INPUTS 4000u
static float inputs[2][INPUTS];

static struct stk_sound *open_stereo(struct stk_file *file)
{
    struct stk_sound *sound = NULL;
    stoker_error err;
    *file = sound_open("valid_wav_s16_stereo");
    assert_int_equal(stk_sound_open(file, &sound, &err), STOKER_OK);
    for (size_t i = 0; i < INPUTS; i++) {
        inputs[0][i] = (float)sound_at(0, (double)i / SOUND_RATE);
        inputs[1][i] = (float)sound_at(1, (double)i / SOUND_RATE);
    }
    return sound;
}

static size_t run(const struct stk_sound *sound, const struct stk_resampler_form *form, size_t piece, float *out)
{
    struct stk_resampler *resampler = NULL;
    stoker_error err;
    size_t total = 0;
    assert_int_equal(stk_resampler_create(sound, form, &resampler, &err), STOKER_OK);
    for (size_t at = 0;; at += piece) {
        const float *planes[2] = {inputs[0] + at, inputs[1] + at};
        const float *const *made = NULL;
        uint64_t got = 0, feed = at < INPUTS ? (INPUTS - at < piece ? INPUTS - at : piece) : 0;
        assert_int_equal(stk_resampler_run(resampler, feed ? planes : NULL, feed, &made, &got, &err), STOKER_OK);
        memcpy(out + total, made[0], got * sizeof *out);
        total += got;
        if (feed == 0) break;
    }
    stk_resampler_destroy(resampler);
    return total;
}

static void test_resampler_does_not_see_pieces(void **state)
{
    (void)state;
    static float whole[32768], pieces[32768];
    struct stk_file file;
    struct stk_sound *sound = open_stereo(&file);
    static const uint32_t rates[] = {8000, 11025, 15999, 22050, 44100, 48000};
    for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++) {
        const struct stk_resampler_form form = {rates[r], 2};
        size_t count = run(sound, &form, INPUTS, whole);
        uint64_t due = ((uint64_t)INPUTS * rates[r] + SOUND_RATE - 1) / SOUND_RATE;
        assert_true(count >= due && count <= due + 1);
        for (size_t piece = 1; piece < 2000; piece = piece * 3 + 1) {
            assert_int_equal(run(sound, &form, piece, pieces), count);
            assert_memory_equal(pieces, whole, count * sizeof *whole);
        }
        double worst = 0;
        for (size_t i = 200; i + 200 < due; i++) {
            double apart = fabs((double)whole[i] - sound_at(0, (double)i / rates[r]));
            if (apart > worst) worst = apart;
        }
        assert_true(worst < 2e-3); /* no shift either: one sample of delay would be 0.06 or more */
    }
    stk_sound_close(sound);
    stk_file_close(&file);
}

static void test_resampler_mixes_to_the_mean(void **state)
{
    (void)state;
    static float mono[8192];
    struct stk_file file;
    struct stk_sound *sound = open_stereo(&file);
    const struct stk_resampler_form form = {SOUND_RATE, 1};
    assert_int_equal(run(sound, &form, 777, mono), INPUTS);
    for (size_t i = 0; i < INPUTS; i++)
        assert_true(fabs((double)mono[i] - ((double)inputs[0][i] + (double)inputs[1][i]) / 2) < 1e-6);
    stk_sound_close(sound);
    stk_file_close(&file);
}

static void test_resampler_reach(void **state)
{
    (void)state;
    assert_int_equal(stk_resampler_reach(16000, 16000), 0);
    assert_true(stk_resampler_reach(16000, 48000) >= 32);
    assert_true(stk_resampler_reach(192000, 8000) >= 16 * 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resampler_does_not_see_pieces),
        cmocka_unit_test(test_resampler_mixes_to_the_mean),
        cmocka_unit_test(test_resampler_reach),
    };
    return stk_run_tests(tests);
}
