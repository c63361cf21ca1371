/* SPDX-License-Identifier: Apache-2.0
 *
 * Probe video files and decode chosen frames of them, exact by presentation time.
 *
 * Files are opened read-only; nothing is fetched over a network. A frame index always counts *presented* frames (hidden
 * by no edit list, in presentation order, after rotation), never packets. Frame sizes are width x height after
 * rotation.
 */
#ifndef STOKER_MEDIA_H
#define STOKER_MEDIA_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/augment.h>
#include <stoker/error.h>
#include <stoker/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STOKER_CODEC_NAME_BYTES = 32 };

/** Element type of a tensor. The numbers are part of the wire format. */
typedef enum stoker_dtype {
    STOKER_DTYPE_DEFAULT = 0, /**< uint8 where a default is asked for */
    STOKER_DTYPE_UINT8 = 1,
    STOKER_DTYPE_FLOAT16 = 2,
    STOKER_DTYPE_BFLOAT16 = 3,
    STOKER_DTYPE_FLOAT32 = 4,
    STOKER_DTYPE_INT64 = 5,
    STOKER_DTYPE_INT16 = 6,
    STOKER_DTYPE_INT32 = 7,
    STOKER_DTYPE_BOOL = 8 /**< one byte, 0 or 1 */
} stoker_dtype;

/** Facts about one file, from its packet table and its first frame. */
typedef struct stoker_media_info {
    char codec[STOKER_CODEC_NAME_BYTES]; /**< FFmpeg's short name: "h264", "vp9" */
    uint32_t width, height;              /**< pixels, after rotation */
    int32_t rotation;                    /**< clockwise degrees to apply for display: 0, 90, 180, 270 */
    uint64_t frames;                     /**< presented frames; a cut last packet is not counted */
    double duration_s;                   /**< seconds from the first presented frame to the end of the last */
    uint64_t bytes;                      /**< size of the file */
    int64_t mtime_ns;                    /**< modification time, nanoseconds since 1970 */
    uint32_t sar_num, sar_den;           /**< shape of a pixel as stored, width : height; 0 : 1 if unknown */
    char pixel_format[32];               /**< of the first frame, FFmpeg's name; empty if none can be decoded */
    uint32_t bit_depth;                  /**< of a channel; 0 if unknown */
    char matrix[16];                     /**< FFmpeg's name: "bt709"; empty if untagged */
    char range[8];                       /**< "full" or "limited"; empty if untagged */
    uint32_t interlaced, alpha;          /**< 1 or 0; interlaced frames are decoded as they are */
} stoker_media_info;

typedef enum stoker_probe_flags {
    STOKER_PROBE_EXACT = 1 /**< decode the file once and count what really comes out */
} stoker_probe_flags;

/** Read the facts of one file.
 *
 * Owns:    `path` is borrowed; on success *out_info is filled, on failure it is untouched.
 * Threads: any; one decoder thread is used.
 * Errors:  NOT_FOUND, CORRUPT, UNSUPPORTED (no decoder), IO; "no video stream" is NOT_FOUND with exactly that message.
 */
STOKER_API stoker_status stoker_media_probe(const char *path, uint32_t flags, stoker_media_info *out_info,
                                            stoker_error *err);

typedef enum stoker_video_layout {
    STOKER_LAYOUT_TCHW = 0,
    STOKER_LAYOUT_CTHW = 1,
    STOKER_LAYOUT_THWC = 2
} stoker_video_layout;

typedef enum stoker_resize_mode {
    STOKER_RESIZE_SHORT_SIDE_CROP = 0, /**< scale so that the short side fits, then crop the centre to width x height */
    STOKER_RESIZE_EXACT = 1,           /**< scale to width x height, aspect ratio not kept */
    STOKER_RESIZE_PAD = 2 /**< scale so that the long side fits, in the middle of pixels of augment.pad_colour */
} stoker_resize_mode;

typedef enum stoker_short_clip {
    STOKER_SHORT_REPEAT_LAST = 0, /**< a clip of fewer frames keeps all, then repeats its last one */
    STOKER_SHORT_ERROR = 1        /**< such a clip is a CORRUPT sample */
} stoker_short_clip;

/** Which N of the n presented frames of a clip make a sample. */
typedef enum stoker_sampling {
    STOKER_SAMPLING_UNIFORM = 0, /**< frame rint(i*(n-1)/(N-1)), ties to even */
    STOKER_SAMPLING_STEP = 1,    /**< frame floor(i*n/N) */
    STOKER_SAMPLING_RATE = 2,    /**< `fps` frames a second: k = n/rate*fps, then min(max(k, lo), hi, n), then to a
                                      multiple of frame_factor; lo is frames_min rounded up to one, hi the smallest
                                      of frames_max, N and n rounded down to one. The k frames are spread over the
                                      clip; the rest of the N repeats the last. Fewer than frame_factor frames are
                                      CORRUPT */
    STOKER_SAMPLING_FIRST = 3,   /**< the clip of N frames, each `stride` after the one before, at the start */
    STOKER_SAMPLING_MIDDLE = 4,  /**< in the middle (of an odd rest the smaller half is before it) */
    STOKER_SAMPLING_LAST = 5,    /**< at the end */
    STOKER_SAMPLING_RANDOM = 6   /**< at a place that the draw of the sample decides, all places alike */
} stoker_sampling;

