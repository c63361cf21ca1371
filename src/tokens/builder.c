/* SPDX-License-Identifier: Apache-2.0
 *
 * Write indexed datasets: see stoker/dataset.h. Elements are converted straight into a buffer that goes to the
 * temporary file when it is full; the index stays in memory (12 bytes a document of one sequence) until finalize.
 */
#include "tokens/builder_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "sys/leftover.h"
#include "tokens/convert.h"
#include "tokens/format.h"

static stoker_status check_options(const stoker_dataset_builder_options *options, stoker_error *err)
{
    if (options->struct_size != sizeof *options)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "builder options of %u bytes; this library knows %zu",
                        options->struct_size, sizeof *options);
    if (options->dtype_code != 0 && stoker_token_dtype_size(options->dtype_code) == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "element type %d is not known, only 1 to 8",
                        options->dtype_code);
    if (options->range != STOKER_TOKEN_RANGE_ERROR && options->range != STOKER_TOKEN_RANGE_WRAP)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "range %d is not known", (int)options->range);
    return STOKER_OK;
}

stoker_status stoker_dataset_builder_create(const char *bin_path, const stoker_dataset_builder_options *options,
                                            stoker_dataset_builder **out_builder, stoker_error *err)
{
    static const stoker_dataset_builder_options defaults = STOKER_DATASET_BUILDER_OPTIONS_INIT;
    static const int64_t first_document = 0;
    if (!bin_path || !out_builder)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "bin_path and out_builder must be given");
    if (!options) options = &defaults;
    STK_TRY(check_options(options, err));
    stoker_dataset_builder *builder = calloc(1, sizeof *builder);
    if (!builder) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to write '%s'", bin_path);
    builder->bin.fd = -1;
    builder->pid = (int)getpid();
    builder->dtype_code = options->dtype_code ? options->dtype_code : STOKER_TOKEN_INT32;
    builder->element_bytes = stoker_token_dtype_size(builder->dtype_code);
    builder->multimodal = options->multimodal != 0;
    builder->wrap = options->range == STOKER_TOKEN_RANGE_WRAP;
    stk_list_init(&builder->lengths, sizeof(int32_t));
    stk_list_init(&builder->documents, sizeof(int64_t));
    stk_list_init(&builder->modes, sizeof(int8_t));
    stoker_status status = STOKER_OK;
    builder->buffer = malloc(STK_TOKEN_BUFFER_BYTES);
    if (!builder->buffer) status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to write '%s'", bin_path);
    if (status == STOKER_OK) status = stk_list_reserve(&builder->documents, 1, err);
    stk_leftovers_remove(&bin_path, 1, false); /* room on the disk */
    if (status == STOKER_OK) status = stk_publish_begin(bin_path, &builder->bin, err);
    builder->bin.unsynced = options->unsynced != 0;
    if (status < 0) {
        stoker_dataset_builder_destroy(builder);
        return status;
    }
    stk_list_append(&builder->documents, &first_document, 1);
    *out_builder = builder;
    return STOKER_OK;
}

void stoker_dataset_builder_cancel(stoker_dataset_builder *builder)
{
    if (builder) atomic_store_explicit(&builder->canceled, true, memory_order_relaxed);
}

void stoker_dataset_builder_destroy(stoker_dataset_builder *builder)
{
    if (!builder) return;
    stk_publish_abort(&builder->bin);
    stk_list_fini(&builder->lengths);
    stk_list_fini(&builder->documents);
    stk_list_fini(&builder->modes);
    free(builder->buffer);
    free(builder);
}

/* ------------------------------------------------------------------------------------------------- marks and room */

stoker_status stk_builder_check(stoker_dataset_builder *builder, stoker_error *err)
{
    if (!builder) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "builder must be given");
    if (builder->pid != (int)getpid())
        return stk_fail(err, STOKER_ERR_WRONG_STATE,
                        "the builder belongs to process %d; a forked child cannot write through it", builder->pid);
    atomic_store_explicit(&builder->canceled, false, memory_order_relaxed); /* of a call that had ended */
    if (builder->finished) return stk_fail(err, STOKER_ERR_WRONG_STATE, "the dataset was finalized already");
    return STOKER_OK;
}

struct stk_builder_mark stk_builder_mark(const stoker_dataset_builder *builder)
{
    return (struct stk_builder_mark){builder->written + builder->used, builder->lengths.count,
                                     builder->documents.count};
}

