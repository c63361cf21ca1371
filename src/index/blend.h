/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sample of which dataset stands at which position of a blend: Megatron-LM's greedy order, pick for pick. Pure.
 * The result is that of taking, at each position i, the dataset with the largest weight * max(i, 1) - taken (in
 * float64, ties to the lowest number), however it is computed.
 */
#ifndef STK_INDEX_BLEND_H
#define STK_INDEX_BLEND_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

/* NumPy's pairwise sum, and weights divided by it. */
double stk_pairwise_sum(const double *values, size_t count);
void stk_weights_normalize(const double *weights, size_t count, double *out_weights);

/* Bytes of working memory that the two below need (8-byte aligned). */
size_t stk_blend_scratch_bytes(uint32_t datasets);

/* Sized blend: `size` picks. weights as given (normalised by the caller). */
void stk_blend_sized(const double *weights, uint32_t datasets, uint64_t size, int16_t *out_dataset, int64_t *out_sample,
                     void *scratch);
/* Exhaustive blend: every sample of every dataset once; sum of sizes picks. */
void stk_blend_exhaustive(const uint64_t *sizes, uint32_t datasets, int16_t *out_dataset, int64_t *out_sample,
                          void *scratch);

#endif
