/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples: the text of one, and the item that a trainer gets (see stoker/gpt.h). Nothing in an index file is trusted:
 * each position, offset and length is compared with what it points into before it is used.
 *
 * Docs: docs/reference/token-index.md.
 */
#include "tokens/item.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "tokens/gpt.h"

enum { PARTS_AHEAD = 16, LINES_AHEAD = 16 };

/* ------------------------------------------------------------------------------------------------------------- rows */

/* The parts of one sample: sequences document[at .. last], the first from `offset` on, the last up to `end`. */
struct parts {
    const struct stoker_gpt_dataset *gpt;
    uint64_t sample; /* its row in the sample index */
    uint64_t first, at, last;
    uint64_t offset, end;
    uint64_t room; /* elements that a sample may still have */
};

struct part {
    uint64_t sequence, first, count;
};

static void read_row(const stoker_index_array *sample, uint64_t row, uint64_t *out_position, uint64_t *out_offset)
{
    if (sample->dtype == STOKER_INDEX_INT64) {
        const int64_t *at = (const int64_t *)sample->data + 2 * row;
        *out_position = (uint64_t)at[0], *out_offset = (uint64_t)at[1];
    } else {
        const int32_t *at = (const int32_t *)sample->data + 2 * row;
        *out_position = (uint64_t)(int64_t)at[0], *out_offset = (uint64_t)(int64_t)at[1];
    }
}

static stoker_status begin_parts(const struct stoker_gpt_dataset *gpt, uint64_t index, struct parts *out,
                                 stoker_error *err)
{
    const stoker_index_array *shuffle = &gpt->arrays[STK_GPT_SHUFFLE].array;
    const stoker_index_array *sample = &gpt->arrays[STK_GPT_SAMPLE].array;
    STK_ASSERT(index < shuffle->rows);
    uint64_t row = shuffle->dtype == STOKER_INDEX_INT64 ? ((const uint64_t *)shuffle->data)[index]
                                                        : ((const uint32_t *)shuffle->data)[index];
    if (row >= shuffle->rows)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shuffle_index row %" PRIu64 " is %" PRId64 ", expected 0 to %" PRIu64,
                        index, (int64_t)row, shuffle->rows - 1);
    *out = (struct parts){.gpt = gpt, .sample = row, .room = gpt->request.sequence_length + gpt->request.extra_token};
    read_row(sample, row, &out->first, &out->offset);
    read_row(sample, row + 1, &out->last, &out->end);
    uint64_t documents = gpt->arrays[STK_GPT_DOCUMENT].array.rows;
    if (out->first > out->last || out->last >= documents || out->offset > INT32_MAX || out->end > INT32_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "sample_index rows %" PRIu64 " and %" PRIu64 " are (%" PRId64 ", %" PRId64 ") and (%" PRId64
                        ", %" PRId64 "), expected ascending positions below %" PRIu64 " and offsets from 0",
                        row, row + 1, (int64_t)out->first, (int64_t)out->offset, (int64_t)out->last, (int64_t)out->end,
                        documents);
    out->at = out->first;
    return STOKER_OK;
}

/* STOKER_END after the last part. */
static stoker_status next_part(struct parts *parts, struct part *out, stoker_error *err)
{
    const struct stoker_gpt_dataset *gpt = parts->gpt;
    if (parts->at > parts->last) return STOKER_END;
    int32_t number = ((const int32_t *)gpt->arrays[STK_GPT_DOCUMENT].array.data)[parts->at];
    if (number < 0 || (uint64_t)number >= gpt->request.file_sequences)
        return stk_fail(err, STOKER_ERR_CORRUPT, "document_index row %" PRIu64 " is %d, expected 0 to %" PRIu64,
                        parts->at, number, gpt->request.file_sequences - 1);
    int32_t length = stk_gpt_length(gpt, (uint64_t)number);
    uint64_t from = parts->at == parts->first ? parts->offset : 0;
    uint64_t to = parts->at == parts->last ? parts->end + gpt->request.extra_token : (uint64_t)length;
    if (length < 0 || from > to || to > (uint64_t)length || to - from > parts->room)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "sample_index row %" PRIu64 " takes elements %" PRIu64 " to %" PRIu64
                        " of sequence %d, which has %d; it was made for other data or options",
                        parts->sample, from, to, number, length);
    *out = (struct part){(uint64_t)number, from, to - from};
    parts->room -= to - from;
    parts->at++;
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------- text */

