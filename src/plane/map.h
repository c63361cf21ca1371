/* SPDX-License-Identifier: Apache-2.0
 *
 * A table from 64-bit ids (never 0) to small numbers: open addressing, doubled when half full, no tombstones. For ids
 * that are given out one after the other and never again, such as those of slabs.
 */
#ifndef STK_PLANE_MAP_H
#define STK_PLANE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_map_entry {
    uint64_t key; /* 0: empty */
    uint32_t value;
};

struct stk_map {
    struct stk_map_entry *entries;
    size_t cap, count; /* cap is 0 or a power of two */
};

/* A zeroed map is empty. */
void stk_map_fini(struct stk_map *map);
/* The key must be new. False: no memory, nothing is changed. */
bool stk_map_add(struct stk_map *map, uint64_t key, uint32_t value);
bool stk_map_find(const struct stk_map *map, uint64_t key, uint32_t *out_value);
bool stk_map_remove(struct stk_map *map, uint64_t key);

#endif
