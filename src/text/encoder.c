/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of JSON lines to tokens: see stoker/text.h. Per key, three lists say what the block holds: references to
 * pieces, where the texts end among them, and where the documents end among the texts. They are filled when the block
 * is fed, and read when every piece is known.
 */
#include <stoker/text.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "text/cut.h"
#include "text/jsonl.h"
#include "text/list.h"
#include "text/pieces.h"

/* Longer ones hardly come back. */
enum { KEPT_PIECE_BYTES_MAX = 64 };
enum { CACHE_BYTES_DEFAULT = 128 << 20 };

struct column {
    struct stk_list references;    /* uint32_t */
    struct stk_list text_ends;     /* size_t: references up to the end of each text */
    struct stk_list document_ends; /* size_t: texts up to the end of each document */
};

struct stoker_text_encoder {
    stoker_text_rule rule;
    bool wide;
    int64_t id_limit, eod;
    int32_t *prefix, *suffix;
    size_t prefix_count, suffix_count;
    size_t key_count;
    struct stk_jsonl *parser;
    struct stk_cutter cutter;
    struct stk_pieces pieces;
    struct column *columns;
    struct stk_list numbers;                    /* int32_t: ids of a text under BYTES and NUMBERS */
    struct stk_list tokens, lengths, documents; /* of the key that was taken last */
};

/* ----------------------------------------------------------------------------------------------------------- making */

static stoker_status check_options(const stoker_text_options *options, int64_t id_limit, int64_t type_limit,
                                   stoker_error *err)
{
    if ((unsigned)options->rule > STOKER_TEXT_NUMBERS)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rule %d is not known", (int)options->rule);
    if (options->key_count == 0 || options->key_count > STK_JSON_KEYS_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%zu keys; 1 to %u are possible", options->key_count,
                        STK_JSON_KEYS_MAX);
    for (size_t i = 0; i < options->key_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(options->keys[i], options->keys[j]) == 0)
                return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "key '%s' is given twice", options->keys[i]);
    if (id_limit < 0 || id_limit > type_limit)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "id limit %lld; the element type holds ids below %lld",
                        (long long)id_limit, (long long)type_limit);
    if (options->eod < -1 || options->eod >= id_limit)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "end-of-document id %lld is not below %lld",
                        (long long)options->eod, (long long)id_limit);
    return STOKER_OK;
}

static int32_t *copy_ids(const int32_t *ids, size_t count)
{
    int32_t *copy = calloc(count + 1, sizeof *copy);
    if (copy && count > 0) memcpy(copy, ids, count * sizeof *ids);
    return copy;
}

static bool ids_fit(const struct stoker_text_encoder *encoder, const int32_t *ids, size_t count, size_t *out_bad)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= 0 && ids[i] < encoder->id_limit) continue;
        *out_bad = i;
        return false;
    }
    return true;
}

stoker_status stoker_text_encoder_create(const stoker_text_options *options, stoker_text_encoder **out_encoder,
                                         stoker_error *err)
{
    if (!options || options->struct_size != sizeof *options)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "options of an encoder have another size");
    int64_t type_limit = options->wide ? INT64_C(1) << 31 : 1 << 16;
    int64_t id_limit = options->id_limit ? options->id_limit : type_limit;
    STK_TRY(check_options(options, id_limit, type_limit, err));
    struct stoker_text_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an encoder");
    encoder->rule = options->rule;
    encoder->wide = options->wide != 0;
    encoder->id_limit = id_limit;
    encoder->eod = options->eod;
    encoder->key_count = options->key_count;
    encoder->prefix = copy_ids(options->prefix, options->prefix_count);
    encoder->suffix = copy_ids(options->suffix, options->suffix_count);
    encoder->prefix_count = options->prefix_count;
    encoder->suffix_count = options->suffix_count;
    encoder->columns = calloc(options->key_count, sizeof *encoder->columns);
    encoder->cutter.rule = options->rule == STOKER_TEXT_WORDS ? STK_CUT_WORDS : STK_CUT_SPACES;
    for (size_t i = 0; i < options->guard_count; i++) encoder->cutter.guard[(unsigned char)options->guard[i]] = true;
    stoker_status status = STOKER_ERR_NO_MEMORY;
    size_t bad;
    if (!encoder->prefix || !encoder->suffix || !encoder->columns)
        (void)stk_fail(err, status, "no memory for an encoder");
    else if (!ids_fit(encoder, encoder->prefix, encoder->prefix_count, &bad) ||
             !ids_fit(encoder, encoder->suffix, encoder->suffix_count, &bad))
        status = stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "an id that is put around texts is not below %lld",
                          (long long)id_limit);
    else if ((status = stk_jsonl_create(options->keys, options->key_count, &encoder->parser, err)) == STOKER_OK)
        status =
            stk_pieces_init(&encoder->pieces, options->cache_bytes ? options->cache_bytes : CACHE_BYTES_DEFAULT, err);
    if (status < 0) {
        stoker_text_encoder_destroy(encoder);
        return status;
    }
    *out_encoder = encoder;
    return STOKER_OK;
}

