/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling: the current frame to planar RGB at a given size, in one step.
 *
 * Planar output is asked for because swscale then uses full chroma resolution and rounding, is faster than packed
 * output, and needs no de-interleaving. Matrix and range come from the frame, each time; an untagged frame is BT.601
 * limited, as in the ffmpeg program. The filter is bilinear, widened when shrinking (antialiased, like Pillow and
 * torch's antialias=True).
 */
#include "media/ffmpeg_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include "base/assert.h"
#include "base/error.h"

/* Sizes that one worker meets at a time: a mixed data set has a handful. */
#define CONVERTERS 8u
/* swscale writes whole vectors: room after each line and after the last. */
#define LINE_ALIGNMENT 64u
/* BITEXACT: the same bytes on every machine, whatever its vector instructions. */
#define SCALE_FLAGS (SWS_BILINEAR | SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP)

struct converter_key {
    int from_width, from_height, from_format, matrix, full_range;
    int width, height;
};

struct converter {
    struct SwsContext *context;
    struct converter_key key;
    uint64_t used; /* the smallest is replaced */
};

struct stk_scaler {
    struct converter converters[CONVERTERS];
    uint64_t clock;
    uint8_t *pixels; /* three planes */
    size_t pixels_size;
};

stoker_status stk_scaler_create(struct stk_scaler **out_scaler, stoker_error *err)
{
    struct stk_scaler *scaler = calloc(1, sizeof *scaler);
    if (!scaler) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    *out_scaler = scaler;
    return STOKER_OK;
}

void stk_scaler_destroy(struct stk_scaler *scaler)
{
    if (!scaler) return;
    for (size_t i = 0; i < CONVERTERS; i++) sws_freeContext(scaler->converters[i].context);
    av_free(scaler->pixels);
    free(scaler);
}

static bool is_full_range(const AVFrame *frame)
{
    switch (frame->format) {
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
    case AV_PIX_FMT_YUVJ440P:
    case AV_PIX_FMT_YUVJ411P: return true;
    default: return frame->color_range == AVCOL_RANGE_JPEG;
    }
}

static struct SwsContext *build(const struct converter_key *key)
{
    struct SwsContext *context = sws_alloc_context();
    if (!context) return NULL;
    (void)av_opt_set_int(context, "srcw", key->from_width, 0); /* these options exist: nothing can fail but init */
    (void)av_opt_set_int(context, "srch", key->from_height, 0);
    (void)av_opt_set_int(context, "src_format", key->from_format, 0);
    (void)av_opt_set_int(context, "dstw", key->width, 0);
    (void)av_opt_set_int(context, "dsth", key->height, 0);
    (void)av_opt_set_int(context, "dst_format", AV_PIX_FMT_GBRP, 0);
    (void)av_opt_set_int(context, "sws_flags", SCALE_FLAGS, 0);
    if (sws_init_context(context, NULL, NULL) < 0) {
        sws_freeContext(context);
        return NULL;
    }
    /* The result says whether the formats have a matrix at all; RGB input has none. */
    (void)sws_setColorspaceDetails(context, sws_getCoefficients(key->matrix), key->full_range,
                                   sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    return context;
}

static stoker_status find_converter(struct stk_scaler *scaler, struct stk_av *av, uint32_t width, uint32_t height,
                                    struct SwsContext **out_context, stoker_error *err)
{
    const AVFrame *frame = av->frame;
    struct converter_key key;
    memset(&key, 0, sizeof key);
    key.from_width = frame->width, key.from_height = frame->height, key.from_format = frame->format;
    key.matrix = frame->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : (int)frame->colorspace;
    key.full_range = is_full_range(frame);
    key.width = (int)width, key.height = (int)height;

    struct converter *oldest = &scaler->converters[0];
    for (size_t i = 0; i < CONVERTERS; i++) {
        struct converter *converter = &scaler->converters[i];
        if (converter->context && memcmp(&converter->key, &key, sizeof key) == 0) {
            converter->used = ++scaler->clock;
            *out_context = converter->context;
            return STOKER_OK;
        }
        if (converter->used < oldest->used) oldest = converter;
    }
    sws_freeContext(oldest->context);
    oldest->context = build(&key);
    if (!oldest->context) {
        const char *name = av_get_pix_fmt_name(frame->format);
        oldest->used = 0;
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "cannot scale %dx%d %s to %ux%u (%s)", frame->width, frame->height,
                        name ? name : "unknown pixels", width, height,
                        av->log.text[0] ? av->log.text : "no reason given");
    }
    oldest->key = key;
    oldest->used = ++scaler->clock;
    *out_context = oldest->context;
    return STOKER_OK;
}

static stoker_status make_room(struct stk_scaler *scaler, size_t size, stoker_error *err)
{
    if (size <= scaler->pixels_size) return STOKER_OK;
    uint8_t *pixels = av_malloc(size);
    if (!pixels) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", size);
    av_free(scaler->pixels);
    scaler->pixels = pixels;
    scaler->pixels_size = size;
    return STOKER_OK;
}

stoker_status stk_scaler_run(struct stk_scaler *scaler, struct stk_av *av, uint32_t width, uint32_t height,
                             struct stk_scaled *out_scaled, stoker_error *err)
{
    STK_ASSERT(width > 0 && width < INT_MAX / 2 && height > 0 && height < INT_MAX / 2);
    size_t stride = stk_align_up(width, LINE_ALIGNMENT), plane, bytes;
    if (!stk_mul_size(stride, height, &plane) || !stk_mul_size(plane, 3, &bytes))
        return stk_fail(err, STOKER_ERR_LIMIT, "a frame of %ux%u is too large", width, height);
    STK_TRY(make_room(scaler, bytes + LINE_ALIGNMENT, err));

    struct SwsContext *context = NULL;
    stk_av_log_enter(&av->log);
    stoker_status status = find_converter(scaler, av, width, height, &context, err);
    if (status == STOKER_OK) {
        uint8_t *planes[4] = {scaler->pixels, scaler->pixels + plane, scaler->pixels + 2 * plane, NULL}; /* G, B, R */
        const int strides[4] = {(int)stride, (int)stride, (int)stride, 0};
        const AVFrame *frame = av->frame;
        int rows =
            sws_scale(context, (const uint8_t *const *)frame->data, frame->linesize, 0, frame->height, planes, strides);
        if (rows < 0) status = stk_av_fail(av, rows, STOKER_ERR_CORRUPT, "cannot scale", err);
    }
    stk_av_log_leave();
    STK_TRY(status);
    out_scaled->planes[0] = scaler->pixels + 2 * plane;
    out_scaled->planes[1] = scaler->pixels;
    out_scaled->planes[2] = scaler->pixels + plane;
    out_scaled->stride = stride;
    return STOKER_OK;
}
