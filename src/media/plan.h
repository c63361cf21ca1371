/* SPDX-License-Identifier: Apache-2.0
 *
 * Which packets to decode for which frames: pure functions over a packet table.
 *
 * A file is a list of packets in decode order. The *presented* frames are those of the packets that no edit list hides,
 * in the order of their presentation times. If those times name each frame once ("by time"), a decode may jump from key
 * frame to key frame and skip what nothing refers to; otherwise everything is decoded from the start and frames are
 * counted.
 *
 * The plan depends on the table, the wanted frames and constants only, never on learned costs (rule C1), and every plan
 * of an undamaged file gives the same pixels.
 */
#ifndef STK_MEDIA_PLAN_H
#define STK_MEDIA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_TIME_NONE INT64_MIN

enum stk_packet_flag {
    STK_PACKET_KEY = 1,
    STK_PACKET_HIDDEN = 2 /* decoded, never presented (edit list) */
};

struct stk_packet {
    int64_t pts, dts; /* stream time base; STK_TIME_NONE if unknown */
    uint32_t size;
    uint32_t flags;
    uint32_t key; /* the last key packet at or before this one, or UINT32_MAX; set by stk_plan_shown() */
};

/* One presented frame: its time and the packet that holds it. */
struct stk_shown {
    int64_t pts;
    uint32_t packet;
};

struct stk_packet_table {
    const struct stk_packet *packets; /* decode order */
    size_t count;
    const struct stk_shown *shown; /* presentation order; made by stk_plan_shown() */
    size_t shown_count;
    bool by_time;
    bool broken; /* a packet cannot be what it says: frames are lost, whatever is asked for, and must be counted */
};

/* Fills `shown` (room for `count`) and the packets' `key`; returns how many are shown. *out_by_time: all times known,
 * each used once. */
size_t stk_plan_shown(struct stk_packet *packets, size_t count, struct stk_shown *shown, bool *out_by_time);

/* Frames that a decoder must hold back until the first can be presented: the largest number of packets before one in
 * decode order that are presented after it. */
uint32_t stk_plan_delay(const struct stk_packet_table *table);

/* Ordinal of the frame with this time, or SIZE_MAX. */
size_t stk_plan_find(const struct stk_packet_table *table, int64_t pts);

/* The i-th of `wanted` frames of a clip of n, uniformly: rint(i*(n-1)/(wanted-1)) with ties to even, in integers. A
 * clip with fewer frames than wanted gives each once, then its last. n, wanted >= 1. */
uint64_t stk_plan_uniform(uint64_t n, uint32_t wanted, uint32_t i);

/* Decode packets [first, end) after a flush. */
struct stk_segment {
    uint32_t first, end;
};

/* What a plan may assume of the codec. */
struct stk_plan_costs {
    double ns_per_pixel, ns_per_byte; /* priors */
    double pixels;                    /* of one frame */
};

/* Segments for the frames `ordinals` (ascending, no repeats, all below shown_count), by time. `segments` and `needed`
 * have room for `ordinal_count` and table->count entries; needed[packet] becomes 1 for packets whose frame is wanted.
 * Returns the segments. */
size_t stk_plan_segments(const struct stk_packet_table *table, const struct stk_plan_costs *costs,
                         const uint64_t *ordinals, size_t ordinal_count, struct stk_segment *segments, uint8_t *needed);

#endif
