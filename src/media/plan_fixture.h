/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-made packet tables for the tests of plans.
 */
#ifndef STK_MEDIA_PLAN_FIXTURE_H
#define STK_MEDIA_PLAN_FIXTURE_H

#include "media/decode_plan.h"
#include "tests/support/unit.h"

#define K STK_PACKET_KEY
#define H STK_PACKET_HIDDEN

struct fixture {
    struct stk_packet packets[64];
    struct stk_shown shown[64];
    struct stk_packet_table table;
};

static inline void fill(struct fixture *f, size_t count, const int64_t *pts, const uint32_t *flags)
{
    for (size_t i = 0; i < count; i++) f->packets[i] = (struct stk_packet){pts[i], (int64_t)i, 1000, flags[i], 0};
    f->table = (struct stk_packet_table){.packets = f->packets, .count = count, .shown = f->shown};
    f->table.shown_count = stk_plan_shown(f->packets, count, f->shown, &f->table.by_time);
}

#endif
