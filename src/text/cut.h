/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a text may be cut into pieces that a tokenizer can take one by one. A cut stands only where every pre-tokenizer
 * of the family begins a new word, whatever stands to the left or right, so that the ids of the text are the ids of its
 * pieces, one after another. docs/decisions/0136 has the argument; the caller checks the ids of real text as well.
 */
#ifndef STK_TEXT_CUT_H
#define STK_TEXT_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stk_cut_rule {
    STK_CUT_SPACES, /* before a single space that stands between two characters that are no space */
    STK_CUT_WORDS /* there, and where a run of ASCII letters or of ASCII digits ends before another ASCII character (but
                       not before an apostrophe after letters: "it's" may be one word or two) */
};

struct stk_cutter {
    enum stk_cut_rule rule;
    bool guard[256]; /* bytes that may begin a special token with a cut inside it: a stretch between spaces that has
                        one is cut at spaces only */
    /* of the text at hand */
    const char *text;
    size_t size, at, stretch_end;
    bool inside; /* the stretch may be cut inside */
};

/* Begins a text, which must be UTF-8. */
void stk_cutter_begin(struct stk_cutter *cutter, const char *text, size_t size);
/* The next piece; false at the end. The pieces, one after another, are the text. */
bool stk_cutter_next(struct stk_cutter *cutter, const char **out_piece, size_t *out_size);

#endif
