/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements from one type to another, as NumPy's astype does it, with a check of the range. Plain loops that the
 * compiler turns into vector code. Data need not be aligned.
 */
#ifndef STK_TOKENS_CONVERT_H
#define STK_TOKENS_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/dataset.h>

/* "uint16"; "?" for a code that is none. */
const char *stk_token_dtype_name(int code);

/* Writes in.count elements of type `to` to `out`. Floating values are truncated toward zero. False if a value does not
 * fit an integer type (with `wrap`, where integers go in modulo 2^bits: if it is floating and not finite or past
 * int64). Floating types take every value. */
bool stk_elements_convert(stoker_elements in, int to, bool wrap, void *out);

/* Of elements that do not fit: the position of the first, and its text for a message. */
uint64_t stk_elements_misfit(stoker_elements in, int to, bool wrap, char *out_text, size_t text_size);

/* To int64, without a check: values that are not finite or past int64 become INT64_MIN. `in` may be the tail of `out`.
 * */
void stk_elements_to_int64(stoker_elements in, int64_t *out);

#endif
