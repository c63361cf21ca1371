/* SPDX-License-Identifier: Apache-2.0
 *
 * KISS FFT behind two functions: see mel_fft.h, and docs/decisions for why this library.
 */
#include "media/mel_fft.h"

#include <stdlib.h>

#include "base/error.h"

#if STK_HAVE_KISSFFT

#include <kiss_fftr.h>

struct stk_fft {
    uint32_t length;
    kiss_fftr_cfg plan;
    kiss_fft_cpx *spectrum;
};

stoker_status stk_fft_create(uint32_t length, struct stk_fft **out_fft, stoker_error *err)
{
    struct stk_fft *fft = calloc(1, sizeof *fft);
    if (fft) {
        fft->length = length;
        fft->plan = kiss_fftr_alloc((int)length, 0, NULL, NULL);
        fft->spectrum = malloc(((size_t)length / 2 + 1) * sizeof *fft->spectrum);
    }
    if (!fft || !fft->plan || !fft->spectrum) {
        stk_fft_destroy(fft);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a transform of %u numbers", length);
    }
    *out_fft = fft;
    return STOKER_OK;
}

void stk_fft_destroy(struct stk_fft *fft)
{
    if (!fft) return;
    kiss_fftr_free(fft->plan);
    free(fft->spectrum);
    free(fft);
}

void stk_fft_power(struct stk_fft *fft, const float *in, float *out)
{
    kiss_fftr(fft->plan, in, fft->spectrum);
    for (uint32_t k = 0; k <= fft->length / 2; k++)
        out[k] = fft->spectrum[k].r * fft->spectrum[k].r + fft->spectrum[k].i * fft->spectrum[k].i;
}

#else

stoker_status stk_fft_create(uint32_t length, struct stk_fft **out_fft, stoker_error *err)
{
    (void)length, (void)out_fft;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "spectrograms need KISS FFT, which this build does not have");
}

void stk_fft_destroy(struct stk_fft *fft) { (void)fft; }

void stk_fft_power(struct stk_fft *fft, const float *in, float *out) { (void)fft, (void)in, (void)out; }

#endif
