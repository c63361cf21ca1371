/* SPDX-License-Identifier: Apache-2.0
 *
 * Probe sound, decode windows of it, exact by sample, and make log-mel spectrograms: any sound file that FFmpeg's
 * libraries decode, and the sound of videos.
 *
 * Time 0 is the first sample that a player plays: the priming and padding that a file declares are not part of its
 * sound. Samples are counted per channel. A window equals the same slice of the whole decode, bit for bit, unless a
 * spec says STOKER_AUDIO_NEAR.
 */
#ifndef STOKER_AUDIO_H
#define STOKER_AUDIO_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>
#include <stoker/media.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Facts about the sound of one file, read from its packets without decoding. */
typedef struct stoker_audio_info {
    char codec[STOKER_CODEC_NAME_BYTES]; /**< FFmpeg's short name: "flac", "pcm_s16le" */
    uint32_t rate;                       /**< samples per second of one channel */
    uint32_t channels;
    uint64_t samples;  /**< of one channel; 0 if only a decode can tell */
    double duration_s; /**< seconds; as the container claims where `samples` is 0 */
    uint64_t bytes;    /**< size of the file */
    int64_t mtime_ns;  /**< modification time, nanoseconds since 1970 */
} stoker_audio_info;

/** Read the facts of the best sound of one file: the first that is marked as default, else the first.
 *
 * Owns:    `path` is borrowed; on success *out_info is filled, on failure it is untouched.
 * Threads: any; one decoder thread is used.
 * Errors:  NOT_FOUND, CORRUPT, UNSUPPORTED, IO, NO_MEMORY; "no audio stream" is NOT_FOUND with exactly that message.
 *          STOKER_PROBE_EXACT in `flags` decodes the file once and counts the samples.
 */
STOKER_API stoker_status stoker_audio_probe(const char *path, uint32_t flags, stoker_audio_info *out_info,
                                            stoker_error *err);

typedef enum stoker_mel_scale {
    STOKER_MEL_SLANEY = 0, /**< linear below 1,000 Hz (3/200 mel a hertz), 27 mel for each factor 6.4 above */
    STOKER_MEL_HTK = 1     /**< 2595 * log10(1 + f/700) */
} stoker_mel_scale;

typedef enum stoker_mel_norm {
    STOKER_MEL_NORM_AREA = 0, /**< each triangle has the height 2 / (its width in hertz) */
    STOKER_MEL_NORM_NONE = 1  /**< each has the height 1 */
} stoker_mel_norm;

typedef enum stoker_mel_log {
    STOKER_MEL_LOG10 = 0,
    STOKER_MEL_LN = 1,
    STOKER_MEL_LINEAR = 2 /**< no logarithm */
} stoker_mel_log;

/** What a spectrogram looks like. STOKER_MEL_SPEC_INIT has the values of the public Whisper models with 80 bands; those
 * of version large-v3 have 128.
 *
 * Frame t covers `window` samples around sample t*hop, under a periodic Hann window that is centred in `fft` samples;
 * the sound is mirrored at both ends. A value is log(max(the sum over a band's triangle of |spectrum|^power, floor)),
 * then raised to at least (the largest value of all) - range, then (value + add) * multiply.
 */
typedef struct stoker_mel_spec {
    uint32_t struct_size;
    uint32_t bands;  /**< 1 to 1,024 */
    uint32_t fft;    /**< even, 16 to 16,384 */
    uint32_t window; /**< 2 to fft */
    uint32_t hop;    /**< 1 to 65,535 */
    uint32_t power;  /**< 1 or 2 */
    stoker_mel_scale scale;
    stoker_mel_norm norm;
    stoker_mel_log log;
    uint32_t last_frame; /**< 0: samples/hop frames; 1: one more, around the end */
    float f_min, f_max;  /**< hertz; f_max 0: half the rate */
    float floor;         /**< above 0, unless linear */
    float range;         /**< 0: not limited */
    float add, multiply;
} stoker_mel_spec;

#define STOKER_MEL_SPEC_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(stoker_mel_spec), 80, 400, 400, 160, 2, STOKER_MEL_SLANEY, STOKER_MEL_NORM_AREA, STOKER_MEL_LOG10, 0,   \
            0, 0, 1e-10f, 8, 4, 0.25f                                                                                  \
    }

/** Number of frames that a sound of so many samples has, or 0 if the spec is not valid.
 *
 * Owns:    `spec` is borrowed.
 * Threads: any.
 * Errors:  none; stoker_mel_compute() says what is wrong with a spec.
 */
STOKER_API uint64_t stoker_mel_frames(const stoker_mel_spec *spec, uint64_t samples);

/** Mono sound at `rate` samples per second, borrowed. */
typedef struct stoker_mono_sound {
    const float *samples;
    uint64_t count;
    uint32_t rate;
} stoker_mono_sound;

/** Make the spectrogram of a sound: `bands` rows of stoker_mel_frames() values each.
 *
 * Owns:    all arguments are borrowed; exactly bands * frames values of `dst` are written on success.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (the spec; a sound of fft/2 samples or fewer), UNSUPPORTED (a build without KISS FFT),
 *          LIMIT (over 16 GiB), NO_MEMORY.
 */
STOKER_API stoker_status stoker_mel_compute(const stoker_mel_spec *spec, const stoker_mono_sound *sound, float *dst,
                                            stoker_error *err);

