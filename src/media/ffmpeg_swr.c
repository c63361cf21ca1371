/* SPDX-License-Identifier: Apache-2.0
 *
 * Change of rate and channels, by libswresample in float whatever the source was, with its default filter (32 taps at
 * the lower rate, Kaiser window) and exact rational steps: output i is a fixed function of the input around i * in/out.
 */
#include "media/ffmpeg_audio_internal.h"

#include <stdlib.h>

#include <libavutil/opt.h>
#include <libswresample/swresample.h>

#include "base/assert.h"
#include "base/error.h"

#define TAPS 32u

struct stk_resampler {
    SwrContext *swr;
    uint32_t from_channels, channels;
    float *room;
    size_t room_samples; /* of one plane */
    const float *planes[STK_SOUND_CHANNELS_MAX];
};

uint64_t stk_resampler_reach(uint32_t from_rate, uint32_t to_rate)
{
    /* Half the filter, rounded up generously: libswresample widens it by 1/0.97 of the ratio and to a multiple of 8. */
    uint64_t wide = from_rate > to_rate ? ((uint64_t)from_rate + to_rate - 1) / to_rate : 1;
    return from_rate == to_rate ? 0 : TAPS * (wide + 1);
}

static stoker_status configure(struct stk_resampler *resampler, const struct stk_sound *sound,
                               const struct stk_resampler_form *form, stoker_error *err)
{
    AVChannelLayout in = {0}, out = {0};
    const AVChannelLayout *layout = &sound->av->stream->codecpar->ch_layout;
    int result = layout->order == AV_CHANNEL_ORDER_UNSPEC ? 0 : av_channel_layout_copy(&in, layout);
    if (result >= 0 && layout->order == AV_CHANNEL_ORDER_UNSPEC)
        av_channel_layout_default(&in, (int)sound->facts.channels);
    if (result >= 0 && form->channels == sound->facts.channels)
        result = av_channel_layout_copy(&out, &in);
    else
        av_channel_layout_default(&out, (int)form->channels);
    if (result >= 0)
        result = swr_alloc_set_opts2(&resampler->swr, &out, AV_SAMPLE_FMT_FLTP, (int)form->rate, &in,
                                     AV_SAMPLE_FMT_FLTP, (int)sound->facts.rate, 0, NULL);
    if (result >= 0) result = av_opt_set_sample_fmt(resampler->swr, "internal_sample_fmt", AV_SAMPLE_FMT_FLTP, 0);
    /* Weights are scaled down so that full scale stays full scale. */
    if (result >= 0) result = av_opt_set_double(resampler->swr, "rematrix_maxval", 1.0, 0);
    if (result >= 0) result = av_opt_set_int(resampler->swr, "exact_rational", 1, 0);
    if (result >= 0) result = swr_init(resampler->swr);
    av_channel_layout_uninit(&in);
    av_channel_layout_uninit(&out);
    if (result == AVERROR(ENOMEM)) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    if (result >= 0) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "cannot change %u Hz and %u channels to %u Hz and %u channels%s%s",
                    sound->facts.rate, sound->facts.channels, form->rate, form->channels,
                    sound->av->log.text[0] ? ": " : "", sound->av->log.text);
}

stoker_status stk_resampler_create(const struct stk_sound *sound, const struct stk_resampler_form *form,
                                   struct stk_resampler **out_resampler, stoker_error *err)
{
    struct stk_resampler *resampler = calloc(1, sizeof *resampler);
    if (!resampler) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    resampler->from_channels = sound->facts.channels;
    resampler->channels = form->channels;
    stk_av_log_enter(&sound->av->log);
    stoker_status status = configure(resampler, sound, form, err);
    stk_av_log_leave();
    if (status < 0) {
        stk_resampler_destroy(resampler);
        return status;
    }
    *out_resampler = resampler;
    return STOKER_OK;
}

void stk_resampler_destroy(struct stk_resampler *resampler)
{
    if (!resampler) return;
    swr_free(&resampler->swr);
    free(resampler->room);
    free(resampler);
}

static stoker_status make_room(struct stk_resampler *resampler, size_t samples, stoker_error *err)
{
    size_t all, bytes;
    if (samples > resampler->room_samples) {
        free(resampler->room);
        resampler->room_samples = 0;
        bool fits = stk_mul_size(samples, resampler->channels, &all) && stk_mul_size(all, sizeof(float), &bytes);
        resampler->room = fits ? malloc(bytes) : NULL;
        if (!resampler->room) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu samples", samples);
        resampler->room_samples = samples;
    }
    for (uint32_t c = 0; c < resampler->channels; c++)
        resampler->planes[c] = resampler->room + c * resampler->room_samples;
    return STOKER_OK;
}

stoker_status stk_resampler_run(struct stk_resampler *resampler, const float *const *planes, uint64_t count,
                                const float *const **out_planes, uint64_t *out_count, stoker_error *err)
{
    if (count > INT32_MAX / 2) return stk_fail(err, STOKER_ERR_LIMIT, "a piece of sound is too long");
    int most = swr_get_out_samples(resampler->swr, (int)count);
    if (most < 0) return stk_fail(err, STOKER_ERR_INTERNAL, "the resampler does not know its size");
    STK_TRY(make_room(resampler, (size_t)most + TAPS, err));
    uint8_t *outputs[STK_SOUND_CHANNELS_MAX];
    const uint8_t *inputs[STK_SOUND_CHANNELS_MAX] = {NULL};
    for (uint32_t c = 0; c < resampler->channels; c++) outputs[c] = (uint8_t *)(uintptr_t)resampler->planes[c];
    for (uint32_t c = 0; planes && c < resampler->from_channels; c++) inputs[c] = (const uint8_t *)planes[c];
    int got = swr_convert(resampler->swr, outputs, (int)resampler->room_samples, planes ? inputs : NULL,
                          planes ? (int)count : 0);
    if (got < 0) return stk_fail(err, STOKER_ERR_NO_MEMORY, "the resampler has no memory");
    *out_planes = resampler->planes;
    *out_count = (uint64_t)got;
    return STOKER_OK;
}
