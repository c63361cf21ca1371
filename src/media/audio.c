/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of sound: see audio.h for why a window is a slice of the whole.
 */
#include "media/audio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/rng.h"
#include "media/ffmpeg.h"
#include "media/ffmpeg_audio.h"
#include "media/mel.h"

struct stk_listener {
    uint64_t keep_bytes;
    struct stk_mel *mel;
    float *mono; /* what a spectrogram is made of */
    size_t mono_samples;
};

/* One window being read. */
struct window {
    struct stk_listener *listener;
    struct stk_sound *sound;
    const struct stk_sound_facts *facts;
    const struct stk_audio_form *form;
    struct stk_resampler *resampler; /* NULL: samples stay as they are */
    uint32_t rate, channels;         /* of the sample */
    uint32_t made_channels;          /* that come out of the resampler; a single one is copied to all */
    uint64_t period_in, period_out;  /* rates without their common factor */
    uint64_t start, count;           /* of the window */
    uint64_t begin, end;             /* input that is fed */
    uint64_t next;                   /* output that comes next */
    uint64_t written;                /* outputs of the window that were stored, from its first */
    uint64_t lost;                   /* inputs of the window */
    uint64_t seen;                   /* end of the input that came */
    uint8_t *dst;
    stoker_dtype dtype;
};

stoker_status stk_listener_create(struct stk_listener **out_listener, stoker_error *err)
{
    struct stk_listener *listener = calloc(1, sizeof *listener);
    if (!listener) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    listener->keep_bytes = STK_AV_KEEP_BYTES;
    *out_listener = listener;
    return STOKER_OK;
}

void stk_listener_destroy(struct stk_listener *listener)
{
    if (!listener) return;
    stk_mel_destroy(listener->mel);
    free(listener->mono);
    free(listener);
}

void stk_listener_set_keep_bytes(struct stk_listener *listener, uint64_t bytes) { listener->keep_bytes = bytes; }

/* -------------------------------------------------------------------------------------------------------------- sizes
 */

static uint64_t common_factor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Outputs of a whole sound: those whose place lies before its end. */
static uint64_t outputs_of(const struct window *window, uint64_t inputs)
{
    return (uint64_t)(((unsigned __int128)inputs * window->period_out + window->period_in - 1) / window->period_in);
}

/* The input at which an output lies, rounded down. */
static uint64_t input_of(const struct window *window, uint64_t output)
{
    return (uint64_t)((unsigned __int128)output * window->period_in / window->period_out);
}

static stoker_status choose(struct window *window, uint64_t total, uint64_t draw, stoker_error *err)
{
    const struct stk_audio_form *form = window->form;
    const uint64_t outputs = outputs_of(window, total);
    window->start = form->start;
    if (form->spec.rate == 0) window->start = (uint64_t)rint(form->spec.start_s * window->rate);
    window->count = form->count;
    if (form->count == 0 && form->spec.duration_s > 0)
        window->count = (uint64_t)rint(form->spec.duration_s * window->rate);
    if (form->spec.duration_s == 0) window->count = outputs > window->start ? outputs - window->start : 0;
    const uint64_t spare = outputs > window->count ? outputs - window->count : 0;
    if (form->spec.start == STOKER_AUDIO_MIDDLE) window->start = spare / 2;
    if (form->spec.start == STOKER_AUDIO_RANDOM) {
        struct stk_rng rng;
        stk_rng_init(&rng, draw, STK_RNG_CLIP);
        window->start = stk_rng_below(&rng, spare + 1);
    }
    if (window->count == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the window from sample %llu on is empty, the sound has %llu samples",
                        (unsigned long long)window->start, (unsigned long long)outputs);
    return STOKER_OK;
}

/* Which input is fed: from a multiple of the period on, so that the resampler's phase is that of a whole run. */
static void span_input(struct window *window)
{
    const uint64_t reach = stk_resampler_reach(window->facts->rate, window->rate);
    uint64_t from = input_of(window, window->start);
    from = from > reach ? from - reach : 0;
    window->begin = from / window->period_in * window->period_in;
    window->end = input_of(window, window->start + window->count - 1) + reach + 1;
    window->next = window->begin / window->period_in * window->period_out;
}

