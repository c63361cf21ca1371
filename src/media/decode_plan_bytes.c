/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as bytes: see docs/reference/decode-plan.md. Everything is checked before anything is used, but what only the
 * file can tell (stk_decode_plan_fits()).
 */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/decode_plan.h"

#define MAGIC 0x504b5453u /* "STKP" in a dump */
#define VERSION 1u
#define HEADER_BYTES 40u
#define SEGMENT_BYTES 16u
#define KEPT_BYTES 8u
enum { FLAG_BY_TIME = 1, FLAG_SKIPS = 2 };

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static void put64(uint8_t *at, uint64_t value)
{
    put32(at, (uint32_t)value);
    put32(at + 4, (uint32_t)(value >> 32));
}

static uint32_t get32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get64(const uint8_t *at) { return get32(at) | (uint64_t)get32(at + 4) << 32; }

/* ---------------------------------------------------------------------------------------------------------------- hash
 */

#define FNV_BASIS UINT64_C(14695981039346656037)

static uint64_t fnv1a(uint64_t hash, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t stk_packet_table_hash(const struct stk_packet_table *table)
{
    uint64_t hash = FNV_BASIS;
    for (size_t i = 0; i < table->count; i++) {
        uint8_t bytes[24];
        put64(bytes, (uint64_t)table->packets[i].pts);
        put64(bytes + 8, (uint64_t)table->packets[i].dts);
        put32(bytes + 16, table->packets[i].size);
        put32(bytes + 20, table->packets[i].flags);
        hash = fnv1a(hash, bytes, sizeof bytes);
    }
    return hash;
}

static void put_header(const struct stk_decode_plan *plan, uint8_t out[HEADER_BYTES])
{
    put32(out, MAGIC);
    put32(out + 4, VERSION);
    put32(out + 8, (plan->by_time ? FLAG_BY_TIME : 0) | (plan->skips ? FLAG_SKIPS : 0));
    put32(out + 12, plan->packets);
    put32(out + 16, plan->frames);
    put32(out + 20, plan->segment_count);
    put32(out + 24, plan->kept_count);
    put32(out + 28, 0);
    put64(out + 32, plan->table_hash);
}

static void put_segment(const stoker_plan_segment *segment, uint8_t out[SEGMENT_BYTES])
{
    put32(out, segment->first);
    put32(out + 4, segment->end);
    put64(out + 8, (uint64_t)segment->dts);
}

static void put_kept(const stoker_plan_frame *kept, uint8_t out[KEPT_BYTES])
{
    put32(out, kept->ordinal);
    put32(out + 4, kept->packet);
}

uint64_t stk_decode_plan_hash(const struct stk_decode_plan *plan)
{
    uint8_t bytes[HEADER_BYTES];
    put_header(plan, bytes);
    uint64_t hash = fnv1a(FNV_BASIS, bytes, HEADER_BYTES);
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        put_segment(&plan->segments[i], bytes);
        hash = fnv1a(hash, bytes, SEGMENT_BYTES);
    }
    for (uint32_t i = 0; i < plan->kept_count; i++) {
        put_kept(&plan->kept[i], bytes);
        hash = fnv1a(hash, bytes, KEPT_BYTES);
    }
    return hash;
}

/* -------------------------------------------------------------------------------------------------------------- encode
 */

size_t stk_decode_plan_size(const struct stk_decode_plan *plan)
{
    return HEADER_BYTES + (size_t)plan->segment_count * SEGMENT_BYTES + (size_t)plan->kept_count * KEPT_BYTES;
}

void stk_decode_plan_encode(const struct stk_decode_plan *plan, uint8_t *out)
{
    put_header(plan, out);
    out += HEADER_BYTES;
    for (uint32_t i = 0; i < plan->segment_count; i++, out += SEGMENT_BYTES) put_segment(&plan->segments[i], out);
    for (uint32_t i = 0; i < plan->kept_count; i++, out += KEPT_BYTES) put_kept(&plan->kept[i], out);
}

/* --------------------------------------------------------------------------------------------------------------- check
 */

static stoker_status check_header(const uint8_t *bytes, size_t size, struct stk_decode_plan *plan, stoker_error *err)
{
    if (size < HEADER_BYTES)
        return stk_fail(err, STOKER_ERR_CORRUPT, "plan: %zu bytes, the header alone has %u", size, HEADER_BYTES);
    if (get32(bytes) != MAGIC)
        return stk_fail(err, STOKER_ERR_CORRUPT, "plan: magic at offset 0 is %#x, expected %#x", get32(bytes), MAGIC);
    if (get32(bytes + 4) != VERSION)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "plan: version %u, expected %u", get32(bytes + 4), VERSION);
    uint32_t flags = get32(bytes + 8);
    if (flags > (FLAG_BY_TIME | FLAG_SKIPS) || flags == FLAG_SKIPS)
        return stk_fail(err, STOKER_ERR_CORRUPT, "plan: flags at offset 8 are %#x, expected 0, 1 or 3", flags);
    if (get32(bytes + 28) != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "plan: the number at offset 28 is %u, expected 0", get32(bytes + 28));
    plan->by_time = flags & FLAG_BY_TIME;
    plan->skips = flags & FLAG_SKIPS;
    plan->packets = get32(bytes + 12);
    plan->frames = get32(bytes + 16);
    plan->segment_count = get32(bytes + 20);
    plan->kept_count = get32(bytes + 24);
    plan->table_hash = get64(bytes + 32);
    uint64_t expected =
        HEADER_BYTES + (uint64_t)plan->segment_count * SEGMENT_BYTES + (uint64_t)plan->kept_count * KEPT_BYTES;
    if (expected != size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "plan: %u segments and %u frames take %llu bytes, there are %zu",
                        plan->segment_count, plan->kept_count, (unsigned long long)expected, size);
    if (plan->packets == UINT32_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "plan: %u packets, expected less", plan->packets);
    return STOKER_OK;
}