/* How elements are reached; made once for each call. */
struct reader {
    const struct stoker_gpt_dataset *gpt;
    const struct stk_item_ops *ops;
    stoker_dataset_facts facts;
    size_t element_bytes;
    bool direct; /* from the mapping, without the dataset's reader */
};

static void begin_reader(const struct stoker_gpt_dataset *gpt, struct reader *out)
{
    *out = (struct reader){.gpt = gpt, .ops = stk_item_best()};
    if (!gpt->dataset) return;
    stoker_dataset_get_facts(gpt->dataset, &out->facts);
    out->element_bytes = stoker_token_dtype_size(out->facts.dtype_code);
    out->direct = out->facts.bin && stk_item_is_integer(out->facts.dtype_code);
}

/* The elements of a part in the mapping; NULL: they are left to the dataset's reader. */
static const uint8_t *bytes_of(const struct reader *reader, const struct part *part)
{
    int64_t offset;
    if (!reader->direct) return NULL;
    memcpy(&offset, (const uint8_t *)reader->facts.offsets + 8 * part->sequence, sizeof offset);
    uint64_t skipped = part->first * reader->element_bytes, size = part->count * reader->element_bytes;
    uint64_t bytes = reader->facts.bin_bytes;
    /* Both products are below 2^34; the reader's own check makes the message of a read past the end. */
    if (offset < 0 || (uint64_t)offset > bytes || skipped + size > bytes - (uint64_t)offset) return NULL;
    return (const uint8_t *)reader->facts.bin + offset + skipped;
}

static stoker_status read_part(const struct reader *reader, const struct part *part, int64_t *out, stoker_error *err)
{
    if (part->count == 0) return STOKER_OK;
    if (reader->gpt->mock) {
        stk_mock_read(reader->gpt->mock, part->sequence, part->first, part->count, out);
        return STOKER_OK;
    }
    const uint8_t *bytes = bytes_of(reader, part);
    if (bytes) {
        reader->ops->widen(reader->facts.dtype_code, bytes, (size_t)part->count, out);
        return STOKER_OK;
    }
    const stoker_dataset_run run = {part->sequence, part->first, part->count};
    return stoker_dataset_read_int64(reader->gpt->dataset, run, out, err);
}

/* Has the beginnings of the next parts fetched while others are copied: each lies elsewhere in the file, and the
 * fetches would wait for one another. Only a hint; next_part() judges the same values. */
static void fetch_ahead(const struct reader *reader, const struct parts *parts)
{
    const struct stoker_gpt_dataset *gpt = reader->gpt;
    const int32_t *documents = gpt->arrays[STK_GPT_DOCUMENT].array.data;
    const uint8_t *offsets = reader->facts.offsets, *bin = reader->facts.bin;
    uint64_t end = parts->last - parts->at < PARTS_AHEAD ? parts->last + 1 : parts->at + PARTS_AHEAD;
    if (!reader->direct) return;
    for (uint64_t i = parts->at; i < end; i++) {
        uint64_t number = (uint64_t)(int64_t)documents[i];
        if (number >= gpt->request.file_sequences) return;
        __builtin_prefetch(offsets + 8 * number);
        __builtin_prefetch((const uint8_t *)gpt->request.lengths + 4 * number);
    }
    for (uint64_t i = parts->at; i < end; i++) {
        uint64_t offset, skipped = i == parts->first ? parts->offset * reader->element_bytes : 0;
        memcpy(&offset, offsets + 8 * (uint64_t)documents[i], sizeof offset);
        if (offset > reader->facts.bin_bytes || skipped > reader->facts.bin_bytes - offset) continue;
        for (uint32_t line = 0; line < LINES_AHEAD; line++) /* past the end of the mapping it fetches nothing */
            __builtin_prefetch(bin + offset + skipped + line * 64);
    }
}

static stoker_status check_index(const struct stoker_gpt_dataset *gpt, uint64_t index, stoker_error *err)
{
    uint64_t count = gpt->arrays[STK_GPT_SHUFFLE].array.rows;
    if (index < count) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %" PRIu64 " is asked for, the %s split has %" PRIu64,
                    index, gpt->split, count);
}

