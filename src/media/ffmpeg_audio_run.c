/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoded samples from any place on.
 *
 * Each packet is sent with its number as its time, and the decoder hands times on to frames: so a frame says which
 * packet it came from, and its samples go to that packet's place, whatever was lost before.
 */
#include "media/ffmpeg_audio_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* Refusals in a row, without a frame between, after which the decoder counts as having nothing more. */
#define REFUSALS_MAX 64
/* Silence is given in pieces, so that a packet that claims much needs no memory for it. */
#define SILENCE_SAMPLES 4096u
/* Data of MPEG layer 3 may begin so many bytes before its own frame. */
#define RESERVOIR_BYTES 511u
/* Header and side information of a layer 3 frame, which hold no such data: at most 4 + 2 + 32 bytes. */
#define HEADER_BYTES 38u

static stoker_status make_decoder(struct stk_sound *sound, stoker_error *err)
{
    const AVStream *stream = sound->av->stream;
    const AVCodec *codec = avcodec_find_decoder(stream->codecpar->codec_id);
    avcodec_free_context(&sound->decoder); /* a flush does not put every decoder back to its start */
    if (!codec) return stk_fail(err, STOKER_ERR_UNSUPPORTED, "no decoder for codec '%s'", sound->facts.codec);
    if (!sound->frame) sound->frame = av_frame_alloc();
    if (!sound->packet) sound->packet = av_packet_alloc();
    AVCodecContext *decoder = avcodec_alloc_context3(codec);
    if (!decoder || !sound->frame || !sound->packet) {
        avcodec_free_context(&decoder);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    int result = avcodec_parameters_to_context(decoder, stream->codecpar);
    decoder->thread_count = 1;
    if (sound->facts.counted)
        decoder->flags2 |= AV_CODEC_FLAG2_SKIP_MANUAL; /* the entries say what to leave out */
    else
        decoder->pkt_timebase = stream->time_base;
    if (result >= 0) result = avcodec_open2(decoder, codec, NULL);
    if (result < 0) {
        avcodec_free_context(&decoder);
        return stk_av_fail(sound->av, result, STOKER_ERR_CORRUPT, "cannot start the decoder", err);
    }
    sound->decoder = decoder;
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------- start
 */

/* The packet that holds a sample, or the number of packets. */
static size_t find_packet(const struct stk_sound *sound, uint64_t sample)
{
    size_t low = 0, high = sound->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct stk_sound_entry *entry = &sound->entries[middle];
        if (entry->position + entry->kept <= sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The packet to begin with, so that `packet` decodes as if everything before it had been decoded. */
static size_t first_packet(const struct stk_sound *sound, size_t packet, bool near)
{
    size_t back = packet;
    switch (sound->memory) {
    case STK_SOUND_MEMORY_NONE: return packet;
    case STK_SOUND_MEMORY_OVERLAP: return packet > 1 ? packet - 2 : 0;
    case STK_SOUND_MEMORY_RESERVOIR: {
        uint64_t bytes = 0;
        back = packet > 3 ? packet - 3 : 0;
        for (; back > 0 && bytes < RESERVOIR_BYTES; back--) {
            uint32_t size = sound->entries[back - 1].size;
            bytes += size > HEADER_BYTES ? size - HEADER_BYTES : 0;
        }
        return back;
    }
    case STK_SOUND_MEMORY_LONG: break;
    }
    if (!near || !sound->facts.counted) return 0;
    uint64_t from = sound->entries[packet < sound->count ? packet : sound->count - 1].position;
    uint64_t lead = sound->facts.rate; /* a second: Opus was never seen to remember longer */
    back = find_packet(sound, from > lead ? from - lead : 0);
    return back > 2 ? back - 2 : 0;
}

static stoker_status start_direct(struct stk_sound *sound, uint64_t first, stoker_error *err)
{
    int result = av_seek_frame(sound->av->format, sound->av->stream->index, (int64_t)first, AVSEEK_FLAG_BACKWARD);
    if (result < 0) return stk_av_fail(sound->av, result, STOKER_ERR_CORRUPT, "cannot find a sample", err);
    sound->position = first;
    return STOKER_OK;
}

stoker_status stk_sound_start(struct stk_sound *sound, uint64_t first, bool near, stoker_error *err)
{
    stoker_status status;
    sound->drained = sound->ended = sound->waiting = false;
    sound->reads = sound->decoded = 0;
    sound->current = SIZE_MAX;
    sound->position = 0;
    stk_av_log_enter(&sound->av->log);
    status = make_decoder(sound, err);
    if (status == STOKER_OK && sound->direct) status = start_direct(sound, first, err);
    stk_av_log_leave();
    STK_TRY(status);
    if (sound->direct) return STOKER_OK;
    if (sound->count == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "the audio stream holds no packets");
    size_t target = sound->facts.counted ? find_packet(sound, first) : 0;
    sound->next_packet = first_packet(sound, target, near);
    if (sound->next_packet > 0) sound->position = first; /* what comes before it is given to nobody */
    if (sound->kept || sound->next_read <= sound->next_packet) return STOKER_OK;
    return stk_sound_rewind(sound, err);
}

/* -------------------------------------------------------------------------------------------------------------- send
 */

static stoker_status read_again(struct stk_sound *sound, stoker_error *err)
{
    while (sound->next_read <= sound->next_packet) {
        stoker_status status = stk_av_read(sound->av, &sound->reads, err);
        STK_TRY(status);
        if (status == STOKER_END || (uint32_t)sound->av->packet->size != sound->entries[sound->next_read].size)
            return stk_fail(err, STOKER_ERR_CORRUPT, "audio packet %zu of %zu reads differently the second time",
                            sound->next_read, sound->count);
        sound->next_read++;
    }
    return STOKER_OK;
}

/* The next packet in sound->packet. STOKER_END after the last one. */
static stoker_status take_packet(struct stk_sound *sound, stoker_error *err)
{
    av_packet_unref(sound->packet);
    if (sound->direct) {
        stoker_status status = stk_av_read(sound->av, &sound->reads, err);
        if (status != STOKER_OK) return status;
        av_packet_move_ref(sound->packet, sound->av->packet);
        return STOKER_OK;
    }
    if (sound->next_packet >= sound->count) return STOKER_END;
    if (sound->kept) {
        if (av_packet_ref(sound->packet, sound->kept[sound->next_packet]) < 0)
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    } else {
        STK_TRY(read_again(sound, err));
        av_packet_move_ref(sound->packet, sound->av->packet);
    }
    if (sound->facts.counted) sound->packet->pts = sound->packet->dts = (int64_t)sound->next_packet;
    sound->next_packet++;
    return STOKER_OK;
}

static stoker_status send_next(struct stk_sound *sound, stoker_error *err)
{
    stoker_status status = take_packet(sound, err);
    STK_TRY(status);
    sound->drained = status == STOKER_END;
    if (!sound->drained) sound->bytes += (uint64_t)sound->packet->size;
    int result = avcodec_send_packet(sound->decoder, sound->drained ? NULL : sound->packet);
    if (result == AVERROR(ENOMEM)) return stk_av_fail(sound->av, result, STOKER_ERR_NO_MEMORY, "cannot decode", err);
    return STOKER_OK; /* what it refuses is missing among the samples */
}

/* A frame in sound->frame. STOKER_END: there are no more. */
static stoker_status receive(struct stk_sound *sound, stoker_error *err)
{
    for (int refusals = 0;;) {
        int result = avcodec_receive_frame(sound->decoder, sound->frame);
        if (result >= 0) return STOKER_OK;
        if (result == AVERROR(ENOMEM))
            return stk_av_fail(sound->av, result, STOKER_ERR_NO_MEMORY, "cannot decode", err);
        if (result == AVERROR(EAGAIN) && !sound->drained) {
            STK_TRY(send_next(sound, err));
            continue;
        }
        if (result == AVERROR_EOF || result == AVERROR(EAGAIN) || ++refusals > REFUSALS_MAX) return STOKER_END;
    }
}

/* ------------------------------------------------------------------------------------------------------------- chunks
 */

static stoker_status make_room(struct stk_sound *sound, uint64_t samples, stoker_error *err)
{
    size_t all, bytes;
    if (!stk_mul_size((size_t)samples, sound->facts.channels, &all) || !stk_mul_size(all, sizeof(float), &bytes))
        return stk_fail(err, STOKER_ERR_LIMIT, "a frame of %llu samples is too large", (unsigned long long)samples);
    if (all > sound->room_samples) {
        free(sound->room);
        sound->room_samples = 0;
        sound->room = malloc(bytes);
        if (!sound->room) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", bytes);
        sound->room_samples = all;
    }
    for (uint32_t c = 0; c < sound->facts.channels; c++) sound->planes[c] = sound->room + c * (size_t)samples;
    return STOKER_OK;
}

/* One channel of the frame as float; integers are divided by 2^(bits - 1). */
static void convert(const AVFrame *frame, uint32_t channel, uint64_t from, uint64_t count, float *out)
{
    const enum AVSampleFormat format = frame->format;
    const bool planar = av_sample_fmt_is_planar(format);
    const size_t step = planar ? 1 : (size_t)frame->ch_layout.nb_channels;
    const uint8_t *data = planar ? frame->extended_data[channel] : frame->extended_data[0];
    const size_t first = (planar ? 0 : channel) + (size_t)from * step;
    switch (av_get_packed_sample_fmt(format)) {
    case AV_SAMPLE_FMT_U8:
        for (size_t i = 0; i < count; i++) out[i] = (float)((int)data[first + i * step] - 128) / 128.0f;
        break;
    case AV_SAMPLE_FMT_S16:
        for (size_t i = 0; i < count; i++)
            out[i] = (float)((const int16_t *)(const void *)data)[first + i * step] / 32768.0f;
        break;
    case AV_SAMPLE_FMT_S32:
        for (size_t i = 0; i < count; i++)
            out[i] = (float)((const int32_t *)(const void *)data)[first + i * step] / 2147483648.0f;
        break;
    case AV_SAMPLE_FMT_FLT:
        for (size_t i = 0; i < count; i++) out[i] = ((const float *)(const void *)data)[first + i * step];
        break;
    case AV_SAMPLE_FMT_DBL:
        for (size_t i = 0; i < count; i++) out[i] = (float)((const double *)(const void *)data)[first + i * step];
        break;
    case AV_SAMPLE_FMT_S64:
        for (size_t i = 0; i < count; i++)
            out[i] = (float)((double)((const int64_t *)(const void *)data)[first + i * step] / 9223372036854775808.0);
        break;
    default: memset(out, 0, (size_t)count * sizeof *out); break;
    }
}

static stoker_status check_frame(const struct stk_sound *sound, stoker_error *err)
{
    const AVFrame *frame = sound->frame;
    const struct stk_sound_facts *facts = &sound->facts;
    if ((uint32_t)frame->sample_rate == facts->rate && (uint32_t)frame->ch_layout.nb_channels == facts->channels)
        return STOKER_OK;
    return stk_fail(
        err, STOKER_ERR_CORRUPT,
        "the sound changes to %d Hz and %d channels after %llu samples, it began with %u Hz and %u channels",
        frame->sample_rate, frame->ch_layout.nb_channels, (unsigned long long)sound->decoded, facts->rate,
        facts->channels);
}

/* Where the frame's samples belong: sets wait_position (first sample), wait_skip and wait_count (the part to give). */
static void locate(struct stk_sound *sound)
{
    const AVFrame *frame = sound->frame;
    const uint64_t samples = (uint64_t)frame->nb_samples;
    sound->wait_skip = 0;
    sound->wait_count = samples;
    sound->wait_position = sound->position;
    if (!sound->facts.counted) return;
    if (sound->direct) {
        uint64_t at = frame->pts < 0 ? 0 : (uint64_t)frame->pts;
        sound->wait_position = at;
        return;
    }
    if (frame->pts != AV_NOPTS_VALUE && (size_t)frame->pts != sound->current && frame->pts >= 0 &&
        (size_t)frame->pts < sound->count) {
        sound->current = (size_t)frame->pts;
        sound->current_used = 0;
    }
    const struct stk_sound_entry *entry = &sound->entries[sound->current < sound->count ? sound->current : 0];
    uint64_t from = sound->current_used, to = from + samples, end = (uint64_t)entry->front + entry->kept;
    sound->current_used = to;
    if (from < entry->front) from = entry->front;
    if (to > end) to = end;
    sound->wait_skip = from - (sound->current_used - samples);
    sound->wait_count = to > from ? to - from : 0;
    sound->wait_position = entry->position + (from - entry->front);
}

static stoker_status give_silence(struct stk_sound *sound, uint64_t count, struct stk_sound_chunk *out,
                                  stoker_error *err)
{
    if (count > SILENCE_SAMPLES) count = SILENCE_SAMPLES;
    STK_TRY(make_room(sound, count, err));
    memset(sound->room, 0, (size_t)count * sound->facts.channels * sizeof *sound->room);
    *out = (struct stk_sound_chunk){sound->position, count, true, sound->planes};
    sound->position += count;
    return STOKER_OK;
}

static stoker_status give_frame(struct stk_sound *sound, struct stk_sound_chunk *out, stoker_error *err)
{
    sound->waiting = false;
    STK_TRY(make_room(sound, sound->wait_count, err));
    for (uint32_t c = 0; c < sound->facts.channels; c++)
        convert(sound->frame, c, sound->wait_skip, sound->wait_count, sound->room + c * (size_t)sound->wait_count);
    *out = (struct stk_sound_chunk){sound->position, sound->wait_count, false, sound->planes};
    sound->position += sound->wait_count;
    return STOKER_OK;
}

/* Drops what lies before the place that is due. */
static bool is_wanted(struct stk_sound *sound)
{
    if (sound->wait_position < sound->position) {
        uint64_t early = sound->position - sound->wait_position;
        if (early >= sound->wait_count) return false;
        sound->wait_skip += early;
        sound->wait_count -= early;
        sound->wait_position += early;
    }
    return sound->wait_count > 0;
}

static stoker_status next(struct stk_sound *sound, struct stk_sound_chunk *out, stoker_error *err)
{
    while (!sound->waiting && !sound->ended) {
        stoker_status status = receive(sound, err);
        STK_TRY(status);
        if (status == STOKER_END) {
            sound->ended = true;
            break;
        }
        STK_TRY(check_frame(sound, err));
        sound->decoded += (uint64_t)sound->frame->nb_samples;
        locate(sound);
        sound->waiting = is_wanted(sound);
    }
    if (sound->waiting && sound->wait_position > sound->position)
        return give_silence(sound, sound->wait_position - sound->position, out, err);
    if (sound->waiting) return give_frame(sound, out, err);
    if (sound->decoded == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "none of %zu audio packets can be decoded (%s)", sound->count,
                        sound->av->log.text[0] ? sound->av->log.text : "no reason given");
    if (sound->facts.counted && sound->position < sound->facts.samples)
        return give_silence(sound, sound->facts.samples - sound->position, out, err);
    return STOKER_END;
}

stoker_status stk_sound_next(struct stk_sound *sound, struct stk_sound_chunk *out_chunk, stoker_error *err)
{
    STK_ASSERT(sound->decoder);
    stk_av_log_enter(&sound->av->log);
    stoker_status status = next(sound, out_chunk, err);
    stk_av_log_leave();
    return status;
}
