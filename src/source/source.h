/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset under one table: count, describe, materialise. Sources travel between processes as blobs (encoded once by
 * the rank, mapped read-only by everyone else), so that two million paths exist once per host.
 *
 * Kinds: media (source/media.c: a manifest of files and a video form), tokens (source/tokens.c: indexes over token
 * files, and the form of items) and process (source/process.c: how to start a template; only the pool uses it, its
 * samples are made by that process).
 */
#ifndef STK_SOURCE_SOURCE_H
#define STK_SOURCE_SOURCE_H

#include <stdbool.h>
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

/* The tensors that each sample of a native source has, in order. */
struct stk_sample_leaves {
    uint32_t count;
    struct stk_sample_leaf {
        const char *name; /* NULL: the sample is this tensor alone */
        uint32_t dtype, ndim;
        uint64_t shape[STK_DIMS_MAX - 1];
        uint64_t bytes;
        bool ragged; /* shape[0] is the rows of a sample (stk_source_rows()), and bytes are of one row */
    } leaf[STK_NATIVE_LEAVES_MAX];
};

struct stk_source_ops {
    uint64_t (*count)(const struct stoker_source *source);
    stoker_status (*describe)(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                              stoker_error *err);
    stoker_status (*materialise)(const struct stoker_source *source, const stoker_sample *sample, void *dst,
                                 struct stk_made *out_made, stoker_error *err);
    void (*close)(struct stoker_source *source);
};

/* Of kinds whose samples are several tensors; their ops have no materialise. */
struct stk_leaf_ops {
    void (*leaves)(const struct stoker_source *source, struct stk_sample_leaves *out);
    /* Writes leaf i of the sample at dst[i]. */
    stoker_status (*materialise)(const struct stoker_source *source, const stoker_sample *sample, void *const *dst,
                                 struct stk_made *out_made, stoker_error *err);
    /* Of sources whose samples differ in size, else NULL: rows of one sample, and the most that any has. From the
     * descriptors, without a decode. */
    uint64_t (*rows)(const struct stoker_source *source, uint64_t id);
    uint64_t (*rows_max)(const struct stoker_source *source);
};

struct stk_source_work; /* work.h */

/* First member of every kind's struct. */
struct stoker_source {
    const struct stk_source_ops *ops;
    const struct stk_leaf_ops *leaf_ops; /* NULL: a sample is the one tensor that describe() tells */
    bool (*work)(const struct stoker_source *source, uint64_t id, struct stk_source_work *out); /* NULL: not known */
    enum stk_source_kind kind;
    int blob_fd;        /* sealed blob that describes the source */
    int payload_fd;     /* process sources: the pickled dataset; else -1 */
    uint8_t digest[32]; /* SHA-256 over blob and payload */
    bool network;       /* files lie in object storage: who makes samples opens connections */
};

/* Opens a source from the blob that another process sent. Takes the descriptors, even on failure. CORRUPT names the
 * field and offset: every offset and length is validated before any use. */
stoker_status stk_source_open_blob(enum stk_source_kind kind, int blob_fd, int payload_fd,
                                   struct stoker_source **out_source, stoker_error *err);

/* Do samples of this source differ in their number of rows? Then the rows of a batch follow one another in its ragged
 * leaves, and its size depends on its ids. */
bool stk_source_is_ragged(const struct stoker_source *source);
/* Rows of one sample of a ragged source, 0 of others. The id must be one of the source's. */
uint64_t stk_source_rows(const struct stoker_source *source, uint64_t id);

/* How much a batch holds. */
struct stk_batch_extent {
    uint64_t samples;
    uint64_t rows; /* of all samples together; 0 if the source is not ragged */
};

/* Leaves of a batch of a native source: their dtype, shape, offset and size in the slab, and the total size. Dense
 * leaves have the samples as first dimension: item i owns bytes [offset + i * leaf_bytes, + leaf_bytes). Ragged ones
 * have the rows: an item whose rows begin at r owns the bytes from offset + r * row_bytes on. */
struct stk_batch_layout {
    uint32_t leaf_count;
    struct stk_message_leaf leaves[STK_NATIVE_LEAVES_MAX];
    uint64_t leaf_bytes[STK_NATIVE_LEAVES_MAX]; /* of one sample; 0 of ragged leaves */
    uint64_t row_bytes[STK_NATIVE_LEAVES_MAX];  /* of one row; 0 of dense leaves */
    uint64_t sample_bytes;                      /* of all leaves; of ragged ones the mean */
    uint64_t total_bytes;
};
/* Of n samples; if the source is ragged, of the n largest that there could be. */
stoker_status stk_source_layout(const struct stoker_source *source, uint64_t n, struct stk_batch_layout *out,
                                stoker_error *err);
/* Of any samples of a ragged source. */
stoker_status stk_source_layout_rows(const struct stoker_source *source, const struct stk_batch_extent *extent,
                                     struct stk_batch_layout *out, stoker_error *err);
/* Where the leaves of item `index` lie in a batch at `base`. */
void stk_batch_places(const struct stk_batch_layout *layout, void *base, uint64_t index,
                      void *out_places[STK_NATIVE_LEAVES_MAX]);
/* The same of a ragged source: the item's rows begin at `row`. */
struct stk_batch_place {
    uint64_t index, row;
};
void stk_batch_places_rows(const struct stk_batch_layout *layout, void *base, const struct stk_batch_place *place,
                           void *out_places[STK_NATIVE_LEAVES_MAX]);
/* Makes one sample, leaf i at places[i]. */
stoker_status stk_source_make(const struct stoker_source *source, const stoker_sample *sample, void *const *places,
                              struct stk_made *out_made, stoker_error *err);
/* This process makes samples and does nothing else: what libraries would print goes to the errors of samples alone. */
void stk_source_own_process(void);
/* The tensors of one sample of a source that has some. */
void stk_source_leaves(const struct stoker_source *source, struct stk_sample_leaves *out);

/* Process sources: how to start the template. Pointers live as long as the source. */
struct stk_process_source {
    const char *const *argv; /* without the two descriptor numbers */
    const char *const *envp;
    const char *cwd;
    int payload_fd;
};
stoker_status stk_source_process(const struct stoker_source *source, struct stk_process_source *out, stoker_error *err);

#endif
