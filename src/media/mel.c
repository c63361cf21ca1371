/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-mel spectrograms: see mel.h. Tables are computed in double and kept in float; sums over a band are double.
 */
#include "media/mel.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/mel_fft.h"

#define BANDS_MAX 1024u
#define FFT_MIN 16u
#define FFT_MAX 16384u
#define HOP_MAX 65535u
static const double pi = 3.14159265358979323846;

/* One triangle: weights of the spectrum's lines from `first` on. */
struct band {
    uint32_t first, count;
    size_t at; /* in the weights */
};

struct stk_mel {
    stoker_mel_spec spec;
    uint32_t rate;
    struct stk_fft *fft;
    float *window; /* spec.window */
    float *frame;  /* spec.fft, zero outside of the window */
    float *power;  /* spec.fft/2 + 1 */
    float *weights;
    struct band *bands;
};

/* -------------------------------------------------------------------------------------------------------------- check
 */

static stoker_status check_sizes(const stoker_mel_spec *spec, stoker_error *err)
{
    if (spec->struct_size != sizeof *spec)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the mel spec has %u bytes, expected %zu", spec->struct_size,
                        sizeof *spec);
    if (spec->bands < 1 || spec->bands > BANDS_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u mel bands, expected 1 to %u", spec->bands, BANDS_MAX);
    if (spec->fft < FFT_MIN || spec->fft > FFT_MAX || spec->fft % 2)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "fft of %u, expected an even number from %u to %u", spec->fft,
                        FFT_MIN, FFT_MAX);
    if (spec->window < 2 || spec->window > spec->fft)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "window of %u, expected 2 to fft, %u", spec->window,
                        spec->fft);
    if (spec->hop < 1 || spec->hop > HOP_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "hop of %u, expected 1 to %u", spec->hop, HOP_MAX);
    return STOKER_OK;
}

stoker_status stk_mel_check(const stoker_mel_spec *spec, uint32_t rate, stoker_error *err)
{
    if (!spec) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the mel spec must be given");
    STK_TRY(check_sizes(spec, err));
    if (spec->power < 1 || spec->power > 2)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "power %u, expected 1 or 2", spec->power);
    if ((unsigned)spec->scale > STOKER_MEL_HTK || (unsigned)spec->norm > STOKER_MEL_NORM_NONE ||
        (unsigned)spec->log > STOKER_MEL_LINEAR || spec->last_frame > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "scale %d, norm %d, log %d or last_frame %u is not known",
                        (int)spec->scale, (int)spec->norm, (int)spec->log, spec->last_frame);
    const double high = spec->f_max > 0 ? (double)spec->f_max : rate ? rate / 2.0 : INFINITY;
    if (!(spec->f_min >= 0) || !(spec->f_max >= 0) || !((double)spec->f_min < high) ||
        (rate && !((double)spec->f_max <= rate / 2.0)))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "f_min %g and f_max %g, expected 0 <= f_min < f_max <= half the rate, %g Hz",
                        (double)spec->f_min, (double)spec->f_max, rate / 2.0);
    if (spec->log != STOKER_MEL_LINEAR && !(spec->floor > 0 && isfinite(spec->floor)))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "floor %g, expected above 0 for a logarithm",
                        (double)spec->floor);
    if (!(spec->floor >= 0) || !(spec->range >= 0) || !isfinite(spec->add) || !isfinite(spec->multiply))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "floor, range, add or multiply is negative or not finite");
    return STOKER_OK;
}

uint64_t stoker_mel_frames(const stoker_mel_spec *spec, uint64_t samples)
{
    if (stk_mel_check(spec, 0, NULL) < 0 || samples <= spec->fft / 2) return 0;
    return samples / spec->hop + spec->last_frame;
}

/* ------------------------------------------------------------------------------------------------------------- tables
 */

static double to_mel(stoker_mel_scale scale, double hertz)
{
    if (scale == STOKER_MEL_HTK) return 2595.0 * log10(1.0 + hertz / 700.0);
    return hertz < 1000.0 ? hertz * 3.0 / 200.0 : 15.0 + 27.0 * log(hertz / 1000.0) / log(6.4);
}

static double to_hertz(stoker_mel_scale scale, double mel)
{
    if (scale == STOKER_MEL_HTK) return 700.0 * (pow(10.0, mel / 2595.0) - 1.0);
    return mel < 15.0 ? mel * 200.0 / 3.0 : 1000.0 * exp((mel - 15.0) * log(6.4) / 27.0);
}

