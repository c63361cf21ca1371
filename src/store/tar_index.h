/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of one tar archive in memory, by position, by name and by sample; and the bytes in which they are kept
 * (docs/reference/manifest.md). Built from an archive, or read from such bytes, which are checked whole.
 */
#ifndef STK_STORE_TAR_INDEX_H
#define STK_STORE_TAR_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "store/tar.h"

struct stk_tar_entry {
    uint64_t offset, size;
    uint64_t name_offset; /* in the text */
    uint32_t name_size, key_size;
    uint32_t sample;
};

struct stk_tar_index {
    uint64_t archive_bytes;
    int64_t archive_mtime_ns;
    uint64_t dropped;
    uint32_t count, sample_count;
    struct stk_tar_entry *entries; /* order of the archive */
    char *text;                    /* names, each ended by a zero byte, in that order */
    uint64_t text_size;
    uint32_t *sorted;       /* entries by key, then extension: those of a sample stand together */
    uint32_t *sample_first; /* where the entries of each sample begin in `sorted`; order of the samples */
    uint32_t *sample_size;  /* how many they are */
};

/* Walks the archive. With `last`, of two members with one name the later counts; else CORRUPT names both. As
 * stk_tar_walk(); LIMIT: more than 2^32 - 2 members. */
stoker_status stk_tar_index_build(const struct stk_file *file, bool last, struct stk_tar_index **out_index,
                                  stoker_error *err);
/* From bytes that another process may have written. CORRUPT names the field and offset, UNSUPPORTED a version. */
stoker_status stk_tar_index_decode(const uint8_t *data, size_t size, struct stk_tar_index **out_index,
                                   stoker_error *err);
/* The bytes, on the heap: gives *out_data. NO_MEMORY. */
stoker_status stk_tar_index_encode(const struct stk_tar_index *index, uint8_t **out_data, size_t *out_size,
                                   stoker_error *err);
void stk_tar_index_destroy(struct stk_tar_index *index); /* NULL allowed */

/* UINT32_MAX: no member has that name. */
uint32_t stk_tar_index_find(const struct stk_tar_index *index, const char *name, size_t name_size);

#endif
