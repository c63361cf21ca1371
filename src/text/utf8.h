/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, one character at a time.
 */
#ifndef STK_TEXT_UTF8_H
#define STK_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at `at` (no surrogates, nothing overlong); 0 if there is none in `size` bytes. */
size_t stk_utf8_length(const char *at, size_t size);

/* The character that stk_utf8_length() found well-formed. */
uint32_t stk_utf8_decode(const char *at);

/* Writes the character (no surrogate, at most U+10FFFF) and gives its bytes, at most 4. */
size_t stk_utf8_encode(uint32_t character, char *out);

#endif
