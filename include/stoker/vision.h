/* SPDX-License-Identifier: Apache-2.0
 *
 * What vision models make of a picture or clip: the size it is scaled to, its grid of patches, its tokens or latents.
 *
 * Families, with the constants of each: python/stoker/presets.py. Formulas: docs/reference/presets.md.
 */
#ifndef STOKER_VISION_H
#define STOKER_VISION_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A clip or, with one frame, a still picture; sizes after rotation. */
typedef struct stoker_clip {
    uint32_t frames, width, height;
} stoker_clip;

/* ------------------------------------------------------------------------------------------------ patches that merge */

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

/** Number of frames that a rule takes of a clip. A clip with fewer frames than the fixed number, or than one group, gets
 * that many all the same: its last frame is repeated.
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

/* ------------------------------------------------------------------------------------------ tubelets, causal latents */

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
    uint32_t channels, t, h, w; /**< latent: channels x ((frames - 1) / stride_t + 1) x height / stride x width / stride */
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

#ifdef __cplusplus
}
#endif

#endif
