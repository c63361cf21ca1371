/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoded sound is the known sound, in its place; starting near the window changes nothing that is not said.
 */
#include "media/audio_fixture.h"
#include "media/ffmpeg_audio.h"

static void test_decoded_sound_is_the_known_one(void **state)
{
    (void)state;
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    for (size_t i = 0; i < SOUND_FILES; i++) {
        const struct sound_file *expected = &sound_files[i];
        struct sound_part part = sound_load(expected->name, &spec);
        assert_int_equal(part.status, STOKER_OK);
        assert_int_equal(part.result.valid, expected->samples);
        assert_int_equal(part.result.lost, 0);
        double error = sound_error(&part);
        /* One sample of shift would be 0.06 of the first tone: the priming is gone to the sample. */
        if (expected->knows_start && error > expected->error)
            fail_msg("%s: %g from the known sound, at most %g allowed", expected->name, error, expected->error);
        stoker_audio_free(part.data);
    }
}

/* Without a second's lead Opus remembers; with it the same bits were always seen. */
static void test_near_starts_later_and_gives_the_same_opus(void **state)
{
    (void)state;
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    static const char *const names[] = {"valid_opus_ogg", "valid_opus_webm"};
    for (size_t i = 0; i < 2; i++) {
        spec.start_s = 1.2, spec.duration_s = 0.05;
        spec.seek = STOKER_AUDIO_EXACT;
        struct sound_part exact = sound_load(names[i], &spec);
        spec.seek = STOKER_AUDIO_NEAR;
        struct sound_part near = sound_load(names[i], &spec);
        assert_int_equal(exact.status, STOKER_OK);
        assert_int_equal(near.status, STOKER_OK);
        assert_true(near.result.bytes_read < exact.result.bytes_read);
        assert_memory_equal(near.data, exact.data, exact.result.count * sizeof(float));
        stoker_audio_free(exact.data);
        stoker_audio_free(near.data);
    }
}

static void test_nothing_decodes_is_an_error(void **state)
{
    (void)state;
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    struct sound_part part = sound_load("bad_flac_noise", &spec);
    assert_int_equal(part.status, STOKER_ERR_CORRUPT);
    assert_null(part.data);
    assert_non_null(strstr(part.err.context, "bad_flac_noise"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoded_sound_is_the_known_one),
        cmocka_unit_test(test_near_starts_later_and_gives_the_same_opus),
        cmocka_unit_test(test_nothing_decodes_is_an_error),
    };
    return stk_run_tests(tests);
}