/* -------------------------------------------------------------------------------------------------------------- store
 */

static void store_float(float *out, const float *in, uint64_t count) { memcpy(out, in, (size_t)count * sizeof *out); }

/* Full scale is 32768, rounded to the nearest even, and what lies above the largest number becomes that. */
static void store_int16(int16_t *out, const float *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        float scaled = in[i] * 32768.0f;
        if (!(scaled > -32768.0f)) scaled = -32768.0f; /* also what is not a number */
        if (scaled > 32767.0f) scaled = 32767.0f;
        out[i] = (int16_t)lrintf(scaled);
    }
}

static void store(struct window *window, const float *const *planes, uint64_t count)
{
    uint64_t from = window->next, to = window->next + count;
    const uint64_t window_end = window->start + window->count;
    window->next = to;
    if (from < window->start) from = window->start;
    if (to > window_end) to = window_end;
    if (from >= to) return;
    const uint64_t skip = from - (window->next - count), at = from - window->start;
    for (uint32_t c = 0; c < window->channels; c++) {
        const float *in = planes[c < window->made_channels ? c : 0] + skip;
        const size_t place = (size_t)(c * window->count + at);
        if (window->dtype == STOKER_DTYPE_INT16)
            store_int16((int16_t *)(void *)window->dst + place, in, to - from);
        else
            store_float((float *)(void *)window->dst + place, in, to - from);
    }
    window->written = to - window->start;
}

static void clear_from(struct window *window, uint64_t at)
{
    const size_t size = window->dtype == STOKER_DTYPE_INT16 ? sizeof(int16_t) : sizeof(float);
    if (at >= window->count) return;
    for (uint32_t c = 0; c < window->channels; c++)
        memset(window->dst + (size_t)(c * window->count + at) * size, 0, (size_t)(window->count - at) * size);
}

/* --------------------------------------------------------------------------------------------------------------- feed
 */

static stoker_status pass_on(struct window *window, const float *const *planes, uint64_t count, stoker_error *err)
{
    if (!window->resampler) {
        store(window, planes, count);
        return STOKER_OK;
    }
    const float *const *made = NULL;
    uint64_t got = 0;
    STK_TRY(stk_resampler_run(window->resampler, planes, count, &made, &got, err));
    store(window, made, got);
    return STOKER_OK;
}

/* The part of a chunk that the window needs. */
static stoker_status feed(struct window *window, const struct stk_sound_chunk *chunk, stoker_error *err)
{
    uint64_t from = chunk->position, to = chunk->position + chunk->count;
    window->seen = to;
    if (from < window->begin) from = window->begin;
    if (to > window->end) to = window->end;
    if (from >= to) return STOKER_OK;
    if (chunk->lost) {
        uint64_t first = input_of(window, window->start), last = input_of(window, window->start + window->count - 1);
        uint64_t low = from < first ? first : from, high = to > last + 1 ? last + 1 : to;
        if (low < high) window->lost += high - low;
    }
    const float *planes[64];
    STK_ASSERT(window->facts->channels <= 64);
    for (uint32_t c = 0; c < window->facts->channels; c++) planes[c] = chunk->planes[c] + (from - chunk->position);
    return pass_on(window, planes, to - from, err);
}

/* Decodes the window; *out_total is the length of the whole sound where it is seen to its end or known. */
static stoker_status run(struct window *window, uint64_t *out_total, stoker_error *err)
{
    struct stk_sound_chunk chunk;
    stoker_status status = STOKER_OK;
    *out_total = window->facts->samples;
    if (window->facts->counted && window->begin >= window->facts->samples) return STOKER_OK;
    STK_TRY(stk_sound_start(window->sound, window->begin, window->form->spec.seek == STOKER_AUDIO_NEAR, err));
    const bool counted = window->facts->counted;
    while (!counted || window->seen < window->end) {
        status = stk_sound_next(window->sound, &chunk, err);
        STK_TRY(status);
        if (status == STOKER_END) break;
        STK_TRY(feed(window, &chunk, err));
    }
    if (window->resampler && (status == STOKER_END || window->seen < window->end))
        STK_TRY(pass_on(window, NULL, 0, err));
    if (!counted) *out_total = window->seen;
    return STOKER_OK;
}

