/* SPDX-License-Identifier: Apache-2.0
 *
 * What pictures are like, seen on the first one, and how many there are a second.
 */
#include "media/ffmpeg_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <libavutil/pixdesc.h>

#include "base/assert.h"
#include "base/error.h"

/* Packets from the first key frame on, in which a picture must come: no codec holds back more than 32 frames. */
#define LOOK_PACKETS 64u
/* A claimed rate that is further off than this share is not that of the frames. */
#define RATE_TOLERANCE 0.01

bool stk_av_has_alpha_layer(const struct stk_av *av)
{
    enum AVCodecID codec = av->stream->codecpar->codec_id;
    if (codec != AV_CODEC_ID_VP8 && codec != AV_CODEC_ID_VP9) return false;
    const AVDictionaryEntry *mode = av_dict_get(av->stream->metadata, "alpha_mode", NULL, 0);
    return mode && strcmp(mode->value, "1") == 0;
}

void stk_av_want_alpha(struct stk_av *av)
{
    STK_ASSERT(!av->decoder);
    av->want_alpha = true;
}

/* ---------------------------------------------------------------------------------------------------------------- rate
 */

void stk_av_rate(const struct stk_av *av, uint64_t *out_num, uint64_t *out_den)
{
    const struct stk_packet_table *table = &av->table;
    const AVStream *stream = av->stream;
    AVRational rate = stream->avg_frame_rate.num > 0 ? stream->avg_frame_rate : stream->r_frame_rate;
    bool claimed = rate.num > 0 && rate.den > 0;
    int64_t first = 0, last = 0, span;
    bool timed = table->by_time && table->shown_count >= 2;
    if (timed) first = table->shown[0].pts, last = table->shown[table->shown_count - 1].pts;
    if (timed && !__builtin_sub_overflow(last, first, &span) && span > 0 && stream->time_base.num > 0) {
        int64_t frames = (int64_t)table->shown_count, end;
        int64_t tail =
            av->last_duration > 0 && av->last_duration < 0x1p62 ? (int64_t)av->last_duration : span / (frames - 1);
        if (__builtin_add_overflow(span, tail, &end)) end = INT64_MAX;
        double measured = (double)frames / ((double)end * av_q2d(stream->time_base));
        if (!claimed || fabs(av_q2d(rate) / measured - 1) > RATE_TOLERANCE) {
            /* Times of a video fit easily: 2^31 frames and a time base of at most 2^31. */
            claimed = true;
            (void)av_reduce(&rate.num, &rate.den, frames, end, INT32_MAX); /* the nearest, if it is not exact */
            rate = av_div_q(rate, stream->time_base);
        }
    }
    claimed = claimed && rate.num > 0 && rate.den > 0;
    *out_num = claimed ? (uint64_t)rate.num : 0;
    *out_den = claimed ? (uint64_t)rate.den : 1;
}

/* ---------------------------------------------------------------------------------------------------------------- look
 */

static void note_format(struct stk_av_look *look, int format)
{
    const AVPixFmtDescriptor *description = av_pix_fmt_desc_get(format);
    if (!description) return;
    (void)snprintf(look->pixel_format, sizeof look->pixel_format, "%s", description->name);
    look->bit_depth = (uint32_t)description->comp[0].depth;
    if (description->flags & AV_PIX_FMT_FLAG_ALPHA) look->alpha = true;
    if (strncmp(description->name, "yuvj", 4) == 0) memcpy(look->range, "full", 5);
}

static void note_colours(struct stk_av_look *look, enum AVColorSpace matrix, enum AVColorRange range)
{
    const char *name = matrix != AVCOL_SPC_UNSPECIFIED ? av_color_space_name(matrix) : NULL;
    (void)snprintf(look->matrix, sizeof look->matrix, "%s", name ? name : "");
    if (range == AVCOL_RANGE_JPEG)
        memcpy(look->range, "full", 5);
    else if (range == AVCOL_RANGE_MPEG)
        memcpy(look->range, "limited", 8);
}

static void note_shape(struct stk_av_look *look, AVRational sar)
{
    look->sar_num = sar.num > 0 && sar.den > 0 ? (uint32_t)sar.num : 0;
    look->sar_den = look->sar_num ? (uint32_t)sar.den : 1;
}

/* Decodes until there is a frame. *out_found false: there is none near the first key frame. */
static stoker_status find_frame(struct stk_av *av, bool *out_found, stoker_error *err)
{
    const struct stk_packet_table *table = &av->table;
    struct stk_av_frame frame;
    uint32_t first = 0;
    while (first < table->count && !(table->packets[first].flags & STK_PACKET_KEY)) first++;
    if (first == table->count) first = 0;
    *out_found = false;
    STK_TRY(stk_av_restart(av, false, err));
    for (uint32_t packet = first; packet < table->count && packet - first < LOOK_PACKETS; packet++) {
        STK_TRY(stk_av_send(av, packet, true, err));
        stoker_status status = stk_av_receive(av, &frame, err);
        *out_found = status == STOKER_OK;
        if (status != STOKER_AGAIN) return status < 0 ? status : STOKER_OK;
    }
    STK_TRY(stk_av_drain(av, err));
    stoker_status status = stk_av_receive(av, &frame, err);
    *out_found = status == STOKER_OK;
    return status < 0 ? status : STOKER_OK;
}

stoker_status stk_av_look(struct stk_av *av, struct stk_av_look *out_look, stoker_error *err)
{
    struct stk_av_look look = {.alpha = stk_av_has_alpha_layer(av)};
    bool found = false;
    if (av->table.count > 0) STK_TRY(find_frame(av, &found, err));
    const AVCodecParameters *codec = av->stream->codecpar; /* not before: reading packets may open the file again */
    look.interlaced = codec->field_order > AV_FIELD_PROGRESSIVE;
    if (found) {
        note_format(&look, av->frame->format);
        note_colours(&look, av->frame->colorspace, av->frame->color_range);
        note_shape(&look, av_guess_sample_aspect_ratio(av->format, av->stream, av->frame));
        /* A GIF means the order in which its lines are stored. */
        if (av->frame->interlaced_frame && codec->codec_id != AV_CODEC_ID_GIF) look.interlaced = true;
    } else {
        note_format(&look, codec->format);
        note_colours(&look, codec->color_space, codec->color_range);
        note_shape(&look, av_guess_sample_aspect_ratio(av->format, av->stream, NULL));
    }
    *out_look = look;
    return STOKER_OK;
}