void stoker_text_encoder_destroy(stoker_text_encoder *encoder)
{
    if (!encoder) return;
    for (size_t i = 0; encoder->columns && i < encoder->key_count; i++) {
        stk_list_fini(&encoder->columns[i].references);
        stk_list_fini(&encoder->columns[i].text_ends);
        stk_list_fini(&encoder->columns[i].document_ends);
    }
    free(encoder->columns);
    free(encoder->prefix);
    free(encoder->suffix);
    stk_jsonl_destroy(encoder->parser);
    stk_pieces_fini(&encoder->pieces);
    stk_list_fini(&encoder->numbers);
    stk_list_fini(&encoder->tokens);
    stk_list_fini(&encoder->lengths);
    stk_list_fini(&encoder->documents);
    free(encoder);
}

/* ---------------------------------------------------------------------------------------------------------- feeding */

static stoker_status no_memory(stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the tokens of a block");
}

static stoker_status append_size(struct stk_list *list, size_t value, stoker_error *err)
{
    size_t *room = stk_list_room(list, 1, sizeof *room);
    if (!room) return no_memory(err);
    *room = value;
    list->count++;
    return STOKER_OK;
}

static stoker_status add_piece(struct stoker_text_encoder *encoder, struct column *column, const char *text,
                               size_t size, bool keep, stoker_error *err)
{
    uint32_t *room = stk_list_room(&column->references, 1, sizeof *room);
    if (!room) return no_memory(err);
    STK_TRY(stk_pieces_find(&encoder->pieces, text, size, keep, room, err));
    column->references.count++;
    return STOKER_OK;
}

/* The ids of a text without a tokenizer, in encoder->numbers; a static cause if it has none. */
static const char *numbers_of(struct stoker_text_encoder *encoder, const struct stk_jsonl_text *text,
                              stoker_status *out_status, stoker_error *err)
{
    int32_t *ids = (encoder->numbers.count = 0, stk_list_room(&encoder->numbers, text->size, sizeof *ids));
    size_t count = 0;
    *out_status = ids ? STOKER_OK : no_memory(err);
    if (!ids) return NULL;
    if (encoder->rule == STOKER_TEXT_BYTES) {
        for (; count < text->size; count++) ids[count] = (unsigned char)text->bytes[count];
        encoder->numbers.count = count;
        return NULL;
    }
    for (size_t at = 0; at < text->size;) {
        if (text->bytes[at] == ' ') {
            at++;
            continue;
        }
        int64_t value = 0;
        for (; at < text->size && text->bytes[at] != ' '; at++) {
            char c = text->bytes[at];
            if (c < '0' || c > '9') return "a text that is not made of decimal numbers and single spaces";
            value = value * 10 + (c - '0');
            if (value >= encoder->id_limit) return "a number that is not below the vocabulary size";
        }
        ids[count++] = (int32_t)value;
    }
    encoder->numbers.count = count;
    return NULL;
}

static stoker_status add_text(struct stoker_text_encoder *encoder, struct column *column,
                              const struct stk_jsonl_text *text, const char **out_cause, stoker_error *err)
{
    if (encoder->rule == STOKER_TEXT_BYTES || encoder->rule == STOKER_TEXT_NUMBERS) {
        stoker_status status;
        if ((*out_cause = numbers_of(encoder, text, &status, err)) || status < 0) return status;
        STK_TRY(add_piece(encoder, column, text->bytes, 0, false, err));
        STK_TRY(stk_pieces_learn(&encoder->pieces,
                                 stk_pieces_unknown(&encoder->pieces, encoder->pieces.unknown.count - 1),
                                 encoder->numbers.data, encoder->numbers.count, err));
    } else if (encoder->rule == STOKER_TEXT_WHOLE) {
        STK_TRY(add_piece(encoder, column, text->bytes, text->size, false, err));
    } else {
        const char *piece;
        size_t size;
        stk_cutter_begin(&encoder->cutter, text->bytes, text->size);
        while (stk_cutter_next(&encoder->cutter, &piece, &size))
            STK_TRY(add_piece(encoder, column, piece, size, size <= KEPT_PIECE_BYTES_MAX, err));
    }
    return append_size(&column->text_ends, column->references.count, err);
}

