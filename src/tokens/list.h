/* SPDX-License-Identifier: Apache-2.0
 *
 * A list that grows in steps of one size: nothing is moved when it grows, so that its peak is its content. Builders
 * keep the index of a dataset in it until it is written.
 */
#ifndef STK_TOKENS_LIST_H
#define STK_TOKENS_LIST_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

struct stk_list {
    uint8_t **chunks; /* each of STK_TOKEN_CHUNK_BYTES */
    size_t chunk_count, chunk_room;
    uint64_t count; /* elements */
    size_t element_bytes;
};

void stk_list_init(struct stk_list *list, size_t element_bytes); /* a power of two */
void stk_list_fini(struct stk_list *list);
/* Makes room for `more` elements, so that as many may be appended without an error. NO_MEMORY. */
stoker_status stk_list_reserve(struct stk_list *list, uint64_t more, stoker_error *err);
/* Appends elements that room was made for. */
void stk_list_append(struct stk_list *list, const void *elements, uint64_t count);
void stk_list_truncate(struct stk_list *list, uint64_t count);
/* The elements from `from` on that lie side by side: gives how many; 0 at the end. */
uint64_t stk_list_run(const struct stk_list *list, uint64_t from, const void **out_elements);

#endif
