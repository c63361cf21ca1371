/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend of ranges is, and how tries are repeated. A backend reads up to `size` bytes and says how many there
 * were; that fewer than asked are a fault is decided in one place, stk_range_read(), because the block cache asks for
 * whole blocks also where the object ends inside one.
 */
#ifndef STK_STORE_RANGE_INTERNAL_H
#define STK_STORE_RANGE_INTERNAL_H

#include "store/range.h"

struct stk_range_backend {
    /* *out_got below size: the object ends at offset + *out_got, or before offset if it is 0. */
    stoker_status (*read)(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                          stoker_error *err);
    stoker_status (*size)(struct stk_range *range, uint64_t *out_size, stoker_error *err);
    /* Text that changes when the object does, beside its size; NULL: the backend knows of none. */
    stoker_status (*version)(struct stk_range *range, char *out, size_t cap, stoker_error *err);
    void (*close)(struct stk_range *range);
    unsigned ways; /* reads at once that make one large read faster */
};

/* How a delay passes. NULL: really; tests count the delays instead. */
struct stk_range_wait {
    void (*wait)(void *user, uint64_t delay_ns);
    void *user;
};

/* First member of every backend's struct. */
struct stk_range {
    const struct stk_range_backend *backend;
    char *name; /* path or address, in messages; without what is secret in it */
    struct stk_range_wait wait;
};

/* A zeroed struct of `bytes` with its head filled. */
stoker_status stk_range_create(size_t bytes, const struct stk_range_backend *backend, const char *name,
                               struct stk_range **out_range, stoker_error *err);
void stk_range_free(struct stk_range *range); /* the head and the struct */

stoker_status stk_range_read_some(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                                  stoker_error *err);

/* Lets a delay pass. */
void stk_range_pause(const struct stk_range *range, uint64_t delay_ns);
/* The delay before retry number `retry` (from 0): delay_ns doubled as often, at most `most_ns`. */
uint64_t stk_range_delay(uint64_t delay_ns, uint32_t retry, uint64_t most_ns);

#endif
