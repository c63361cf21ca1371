/* SPDX-License-Identifier: Apache-2.0
 *
 * Token-aware batches: which samples each rank gets in each step of an epoch, so that ranks carry near-equal load and
 * the mixture of the data is kept. docs/reference/batches.md describes the rules.
 *
 *     sources -> order: by weight, each shape in proportion; cut into windows of a fixed number of samples
 *     window  -> cells: single samples, or micro-batches of one shape under a token budget
 *     cells   -> steps: as many cells for each rank, near-equal sums of load
 *
 * Order and windows do not depend on the number of ranks; every rank computes the same plan from the same arguments.
 * Everything is a pure function: no system call, no allocation. The caller lends the memory and keeps it aligned to 16.
 */
#ifndef STOKER_BATCH_H
#define STOKER_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STOKER_BATCH_WINDOW_STEPS = 8 }; /**< a window has at least as many steps */

/** One source of samples. Ids of its samples begin where those of the source before it end. */
typedef struct stoker_batch_source {
    const uint32_t *tokens; /**< `count` entries: tokens, latents or any other load, 1 or more each */
    const uint32_t *shapes; /**< `count` entries below shape_count, or NULL: all have shape 0 */
    uint32_t count;
    double weight; /**< share of the samples; if all are 0, each source is drawn once */
} stoker_batch_source;

typedef enum stoker_batch_flag {
    STOKER_BATCH_NO_SHUFFLE = 1, /**< samples of a shape in the order of their ids */
    STOKER_BATCH_DROP_LAST = 2,  /**< fixed count: leave out the samples that fill no step, instead of repeating some */
    STOKER_BATCH_MIX_SHAPES = 4, /**< budget: samples of several shapes may share a micro-batch */
    STOKER_BATCH_NO_REPEAT = 8   /**< a source that ends before the epoch is an error, instead of beginning again */
} stoker_batch_flag;

typedef struct stoker_batch_options {
    uint32_t struct_size;
    uint32_t ranks;          /**< 1 or more */
    uint32_t cells;          /**< of one rank in one step: samples, or micro-batches with a budget; 0: 1 */
    uint32_t budget_tokens;  /**< of one micro-batch; 0: fixed count, a cell is one sample */
    uint32_t budget_samples; /**< most samples of one micro-batch; 0: any */
    uint32_t window_samples; /**< 0: enough for STOKER_BATCH_WINDOW_STEPS steps and 128 cells of a rank */
    uint32_t shape_count;    /**< 0: 1 */
    uint32_t linear_tokens;  /**< the load of L tokens is L + L * L / linear_tokens, at most 2^40; 0: L */
    uint32_t flags;          /**< stoker_batch_flag */
    uint32_t pool_samples;   /**< largest pool that stoker_batch_open() will be given; 0: what windows need */
    uint64_t samples;        /**< of the epoch; 0: of all sources */
    uint64_t seed, epoch;
} stoker_batch_options;

#define STOKER_BATCH_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(stoker_batch_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                               \
    }

typedef struct stoker_batch_planner stoker_batch_planner;

/** The steps of one window. Arrays belong to the planner and are valid until its next call.
 *
 * Step t has the cells [step_cells[t], step_cells[t + 1]), as many for each rank, rank after rank. Cell c holds the
 * places [cell_places[c], cell_places[c + 1]) of the list `places`; an empty cell is padding. Place p is the sample
 * pool[p], or from pool_count on a repeat of pool[(p - pool_count) % pool_count]. Samples of the pool that no step
 * holds are in the pool of the next window, in front.
 */
typedef struct stoker_batch_window {
    uint32_t steps, ranks;
    const uint32_t *step_cells;  /**< steps + 1 entries */
    const uint32_t *cell_places; /**< cells + 1 entries */
    const uint32_t *places;
    const uint64_t *loads; /**< of rank r in step t: loads[t * ranks + r] */
    const uint32_t *pool;  /**< ids */
    uint32_t pool_count;
    uint32_t repeats; /**< places that are repeats */
    uint32_t padding; /**< empty cells */
    uint64_t windows; /**< drawn so far */
    uint64_t samples; /**< drawn so far */
} stoker_batch_window;

/** Bytes of memory that a planner needs; 0 if the arguments are not valid (stoker_batch_init() says why).
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API size_t stoker_batch_bytes(const stoker_batch_source *sources, size_t count,
                                     const stoker_batch_options *options);

/** Begin the plan of an epoch.
 *
 * Owns:    `sources` and `options` are borrowed for the call, the arrays of the sources as long as the planner is used.
 *          *out_planner lies in `memory` (`size` bytes, aligned to 16), which the caller keeps.
 * Threads: any; a planner has one user at a time.
 * Errors:  INVALID_ARGUMENT (no ranks, a sample of 0 tokens, a shape or weight out of range, a window of fewer than 8
 *          steps; with NO_REPEAT a source that is too short, named with both figures), LIMIT (2^31 samples or more, too
 *          many ranks, shapes or cells), UNSUPPORTED (larger options).
 */
STOKER_API stoker_status stoker_batch_init(const stoker_batch_source *sources, size_t count,
                                           const stoker_batch_options *options, void *memory, size_t size,
                                           stoker_batch_planner **out_planner, stoker_error *err);

/** Plan the next window. A window without a full step is joined with the one after it.
 *
 * Owns:    *out_window points into the planner.
 * Threads: the planner's user.
 * Errors:  END after the last window; INVALID_ARGUMENT (with NO_REPEAT, a source that ran out, named).
 */
STOKER_API stoker_status stoker_batch_next(stoker_batch_planner *planner, stoker_batch_window *out_window,
                                           stoker_error *err);

/** Draw `windows` windows without planning them, as if they had been used up.
 *
 * Owns:    nothing.
 * Threads: the planner's user.
 * Errors:  as stoker_batch_next(); END if there are fewer.
 */
STOKER_API stoker_status stoker_batch_skip(stoker_batch_planner *planner, uint64_t windows, stoker_error *err);

/** Make the next call plan these samples instead of drawing a window: what is left of one, after a resume.
 *
 * Owns:    `ids` is copied.
 * Threads: the planner's user.
 * Errors:  INVALID_ARGUMENT (an id out of range), LIMIT (more than pool_samples).
 */
STOKER_API stoker_status stoker_batch_open(stoker_batch_planner *planner, const uint32_t *ids, size_t count,
                                           stoker_error *err);

/** Change the shares of the sources, from the next window that is drawn.
 *
 * Owns:    `weights` has one entry for each source and is borrowed.
 * Threads: the planner's user.
 * Errors:  INVALID_ARGUMENT (another number of weights, a weight out of range).
 */
STOKER_API stoker_status stoker_batch_reweigh(stoker_batch_planner *planner, const double *weights, size_t count,
                                              stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
