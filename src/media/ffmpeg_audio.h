/* SPDX-License-Identifier: Apache-2.0
 *
 * Sound through FFmpeg, without its types: the packets of a file's sound, their places in time, decoded samples from
 * any sample on, and the change of rate and channels.
 *
 * Samples are counted, never timed: sample 0 is the first that is played. Where the packets say how many samples each
 * of them holds (`counted`), packet k has its place whatever was decoded before: one that cannot be decoded is silent
 * there and moves nothing. Else samples follow each other as they leave the decoder.
 *
 * One decoder thread, no network, no second file (media/ffmpeg.h); every loop is bounded by the packets.
 */
#ifndef STK_MEDIA_FFMPEG_AUDIO_H
#define STK_MEDIA_FFMPEG_AUDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/audio.h>
#include <stoker/error.h>

#include "store/file.h"

struct stk_sound;

struct stk_sound_facts {
    char codec[STOKER_CODEC_NAME_BYTES];
    uint32_t rate, channels;
    bool counted;      /* `samples` is exact */
    uint64_t samples;  /* of one channel; 0 if not counted */
    double duration_s; /* as the packets say; 0 if they do not */
};

/* Borrows `file` until stk_sound_close(). NOT_FOUND "no audio stream"; CORRUPT, UNSUPPORTED (more than 64 channels),
 * IO, NO_MEMORY. */
stoker_status stk_sound_open(const struct stk_file *file, struct stk_sound **out_sound, stoker_error *err);
void stk_sound_close(struct stk_sound *sound); /* NULL allowed */

/* Lists the packets and fills the facts; they are kept in memory if they take at most `keep_bytes_max`. Plain PCM in
 * WAV, AIFF and AU files is not listed: its samples have their places in the file. */
stoker_status stk_sound_scan(struct stk_sound *sound, uint64_t keep_bytes_max, stoker_error *err);
const struct stk_sound_facts *stk_sound_facts(const struct stk_sound *sound);

/* Makes stk_sound_next() give samples from `first` on, or from before it: at 0 unless the decoder's memory is known to
 * be shorter than what is decoded first, or `near` (then AAC, Opus and MPEG layers 1 and 2 start a second ahead). */
stoker_status stk_sound_start(struct stk_sound *sound, uint64_t first, bool near, stoker_error *err);

struct stk_sound_chunk {
    uint64_t position; /* of its first sample; the one before ended there, or it is the first */
    uint64_t count;
    bool lost;                  /* could not be decoded: silence */
    const float *const *planes; /* one a channel, until the next call */
};

/* STOKER_END after the last sample. CORRUPT if rate or channels change, or nothing can be decoded. */
stoker_status stk_sound_next(struct stk_sound *sound, struct stk_sound_chunk *out_chunk, stoker_error *err);
/* Of the packets that were decoded since stk_sound_open(). */
uint64_t stk_sound_bytes(const struct stk_sound *sound);
/* FFmpeg's last error text; empty if none. */
const char *stk_sound_last_message(const struct stk_sound *sound);

/* Changes rate and channels of a sound. Output i belongs to input i * in / out; what comes out does not depend on how
 * the input is cut into pieces. */
struct stk_resampler;

struct stk_resampler_form {
    uint32_t rate, channels;
};

stoker_status stk_resampler_create(const struct stk_sound *sound, const struct stk_resampler_form *form,
                                   struct stk_resampler **out_resampler, stoker_error *err);
void stk_resampler_destroy(struct stk_resampler *resampler); /* NULL allowed */

/* Feeds samples, or with `planes` NULL says that there are no more. The samples that come out stay until the next call;
 * there may be none. */
stoker_status stk_resampler_run(struct stk_resampler *resampler, const float *const *planes, uint64_t count,
                                const float *const **out_planes, uint64_t *out_count, stoker_error *err);
/* Samples of the input on each side that one output may depend on. */
uint64_t stk_resampler_reach(uint32_t from_rate, uint32_t to_rate);

#endif
