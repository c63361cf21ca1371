/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements from one type to another: see convert.h. One loop for each pair of types, made by macros.
 *
 * Integers are checked without a branch: what lies outside the target's range leaves a bit above its width when the
 * target's minimum is subtracted, and those bits are collected over the whole run.
 */
#include "tokens/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

const char *stk_token_dtype_name(int code)
{
    static const char *const names[] = {"?",     "uint8",   "int8",    "int16", "int32",
                                        "int64", "float64", "float32", "uint16"};
    return code > 0 && code < (int)(sizeof names / sizeof names[0]) ? names[code] : names[0];
}

/* Doubles below 2^63 in size convert to int64; 2^63 itself is a double. */
#define INT64_EDGE 9223372036854775808.0

static inline int64_t of_double(double value) /* with a defined result for all */
{
    return value >= -INT64_EDGE && value < INT64_EDGE ? (int64_t)value : INT64_MIN;
}

/* The least value of an integer type as uint64, and the bits that must be clear after it is subtracted. */
#define LEAST_uint8_t UINT64_C(0)
#define LEAST_int8_t ((uint64_t)INT8_MIN)
#define LEAST_uint16_t UINT64_C(0)
#define LEAST_int16_t ((uint64_t)INT16_MIN)
#define LEAST_int32_t ((uint64_t)INT32_MIN)
#define EXCESS(to) (sizeof(to) == 8 ? 0 : ~UINT64_C(0) << (sizeof(to) % 8 * 8))

#define INTEGER_TO_INTEGER(from, to, least)                                                                            \
    static bool from##_##to(const uint8_t *in, uint64_t count, bool wrap, uint8_t *out)                                \
    {                                                                                                                  \
        uint64_t excess = 0;                                                                                           \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            from value;                                                                                                \
            memcpy(&value, in + i * sizeof(from), sizeof value);                                                       \
            to made = (to)value;                                                                                       \
            excess |= (uint64_t)(int64_t)value - (least);                                                              \
            memcpy(out + i * sizeof(to), &made, sizeof made);                                                          \
        }                                                                                                              \
        return wrap || (excess & EXCESS(to)) == 0;                                                                     \
    }

#define NUMBER_TO_FLOAT(from, to)                                                                                      \
    static bool from##_##to(const uint8_t *in, uint64_t count, bool wrap, uint8_t *out)                                \
    {                                                                                                                  \
        (void)wrap; /* every number has a nearest floating value, if need be an infinite one */                        \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            from value;                                                                                                \
            memcpy(&value, in + i * sizeof(from), sizeof value);                                                       \
            to made = (to)value;                                                                                       \
            memcpy(out + i * sizeof(to), &made, sizeof made);                                                          \
        }                                                                                                              \
        return true;                                                                                                   \
    }

#define FLOAT_TO_INTEGER(from, to, least)                                                                              \
    static bool from##_##to(const uint8_t *in, uint64_t count, bool wrap, uint8_t *out)                                \
    {                                                                                                                  \
        uint64_t excess = 0;                                                                                           \
        bool past = false;                                                                                             \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            from value;                                                                                                \
            memcpy(&value, in + i * sizeof(from), sizeof value);                                                       \
            bool good = (double)value >= -INT64_EDGE && (double)value < INT64_EDGE;                                    \
            int64_t whole = of_double((double)value);                                                                  \
            to made = (to)whole;                                                                                       \
            past |= !good;                                                                                             \
            excess |= (uint64_t)whole - (least);                                                                       \
            memcpy(out + i * sizeof(to), &made, sizeof made);                                                          \
        }                                                                                                              \
        return !past && (wrap || (excess & EXCESS(to)) == 0);                                                          \
    }

#define ALL_FROM_INTEGER(from)                                                                                         \
    INTEGER_TO_INTEGER(from, uint8_t, LEAST_uint8_t)                                                                   \
    INTEGER_TO_INTEGER(from, int8_t, LEAST_int8_t)                                                                     \
    INTEGER_TO_INTEGER(from, int16_t, LEAST_int16_t)                                                                   \
    INTEGER_TO_INTEGER(from, int32_t, LEAST_int32_t)                                                                   \
    INTEGER_TO_INTEGER(from, int64_t, 0)                                                                               \
    NUMBER_TO_FLOAT(from, double)                                                                                      \
    NUMBER_TO_FLOAT(from, float)                                                                                       \
    INTEGER_TO_INTEGER(from, uint16_t, LEAST_uint16_t)