static stoker_status count_samples(struct stk_sound *sound, uint64_t *out_total, stoker_error *err)
{
    struct stk_sound_chunk chunk;
    uint64_t total = 0;
    STK_TRY(stk_sound_start(sound, 0, false, err));
    for (;;) {
        stoker_status status = stk_sound_next(sound, &chunk, err);
        STK_TRY(status);
        if (status == STOKER_END) break;
        total = chunk.position + chunk.count;
    }
    *out_total = total;
    return STOKER_OK;
}

/* -------------------------------------------------------------------------------------------------------------- read
 */

static stoker_status prepare(struct window *window, uint64_t draw, uint64_t *out_total, stoker_error *err)
{
    const struct stk_audio_form *form = window->form;
    const struct stk_sound_facts *facts = window->facts;
    window->rate = form->spec.rate ? form->spec.rate : facts->rate;
    window->channels = form->has_mel ? 1 : form->spec.channels ? form->spec.channels : facts->channels;
    window->made_channels = facts->channels == 1 ? 1 : window->channels;
    STK_ASSERT(facts->rate > 0);
    STK_ASSERT(window->rate > 0);
    const uint64_t factor = common_factor(facts->rate, window->rate);
    window->period_in = facts->rate / factor;
    window->period_out = window->rate / factor;
    uint64_t total = facts->samples;
    const bool needs_total = form->spec.start != STOKER_AUDIO_AT || form->spec.duration_s == 0;
    if (!facts->counted && needs_total) STK_TRY(count_samples(window->sound, &total, err));
    STK_TRY(choose(window, total, draw, err));
    span_input(window);
    if (window->rate != facts->rate || window->made_channels != facts->channels) {
        const struct stk_resampler_form wanted = {window->rate, window->made_channels};
        STK_TRY(stk_resampler_create(window->sound, &wanted, &window->resampler, err));
    }
    *out_total = total;
    return STOKER_OK;
}

static stoker_status size_of(const struct window *window, size_t *out_bytes, uint64_t *out_frames, stoker_error *err)
{
    const struct stk_audio_form *form = window->form;
    size_t values = 0, bytes = 0;
    *out_frames = form->has_mel ? stoker_mel_frames(&form->mel, window->count) : 0;
    bool fits = form->has_mel ? stk_mul_size((size_t)*out_frames, form->mel.bands, &values)
                              : stk_mul_size((size_t)window->count, window->channels, &values);
    fits = fits && stk_mul_size(values, form->dtype == STOKER_DTYPE_INT16 ? 2 : 4, &bytes);
    if (!fits || bytes > STK_SAMPLE_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "a window of %llu samples is too large, expected at most %llu bytes",
                        (unsigned long long)window->count, (unsigned long long)STK_SAMPLE_BYTES_MAX);
    *out_bytes = bytes;
    return STOKER_OK;
}

static stoker_status take_mono(struct window *window, stoker_error *err)
{
    struct stk_listener *listener = window->listener;
    if (listener->mono_samples < window->count) {
        free(listener->mono);
        listener->mono_samples = 0;
        listener->mono = malloc((size_t)window->count * sizeof *listener->mono);
        if (!listener->mono)
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %llu samples", (unsigned long long)window->count);
        listener->mono_samples = (size_t)window->count;
    }
    window->dst = (uint8_t *)listener->mono;
    return STOKER_OK;
}

static stoker_status take_tables(struct window *window, stoker_error *err)
{
    struct stk_listener *listener = window->listener;
    const stoker_mel_spec *spec = &window->form->mel;
    if (stk_mel_is(listener->mel, spec, window->rate)) return STOKER_OK;
    stk_mel_destroy(listener->mel);
    listener->mel = NULL;
    return stk_mel_create(spec, window->rate, &listener->mel, err);
}