stoker_status stoker_gpt_dataset_text(stoker_gpt_dataset *gpt, uint64_t index, stoker_gpt_text *out_text,
                                      stoker_error *err)
{
    struct parts parts;
    struct part part = {0};
    struct reader reader;
    if (!gpt || !out_text || !out_text->text)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "gpt and room for the text must be given");
    STK_TRY(stoker_gpt_dataset_prepare(gpt, err));
    STK_TRY(check_index(gpt, index, err));
    STK_TRY(begin_parts(gpt, index, &parts, err));
    begin_reader(gpt, &reader);
    uint64_t used = 0, count = 0;
    for (;;) {
        stoker_status status = next_part(&parts, &part, err);
        if (status == STOKER_END) break;
        STK_TRY(status);
        STK_TRY(read_part(&reader, &part, out_text->text + used, err));
        if (count < out_text->part_max) {
            if (out_text->documents) out_text->documents[count] = (int64_t)part.sequence;
            if (out_text->lengths) out_text->lengths[count] = (int64_t)part.count;
        }
        used += part.count;
        count++;
    }
    out_text->count = used;
    out_text->parts = count;
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------ items */

/* An item under way. The text is tokens[0 .. S) and, with an extra token, `last`. */
struct item {
    const struct reader *reader;
    const stoker_gpt_form *form;
    stoker_gpt_item out;
    uint64_t length; /* S */
    uint32_t extra;
    uint64_t used; /* elements of the text, before padding */
    int64_t last;
    bool has_pad;    /* one of tokens is form->pad */
    uint64_t bounds; /* entries of cu_seqlens in use */
};

static stoker_status add_bound(struct item *item, uint64_t sample, uint64_t size, stoker_error *err)
{
    if (item->bounds > item->length)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "sample_index row %" PRIu64 " touches more than %" PRIu64
                        " documents, as many as cu_seqlens has room for",
                        sample, item->length);
    item->out.cu_seqlens[item->bounds] = item->out.cu_seqlens[item->bounds - 1] + (int32_t)size;
    item->bounds++;
    return STOKER_OK;
}

/* Rest of cu_seqlens once all parts but the last are in: the last one loses the extra token, and vanishes if that was
 * all it had; what is missing to S counts to the last that remains. */
static stoker_status end_bounds(struct item *item, uint64_t sample, uint64_t last, bool has_last, stoker_error *err)
{
    int32_t *bounds = item->out.cu_seqlens;
    if (has_last && !(item->extra && last <= 1)) STK_TRY(add_bound(item, sample, last - item->extra, err));
    if (item->bounds == 1) STK_TRY(add_bound(item, sample, 0, err));
    int32_t end = (int32_t)item->length, longest = 0;
    if (bounds[item->bounds - 1] < end) bounds[item->bounds - 1] = end;
    for (uint64_t i = 1; i < item->bounds; i++)
        if (bounds[i] - bounds[i - 1] > longest) longest = bounds[i] - bounds[i - 1];
    for (uint64_t i = item->bounds; i <= item->length; i++) bounds[i] = end;
    if (item->out.max_seqlen) *item->out.max_seqlen = longest;
    return STOKER_OK;
}

/* A pad id of -1 is only looked for where a value could be negative. */
static bool may_hold(const struct reader *reader, int64_t value)
{
    if (reader->gpt->mock) return true;
    switch (reader->facts.dtype_code) {
    case STOKER_TOKEN_UINT8: return value >= 0 && value <= UINT8_MAX;
    case STOKER_TOKEN_UINT16: return value >= 0 && value <= UINT16_MAX;
    default: return true;
    }
}

/* Tokens from the element at `used` on, and the labels that they are, one place before. The elements are read twice
 * where they are small, in the mapping: that is less to move than the tokens. */
static stoker_status add_tokens(struct item *item, const struct part *part, stoker_error *err)
{
    const struct reader *reader = item->reader;
    const int64_t pad = item->form->pad;
    const size_t count = (size_t)part->count, first = item->used == 0; /* no label is the first element of a sample */
    int64_t *tokens = item->out.tokens + item->used;
    int64_t *labels = item->out.labels && count > first ? item->out.labels + item->used + first - 1 : NULL;
    const uint8_t *bytes = count > 0 ? bytes_of(reader, part) : NULL;
    if (bytes) {
        const int code = reader->facts.dtype_code;
        reader->ops->widen(code, bytes, count, tokens);
        if (labels) reader->ops->widen(code, bytes + first * reader->element_bytes, count - first, labels);
        if (!item->has_pad && may_hold(reader, pad)) item->has_pad = reader->ops->holds(code, bytes, count, pad);
        return STOKER_OK;
    }
    STK_TRY(read_part(reader, part, tokens, err));
    if (labels) memcpy(labels, tokens + first, (count - first) * sizeof *labels);
    if (!item->has_pad && may_hold(reader, pad)) item->has_pad = reader->ops->find(tokens, count, pad);
    return STOKER_OK;
}

