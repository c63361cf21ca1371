/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON lines: see jsonl.h. What json.loads() takes beyond the standard is taken too (NaN, Infinity, lone surrogates
 * where nobody asks for the text); a lone surrogate in a text that is asked for has no UTF-8 and is refused.
 */
#include "text/jsonl.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "text/utf8.h"

struct values {
    struct stk_jsonl_text *texts;
    size_t count, capacity;
    bool found;
};

struct key {
    char *name;
    size_t size;
    struct values values;
};

struct stk_jsonl {
    size_t key_count;
    struct key *keys;
    char *scratch; /* decoded texts; never longer than the line that they come from */
    size_t scratch_used, scratch_capacity;
    uint8_t nesting[STK_JSON_DEPTH_MAX / 8]; /* a bit a level: 1 = object */
    /* of the line at hand */
    const char *line;
    size_t size, at;
    struct stk_jsonl_fault fault;
    bool out_of_memory;
};

stoker_status stk_jsonl_create(const char *const *keys, size_t key_count, struct stk_jsonl **out_parser,
                               stoker_error *err)
{
    struct stk_jsonl *parser = calloc(1, sizeof *parser);
    if (!parser) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a parser");
    parser->keys = calloc(key_count ? key_count : 1, sizeof *parser->keys);
    if (!parser->keys) goto no_memory;
    parser->key_count = key_count;
    for (size_t i = 0; i < key_count; i++) {
        parser->keys[i].size = strlen(keys[i]);
        parser->keys[i].name = malloc(parser->keys[i].size + 1);
        if (!parser->keys[i].name) goto no_memory;
        memcpy(parser->keys[i].name, keys[i], parser->keys[i].size + 1);
    }
    *out_parser = parser;
    return STOKER_OK;

no_memory:
    stk_jsonl_destroy(parser);
    return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu keys", key_count);
}

void stk_jsonl_destroy(struct stk_jsonl *parser)
{
    if (!parser) return;
    for (size_t i = 0; i < parser->key_count; i++) {
        free(parser->keys[i].name);
        free(parser->keys[i].values.texts);
    }
    free(parser->keys);
    free(parser->scratch);
    free(parser);
}

const struct stk_jsonl_text *stk_jsonl_texts(const struct stk_jsonl *parser, size_t key, size_t *out_count)
{
    STK_ASSERT(key < parser->key_count);
    *out_count = parser->keys[key].values.count;
    return parser->keys[key].values.texts;
}

static bool fault_at(struct stk_jsonl *parser, size_t offset, const char *cause)
{
    parser->fault = (struct stk_jsonl_fault){offset, cause, STK_JSONL_NO_KEY};
    return false;
}

static bool fault(struct stk_jsonl *parser, const char *cause)
{
    return fault_at(parser, parser->at, parser->at < parser->size ? cause : "the line ends inside its JSON");
}

static int next(const struct stk_jsonl *parser)
{
    return parser->at < parser->size ? (unsigned char)parser->line[parser->at] : -1;
}

static void skip_space(struct stk_jsonl *parser)
{
    while (parser->at < parser->size) {
        char c = parser->line[parser->at];
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return;
        parser->at++;
    }
}

/* ------------------------------------------------------------------------------------------------------------ texts */

/* True if one of the eight bytes ends a plain run: below 0x20, '"', '\\', or not ASCII. A borrow may report the byte
 * after such a one too; the caller looks at single bytes then. */
static bool ends_plain_run(uint64_t eight)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    uint64_t quote = eight ^ (ones * '"'), slash = eight ^ (ones * '\\');
    return (((eight - ones * 0x20) | (quote - ones) | (slash - ones) | eight) & tops) != 0;
}

