/* SPDX-License-Identifier: Apache-2.0
 *
 * How plans are chosen: see decode_plan.h. Their bytes are in decode_plan_bytes.c.
 */
#include "media/decode_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"

/* Restarting a decoder at a key frame: draining, flushing, first-frame work. Measured 0.1-0.3 ms. */
#define RESTART_NS 300000.0
/* Where the decoder leaves out what nothing refers to, about half of the packets in a gap cost next to nothing. */
#define SKIPPED_SHARE 0.6

struct stk_plan_costs stk_plan_costs_of(const char *codec, double pixels)
{
    static const struct {
        const char *codec;
        double ns_per_pixel, ns_per_byte, skipped_share;
    } priors[] = {
        {"hevc", 1.24, 151, SKIPPED_SHARE},
        {"vp9", 0.90, 119, 1},
        {"av1", 0.53, 91, 1},
        {"mpeg4", 0.46, 16, SKIPPED_SHARE},
        {"h264", 0.95, 92, SKIPPED_SHARE},
        {"mpeg2video", 0.95, 92, SKIPPED_SHARE},
        {"mpeg1video", 0.95, 92, SKIPPED_SHARE},
        {"", 0.95, 92, 1},
    };
    size_t i = 0;
    while (priors[i].codec[0] && strcmp(priors[i].codec, codec) != 0) i++;
    return (struct stk_plan_costs){priors[i].ns_per_pixel, priors[i].ns_per_byte, pixels, RESTART_NS,
                                   priors[i].skipped_share};
}

size_t stk_decode_plan_room(size_t frames)
{
    size_t count = frames ? frames : 1; /* a plan of all frames has a segment, too */
    STK_ASSERT(count <= SIZE_MAX / (sizeof(stoker_plan_segment) + sizeof(stoker_plan_frame)));
    return count * (sizeof(stoker_plan_segment) + sizeof(stoker_plan_frame));
}

static void begin(struct stk_decode_plan *plan, const struct stk_packet_table *table, size_t count, void *memory)
{
    STK_ASSERT(table->count <= UINT32_MAX);
    memset(plan, 0, sizeof *plan);
    plan->table_hash = stk_packet_table_hash(table);
    plan->packets = (uint32_t)table->count;
    plan->kept_count = (uint32_t)count;
    plan->segments = memory;
    plan->kept = (stoker_plan_frame *)(void *)(plan->segments + (count ? count : 1));
}

/* The last key packet from which the frame at `ordinal` can be decoded: not after it in decode order, and not presented
 * after it (the leading pictures of an open group cannot be decoded from its own key frame). */
static uint32_t start_of(const struct stk_packet_table *table, uint64_t ordinal)
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
    const stoker_plan_segment *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* Each gap is its own question: joining one changes nothing about another, so that the cheapest choice for each is the
 * cheapest plan. */
static uint32_t join(const struct stk_packet_table *table, const struct stk_plan_costs *costs,
                     stoker_plan_segment *segments, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        stoker_plan_segment next = segments[i], *last = kept > 0 ? &segments[kept - 1] : NULL;
        bool joined = last && (next.first <= last->end ||
                               price(table, costs, last->end, next.first) * costs->skipped_share <= costs->restart_ns);
        if (!joined)
            segments[kept++] = next;
        else if (next.end > last->end)
            last->end = next.end;
    }
    return (uint32_t)kept;
}

void stk_decode_plan_by_time(struct stk_decode_plan *plan, const struct stk_packet_table *table,
                             const struct stk_plan_costs *costs, const uint64_t *ordinals, size_t count, void *memory)
{
    STK_ASSERT(table->by_time);
    begin(plan, table, count, memory);
    plan->by_time = true;
    plan->skips = costs->skipped_share < 1;
    plan->frames = (uint32_t)table->shown_count;
    for (size_t i = 0; i < count; i++) {
        STK_ASSERT(ordinals[i] < table->shown_count);
        STK_ASSERT(i == 0 || ordinals[i] > ordinals[i - 1]);
        uint32_t packet = table->shown[ordinals[i]].packet, first = start_of(table, ordinals[i]);
        plan->kept[i] = (stoker_plan_frame){(uint32_t)ordinals[i], packet};
        plan->segments[i] = (stoker_plan_segment){first, packet + 1, table->packets[first].dts};
    }
    qsort(plan->segments, count, sizeof *plan->segments, by_first);
    plan->segment_count = join(table, costs, plan->segments, count);
}

void stk_decode_plan_in_order(struct stk_decode_plan *plan, const struct stk_packet_table *table, uint64_t frames,
                              const uint64_t *ordinals, size_t count, void *memory)
{
    STK_ASSERT(frames <= UINT32_MAX);
    begin(plan, table, count, memory);
    plan->frames = (uint32_t)frames;
    for (size_t i = 0; i < count; i++) {
        STK_ASSERT(ordinals[i] < frames);
        STK_ASSERT(i == 0 || ordinals[i] > ordinals[i - 1]);
        plan->kept[i] = (stoker_plan_frame){(uint32_t)ordinals[i], STK_PLAN_NO_PACKET};
    }
    plan->segment_count = table->count > 0;
    if (table->count > 0) plan->segments[0] = (stoker_plan_segment){0, plan->packets, table->packets[0].dts};
}

void stk_decode_plan_mark(const struct stk_decode_plan *plan, uint8_t *needed)
{
    memset(needed, !plan->by_time, plan->packets);
    for (uint32_t i = 0; plan->by_time && i < plan->kept_count; i++) needed[plan->kept[i].packet] = 1;
}

struct stk_plan_estimate stk_decode_plan_estimate(const struct stk_decode_plan *plan,
                                                  const struct stk_packet_table *table,
                                                  const struct stk_plan_costs *costs)
{
    struct stk_plan_estimate estimate = {0, 0, 0};
    double share = plan->by_time ? costs->skipped_share : 1;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const stoker_plan_segment *segment = &plan->segments[i];
        for (uint32_t packet = segment->first; packet < segment->end; packet++)
            estimate.bytes += table->packets[packet].size;
        estimate.packets += segment->end - segment->first;
        estimate.ns += costs->restart_ns + share * price(table, costs, segment->first, segment->end);
    }
    for (uint32_t i = 0; plan->by_time && i < plan->kept_count; i++)
        estimate.ns += (1 - share) * price(table, costs, plan->kept[i].packet, plan->kept[i].packet + 1);
    return estimate;
}
