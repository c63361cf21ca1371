/* SPDX-License-Identifier: Apache-2.0
 *
 * See random.h.
 */
#include "sim/random.h"

#include <math.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

uint64_t sim_bits(uint64_t seed, enum sim_stream stream, uint64_t index)
{
    uint64_t x = mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    x = mix(x ^ ((uint64_t)stream * UINT64_C(0xd1b54a32d192ed03)));
    return mix(x ^ (index + UINT64_C(0x8cb92ba72f3d8dd7)));
}

double sim_uniform(uint64_t seed, enum sim_stream stream, uint64_t index)
{
    return ((double)(sim_bits(seed, stream, index) >> 12) + 0.5) * 0x1p-52;
}

double sim_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    /* log(m) = 2 artanh(z); |z| < 0.172, so ten terms leave less than 1e-16. */
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int k = 19; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return 2 * z * sum + exponent * 0.6931471805599453;
}

double sim_exp(double x)
{
    double scaled = x * 1.4426950408889634;
    int whole = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double rest = x - whole * 0.6931471805599453, sum = 1;
    for (int k = 14; k >= 1; k--) sum = 1 + sum * rest / k;
    uint64_t bits = (uint64_t)(whole + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

double sim_power(double base, double exponent) { return base > 0 ? sim_exp(exponent * sim_log(base)) : 0; }

/* The inverse of the normal distribution, by rational functions of the probability (relative error below 1.2e-9). */
static double inverse_normal(double p)
{
    if (p > 0.5) return -inverse_normal(1 - p);
    if (p < 0.02425) {
        double q = sqrt(-2 * sim_log(p));
        double above = ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q -
                         2.549732539343734e+00) *
                            q +
                        4.374664141464968e+00) *
                           q +
                       2.938163982698783e+00;
        double below = (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
                        3.754408661907416e+00) *
                           q +
                       1;
        return above / below;
    }
    double q = p - 0.5, r = q * q;
    double above = (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
                      1.383577518672690e+02) *
                         r -
                     3.066479806614716e+01) *
                        r +
                    2.506628277459239e+00) *
                   q;
    double below = ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
                     6.680131188771972e+01) *
                        r -
                    1.328068155288572e+01) *
                       r +
                   1;
    return above / below;
}

double sim_normal(uint64_t seed, enum sim_stream stream, uint64_t index)
{
    return inverse_normal(sim_uniform(seed, stream, index));
}