/* Passes over bytes that stand for themselves, checking their UTF-8. False: fault. */
static bool plain_run(struct stk_jsonl *parser)
{
    const char *line = parser->line;
    size_t at = parser->at, size = parser->size;
    for (;;) {
        uint64_t eight;
        while (size - at >= sizeof eight) {
            memcpy(&eight, line + at, sizeof eight);
            if (ends_plain_run(eight)) break;
            at += sizeof eight;
        }
        if (at == size) break;
        unsigned char c = (unsigned char)line[at];
        if (c == '"' || c == '\\') break;
        size_t length = c < 0x20 ? 0 : c < 0x80 ? 1 : stk_utf8_length(line + at, size - at);
        if (length == 0) {
            parser->at = at;
            return fault_at(parser, at,
                            c < 0x20 ? "a control character inside a text" : "bytes that are no UTF-8 inside a text");
        }
        at += length;
    }
    parser->at = at;
    return at < size || fault(parser, "");
}

/* Four hexadecimal digits at parser->at. */
static bool hex4(struct stk_jsonl *parser, uint32_t *out_value)
{
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        int c = parser->at + i < parser->size ? (unsigned char)parser->line[parser->at + i] : -1;
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (uint32_t)((c | 32) - 'a' + 10);
        else
            return fault(parser, "\\u without four hexadecimal digits");
        value = value << 4 | digit;
    }
    parser->at += 4;
    *out_value = value;
    return true;
}

/* One \uXXXX, or a pair of them, whose backslash and u are passed. `*out_value` may be a lone surrogate. */
static bool unicode_escape(struct stk_jsonl *parser, uint32_t *out_value)
{
    if (!hex4(parser, out_value)) return false;
    if (*out_value < 0xd800 || *out_value > 0xdbff || parser->size - parser->at < 6 ||
        memcmp(parser->line + parser->at, "\\u", 2) != 0)
        return true;
    size_t before = parser->at;
    uint32_t low;
    parser->at += 2;
    if (!hex4(parser, &low)) return false;
    if (low >= 0xdc00 && low <= 0xdfff)
        *out_value = 0x10000 + ((*out_value - 0xd800) << 10) + (low - 0xdc00);
    else
        parser->at = before; /* the second one stands alone */
    return true;
}

/* An escape at parser->at (the backslash); its text goes to the scratch memory if it is wanted. */
static bool escape(struct stk_jsonl *parser, bool wanted)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t begin = parser->at++;
    int c = next(parser);
    const char *found = c > 0 ? memchr(from, c, sizeof from - 1) : NULL;
    if (found) {
        parser->at++;
        if (wanted) parser->scratch[parser->scratch_used++] = to[found - from];
        return true;
    }
    if (c != 'u') return fault(parser, "an unknown escape inside a text");
    parser->at++;
    uint32_t value;
    if (!unicode_escape(parser, &value)) return false;
    if (!wanted) return true;
    if (value >= 0xd800 && value <= 0xdfff) return fault_at(parser, begin, "a lone surrogate inside a text");
    parser->scratch_used += stk_utf8_encode(value, parser->scratch + parser->scratch_used);
    return true;
}

/* A text at parser->at (its quote). With `out_text` its characters are given, else it is only checked. */
static bool text(struct stk_jsonl *parser, struct stk_jsonl_text *out_text)
{
    size_t begin = ++parser->at;
    if (!plain_run(parser)) return false;
    if (parser->line[parser->at] == '"') {
        if (out_text) *out_text = (struct stk_jsonl_text){parser->line + begin, parser->at - begin};
        parser->at++;
        return true;
    }
    size_t start = parser->scratch_used, run = begin;
    for (;;) {
        if (out_text) {
            memcpy(parser->scratch + parser->scratch_used, parser->line + run, parser->at - run);
            parser->scratch_used += parser->at - run;
        }
        if (parser->line[parser->at] == '"') break;
        if (!escape(parser, out_text != NULL)) return false;
        run = parser->at;
        if (!plain_run(parser)) return false;
    }
    if (out_text) *out_text = (struct stk_jsonl_text){parser->scratch + start, parser->scratch_used - start};
    parser->at++;
    return true;
}

/* ----------------------------------------------------------------------------------------------------- other values */

static size_t digits(struct stk_jsonl *parser)
{
    size_t begin = parser->at;
    while (next(parser) >= '0' && next(parser) <= '9') parser->at++;
    return parser->at - begin;
}

