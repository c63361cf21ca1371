/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling: a rectangle of the current frame, at a given size, as planar RGB.
 *
 * Matrix and range come from the frame, each time; an untagged frame is BT.601 limited, as in the ffmpeg program,
 * unless the options say another matrix. Alpha is dropped, or composited at the size of the frame before scaling.
 * 8-bit planar YUV goes through resample.h, anything else through swscale, as the frame's format and the sizes alone
 * decide, so that the same picture always comes out the same. swscale is asked for planar output: it then uses full
 * chroma resolution and rounding by itself, and is faster.
 */
#include "media/ffmpeg_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include "base/assert.h"
#include "base/error.h"

/* Sizes that one worker meets at a time: a mixed data set has a handful. */
#define CONVERTERS 8u
/* Both scalers write whole vectors: room after each line and after the last. */
#define LINE_ALIGNMENT 64u
/* BITEXACT: the same bytes on every machine, whatever its vector instructions. */
#define SCALE_FLAGS (SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP)

/* No padding: keys are compared as bytes. */
struct converter_key {
    int from_width, from_height, from_format, matrix, full_range;
    struct stk_scaling scaling;
};

/* What makes a frame with alpha one without: swscale converts it to planes, the rest is ours. */
struct flattener {
    struct SwsContext *context;
    int width, height, format, matrix, full_range; /* that the context is for */
    AVFrame *layers, *flat;                        /* G, B, R, A; G, B, R */
};

struct converter {
    struct stk_resample *resample; /* or */
    struct SwsContext *context;
    struct converter_key key;
    uint64_t used; /* the smallest is replaced */
};

