/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode plans: see plan.h.
 */
#include "media/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Restarting a decoder at a key frame: draining, flushing, first-frame work. Measured 0.1-0.3 ms. */
#define RESTART_NS 300000.0
/* Share of the full price that packets in a gap cost: about half are skipped because nothing refers to them. */
#define GAP_SHARE 0.6

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
    for (size_t i = 0; i < count; i++) {
        if (packets[i].flags & STK_PACKET_KEY) key = (uint32_t)i;
        packets[i].key = key;
        shown[i] = (struct stk_shown){packets[i].pts, (uint32_t)i};
        if (packets[i].pts == STK_TIME_NONE) by_time = false;
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

uint64_t stk_plan_uniform(uint64_t n, uint32_t wanted, uint32_t i)
{
    STK_ASSERT(n >= 1);
    STK_ASSERT(i < wanted);
    if (n <= wanted) return i < n ? i : n - 1;
    if (wanted == 1) return 0;
    uint64_t steps = wanted - 1;
    uint64_t product = (uint64_t)i * (n - 1); /* n is a number of packets: below 2^32, so no overflow */
    uint64_t down = product / steps, rest2 = product % steps * 2;
    return rest2 > steps || (rest2 == steps && down % 2) ? down + 1 : down;
}

/* The last key packet from which the frame at `ordinal` can be decoded: not after it in decode order, and not presented
 * after it (the leading pictures of an open group cannot be decoded from its own key frame). */
static uint32_t start_of(const struct stk_packet_table *table, size_t ordinal)
{
    int64_t pts = table->shown[ordinal].pts;
    uint32_t key = table->packets[table->shown[ordinal].packet].key;
    while (key != UINT32_MAX && table->packets[key].pts > pts) key = key > 0 ? table->packets[key - 1].key : UINT32_MAX;
    return key != UINT32_MAX ? key : 0;
}

static double price(const struct stk_packet_table *table, const struct stk_plan_costs *costs, uint32_t first,
                    uint32_t end)
{
    double ns = 0;
    for (uint32_t packet = first; packet < end; packet++)
        ns += costs->ns_per_pixel * costs->pixels + costs->ns_per_byte * table->packets[packet].size;
    return ns;
}

static int by_first(const void *left, const void *right)
{
    const struct stk_segment *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

size_t stk_plan_segments(const struct stk_packet_table *table, const struct stk_plan_costs *costs,
                         const uint64_t *ordinals, size_t ordinal_count, struct stk_segment *segments, uint8_t *needed)
{
    memset(needed, 0, table->count);
    for (size_t i = 0; i < ordinal_count; i++) {
        STK_ASSERT(ordinals[i] < table->shown_count);
        uint32_t packet = table->shown[ordinals[i]].packet;
        needed[packet] = 1;
        segments[i] = (struct stk_segment){start_of(table, ordinals[i]), packet + 1};
    }
    qsort(segments, ordinal_count, sizeof *segments, by_first);

    size_t kept = 0;
    for (size_t i = 0; i < ordinal_count; i++) {
        struct stk_segment next = segments[i];
        if (kept > 0) {
            struct stk_segment *last = &segments[kept - 1];
            if (next.first <= last->end || price(table, costs, last->end, next.first) * GAP_SHARE <= RESTART_NS) {
                if (next.end > last->end) last->end = next.end;
                continue;
            }
        }
        segments[kept++] = next;
    }
    return kept;
}
