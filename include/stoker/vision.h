/* SPDX-License-Identifier: Apache-2.0
 *
 * What vision models make of a picture or clip: the size it is scaled to, its grid of patches, its tokens or latents,
 * and native samples in that form.
 *
 * Families, with the constants of each: python/stoker/presets.py. Formulas: docs/reference/presets.md.
 */
#ifndef STOKER_VISION_H
#define STOKER_VISION_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/image.h>
#include <stoker/loader.h>
#include <stoker/media.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A clip or, with one frame, a still picture; sizes after rotation. */
typedef struct stoker_clip {
    uint32_t frames, width, height;
} stoker_clip;

/* ----------------------------------------------------------------------------------------------- patches that merge */

typedef enum stoker_fit_limits {
    STOKER_FIT_FRAME = 0, /**< pixels_min and pixels_max are of one frame */
    STOKER_FIT_CLIP = 1   /**< they are of all frames of the clip together */
} stoker_fit_limits;

/** Details in which public implementations of one rule differ. */
typedef enum stoker_fit_flags {
    STOKER_FIT_WHOLE_FACTOR = 1, /**< a rounded side is at least one factor before it is compared with the limits, and
                                      the share of a frame in clip_pixels is not rounded */
    STOKER_FIT_GROW_FIRST = 2,   /**< a picture with a side under one factor is first enlarged until both reach it */
    STOKER_FIT_EVEN_FRAMES = 4   /**< with STOKER_FIT_CLIP the number of frames is rounded to whole groups (half to
                                      even) before the comparison, not up */
} stoker_fit_flags;

/** How a picture is fitted to whole patches, `merge` x `merge` of which become one token. The factor is patch * merge:
 * both sides become multiples of it. */
typedef struct stoker_patch_rule {
    uint32_t patch, merge; /**< pixels of a patch's side; patches of a token's side */
    uint32_t temporal;     /**< frames of one patch */
    stoker_fit_limits limits;
    uint32_t flags;        /**< stoker_fit_flags */
    uint64_t pixels_min, pixels_max;
    uint64_t clip_pixels;      /**< STOKER_FIT_FRAME: what all frames of a clip share; no frame gets less than 1.05 *
                                    pixels_min. 0: no such bound */
    uint64_t frame_pixels_max; /**< STOKER_FIT_CLIP: bound of one frame, with the same floor; 0: none */
} stoker_patch_rule;

/** What a clip becomes. */
typedef struct stoker_patch_plan {
    uint32_t width, height;          /**< it is scaled to */
    uint32_t grid_t, grid_h, grid_w; /**< patches in time and space */
    uint32_t row_values;             /**< of one patch: 3 * temporal * patch^2 */
    uint64_t patches;                /**< rows of the sample: grid_t * grid_h * grid_w */
    uint64_t tokens;                 /**< patches / merge^2 */
} stoker_patch_plan;

/** Size, grid and tokens of a clip under a rule.
 *
 * Owns:    everything is borrowed; on success *out_plan is filled, on failure it is untouched.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (the rule, or a clip without pixels), CORRUPT (one side is more than 200 times the other),
 *          LIMIT (the result is larger than 65,536 pixels a side or 16 GiB of float32).
 */
STOKER_API stoker_status stoker_patch_plan_clip(const stoker_patch_rule *rule, const stoker_clip *clip,
                                                stoker_patch_plan *out_plan, stoker_error *err);

/** Which frames of a clip are taken. */
typedef enum stoker_frame_choice {
    STOKER_FRAMES_UNIFORM = 0, /**< first to last: rint(i * (n - 1) / (k - 1)), ties to even */
    STOKER_FRAMES_STEP = 1     /**< floor(i * n / k) */
} stoker_frame_choice;

/** How many frames of a clip of n frames are taken: a fixed number, or by rate: clip seconds * rate, at least
 * frames_min (rounded up to whole groups) and at most frames_max and n (rounded down to whole groups), rounded down to
 * whole groups. */
typedef struct stoker_frame_rule {
    stoker_frame_choice choice;
    uint32_t frames;                 /**< fixed number; 0: by rate */
    double rate;                     /**< frames a second */
    uint32_t frames_min, frames_max; /**< by rate */
    uint32_t group;                  /**< by rate: the result is a multiple of it; 0 means 1 */
} stoker_frame_rule;

/** What is known of a file that is to be sampled. */
typedef struct stoker_clip_facts {
    uint32_t width, height; /**< after rotation; 0: unknown, the file cannot be described */
    uint64_t frames;        /**< presented frames; 1 for images */
    double duration_s;      /**< seconds; only looked at by rate */
} stoker_clip_facts;

/** Number of frames that a rule takes of a clip. A clip with fewer frames than the fixed number, or than one group,
 * gets that many all the same: its last frame is repeated.
 *
 * Owns:    everything is borrowed; *out_count is set on success.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (the rule, a clip without frames, or by rate one without duration).
 */
STOKER_API stoker_status stoker_frames_count(const stoker_frame_rule *rule, const stoker_clip_facts *facts,
                                             uint32_t *out_count, stoker_error *err);

/** The i-th of `count` frames that are taken of a clip. */
typedef struct stoker_frame_place {
    uint64_t frames; /**< of the clip */
    uint32_t count, index;
} stoker_frame_place;

/** Which frame that is; a clip with fewer than `count` gives each once, then its last.
 *
 * Owns:    `place` is borrowed.
 * Threads: any.
 * Errors:  none; `frames` and `count` below 1 count as 1.
 */
STOKER_API uint64_t stoker_frames_index(stoker_frame_choice choice, const stoker_frame_place *place);