#define ALL_FROM_FLOAT(from)                                                                                           \
    FLOAT_TO_INTEGER(from, uint8_t, LEAST_uint8_t)                                                                     \
    FLOAT_TO_INTEGER(from, int8_t, LEAST_int8_t)                                                                       \
    FLOAT_TO_INTEGER(from, int16_t, LEAST_int16_t)                                                                     \
    FLOAT_TO_INTEGER(from, int32_t, LEAST_int32_t)                                                                     \
    FLOAT_TO_INTEGER(from, int64_t, 0)                                                                                 \
    NUMBER_TO_FLOAT(from, double)                                                                                      \
    NUMBER_TO_FLOAT(from, float)                                                                                       \
    FLOAT_TO_INTEGER(from, uint16_t, LEAST_uint16_t)

ALL_FROM_INTEGER(uint8_t)
ALL_FROM_INTEGER(int8_t)
ALL_FROM_INTEGER(int16_t)
ALL_FROM_INTEGER(int32_t)
ALL_FROM_INTEGER(int64_t)
ALL_FROM_INTEGER(uint16_t)
ALL_FROM_FLOAT(double)
ALL_FROM_FLOAT(float)

typedef bool convert_fn(const uint8_t *in, uint64_t count, bool wrap, uint8_t *out);

#define ROW(from)                                                                                                      \
    {                                                                                                                  \
        NULL, from##_uint8_t, from##_int8_t, from##_int16_t, from##_int32_t, from##_int64_t, from##_double,            \
            from##_float, from##_uint16_t                                                                              \
    }

/* By the codes of both types. */
static convert_fn *const converters[9][9] = {
    {NULL}, ROW(uint8_t), ROW(int8_t), ROW(int16_t), ROW(int32_t), ROW(int64_t), ROW(double), ROW(float), ROW(uint16_t),
};

bool stk_elements_convert(stoker_elements in, int to, bool wrap, void *out)
{
    STK_ASSERT(stoker_token_dtype_size(in.dtype_code) > 0);
    STK_ASSERT(stoker_token_dtype_size(to) > 0);
    if (in.count == 0) return true;
    if (in.dtype_code == to) {
        memcpy(out, in.data, (size_t)in.count * stoker_token_dtype_size(to));
        return true;
    }
    return converters[in.dtype_code][to](in.data, in.count, wrap, out);
}

void stk_elements_to_int64(stoker_elements in, int64_t *out)
{
    STK_ASSERT(stoker_token_dtype_size(in.dtype_code) > 0);
    (void)converters[in.dtype_code][STOKER_TOKEN_INT64](in.data, in.count, true,
                                                        (uint8_t *)out); /* INT64_MIN is told */
}

/* -------------------------------------------------------------------------------------------------------- misfits */

static void show(const uint8_t *data, int dtype_code, char *out, size_t size)
{
    double real = 0;
    float single = 0;
    int64_t whole = 0;
    switch (dtype_code) {
    case STOKER_TOKEN_FLOAT64:
        memcpy(&real, data, sizeof real);
        (void)snprintf(out, size, "%.17g", real);
        return;
    case STOKER_TOKEN_FLOAT32:
        memcpy(&single, data, sizeof single);
        (void)snprintf(out, size, "%.9g", (double)single);
        return;
    default:
        stk_elements_to_int64((stoker_elements){data, 1, dtype_code}, &whole);
        (void)snprintf(out, size, "%" PRId64, whole);
    }
}

uint64_t stk_elements_misfit(stoker_elements in, int to, bool wrap, char *out_text, size_t text_size)
{
    size_t element_bytes = stoker_token_dtype_size(in.dtype_code);
    const uint8_t *data = in.data;
    for (uint64_t i = 0; i < in.count; i++) {
        uint8_t made[8];
        if (stk_elements_convert((stoker_elements){data + i * element_bytes, 1, in.dtype_code}, to, wrap, made))
            continue;
        show(data + i * element_bytes, in.dtype_code, out_text, text_size);
        return i;
    }
    return UINT64_MAX;
}