void stk_builder_go_back(stoker_dataset_builder *builder, struct stk_builder_mark mark)
{
    if (mark.data_bytes >= builder->written) {
        builder->used = (size_t)(mark.data_bytes - builder->written); /* what was in the buffer is still there */
    } else {
        builder->written = mark.data_bytes; /* all before the mark went to the file */
        builder->used = 0;
    }
    stk_list_truncate(&builder->lengths, mark.sequences);
    stk_list_truncate(&builder->documents, mark.documents);
    if (builder->multimodal) stk_list_truncate(&builder->modes, mark.sequences);
}

stoker_status stk_builder_reserve(stoker_dataset_builder *builder, uint64_t sequences, uint64_t documents,
                                  stoker_error *err)
{
    STK_TRY(stk_list_reserve(&builder->lengths, sequences, err));
    if (builder->multimodal) STK_TRY(stk_list_reserve(&builder->modes, sequences, err));
    return stk_list_reserve(&builder->documents, documents, err);
}

void stk_builder_put_sequence(stoker_dataset_builder *builder, int32_t length, int8_t mode)
{
    stk_list_append(&builder->lengths, &length, 1);
    if (builder->multimodal) stk_list_append(&builder->modes, &mode, 1);
}

void stk_builder_put_document(stoker_dataset_builder *builder)
{
    int64_t end = (int64_t)builder->lengths.count;
    stk_list_append(&builder->documents, &end, 1);
}

/* ----------------------------------------------------------------------------------------------------------- data */

stoker_status stk_elements_check(stoker_elements elements, stoker_error *err)
{
    size_t bytes;
    if (stoker_token_dtype_size(elements.dtype_code) == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "element type %d is not known, only 1 to 8",
                        elements.dtype_code);
    if ((!elements.data && elements.count > 0) ||
        !stk_mul_size(elements.count, stoker_token_dtype_size(elements.dtype_code), &bytes))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%llu elements at %p", (unsigned long long)elements.count,
                        elements.data);
    return STOKER_OK;
}

static stoker_status write_out(stoker_dataset_builder *builder, const void *data, size_t size, stoker_error *err)
{
    /* On a fault part of it may be in the file. */
    uint64_t end = builder->written + size;
    if (end > builder->file_end) builder->file_end = end;
    STK_TRY(stk_publish_write(&builder->bin, builder->written, data, size, err));
    stk_publish_push(&builder->bin, builder->written, size); /* while the next megabyte is made */
    builder->written = end;
    return STOKER_OK;
}

stoker_status stk_builder_flush(stoker_dataset_builder *builder, stoker_error *err)
{
    if (builder->used == 0) return STOKER_OK;
    STK_TRY(write_out(builder, builder->buffer, builder->used, err));
    builder->used = 0;
    return STOKER_OK;
}

stoker_status stk_builder_write(stoker_dataset_builder *builder, stoker_elements elements, uint64_t *out_misfit,
                                stoker_error *err)
{
    size_t from_bytes = stoker_token_dtype_size(elements.dtype_code), to_bytes = builder->element_bytes;
    const uint8_t *from = elements.data;
    *out_misfit = UINT64_MAX;
    if (elements.dtype_code == builder->dtype_code && elements.count >= STK_TOKEN_BUFFER_BYTES / to_bytes) {
        STK_TRY(stk_builder_flush(builder, err)); /* nothing to convert: straight to the file */
        return write_out(builder, from, (size_t)elements.count * to_bytes, err);
    }
    for (uint64_t done = 0; done < elements.count;) {
        uint64_t room = (STK_TOKEN_BUFFER_BYTES - builder->used) / to_bytes;
        if (room == 0) {
            STK_TRY(stk_builder_flush(builder, err));
            continue;
        }
        uint64_t part = elements.count - done < room ? elements.count - done : room;
        stoker_elements some = {from + done * from_bytes, part, elements.dtype_code};
        if (!stk_elements_convert(some, builder->dtype_code, builder->wrap, builder->buffer + builder->used)) {
            char text[40];
            *out_misfit = done + stk_elements_misfit(some, builder->dtype_code, builder->wrap, text, sizeof text);
            return STOKER_ERR_LIMIT;
        }
        builder->used += (size_t)part * to_bytes;
        done += part;
    }
    return STOKER_OK;
}

