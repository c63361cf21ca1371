/* SPDX-License-Identifier: Apache-2.0
 *
 * Training, validation and test parts of a dataset, as Megatron-LM cuts them: a text such as "969, 30, 1", its borders
 * between 0 and 1, sequences, and how many samples to ask of each dataset of a blend. Pure, and exact in every double.
 */
#ifndef STK_INDEX_SPLIT_H
#define STK_INDEX_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

enum { STK_SPLITS = 3 };

struct stk_split_range {
    bool exists;
    double start, end; /* of the whole; NaN if the text has no number above 0 */
};

/* All runs of digits and dots in the text are numbers; those that are missing are 0, and all are divided by their sum
 * (all zero: NaN, as in the reference). INVALID_ARGUMENT: a run that is no number, more than three of them. */
stoker_status stk_split_parse(const char *text, double out_vector[STK_SPLITS], stoker_error *err);

void stk_split_ranges(const double vector[STK_SPLITS], struct stk_split_range out_ranges[STK_SPLITS]);

/* What two cuts have in common. */
void stk_split_common(const struct stk_split_range a[STK_SPLITS], const struct stk_split_range b[STK_SPLITS],
                      struct stk_split_range out_ranges[STK_SPLITS]);

/* Elements first ... end - 1 of `elements` (below 2^52): both borders are rounded, halves to even. INVALID_ARGUMENT:
 * the range is none, or not a number. */
stoker_status stk_split_elements(const struct stk_split_range *range, uint64_t elements, uint64_t *out_first,
                                 uint64_t *out_end, stoker_error *err);

/* Samples that a dataset of `weight` contributes to a blend of `size` (below 2^52), and how many are asked of it, so
 * that rounding cannot run it dry. */
void stk_split_request(double weight, uint64_t size, double surplus, uint64_t *out_target, uint64_t *out_buffer);

#endif
