/* SPDX-License-Identifier: Apache-2.0
 *
 * An array that grows: of one element type, which the caller names at every use. Zeroed memory is an empty list.
 */
#ifndef STK_TEXT_LIST_H
#define STK_TEXT_LIST_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"

struct stk_list {
    void *data;
    size_t count, capacity; /* in elements */
};

/* Where the next `more` elements of `element` bytes go; the caller fills them and adds to count. NULL: no memory, and
 * nothing has changed. Capacities double, so that the cost of growing is linear. */
static inline void *stk_list_room(struct stk_list *list, size_t more, size_t element)
{
    size_t wanted, bytes;
    if (!stk_add_size(list->count, more, &wanted)) return NULL;
    if (!list->data || wanted > list->capacity) {
        size_t roomy = list->capacity ? list->capacity : 64;
        while (roomy < wanted && roomy <= SIZE_MAX / 2) roomy *= 2;
        if (roomy < wanted || !stk_mul_size(roomy, element, &bytes)) return NULL;
        void *moved = realloc(list->data, bytes);
        if (!moved) return NULL;
        list->data = moved;
        list->capacity = roomy;
    }
    return (char *)list->data + list->count * element;
}

static inline void stk_list_fini(struct stk_list *list)
{
    free(list->data);
    *list = (struct stk_list){0};
}

#endif
