/* SPDX-License-Identifier: Apache-2.0
 *
 * A window is a slice of the whole, bit for bit, at any rate, from any format; and what lies past the end.
 */
#include "media/audio_fixture.h"
#include "base/rng.h"
#include "media/audio.h"

static const stoker_audio_spec defaults = STOKER_AUDIO_SPEC_INIT;

/* Windows of one file in one form against the whole in that form. */
static void compare_windows(const char *name, const stoker_audio_spec *form)
{
    stoker_audio_spec spec = *form;
    struct sound_part whole = sound_load(name, &spec);
    assert_int_equal(whole.status, STOKER_OK);
    const uint64_t total = whole.result.count;
    const size_t size = spec.dtype == STOKER_DTYPE_INT16 ? 2 : 4;
    struct stk_rng rng;
    stk_rng_init(&rng, 7, STK_RNG_CLIP);
    for (int i = 0; i < 20; i++) {
        uint64_t start = stk_rng_below(&rng, total + 300), count = 1 + stk_rng_below(&rng, total / 2);
        spec.start_s = (double)start / whole.result.rate, spec.duration_s = (double)count / whole.result.rate;
        struct sound_part part = sound_load(name, &spec);
        assert_int_equal(part.status, STOKER_OK);
        assert_int_equal(part.result.start, start);
        assert_int_equal(part.result.count, count);
        assert_int_equal(part.result.total, total);
        uint64_t valid = start >= total ? 0 : total - start < count ? total - start : count;
        assert_int_equal(part.result.valid, valid);
        for (uint32_t c = 0; c < part.result.channels; c++) {
            const uint8_t *got = (const uint8_t *)part.data + c * count * size;
            if (valid) assert_memory_equal(got, (uint8_t *)whole.data + (c * total + start) * size, valid * size);
            for (uint64_t at = valid * size; at < count * size; at++) assert_int_equal(got[at], 0);
        }
        stoker_audio_free(part.data);
    }
    stoker_audio_free(whole.data);
}

static void test_window_is_a_slice_of_the_whole(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    for (size_t i = 0; i < SOUND_FILES; i++) {
        spec = defaults;
        compare_windows(sound_files[i].name, &spec);
        spec.rate = 22050, spec.channels = 1;
        compare_windows(sound_files[i].name, &spec);
        spec.rate = 8000, spec.channels = 2, spec.dtype = STOKER_DTYPE_INT16;
        compare_windows(sound_files[i].name, &spec);
    }
    spec = defaults;
    compare_windows("valid_wav_adpcm", &spec); /* only a decode tells its length */
    compare_windows("odd_flac_hole", &spec);
    compare_windows("odd_mp3_cut_front", &spec);
}

static void test_resampled_sound_is_the_known_one(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    static const uint32_t rates[] = {8000, 16000, 24000, 44100};
    for (size_t r = 0; r < 4; r++) {
        spec.rate = rates[r];
        struct sound_part part = sound_load("valid_flac_mka_stereo", &spec);
        assert_int_equal(part.status, STOKER_OK);
        assert_int_equal(part.result.count, ((uint64_t)SOUND_SAMPLES * rates[r] + 15999) / 16000);
        assert_int_equal(part.result.channels, 2);
        assert_true(sound_error(&part) < 1e-3);
        stoker_audio_free(part.data);
    }
}

static void test_one_channel_is_copied_to_two(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    spec.rate = 22050, spec.channels = 1;
    struct sound_part mono = sound_load("valid_flac", &spec);
    spec.channels = 2;
    struct sound_part stereo = sound_load("valid_flac", &spec);
    assert_int_equal(stereo.result.count, mono.result.count);
    size_t bytes = mono.result.count * sizeof(float);
    assert_memory_equal(stereo.data, mono.data, bytes);
    assert_memory_equal((uint8_t *)stereo.data + bytes, mono.data, bytes);
    stoker_audio_free(mono.data);
    stoker_audio_free(stereo.data);
}

