/* SPDX-License-Identifier: Apache-2.0
 *
 * What filter.c (weights, order of work, plain code) and filter_wide.c (the same sums with vector instructions) share.
 *
 * Sums are taken modulo 2^32: the whole sum fits 31 bits, whatever its parts do. So a weight can be split into
 * high * 2^12 + low, each of 16 bits, and the parts be summed apart.
 */
#ifndef STK_MEDIA_FILTER_INTERNAL_H
#define STK_MEDIA_FILTER_INTERNAL_H

#include "media/filter.h"

#define STK_FILTER_BITS 22
#define STK_FILTER_HALF (1u << (STK_FILTER_BITS - 1))
/* Taps of one vector step of the horizontal pass: 12 of 16 bytes. */
#define STK_FILTER_STEP 4u

/* One axis: which inputs make each output. No arrays if the pass would only copy. */
struct stk_filter_axis {
    uint32_t outputs;
    uint32_t taps;          /* of every output, a multiple of STK_FILTER_STEP; zero-padded */
    uint32_t low, high;     /* inputs that any output needs: low to high - 1 */
    uint32_t *first, *real; /* of each output: its first input, and how many taps are not padding */
    int32_t *weights;       /* taps for each output */
};

/* Lines of a pass, in bytes from line to line. */
struct stk_filter_lines {
    const uint8_t *from;
    size_t from_stride;
    uint8_t *to;
    size_t to_stride;
    uint32_t count; /* lines */
};

/* Each line through the horizontal pass: axis->outputs pixels. to_stride has room for one byte more than those. */
stoker_status stk_filter_across_wide(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines,
                                     stoker_error *err);
/* axis->outputs lines of `bytes` values; lines->count is not used. to_stride is a multiple of 32. */
void stk_filter_down_wide(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines, size_t bytes);
/* The beginning of a line into planes; how many pixels. */
size_t stk_filter_split_wide(const uint8_t *from, size_t width, uint8_t *r, uint8_t *g, uint8_t *b);
bool stk_filter_is_wide(void); /* the machine has the instructions */

#endif
