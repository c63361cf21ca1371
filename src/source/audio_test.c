/* SPDX-License-Identifier: Apache-2.0
 *
 * Native sound sources: what describe says, blobs that travel, samples that equal those made directly, random windows
 * from the draw alone, bad files.
 */
#include <stoker/audio.h>

#include <stdio.h>

#include "source/source_fixture.h"

#define FOLDER STK_GOLDEN_AUDIO "/"

static stoker_audio_spec half_a_second(void)
{
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    spec.rate = 16000, spec.channels = 1, spec.duration_s = 0.5;
    return spec;
}

static struct stoker_source *make(const char *const *paths, size_t count, const stoker_audio_spec *spec)
{
    const stoker_path_list list = {.paths = paths, .count = count};
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_audio(&list, spec, &source, &err), STOKER_OK);
    return source;
}

static void test_audio_source_describes_and_travels(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "valid_flac", "/nowhere/b.wav"};
    stoker_audio_spec spec = half_a_second();
    spec.channels = 2, spec.dtype = STOKER_DTYPE_INT16;
    struct stoker_source *source = make(paths, 2, &spec), *copy = reopen(source);
    assert_memory_equal(source->digest, copy->digest, 32);
    stoker_descriptor d;
    stoker_error err;
    assert_int_equal(stoker_source_describe(copy, 0, &d, &err), STOKER_OK);
    assert_string_equal(d.path, paths[0]);
    assert_int_equal(d.dtype, STOKER_DTYPE_INT16);
    assert_int_equal(d.ndim, 2);
    assert_int_equal(d.shape[0], 2);
    assert_int_equal(d.shape[1], 8000);
    assert_int_equal(d.sample_bytes, 2 * 8000 * 2);
    assert_true(d.bytes > 0 && d.mtime_ns > 0);
    static uint8_t dst[2 * 8000 * 2];
    assert_int_equal(stoker_source_materialise(copy, 1, dst, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/b.wav"));
    stoker_source_close(source);
    stoker_source_close(copy);
}

static void test_audio_source_makes_what_a_read_makes(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "valid_mp3_stereo", FOLDER "valid_opus_ogg"};
    stoker_audio_spec spec = half_a_second();
    stoker_error err;
    static float expected[8000], got[8000];
    spec.start = STOKER_AUDIO_RANDOM;
    struct stoker_source *source = make(paths, 2, &spec), *copy = reopen(source);
    uint64_t differ = 0;
    for (uint64_t id = 0; id < 2; id++)
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            const stoker_draw_key key = {1, epoch, id, 0};
            const stoker_sample sample = {id, stoker_sample_draw(&key)};
            assert_int_equal(stoker_audio_read(paths[id], &spec, sample.draw, expected, NULL, &err), STOKER_OK);
            assert_int_equal(stoker_source_make(source, &sample, got, &err), STOKER_OK);
            assert_memory_equal(got, expected, sizeof got);
            memset(got, 0, sizeof got);
            assert_int_equal(stoker_source_make(copy, &sample, got, &err), STOKER_OK);
            assert_memory_equal(got, expected, sizeof got);
            const stoker_sample other = {id, sample.draw + 1};
            assert_int_equal(stoker_source_make(copy, &other, got, &err), STOKER_OK);
            differ += memcmp(got, expected, sizeof got) != 0;
        }
    assert_true(differ >= 7); /* of 8 draws of about 12,000 places */
    stoker_source_close(source);
    stoker_source_close(copy);
}

static void test_audio_source_makes_spectrograms(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "valid_flac"};
    stoker_audio_spec spec = half_a_second();
    stoker_mel_spec mel = STOKER_MEL_SPEC_INIT;
    stoker_error err;
    static float expected[80 * 50], got[80 * 50];
    spec.mel = &mel;
    stoker_status status = stoker_audio_read(paths[0], &spec, 0, expected, NULL, &err);
    if (status == STOKER_ERR_UNSUPPORTED) STK_SKIP("built without kissfft");
    assert_int_equal(status, STOKER_OK);
    struct stoker_source *source = make(paths, 1, &spec), *copy = reopen(source);
    stoker_descriptor d;
    assert_int_equal(stoker_source_describe(copy, 0, &d, &err), STOKER_OK);
    assert_int_equal(d.shape[0], 80);
    assert_int_equal(d.shape[1], 50);
    for (int again = 0; again < 2; again++) {
        memset(got, 0, sizeof got);
        assert_int_equal(stoker_source_materialise(copy, 0, got, &err), STOKER_OK);
        assert_memory_equal(got, expected, sizeof got);
    }
    stoker_source_close(source);
    stoker_source_close(copy);
}

static void test_audio_source_marks_windows(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "valid_flac", FOLDER "odd_wav_cut"};
    stoker_audio_spec spec = half_a_second();
    stoker_error err;
    spec.start_s = 0.1, spec.mark = 1;
    struct stoker_source *source = make(paths, 2, &spec);
    assert_string_equal(stoker_source_member(source, 0), "audio");
    assert_string_equal(stoker_source_member(source, 1), "window");
    assert_null(stoker_source_member(source, 2));
    const int64_t expected[2][3] = {{1600, 8000, 20000}, {1600, 3400, 5000}};
    static uint8_t sample[32000 + 24]; /* 32,000 is a multiple of 256 */
    for (uint64_t id = 0; id < 2; id++) {
        stoker_descriptor d;
        assert_int_equal(stoker_source_describe(source, id, &d, &err), STOKER_OK);
        assert_int_equal(d.sample_bytes, sizeof sample);
        assert_int_equal(stoker_source_materialise(source, id, sample, &err), STOKER_OK);
        assert_memory_equal(sample + 32000, expected[id], 24);
    }
    stoker_source_close(source);
}

static void test_audio_source_names_bad_files(void **state)
{
    (void)state;
    const char *paths[] = {FOLDER "bad_text", FOLDER "odd_wav_cut"};
    stoker_audio_spec spec = half_a_second();
    static float dst[8000];
    stoker_error err;
    spec.short_sound = STOKER_AUDIO_SHORT_ERROR;
    struct stoker_source *source = make(paths, 2, &spec);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.context, "bad_text"));
    assert_int_equal(stoker_source_materialise(source, 1, dst, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "the sound has 5000 samples"));
    stoker_source_close(source);
}

static void test_audio_source_refuses_bad_forms_and_blobs(void **state)
{
    (void)state;
    const char *paths[] = {"/a", "/b/c"};
    const stoker_path_list list = {.paths = paths, .count = 2};
    stoker_audio_spec spec = half_a_second();
    stoker_mel_spec mel = STOKER_MEL_SPEC_INIT;
    struct stoker_source *source = NULL;
    stoker_error err;
    spec.duration_s = 0;
    assert_int_equal(stoker_source_create_audio(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_source_create_audio(NULL, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(source);
    spec.duration_s = 1, spec.mel = &mel, spec.mark = 1;
    source = make(paths, 2, &spec);
    damage(source, stk_audio_source_check);
    damage(source, stk_media_source_check);
    stoker_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audio_source_describes_and_travels),
        cmocka_unit_test(test_audio_source_makes_what_a_read_makes),
        cmocka_unit_test(test_audio_source_makes_spectrograms),
        cmocka_unit_test(test_audio_source_marks_windows),
        cmocka_unit_test(test_audio_source_names_bad_files),
        cmocka_unit_test(test_audio_source_refuses_bad_forms_and_blobs),
    };
    return stk_run_tests(tests);
}
