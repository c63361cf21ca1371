/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of pixels into values: what transform_wide.c does with vector instructions. Each writes a part of the line
 * and returns how many pixels that was; the caller does the rest. 0 on machines without the instructions.
 *
 * The results are those of the plain code, bit for bit: multiplication and addition are not fused, and rounding is to
 * nearest even in both.
 */
#ifndef STK_MEDIA_TRANSFORM_INTERNAL_H
#define STK_MEDIA_TRANSFORM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_affine {
    float scale, offset;
};

/* `past_cache`: the sample is larger than the caches, so lines that allow it are written past them. */
size_t stk_floats_wide(const uint8_t *in, float *out, size_t count, struct stk_affine affine, bool past_cache);
size_t stk_bfloats_wide(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine);
size_t stk_halves_wide(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine);
/* After the last line of a frame: what was written past the caches is visible to other processes. */
void stk_wide_finish(bool past_cache);

#endif
