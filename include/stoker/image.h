/* SPDX-License-Identifier: Apache-2.0
 *
 * Probe still images and decode them into the caller's memory: JPEG, PNG, WebP, and the first frame of GIF, APNG and
 * animated WebP, as RGB of the size, type and layout that a model wants.
 *
 * What a file is, its first bytes decide, never its name. Grey is expanded, alpha dropped or composited, 16 bits are
 * reduced to 8, CMYK is converted; the EXIF orientation is applied. The same bytes and form give the same result on
 * every machine.
 */
#ifndef STOKER_IMAGE_H
#define STOKER_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/augment.h>
#include <stoker/error.h>
#include <stoker/loader.h>
#include <stoker/media.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stoker_image_format {
    STOKER_IMAGE_JPEG = 1,
    STOKER_IMAGE_PNG = 2,
    STOKER_IMAGE_WEBP = 3,
    STOKER_IMAGE_GIF = 4
} stoker_image_format;

/** Facts about one image, from its header. */
typedef struct stoker_image_info {
    stoker_image_format format;
    uint32_t width, height; /**< pixels, after orientation */
    int32_t orientation;    /**< EXIF orientation, 1 to 8; 1 if there is none */
    uint32_t channels;      /**< of the file: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha, or CMYK */
    uint32_t bit_depth;     /**< bits of one channel; 8 for palettes */
    uint64_t bytes;         /**< size of the file */
    int64_t mtime_ns;       /**< modification time, nanoseconds since 1970; 0 for bytes in memory */
} stoker_image_info;

/** Read the facts of one image file without decoding it.
 *
 * Owns:    `path` is borrowed; on success *out_info is filled, on failure it is untouched.
 * Threads: any.
 * Errors:  NOT_FOUND, CORRUPT (no known image, a damaged header, a file over 1 GiB; the message names the byte offset),
 *          IO, NO_MEMORY, UNSUPPORTED (no regular file).
 */
STOKER_API stoker_status stoker_image_probe(const char *path, stoker_image_info *out_info, stoker_error *err);

/** The same for the bytes of an image file in memory.
 *
 * Owns:    `data` is borrowed; on success *out_info is filled.
 * Threads: any.
 * Errors:  CORRUPT, INVALID_ARGUMENT.
 */
STOKER_API stoker_status stoker_image_probe_bytes(const void *data, size_t size, stoker_image_info *out_info,
                                                  stoker_error *err);

typedef enum stoker_image_layout {
    STOKER_IMAGE_CHW = 0,
    STOKER_IMAGE_HWC = 1
} stoker_image_layout;

typedef enum stoker_image_resize {
    STOKER_IMAGE_SHORT_SIDE_CROP = 0, /**< scale so that the short side fits, then crop the centre to width x height */
    STOKER_IMAGE_STRETCH = 1,         /**< scale to width x height, aspect ratio not kept */
    STOKER_IMAGE_KEEP = 2,            /**< the size of the file after orientation; width and height must be 0 */
    STOKER_IMAGE_PAD = 3 /**< scale so that the long side fits, in the middle of pixels of augment.pad_colour */
} stoker_image_resize;

typedef enum stoker_image_filter {
    STOKER_IMAGE_BILINEAR = 0, /**< antialiased: widened when shrinking */
    STOKER_IMAGE_BICUBIC = 1   /**< a = -0.5, antialiased */
} stoker_image_filter;

typedef enum stoker_image_mode {
    STOKER_IMAGE_EXACT = 0, /**< decode whole, then scale: the bytes of Pillow's resize() */
    STOKER_IMAGE_FAST = 1   /**< a JPEG of three times the wanted size or more is decoded at a half or a quarter */
} stoker_image_mode;

typedef enum stoker_image_alpha {
    STOKER_IMAGE_ALPHA_DROP = 0,     /**< the colour as stored, whatever its alpha */
    STOKER_IMAGE_ALPHA_COMPOSITE = 1 /**< over the colour `background` */
} stoker_image_alpha;

typedef enum stoker_image_partial {
    STOKER_IMAGE_PARTIAL_REFUSE = 0, /**< a cut or damaged image is CORRUPT */
    STOKER_IMAGE_PARTIAL_ACCEPT = 1, /**< it gives what can be decoded of it; the result says so */
    STOKER_IMAGE_PARTIAL_MARK = 2    /**< the same, and samples of a source have a second tensor, `partial`: one bool */
} stoker_image_partial;