/** How sampling by rate comes to a multiple of the factor; public libraries differ. */
typedef enum stoker_rounding {
    STOKER_ROUNDING_FLOOR = 0,  /**< down */
    STOKER_ROUNDING_NEAREST = 1 /**< to the nearest, ties to an even number of groups */
} stoker_rounding;

/** How the k frames of sampling by rate are spread over the n of a clip; public libraries differ here too. */
typedef enum stoker_spread {
    STOKER_SPREAD_UNIFORM = 0, /**< frame rint(i*(n-1)/(k-1)) */
    STOKER_SPREAD_STEP = 1     /**< frame floor(i*n/k) */
} stoker_spread;

/** The matrix of pictures that do not name theirs. */
typedef enum stoker_untagged {
    STOKER_UNTAGGED_BT601 = 0, /**< as the ffmpeg program and most readers do */
    STOKER_UNTAGGED_BT709 = 1,
    STOKER_UNTAGGED_BY_SIZE = 2 /**< BT.709 from 1280 pixels wide or more than 576 high, as players guess */
} stoker_untagged;

typedef enum stoker_alpha {
    STOKER_ALPHA_DROP = 0,     /**< the colour as stored, whatever its alpha */
    STOKER_ALPHA_COMPOSITE = 1 /**< over the colour `background`, before scaling; alpha is not premultiplied */
} stoker_alpha;

/** How a decoded picture becomes RGB. Zero means the default. Pictures are never deinterlaced; the probe says whether
 * they are interlaced. */
typedef struct stoker_picture_options {
    stoker_untagged untagged;
    uint32_t apply_sar;       /**< 1: pixels are made square, by the width; 0: pixels as they are stored */
    uint32_t ignore_rotation; /**< 1: as it is stored, not as it is displayed */
    stoker_alpha alpha;
    uint8_t background[4]; /**< R, G, B, 0; only with STOKER_ALPHA_COMPOSITE */
} stoker_picture_options;

/** How pictures get their size. */
typedef enum stoker_video_mode {
    STOKER_VIDEO_FAST = 0, /**< scaled on the way from YUV to RGB */
    STOKER_VIDEO_EXACT = 1 /**< to RGB at full size, then scaled: the bytes of Pillow's resize() of that picture */
} stoker_video_mode;

typedef enum stoker_video_filter {
    STOKER_VIDEO_BILINEAR = 0, /**< antialiased: widened when shrinking */
    STOKER_VIDEO_BICUBIC = 1   /**< a = -0.5, antialiased; only with STOKER_VIDEO_EXACT */
} stoker_video_filter;

/** What a native video sample looks like. Zero means the default that is named. */
typedef struct stoker_video_spec {
    uint32_t struct_size;
    uint32_t frames;        /**< N frames; required */
    uint32_t width, height; /**< output size in pixels; required */
    stoker_dtype dtype;     /**< default uint8 */
    stoker_video_layout layout;
    stoker_resize_mode resize;
    stoker_short_clip short_clip;
    float mean[3], std[3]; /**< of values scaled to 0..1, in R, G, B order; std 0 means 1. With uint8 both must be
                                  zero */
    double damaged_max;    /**< largest share of promised frames that may be undecodable; default 0.5; negative:
                                  none */
    stoker_sampling sampling;
    uint32_t stride;       /**< of the clips FIRST, MIDDLE, LAST and RANDOM; default 1 */
    double fps;            /**< the others only with STOKER_SAMPLING_RATE; default 2 */
    uint32_t frames_min;   /**< default 4 */
    uint32_t frames_max;   /**< default 768; never more than `frames` */
    uint32_t frame_factor; /**< default 2 */
    stoker_rounding rounding;
    stoker_spread spread;
    stoker_picture_options picture;
    uint32_t count_frames; /**< 1: samples of a source have a second tensor, `frames`: one int64, how many of the N
                                  are no repeats of the last */
    stoker_video_mode mode;
    stoker_video_filter filter; /**< of STOKER_VIDEO_EXACT */
    stoker_augment augment;
} stoker_video_spec;