/* ----------------------------------------------------------------------------------------- tubelets, causal latents */

/** Tokens of an encoder of tubelets: (frames / tubelet) * (height / patch) * (width / patch), integer divisions. */
typedef struct stoker_tubelet_rule {
    uint32_t tubelet, patch;
    double masked; /**< share of the places that tube masking hides from the encoder, from 0 to below 1 */
} stoker_tubelet_rule;

typedef struct stoker_tubelet_plan {
    uint64_t tokens;  /**< of the clip */
    uint64_t visible; /**< of these, what the encoder sees: groups * (places - floor(masked * places)) */
} stoker_tubelet_plan;

/** Tokens of a clip.
 *
 * Owns:    everything is borrowed; on success *out_plan is filled.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT.
 */
STOKER_API stoker_status stoker_tubelet_plan_clip(const stoker_tubelet_rule *rule, const stoker_clip *clip,
                                                  stoker_tubelet_plan *out_plan, stoker_error *err);

/** A causal video autoencoder and the patches of the model behind it. */
typedef struct stoker_latent_rule {
    uint32_t channels;
    uint32_t stride_t, stride; /**< in time; in both directions of space */
    uint32_t patch_t, patch;   /**< latents of one token */
} stoker_latent_rule;

typedef struct stoker_latent_plan {
    uint32_t channels, t, h, w; /**< t = (frames - 1) / stride_t + 1, h = height / stride, w = width / stride */
    uint64_t tokens;
    uint32_t frames_used; /**< the rest of the frames is dropped: frames should be a multiple of stride_t, plus 1 */
} stoker_latent_plan;

/** Latent shape and tokens of a clip.
 *
 * Owns:    everything is borrowed; on success *out_plan is filled.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT.
 */
STOKER_API stoker_status stoker_latent_plan_clip(const stoker_latent_rule *rule, const stoker_clip *clip,
                                                 stoker_latent_plan *out_plan, stoker_error *err);

/* ---------------------------------------------------------------------------------------------------------- samples */

typedef enum stoker_patch_media {
    STOKER_PATCHES_OF_VIDEOS = 0,
    STOKER_PATCHES_OF_IMAGES = 1
} stoker_patch_media;

typedef enum stoker_patch_mode {
    STOKER_PATCHES_EXACT = 0, /**< to RGB at full size, then a bicubic resize of 8-bit values: what Pillow gives */
    STOKER_PATCHES_FAST = 1   /**< videos: straight to the target size; JPEGs: decoded smaller where that is enough */
} stoker_patch_mode;

/** Samples of patches: a dict of `pixel_values` (patches, 3 * temporal * patch^2) and `grid_thw` (int64: t, h, w). In a
 * batch the patches of all samples follow one another, and grid_thw has a row for each sample.
 *
 * A row holds channel, frame of the group, line, column; rows are in the order t, h / merge, w / merge, merge, merge. A
 * last group that is not full repeats the last frame; a still image fills one group. Values are 8-bit levels after the
 * resize; unless the type is uint8 they become x / 255, less mean, over std in float32. */
typedef struct stoker_patch_spec {
    uint32_t struct_size;
    stoker_patch_media media;
    stoker_patch_rule rule;
    stoker_frame_rule frames;   /**< of videos; zeroed for images */
    stoker_patch_mode mode;
    stoker_dtype dtype;         /**< default float32 */
    float mean[3], std[3];      /**< R, G, B; std 0 means 1. With uint8 both must be zero */
    stoker_short_clip short_clip; /**< a file that gives fewer frames than were described, or than one group */
    double damaged_max;         /**< of videos, as in stoker_video_spec */
    stoker_image_alpha alpha;   /**< of images */
    uint8_t background[3], ignore_orientation;
    stoker_image_partial partial; /**< of images; no STOKER_IMAGE_PARTIAL_MARK */
    uint32_t pixels_max;        /**< of images, as in stoker_image_spec */
} stoker_patch_spec;

#define STOKER_PATCH_SPEC_INIT { sizeof(stoker_patch_spec), STOKER_PATCHES_OF_VIDEOS, \
                                 {0, 0, 0, STOKER_FIT_FRAME, 0, 0, 0, 0, 0}, {STOKER_FRAMES_UNIFORM, 0, 0, 0, 0, 0}, \
                                 STOKER_PATCHES_EXACT, STOKER_DTYPE_DEFAULT, {0, 0, 0}, {0, 0, 0}, \
                                 STOKER_SHORT_REPEAT_LAST, 0, STOKER_IMAGE_ALPHA_DROP, {0, 0, 0}, 0, \
                                 STOKER_IMAGE_PARTIAL_REFUSE, 0 }

/** Files, and what is known of them. */
typedef struct stoker_clip_list {
    const char *const *paths;
    const stoker_clip_facts *facts; /**< one for each path; NULL: every file is opened and its header (an image) or its
                                         packets (a video) are read now */
    size_t count;
} stoker_clip_list;

/** Make a native source of patches: sample i is file i, made by workers without Python. How many patches it has is part
 * of its descriptor (shape[0]), with its tokens.
 *
 * A file that could not be described (no such file, no picture in it, one side over 200 times the other) is no error
 * here: its sample has no rows and fails when it is asked for.
 *
 * Owns:    everything is borrowed and copied. On success *out_source is the caller's.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (the form, or a path over 4,095 bytes), LIMIT, NO_MEMORY.
 */
STOKER_API stoker_status stoker_source_create_patches(const stoker_clip_list *list, const stoker_patch_spec *spec,
                                                      stoker_source **out_source, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