static stoker_status add_part(struct item *item, const struct part *part, stoker_error *err)
{
    uint64_t inside = part->count;
    struct part head = *part;
    if (item->used + inside > item->length) { /* by one: next_part() bounds the sum by S + X */
        inside--;
        const struct part tail = {part->sequence, part->first + inside, 1};
        STK_TRY(read_part(item->reader, &tail, &item->last, err));
    }
    head.count = inside;
    STK_TRY(add_tokens(item, &head, err));
    item->used += part->count;
    return STOKER_OK;
}

static void add_padding(struct item *item)
{
    for (uint64_t i = item->used; i < item->length; i++) {
        item->out.tokens[i] = item->form->pad;
        if (item->out.labels && i > 0) item->out.labels[i - 1] = item->form->pad;
        item->has_pad = true;
    }
    if (item->used < item->length + item->extra) item->last = item->form->pad;
}

static stoker_status gather(struct item *item, struct parts *parts, stoker_error *err)
{
    struct part part = {0};
    uint64_t waiting = 0;
    bool has_waiting = false;
    item->bounds = 1;
    if (item->form->documents) item->out.cu_seqlens[0] = 0;
    for (;;) {
        stoker_status status = next_part(parts, &part, err);
        if (status == STOKER_END) break;
        STK_TRY(status);
        STK_TRY(add_part(item, &part, err));
        if (!item->form->documents) continue;
        if (has_waiting) STK_TRY(add_bound(item, parts->sample, waiting, err));
        waiting = part.count;
        has_waiting = true;
    }
    if (item->form->documents) STK_TRY(end_bounds(item, parts->sample, waiting, has_waiting, err));
    add_padding(item);
    return STOKER_OK;
}

/* Positions and attention from the eod tokens, in one walk; row r of the mask sees columns start .. r. */
static void mask_documents(const struct item *item)
{
    const uint64_t length = item->length;
    uint64_t start = 0, position = 0;
    for (uint64_t i = 0; i < length; i++) {
        if (item->out.position_ids) item->out.position_ids[i] = (int64_t)(i - position);
        if (item->out.attention_mask) {
            uint8_t *row = item->out.attention_mask + i * length;
            memset(row, 1, (size_t)start);
            memset(row + start, 0, (size_t)(i + 1 - start));
            memset(row + i + 1, 1, (size_t)(length - i - 1));
        }
        if (item->out.tokens[i] != item->form->eod) continue;
        if (item->form->reset_attention_mask) start = i + 1;
        if (item->form->reset_position_ids) position = i + 1;
    }
}

static void mask(const struct item *item)
{
    const struct stk_item_ops *ops = item->reader->ops;
    const size_t length = (size_t)item->length;
    if (item->out.loss_mask) ops->fill(item->out.loss_mask, length, 1.0f);
    if (item->out.loss_mask && item->form->eod_mask_loss)
        ops->unmask(item->out.tokens, length, item->form->eod, item->out.loss_mask);
    if (item->form->documents) {
        for (uint64_t i = 1; item->out.position_ids && i < item->bounds; i++)
            ops->ramp(item->out.position_ids + item->out.cu_seqlens[i - 1],
                      (size_t)(item->out.cu_seqlens[i] - item->out.cu_seqlens[i - 1]));
    } else if (item->out.attention_mask || item->form->reset_position_ids) {
        mask_documents(item);
    } else if (item->out.position_ids) {
        ops->ramp(item->out.position_ids, length);
    }
}

/* The last label, masks from the text as it is, then the pad ids out of all of them. */
static void finish(const struct item *item)
{
    const struct stk_item_ops *ops = item->reader->ops;
    const size_t length = (size_t)item->length;
    const int64_t pad = item->form->pad, last = item->extra ? item->last : pad;
    mask(item);
    if (item->out.labels) item->out.labels[length - 1] = last == pad ? 0 : last;
    if (item->out.loss_mask && last == pad) item->out.loss_mask[length - 1] = 0.0f;
    if (!item->has_pad) return;
    if (item->out.loss_mask) ops->unmask(item->out.tokens + 1, length - 1, pad, item->out.loss_mask);
    if (item->out.labels) ops->clear(item->out.labels, length - 1, pad);
    ops->clear(item->out.tokens, length, pad);
}

