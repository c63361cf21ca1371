/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset under one table: count, describe, materialise. Sources travel between processes as blobs (encoded once by
 * the rank, mapped read-only by everyone else), so that two million paths exist once per host.
 *
 * Kinds: media (source/media.c: a manifest of files and a video form) and process (source/process.c: how to start a
 * template; only the pool uses it, its samples are made by that process).
 */
#ifndef STK_SOURCE_SOURCE_H
#define STK_SOURCE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>

#include "wire/message.h"

/* What a materialise did, for the report. */
struct stk_made {
    uint64_t bytes_read;
    uint64_t frames_presented;
};

struct stk_source_ops {
    uint64_t (*count)(const struct stoker_source *source);
    stoker_status (*describe)(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                              stoker_error *err);
    stoker_status (*materialise)(const struct stoker_source *source, uint64_t id, void *dst, struct stk_made *out_made,
                                 stoker_error *err);
    void (*close)(struct stoker_source *source);
};

/* First member of every kind's struct. */
struct stoker_source {
    const struct stk_source_ops *ops;
    enum stk_source_kind kind;
    int blob_fd;         /* sealed blob that describes the source */
    int payload_fd;      /* process sources: the pickled dataset; else -1 */
    uint8_t digest[32];  /* SHA-256 over blob and payload */
};

/* Opens a source from the blob that another process sent. Takes the descriptors, even on failure. CORRUPT names the
 * field and offset: every offset and length is validated before any use. */
stoker_status stk_source_open_blob(enum stk_source_kind kind, int blob_fd, int payload_fd,
                                   struct stoker_source **out_source, stoker_error *err);

/* Leaves of a batch of n samples of a native source: their dtype, shape (n first), offset and size in the slab, and the
 * total size. Item i owns bytes [leaf.offset + i * sample_bytes, + sample_bytes) of leaf 0. */
struct stk_batch_layout {
    uint32_t leaf_count;
    struct stk_message_leaf leaves[4];
    uint64_t sample_bytes;
    uint64_t total_bytes;
};
stoker_status stk_source_layout(const struct stoker_source *source, uint64_t n, struct stk_batch_layout *out,
                                stoker_error *err);

/* Process sources: how to start the template. Pointers live as long as the source. */
struct stk_process_source {
    const char *const *argv; /* without the two descriptor numbers */
    const char *const *envp;
    const char *cwd;
    int payload_fd;
};
stoker_status stk_source_process(const struct stoker_source *source, struct stk_process_source *out, stoker_error *err);

#endif
