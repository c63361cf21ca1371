/* SPDX-License-Identifier: Apache-2.0
 *
 * A list in steps: see list.h.
 */
#include "tokens/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

static uint64_t chunk_elements(const struct stk_list *list) { return STK_TOKEN_CHUNK_BYTES / list->element_bytes; }

void stk_list_init(struct stk_list *list, size_t element_bytes)
{
    *list = (struct stk_list){.element_bytes = element_bytes};
}

void stk_list_fini(struct stk_list *list)
{
    for (size_t i = 0; i < list->chunk_count; i++) free(list->chunks[i]);
    free(list->chunks);
    *list = (struct stk_list){.element_bytes = list->element_bytes};
}

stoker_status stk_list_reserve(struct stk_list *list, uint64_t more, stoker_error *err)
{
    uint64_t wanted;
    if (__builtin_add_overflow(list->count, more, &wanted) || wanted > SIZE_MAX / sizeof(int64_t))
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %llu more entries of the index",
                        (unsigned long long)more);
    size_t needed = (size_t)((wanted + chunk_elements(list) - 1) / chunk_elements(list));
    if (needed > list->chunk_room) {
        size_t room = needed > list->chunk_room * 2 ? needed : list->chunk_room * 2;
        uint8_t **chunks = realloc(list->chunks, room * sizeof *chunks);
        if (!chunks) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the index");
        list->chunks = chunks;
        list->chunk_room = room;
    }
    while (list->chunk_count < needed) {
        uint8_t *chunk = malloc(STK_TOKEN_CHUNK_BYTES);
        if (!chunk)
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the index beyond %llu entries",
                            (unsigned long long)(list->chunk_count * chunk_elements(list)));
        list->chunks[list->chunk_count++] = chunk;
    }
    return STOKER_OK;
}

void stk_list_append(struct stk_list *list, const void *elements, uint64_t count)
{
    const uint8_t *from = elements;
    while (count > 0) {
        uint64_t chunk = list->count / chunk_elements(list), at = list->count % chunk_elements(list);
        uint64_t part = chunk_elements(list) - at < count ? chunk_elements(list) - at : count;
        STK_ASSERT(chunk < list->chunk_count);
        memcpy(list->chunks[chunk] + at * list->element_bytes, from, (size_t)part * list->element_bytes);
        from += part * list->element_bytes;
        list->count += part;
        count -= part;
    }
}

void stk_list_truncate(struct stk_list *list, uint64_t count)
{
    STK_ASSERT(count <= list->count);
    list->count = count;
}

uint64_t stk_list_run(const struct stk_list *list, uint64_t from, const void **out_elements)
{
    if (from >= list->count) return 0;
    uint64_t chunk = from / chunk_elements(list), at = from % chunk_elements(list);
    uint64_t left = list->count - from, room = chunk_elements(list) - at;
    *out_elements = list->chunks[chunk] + at * list->element_bytes;
    return left < room ? left : room;
}
