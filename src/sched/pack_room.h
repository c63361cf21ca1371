/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs indexed by the room that is left in them: the pack that a sample fits most tightly is found without looking at
 * the others. Room is cut into at most STK_ROOM_BUCKETS ranges; a range is a list, and a bitmap of two levels says
 * which lists hold anything. A sorted array would shift half of itself for every sample, a search tree is three times
 * the code.
 *
 * Pure: fixed memory from the caller. Ties by the lower pack.
 */
#ifndef STK_SCHED_PACK_ROOM_H
#define STK_SCHED_PACK_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#define STK_ROOM_BUCKETS 4096u
#define STK_ROOM_NONE UINT32_MAX

struct stk_room_links {
    uint32_t next, prev;
};

struct stk_rooms {
    uint64_t *room;               /* of each pack; the caller's, changed only by the functions below */
    struct stk_room_links *links; /* of each pack; the caller's */
    uint32_t shift;               /* bucket of a room = room >> shift */
    uint32_t heads[STK_ROOM_BUCKETS];
    uint64_t words[STK_ROOM_BUCKETS / 64];
    uint64_t top;
};

/* No room is above `capacity`. */
void stk_rooms_init(struct stk_rooms *rooms, uint64_t *room, struct stk_room_links *links, uint64_t capacity);
void stk_rooms_insert(struct stk_rooms *rooms, uint32_t pack, uint64_t room);
void stk_rooms_remove(struct stk_rooms *rooms, uint32_t pack);
/* The pack with the least room of at least `length`, or STK_ROOM_NONE. */
uint32_t stk_rooms_find(const struct stk_rooms *rooms, uint64_t length);

#endif