static stoker_status check_segments(const uint8_t *at, const struct stk_decode_plan *plan, stoker_error *err)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < plan->segment_count; i++, at += SEGMENT_BYTES) {
        uint32_t first = get32(at), next = get32(at + 4);
        if (first < end || next <= first || next > plan->packets)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "plan: segment %u is packets %u to %u of %u, expected some after packet %u", i, first, next,
                            plan->packets, end);
        end = next;
    }
    bool whole = plan->segment_count == (plan->packets > 0) && end == plan->packets;
    if (!plan->by_time && !whole)
        return stk_fail(err, STOKER_ERR_CORRUPT, "plan: in order with %u segments up to packet %u, expected one of %u",
                        plan->segment_count, end, plan->packets);
    return STOKER_OK;
}

/* Is the packet in one of the segments, which are ascending? */
static bool is_sent(const uint8_t *segments, uint32_t count, uint32_t packet)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (get32(segments + (size_t)middle * SEGMENT_BYTES + 4) <= packet)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && get32(segments + (size_t)low * SEGMENT_BYTES) <= packet;
}

static stoker_status check_kept(const uint8_t *segments, const struct stk_decode_plan *plan, stoker_error *err)
{
    const uint8_t *at = segments + (size_t)plan->segment_count * SEGMENT_BYTES;
    for (uint32_t i = 0; i < plan->kept_count; i++, at += KEPT_BYTES) {
        uint32_t ordinal = get32(at), packet = get32(at + 4);
        if (ordinal >= plan->frames || (i > 0 && ordinal <= get32(at - KEPT_BYTES)))
            return stk_fail(err, STOKER_ERR_CORRUPT, "plan: kept frame %u is %u, expected ascending numbers below %u",
                            i, ordinal, plan->frames);
        bool good = plan->by_time ? is_sent(segments, plan->segment_count, packet) : packet == STK_PLAN_NO_PACKET;
        if (!good)
            return stk_fail(err, STOKER_ERR_CORRUPT, "plan: kept frame %u is of packet %u, expected %s", i, packet,
                            plan->by_time ? "one in a segment" : "none, in order");
    }
    return STOKER_OK;
}

stoker_status stk_decode_plan_check(const uint8_t *bytes, size_t size, size_t *out_room, stoker_error *err)
{
    struct stk_decode_plan plan = {0};
    STK_TRY(check_header(bytes, size, &plan, err));
    STK_TRY(check_segments(bytes + HEADER_BYTES, &plan, err));
    STK_TRY(check_kept(bytes + HEADER_BYTES, &plan, err));
    *out_room = (size_t)(plan.segment_count + 1) * sizeof(stoker_plan_segment) +
                (size_t)plan.kept_count * sizeof(stoker_plan_frame);
    return STOKER_OK;
}

void stk_decode_plan_decode(const uint8_t *bytes, struct stk_decode_plan *out_plan, void *memory)
{
    memset(out_plan, 0, sizeof *out_plan);
    uint32_t flags = get32(bytes + 8);
    out_plan->by_time = flags & FLAG_BY_TIME;
    out_plan->skips = flags & FLAG_SKIPS;
    out_plan->packets = get32(bytes + 12);
    out_plan->frames = get32(bytes + 16);
    out_plan->segment_count = get32(bytes + 20);
    out_plan->kept_count = get32(bytes + 24);
    out_plan->table_hash = get64(bytes + 32);
    out_plan->segments = memory;
    out_plan->kept = (stoker_plan_frame *)(void *)(out_plan->segments + out_plan->segment_count + 1);
    const uint8_t *at = bytes + HEADER_BYTES;
    for (uint32_t i = 0; i < out_plan->segment_count; i++, at += SEGMENT_BYTES)
        out_plan->segments[i] = (stoker_plan_segment){get32(at), get32(at + 4), (int64_t)get64(at + 8)};
    for (uint32_t i = 0; i < out_plan->kept_count; i++, at += KEPT_BYTES)
        out_plan->kept[i] = (stoker_plan_frame){get32(at), get32(at + 4)};
}

stoker_status stk_decode_plan_fits(const struct stk_decode_plan *plan, const struct stk_packet_table *table,
                                   stoker_error *err)
{
    if (plan->packets != table->count || plan->table_hash != stk_packet_table_hash(table))
        return stk_fail(err, STOKER_ERR_MISMATCH,
                        "the plan is of a file of %u packets (table %016llx), this one has %zu (table %016llx)",
                        plan->packets, (unsigned long long)plan->table_hash, table->count,
                        (unsigned long long)stk_packet_table_hash(table));
    if (plan->by_time && (!table->by_time || plan->frames != table->shown_count))
        return stk_fail(err, STOKER_ERR_MISMATCH, "the plan knows %u frames by their times, the file has %zu%s",
                        plan->frames, table->shown_count, table->by_time ? "" : " whose times name none");
    for (uint32_t i = 0; plan->by_time && i < plan->kept_count; i++)
        if (table->shown[plan->kept[i].ordinal].packet != plan->kept[i].packet)
            return stk_fail(err, STOKER_ERR_MISMATCH, "the plan has frame %u in packet %u, the file in %u",
                            plan->kept[i].ordinal, plan->kept[i].packet, table->shown[plan->kept[i].ordinal].packet);
    return STOKER_OK;
}