static stoker_status check_damage(const struct window *window, const stoker_audio_result *result, stoker_error *err)
{
    const struct stk_audio_form *form = window->form;
    const char *reason = stk_sound_last_message(window->sound);
    if (result->lost > 0 && (double)result->lost > form->spec.damaged_max * (double)result->valid)
        return stk_fail(err, STOKER_ERR_CORRUPT, "%llu of %llu samples cannot be decoded, allowed share %g (%s)",
                        (unsigned long long)result->lost, (unsigned long long)result->valid, form->spec.damaged_max,
                        reason[0] ? reason : "no reason given");
    if (result->valid < result->count && form->spec.short_sound == STOKER_AUDIO_SHORT_ERROR)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the sound has %llu samples, the window ends at %llu",
                        (unsigned long long)result->total, (unsigned long long)(result->start + result->count));
    return STOKER_OK;
}

static stoker_status read_window(struct window *window, uint64_t draw, const struct stk_audio_target *target,
                                 stoker_audio_result *result, stoker_error *err)
{
    const struct stk_audio_form *form = window->form;
    uint64_t total = 0, frames = 0;
    size_t bytes = 0;
    void *dst = target->dst;
    STK_TRY(stk_sound_scan(window->sound, window->listener->keep_bytes, err));
    STK_TRY(prepare(window, draw, &total, err));
    STK_TRY(size_of(window, &bytes, &frames, err));
    if (!dst) STK_TRY(target->room_fn(target->user, bytes, &dst, err));
    window->dst = dst;
    window->dtype = form->dtype;
    if (form->has_mel) STK_TRY(take_mono(window, err));
    STK_TRY(run(window, &total, err));
    const uint64_t outputs = outputs_of(window, total);
    const uint64_t left = outputs > window->start ? outputs - window->start : 0;
    *result = (stoker_audio_result){.rate = window->rate,
                                    .channels = window->channels,
                                    .start = window->start,
                                    .count = window->count,
                                    .valid = left < window->count ? left : window->count,
                                    .total = outputs,
                                    .frames = frames,
                                    .lost = window->lost * window->period_out / window->period_in,
                                    .bytes_read = stk_sound_bytes(window->sound)};
    STK_TRY(check_damage(window, result, err));
    clear_from(window, window->written < result->valid ? window->written : result->valid);
    if (!form->has_mel) return STOKER_OK;
    STK_TRY(take_tables(window, err));
    return stk_mel_run(window->listener->mel, window->listener->mono, window->count, dst, err);
}

stoker_status stk_listener_read(struct stk_listener *listener, const struct stk_file *file,
                                const struct stk_audio_form *form, uint64_t draw, const struct stk_audio_target *target,
                                stoker_audio_result *out_result, stoker_error *err)
{
    struct window window = {.listener = listener, .form = form};
    stoker_audio_result result;
    STK_ASSERT(target->dst ? form->sample_bytes > 0 : target->room_fn != NULL);
    STK_TRY(stk_sound_open(file, &window.sound, err));
    window.facts = stk_sound_facts(window.sound);
    stoker_status status = read_window(&window, draw, target, &result, err);
    stk_resampler_destroy(window.resampler);
    stk_sound_close(window.sound);
    if (status == STOKER_OK && out_result) *out_result = result;
    return status;
}

stoker_status stk_audio_facts(const struct stk_file *file, bool exact, stoker_audio_info *out_info, stoker_error *err)
{
    struct stk_sound *sound = NULL;
    STK_TRY(stk_sound_open(file, &sound, err));
    stoker_status status = stk_sound_scan(sound, exact ? STK_AV_KEEP_BYTES : 0, err);
    const struct stk_sound_facts *facts = stk_sound_facts(sound);
    uint64_t samples = facts->samples;
    if (status == STOKER_OK && exact) status = count_samples(sound, &samples, err);
    if (status == STOKER_OK) {
        memset(out_info, 0, sizeof *out_info);
        memcpy(out_info->codec, facts->codec, sizeof out_info->codec);
        out_info->rate = facts->rate;
        out_info->channels = facts->channels;
        out_info->samples = samples;
        out_info->duration_s = samples ? (double)samples / facts->rate : facts->duration_s;
        out_info->bytes = file->size;
        out_info->mtime_ns = file->mtime_ns;
    }
    stk_sound_close(sound);
    return status;
}
