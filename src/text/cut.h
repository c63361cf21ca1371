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

/* Marks are the ASCII characters that are no letter, digit, space or control character. */
enum stk_cut_rule {
    /* Before a single space that stands between two characters that are no white space. */
    STK_CUT_SPACES,
    /* There; before the last space of a longer run of ASCII white space; and between ASCII characters
     * - where a run of letters or of digits ends, but not before an apostrophe that follows letters ("it's" may be one
     *   word or two);
     * - before a digit that follows a mark;
     * - before a letter that follows a mark other than an apostrophe, if before the mark stands another one or a space
     *   ("(see" alone may be one word or two);
     * - before a letter or digit that follows a single newline. */
    STK_CUT_WORDS
};

struct stk_cutter {
    enum stk_cut_rule rule;
    bool guard
        [256]; /* bytes that may begin a special token: a stretch between spaces that has one is not cut inside, and
                        a run of white space before one is not cut at all */
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
