/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits. The numbers of a split text are read here and not by the C library, whose strtod() follows the locale; long
 * ones go through exact integers, so that every number is the double nearest to it.
 */
#include "index/split.h"

#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "index/blend.h"

/* --------------------------------------------------------------------------------------------------------- numbers */

enum { WORDS = 33 }; /* 10^300 has 997 bits, and one more is needed */

struct whole {
    uint32_t word[WORDS]; /* lowest first */
};

static void multiply_add(struct whole *number, uint32_t factor, uint32_t addend)
{
    uint64_t carry = addend;
    for (int i = 0; i < WORDS; i++) {
        carry += (uint64_t)number->word[i] * factor;
        number->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static int bits_of(const struct whole *number)
{
    for (int i = WORDS - 1; i >= 0; i--)
        if (number->word[i] != 0) return 32 * i + 32 - __builtin_clz(number->word[i]);
    return 0;
}

static int compare(const struct whole *a, const struct whole *b)
{
    for (int i = WORDS - 1; i >= 0; i--)
        if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

static void subtract(struct whole *a, const struct whole *b)
{
    int64_t borrow = 0;
    for (int i = 0; i < WORDS; i++) {
        borrow += (int64_t)a->word[i] - b->word[i];
        a->word[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
}

static void shift_left(struct whole *number, int count)
{
    for (; count >= 16; count -= 16) multiply_add(number, 1u << 16, 0);
    multiply_add(number, 1u << count, 0);
}

/* 2^exponent for a normal double. */
static double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The double nearest to number / divisor, halves to even: one bit of the quotient after another. */
static double divide(struct whole number, struct whole divisor)
{
    int exponent = bits_of(&number) - bits_of(&divisor);
    uint64_t quotient = 0;
    if (bits_of(&number) == 0) return 0.0;
    if (exponent > 0) shift_left(&divisor, exponent);
    if (exponent < 0) shift_left(&number, -exponent);
    if (compare(&number, &divisor) < 0) {
        shift_left(&number, 1);
        exponent--;
    }
    for (int bit = 0; bit < 54; bit++) { /* 53 and one to round by; the first is 1 */
        bool one = compare(&number, &divisor) >= 0;
        if (one) subtract(&number, &divisor);
        quotient = quotient << 1 | one;
        shift_left(&number, 1);
    }
    bool up = (quotient & 1) != 0 && ((quotient & 2) != 0 || bits_of(&number) > 0);
    return (double)((quotient >> 1) + up) * power_of_two(exponent - 52);
}

/* A run of digits and dots. */
static stoker_status read_number(const char *text, size_t size, double *out_value, stoker_error *err)
{
    struct whole number = {{0}}, divisor = {{1}};
    unsigned digits = 0, dots = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '.') {
            dots++;
            continue;
        }
        if (++digits > STK_SPLIT_DIGITS_MAX)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a number of the split has more than %u digits",
                            STK_SPLIT_DIGITS_MAX);
        multiply_add(&number, 10, (uint32_t)(text[i] - '0'));
        if (dots > 0) multiply_add(&divisor, 10, 0);
    }
    if (digits == 0 || dots > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%.*s' of the split is no number",
                        (int)(size < 40 ? size : 40), text);
    *out_value = divide(number, divisor);
    return STOKER_OK;
}

static bool is_of_number(char c) { return (c >= '0' && c <= '9') || c == '.'; }

stoker_status stk_split_parse(const char *text, double out_vector[STK_SPLITS], stoker_error *err)
{
    double vector[STK_SPLITS] = {0};
    int count = 0;
    for (const char *at = text; *at != 0;) {
        size_t size = 0;
        while (is_of_number(at[size])) size++;
        if (size == 0) {
            at++;
            continue;
        }
        if (count == STK_SPLITS)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "split '%s' has more than %d numbers", text, STK_SPLITS);
        STK_TRY(read_number(at, size, &vector[count++], err));
        at += size;
    }
    stk_weights_normalize(vector, STK_SPLITS, out_vector);
    return STOKER_OK;
}

/* ---------------------------------------------------------------------------------------------------------- ranges */

void stk_split_ranges(const double vector[STK_SPLITS], struct stk_split_range out_ranges[STK_SPLITS])
{
    double start = 0.0;
    for (int i = 0; i < STK_SPLITS; i++) {
        double end = start + vector[i];
        out_ranges[i] = end <= start ? (struct stk_split_range){0} : (struct stk_split_range){true, start, end};
        start = end;
    }
}

void stk_split_common(const struct stk_split_range a[STK_SPLITS], const struct stk_split_range b[STK_SPLITS],
                      struct stk_split_range out_ranges[STK_SPLITS])
{
    for (int i = 0; i < STK_SPLITS; i++) {
        struct stk_split_range range = {a[i].exists && b[i].exists, a[i].start > b[i].start ? a[i].start : b[i].start,
                                        a[i].end < b[i].end ? a[i].end : b[i].end};
        if (!range.exists || range.end <= range.start) range = (struct stk_split_range){0};
        out_ranges[i] = range;
    }
}

/* Without libm. Both are for 0 ... 2^52, where the next doubles are at most 1 apart. */
static double round_even(double value) { return value + 4503599627370496.0 - 4503599627370496.0; }

static uint64_t round_up(double value)
{
    uint64_t whole = (uint64_t)value;
    return whole + ((double)whole < value);
}

stoker_status stk_split_elements(const struct stk_split_range *range, uint64_t elements, uint64_t *out_first,
                                 uint64_t *out_end, stoker_error *err)
{
    double start = range->start * (double)elements, end = range->end * (double)elements;
    if (!range->exists || !(start >= 0.0 && end >= start && end < 4503599627370496.0))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a split from %g to %g cannot be cut out of %llu sequences",
                        range->start, range->end, (unsigned long long)elements);
    *out_first = (uint64_t)round_even(start);
    *out_end = (uint64_t)round_even(end);
    return STOKER_OK;
}

void stk_split_request(double weight, uint64_t size, double surplus, uint64_t *out_target, uint64_t *out_buffer)
{
    double target = (double)round_up((double)size * weight);
    *out_target = (uint64_t)target;
    *out_buffer = round_up(target * (1.0 + surplus));
}