/* Adds the documents of the line that was parsed; all of its keys, or none with a cause. */
static stoker_status add_line(struct stoker_text_encoder *encoder, const char **out_cause, size_t *out_key,
                              stoker_error *err)
{
    *out_cause = NULL;
    for (size_t key = 0; key < encoder->key_count && !*out_cause; key++) {
        struct column *column = &encoder->columns[key];
        size_t count;
        const struct stk_jsonl_text *texts = stk_jsonl_texts(encoder->parser, key, &count);
        *out_key = key;
        for (size_t i = 0; i < count && !*out_cause; i++) STK_TRY(add_text(encoder, column, &texts[i], out_cause, err));
        if (!*out_cause) STK_TRY(append_size(&column->document_ends, column->text_ends.count, err));
    }
    if (!*out_cause) return STOKER_OK;
    for (size_t key = 0; key <= *out_key; key++) { /* take back */
        struct column *column = &encoder->columns[key];
        const size_t *documents = column->document_ends.data, *texts = column->text_ends.data;
        if (key < *out_key) column->document_ends.count--;
        size_t last = column->document_ends.count;
        column->text_ends.count = last ? documents[last - 1] : 0;
        column->references.count = column->text_ends.count ? texts[column->text_ends.count - 1] : 0;
    }
    return STOKER_OK;
}

static void note_fault(stoker_text_facts *facts, size_t begin, size_t offset, const char *cause, int64_t key)
{
    if (facts->fault_count < STOKER_TEXT_FAULTS_MAX)
        facts->faults[facts->fault_count] = (stoker_text_fault){facts->lines, begin, offset, cause, key};
    facts->fault_count++;
}

stoker_status stoker_text_encoder_feed(stoker_text_encoder *encoder, const char *block, size_t size,
                                       stoker_text_facts *out_facts, stoker_error *err)
{
    stoker_text_facts facts;
    memset(&facts, 0, sizeof facts);
    stk_pieces_begin(&encoder->pieces);
    for (size_t i = 0; i < encoder->key_count; i++)
        encoder->columns[i].references.count = encoder->columns[i].text_ends.count =
            encoder->columns[i].document_ends.count = 0;
    for (size_t at = 0; at < size; facts.lines++) {
        const char *newline = memchr(block + at, '\n', size - at);
        size_t line_size = newline ? (size_t)(newline - block) - at : size - at;
        if (line_size > STK_JSON_LINE_BYTES_MAX)
            return stk_fail(err, STOKER_ERR_LIMIT, "line %llu of the block has %zu bytes; at most %u are possible",
                            (unsigned long long)facts.lines, line_size, STK_JSON_LINE_BYTES_MAX);
        struct stk_jsonl_fault fault;
        stoker_status status = stk_jsonl_parse(encoder->parser, block + at, line_size, &fault, err);
        if (status == STOKER_ERR_CORRUPT) {
            note_fault(&facts, at, at + fault.offset, fault.cause,
                       fault.key == STK_JSONL_NO_KEY ? -1 : (int64_t)fault.key);
        } else {
            const char *cause;
            size_t key = 0;
            STK_TRY(status);
            STK_TRY(add_line(encoder, &cause, &key, err));
            if (cause)
                note_fault(&facts, at, at, cause, (int64_t)key);
            else
                facts.documents++;
        }
        at += line_size + 1;
    }
    bool asks = encoder->rule != STOKER_TEXT_BYTES && encoder->rule != STOKER_TEXT_NUMBERS;
    facts.unknown = asks ? encoder->pieces.unknown.count : 0;
    *out_facts = facts;
    return STOKER_OK;
}

const char *stoker_text_encoder_unknown(const stoker_text_encoder *encoder, size_t index, size_t *out_size)
{
    if (index >= encoder->pieces.unknown.count) return NULL;
    return stk_pieces_text(&encoder->pieces, stk_pieces_unknown(&encoder->pieces, index), out_size);
}

stoker_status stoker_text_encoder_learn(stoker_text_encoder *encoder, size_t index, const int32_t *ids, size_t count,
                                        stoker_error *err)
{
    size_t bad;
    if (index >= encoder->pieces.unknown.count)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "piece %zu of %zu unknown ones", index,
                        encoder->pieces.unknown.count);
    if (!ids_fit(encoder, ids, count, &bad))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the tokenizer gave id %d; ids must be below %lld",
                        (int)ids[bad], (long long)encoder->id_limit);
    return stk_pieces_learn(&encoder->pieces, stk_pieces_unknown(&encoder->pieces, index), ids, count, err);
}

