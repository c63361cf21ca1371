/* SPDX-License-Identifier: Apache-2.0
 *
 * The power spectrum of real numbers, by KISS FFT in single precision; any even length.
 */
#ifndef STK_MEDIA_MEL_FFT_H
#define STK_MEDIA_MEL_FFT_H

#include <stdint.h>

#include <stoker/error.h>

struct stk_fft;

/* UNSUPPORTED (a build without KISS FFT), NO_MEMORY. */
stoker_status stk_fft_create(uint32_t length, struct stk_fft **out_fft, stoker_error *err);
void stk_fft_destroy(struct stk_fft *fft); /* NULL allowed */

/* |X(k)|^2 for k = 0 ... length/2 of `length` numbers. */
void stk_fft_power(struct stk_fft *fft, const float *in, float *out);

#endif