/* 16-bit files come through as they are. */
static void test_int16_is_lossless(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    spec.dtype = STOKER_DTYPE_INT16;
    struct sound_part part = sound_load("valid_wav_s16_stereo", &spec);
    assert_int_equal(part.status, STOKER_OK);
    static uint8_t bytes[44 + SOUND_SAMPLES * 4];
    FILE *file = fopen(sound_path("valid_wav_s16_stereo"), "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file); /* it was only read */
    assert_true(size > SOUND_SAMPLES * 4);
    const uint8_t *data = bytes + (80044 - SOUND_SAMPLES * 4);
    for (uint32_t i = 0; i < SOUND_SAMPLES; i++)
        for (uint32_t c = 0; c < 2; c++) {
            const uint8_t *at = data + 4 * i + 2 * c;
            int16_t expected = (int16_t)(uint16_t)(at[0] | at[1] << 8);
            assert_int_equal(((const int16_t *)part.data)[c * SOUND_SAMPLES + i], expected);
        }
    stoker_audio_free(part.data);
}

static void test_window_places(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    stoker_audio_result result, again;
    stoker_error err;
    static float dst[8000], second[8000];
    spec.rate = 16000, spec.channels = 1, spec.duration_s = 0.5, spec.start = STOKER_AUDIO_MIDDLE;
    assert_int_equal(stoker_audio_read(sound_path("valid_flac"), &spec, 0, dst, &result, &err), STOKER_OK);
    assert_int_equal(result.start, 6000);
    spec.start = STOKER_AUDIO_RANDOM;
    uint64_t least = UINT64_MAX, most = 0;
    for (uint64_t draw = 0; draw < 64; draw++) {
        assert_int_equal(stoker_audio_read(sound_path("valid_flac"), &spec, draw, dst, &result, &err), STOKER_OK);
        assert_int_equal(stoker_audio_read(sound_path("valid_flac"), &spec, draw, second, &again, &err), STOKER_OK);
        assert_int_equal(result.start, again.start);
        assert_memory_equal(dst, second, sizeof dst);
        assert_true(result.start <= 12000 && result.valid == 8000);
        least = result.start < least ? result.start : least;
        most = result.start > most ? result.start : most;
    }
    assert_true(least < 2000 && most > 10000); /* all over the sound: 64 draws miss a sixth once in 100,000 */
    spec.duration_s = 2;                       /* longer than the sound */
    static float longer[32000];
    assert_int_equal(stoker_audio_read(sound_path("valid_flac"), &spec, 5, longer, &result, &err), STOKER_OK);
    assert_int_equal(result.start, 0);
    assert_int_equal(result.valid, SOUND_SAMPLES);
}

static void test_short_sound_is_an_error_where_asked(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    spec.duration_s = 2, spec.short_sound = STOKER_AUDIO_SHORT_ERROR;
    struct sound_part part = sound_load("valid_flac", &spec);
    assert_int_equal(part.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(part.err.message, "the sound has 20000 samples, the window ends at 32000"));
    spec.duration_s = 1.25;
    part = sound_load("valid_flac", &spec);
    assert_int_equal(part.status, STOKER_OK);
    stoker_audio_free(part.data);
    spec.duration_s = 0, spec.start_s = 5;
    part = sound_load("valid_flac", &spec);
    assert_int_equal(part.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(part.err.message, "is empty"));
}

static void test_loss_is_counted_and_limited(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    struct sound_part part = sound_load("odd_flac_hole", &spec);
    assert_int_equal(part.status, STOKER_OK);
    assert_true(part.result.lost > 0 && part.result.lost <= 2304);
    stoker_audio_free(part.data);
    spec.damaged_max = -1;
    part = sound_load("odd_flac_hole", &spec);
    assert_int_equal(part.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(part.err.message, "of 20000 samples cannot be decoded, allowed share 0 ("));
    spec.duration_s = 0.25; /* before the hole */
    part = sound_load("odd_flac_hole", &spec);
    assert_int_equal(part.status, STOKER_OK);
    stoker_audio_free(part.data);
}

static void test_spectrogram_is_that_of_the_window(void **state)
{
    (void)state;
    stoker_audio_spec spec = defaults;
    stoker_mel_spec mel = STOKER_MEL_SPEC_INIT;
    stoker_error err;
    spec.rate = 16000, spec.channels = 1, spec.start_s = 0.5, spec.duration_s = 1;
    struct sound_part sound = sound_load("valid_opus_ogg", &spec);
    spec.mel = &mel;
    struct sound_part picture = sound_load("valid_opus_ogg", &spec);
    if (picture.status == STOKER_ERR_UNSUPPORTED) {
        stoker_audio_free(sound.data);
        STK_SKIP("built without kissfft");
    }
    assert_int_equal(picture.result.frames, 100);
    assert_int_equal(picture.result.valid, 12000);
    static float expected[80 * 100];
    const stoker_mono_sound mono = {sound.data, 16000, 16000};
    assert_int_equal(stoker_mel_compute(&mel, &mono, expected, &err), STOKER_OK);
    assert_memory_equal(picture.data, expected, sizeof expected);
    stoker_audio_free(sound.data);
    stoker_audio_free(picture.data);
}

/* A file whose packets are not kept in memory gives the same. */
static void test_large_files_are_read_again(void **state)
{
    (void)state;
    stoker_error err;
    stoker_audio_spec spec = defaults;
    struct stk_audio_form form;
    struct stk_listener *listener = NULL;
    static float kept[2 * 4000], read[2 * 4000];
    spec.rate = 16000, spec.channels = 2, spec.start_s = 0.7, spec.duration_s = 0.25;
    assert_int_equal(stk_audio_form_init(&form, &spec, true, &err), STOKER_OK);
    assert_int_equal(stk_listener_create(&listener, &err), STOKER_OK);
    static const char *const names[] = {"valid_flac_mka_stereo", "valid_mp3_stereo", "valid_aac_m4a",
                                        "valid_wav_adpcm"};
    for (size_t i = 0; i < 4; i++) {
        struct stk_file file = sound_open(names[i]);
        const struct stk_audio_target first = {.dst = kept}, second = {.dst = read};
        stk_listener_set_keep_bytes(listener, 1 << 20);
        assert_int_equal(stk_listener_read(listener, &file, &form, 0, &first, NULL, &err), STOKER_OK);
        stk_listener_set_keep_bytes(listener, 200);
        assert_int_equal(stk_listener_read(listener, &file, &form, 0, &second, NULL, &err), STOKER_OK);
        assert_memory_equal(kept, read, sizeof kept);
        stk_file_close(&file);
    }
    stk_listener_destroy(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_is_a_slice_of_the_whole),
        cmocka_unit_test(test_resampled_sound_is_the_known_one),
        cmocka_unit_test(test_one_channel_is_copied_to_two),
        cmocka_unit_test(test_int16_is_lossless),
        cmocka_unit_test(test_window_places),
        cmocka_unit_test(test_short_sound_is_an_error_where_asked),
        cmocka_unit_test(test_loss_is_counted_and_limited),
        cmocka_unit_test(test_spectrogram_is_that_of_the_window),
        cmocka_unit_test(test_large_files_are_read_again),
    };
    return stk_run_tests(tests);
}
