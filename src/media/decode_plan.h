/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode plans: which key packets to seek, which packets to send, which frames to keep. Pure functions over a packet
 * table (plan.h), the wanted frames and constants.
 *
 * Two kinds. *By time*: jump to the last key packet from which a frame can be decoded, send everything up to the frame,
 * and let the decoder leave out what nothing refers to and nobody wants; neighbouring jumps are joined where decoding
 * the gap is predicted to cost less than a restart of the decoder. *In order*: from the start up to the last kept
 * frame, frames known by counting; for files whose times name no frame, and for damaged ones.
 *
 * Costs are constants of the codec, never learned (rule C1). They choose among plans that give the same pixels.
 */
#ifndef STK_MEDIA_DECODE_PLAN_H
#define STK_MEDIA_DECODE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/plan.h>

#include "media/plan.h"

#define STK_PLAN_NO_PACKET UINT32_MAX

struct stk_decode_plan {
    uint64_t table_hash;
    uint32_t packets, frames;
    bool by_time, skips;
    uint32_t segment_count, kept_count;
    stoker_plan_segment *segments; /* memory of whoever made the plan */
    stoker_plan_frame *kept;
};

/* Prior cost of decoding: constants. */
struct stk_plan_costs {
    double ns_per_pixel, ns_per_byte;
    double pixels;        /* of one frame */
    double restart_ns;    /* of a jump: draining, flushing, work of the first frame */
    double skipped_share; /* of the full price, that a packet costs on average whose frame is not kept; 1: the decoder
                             leaves nothing out */
};

/* Of a codec by FFmpeg's short name; unknown ones get those of H.264. Measured on 184 clips, one core with AVX2. */
struct stk_plan_costs stk_plan_costs_of(const char *codec, double pixels);

/* Bytes of memory for a plan of up to that many kept frames (each may need a segment), aligned as malloc() does. */
size_t stk_decode_plan_room(size_t frames);

/* Both take memory of stk_decode_plan_room(count) bytes, which the plan keeps. `ordinals` are ascending, without
 * repeats, below the frames of the table; `by_time` needs a table whose times name its frames. In order, `frames` are
 * those that really come out; count 0 keeps all of them. */
void stk_decode_plan_by_time(struct stk_decode_plan *plan, const struct stk_packet_table *table,
                             const struct stk_plan_costs *costs, const uint64_t *ordinals, size_t count, void *memory);
void stk_decode_plan_in_order(struct stk_decode_plan *plan, const struct stk_packet_table *table, uint64_t frames,
                              const uint64_t *ordinals, size_t count, void *memory);

/* What a plan will decode, and what that costs by the priors. Packets that a by-time plan does not keep count at the
 * skipped share. */
struct stk_plan_estimate {
    uint64_t packets, bytes;
    double ns;
};
struct stk_plan_estimate stk_decode_plan_estimate(const struct stk_decode_plan *plan,
                                                  const struct stk_packet_table *table,
                                                  const struct stk_plan_costs *costs);

/* needed[packet] becomes 1 for packets whose frame is kept, 0 for the others; room for plan->packets. */
void stk_decode_plan_mark(const struct stk_decode_plan *plan, uint8_t *needed);

/* FNV-1a (64 bits) of the encoded plan, and of a table's packets: pts, dts, size, flags, little-endian. */
uint64_t stk_decode_plan_hash(const struct stk_decode_plan *plan);
uint64_t stk_packet_table_hash(const struct stk_packet_table *table);

/* The bytes of docs/reference/decode-plan.md. */
size_t stk_decode_plan_size(const struct stk_decode_plan *plan);
void stk_decode_plan_encode(const struct stk_decode_plan *plan, uint8_t *out);
/* Checks everything that can be checked without the file. *out_room: memory for stk_decode_plan_decode(), which must
 * get the same bytes and cannot fail. CORRUPT, UNSUPPORTED (version). */
stoker_status stk_decode_plan_check(const uint8_t *bytes, size_t size, size_t *out_room, stoker_error *err);
void stk_decode_plan_decode(const uint8_t *bytes, struct stk_decode_plan *out_plan, void *memory);

/* MISMATCH: the plan was made of another table. */
stoker_status stk_decode_plan_fits(const struct stk_decode_plan *plan, const struct stk_packet_table *table,
                                   stoker_error *err);

#endif