struct stk_scaler {
    struct converter converters[CONVERTERS];
    uint64_t clock;
    struct flattener flattener;
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

static void drop(struct converter *converter)
{
    stk_resample_destroy(converter->resample);
    sws_freeContext(converter->context);
    memset(converter, 0, sizeof *converter);
}

void stk_scaler_destroy(struct stk_scaler *scaler)
{
    if (!scaler) return;
    for (size_t i = 0; i < CONVERTERS; i++) drop(&scaler->converters[i]);
    sws_freeContext(scaler->flattener.context);
    av_frame_free(&scaler->flattener.layers);
    av_frame_free(&scaler->flattener.flat);
    av_free(scaler->pixels);
    free(scaler);
}

/* ------------------------------------------------------------------------------------------------------------- colour
 */

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

/* The matrix of a frame that may not name its own. */
static int matrix_of(const AVFrame *frame, stoker_untagged untagged)
{
    if (frame->colorspace != AVCOL_SPC_UNSPECIFIED || untagged == STOKER_UNTAGGED_BT601) return (int)frame->colorspace;
    bool large = frame->width >= 1280 || frame->height > 576;
    return untagged == STOKER_UNTAGGED_BT709 || large ? AVCOL_SPC_BT709 : AVCOL_SPC_UNSPECIFIED;
}

/* Luma weights of red and blue. False: leave the frame to swscale. */
static bool matrix_weights(int matrix, double *kr, double *kb)
{
    switch (matrix) {
    case AVCOL_SPC_UNSPECIFIED:
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M: *kr = 0.299, *kb = 0.114; return true;
    case AVCOL_SPC_BT709: *kr = 0.2126, *kb = 0.0722; return true;
    case AVCOL_SPC_BT2020_NCL: *kr = 0.2627, *kb = 0.0593; return true;
    case AVCOL_SPC_FCC: *kr = 0.30, *kb = 0.11; return true;
    case AVCOL_SPC_SMPTE240M: *kr = 0.212, *kb = 0.087; return true;
    default: return false;
    }
}

static bool is_planar_yuv8(int format, uint32_t *shift_x, uint32_t *shift_y)
{
    switch (format) {
    case AV_PIX_FMT_YUV420P:
    case AV_PIX_FMT_YUVJ420P: *shift_x = *shift_y = 1; return true;
    case AV_PIX_FMT_YUV422P:
    case AV_PIX_FMT_YUVJ422P: *shift_x = 1, *shift_y = 0; return true;
    case AV_PIX_FMT_YUV444P:
    case AV_PIX_FMT_YUVJ444P: *shift_x = *shift_y = 0; return true;
    default: return false;
    }
}

/* ---------------------------------------------------------------------------------------------------------- converters
 */

static void set_colours(struct SwsContext *context, int matrix, int full_range)
{
    /* The result says whether the formats have a matrix at all; RGB input has none. */
    (void)sws_setColorspaceDetails(context,
                                   sws_getCoefficients(matrix == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : matrix),
                                   full_range, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
}

static struct SwsContext *build_context(const struct converter_key *key, bool same_size)
{
    struct SwsContext *context = sws_alloc_context();
    if (!context) return NULL;
    (void)av_opt_set_int(context, "srcw", key->from_width, 0); /* these options exist: nothing can fail but init */
    (void)av_opt_set_int(context, "srch", key->from_height, 0);
    (void)av_opt_set_int(context, "src_format", key->from_format, 0);
    (void)av_opt_set_int(context, "dstw", key->scaling.width, 0);
    (void)av_opt_set_int(context, "dsth", key->scaling.height, 0);
    (void)av_opt_set_int(context, "dst_format", AV_PIX_FMT_GBRP, 0);
    (void)av_opt_set_int(context, "sws_flags", SCALE_FLAGS | (same_size ? SWS_BICUBIC : SWS_BILINEAR), 0);
    if (sws_init_context(context, NULL, NULL) < 0) {
        sws_freeContext(context);
        return NULL;
    }
    set_colours(context, key->matrix, key->full_range);
    return context;
}

static stoker_status build(struct converter *converter, const struct converter_key *key, struct stk_av *av,
                           stoker_error *err)
{
    struct stk_resample_spec spec = {.from_width = (uint32_t)key->from_width,
                                     .from_height = (uint32_t)key->from_height,
                                     .to_width = key->scaling.width,
                                     .to_height = key->scaling.height,
                                     .keep = key->scaling.keep,
                                     .full_range = key->full_range};
    bool same_size = spec.from_width == spec.to_width && spec.from_height == spec.to_height;
    if (is_planar_yuv8(key->from_format, &spec.chroma_shift_x, &spec.chroma_shift_y) &&
        matrix_weights(key->matrix, &spec.kr, &spec.kb)) {
        stoker_status status = stk_resample_create(&spec, &converter->resample, err);
        if (status != STOKER_ERR_UNSUPPORTED) return status;
    }
    converter->context = build_context(key, same_size);
    if (converter->context) return STOKER_OK;
    const char *name = av_get_pix_fmt_name(key->from_format);
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "cannot scale %dx%d %s to %ux%u (%s)", key->from_width,
                    key->from_height, name ? name : "unknown pixels", key->scaling.width, key->scaling.height,
                    av->log.text[0] ? av->log.text : "no reason given");
}

static stoker_status find_converter(struct stk_scaler *scaler, struct stk_av *av, const AVFrame *frame,
                                    stoker_untagged untagged, const struct stk_scaling *scaling,
                                    struct converter **out_converter, stoker_error *err)
{
    struct converter_key key;
    memset(&key, 0, sizeof key);
    key.from_width = frame->width, key.from_height = frame->height, key.from_format = frame->format;
    key.matrix = matrix_of(frame, untagged);
    key.full_range = is_full_range(frame);
    key.scaling = *scaling;

