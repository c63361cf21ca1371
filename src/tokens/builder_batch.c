/* SPDX-License-Identifier: Apache-2.0
 *
 * Many documents at once: one check of the offsets, then the data in one piece, or document by document if each gets an
 * end-of-document token.
 */
#include <stdlib.h>

#include "base/error.h"
#include "tokens/builder_internal.h"
#include "tokens/convert.h"

static stoker_status check_batch(const stoker_document_batch *batch, stoker_error *err)
{
    const int64_t *offsets = batch->offsets;
    int64_t most = INT32_MAX - (batch->append_eod ? 1 : 0);
    uint64_t fault = 0;
    if (!offsets) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "offsets must be given");
    if (offsets[0] < 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "offset 0 is %lld, below 0", (long long)offsets[0]);
    /* Sign bit: an offset is below the one before, or too far from it. */
    for (uint64_t i = 0; i < batch->document_count; i++) {
        uint64_t length = (uint64_t)offsets[i + 1] - (uint64_t)offsets[i];
        fault |= (uint64_t)offsets[i + 1] | length | ((uint64_t)most - length);
    }
    for (uint64_t i = 0; fault >> 63 != 0 && i < batch->document_count; i++) {
        if (offsets[i + 1] < offsets[i])
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "offset %llu is %lld, below the one before (%lld)",
                            (unsigned long long)i + 1, (long long)offsets[i + 1], (long long)offsets[i]);
        if (offsets[i + 1] - offsets[i] > most)
            return stk_fail(err, STOKER_ERR_LIMIT,
                            "document %llu of the batch has %lld elements; the format keeps %lld",
                            (unsigned long long)i, (long long)(offsets[i + 1] - offsets[i]), (long long)most);
    }
    if ((uint64_t)offsets[batch->document_count] > batch->elements.count)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the last offset is %lld, but there are %llu elements",
                        (long long)offsets[batch->document_count], (unsigned long long)batch->elements.count);
    return STOKER_OK;
}

static stoker_elements part_of(stoker_elements elements, int64_t from, int64_t to)
{
    size_t bytes = stoker_token_dtype_size(elements.dtype_code);
    const uint8_t *data = elements.data;
    return (stoker_elements){data ? data + (size_t)from * bytes : NULL, (uint64_t)(to - from), elements.dtype_code};
}

/* The document of the batch that holds an element: the last whose offset is not past it. */
static uint64_t document_of(const stoker_document_batch *batch, int64_t element)
{
    uint64_t low = 0, high = batch->document_count - 1;
    while (low < high) {
        uint64_t middle = high - (high - low) / 2;
        if (batch->offsets[middle] <= element)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static stoker_status write_plain(stoker_dataset_builder *builder, const stoker_document_batch *batch,
                                 int64_t *out_misfit, stoker_error *err)
{
    uint64_t misfit;
    const int64_t *offsets = batch->offsets;
    stoker_elements all = part_of(batch->elements, offsets[0], offsets[batch->document_count]);
    stoker_status status = stk_builder_write(builder, all, &misfit, err);
    if (misfit != UINT64_MAX) *out_misfit = offsets[0] + (int64_t)misfit;
    return status;
}

static stoker_status write_with_eod(stoker_dataset_builder *builder, const stoker_document_batch *batch,
                                    int64_t *out_misfit, stoker_error *err)
{
    stoker_elements eod = {&batch->eod, 1, STOKER_TOKEN_INT64};
    const int64_t *offsets = batch->offsets;
    for (uint64_t i = 0; i < batch->document_count; i++) {
        uint64_t misfit;
        stoker_status status =
            stk_builder_write(builder, part_of(batch->elements, offsets[i], offsets[i + 1]), &misfit, err);
        if (misfit != UINT64_MAX) *out_misfit = offsets[i] + (int64_t)misfit;
        if (status == STOKER_OK) status = stk_builder_write(builder, eod, &misfit, err);
        STK_TRY(status);
    }
    return STOKER_OK;
}

static stoker_status check_eod(const stoker_dataset_builder *builder, const stoker_document_batch *batch,
                               stoker_error *err)
{
    uint8_t made[8];
    stoker_elements eod = {&batch->eod, 1, STOKER_TOKEN_INT64};
    if (!batch->append_eod || stk_elements_convert(eod, builder->dtype_code, builder->wrap, made)) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_LIMIT, "the end-of-document token %lld does not fit the element type %s",
                    (long long)batch->eod, stk_token_dtype_name(builder->dtype_code));
}

stoker_status stoker_dataset_builder_add_documents(stoker_dataset_builder *builder, const stoker_document_batch *batch,
                                                   stoker_error *err)
{
    int64_t misfit = -1;
    STK_TRY(stk_builder_check(builder, err));
    if (!batch) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "batch must be given");
    STK_TRY(stk_elements_check(batch->elements, err));
    STK_TRY(check_batch(batch, err));
    STK_TRY(check_eod(builder, batch, err));
    STK_TRY(stk_builder_reserve(builder, batch->document_count, batch->document_count, err));
    struct stk_builder_mark mark = stk_builder_mark(builder);
    stoker_status status =
        batch->append_eod ? write_with_eod(builder, batch, &misfit, err) : write_plain(builder, batch, &misfit, err);
    if (status < 0) {
        stk_builder_go_back(builder, mark);
        if (misfit < 0) return status;
        uint64_t document = document_of(batch, misfit);
        return stk_builder_fail_misfit(builder, batch->elements, (uint64_t)misfit,
                                       builder->documents.count - 1 + document,
                                       (uint64_t)(misfit - batch->offsets[document]), err);
    }
    for (uint64_t i = 0; i < batch->document_count; i++) {
        int64_t length = batch->offsets[i + 1] - batch->offsets[i] + (batch->append_eod ? 1 : 0);
        stk_builder_put_sequence(builder, (int32_t)length, batch->modes ? batch->modes[i] : 0);
        stk_builder_put_document(builder);
    }
    return STOKER_OK;
}
