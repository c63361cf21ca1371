/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved index arrays: FOLDER/STEM-NAME.npy and FOLDER/STEM-description.txt, built by one of any number of processes.
 *
 * Whoever finds the set whole loads it and writes nothing. Whoever does not takes the lock FOLDER/.STEM.lock, looks
 * again, and builds straight into files that appear one by one, whole, under their names. The lock ends with its
 * holder, so a builder that is killed leaves the work to the next in line. On a file system without locks several may
 * build at once: they publish the same bytes.
 *
 * Docs: docs/reference/token-index.md.
 */
#ifndef STK_TOKENS_CACHE_H
#define STK_TOKENS_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/gpt.h>

#include "tokens/npy.h"

#define STK_CACHE_ARRAYS_MAX 3u

/* What a builder may tell while it builds: bytes [offset, offset + size) of an array are final. Their way to the
 * disk begins, and unless they are `read_again` their pages leave the process: an index of any size is built in little
 * memory. */
struct stk_cache_site {
    void (*settled)(const struct stk_cache_site *site, uint32_t array, uint64_t offset, uint64_t size, bool read_again);
    void *cache; /* of cache.c */
};

/* What a set holds, and how it is made. */
struct stk_cache_plan {
    uint32_t count;
    bool known; /* shapes are known; else only names and columns are */
    struct {
        const char *name; /* "document_index" */
        stoker_index_dtype dtype;
        uint64_t rows;
        uint32_t columns;
        uint32_t turn; /* from 0: which are filled first, for whoever makes their pages ahead */
    } arrays[STK_CACHE_ARRAYS_MAX];
    void *user;
    /* Fills the arrays, which are zeroed memory of the planned sizes. */
    stoker_status (*build)(void *user, void *const *out_data, const struct stk_cache_site *site, stoker_error *err);
    /* Whether loaded arrays fit each other (and the plan): CORRUPT if not. NULL allowed. */
    stoker_status (*check)(void *user, const struct stk_npy *arrays, stoker_error *err);
};

/* Loads the set, or builds it if it is missing or damaged and that is allowed; cache->folder NULL: builds in memory.
 * Gives plan->count arrays, each to be closed. *out_built: they were made now. */
stoker_status stk_cache_open(const stoker_index_cache *cache, const struct stk_cache_plan *plan, struct stk_npy *out,
                             bool *out_built, stoker_error *err);

/* "FOLDER/STEM-NAME.npy" on the heap; NULL without memory. */
char *stk_cache_path(const stoker_index_cache *cache, const char *name);

/* A copy with texts of its own; NO_MEMORY. */
stoker_status stk_cache_copy(const stoker_index_cache *cache, stoker_index_cache *out, stoker_error *err);
void stk_cache_drop(stoker_index_cache *copy);

/* Of an open blend; its folder is NULL if its arrays live in memory. */
const stoker_index_cache *stk_blend_cache(const stoker_blend_index *blend);

#endif