static bool number(struct stk_jsonl *parser)
{
    if (next(parser) == '-') parser->at++;
    if (next(parser) == '0')
        parser->at++;
    else if (digits(parser) == 0)
        return fault(parser, "not a JSON value");
    if (next(parser) == '.') {
        parser->at++;
        if (digits(parser) == 0) return fault(parser, "a number without digits after its point");
    }
    if (next(parser) == 'e' || next(parser) == 'E') {
        parser->at++;
        if (next(parser) == '+' || next(parser) == '-') parser->at++;
        if (digits(parser) == 0) return fault(parser, "a number without digits in its exponent");
    }
    return true;
}

static bool word(struct stk_jsonl *parser, const char *expected)
{
    size_t size = strlen(expected);
    if (parser->size - parser->at < size || memcmp(parser->line + parser->at, expected, size) != 0) return false;
    parser->at += size;
    return true;
}

/* A value without parts: text, number or word. */
static bool scalar(struct stk_jsonl *parser)
{
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    if (next(parser) == '"') return text(parser, NULL);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (word(parser, words[i])) return true;
    return number(parser);
}

static bool in_object(const struct stk_jsonl *parser, size_t depth)
{
    return (parser->nesting[depth / 8] >> depth % 8 & 1) != 0;
}

/* "key" : with the space around it. */
static bool member_name(struct stk_jsonl *parser)
{
    skip_space(parser);
    if (next(parser) != '"') return fault(parser, "a member of an object without a quoted name");
    if (!text(parser, NULL)) return false;
    skip_space(parser);
    if (next(parser) != ':') return fault(parser, "a name in an object without ':' after it");
    parser->at++;
    return true;
}

/* Closes what ends at parser->at and moves to the next value, if there is one; *depth 0: the outermost has ended. */
static bool after_value(struct stk_jsonl *parser, size_t *depth)
{
    while (*depth > 0) {
        bool object = in_object(parser, *depth - 1);
        skip_space(parser);
        int c = next(parser);
        if (c == ',') {
            parser->at++;
            return !object || member_name(parser);
        }
        if (c != (object ? '}' : ']')) return fault(parser, "neither ',' nor the end of an object or list");
        parser->at++;
        --*depth;
    }
    return true;
}

/* Passes over any value, however deep, up to a limit that is that of the reference's own parser or more. */
static bool skip_value(struct stk_jsonl *parser)
{
    size_t depth = 0;
    do {
        skip_space(parser);
        int c = next(parser);
        if (c != '{' && c != '[') {
            if (!scalar(parser) || !after_value(parser, &depth)) return false;
            continue;
        }
        if (depth == STK_JSON_DEPTH_MAX) return fault(parser, "objects and lists nested deeper than 4,096");
        parser->at++;
        uint8_t bit = (uint8_t)(1u << depth % 8);
        parser->nesting[depth / 8] = (uint8_t)((parser->nesting[depth / 8] & ~bit) | (c == '{' ? bit : 0));
        depth++;
        skip_space(parser);
        if (next(parser) == (c == '{' ? '}' : ']')) {
            parser->at++;
            depth--;
            if (!after_value(parser, &depth)) return false;
        } else if (c == '{' && !member_name(parser)) {
            return false;
        }
    } while (depth > 0);
    return true;
}

/* --------------------------------------------------------------------------------------------------- wanted members */

static bool take_text(struct stk_jsonl *parser, struct values *values)
{
    struct stk_jsonl_text found;
    if (!text(parser, &found)) return false;
    if (values->count == values->capacity) {
        size_t capacity = values->capacity ? 2 * values->capacity : 8;
        struct stk_jsonl_text *texts = realloc(values->texts, capacity * sizeof *texts);
        if (!texts) {
            parser->out_of_memory = true;
            return false;
        }
        values->texts = texts;
        values->capacity = capacity;
    }
    values->texts[values->count++] = found;
    return true;
}

static bool wrong_kind(struct stk_jsonl *parser, size_t key)
{
    (void)fault(parser, "the value of this key is neither a text nor a list of texts");
    parser->fault.key = key;
    return false;
}

