/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode plans: which packets of a video file are decoded for which frames.
 *
 * A plan depends on the packet table of its file, the wanted frames and constants alone, and it fixes the pixels: the
 * same plan gives the same bytes wherever it is run. It can be kept as bytes (docs/reference/decode-plan.md) beside
 * what was made by it, or just its hash.
 */
#ifndef STOKER_PLAN_H
#define STOKER_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Decode packets first ... end-1 after a jump to the key packet `first`. Packets count from 0 in decode order. */
typedef struct stoker_plan_segment {
    uint32_t first, end;
    int64_t dts; /**< of `first`, in time units of the stream: where to seek; INT64_MIN if unknown */
} stoker_plan_segment;

/** A frame that is kept. */
typedef struct stoker_plan_frame {
    uint32_t ordinal; /**< of presentation, from 0 */
    uint32_t packet;  /**< that holds it; UINT32_MAX in a plan in order, which counts frames */
} stoker_plan_frame;

/** What a plan says. */
typedef struct stoker_plan_info {
    uint64_t hash;        /**< of all of it but the costs */
    uint64_t table_hash;  /**< of the packet table of its file */
    uint32_t by_time;     /**< 1: jumps from key frame to key frame, frames are known by their times; 0: everything is
                               decoded from the start, in order, up to the last kept frame, and frames are counted */
    uint32_t skips;       /**< 1: the decoder leaves out frames that are not kept and that nothing refers to */
    uint32_t packets;     /**< of the file */
    uint32_t frames;      /**< presented frames of the file */
    size_t segment_count;
    const stoker_plan_segment *segments; /**< ascending, apart from each other */
    size_t frame_count;   /**< 0 in a plan of all frames */
    const stoker_plan_frame *kept; /**< ascending ordinals */
    uint64_t packets_sent; /**< in the segments */
    uint64_t bytes_sent;
    double seconds;        /**< that decoding takes by the priors */
} stoker_plan_info;

typedef struct stoker_plan stoker_plan;

/** Read a plan.
 *
 * Owns:    *out_info is filled; its arrays live as long as the plan.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_plan_read_info(const stoker_plan *plan, stoker_plan_info *out_info);

/** Write a plan as bytes.
 *
 * Owns:    the plan is borrowed; up to `size` bytes of `out` are written, and nothing if that is too little. Returns
 *          the number of bytes that it takes.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API size_t stoker_plan_encode(const stoker_plan *plan, void *out, size_t size);

/** Make a plan of bytes that stoker_plan_encode() wrote, once more. Whether it is one of a given file is found when it
 * is run. The predicted bytes and seconds are 0.
 *
 * Owns:    `bytes` are borrowed; on success *out_plan is the caller's, who closes it.
 * Threads: any.
 * Errors:  CORRUPT (naming the field, its value and what was expected), UNSUPPORTED (another version), NO_MEMORY.
 */
STOKER_API stoker_status stoker_plan_decode(const void *bytes, size_t size, stoker_plan **out_plan, stoker_error *err);

/** Release a plan.
 *
 * Owns:    takes `plan`; NULL is allowed.
 * Threads: not while another thread uses it.
 * Errors:  none.
 */
STOKER_API void stoker_plan_close(stoker_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
