/* SPDX-License-Identifier: Apache-2.0
 *
 * The common case of scaling, made fast: 8-bit planar YUV to planar RGB, a rectangle of the scaled picture only.
 *
 * The same picture as swscale's with accurate rounding and full chroma resolution, within a level, at a quarter of its
 * price: bilinear, widened when shrinking, chroma sited in the centre; if the size does not change, luma is kept and
 * chroma interpolated bicubically, as the ffmpeg program does it. It computes only the rectangle that is kept, and
 * keeps everything between two passes in the first-level cache. All arithmetic is on integers, in one order, so vector
 * and plain code give the same bytes on every machine. What it does not cover goes to swscale.
 */
#ifndef STK_MEDIA_RESAMPLE_H
#define STK_MEDIA_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

/* Lines are written in whole vectors of this many pixels. */
#define STK_RESAMPLE_ALIGNMENT 16u

struct stk_rectangle {
    uint32_t x, y, width, height;
};

struct stk_resample_spec {
    uint32_t from_width, from_height;
    uint32_t chroma_shift_x, chroma_shift_y; /* log2 of the subsampling: 0 or 1 */
    uint32_t to_width, to_height;            /* of the whole scaled picture */
    struct stk_rectangle keep;               /* the part of it that is computed */
    double kr, kb;                           /* luma weights of red and blue: the matrix */
    bool full_range;                         /* luma and chroma use 0 to 255 */
};

struct stk_resample;

/* UNSUPPORTED for what is left to others: pictures under 16 pixels, shrinking by more than 4. NO_MEMORY. */
stoker_status stk_resample_create(const struct stk_resample_spec *spec, struct stk_resample **out_resample,
                                  stoker_error *err);
void stk_resample_destroy(struct stk_resample *resample); /* NULL allowed */

struct stk_yuv {
    const uint8_t *planes[3];
    ptrdiff_t strides[3];
};

/* Lines of `rgb` have room for the kept width rounded up to STK_RESAMPLE_ALIGNMENT, which may be written. */
void stk_resample_run(struct stk_resample *resample, const struct stk_yuv *from, uint8_t *const rgb[3], size_t stride);
/* For tests: plain code, without vector instructions. */
void stk_resample_run_plain(struct stk_resample *resample, const struct stk_yuv *from, uint8_t *const rgb[3],
                            size_t stride);

#endif