#define STOKER_VIDEO_SPEC_INIT { sizeof(stoker_video_spec), 0, 0, 0, STOKER_DTYPE_DEFAULT, STOKER_LAYOUT_TCHW, \
                                 STOKER_RESIZE_SHORT_SIDE_CROP, STOKER_SHORT_REPEAT_LAST, {0, 0, 0}, {0, 0, 0}, 0, \
                                 STOKER_SAMPLING_UNIFORM, 0, 0, 0, 0, 0, STOKER_ROUNDING_FLOOR, \
                                 STOKER_SPREAD_UNIFORM, \
                                 {STOKER_UNTAGGED_BT601, 0, 0, STOKER_ALPHA_DROP, {0, 0, 0, 0}}, \
                                 0, STOKER_VIDEO_FAST, STOKER_VIDEO_BILINEAR, \
                                 {STOKER_CROP_CENTRE, 0, {0, 0, 0, 0}, {0, 0}, {0, 0}, 0, 0, 0, 0, 0} }

/** Bytes of one sample of this form, or 0 if the form is not valid.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none; stoker_video_read() says what is wrong with a form.
 */
STOKER_API size_t stoker_video_sample_bytes(const stoker_video_spec *spec);

/** What one decode did. */
typedef struct stoker_video_result {
    uint64_t frames_presented; /**< frames that can really be decoded and shown */
    uint64_t frames_promised;  /**< frames that the packet table promised */
    uint64_t packets_decoded;
    uint64_t bytes_read;       /**< bytes of the decoded packets */
    uint64_t frames_chosen;    /**< of the sample; the places behind them repeat the last */
    uint64_t plan_hash;        /**< of the plan that made the sample (plan.h): a function of file, form and draw */
} stoker_video_result;

/** Decode one sample straight into the caller's memory.
 *
 * The same file and form give the same bytes, whatever was decoded before. A file that promises more frames than it
 * holds is sampled over the frames that it does hold. A random clip is that of draw 0; sources are told others
 * (stoker_source_make()).
 *
 * Owns:    all arguments are borrowed; exactly stoker_video_sample_bytes(spec) bytes of `dst` are written on success,
 *          any part of them on failure. `out_result` may be NULL.
 * Threads: any; one decoder thread is used.
 * Errors:  INVALID_ARGUMENT (the form), NOT_FOUND, CORRUPT, UNSUPPORTED, IO, NO_MEMORY.
 */
STOKER_API stoker_status stoker_video_read(const char *path, const stoker_video_spec *spec, void *dst,
                                           stoker_video_result *out_result, stoker_error *err);

/** A list of frames to decode as uint8 T,H,W,C: `indices`, `seconds`, `plan`, or none of them for all frames. */
typedef struct stoker_frame_list {
    const uint64_t *indices; /**< presented frame indices in any order, repeats allowed */
    size_t count;            /**< length of `indices` or `seconds`; ignored if both are NULL */
    uint32_t width, height;  /**< output size; 0 keeps the size of the file after rotation (and with square pixels) */
    const double *seconds;   /**< instead: the frames that are shown at these times in any order, repeats allowed. The
                                  first presented frame is shown from second 0 on, each until the next one is, the last
                                  for as long as the file says */
    const stoker_plan *plan; /**< instead: the frames that a plan keeps, in its order, by that plan */
    stoker_picture_options picture;
} stoker_frame_list;

/** Receives one decoded frame: `rgb` holds height*width*3 bytes and is borrowed for the call.
 * `position` is the place in the list. Frames may come out of the order of the list. If damage is met, decoding begins
 * again from the start and places are delivered again: the last delivery counts. A non-OK result ends the decode.
 */
typedef stoker_status (*stoker_frame_fn)(void *user, size_t position, const uint8_t *rgb, uint32_t width,
                                         uint32_t height, stoker_error *err);

/** Decode listed frames as RGB, one at a time.
 *
 * Owns:    all arguments are borrowed.
 * Threads: any; `frame_fn` is called on the calling thread.
 * Errors:  as stoker_video_read(); INVALID_ARGUMENT for an index past the last frame or a time outside of the clip,
 *          naming both figures; MISMATCH (the plan is one of another file); or what `frame_fn` returned.
 */
STOKER_API stoker_status stoker_frames_read(const char *path, const stoker_frame_list *list, stoker_frame_fn frame_fn,
                                            void *user, stoker_error *err);

/** The plan by which stoker_frames_read() would decode a list if the file is whole. Nothing is decoded: should damage
 * be met, the frames are read in order instead.
 *
 * Owns:    `path` and `list` are borrowed; on success *out_plan is the caller's, who closes it. The sizes of the list
 *          mean nothing here.
 * Threads: any.
 * Errors:  as stoker_frames_read(); INVALID_ARGUMENT for a list with a plan.
 */
STOKER_API stoker_status stoker_frames_plan(const char *path, const stoker_frame_list *list, stoker_plan **out_plan,
                                            stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
