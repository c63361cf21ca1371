/* SPDX-License-Identifier: Apache-2.0
 *
 * The public entry points: facts of files, bad arguments, errors that name the file.
 */
#include "media/audio_fixture.h"

static void test_probe_facts(void **state)
{
    (void)state;
    stoker_audio_info info;
    stoker_error err;
    assert_int_equal(stoker_audio_probe(sound_path("valid_mp3_stereo"), 0, &info, &err), STOKER_OK);
    assert_string_equal(info.codec, "mp3");
    assert_int_equal(info.rate, 16000);
    assert_int_equal(info.channels, 2);
    assert_int_equal(info.samples, 20000);
    assert_true(info.duration_s == 1.25);
    assert_int_equal(info.bytes, 10964);
    assert_true(info.mtime_ns > 0);
    assert_int_equal(stoker_audio_probe(STK_GOLDEN_MEDIA "/audio_only.m4a", 0, &info, &err), STOKER_OK);
    assert_string_equal(info.codec, "aac");
    assert_true(info.duration_s > 0.5);
}

static void test_probe_exact_counts_by_decoding(void **state)
{
    (void)state;
    stoker_audio_info info;
    stoker_error err;
    assert_int_equal(stoker_audio_probe(sound_path("valid_wav_adpcm"), 0, &info, &err), STOKER_OK);
    assert_int_equal(info.samples, 0);
    assert_true(fabs(info.duration_s - 1.25) < 0.03);
    assert_int_equal(stoker_audio_probe(sound_path("valid_wav_adpcm"), STOKER_PROBE_EXACT, &info, &err), STOKER_OK);
    assert_int_equal(info.samples, 20360);
    assert_int_equal(stoker_audio_probe(sound_path("valid_flac"), STOKER_PROBE_EXACT, &info, &err), STOKER_OK);
    assert_int_equal(info.samples, 20000);
}

static void test_errors_name_the_file(void **state)
{
    (void)state;
    stoker_audio_info info;
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    stoker_audio_result result;
    stoker_error err = {0};
    void *data = NULL;
    float dst[16];
    assert_int_equal(stoker_audio_probe("/nowhere/a.wav", 0, &info, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(stoker_audio_probe(STK_GOLDEN_MEDIA "/rot90.mp4", 0, &info, &err), STOKER_ERR_NOT_FOUND);
    assert_string_equal(err.message, "no audio stream");
    assert_non_null(strstr(err.context, "rot90.mp4"));
    assert_int_equal(stoker_audio_probe("a", 8, &info, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_audio_probe(NULL, 0, &info, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_audio_load(sound_path("bad_text"), &spec, 0, &data, &result, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.context, "bad_text"));
    assert_int_equal(stoker_audio_load(sound_path("valid_flac"), &spec, 0, &data, NULL, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_audio_read(sound_path("valid_flac"), &spec, 0, dst, NULL, &err),
                     STOKER_ERR_INVALID_ARGUMENT); /* no rate */
    assert_null(data);
    stoker_audio_free(NULL);
}

static void test_read_writes_what_load_gives(void **state)
{
    (void)state;
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    stoker_error err;
    stoker_audio_result result;
    float dst[2 * 480 + 2];
    spec.rate = 48000, spec.channels = 2, spec.start_s = 0.1, spec.duration_s = 0.01;
    assert_int_equal(stoker_audio_sample_bytes(&spec), sizeof dst - 8);
    for (size_t i = 0; i < 2 * 480 + 2; i++) dst[i] = 99;
    assert_int_equal(stoker_audio_read(sound_path("valid_vorbis_ogg"), &spec, 0, dst, &result, &err), STOKER_OK);
    struct sound_part part = sound_load("valid_vorbis_ogg", &spec);
    assert_memory_equal(part.data, dst, sizeof dst - 8);
    assert_true(dst[960] == 99 && dst[961] == 99);
    assert_int_equal(result.total, 60000);
    assert_int_equal(memcmp(&result, &part.result, sizeof result), 0);
    stoker_audio_free(part.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_facts),
        cmocka_unit_test(test_probe_exact_counts_by_decoding),
        cmocka_unit_test(test_errors_name_the_file),
        cmocka_unit_test(test_read_writes_what_load_gives),
    };
    return stk_run_tests(tests);
}