typedef enum stoker_audio_start {
    STOKER_AUDIO_AT = 0,     /**< the window begins at start_s */
    STOKER_AUDIO_MIDDLE = 1, /**< half of what is left over lies before it (rounded down) */
    STOKER_AUDIO_RANDOM = 2  /**< anywhere where it fits, from the draw */
} stoker_audio_start;

typedef enum stoker_audio_short {
    STOKER_AUDIO_PAD = 0,        /**< what lies past the end of the sound is zero */
    STOKER_AUDIO_SHORT_ERROR = 1 /**< a window that reaches past the end is a CORRUPT sample */
} stoker_audio_short;

typedef enum stoker_audio_seek {
    STOKER_AUDIO_EXACT = 0, /**< a decoder that remembers more than a few packets starts at the file's first one */
    STOKER_AUDIO_NEAR = 1   /**< AAC and Opus too start near the window: quick in long files, but what they make up
                                 (noise) or remember for ever may differ from the slice of the whole decode */
} stoker_audio_seek;

/** Which part of a sound, in which form. Zero means the default that is named. */
typedef struct stoker_audio_spec {
    uint32_t struct_size;
    uint32_t rate;      /**< samples per second: 100 to 768,000; 0: as the file (stoker_audio_load() only) */
    uint32_t channels;  /**< 1 or 2, or 0: as the file (stoker_audio_load() only). See docs/reference/audio.md
                                     for how channels are mixed */
    stoker_dtype dtype; /**< float32 (default, -1 to 1) or int16; spectrograms are float32 */
    double start_s;     /**< seconds, rounded to a sample; only with STOKER_AUDIO_AT */
    double duration_s;  /**< seconds, rounded to a sample; 0: to the end (stoker_audio_load() only) */
    stoker_audio_start start;
    stoker_audio_short short_sound;
    stoker_audio_seek seek;
    uint32_t mark;              /**< 1: samples of a source have a second tensor, `window`: int64[3] {start of the
                                     window, samples of it that the file has, samples of the whole file} */
    double damaged_max;         /**< largest share of a window that may be undecodable (it is silent then); default
                                     0.5; negative: none */
    const stoker_mel_spec *mel; /**< NULL: samples; else their spectrogram, of one channel */
} stoker_audio_spec;

#define STOKER_AUDIO_SPEC_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(stoker_audio_spec), 0, 0, STOKER_DTYPE_DEFAULT, 0, 0, STOKER_AUDIO_AT, STOKER_AUDIO_PAD,                \
            STOKER_AUDIO_EXACT, 0, 0, 0                                                                                \
    }

/** Bytes of one sample of this form, or 0 if the form is not valid or its size depends on the file.
 *
 * Owns:    `spec` is borrowed.
 * Threads: any.
 * Errors:  none; stoker_audio_read() says what is wrong with a form.
 */
STOKER_API size_t stoker_audio_sample_bytes(const stoker_audio_spec *spec);

/** What one decode did. Samples are of one channel, at `rate`. */
typedef struct stoker_audio_result {
    uint32_t rate, channels;
    uint64_t start;      /**< of the window */
    uint64_t count;      /**< samples of the window, with zeros */
    uint64_t valid;      /**< those of them that the file has */
    uint64_t total;      /**< samples of the whole file */
    uint64_t frames;     /**< of the spectrogram; 0 without one */
    uint64_t lost;       /**< samples of the window that cannot be decoded and are silent */
    uint64_t bytes_read; /**< of the decoded packets */
} stoker_audio_result;

/** Decode one window straight into the caller's memory: C-contiguous (channels, count), or (bands, frames).
 *
 * Owns:    all arguments are borrowed; exactly stoker_audio_sample_bytes(spec) bytes of `dst` are written on success,
 *          any part of them on failure. `out_result` may be NULL.
 * Threads: any; one decoder thread is used.
 * Errors:  INVALID_ARGUMENT (the form), NOT_FOUND, CORRUPT, UNSUPPORTED, IO, NO_MEMORY. `draw` is that of
 *          stoker_sample_draw(), for STOKER_AUDIO_RANDOM.
 */
STOKER_API stoker_status stoker_audio_read(const char *path, const stoker_audio_spec *spec, uint64_t draw, void *dst,
                                           stoker_audio_result *out_result, stoker_error *err);

/** The same into memory of the right size, for windows whose size depends on the file.
 *
 * Owns:    *out_data is the caller's, who frees it with stoker_audio_free(); the other arguments are borrowed.
 *          `out_result` is required.
 * Threads: any; one decoder thread is used.
 * Errors:  as stoker_audio_read(); LIMIT (over 16 GiB).
 */
STOKER_API stoker_status stoker_audio_load(const char *path, const stoker_audio_spec *spec, uint64_t draw,
                                           void **out_data, stoker_audio_result *out_result, stoker_error *err);

/** Free what stoker_audio_load() gave.
 *
 * Owns:    takes `data`; NULL is allowed.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_audio_free(void *data);

/** Make a native sound source: sample i is a window of file i, decoded in the form `spec` by workers without Python.
 *
 * Owns:    everything is borrowed and copied. On success *out_source is the caller's.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (form, or a path over 4,095 bytes, naming it), NO_MEMORY. A missing file is no error here:
 *          it fails when its sample is asked for.
 */
STOKER_API stoker_status stoker_source_create_audio(const stoker_path_list *list, const stoker_audio_spec *spec,
                                                    stoker_source **out_source, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