/* ----------------------------------------------------------------------------------------------------------- taking */

static stoker_status append_ids(struct stoker_text_encoder *encoder, const int32_t *ids, size_t count,
                                stoker_error *err)
{
    if (encoder->wide) {
        int32_t *room = stk_list_room(&encoder->tokens, count, sizeof *room);
        if (!room) return no_memory(err);
        for (size_t i = 0; i < count; i++) room[i] = ids[i];
    } else {
        uint16_t *room = stk_list_room(&encoder->tokens, count, sizeof *room);
        if (!room) return no_memory(err);
        for (size_t i = 0; i < count; i++) room[i] = (uint16_t)ids[i];
    }
    encoder->tokens.count += count;
    return STOKER_OK;
}

static stoker_status append_length(struct stoker_text_encoder *encoder, size_t length, stoker_error *err)
{
    if (length > INT32_MAX) return stk_fail(err, STOKER_ERR_LIMIT, "a sequence of %zu tokens", length);
    int32_t *room = stk_list_room(&encoder->lengths, 1, sizeof *room);
    if (!room) return no_memory(err);
    *room = (int32_t)length;
    encoder->lengths.count++;
    return STOKER_OK;
}

static stoker_status take_text(struct stoker_text_encoder *encoder, const uint32_t *references, size_t count,
                               stoker_error *err)
{
    size_t before = encoder->tokens.count;
    if (encoder->prefix_count) STK_TRY(append_ids(encoder, encoder->prefix, encoder->prefix_count, err));
    for (size_t i = 0; i < count; i++) {
        size_t id_count;
        const int32_t *ids = stk_pieces_ids(&encoder->pieces, references[i], &id_count);
        if (!ids) return stk_fail(err, STOKER_ERR_WRONG_STATE, "a piece of the block was not learned");
        STK_TRY(append_ids(encoder, ids, id_count, err));
    }
    if (encoder->suffix_count) STK_TRY(append_ids(encoder, encoder->suffix, encoder->suffix_count, err));
    size_t length = encoder->tokens.count - before;
    return length > 0 ? append_length(encoder, length, err) : STOKER_OK;
}

static stoker_status take_document(struct stoker_text_encoder *encoder, const struct column *column, size_t first_text,
                                   size_t end_text, stoker_error *err)
{
    const size_t *text_ends = column->text_ends.data;
    size_t before = encoder->lengths.count;
    for (size_t i = first_text; i < end_text; i++) {
        size_t begin = i ? text_ends[i - 1] : 0;
        STK_TRY(take_text(encoder, (const uint32_t *)column->references.data + begin, text_ends[i] - begin, err));
    }
    if (encoder->eod >= 0 && encoder->lengths.count > before) {
        int32_t eod = (int32_t)encoder->eod;
        int32_t *last = (int32_t *)encoder->lengths.data + encoder->lengths.count - 1;
        if (*last == INT32_MAX) return stk_fail(err, STOKER_ERR_LIMIT, "a sequence of %zu tokens", (size_t)*last + 1);
        STK_TRY(append_ids(encoder, &eod, 1, err));
        ++*last;
    }
    int64_t *room = stk_list_room(&encoder->documents, 1, sizeof *room);
    if (!room) return no_memory(err);
    *room = (int64_t)encoder->lengths.count;
    encoder->documents.count++;
    return STOKER_OK;
}

stoker_status stoker_text_encoder_take(stoker_text_encoder *encoder, size_t key, stoker_text_tokens *out_tokens,
                                       stoker_error *err)
{
    if (key >= encoder->key_count)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "key %zu of %zu", key, encoder->key_count);
    const struct column *column = &encoder->columns[key];
    const size_t *document_ends = column->document_ends.data;
    encoder->tokens.count = encoder->lengths.count = encoder->documents.count = 0;
    for (size_t i = 0; i < column->document_ends.count; i++)
        STK_TRY(take_document(encoder, column, i ? document_ends[i - 1] : 0, document_ends[i], err));
    *out_tokens = (stoker_text_tokens){encoder->tokens.data,   encoder->tokens.count,   encoder->lengths.data,
                                       encoder->lengths.count, encoder->documents.data, encoder->documents.count};
    return STOKER_OK;
}

void stoker_text_encoder_get_counters(const stoker_text_encoder *encoder, stoker_text_counters *out_counters)
{
    *out_counters = (stoker_text_counters){encoder->pieces.lookups, encoder->pieces.misses, encoder->pieces.resets};
}