/* The lines that lie within a triangle, and their weights at `out` where that is given. */
static uint32_t fill_band(const stoker_mel_spec *spec, uint32_t rate, const double edges[3], uint32_t *out_first,
                          float *out)
{
    uint32_t count = 0;
    const double height = spec->norm == STOKER_MEL_NORM_AREA ? 2.0 / (edges[2] - edges[0]) : 1.0;
    for (uint32_t k = 0; k <= spec->fft / 2; k++) {
        const double hertz = (double)k * rate / spec->fft;
        double up = (hertz - edges[0]) / (edges[1] - edges[0]), down = (edges[2] - hertz) / (edges[2] - edges[1]);
        double weight = up < down ? up : down;
        if (!(weight > 0)) {
            if (count) break;
            continue;
        }
        if (count == 0) *out_first = k;
        if (out) out[count] = (float)(weight * height);
        count++;
    }
    return count;
}

static stoker_status make_bands(struct stk_mel *mel, uint32_t rate, stoker_error *err)
{
    const stoker_mel_spec *spec = &mel->spec;
    const double low = to_mel(spec->scale, (double)spec->f_min);
    const double high = to_mel(spec->scale, spec->f_max > 0 ? (double)spec->f_max : rate / 2.0);
    size_t total = 0;
    for (int fill = 0; fill < 2; fill++) {
        size_t at = 0;
        for (uint32_t b = 0; b < spec->bands; b++) {
            double edges[3];
            for (uint32_t e = 0; e < 3; e++)
                edges[e] = to_hertz(spec->scale, low + (high - low) * (b + e) / (spec->bands + 1));
            struct band *band = &mel->bands[b];
            band->at = at;
            band->count = fill_band(spec, rate, edges, &band->first, fill ? mel->weights + at : NULL);
            at += band->count;
        }
        total = at;
        if (fill) break;
        mel->weights = malloc((total + 1) * sizeof *mel->weights);
        if (!mel->weights) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %u mel bands", spec->bands);
    }
    return STOKER_OK;
}

static stoker_status make_tables(struct stk_mel *mel, uint32_t rate, stoker_error *err)
{
    const stoker_mel_spec *spec = &mel->spec;
    STK_TRY(stk_fft_create(spec->fft, &mel->fft, err));
    mel->window = malloc(spec->window * sizeof *mel->window);
    mel->frame = calloc(spec->fft, sizeof *mel->frame);
    mel->power = calloc((size_t)spec->fft / 2 + 1, sizeof *mel->power);
    mel->bands = calloc(spec->bands, sizeof *mel->bands);
    if (!mel->window || !mel->frame || !mel->power || !mel->bands)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %u mel bands", spec->bands);
    for (uint32_t i = 0; i < spec->window; i++) mel->window[i] = (float)(0.5 - 0.5 * cos(2.0 * pi * i / spec->window));
    return make_bands(mel, rate, err);
}

