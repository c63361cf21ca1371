/* SPDX-License-Identifier: Apache-2.0
 *
 * The blob of a token source: what another process needs to make the same items. Paths are absolute; index arrays that
 * are in no file travel in the blob itself, which exists once per host.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#ifndef STK_SOURCE_TOKEN_BLOB_H
#define STK_SOURCE_TOKEN_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/gpt.h>
#include <stoker/loader.h>

enum { STK_TOKEN_SET_ARRAYS = 3 };

/* Index arrays: files (folder is a path), or in the blob (folder NULL). */
struct stk_token_set {
    const char *folder, *stem;
    stoker_index_array arrays[STK_TOKEN_SET_ARRAYS]; /* as many as the set has; data NULL for the others */
};

struct stk_token_dataset {
    bool is_mock;
    int64_t vocabulary, eod; /* mock */
    const char *prefix;      /* files */
    stoker_dataset_options options;
    uint64_t sequences, bin_bytes; /* when the source was made; bin_bytes 0: not known */
    const char *split;
    struct stk_token_set set;
};

/* What all datasets share. */
struct stk_token_head {
    uint64_t count, sequence_length;
    bool no_extra_token, is_blend;
    uint32_t datasets;
    stoker_gpt_form form;
};

/* Makes the blob of open datasets. */
stoker_status stk_token_blob_create(const stoker_token_spec *spec, int *out_fd, stoker_error *err);

/* Checks everything; afterwards the two below need no check. */
stoker_status stk_token_blob_check(const uint8_t *blob, size_t size, stoker_error *err);
void stk_token_blob_head(const uint8_t *blob, struct stk_token_head *out, struct stk_token_set *out_blend);
void stk_token_blob_dataset(const uint8_t *blob, uint32_t number, struct stk_token_dataset *out);

#endif
