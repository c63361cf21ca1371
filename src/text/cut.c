/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts: see cut.h. The text is looked at in stretches, from one cut at a space to the next.
 */
#include "text/cut.h"

#include <string.h>

#include "text/utf8.h"

enum kind { CONTROL, SPACE, LETTER, DIGIT, MARK, WIDE };

static enum kind kind_of(unsigned char byte)
{
    if (byte >= 0x80) return WIDE;
    if ((byte | 32) >= 'a' && (byte | 32) <= 'z') return LETTER;
    if (byte >= '0' && byte <= '9') return DIGIT;
    if (byte == ' ') return SPACE;
    return byte > ' ' && byte < 0x7f ? MARK : CONTROL; /* tabs and newlines too: no cut at a space beside them */
}

/* Spaces and invisible characters beyond ASCII, in the sense of any of the pre-tokenizers. */
static bool is_wide_space(uint32_t character)
{
    return (character >= 0x80 && character <= 0xa0) || character == 0x1680 || character == 0x180e ||
           (character >= 0x2000 && character <= 0x200f) || (character >= 0x2028 && character <= 0x202f) ||
           (character >= 0x205f && character <= 0x206f) || character == 0x3000 || character == 0xfeff;
}

/* Is the character that begins at text[at] surely no space? */
static bool is_solid(const char *text, size_t at)
{
    enum kind kind = kind_of((unsigned char)text[at]);
    if (kind == WIDE) return !is_wide_space(stk_utf8_decode(text + at));
    return kind != CONTROL && kind != SPACE;
}

/* Where the character before text[at] begins; at > 0. */
static size_t begin_before(const char *text, size_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static bool is_white(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* text[at] is a space: may a piece begin with it? */
static bool is_cut_at_space(const struct stk_cutter *cutter, size_t at)
{
    const char *text = cutter->text;
    if (at == 0 || at + 1 >= cutter->size || !is_solid(text, at + 1)) return false;
    if (is_solid(text, begin_before(text, at))) return true;
    return cutter->rule == STK_CUT_WORDS && is_white(text[at - 1]) && !cutter->guard[(unsigned char)text[at + 1]];
}

void stk_cutter_begin(struct stk_cutter *cutter, const char *text, size_t size)
{
    cutter->text = text;
    cutter->size = size;
    cutter->at = cutter->stretch_end = 0;
}

static void next_stretch(struct stk_cutter *cutter)
{
    const char *text = cutter->text;
    size_t at = cutter->at;
    bool guarded = false;
    do {
        guarded = guarded || cutter->guard[(unsigned char)text[at]];
        at++;
    } while (at < cutter->size && (text[at] != ' ' || !is_cut_at_space(cutter, at)));
    cutter->stretch_end = at;
    cutter->inside = cutter->rule == STK_CUT_WORDS && !guarded;
}

/* Is there a cut before text[at], which is not at a single space? at > 0. */
static bool is_cut_inside(const char *text, size_t at)
{
    char left = text[at - 1], right = text[at];
    if ((unsigned char)right >= 0x80) return false;
    enum kind kind = kind_of((unsigned char)right), before;
    switch (kind_of((unsigned char)left)) {
    case LETTER: return kind != LETTER && right != '\'';
    case DIGIT: return kind != DIGIT;
    case MARK:
        if (kind != LETTER) return kind == DIGIT;
        before = at >= 2 ? kind_of((unsigned char)text[at - 2]) : CONTROL;
        return left != '\'' && (before == MARK || before == SPACE);
    case CONTROL:
        return left == '\n' && (kind == LETTER || kind == DIGIT) && at >= 2 &&
               is_solid(text, begin_before(text, at - 1));
    case SPACE:
    case WIDE: return false;
    }
    return false;
}

bool stk_cutter_next(struct stk_cutter *cutter, const char **out_piece, size_t *out_size)
{
    if (cutter->at == cutter->size) return false;
    if (cutter->at == cutter->stretch_end) next_stretch(cutter);
    const char *text = cutter->text;
    size_t begin = cutter->at, at = begin + 1, end = cutter->stretch_end;
    if (cutter->inside)
        while (at < end && !is_cut_inside(text, at)) at++;
    else
        at = end;
    cutter->at = at;
    *out_piece = text + begin;
    *out_size = at - begin;
    return true;
}
