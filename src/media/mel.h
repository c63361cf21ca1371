/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-mel spectrograms: the tables of one form, and its use on sound. What a value is, stoker/audio.h says.
 */
#ifndef STK_MEDIA_MEL_H
#define STK_MEDIA_MEL_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/audio.h>
#include <stoker/error.h>

/* INVALID_ARGUMENT names the field. Rate 0: not known yet, frequencies are not compared with it. */
stoker_status stk_mel_check(const stoker_mel_spec *spec, uint32_t rate, stoker_error *err);

/* Tables and scratch memory of one form. One user at a time. */
struct stk_mel;

/* INVALID_ARGUMENT, UNSUPPORTED (a build without KISS FFT), NO_MEMORY. */
stoker_status stk_mel_create(const stoker_mel_spec *spec, uint32_t rate, struct stk_mel **out_mel, stoker_error *err);
void stk_mel_destroy(struct stk_mel *mel); /* NULL allowed */

/* Are these the tables of such a form? NULL is of none. */
bool stk_mel_is(const struct stk_mel *mel, const stoker_mel_spec *spec, uint32_t rate);

/* Writes bands * stoker_mel_frames() values. INVALID_ARGUMENT: no more than fft/2 samples. */
stoker_status stk_mel_run(struct stk_mel *mel, const float *samples, uint64_t count, float *dst, stoker_error *err);

#endif
