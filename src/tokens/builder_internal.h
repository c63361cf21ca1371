/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset being written, from the inside: data through a buffer to the temporary file (builder.c), the index in lists
 * until it is written (builder_finish.c). Batches of documents are in builder_batch.c, merging in builder_merge.c.
 *
 * Every operation makes room for its entries first and marks the state, so that a fault on the way is undone by going
 * back to the mark.
 */
#ifndef STK_TOKENS_BUILDER_INTERNAL_H
#define STK_TOKENS_BUILDER_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include <stoker/dataset.h>

#include "sys/publish.h"
#include "tokens/list.h"

struct stoker_dataset_builder {
    /* fixed after create */
    int dtype_code;
    size_t element_bytes;
    bool multimodal, wrap;
    atomic_bool canceled; /* written by any thread; orders nothing else */
    int pid;              /* a forked child shares the file, and may not touch it */
    /* owned by the calling thread */
    bool finished;
    struct stk_publish bin;
    uint8_t *buffer;   /* STK_TOKEN_BUFFER_BYTES */
    size_t used;       /* of the buffer */
    uint64_t written;  /* bytes of data in the file; those in the buffer follow */
    uint64_t file_end; /* the file may be longer, after a fault */
    struct stk_list lengths, documents, modes;
};

struct stk_builder_mark {
    uint64_t data_bytes, sequences, documents;
};

stoker_status stk_builder_check(stoker_dataset_builder *builder, stoker_error *err); /* WRONG_STATE: finished, forked */
struct stk_builder_mark stk_builder_mark(const stoker_dataset_builder *builder);
void stk_builder_go_back(stoker_dataset_builder *builder, struct stk_builder_mark mark);

/* Room for entries of the index. */
stoker_status stk_builder_reserve(stoker_dataset_builder *builder, uint64_t sequences, uint64_t documents,
                                  stoker_error *err);
/* Appends a sequence, or a document end, that room was made for. */
void stk_builder_put_sequence(stoker_dataset_builder *builder, int32_t length, int8_t mode);
void stk_builder_put_document(stoker_dataset_builder *builder);

stoker_status stk_elements_check(stoker_elements elements, stoker_error *err); /* INVALID_ARGUMENT */
/* Converts and appends. LIMIT with *out_misfit set: a value does not fit, and no message is written; else UINT64_MAX.
 * */
stoker_status stk_builder_write(stoker_dataset_builder *builder, stoker_elements elements, uint64_t *out_misfit,
                                stoker_error *err);
stoker_status stk_builder_flush(stoker_dataset_builder *builder, stoker_error *err);
/* The message of a misfit: element `index` of `elements` is at `position` of document `document`. */
stoker_status stk_builder_fail_misfit(const stoker_dataset_builder *builder, stoker_elements elements, uint64_t index,
                                      uint64_t document, uint64_t position, stoker_error *err);

#endif
