/* SPDX-License-Identifier: Apache-2.0
 *
 * Packet tables: see plan.h.
 */
#include "media/plan.h"

#include <stdlib.h>

static int by_pts(const void *left, const void *right)
{
    const struct stk_shown *a = left, *b = right;
    if (a->pts != b->pts) return a->pts < b->pts ? -1 : 1;
    return a->packet < b->packet ? -1 : a->packet > b->packet;
}

size_t stk_plan_shown(struct stk_packet *packets, size_t count, struct stk_shown *shown, bool *out_by_time)
{
    /* A hidden frame that shares its time with a presented one makes times ambiguous too, so all are looked at first.
     */
    bool by_time = true;
    uint32_t key = UINT32_MAX;
    int64_t latest = STK_TIME_NONE; /* of a key packet; below all times */
    for (size_t i = 0; i < count; i++) {
        if (packets[i].flags & STK_PACKET_KEY) key = (uint32_t)i;
        packets[i].key = key;
        shown[i] = (struct stk_shown){packets[i].pts, (uint32_t)i};
        if (packets[i].pts == STK_TIME_NONE) by_time = false;
        if ((packets[i].flags & STK_PACKET_KEY) && packets[i].pts < latest) by_time = false;
        if (packets[i].flags & STK_PACKET_KEY) latest = packets[i].pts;
    }
    qsort(shown, count, sizeof *shown, by_pts);
    for (size_t i = 1; i < count && by_time; i++) by_time = shown[i - 1].pts != shown[i].pts;

    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!(packets[shown[i].packet].flags & STK_PACKET_HIDDEN)) shown[kept++] = shown[i];
    *out_by_time = by_time;
    return kept;
}

uint32_t stk_plan_delay(const struct stk_packet_table *table)
{
    /* Walking the frames in presentation order, the frame at ordinal i can go out once its packet is in; the packets
     * before it in decode order that are presented later are those not among the first i. Hidden packets count as
     * presented before all others. */
    if (!table->by_time) return 0;
    size_t hidden = table->count - table->shown_count;
    size_t delay = 0, newest = 0;
    for (size_t i = 0; i < table->shown_count; i++) {
        if (table->shown[i].packet > newest) newest = table->shown[i].packet;
        size_t decoded = newest + 1, before = i + 1 + hidden;
        if (decoded > before && decoded - before > delay) delay = decoded - before;
    }
    return (uint32_t)delay;
}

size_t stk_plan_find(const struct stk_packet_table *table, int64_t pts)
{
    size_t low = 0, high = table->shown_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->shown[middle].pts < pts)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->shown_count && table->shown[low].pts == pts ? low : SIZE_MAX;
}
