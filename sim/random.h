/* SPDX-License-Identifier: Apache-2.0
 *
 * Chance without order: a draw is a hash of (seed, stream, index), so what a sample costs does not depend on who asks
 * first, and every contender meets the same world. Logarithm and exponential are written here, because those of the C
 * libraries differ in their last bits from machine to machine, and a simulated run must not.
 *
 * Pure: no state, no clock, no allocation, of the mathematical library the square root only.
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdint.h>

/* What a draw is for; part of its hash. */
enum sim_stream {
    SIM_STREAM_SIZE = 1,
    SIM_STREAM_TIME,
    SIM_STREAM_CODEC,
    SIM_STREAM_BITRATE,
    SIM_STREAM_TAIL,
    SIM_STREAM_NOISE,
    SIM_STREAM_WINDOW,
    SIM_STREAM_PREDICT,
    SIM_STREAM_STALL,
    SIM_STREAM_STALL_TIME,
    SIM_STREAM_HICCUP,
    SIM_STREAM_HICCUP_TIME,
    SIM_STREAM_PEERS,
    SIM_STREAM_LOSS,
    SIM_STREAM_BOOTSTRAP
};

uint64_t sim_bits(uint64_t seed, enum sim_stream stream, uint64_t index);
double sim_uniform(uint64_t seed, enum sim_stream stream, uint64_t index); /* in (0, 1) */
double sim_normal(uint64_t seed, enum sim_stream stream, uint64_t index);  /* mean 0, deviation 1 */

double sim_log(double x); /* natural; x > 0 */
double sim_exp(double x); /* |x| < 700 */
double sim_power(double base, double exponent);

#endif
