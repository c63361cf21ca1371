/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of JSON, as Python's json.loads() accepts it, searched for the texts of some keys of its object. The whole
 * line is checked, not only what is wanted: a line that is no JSON is never half used. Texts come out as UTF-8, in the
 * line itself where it has no escapes. One parser holds its scratch memory and is used for many lines.
 */
#ifndef STK_TEXT_JSONL_H
#define STK_TEXT_JSONL_H

#include <stddef.h>

#include <stoker/error.h>

struct stk_jsonl_text {
    const char *bytes; /* UTF-8 without surrogates; not terminated */
    size_t size;
};

/* Why a line cannot be used. */
struct stk_jsonl_fault {
    size_t offset;     /* in the line */
    const char *cause; /* static */
    size_t key;        /* number of the key that it is about, or STK_JSONL_NO_KEY */
};
#define STK_JSONL_NO_KEY ((size_t)-1)

struct stk_jsonl;

/* Copies the keys (UTF-8, terminated). NO_MEMORY. */
stoker_status stk_jsonl_create(const char *const *keys, size_t key_count, struct stk_jsonl **out_parser,
                               stoker_error *err);
void stk_jsonl_destroy(struct stk_jsonl *parser); /* NULL allowed */

/* Parses a line without its newline. CORRUPT fills *out_fault and nothing else; NO_MEMORY. A key that occurs twice has
 * its last value. */
stoker_status stk_jsonl_parse(struct stk_jsonl *parser, const char *line, size_t size,
                              struct stk_jsonl_fault *out_fault, stoker_error *err);

/* The texts of key number `key` in the line that was parsed last: one for a text, any number for a list. They live
 * until the next line, and as long as the line. */
const struct stk_jsonl_text *stk_jsonl_texts(const struct stk_jsonl *parser, size_t key, size_t *out_count);

#endif
