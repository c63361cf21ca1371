/* SPDX-License-Identifier: Apache-2.0
 *
 * What resample.c (tables, order of work, plain code) and resample_wide.c (the same steps with vector instructions)
 * share.
 *
 * Fixed point: weights sum to 2^14 exactly. Lines after the horizontal pass hold values times 2^7, after the vertical
 * pass times 2^6; the matrix has 13 bits of fraction, its sums 5. STK_MULTIPLY rounds as the vector instruction does.
 */
#ifndef STK_MEDIA_RESAMPLE_INTERNAL_H
#define STK_MEDIA_RESAMPLE_INTERNAL_H

#include "media/resample.h"

#define STK_WEIGHT_ONE 16384
#define STK_TAPS_MAX 64u
/* Outputs and taps of one vector step of the horizontal pass. */
#define STK_GROUP 4u

/* (a*b) / 2^15 to nearest, for 16-bit a and b. */
#define STK_MULTIPLY(a, b) (((int32_t)(a) * (int32_t)(b) + 0x4000) >> 15)

/* Which inputs make each output, one dimension. */
struct stk_filter {
    uint32_t outputs, taps; /* taps: the largest number of any output */
    uint32_t *first;        /* of each output */
    int16_t *weights;       /* taps for each output, zero-padded */
};

/* One vector step: 4 outputs times 4 taps from 16 bytes of input. */
struct stk_step {
    uint8_t mask[16];    /* for output i, tap t: byte 4*i + t */
    int16_t weights[16]; /* the same order */
};

/* The horizontal filter of a plane, ready for vector code: step_count steps for each group of 4 outputs. */
struct stk_steps {
    uint32_t groups, per_group;
    uint32_t *base; /* where in the line the 16 bytes of each step begin */
    struct stk_step *steps;
};

struct stk_plane_filter {
    struct stk_filter across, down;
    struct stk_steps steps;
    bool copies;        /* each output is one input: the horizontal pass only widens */
    uint32_t rows_mask; /* lines in the ring, minus 1 */
    int16_t *ring;      /* lines after the horizontal pass */
    uint32_t next_row;  /* the first that is not in the ring yet */
};

struct stk_matrix {
    int16_t y_offset;              /* of values times 2^6 */
    int16_t y, r_v, g_u, g_v, b_u; /* times 2^13 */
};

struct stk_resample {
    struct stk_resample_spec spec;
    size_t line; /* values in a line: the kept width, rounded up to 16 */
    struct stk_plane_filter luma, chroma[2];
    struct stk_matrix matrix;
};

/* One line through the horizontal pass. */
void stk_resample_across_wide(const struct stk_steps *steps, const uint8_t *from, int16_t *to);
/* The same where nothing is filtered: values times 2^7. */
void stk_resample_copy_wide(const uint8_t *from, int16_t *to, size_t count);
/* The lines that make one output line, and their weights. */
struct stk_lines {
    const int16_t *lines[STK_TAPS_MAX];
    const int16_t *weights;
    uint32_t taps;
};
/* Vertical pass and matrix for one line of three planes. */
void stk_resample_down_wide(const struct stk_lines planes[3], const struct stk_matrix *matrix, size_t line,
                            uint8_t *const rgb[3]);
bool stk_resample_is_wide(void); /* the machine has the instructions */

#endif
