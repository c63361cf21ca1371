/* SPDX-License-Identifier: Apache-2.0
 *
 * The power spectrum against the sum that it stands for.
 */
#include "media/mel_fft.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/unit.h"

static void test_fft_is_the_sum(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {16, 18, 30, 98, 250, 400, 512, 1022};
    const double pi = 3.14159265358979323846;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        const uint32_t n = lengths[l];
        struct stk_fft *fft = NULL;
        stoker_error err;
        stoker_status status = stk_fft_create(n, &fft, &err);
        if (status == STOKER_ERR_UNSUPPORTED) STK_SKIP("built without kissfft");
        assert_int_equal(status, STOKER_OK);
        float in[1024], out[513];
        double energy = 0;
        for (uint32_t i = 0; i < n; i++) {
            in[i] = (float)((i * 7919u + 13u) % 1009u) / 1009.0f - 0.5f;
            energy += (double)in[i] * (double)in[i];
        }
        stk_fft_power(fft, in, out);
        for (uint32_t k = 0; k <= n / 2; k++) {
            double re = 0, im = 0;
            for (uint32_t i = 0; i < n; i++) {
                re += (double)in[i] * cos(2 * pi * k * i / n);
                im -= (double)in[i] * sin(2 * pi * k * i / n);
            }
            assert_true(fabs((double)out[k] - (re * re + im * im)) < 1e-6 * n * energy);
        }
        stk_fft_destroy(fft);
    }
    stk_fft_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fft_is_the_sum)};
    return stk_run_tests(tests);
}
