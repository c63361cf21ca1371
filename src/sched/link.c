/* SPDX-License-Identifier: Apache-2.0
 *
 * Speeds between hosts: see link.h. A hash table with chains by index, and a list by last use through the same entries.
 */
#include "sched/link.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"

#define NONE UINT32_MAX
#define LATENCY_MAX (60 * STK_SECOND_NS)
#define BYTES_PER_S_MAX (UINT64_C(1) << 50)

struct pair {
    uint32_t from, to;
    struct stk_speed speed;
    uint32_t chain;      /* in the bucket; also the chain of free entries */
    uint32_t prev, next; /* by last use, the newest first */
};

struct stk_links {
    struct stk_speed otherwise;
    uint32_t pairs, count, touched, free, newest, oldest, bucket_mask;
    struct pair *entries;
    uint32_t *buckets;
};

static uint32_t bucket_count(uint32_t pairs)
{
    uint32_t count = 1;
    while (count < pairs) count *= 2;
    return count;
}

static size_t head_bytes(void) { return (size_t)stk_align_up(sizeof(struct stk_links), 16); }

size_t stk_links_bytes(uint32_t pairs)
{
    STK_ASSERT(pairs > 0 && pairs <= 1u << 24);
    return (size_t)stk_align_up(head_bytes() + pairs * sizeof(struct pair) + bucket_count(pairs) * sizeof(uint32_t),
                                16);
}

static struct stk_speed bounded(struct stk_speed speed)
{
    if (speed.bytes_per_s < STK_LINK_BYTES_PER_S_MIN) speed.bytes_per_s = STK_LINK_BYTES_PER_S_MIN;
    if (speed.bytes_per_s > BYTES_PER_S_MAX) speed.bytes_per_s = BYTES_PER_S_MAX;
    if (speed.latency_ns > LATENCY_MAX) speed.latency_ns = LATENCY_MAX;
    return speed;
}

struct stk_links *stk_links_init(void *block, size_t size, uint32_t pairs, const struct stk_speed *otherwise)
{
    STK_ASSERT(size >= stk_links_bytes(pairs));
    STK_ASSERT((uintptr_t)block % 16 == 0);
    struct stk_links *links = block;
    uint8_t *bytes = block;
    *links = (struct stk_links){.otherwise = bounded(*otherwise), .pairs = pairs};
    links->free = links->newest = links->oldest = NONE;
    links->bucket_mask = bucket_count(pairs) - 1;
    links->entries = (void *)(bytes + head_bytes());
    links->buckets = (void *)(bytes + head_bytes() + pairs * sizeof(struct pair));
    for (uint32_t i = 0; i <= links->bucket_mask; i++) links->buckets[i] = NONE;
    return links;
}

static uint32_t *bucket_of(const struct stk_links *links, uint32_t from, uint32_t to)
{
    uint64_t mixed = ((uint64_t)from << 32 | to) * UINT64_C(0x9e3779b97f4a7c15);
    return &links->buckets[(uint32_t)(mixed >> 32) & links->bucket_mask];
}

static uint32_t find(const struct stk_links *links, uint32_t from, uint32_t to)
{
    uint32_t slot = *bucket_of(links, from, to);
    while (slot != NONE && (links->entries[slot].from != from || links->entries[slot].to != to))
        slot = links->entries[slot].chain;
    return slot;
}

static void unlink_use(struct stk_links *links, uint32_t slot)
{
    const struct pair *p = &links->entries[slot];
    if (p->prev == NONE)
        links->newest = p->next;
    else
        links->entries[p->prev].next = p->next;
    if (p->next == NONE)
        links->oldest = p->prev;
    else
        links->entries[p->next].prev = p->prev;
}

static void link_newest(struct stk_links *links, uint32_t slot)
{
    struct pair *p = &links->entries[slot];
    p->prev = NONE;
    p->next = links->newest;
    if (links->newest == NONE)
        links->oldest = slot;
    else
        links->entries[links->newest].prev = slot;
    links->newest = slot;
}

static void drop(struct stk_links *links, uint32_t slot)
{
    struct pair *p = &links->entries[slot];
    uint32_t *at = bucket_of(links, p->from, p->to);
    while (*at != slot) at = &links->entries[*at].chain;
    *at = p->chain;
    unlink_use(links, slot);
    p->chain = links->free;
    links->free = slot;
    links->count--;
}

struct stk_speed stk_links_get(const struct stk_links *links, uint32_t from, uint32_t to)
{
    uint32_t slot = find(links, from, to);
    return slot == NONE ? links->otherwise : links->entries[slot].speed;
}

static uint64_t follow(uint64_t old, uint64_t measured)
{
    if (measured == 0) return old;
    return measured > old ? old + (measured - old) / 4 : old - (old - measured) / 4;
}

void stk_links_learn(struct stk_links *links, uint32_t from, uint32_t to, const struct stk_speed *measured)
{
    uint32_t slot = find(links, from, to);
    if (slot != NONE) {
        unlink_use(links, slot);
    } else {
        if (links->free == NONE && links->touched == links->pairs) drop(links, links->oldest);
        if (links->free != NONE) {
            slot = links->free;
            links->free = links->entries[slot].chain;
        } else {
            slot = links->touched++;
        }
        uint32_t *bucket = bucket_of(links, from, to);
        links->entries[slot] = (struct pair){.from = from, .to = to, .speed = links->otherwise, .chain = *bucket};
        *bucket = slot;
        links->count++;
    }
    link_newest(links, slot);
    struct stk_speed *speed = &links->entries[slot].speed;
    struct stk_speed seen = *measured;
    if (seen.bytes_per_s > BYTES_PER_S_MAX) seen.bytes_per_s = BYTES_PER_S_MAX;
    speed->bytes_per_s = follow(speed->bytes_per_s, seen.bytes_per_s);
    speed->latency_ns = follow(speed->latency_ns, seen.latency_ns);
    *speed = bounded(*speed);
}

void stk_links_forget(struct stk_links *links, uint32_t host)
{
    for (uint32_t slot = links->newest; slot != NONE;) {
        uint32_t next = links->entries[slot].next;
        if (links->entries[slot].from == host || links->entries[slot].to == host) drop(links, slot);
        slot = next;
    }
}

uint32_t stk_links_count(const struct stk_links *links) { return links->count; }

uint64_t stk_speed_transfer_ns(const struct stk_speed *speed, uint64_t bytes)
{
    uint64_t ns_per_mib = (UINT64_C(1) << 20) * STK_SECOND_NS / speed->bytes_per_s;
    if (bytes > UINT64_C(1) << 40) bytes = UINT64_C(1) << 40;
    return (bytes >> 10) * ns_per_mib >> 10;
}
