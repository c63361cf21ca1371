/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of items: token ids of any integer type to int64, ramps, fills, and what looks at values. Each has a
 * portable form and an AVX2 form (item_wide.c), chosen at run time, with the same results. Destinations and sources
 * need not be aligned.
 */
#ifndef STK_TOKENS_ITEM_H
#define STK_TOKENS_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_item_ops {
    /* `count` little-endian integers of a token dtype (u8, i8, i16, i32, i64, u16) to int64. */
    void (*widen)(int dtype_code, const void *from, size_t count, int64_t *out);
    /* Whether one of them is `value`, which they are compared with as they are: without a pass over wider ones. */
    bool (*holds)(int dtype_code, const void *from, size_t count, int64_t value);
    /* 0, 1, 2, ... */
    void (*ramp)(int64_t *out, size_t count);
    void (*fill)(float *out, size_t count, float value);
    bool (*find)(const int64_t *values, size_t count, int64_t value);
    /* loss[i] = 0 where values[i] == value */
    void (*unmask)(const int64_t *values, size_t count, int64_t value, float *loss);
    /* values equal to `value` become 0 */
    void (*clear)(int64_t *values, size_t count, int64_t value);
};

extern const struct stk_item_ops stk_item_plain;
/* NULL if this processor lacks AVX2. */
const struct stk_item_ops *stk_item_wide(void);
/* The best that this processor has. */
const struct stk_item_ops *stk_item_best(void);

/* Whether widen() knows the type: the floating ones are left to the dataset's reader. */
bool stk_item_is_integer(int dtype_code);

#endif
