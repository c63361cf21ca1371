/* SPDX-License-Identifier: Apache-2.0
 *
 * See map.h.
 */
#include "plane/map.h"

#include <stdlib.h>

#include "base/assert.h"

enum { CAP_MIN = 64 };

static size_t home(const struct stk_map *map, uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (map->cap - 1); /* Fibonacci hashing */
}

/* Place of the key, or the empty one where it belongs. */
static size_t place(const struct stk_map *map, uint64_t key)
{
    size_t at = home(map, key);
    while (map->entries[at].key != 0 && map->entries[at].key != key) at = (at + 1) & (map->cap - 1);
    return at;
}

static bool grow(struct stk_map *map)
{
    struct stk_map larger = {.cap = map->cap ? 2 * map->cap : CAP_MIN, .count = map->count};
    larger.entries = calloc(larger.cap, sizeof *larger.entries);
    if (!larger.entries) return false;
    for (size_t i = 0; i < map->cap; i++)
        if (map->entries[i].key != 0) larger.entries[place(&larger, map->entries[i].key)] = map->entries[i];
    free(map->entries);
    *map = larger;
    return true;
}

void stk_map_fini(struct stk_map *map)
{
    free(map->entries);
    *map = (struct stk_map){0};
}

bool stk_map_add(struct stk_map *map, uint64_t key, uint32_t value)
{
    STK_ASSERT(key != 0);
    if (2 * map->count >= map->cap && !grow(map)) return false;
    size_t at = place(map, key);
    STK_ASSERT(map->entries[at].key == 0);
    map->entries[at] = (struct stk_map_entry){key, value};
    map->count++;
    return true;
}

bool stk_map_find(const struct stk_map *map, uint64_t key, uint32_t *out_value)
{
    if (map->cap == 0 || key == 0) return false;
    size_t at = place(map, key);
    if (map->entries[at].key == 0) return false;
    *out_value = map->entries[at].value;
    return true;
}

bool stk_map_remove(struct stk_map *map, uint64_t key)
{
    if (map->cap == 0 || key == 0) return false;
    size_t hole = place(map, key);
    if (map->entries[hole].key == 0) return false;
    /* Move up what would not be found any more past the hole. */
    for (size_t at = (hole + 1) & (map->cap - 1); map->entries[at].key != 0; at = (at + 1) & (map->cap - 1)) {
        size_t from_home = (at - home(map, map->entries[at].key)) & (map->cap - 1);
        size_t from_hole = (at - hole) & (map->cap - 1);
        if (from_home < from_hole) continue;
        map->entries[hole] = map->entries[at];
        hole = at;
    }
    map->entries[hole].key = 0;
    map->count--;
    return true;
}