stoker_status stk_mel_create(const stoker_mel_spec *spec, uint32_t rate, struct stk_mel **out_mel, stoker_error *err)
{
    STK_TRY(stk_mel_check(spec, rate, err));
    if (rate == 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a rate of 0 samples per second");
    struct stk_mel *mel = calloc(1, sizeof *mel);
    if (!mel) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    mel->spec = *spec;
    mel->rate = rate;
    stoker_status status = make_tables(mel, rate, err);
    if (status < 0) {
        stk_mel_destroy(mel);
        return status;
    }
    *out_mel = mel;
    return STOKER_OK;
}

bool stk_mel_is(const struct stk_mel *mel, const stoker_mel_spec *spec, uint32_t rate)
{
    if (!mel || mel->rate != rate) return false;
    const stoker_mel_spec *own = &mel->spec;
    return own->bands == spec->bands && own->fft == spec->fft && own->window == spec->window && own->hop == spec->hop &&
           own->power == spec->power && own->scale == spec->scale && own->norm == spec->norm && own->log == spec->log &&
           own->last_frame == spec->last_frame && own->f_min == spec->f_min && own->f_max == spec->f_max &&
           own->floor == spec->floor && own->range == spec->range && own->add == spec->add &&
           own->multiply == spec->multiply;
}

void stk_mel_destroy(struct stk_mel *mel)
{
    if (!mel) return;
    stk_fft_destroy(mel->fft);
    free(mel->window);
    free(mel->frame);
    free(mel->power);
    free(mel->weights);
    free(mel->bands);
    free(mel);
}

/* ---------------------------------------------------------------------------------------------------------------- run
 */

/* The samples of frame t under the window, mirrored at the ends; false if all of them are zero. */
static bool cut_frame(struct stk_mel *mel, const float *samples, int64_t count, uint64_t t)
{
    const stoker_mel_spec *spec = &mel->spec;
    const uint32_t margin = (spec->fft - spec->window) / 2;
    const int64_t start = (int64_t)(t * spec->hop) - spec->fft / 2 + margin;
    float *out = mel->frame + margin;
    bool sounds = false;
    for (uint32_t i = 0; i < spec->window; i++) {
        int64_t at = start + i;
        if (at < 0) at = -at;
        if (at >= count) at = 2 * (count - 1) - at;
        float value = at >= 0 ? samples[at] : 0;
        sounds |= value != 0;
        out[i] = value * mel->window[i];
    }
    return sounds;
}

static void measure(struct stk_mel *mel)
{
    stk_fft_power(mel->fft, mel->frame, mel->power);
    if (mel->spec.power == 1)
        for (uint32_t k = 0; k <= mel->spec.fft / 2; k++) mel->power[k] = sqrtf(mel->power[k]);
}

static float value_of(const stoker_mel_spec *spec, double sum)
{
    if (sum < (double)spec->floor) sum = (double)spec->floor;
    if (spec->log == STOKER_MEL_LINEAR) return (float)sum;
    return (float)(spec->log == STOKER_MEL_LN ? log(sum) : log10(sum));
}

static void write_frame(const struct stk_mel *mel, bool sounds, float *dst, uint64_t frames)
{
    for (uint32_t b = 0; b < mel->spec.bands; b++) {
        const struct band *band = &mel->bands[b];
        const float *weights = mel->weights + band->at, *power = mel->power + band->first;
        double sum = 0;
        if (sounds)
            for (uint32_t i = 0; i < band->count; i++) sum += (double)weights[i] * (double)power[i];
        dst[b * frames] = value_of(&mel->spec, sum);
    }
}

static void finish(const stoker_mel_spec *spec, float *dst, size_t values)
{
    float low = -INFINITY;
    if (spec->range > 0) {
        float most = -INFINITY;
        for (size_t i = 0; i < values; i++) most = dst[i] > most ? dst[i] : most;
        low = most - spec->range;
    }
    for (size_t i = 0; i < values; i++) {
        float value = dst[i] > low ? dst[i] : low;
        dst[i] = (value + spec->add) * spec->multiply;
    }
}

stoker_status stk_mel_run(struct stk_mel *mel, const float *samples, uint64_t count, float *dst, stoker_error *err)
{
    const stoker_mel_spec *spec = &mel->spec;
    if (count <= spec->fft / 2 || count > INT64_MAX / 4)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "a sound of %llu samples is too short for a spectrogram, expected more than %u",
                        (unsigned long long)count, spec->fft / 2);
    const uint64_t frames = stoker_mel_frames(spec, count);
    for (uint64_t t = 0; t < frames; t++) {
        bool sounds = cut_frame(mel, samples, (int64_t)count, t);
        if (sounds) measure(mel);
        write_frame(mel, sounds, dst + t, frames);
    }
    finish(spec, dst, (size_t)(spec->bands * frames));
    return STOKER_OK;
}

stoker_status stoker_mel_compute(const stoker_mel_spec *spec, const stoker_mono_sound *sound, float *dst,
                                 stoker_error *err)
{
    struct stk_mel *mel = NULL;
    size_t values, bytes;
    if (!sound || !sound->samples || !dst)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sound and dst must be given");
    STK_TRY(stk_mel_create(spec, sound->rate, &mel, err));
    stoker_status status;
    if (!stk_mul_size((size_t)stoker_mel_frames(spec, sound->count), spec->bands, &values) ||
        !stk_mul_size(values, sizeof *dst, &bytes) || bytes > STK_SAMPLE_BYTES_MAX)
        status = stk_fail(err, STOKER_ERR_LIMIT, "the spectrogram of %llu samples is too large",
                          (unsigned long long)sound->count);
    else
        status = stk_mel_run(mel, sound->samples, sound->count, dst, err);
    stk_mel_destroy(mel);
    return status;
}
