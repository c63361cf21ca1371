/* SPDX-License-Identifier: Apache-2.0
 *
 * An open dataset from the inside: the index in memory (reader_index.c), the bytes of PREFIX.bin (reader_bin.c), and
 * what they are joined to (reader.c).
 */
#ifndef STK_TOKENS_READER_INTERNAL_H
#define STK_TOKENS_READER_INTERNAL_H

#include <stdatomic.h>

#include "store/range.h"
#include "tokens/format.h"

/* PREFIX.idx: mapped, or a copy on the heap. */
struct stk_index_file {
    const uint8_t *data;
    size_t size;
    bool mapped;
    struct stk_index_layout layout;
};

/* `counts` (NULL: they are in the header) is the layout with counts and type filled in. */
stoker_status stk_index_file_load(const char *path, bool multimodal, const struct stk_index_layout *counts,
                                  struct stk_index_file *out, stoker_error *err);
void stk_index_file_unload(struct stk_index_file *file);

/* PREFIX.bin: mapped (data), or read by range. */
struct stk_bin {
    const uint8_t *data;
    uint64_t size; /* UINT64_MAX: not known yet (ranges of unchecked datasets) */
    bool mapped;
    struct stk_range *range;
};

stoker_status stk_bin_map(const char *path, struct stk_range_retry retry, struct stk_bin **out_bin, stoker_error *err);
/* Takes `range`, even on failure. */
stoker_status stk_bin_of_range(struct stk_range *range, bool ask_size, struct stk_bin **out_bin, stoker_error *err);
void stk_bin_close(struct stk_bin *bin); /* NULL allowed */

/* One of STK_INDEX_MAPS_MAX mappings of this process; false if all are taken. */
bool stk_maps_take(void);
void stk_maps_give(void);
void stk_maps_set_limit(uint32_t limit); /* for tests; 0: the usual one */

/* Object access. Sees to it that `index_cache_dir` holds PREFIX.idx, and gives its path there. */
stoker_status stk_remote_index(const char *prefix, const stoker_dataset_options *options, struct stk_range_retry retry,
                               char **out_path, stoker_error *err);
stoker_status stk_remote_bin(const char *url, const stoker_dataset_options *options, struct stk_range_retry retry,
                             struct stk_range **out_range, stoker_error *err);

struct stoker_dataset {
    /* fixed after open */
    char *idx_path, *bin_path; /* the index where it is read from: for objects the local copy */
    bool unchecked;
    stoker_dataset_options options; /* without what they borrow: readers and texts */
    struct stk_range_retry retry;
    struct stk_index_file index;
    struct stk_index_view view;
    /* atomic */
    _Atomic unsigned references;
    struct stk_bin *_Atomic bin; /* NULL until it is first needed (unchecked and mapped) */
};

/* Opens PREFIX.bin if it is not open yet. Any thread at once. */
stoker_status stk_dataset_bin(stoker_dataset *dataset, const struct stk_bin **out_bin, stoker_error *err);

#endif