/* The value of a wanted key: a text, or a list of texts. */
static bool wanted_value(struct stk_jsonl *parser, size_t key)
{
    struct values *values = &parser->keys[key].values;
    values->found = true;
    values->count = 0;
    skip_space(parser);
    if (next(parser) == '"') return take_text(parser, values);
    if (next(parser) != '[') return wrong_kind(parser, key);
    parser->at++;
    skip_space(parser);
    if (next(parser) == ']') {
        parser->at++;
        return true;
    }
    for (;;) {
        skip_space(parser);
        if (next(parser) != '"') return wrong_kind(parser, key);
        if (!take_text(parser, values)) return false;
        skip_space(parser);
        int c = next(parser);
        if (c != ',' && c != ']') return fault(parser, "neither ',' nor the end of an object or list");
        parser->at++;
        if (c == ']') return true;
    }
}

static size_t key_of(const struct stk_jsonl *parser, const struct stk_jsonl_text *name)
{
    for (size_t i = 0; i < parser->key_count; i++)
        if (parser->keys[i].size == name->size && memcmp(parser->keys[i].name, name->bytes, name->size) == 0) return i;
    return STK_JSONL_NO_KEY;
}

/* A name with an escape that makes a lone surrogate equals no key: it is only passed over. */
static bool name_of_member(struct stk_jsonl *parser, size_t *out_key)
{
    struct stk_jsonl_text name;
    size_t begin = parser->at, used = parser->scratch_used;
    *out_key = STK_JSONL_NO_KEY;
    if (text(parser, &name)) {
        *out_key = key_of(parser, &name);
        parser->scratch_used = used;
        return true;
    }
    parser->at = begin;
    parser->scratch_used = used;
    return text(parser, NULL);
}

static bool object(struct stk_jsonl *parser)
{
    parser->at++;
    skip_space(parser);
    if (next(parser) == '}') {
        parser->at++;
        return true;
    }
    for (;;) {
        size_t key;
        skip_space(parser);
        if (next(parser) != '"') return fault(parser, "a member of an object without a quoted name");
        if (!name_of_member(parser, &key)) return false;
        skip_space(parser);
        if (next(parser) != ':') return fault(parser, "a name in an object without ':' after it");
        parser->at++;
        if (!(key == STK_JSONL_NO_KEY ? skip_value(parser) : wanted_value(parser, key))) return false;
        skip_space(parser);
        int c = next(parser);
        if (c != ',' && c != '}') return fault(parser, "neither ',' nor the end of an object or list");
        parser->at++;
        if (c == '}') return true;
    }
}

static bool whole_line(struct stk_jsonl *parser)
{
    if (parser->size >= 3 && memcmp(parser->line, "\xef\xbb\xbf", 3) == 0)
        return fault_at(parser, 0, "the line begins with a byte order mark");
    skip_space(parser);
    if (parser->at == parser->size) return fault_at(parser, 0, "the line is empty");
    if (next(parser) != '{') return fault(parser, "the line is no JSON object");
    if (!object(parser)) return false;
    skip_space(parser);
    if (parser->at < parser->size) return fault(parser, "more after the end of the object");
    for (size_t i = 0; i < parser->key_count; i++) {
        if (parser->keys[i].values.found) continue;
        (void)fault_at(parser, 0, "the object has no such key");
        parser->fault.key = i;
        return false;
    }
    return true;
}

stoker_status stk_jsonl_parse(struct stk_jsonl *parser, const char *line, size_t size,
                              struct stk_jsonl_fault *out_fault, stoker_error *err)
{
    if (size > parser->scratch_capacity) {
        char *scratch = realloc(parser->scratch, size);
        if (!scratch) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a line of %zu bytes", size);
        parser->scratch = scratch;
        parser->scratch_capacity = size;
    }
    parser->line = line;
    parser->size = size;
    parser->at = parser->scratch_used = 0;
    parser->out_of_memory = false;
    for (size_t i = 0; i < parser->key_count; i++) {
        parser->keys[i].values.count = 0;
        parser->keys[i].values.found = false;
    }
    if (whole_line(parser)) return STOKER_OK;
    if (parser->out_of_memory) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the texts of a line");
    *out_fault = parser->fault;
    return STOKER_ERR_CORRUPT;
}