stoker_status stk_builder_fail_misfit(const stoker_dataset_builder *builder, stoker_elements elements, uint64_t index,
                                      uint64_t document, uint64_t position, stoker_error *err)
{
    static const char *const ranges[] = {"",
                                         "uint8 (0 to 255)",
                                         "int8 (-128 to 127)",
                                         "int16 (-32768 to 32767)",
                                         "int32 (-2147483648 to 2147483647)",
                                         "int64",
                                         "float64",
                                         "float32",
                                         "uint16 (0 to 65535)"};
    char text[40] = "";
    size_t bytes = stoker_token_dtype_size(elements.dtype_code);
    stoker_elements one = {(const uint8_t *)elements.data + index * bytes, 1, elements.dtype_code};
    (void)stk_elements_misfit(one, builder->dtype_code, builder->wrap, text, sizeof text);
    return stk_fail(err, STOKER_ERR_LIMIT, "token %s at position %llu of document %llu does not fit %s", text,
                    (unsigned long long)position, (unsigned long long)document, ranges[builder->dtype_code]);
}

/* ----------------------------------------------------------------------------------------------------- operations */

static uint64_t open_document(const stoker_dataset_builder *builder) { return builder->documents.count - 1; }

/* Position in the open document of the element that is written next: the lengths of its sequences so far. */
static uint64_t open_position(const stoker_dataset_builder *builder)
{
    const void *run = NULL;
    uint64_t position = 0;
    int64_t first = 0;
    if (stk_list_run(&builder->documents, builder->documents.count - 1, &run) > 0) memcpy(&first, run, sizeof first);
    for (uint64_t at = (uint64_t)first, count; (count = stk_list_run(&builder->lengths, at, &run)) > 0; at += count)
        for (uint64_t i = 0; i < count; i++) position += (uint64_t)((const int32_t *)run)[i];
    return position;
}

static stoker_status check_length(uint64_t count, stoker_error *err)
{
    if (count <= INT32_MAX) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_LIMIT, "a sequence of %llu elements; the format keeps at most %d",
                    (unsigned long long)count, INT32_MAX);
}

stoker_status stoker_dataset_builder_add_item(stoker_dataset_builder *builder, stoker_elements elements, int8_t mode,
                                              stoker_error *err)
{
    uint64_t misfit = UINT64_MAX;
    STK_TRY(stk_builder_check(builder, err));
    STK_TRY(stk_elements_check(elements, err));
    STK_TRY(check_length(elements.count, err));
    STK_TRY(stk_builder_reserve(builder, 1, 0, err));
    struct stk_builder_mark mark = stk_builder_mark(builder);
    stoker_status status = stk_builder_write(builder, elements, &misfit, err);
    if (status < 0) {
        stk_builder_go_back(builder, mark);
        if (misfit == UINT64_MAX) return status;
        return stk_builder_fail_misfit(builder, elements, misfit, open_document(builder),
                                       open_position(builder) + misfit, err);
    }
    stk_builder_put_sequence(builder, (int32_t)elements.count, mode);
    return STOKER_OK;
}

static stoker_status check_lengths(stoker_elements elements, const int32_t *lengths, uint64_t count, stoker_error *err)
{
    uint64_t sum = 0;
    if (!lengths && count > 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "lengths must be given");
    for (uint64_t i = 0; i < count; i++) {
        if (lengths[i] < 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "length %llu is %d, below 0", (unsigned long long)i,
                            lengths[i]);
        sum += (uint64_t)lengths[i];
    }
    if (sum == elements.count) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the lengths sum up to %llu, but there are %llu elements",
                    (unsigned long long)sum, (unsigned long long)elements.count);
}

stoker_status stoker_dataset_builder_add_document(stoker_dataset_builder *builder, stoker_elements elements,
                                                  const int32_t *lengths, uint64_t sequence_count, const int8_t *modes,
                                                  stoker_error *err)
{
    uint64_t misfit = UINT64_MAX;
    STK_TRY(stk_builder_check(builder, err));
    STK_TRY(stk_elements_check(elements, err));
    STK_TRY(check_lengths(elements, lengths, sequence_count, err));
    STK_TRY(stk_builder_reserve(builder, sequence_count, 1, err));
    struct stk_builder_mark mark = stk_builder_mark(builder);
    stoker_status status = stk_builder_write(builder, elements, &misfit, err);
    if (status < 0) {
        stk_builder_go_back(builder, mark);
        if (misfit == UINT64_MAX) return status;
        return stk_builder_fail_misfit(builder, elements, misfit, open_document(builder),
                                       open_position(builder) + misfit, err);
    }
    for (uint64_t i = 0; i < sequence_count; i++) stk_builder_put_sequence(builder, lengths[i], modes ? modes[i] : 0);
    stk_builder_put_document(builder);
    return STOKER_OK;
}

stoker_status stoker_dataset_builder_end_document(stoker_dataset_builder *builder, stoker_error *err)
{
    STK_TRY(stk_builder_check(builder, err));
    STK_TRY(stk_builder_reserve(builder, 0, 1, err));
    stk_builder_put_document(builder);
    return STOKER_OK;
}