/** What a native image sample looks like. Zero means the default that is named. */
typedef struct stoker_image_spec {
    uint32_t struct_size;
    uint32_t width, height; /**< output size in pixels; required, but 0 with STOKER_IMAGE_KEEP */
    stoker_dtype dtype;     /**< default uint8 */
    stoker_image_layout layout;
    stoker_image_resize resize;
    stoker_image_filter filter;
    stoker_image_mode mode;
    stoker_image_alpha alpha;
    uint8_t background[3];      /**< R, G, B; only with STOKER_IMAGE_ALPHA_COMPOSITE */
    uint8_t ignore_orientation; /**< 1: pixels as they are stored */
    stoker_image_partial partial;
    uint32_t pixels_max;        /**< larger pictures are refused before they are decoded; 0: 178,956,970 */
    float mean[3], std[3];      /**< of values scaled to 0..1, in R, G, B order; std 0 means 1. With uint8 both must be
                                     zero */
    stoker_augment augment;     /**< not with STOKER_IMAGE_KEEP; of draw 0, but in sources (stoker_source_make()) */
} stoker_image_spec;

#define STOKER_IMAGE_SPEC_INIT { sizeof(stoker_image_spec), 0, 0, STOKER_DTYPE_DEFAULT, STOKER_IMAGE_CHW, \
                                 STOKER_IMAGE_SHORT_SIDE_CROP, STOKER_IMAGE_BILINEAR, STOKER_IMAGE_EXACT, \
                                 STOKER_IMAGE_ALPHA_DROP, {0, 0, 0}, 0, STOKER_IMAGE_PARTIAL_REFUSE, 0, {0, 0, 0}, \
                                 {0, 0, 0}, {STOKER_CROP_CENTRE, 0, {0, 0, 0, 0}, {0, 0}, {0, 0}, 0, 0, 0, 0, 0} }

/** Bytes of one sample of this form, or 0 if the form is not valid. `info` (NULL allowed) is asked for the size of the
 * picture, which STOKER_IMAGE_KEEP needs.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none; stoker_image_read() says what is wrong with a form.
 */
STOKER_API size_t stoker_image_sample_bytes(const stoker_image_spec *spec, const stoker_image_info *info);

/** What one decode did. */
typedef struct stoker_image_result {
    uint32_t width, height; /**< of the sample */
    uint32_t partial;       /**< 1: the file is cut or damaged; what is missing is grey or black */
    uint32_t reduced;       /**< a JPEG was decoded at 1/reduced of its size: 1, 2 or 4 */
    uint64_t bytes_read;
} stoker_image_result;

/** Decode one image file straight into the caller's memory.
 *
 * Owns:    all arguments are borrowed; `dst_size` must be the size of the sample. On success exactly that many bytes of
 *          `dst` are written, on failure any part of them. `out_result` may be NULL.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (the form, or dst_size, naming both figures), NOT_FOUND, CORRUPT (naming the byte at which
 *          a cut file ends; also more pixels than allowed), UNSUPPORTED (no decoder in this build, or none for this
 *          kind of JPEG), IO, NO_MEMORY.
 */
STOKER_API stoker_status stoker_image_read(const char *path, const stoker_image_spec *spec, void *dst, size_t dst_size,
                                           stoker_image_result *out_result, stoker_error *err);

/** The bytes of an image file, borrowed. */
typedef struct stoker_image_bytes {
    const void *data;
    size_t size;
} stoker_image_bytes;

/** The same for an image file in memory.
 *
 * Owns:    as stoker_image_read().
 * Threads: any.
 * Errors:  as stoker_image_read().
 */
STOKER_API stoker_status stoker_image_decode(const stoker_image_bytes *bytes, const stoker_image_spec *spec, void *dst,
                                             size_t dst_size, stoker_image_result *out_result, stoker_error *err);

/** Make a native image source: sample i is file i, decoded in the form `spec` by workers without Python. All samples
 * have one size, so STOKER_IMAGE_KEEP is refused.
 *
 * Owns:    everything is borrowed and copied. On success *out_source is the caller's.
 * Threads: any.
 * Errors:  as stoker_source_create_video().
 */
STOKER_API stoker_status stoker_source_create_images(const stoker_path_list *list, const stoker_image_spec *spec,
                                                     stoker_source **out_source, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
