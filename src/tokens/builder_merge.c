/* SPDX-License-Identifier: Apache-2.0
 *
 * Append a whole dataset to one that is being written: the entries of its index, then its data, file to file.
 *
 * Offsets are computed from the lengths when the index is written, so the other dataset's data must lie as its lengths
 * say. One that does not is refused; Megatron-LM writes an index then that points beside the data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/file.h"
#include "sys/copy.h"
#include "tokens/builder_internal.h"
#include "tokens/convert.h"
#include "tokens/format.h"

enum { STEP_ENTRIES = 4096 };

static stoker_status open_other(const stoker_dataset_builder *builder, const char *prefix, stoker_dataset **out_dataset,
                                stoker_dataset_facts *out_facts, stoker_error *err)
{
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    options.multimodal = builder->multimodal;
    options.access = STOKER_DATASET_FILE; /* only its index is looked at here */
    options.open_retries = -1;
    STK_TRY(stoker_dataset_open(prefix, &options, &dataset, err));
    stoker_dataset_get_facts(dataset, out_facts);
    stoker_status status = STOKER_OK;
    if (out_facts->dtype_code != builder->dtype_code)
        status =
            stk_fail(err, STOKER_ERR_MISMATCH, "'%s' has elements of type %s, the dataset that is written %s", prefix,
                     stk_token_dtype_name(out_facts->dtype_code), stk_token_dtype_name(builder->dtype_code));
    if (status == STOKER_OK) status = stoker_dataset_verify(dataset, NULL, err);
    if (status < 0)
        stoker_dataset_close(dataset);
    else
        *out_dataset = dataset;
    return status;
}

/* All entries but the first, which is the end of what was there before. */
static void put_documents(stoker_dataset_builder *builder, const stoker_dataset_facts *facts, int64_t before)
{
    const uint8_t *from = facts->documents;
    int64_t entries[STEP_ENTRIES];
    for (uint64_t at = 1; at < facts->document_entries;) {
        uint64_t left = facts->document_entries - at, part = left < STEP_ENTRIES ? left : STEP_ENTRIES;
        memcpy(entries, from + at * sizeof entries[0], (size_t)part * sizeof entries[0]);
        for (uint64_t i = 0; i < part; i++) entries[i] += before;
        stk_list_append(&builder->documents, entries, part);
        at += part;
    }
}

static stoker_status copy_data(stoker_dataset_builder *builder, const char *bin_path, uint64_t size, stoker_error *err)
{
    struct stk_file file;
    STK_TRY(stk_builder_flush(builder, err));
    STK_TRY(stk_file_open(bin_path, &file, err));
    stoker_status status;
    if (file.size != size) {
        status = stk_fail(err, STOKER_ERR_CORRUPT, "'%s' changed from %llu to %llu bytes while it was merged", bin_path,
                          (unsigned long long)size, (unsigned long long)file.size);
    } else {
        if (builder->written + size > builder->file_end) builder->file_end = builder->written + size;
        status = stk_copy_bytes(file.fd, builder->bin.fd, builder->written, size, !builder->bin.unsynced,
                                &builder->canceled, err);
        if (status == STOKER_ERR_CORRUPT) /* of the source; a full disk is the other's, and the rest may be of both */
            stk_error_context(err, "%s", bin_path);
        else if (status == STOKER_ERR_NO_SPACE || status == STOKER_ERR_LIMIT)
            stk_error_context(err, "%s", builder->bin.path);
        else if (status < 0)
            stk_error_context(err, "%s to %s", bin_path, builder->bin.path);
    }
    stk_file_close(&file);
    if (status == STOKER_OK) builder->written += size;
    return status;
}

stoker_status stoker_dataset_builder_add_index(stoker_dataset_builder *builder, const char *prefix, stoker_error *err)
{
    stoker_dataset *other = NULL;
    stoker_dataset_facts facts;
    STK_TRY(stk_builder_check(builder, err));
    if (!prefix) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "prefix must be given");
    STK_TRY(open_other(builder, prefix, &other, &facts, err));
    struct stk_builder_mark mark = stk_builder_mark(builder);
    size_t path_size = strlen(prefix) + sizeof ".bin";
    char *bin_path = malloc(path_size);
    stoker_status status = bin_path ? stk_builder_reserve(builder, facts.sequences, facts.document_entries, err)
                                    : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to merge '%s'", prefix);
    if (status == STOKER_OK) {
        (void)snprintf(bin_path, path_size, "%s.bin", prefix);
        status = copy_data(builder, bin_path, facts.bin_bytes, err);
    }
    if (status == STOKER_OK) {
        int64_t before = (int64_t)builder->lengths.count;
        stk_list_append(&builder->lengths, facts.lengths, facts.sequences);
        if (builder->multimodal) stk_list_append(&builder->modes, facts.modes, facts.sequences);
        put_documents(builder, &facts, before);
    } else {
        stk_builder_go_back(builder, mark);
    }
    free(bin_path);
    stoker_dataset_close(other);
    return status;
}
