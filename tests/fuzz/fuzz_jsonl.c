/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for lines of JSON. What is accepted is UTF-8 and is cut into pieces that are the text; written again with
 * every character escaped, it gives the same texts.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "text/cut.h"
#include "text/jsonl.h"
#include "text/utf8.h"

static const char *const keys[] = {"text"};

static void check_text(const struct stk_jsonl_text *text)
{
    for (size_t at = 0; at < text->size;) {
        size_t length = stk_utf8_length(text->bytes + at, text->size - at);
        STK_FUZZ_CHECK(length > 0);
        at += length;
    }
    for (int rule = STK_CUT_SPACES; rule <= STK_CUT_WORDS; rule++) {
        struct stk_cutter cutter = {.rule = (enum stk_cut_rule)rule, .guard = {['<'] = true}};
        const char *piece, *expected = text->bytes;
        size_t size;
        stk_cutter_begin(&cutter, text->bytes, text->size);
        while (stk_cutter_next(&cutter, &piece, &size)) {
            STK_FUZZ_CHECK(piece == expected && size > 0);
            expected = piece + size;
        }
        STK_FUZZ_CHECK(expected == text->bytes + text->size);
    }
}

static size_t escape(uint32_t character, char *out)
{
    if (character < 0x10000) return (size_t)snprintf(out, 13, "\\u%04x", (unsigned)character);
    character -= 0x10000;
    return (size_t)snprintf(out, 13, "\\u%04X\\u%04X", (unsigned)(0xd800 + (character >> 10)),
                            (unsigned)(0xdc00 + (character & 0x3ff)));
}

/* The texts as a line in which every character is escaped. */
static char *written(const struct stk_jsonl_text *texts, size_t count, size_t *out_size)
{
    size_t room = 32, used;
    for (size_t i = 0; i < count; i++) room += 12 * texts[i].size + 4;
    char *line = malloc(room);
    STK_FUZZ_CHECK(line);
    used = (size_t)snprintf(line, room, "{\"text\":[");
    for (size_t i = 0; i < count; i++) {
        if (i) line[used++] = ',';
        line[used++] = '"';
        for (size_t at = 0; at < texts[i].size; at += stk_utf8_length(texts[i].bytes + at, texts[i].size - at))
            used += escape(stk_utf8_decode(texts[i].bytes + at), line + used);
        line[used++] = '"';
    }
    memcpy(line + used, "]}", 2);
    *out_size = used + 2;
    return line;
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    struct stk_jsonl *parser = NULL, *again = NULL;
    struct stk_jsonl_fault fault = {0, NULL, 0};
    STK_FUZZ_CHECK(stk_jsonl_create(keys, 1, &parser, NULL) == STOKER_OK);
    STK_FUZZ_CHECK(stk_jsonl_create(keys, 1, &again, NULL) == STOKER_OK);
    stoker_status status = stk_jsonl_parse(parser, (const char *)data, size, &fault, NULL);
    if (status == STOKER_OK) {
        size_t count, count_again, line_size;
        const struct stk_jsonl_text *texts = stk_jsonl_texts(parser, 0, &count);
        for (size_t i = 0; i < count; i++) check_text(&texts[i]);
        char *line = written(texts, count, &line_size);
        STK_FUZZ_CHECK(stk_jsonl_parse(again, line, line_size, &fault, NULL) == STOKER_OK);
        const struct stk_jsonl_text *copies = stk_jsonl_texts(again, 0, &count_again);
        STK_FUZZ_CHECK(count_again == count);
        for (size_t i = 0; i < count; i++)
            STK_FUZZ_CHECK(copies[i].size == texts[i].size &&
                           memcmp(copies[i].bytes, texts[i].bytes, texts[i].size) == 0);
        free(line);
    } else {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT && fault.cause && fault.offset <= size);
    }
    stk_jsonl_destroy(parser);
    stk_jsonl_destroy(again);
    return status == STOKER_OK;
}
