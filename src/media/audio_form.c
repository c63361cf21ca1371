/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of what a caller wants of a sound.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/audio.h"
#include "media/mel.h"

#define RATE_MIN 100u
#define RATE_MAX 768000u
/* 30,000 hours at 16 kHz; a product with a rate stays far below 2^63. */
#define SECONDS_MAX 1e8

static stoker_status check_numbers(const stoker_audio_spec *spec, bool fixed, stoker_error *err)
{
    if (spec->struct_size != sizeof *spec)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the audio spec has %u bytes, expected %zu", spec->struct_size,
                        sizeof *spec);
    if ((fixed || spec->rate != 0) && (spec->rate < RATE_MIN || spec->rate > RATE_MAX))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rate %u, expected %u to %u samples per second", spec->rate,
                        RATE_MIN, RATE_MAX);
    if (spec->channels > 2 || (fixed && spec->channels == 0))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u channels, expected 1 or 2", spec->channels);
    if (!(spec->start_s >= 0 && spec->start_s <= SECONDS_MAX))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "start %g s, expected 0 to %g", spec->start_s, SECONDS_MAX);
    if (!(spec->duration_s >= 0 && spec->duration_s <= SECONDS_MAX) || (fixed && spec->duration_s == 0))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "duration %g s, expected above 0 and at most %g",
                        spec->duration_s, SECONDS_MAX);
    if (!(spec->damaged_max <= 1))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "damaged_max %g, expected at most 1", spec->damaged_max);
    return STOKER_OK;
}

static stoker_status check_choices(const stoker_audio_spec *spec, stoker_error *err)
{
    if (spec->dtype != STOKER_DTYPE_DEFAULT && spec->dtype != STOKER_DTYPE_FLOAT32 && spec->dtype != STOKER_DTYPE_INT16)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "dtype %d, expected float32 or int16", (int)spec->dtype);
    if ((unsigned)spec->start > STOKER_AUDIO_RANDOM)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "start %d is not known", (int)spec->start);
    if ((unsigned)spec->short_sound > STOKER_AUDIO_SHORT_ERROR)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "short_sound %d is not known", (int)spec->short_sound);
    if ((unsigned)spec->seek > STOKER_AUDIO_NEAR)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "seek %d is not known", (int)spec->seek);
    if (spec->start != STOKER_AUDIO_AT && (spec->start_s != 0 || spec->duration_s == 0))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "start %g s and duration %g s, expected no start but a duration for a window that is placed",
                        spec->start_s, spec->duration_s);
    if (spec->mark > 1) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "mark %u, expected 0 or 1", spec->mark);
    return STOKER_OK;
}

static stoker_status set_size(struct stk_audio_form *form, stoker_error *err)
{
    size_t values = 0, bytes = 0;
    if (form->spec.rate == 0 || form->spec.duration_s == 0) return STOKER_OK;
    form->start = (uint64_t)rint(form->spec.start_s * form->spec.rate);
    form->count = (uint64_t)rint(form->spec.duration_s * form->spec.rate);
    if (form->count == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "duration %g s is less than a sample at %u Hz",
                        form->spec.duration_s, form->spec.rate);
    if (form->has_mel) {
        if (form->count <= form->mel.fft / 2)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "a window of %llu samples is too short for a spectrogram, expected more than %u",
                            (unsigned long long)form->count, form->mel.fft / 2);
        form->frames = stoker_mel_frames(&form->mel, form->count);
        if (form->frames == 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a window of %llu samples has no frame of hop %u",
                            (unsigned long long)form->count, form->mel.hop);
    }
    if (form->spec.channels == 0 && !form->has_mel) return STOKER_OK;
    bool fits = form->has_mel ? stk_mul_size((size_t)form->frames, form->mel.bands, &values)
                              : stk_mul_size((size_t)form->count, form->spec.channels, &values);
    if (!fits || !stk_mul_size(values, form->dtype == STOKER_DTYPE_INT16 ? 2 : 4, &bytes) ||
        bytes > STK_SAMPLE_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "a window of %llu samples is too large, expected at most "
                        "%llu bytes",
                        (unsigned long long)form->count, (unsigned long long)STK_SAMPLE_BYTES_MAX);
    form->sample_bytes = bytes;
    return STOKER_OK;
}

stoker_status stk_audio_form_init(struct stk_audio_form *form, const stoker_audio_spec *spec, bool fixed,
                                  stoker_error *err)
{
    if (!spec) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the audio spec must be given");
    STK_TRY(check_numbers(spec, fixed, err));
    STK_TRY(check_choices(spec, err));
    memset(form, 0, sizeof *form);
    form->spec = *spec;
    form->spec.mel = NULL;
    form->dtype = spec->dtype == STOKER_DTYPE_INT16 ? STOKER_DTYPE_INT16 : STOKER_DTYPE_FLOAT32;
    if (spec->damaged_max == 0) form->spec.damaged_max = 0.5;
    if (spec->damaged_max < 0) form->spec.damaged_max = 0;
    if (spec->mel) {
        if (spec->channels > 1)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u channels with a spectrogram, expected 1",
                            spec->channels);
        if (form->dtype != STOKER_DTYPE_FLOAT32)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a spectrogram is float32, not int16");
        STK_TRY(stk_mel_check(spec->mel, spec->rate, err));
        form->has_mel = true;
        form->mel = *spec->mel;
    }
    return set_size(form, err);
}
