/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs by room: see pack_room.h. Only the bucket that `length` itself falls into can hold packs that are too full, so
 * at most two lists are walked.
 */
#include "sched/pack_room.h"

#include <string.h>

#include "base/assert.h"

void stk_rooms_init(struct stk_rooms *rooms, uint64_t *room, struct stk_room_links *links, uint64_t capacity)
{
    memset(rooms, 0, sizeof *rooms);
    memset(rooms->heads, 0xff, sizeof rooms->heads);
    rooms->room = room;
    rooms->links = links;
    while (capacity >> rooms->shift >= STK_ROOM_BUCKETS) rooms->shift++;
}

void stk_rooms_insert(struct stk_rooms *rooms, uint32_t pack, uint64_t room)
{
    uint64_t bucket = room >> rooms->shift;
    STK_ASSERT(bucket < STK_ROOM_BUCKETS);
    uint32_t head = rooms->heads[bucket];
    rooms->room[pack] = room;
    rooms->links[pack] = (struct stk_room_links){.next = head, .prev = STK_ROOM_NONE};
    if (head != STK_ROOM_NONE) rooms->links[head].prev = pack;
    rooms->heads[bucket] = pack;
    rooms->words[bucket / 64] |= UINT64_C(1) << (bucket % 64);
    rooms->top |= UINT64_C(1) << (bucket / 64);
}

void stk_rooms_remove(struct stk_rooms *rooms, uint32_t pack)
{
    uint64_t bucket = rooms->room[pack] >> rooms->shift;
    struct stk_room_links links = rooms->links[pack];
    if (links.next != STK_ROOM_NONE) rooms->links[links.next].prev = links.prev;
    if (links.prev != STK_ROOM_NONE)
        rooms->links[links.prev].next = links.next;
    else
        rooms->heads[bucket] = links.next;
    if (rooms->heads[bucket] != STK_ROOM_NONE) return;
    rooms->words[bucket / 64] &= ~(UINT64_C(1) << (bucket % 64));
    if (rooms->words[bucket / 64] == 0) rooms->top &= ~(UINT64_C(1) << (bucket / 64));
}

/* The bits of `word` above `bit` (0 to 63). */
static uint64_t above(uint64_t word, uint32_t bit) { return word & ~((UINT64_C(2) << bit) - 1); }

/* The next bucket after `bucket` that holds a pack, or STK_ROOM_BUCKETS. */
static uint32_t next_bucket(const struct stk_rooms *rooms, uint32_t bucket)
{
    uint64_t bits = above(rooms->words[bucket / 64], bucket % 64);
    if (bits) return bucket / 64 * 64 + (uint32_t)__builtin_ctzll(bits);
    uint64_t words = above(rooms->top, bucket / 64);
    if (!words) return STK_ROOM_BUCKETS;
    uint32_t word = (uint32_t)__builtin_ctzll(words);
    return word * 64 + (uint32_t)__builtin_ctzll(rooms->words[word]);
}

static uint32_t tightest(const struct stk_rooms *rooms, uint32_t bucket, uint64_t length)
{
    uint32_t best = STK_ROOM_NONE;
    for (uint32_t pack = rooms->heads[bucket]; pack != STK_ROOM_NONE; pack = rooms->links[pack].next) {
        uint64_t room = rooms->room[pack];
        if (room < length) continue;
        if (best == STK_ROOM_NONE || room < rooms->room[best] || (room == rooms->room[best] && pack < best))
            best = pack;
    }
    return best;
}

uint32_t stk_rooms_find(const struct stk_rooms *rooms, uint64_t length)
{
    uint64_t wanted = length >> rooms->shift;
    if (wanted >= STK_ROOM_BUCKETS) return STK_ROOM_NONE;
    uint32_t bucket = (uint32_t)wanted, found = tightest(rooms, bucket, length);
    if (found != STK_ROOM_NONE) return found;
    bucket = next_bucket(rooms, bucket);
    return bucket == STK_ROOM_BUCKETS ? STK_ROOM_NONE : tightest(rooms, bucket, length);
}
