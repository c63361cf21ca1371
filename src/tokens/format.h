/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout of PREFIX.idx (docs/reference/token-files.md) over bytes in memory: decode and encode the header, place the
 * arrays inside the file, and check every value that they hold. No system call; the paths are for messages only.
 *
 * The arrays are misaligned in every file, so elements are loaded by copy.
 */
#ifndef STK_TOKENS_FORMAT_H
#define STK_TOKENS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <stoker/dataset.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are little-endian on disk and in memory");

enum { STK_INDEX_HEADER_BYTES = 34, STK_INDEX_VERSION = 1 };

/* Where the arrays of a file lie, in bytes from its begin. */
struct stk_index_layout {
    uint64_t sequences, document_entries;
    int dtype_code;
    bool multimodal;
    uint64_t lengths_at, offsets_at, documents_at, modes_at, end; /* set by stk_index_place() */
};

/* Fills the counts and the type from the first 34 bytes (size: what there is). CORRUPT, UNSUPPORTED (version, type). */
stoker_status stk_index_header_decode(const uint8_t *data, uint64_t size, const char *path,
                                      struct stk_index_layout *out_layout, stoker_error *err);
void stk_index_header_encode(const struct stk_index_layout *layout, uint8_t out[STK_INDEX_HEADER_BYTES]);

/* Sets where the arrays lie and checks that they fit a file of this size. CORRUPT. */
stoker_status stk_index_place(struct stk_index_layout *layout, uint64_t file_size, const char *path, stoker_error *err);

/* The arrays of a file in memory. */
struct stk_index_view {
    const uint8_t *lengths, *offsets, *documents, *modes; /* modes: NULL without */
    uint64_t sequences, document_entries;
    size_t element_bytes;
};
struct stk_index_view stk_index_view_of(const struct stk_index_layout *layout, const uint8_t *file);

/* What the values are checked against, and the names that messages need. */
struct stk_index_bounds {
    uint64_t bin_bytes;
    const char *idx_path, *bin_path;
    bool exact; /* offsets must be the running sum and end where the file does */
};

/* Every value: lengths not negative, sequences inside the .bin file, documents ascending from 0 to the last sequence.
 * CORRUPT; *out_sequence (NULL allowed) is then the first bad sequence, UINT64_MAX if the fault is elsewhere. */
stoker_status stk_index_check(const struct stk_index_view *view, const struct stk_index_bounds *bounds,
                              uint64_t *out_sequence, stoker_error *err);

static inline int32_t stk_index_length(const struct stk_index_view *view, uint64_t sequence)
{
    int32_t value;
    memcpy(&value, view->lengths + sequence * sizeof value, sizeof value);
    return value;
}

static inline int64_t stk_index_offset(const struct stk_index_view *view, uint64_t sequence)
{
    int64_t value;
    memcpy(&value, view->offsets + sequence * sizeof value, sizeof value);
    return value;
}

static inline int64_t stk_index_document(const struct stk_index_view *view, uint64_t entry)
{
    int64_t value;
    memcpy(&value, view->documents + entry * sizeof value, sizeof value);
    return value;
}

#endif