static stoker_status check_form(const stoker_gpt_form *form, const stoker_gpt_item *out, stoker_error *err)
{
    if (!form || form->struct_size != sizeof *form)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the form has %u bytes, this library knows %zu",
                        form ? form->struct_size : 0, sizeof *form);
    if (form->documents && (form->attention_mask || out->attention_mask))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "an attention mask and cu_seqlens exclude each other");
    if (!out->tokens || (form->documents && !out->cu_seqlens))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "room for %s must be given",
                        out->tokens ? "cu_seqlens" : "tokens");
    return STOKER_OK;
}

static stoker_status make(const struct reader *reader, const stoker_gpt_form *form, int64_t index,
                          const stoker_gpt_item *out, stoker_error *err)
{
    const struct stoker_gpt_dataset *gpt = reader->gpt;
    int64_t count = (int64_t)gpt->arrays[STK_GPT_SHUFFLE].array.rows;
    int64_t place = index == INT64_MIN ? 0 : index < 0 ? index + count : index;
    if (place < 0 || place >= count)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %" PRId64 " is asked for, the %s split has %" PRId64,
                        index == INT64_MIN ? 0 : index, gpt->split, count);
    struct parts parts;
    struct item item = {.reader = reader,
                        .form = form,
                        .out = *out,
                        .length = gpt->request.sequence_length,
                        .extra = gpt->request.extra_token};
    STK_TRY(begin_parts(gpt, (uint64_t)place, &parts, err));
    STK_TRY(gather(&item, &parts, err));
    finish(&item);
    if (index == INT64_MIN && out->loss_mask) memset(out->loss_mask, 0, (size_t)item.length * sizeof *out->loss_mask);
    return STOKER_OK;
}

/* While another item is made. Faults wait until this one is. */
static void look_ahead(const struct reader *reader, int64_t index)
{
    int64_t count = (int64_t)reader->gpt->arrays[STK_GPT_SHUFFLE].array.rows;
    int64_t place = index == INT64_MIN ? 0 : index < 0 ? index + count : index;
    struct parts parts;
    if (place < 0 || place >= count) return;
    if (begin_parts(reader->gpt, (uint64_t)place, &parts, NULL) == STOKER_OK) fetch_ahead(reader, &parts);
}

stoker_status stoker_gpt_dataset_item(stoker_gpt_dataset *gpt, const stoker_gpt_form *form, int64_t index,
                                      const stoker_gpt_item *out_item, stoker_error *err)
{
    struct reader reader;
    if (!gpt || !out_item) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "gpt and out_item must be given");
    STK_TRY(check_form(form, out_item, err));
    STK_TRY(stoker_gpt_dataset_prepare(gpt, err));
    begin_reader(gpt, &reader);
    look_ahead(&reader, index);
    return make(&reader, form, index, out_item, err);
}

static stoker_gpt_item place_of(const stoker_gpt_item *first, uint64_t i, uint64_t length)
{
    stoker_gpt_item out = *first;
    if (out.tokens) out.tokens += i * length;
    if (out.labels) out.labels += i * length;
    if (out.loss_mask) out.loss_mask += i * length;
    if (out.position_ids) out.position_ids += i * length;
    if (out.attention_mask) out.attention_mask += i * length * length;
    if (out.cu_seqlens) out.cu_seqlens += i * (length + 1);
    if (out.max_seqlen) out.max_seqlen += i;
    return out;
}

stoker_status stoker_gpt_dataset_batch(stoker_gpt_dataset *gpt, const stoker_gpt_form *form, const int64_t *indices,
                                       uint64_t count, const stoker_gpt_item *out_first, stoker_error *err)
{
    struct reader reader;
    if (!gpt || !out_first || (count > 0 && !indices))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "gpt, indices and out_first must be given");
    STK_TRY(check_form(form, out_first, err));
    STK_TRY(stoker_gpt_dataset_prepare(gpt, err));
    begin_reader(gpt, &reader);
    for (uint64_t i = 0; i < count; i++) {
        stoker_gpt_item out = place_of(out_first, i, gpt->request.sequence_length);
        if (i + 1 < count) look_ahead(&reader, indices[i + 1]);
        stoker_status status = make(&reader, form, indices[i], &out, err);
        if (status < 0) {
            stk_error_context(err, "sample %" PRId64, indices[i]);
            return status;
        }
    }
    return STOKER_OK;
}
