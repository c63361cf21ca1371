/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets of sound: facts without decoding, priming and padding, damage that moves nothing, files too large to keep.
 */
#include "media/audio_fixture.h"
#include "media/ffmpeg_audio.h"

static struct stk_sound *open_sound(const struct stk_file *file, uint64_t keep)
{
    struct stk_sound *sound = NULL;
    stoker_error err;
    assert_int_equal(stk_sound_open(file, &sound, &err), STOKER_OK);
    assert_int_equal(stk_sound_scan(sound, keep, &err), STOKER_OK);
    return sound;
}

/* The first channel of everything from `first` on; returns the number of samples. */
static size_t collect(struct stk_sound *sound, uint64_t first, float *out, size_t cap, uint64_t *out_lost)
{
    struct stk_sound_chunk chunk;
    stoker_error err;
    stoker_status status;
    uint64_t lost = 0, expected = UINT64_MAX, end = first;
    assert_int_equal(stk_sound_start(sound, first, false, &err), STOKER_OK);
    while ((status = stk_sound_next(sound, &chunk, &err)) == STOKER_OK) {
        assert_true(expected == UINT64_MAX || chunk.position == expected);
        assert_true(expected != UINT64_MAX || chunk.position <= first);
        assert_true(chunk.count > 0);
        expected = chunk.position + chunk.count;
        lost += chunk.lost ? chunk.count : 0;
        for (uint64_t i = 0; i < chunk.count; i++)
            if (chunk.position + i >= first && chunk.position + i - first < cap)
                out[chunk.position + i - first] = chunk.planes[0][i];
        end = expected;
    }
    assert_int_equal(status, STOKER_END);
    if (out_lost) *out_lost = lost;
    return (size_t)(end - first);
}

static void test_sound_facts_without_decoding(void **state)
{
    (void)state;
    for (size_t i = 0; i < SOUND_FILES; i++) {
        struct stk_file file = sound_open(sound_files[i].name);
        struct stk_sound *sound = open_sound(&file, 0);
        const struct stk_sound_facts *facts = stk_sound_facts(sound);
        assert_true(facts->counted);
        assert_int_equal(facts->rate, sound_files[i].rate);
        assert_int_equal(facts->channels, sound_files[i].channels);
        assert_int_equal(facts->samples, sound_files[i].samples);
        assert_true(fabs(facts->duration_s - (double)facts->samples / facts->rate) < 1e-12);
        stk_sound_close(sound);
        stk_file_close(&file);
    }
}

static void test_sound_gives_what_it_counted(void **state)
{
    (void)state;
    static float whole[65536], again[65536];
    for (size_t i = 0; i < SOUND_FILES; i++) {
        struct stk_file file = sound_open(sound_files[i].name);
        struct stk_sound *kept = open_sound(&file, 1 << 20), *read = open_sound(&file, 100);
        uint64_t lost = 1;
        assert_int_equal(collect(kept, 0, whole, 65536, &lost), sound_files[i].samples);
        assert_int_equal(lost, 0);
        /* From every place, in any order, whether packets are kept or read again. */
        for (uint64_t step = 0; step < 12; step++) {
            uint64_t first = (step * 7919 + 1) % sound_files[i].samples;
            size_t left = sound_files[i].samples - first;
            assert_int_equal(collect(kept, first, again, 65536, NULL), left);
            assert_memory_equal(again, whole + first, left * sizeof *whole);
            assert_int_equal(collect(read, first, again, 65536, NULL), left);
            assert_memory_equal(again, whole + first, left * sizeof *whole);
        }
        stk_sound_close(kept);
        stk_sound_close(read);
        stk_file_close(&file);
    }
}

static void test_sound_starts_near(void **state)
{
    (void)state;
    static const char *const jumps[] = {"valid_wav_s16_stereo",  "valid_caf_f32",  "valid_flac",
                                        "valid_flac_mka_stereo", "valid_alac_m4a", "valid_mp3_stereo",
                                        "valid_vorbis_ogg"};
    static float out[65536];
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        struct stk_file file = sound_open(jumps[i]);
        struct stk_sound *sound = open_sound(&file, 1 << 20);
        (void)collect(sound, 0, out, 65536, NULL);
        uint64_t all = stk_sound_bytes(sound);
        (void)collect(sound, 15000, out, 65536, NULL);
        assert_true(stk_sound_bytes(sound) - all < all * 6 / 10);
        stk_sound_close(sound);
        stk_file_close(&file);
    }
}

/* A packet that cannot be decoded is silent in its place; the rest stays where it was. */
static void test_sound_keeps_places_after_damage(void **state)
{
    (void)state;
    static float good[32768], bad[32768];
    struct stk_file file = sound_open("valid_flac"), damaged = sound_open("odd_flac_hole");
    struct stk_sound *sound = open_sound(&file, 1 << 20), *hole = open_sound(&damaged, 1 << 20);
    uint64_t lost = 0;
    assert_int_equal(collect(sound, 0, good, 32768, NULL), SOUND_SAMPLES);
    assert_int_equal(collect(hole, 0, bad, 32768, &lost), SOUND_SAMPLES);
    assert_true(lost > 0 && lost <= 2304);
    size_t apart = 0;
    for (size_t i = 0; i < SOUND_SAMPLES; i++)
        if (good[i] != bad[i]) {
            assert_true(bad[i] == 0.0f);
            apart++;
        }
    assert_true(apart > 0 && apart <= lost);
    assert_true(stk_sound_last_message(hole)[0] != 0);
    stk_sound_close(sound);
    stk_sound_close(hole);
    stk_file_close(&file);
    stk_file_close(&damaged);
}

static void test_sound_of_a_cut_file_ends_early(void **state)
{
    (void)state;
    static float out[32768];
    struct stk_file file = sound_open("odd_wav_cut");
    struct stk_sound *sound = open_sound(&file, 1 << 20);
    assert_int_equal(stk_sound_facts(sound)->samples, 5000);
    assert_int_equal(collect(sound, 4000, out, 32768, NULL), 1000);
    assert_true(fabs((double)out[10] - sound_at(0, 4010.0 / SOUND_RATE)) < 1e-4);
    stk_sound_close(sound);
    stk_file_close(&file);
}

static void test_sound_says_why_not(void **state)
{
    (void)state;
    static const char *const names[] = {"bad_empty",    "bad_text",     "bad_wav_head",
                                        "bad_playlist", "bad_opus_cut", "bad_flac_noise"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct stk_file file = sound_open(names[i]);
        struct stk_sound *sound = NULL;
        stoker_error err = {0};
        assert_int_equal(stk_sound_open(&file, &sound, &err), STOKER_ERR_CORRUPT);
        assert_true(err.message[0] != 0);
        assert_null(sound);
        stk_file_close(&file);
    }
    struct stk_file file;
    struct stk_sound *sound = NULL;
    stoker_error err;
    assert_int_equal(stk_file_open(STK_GOLDEN_MEDIA "/rot90.mp4", &file, &err), STOKER_OK);
    assert_int_equal(stk_sound_open(&file, &sound, &err), STOKER_ERR_NOT_FOUND);
    assert_string_equal(err.message, "no audio stream");
    stk_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_facts_without_decoding),
        cmocka_unit_test(test_sound_gives_what_it_counted),
        cmocka_unit_test(test_sound_starts_near),
        cmocka_unit_test(test_sound_keeps_places_after_damage),
        cmocka_unit_test(test_sound_of_a_cut_file_ends_early),
        cmocka_unit_test(test_sound_says_why_not),
    };
    return stk_run_tests(tests);
}
