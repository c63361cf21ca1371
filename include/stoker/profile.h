/* SPDX-License-Identifier: Apache-2.0
 *
 * Cost profiles: what samples of the user's data did cost, measured one by one, from which a run's cost model starts
 * (docs/reference/cost.md). The plane learns from every finished sample anyway; a profile spares it the first ones.
 */
#ifndef STOKER_PROFILE_H
#define STOKER_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/media.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One measured sample. */
typedef struct stoker_cost_row {
    uint32_t kind;     /**< stoker_cost_kind_of() of the codec */
    uint32_t reserved; /**< 0 */
    uint64_t samples;
    uint64_t pixels_in;   /**< of the packets that were decoded; 0: not known */
    uint64_t bytes_in;    /**< of the same packets */
    uint64_t pixels_out;  /**< of the sample's tensor: values / 3 */
    uint64_t estimate_ns; /**< what the dataset said; 0: nothing */
    uint64_t cpu_ns, wall_ns;
    uint64_t input_bytes;  /**< of the file */
    uint64_t output_bytes; /**< of the tensor */
} stoker_cost_row;

enum { STOKER_COST_ROWS_MAX = 4096 }; /**< of one profile; a model remembers a few hundred */

/** Number of a kind of samples by FFmpeg's name of its codec ("h264"), or "jpeg", "png", "webp", "video", "image",
 * "audio", "tokens", "other". One number for all codecs that have none of their own.
 *
 * Owns:    `name` is borrowed.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API uint32_t stoker_cost_kind_of(const char *name);

/** Its name, static text; "other" for a number that is not known.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API const char *stoker_cost_kind_name(uint32_t kind);

/** Make one sample of a video file and measure it: CPU time of the calling thread, wall time, what was decoded.
 *
 * Owns:    all arguments are borrowed; stoker_video_sample_bytes(spec) bytes of `dst` are written.
 * Threads: any; nothing else should run on this thread's CPU.
 * Errors:  as stoker_media_probe() and stoker_video_read().
 */
STOKER_API stoker_status stoker_profile_video(const char *path, const stoker_video_spec *spec, void *dst,
                                              stoker_cost_row *out_row, stoker_error *err);

/** How well costs are predicted. Errors are |predicted - actual| / actual of CPU time. */
typedef struct stoker_cost_judgement {
    uint32_t judged; /**< samples */
    double median, p95, worst;
    double prior_median, prior_p95; /**< of the built-in figures alone */
} stoker_cost_judgement;

/** Teach a new model the first `taught` rows, then predict the others. With `go_on` it learns from each of these too,
 * after it was predicted, as a run does.
 *
 * Owns:    `rows` is borrowed.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (no rows to judge), NO_MEMORY.
 */
STOKER_API stoker_status stoker_profile_judge(const stoker_cost_row *rows, size_t count, size_t taught, int go_on,
                                              stoker_cost_judgement *out, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