    struct converter *oldest = &scaler->converters[0];
    for (size_t i = 0; i < CONVERTERS; i++) {
        struct converter *converter = &scaler->converters[i];
        if (converter->used && memcmp(&converter->key, &key, sizeof key) == 0) {
            converter->used = ++scaler->clock;
            *out_converter = converter;
            return STOKER_OK;
        }
        if (converter->used < oldest->used) oldest = converter;
    }
    drop(oldest);
    STK_TRY(build(oldest, &key, av, err));
    oldest->key = key;
    oldest->used = ++scaler->clock;
    *out_converter = oldest;
    return STOKER_OK;
}

/* --------------------------------------------------------------------------------------------------------------- alpha
 */

static bool has_alpha(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    return format && (format->flags & AV_PIX_FMT_FLAG_ALPHA);
}

static AVFrame *new_picture(int width, int height, enum AVPixelFormat format)
{
    AVFrame *frame = av_frame_alloc();
    if (!frame) return NULL;
    frame->width = width, frame->height = height, frame->format = format;
    if (av_frame_get_buffer(frame, (int)LINE_ALIGNMENT) < 0) av_frame_free(&frame);
    return frame;
}

static stoker_status prepare_flattener(struct flattener *f, struct stk_av *av, int matrix, stoker_error *err)
{
    const AVFrame *frame = av->frame;
    int full_range = is_full_range(frame);
    if (f->context && f->width == frame->width && f->height == frame->height && f->format == frame->format &&
        f->matrix == matrix && f->full_range == full_range)
        return STOKER_OK;
    sws_freeContext(f->context);
    av_frame_free(&f->layers);
    av_frame_free(&f->flat);
    f->width = frame->width, f->height = frame->height, f->format = frame->format;
    f->matrix = matrix, f->full_range = full_range;
    f->context = sws_getContext(frame->width, frame->height, frame->format, frame->width, frame->height,
                                AV_PIX_FMT_GBRAP, SCALE_FLAGS | SWS_BICUBIC, NULL, NULL, NULL);
    f->layers = new_picture(frame->width, frame->height, AV_PIX_FMT_GBRAP);
    f->flat = new_picture(frame->width, frame->height, AV_PIX_FMT_GBRP);
    if (!f->layers || !f->flat)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a frame of %dx%d", frame->width, frame->height);
    const char *name = av_get_pix_fmt_name(frame->format);
    if (!f->context)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "cannot take the alpha of %s pixels", name ? name : "unknown");
    set_colours(f->context, matrix, full_range);
    return STOKER_OK;
}

/* (colour * alpha + background * (255 - alpha)) / 255, to the nearest. */
static void composite_line(const uint8_t *colour, const uint8_t *alpha, uint8_t background, uint8_t *out, int width)
{
    for (int x = 0; x < width; x++) {
        uint32_t sum = (uint32_t)colour[x] * alpha[x] + (uint32_t)background * (255u - alpha[x]) + 128u;
        out[x] = (uint8_t)((sum + (sum >> 8)) >> 8);
    }
}

/* The current frame without alpha, in planes G, B, R. */
static stoker_status flatten(struct flattener *f, struct stk_av *av, const stoker_picture_options *picture,
                             const AVFrame **out_frame, stoker_error *err)
{
    const AVFrame *frame = av->frame;
    const uint8_t background[3] = {picture->background[1], picture->background[2], picture->background[0]};
    STK_TRY(prepare_flattener(f, av, matrix_of(frame, picture->untagged), err));
    int rows = sws_scale(f->context, (const uint8_t *const *)frame->data, frame->linesize, 0, frame->height,
                         f->layers->data, f->layers->linesize);
    if (rows < 0) return stk_av_fail(av, rows, STOKER_ERR_CORRUPT, "cannot take the alpha", err);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < frame->height; y++)
            composite_line(f->layers->data[c] + (ptrdiff_t)y * f->layers->linesize[c],
                           f->layers->data[3] + (ptrdiff_t)y * f->layers->linesize[3], background[c],
                           f->flat->data[c] + (ptrdiff_t)y * f->flat->linesize[c], frame->width);
    *out_frame = f->flat;
    return STOKER_OK;
}

/* ----------------------------------------------------------------------------------------------------------------- run
 */

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

