/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of sound share: the files of the fuzz corpus, which hold a known sound, and loading a part of one.
 */
#ifndef STK_MEDIA_AUDIO_FIXTURE_H
#define STK_MEDIA_AUDIO_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <stoker/audio.h>

#include "store/file.h"
#include "tests/support/unit.h"

#ifndef STK_GOLDEN_AUDIO
#error "the folder of the sounds comes from meson.build"
#endif

#define SOUND_RATE 16000u
#define SOUND_SAMPLES 20000u

struct sound_file {
    const char *name;
    uint32_t channels, rate;
    uint64_t samples; /* at `rate`; without those that a container does not declare as padding */
    double error;     /* root mean square from the known sound, at most */
    bool knows_start; /* its priming is declared */
};

static const struct sound_file sound_files[] = {
    {"valid_wav_s16_stereo", 2, 16000, 20000, 2e-5, true},
    {"valid_wav_s24", 1, 16000, 20000, 1e-7, true},
    {"valid_wav_u8", 1, 16000, 20000, 5e-3, true},
    {"valid_wav_alaw", 1, 16000, 20000, 1e-2, true},
    {"valid_au_mulaw", 1, 16000, 20000, 1e-2, true},
    {"valid_caf_f32", 1, 16000, 20000, 1e-7, true},
    {"valid_flac", 1, 16000, 20000, 1e-6, true},
    {"valid_flac_mka_stereo", 2, 16000, 20000, 1e-6, true},
    {"valid_alac_m4a", 1, 16000, 20000, 2e-5, true},
    {"valid_mp3", 1, 16000, 20000, 2e-2, true},
    {"valid_mp3_stereo", 2, 16000, 20000, 2e-2, true},
    {"valid_mp2", 1, 16000, 20736, 0, false},
    {"valid_aac_m4a", 1, 16000, 20000, 3e-2, true},
    {"valid_aac_adts", 1, 16000, 21504, 0, false},
    {"valid_vorbis_ogg", 1, 16000, 20000, 2e-2, true},
    {"valid_opus_ogg", 1, 48000, 60000, 3e-2, true},
    {"valid_vorbis_webm_stereo", 2, 16000, 20096, 2e-2, true},
    {"valid_opus_webm", 1, 48000, 60000, 3e-2, true},
};
#define SOUND_FILES (sizeof sound_files / sizeof sound_files[0])

static inline const char *sound_path(const char *name)
{
    static char path[4096];
    assert_true(snprintf(path, sizeof path, "%s/%s", STK_GOLDEN_AUDIO, name) < (int)sizeof path);
    return path;
}

static inline struct stk_file sound_open(const char *name)
{
    struct stk_file file;
    stoker_error err;
    assert_int_equal(stk_file_open(sound_path(name), &file, &err), STOKER_OK);
    return file;
}

/* The known sound at a time. */
static inline double sound_at(uint32_t channel, double seconds)
{
    const double pi = 3.14159265358979323846;
    return channel == 0 ? 0.5 * sin(2 * pi * 440 * seconds) : 0.25 * sin(2 * pi * 1320 * seconds);
}

/* A part of a sound; the caller frees `data` with stoker_audio_free(). */
struct sound_part {
    void *data;
    stoker_audio_result result;
    stoker_error err;
    stoker_status status;
};

static inline struct sound_part sound_load(const char *name, const stoker_audio_spec *spec)
{
    struct sound_part part;
    memset(&part, 0, sizeof part);
    part.status = stoker_audio_load(sound_path(name), spec, 0, &part.data, &part.result, &part.err);
    return part;
}

/* Root mean square difference of a part from the known sound, without its first and last 200 samples. */
static inline double sound_error(const struct sound_part *part)
{
    const stoker_audio_result *result = &part->result;
    double sum = 0;
    size_t values = 0;
    for (uint32_t c = 0; c < result->channels; c++)
        for (uint64_t i = 200; i + 200 < result->valid; i++) {
            double seconds = (double)(result->start + i) / result->rate;
            if (seconds > (double)(SOUND_SAMPLES - 200) / SOUND_RATE) break;
            double apart = (double)((const float *)part->data)[c * result->count + i] - sound_at(c, seconds);
            sum += apart * apart;
            values++;
        }
    assert_true(values > 0);
    return sqrt(sum / (double)values);
}

#endif
