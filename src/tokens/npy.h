/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npy files, as far as index arrays need them: version 1.0, one or two dimensions, the four element types of
 * stoker_index_dtype. Written with the header that NumPy writes (128 bytes); read with every field checked, so that a
 * file that opens is exactly as long as its shape says.
 *
 * Docs: docs/reference/token-index.md.
 */
#ifndef STK_TOKENS_NPY_H
#define STK_TOKENS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/gpt.h>

#define STK_NPY_HEADER_BYTES 128u

/* 2, 4 or 8; 0 for a number that is no type. */
size_t stk_index_dtype_size(stoker_index_dtype dtype);
const char *stk_index_dtype_text(stoker_index_dtype dtype); /* "<i4" */

struct stk_npy_header {
    stoker_index_dtype dtype;
    uint64_t rows;
    uint32_t columns; /* 1 or 2 */
    uint64_t data_at; /* from the start of the file, a multiple of 16 */
    uint64_t data_bytes;
};

/* Reads the header at the start of `bytes` (of a file of `file_bytes`, of which `size` are here; the whole header must
 * be). CORRUPT names field, offset and value. */
stoker_status stk_npy_parse(const uint8_t *bytes, size_t size, uint64_t file_bytes, struct stk_npy_header *out,
                            stoker_error *err);
/* The header of an array. */
void stk_npy_encode(stoker_index_dtype dtype, uint64_t rows, uint32_t columns, uint8_t out[STK_NPY_HEADER_BYTES]);

/* An array in memory, and where its memory is from. */
struct stk_npy {
    stoker_index_array array;
    void *base;       /* NULL: nothing to free */
    size_t base_size; /* of a mapping; 0: base is from malloc */
    bool counted;     /* among the mappings that reader_internal.h counts */
};

/* Small files are read, so that thousands of datasets do not use up the mappings that a process may have; large ones
 * are mapped. No descriptor stays open. NOT_FOUND, CORRUPT (naming the file), UNSUPPORTED, IO, NO_MEMORY, LIMIT. */
stoker_status stk_npy_open(const char *path, struct stk_npy *out, stoker_error *err);
void stk_npy_close(struct stk_npy *npy); /* zeroed ones allowed */

#endif