/* swscale makes the whole picture, of which a part is handed out. */
static stoker_status run_context(struct stk_scaler *scaler, struct stk_av *av, const AVFrame *frame,
                                 const struct converter *converter, struct stk_scaled *out, stoker_error *err)
{
    const struct stk_scaling *scaling = &converter->key.scaling;
    size_t stride = stk_align_up(scaling->width, LINE_ALIGNMENT), plane, bytes;
    if (!stk_mul_size(stride, scaling->height, &plane) || !stk_mul_size(plane, 3, &bytes) ||
        !stk_add_size(bytes, LINE_ALIGNMENT, &bytes))
        return stk_fail(err, STOKER_ERR_LIMIT, "a picture of %ux%u is too large", scaling->width, scaling->height);
    STK_TRY(make_room(scaler, bytes, err));
    uint8_t *rgb[3] = {scaler->pixels, scaler->pixels + plane, scaler->pixels + 2 * plane};
    uint8_t *const planes[4] = {rgb[1], rgb[2], rgb[0], NULL}; /* G, B, R */
    const int strides[4] = {(int)stride, (int)stride, (int)stride, 0};
    int rows = sws_scale(converter->context, (const uint8_t *const *)frame->data, frame->linesize, 0, frame->height,
                         planes, strides);
    if (rows < 0) return stk_av_fail(av, rows, STOKER_ERR_CORRUPT, "cannot scale", err);
    for (size_t c = 0; c < 3; c++) out->planes[c] = rgb[c] + scaling->keep.y * stride + scaling->keep.x;
    out->stride = stride;
    return STOKER_OK;
}

static stoker_status run_resample(struct stk_scaler *scaler, const AVFrame *frame, const struct converter *converter,
                                  uint8_t *const direct[3], struct stk_scaled *out, stoker_error *err)
{
    const struct stk_rectangle *keep = &converter->key.scaling.keep;
    size_t stride = direct ? keep->width : stk_align_up(keep->width, LINE_ALIGNMENT), plane = stride * keep->height;
    uint8_t *rgb[3];
    if (!direct) STK_TRY(make_room(scaler, plane * 3, err));
    for (size_t c = 0; c < 3; c++) rgb[c] = direct ? direct[c] : scaler->pixels + c * plane;
    const struct stk_yuv yuv = {{frame->data[0], frame->data[1], frame->data[2]},
                                {frame->linesize[0], frame->linesize[1], frame->linesize[2]}};
    stk_resample_run(converter->resample, &yuv, rgb, stride);
    for (size_t c = 0; c < 3; c++) out->planes[c] = rgb[c];
    out->stride = stride;
    return STOKER_OK;
}

stoker_status stk_scaler_run(struct stk_scaler *scaler, struct stk_av *av, const stoker_picture_options *picture,
                             const struct stk_scaling *scaling, uint8_t *const direct[3], struct stk_scaled *out_scaled,
                             stoker_error *err)
{
    STK_ASSERT(scaling->width > 0 && scaling->width < INT_MAX / 2);
    STK_ASSERT(scaling->height > 0 && scaling->height < INT_MAX / 2);
    STK_ASSERT(!direct || scaling->keep.width % STK_RESAMPLE_ALIGNMENT == 0);
    struct converter *converter = NULL;
    const AVFrame *frame = av->frame;
    stk_av_log_enter(&av->log);
    stoker_status status = STOKER_OK;
    if (picture->alpha == STOKER_ALPHA_COMPOSITE && has_alpha(frame))
        status = flatten(&scaler->flattener, av, picture, &frame, err);
    if (status == STOKER_OK) status = find_converter(scaler, av, frame, picture->untagged, scaling, &converter, err);
    if (status == STOKER_OK)
        status = converter->resample ? run_resample(scaler, frame, converter, direct, out_scaled, err)
                                     : run_context(scaler, av, frame, converter, out_scaled, err);
    stk_av_log_leave();
    return status;
}
