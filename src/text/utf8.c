/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8: see utf8.h.
 */
#include "text/utf8.h"

#include "base/assert.h"

static int is_tail(const char *at) { return ((unsigned char)*at & 0xc0) == 0x80; }

size_t stk_utf8_length(const char *at, size_t size)
{
    if (size == 0) return 0;
    unsigned char first = (unsigned char)at[0];
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first < 0xe0) return size >= 2 && is_tail(at + 1) ? 2 : 0;
    if (size < 2) return 0;
    unsigned char second = (unsigned char)at[1];
    if (first >= 0xe0 && first < 0xf0) {
        if (size < 3 || !is_tail(at + 1) || !is_tail(at + 2)) return 0;
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
        return 3;
    }
    if (first < 0xf0 || first > 0xf4 || size < 4 || !is_tail(at + 1) || !is_tail(at + 2) || !is_tail(at + 3)) return 0;
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
    return 4;
}

uint32_t stk_utf8_decode(const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;
    if (byte[0] < 0x80) return byte[0];
    if (byte[0] < 0xe0) return (byte[0] & 0x1fu) << 6 | (byte[1] & 0x3fu);
    if (byte[0] < 0xf0) return (byte[0] & 0x0fu) << 12 | (byte[1] & 0x3fu) << 6 | (byte[2] & 0x3fu);
    return (byte[0] & 0x07u) << 18 | (byte[1] & 0x3fu) << 12 | (byte[2] & 0x3fu) << 6 | (byte[3] & 0x3fu);
}

size_t stk_utf8_encode(uint32_t character, char *out)
{
    STK_ASSERT(character < 0xd800 || (character > 0xdfff && character <= 0x10ffff));
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        out[0] = (char)(0xc0 | character >> 6);
        out[1] = (char)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        out[0] = (char)(0xe0 | character >> 12);
        out[1] = (char)(0x80 | (character >> 6 & 0x3f));
        out[2] = (char)(0x80 | (character & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | character >> 18);
    out[1] = (char)(0x80 | (character >> 12 & 0x3f));
    out[2] = (char)(0x80 | (character >> 6 & 0x3f));
    out[3] = (char)(0x80 | (character & 0x3f));
    return 4;
}
