/* SPDX-License-Identifier: Apache-2.0
 *
 * How many samples a packet holds, from its own bytes, without decoding; and how long its decoder's memory is.
 *
 * Containers say times, often rounded to milliseconds; the codecs below say samples. A codec that is not here is
 * decoded from its start, which is right for all.
 */
#include "media/ffmpeg_audio_internal.h"

#include <string.h>

#include <libavcodec/vorbis_parser.h>

#include "base/error.h"

static bool is_plain_pcm(enum AVCodecID codec)
{
    return strncmp(avcodec_get_name(codec), "pcm_", 4) == 0 && av_get_exact_bits_per_sample(codec) > 0;
}

static enum stk_sound_memory memory_of(enum AVCodecID codec)
{
    switch (codec) {
    case AV_CODEC_ID_FLAC:
    case AV_CODEC_ID_ALAC: return STK_SOUND_MEMORY_NONE;
    case AV_CODEC_ID_VORBIS: return STK_SOUND_MEMORY_OVERLAP;
    case AV_CODEC_ID_MP3: return STK_SOUND_MEMORY_RESERVOIR;
    default: return is_plain_pcm(codec) ? STK_SOUND_MEMORY_NONE : STK_SOUND_MEMORY_LONG;
    }
}

stoker_status stk_sound_counter_init(struct stk_sound_counter *counter, const AVStream *stream, stoker_error *err)
{
    const AVCodecParameters *codec = stream->codecpar;
    const bool sample_times = stream->time_base.num == 1 && stream->time_base.den == codec->sample_rate;
    *counter = (struct stk_sound_counter){.codec = codec, .memory = memory_of(codec->codec_id), .first = true};
    switch (codec->codec_id) {
    case AV_CODEC_ID_FLAC:
    case AV_CODEC_ID_MP1:
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3:
    case AV_CODEC_ID_OPUS: counter->counts = true; break;
    case AV_CODEC_ID_AAC: counter->counts = codec->frame_size >= 960; break;
    case AV_CODEC_ID_ALAC: counter->counts = counter->by_duration = sample_times; break;
    case AV_CODEC_ID_VORBIS:
        if (codec->extradata_size <= 0) break;
        counter->vorbis = av_vorbis_parse_init(codec->extradata, codec->extradata_size);
        counter->counts = counter->vorbis != NULL; /* headers that it cannot read, or no memory: a decode tells */
        break;
    default: counter->counts = is_plain_pcm(codec->codec_id) && codec->ch_layout.nb_channels > 0; break;
    }
    (void)err;
    return STOKER_OK;
}

void stk_sound_counter_fini(struct stk_sound_counter *counter) { av_vorbis_parse_free(&counter->vorbis); }

/* Block size in the header of a FLAC frame. */
static bool count_flac(const uint8_t *at, size_t size, uint32_t *out)
{
    if (size < 6 || at[0] != 0xff || (at[1] & 0xfe) != 0xf8) return false;
    uint32_t code = at[2] >> 4;
    if (code == 0) return false;
    if (code == 1) return *out = 192, true;
    if (code <= 5) return *out = 576u << (code - 2), true;
    if (code >= 8) return *out = 256u << (code - 8), true;
    size_t after = 4; /* the number of the frame: one byte, or as many as its first one has leading ones */
    for (uint32_t lead = at[4]; lead & 0x80; lead = lead << 1 & 0xff) after++;
    if (after == 4) after++;
    if (after + (code == 6 ? 1u : 2u) > size) return false;
    *out = code == 6 ? at[after] + 1u : ((uint32_t)at[after] << 8 | at[after + 1]) + 1u;
    return true;
}

/* Frames of a packet times the length of one, from its table-of-contents byte (RFC 6716, section 3.1), at 48 kHz. */
static bool count_opus(const uint8_t *at, size_t size, uint32_t *out)
{
    static const uint16_t silk[4] = {480, 960, 1920, 2880}, hybrid[2] = {480, 960}, celt[4] = {120, 240, 480, 960};
    if (size < 1) return false;
    uint32_t config = at[0] >> 3, frames = at[0] & 3;
    if (frames == 3) {
        if (size < 2) return false;
        frames = at[1] & 0x3f;
    } else {
        frames = frames == 0 ? 1 : 2;
    }
    uint32_t length = config < 12 ? silk[config & 3] : config < 16 ? hybrid[config & 1] : celt[config & 3];
    *out = frames * length;
    return frames > 0 && *out <= 5760; /* 120 ms */
}

static uint32_t mpeg_samples(const AVCodecParameters *codec)
{
    if (codec->codec_id == AV_CODEC_ID_MP1) return 384;
    return codec->codec_id == AV_CODEC_ID_MP3 && codec->sample_rate < 32000 ? 576 : 1152;
}

bool stk_sound_counter_packet(struct stk_sound_counter *counter, const AVPacket *packet, uint32_t *out_samples)
{
    const AVCodecParameters *codec = counter->codec;
    const size_t size = (size_t)packet->size;
    const bool first = counter->first;
    counter->first = false;
    if (!counter->counts) return false;
    if (counter->by_duration) {
        if (packet->duration <= 0 || packet->duration > INT32_MAX) return false;
        *out_samples = (uint32_t)packet->duration;
        return true;
    }
    switch (codec->codec_id) {
    case AV_CODEC_ID_FLAC: return count_flac(packet->data, size, out_samples);
    case AV_CODEC_ID_OPUS: return codec->sample_rate == 48000 && count_opus(packet->data, size, out_samples);
    case AV_CODEC_ID_AAC: *out_samples = (uint32_t)codec->frame_size; return true;
    case AV_CODEC_ID_MP1:
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3: *out_samples = mpeg_samples(codec); return true;
    case AV_CODEC_ID_VORBIS: {
        int samples = av_vorbis_parse_frame(counter->vorbis, packet->data, packet->size);
        if (samples < 0) return false;
        *out_samples = first ? 0 : (uint32_t)samples; /* the first one only fills the overlap */
        return true;
    }
    default: {
        uint64_t bits =
            (uint64_t)av_get_exact_bits_per_sample(codec->codec_id) * (uint64_t)codec->ch_layout.nb_channels;
        *out_samples = (uint32_t)((uint64_t)size * 8 / bits);
        return true;
    }
    }
}
