/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding: packets of the table in, frames out, one thread, damage counted.
 *
 * The caller receives everything before it sends again, so the setting that leaves out unreferenced frames applies to
 * exactly the packet that is sent with it.
 */
#include "media/ffmpeg_internal.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* Refusals in a row, without a frame between, after which the decoder counts as having nothing more. */
#define REFUSALS_MAX 64
/* Deeper reordering than any codec allows (16 frames, fields apart). */
#define DELAY_MAX 32u

/* These conceal what they cannot decode, or give no frame. The others (HEVC among them) leave parts of a damaged frame
 * as they found them. */
static bool fills_frames(enum AVCodecID codec)
{
    switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1: return true;
    default: return false;
    }
}

/* Frame memory without the past: what the decoder does not write is zero, not some earlier picture. */
static int get_clear_buffer(AVCodecContext *decoder, AVFrame *frame, int flags)
{
    int result = avcodec_default_get_buffer2(decoder, frame, flags);
    for (int i = 0; result >= 0 && i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++)
        memset(frame->buf[i]->data, 0, frame->buf[i]->size);
    return result;
}

static stoker_status open_decoder(struct stk_av *av, stoker_error *err)
{
    const AVCodecParameters *parameters = av->stream->codecpar;
    const AVCodec *codec = NULL;
    if (av->want_alpha && stk_av_has_alpha_layer(av))
        codec = avcodec_find_decoder_by_name(parameters->codec_id == AV_CODEC_ID_VP8 ? "libvpx" : "libvpx-vp9");
    if (!codec) codec = avcodec_find_decoder(parameters->codec_id);
    if (!codec) return stk_fail(err, STOKER_ERR_UNSUPPORTED, "no decoder for codec '%s'", av->facts.codec);
    if (!av->frame) av->frame = av_frame_alloc();
    AVCodecContext *decoder = avcodec_alloc_context3(codec);
    if (!decoder || !av->frame) {
        avcodec_free_context(&decoder);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    int result = avcodec_parameters_to_context(decoder, parameters);
    decoder->thread_count = 1;
    decoder->pkt_timebase = av->stream->time_base;
    if (av->careful || !fills_frames(parameters->codec_id)) decoder->get_buffer2 = get_clear_buffer;
    /* Where the stream does not state its reordering, a decoder starts without delay and loses the first reordered
     * frames. The table knows better. More delay than needed changes nothing but memory. */
    uint32_t delay = stk_plan_delay(&av->table);
    if (delay <= DELAY_MAX && (int)delay > decoder->has_b_frames) decoder->has_b_frames = (int)delay;
    if (result >= 0) result = avcodec_open2(decoder, codec, NULL);
    if (result < 0) {
        avcodec_free_context(&decoder);
        return stk_av_fail(av, result, STOKER_ERR_CORRUPT, "cannot start the decoder", err);
    }
    av->decoder = decoder;
    return STOKER_OK;
}

stoker_status stk_av_restart(struct stk_av *av, bool careful, stoker_error *err)
{
    STK_ASSERT(av->shown);
    stk_av_log_enter(&av->log);
    stoker_status status = STOKER_OK;
    if (careful != av->careful) avcodec_free_context(&av->decoder);
    av->careful = careful;
    if (!av->decoder)
        status = open_decoder(av, err);
    else if (av->fed)
        avcodec_flush_buffers(av->decoder);
    av->fed = false;
    stk_av_log_leave();
    return status;
}

static stoker_status send(struct stk_av *av, const AVPacket *packet, stoker_error *err)
{
    uint64_t errors = av->log.errors;
    int result = avcodec_send_packet(av->decoder, packet);
    av->fed = true;
    if (result == AVERROR(ENOMEM)) return stk_av_fail(av, result, STOKER_ERR_NO_MEMORY, "cannot decode", err);
    /* EAGAIN too: everything was received before, unless the decoder refused to give it. */
    if (result < 0 && result != AVERROR_EOF) av->faults++;
    /* HEVC replaces a missing reference by grey without marking the frame; its log is the only witness. */
    else if (av->decoder->codec_id == AV_CODEC_ID_HEVC && av->log.errors > errors)
        av->faults++;
    return STOKER_OK;
}

stoker_status stk_av_send(struct stk_av *av, uint32_t packet, bool needed, stoker_error *err)
{
    AVPacket *data = NULL;
    stk_av_log_enter(&av->log);
    stoker_status status = stk_av_fetch(av, packet, &data, err);
    if (status == STOKER_OK) {
        av->decoder->skip_frame = !needed && av->facts.skips ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
        status = send(av, data, err);
    }
    stk_av_log_leave();
    return status;
}

stoker_status stk_av_drain(struct stk_av *av, stoker_error *err)
{
    stk_av_log_enter(&av->log);
    stoker_status status = send(av, NULL, err);
    stk_av_log_leave();
    return status;
}

stoker_status stk_av_receive(struct stk_av *av, struct stk_av_frame *out_frame, stoker_error *err)
{
    stk_av_log_enter(&av->log);
    int result = 0;
    for (int refusals = 0; refusals < REFUSALS_MAX; refusals++) {
        result = avcodec_receive_frame(av->decoder, av->frame);
        if (result >= 0 || result == AVERROR(EAGAIN) || result == AVERROR_EOF || result == AVERROR(ENOMEM)) break;
        av->faults++;
    }
    stk_av_log_leave();
    if (result == AVERROR(ENOMEM)) return stk_av_fail(av, result, STOKER_ERR_NO_MEMORY, "cannot decode", err);
    if (result == AVERROR(EAGAIN)) return STOKER_AGAIN;
    if (result < 0) return STOKER_END;
    const AVFrame *frame = av->frame;
    out_frame->pts = frame->pts;
    out_frame->width = (uint32_t)frame->width;
    out_frame->height = (uint32_t)frame->height;
    const AVRational sar = av_guess_sample_aspect_ratio(av->format, av->stream, av->frame);
    out_frame->sar_num = sar.num > 0 && sar.den > 0 ? (uint32_t)sar.num : 0;
    out_frame->sar_den = out_frame->sar_num ? (uint32_t)sar.den : 1;
    out_frame->damaged = frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT);
    return STOKER_OK;
}

uint64_t stk_av_faults(const struct stk_av *av) { return av->faults; }
