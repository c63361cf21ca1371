/* SPDX-License-Identifier: Apache-2.0
 *
 * Packet tables: what a scan of a file knows, and which of its packets are presented frames. Pure functions.
 *
 * A file is a list of packets in decode order. The *presented* frames are those of the packets that no edit list hides,
 * in the order of their presentation times. If those times name each frame once ("by time"), a decode may jump from key
 * frame to key frame and skip what nothing refers to; otherwise everything is decoded from the start and frames are
 * counted.
 *
 * Which packets are decoded for which frames is said by plans over a table (decode_plan.h).
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
 * each used once, those of key packets ascending: where a clock starts anew (joined streams), the order of times is not
 * that of presentation. Decode times would not do: some containers guess them, and step back. */
size_t stk_plan_shown(struct stk_packet *packets, size_t count, struct stk_shown *shown, bool *out_by_time);

/* Frames that a decoder must hold back until the first can be presented: the largest number of packets before one in
 * decode order that are presented after it. */
uint32_t stk_plan_delay(const struct stk_packet_table *table);

/* Ordinal of the frame with this time, or SIZE_MAX. */
size_t stk_plan_find(const struct stk_packet_table *table, int64_t pts);

#endif
