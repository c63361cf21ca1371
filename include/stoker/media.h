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

#include <stoker/error.h>

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

/** Facts about one file, read from its packet table without decoding. */
typedef struct stoker_media_info {
    char codec[STOKER_CODEC_NAME_BYTES]; /**< FFmpeg's short name: "h264", "vp9" */
    uint32_t width, height;              /**< pixels, after rotation */
    int32_t rotation;                    /**< clockwise degrees to apply for display: 0, 90, 180, 270 */
    uint64_t frames;                     /**< presented frames; a cut last packet is not counted */
    double duration_s;                   /**< seconds from the first presented frame to the end of the last */
    uint64_t bytes;                      /**< size of the file */
    int64_t mtime_ns;                    /**< modification time, nanoseconds since 1970 */
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
    STOKER_RESIZE_EXACT = 1            /**< scale to width x height, aspect ratio not kept */
} stoker_resize_mode;

typedef enum stoker_short_clip {
    STOKER_SHORT_REPEAT_LAST = 0, /**< a clip of fewer frames keeps all, then repeats its last one */
    STOKER_SHORT_ERROR = 1        /**< such a clip is a CORRUPT sample */
} stoker_short_clip;

/** What a native video sample looks like. Zero means the default that is named. */
typedef struct stoker_video_spec {
    uint32_t struct_size;
    uint32_t frames;         /**< N frames, sampled uniformly: index rint(i*(n-1)/(N-1)) of n presented frames;
                                  required */
    uint32_t width, height;  /**< output size in pixels; required */
    stoker_dtype dtype;      /**< default uint8 */
    stoker_video_layout layout;
    stoker_resize_mode resize;
    stoker_short_clip short_clip;
    float mean[3], std[3];   /**< of values scaled to 0..1, in R, G, B order; std 0 means 1. With uint8 both must be
                                  zero */
    double damaged_max;      /**< largest share of promised frames that may be undecodable; default 0.5; negative:
                                  none */
} stoker_video_spec;

#define STOKER_VIDEO_SPEC_INIT { sizeof(stoker_video_spec), 0, 0, 0, STOKER_DTYPE_DEFAULT, STOKER_LAYOUT_TCHW, \
                                 STOKER_RESIZE_SHORT_SIDE_CROP, STOKER_SHORT_REPEAT_LAST, {0, 0, 0}, {0, 0, 0}, 0 }

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
} stoker_video_result;

/** Decode one sample straight into the caller's memory.
 *
 * The same file and form give the same bytes, whatever was decoded before. A file that promises more frames than it
 * holds is sampled over the frames that it does hold.
 *
 * Owns:    all arguments are borrowed; exactly stoker_video_sample_bytes(spec) bytes of `dst` are written on success,
 *          any part of them on failure. `out_result` may be NULL.
 * Threads: any; one decoder thread is used.
 * Errors:  INVALID_ARGUMENT (the form), NOT_FOUND, CORRUPT, UNSUPPORTED, IO, NO_MEMORY.
 */
STOKER_API stoker_status stoker_video_read(const char *path, const stoker_video_spec *spec, void *dst,
                                           stoker_video_result *out_result, stoker_error *err);

/** A list of frames to decode as uint8 T,H,W,C. */
typedef struct stoker_frame_list {
    const uint64_t *indices; /**< presented frame indices in any order, repeats allowed; NULL means all frames */
    size_t count;            /**< length of `indices`; ignored if that is NULL */
    uint32_t width, height;  /**< output size; 0 keeps the size of the file after rotation */
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
 * Errors:  as stoker_video_read(); INVALID_ARGUMENT for an index past the last frame, naming both figures; or what
 *          `frame_fn` returned.
 */
STOKER_API stoker_status stoker_frames_read(const char *path, const stoker_frame_list *list, stoker_frame_fn frame_fn,
                                            void *user, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
