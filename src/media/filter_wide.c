/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of filter.c with AVX2: the same sums, so the same bytes. On machines without it nothing here is called.
 */
#include "media/filter_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx2")))

bool stk_filter_is_wide(void) { return __builtin_cpu_supports("avx2"); }

/* The parts of a weight: high * 2^12 + low, low not negative. */
#define LOW_BITS 12

static int16_t low_of(int32_t weight) { return (int16_t)(weight & ((1 << LOW_BITS) - 1)); }
static int16_t high_of(int32_t weight) { return (int16_t)(weight >> LOW_BITS); }

static uint32_t pair(int16_t first, int16_t second) { return (uint16_t)first | (uint32_t)(uint16_t)second << 16; }

/* -------------------------------------------------------------------------------------------------------------- across
 */

/* Weights of STK_FILTER_STEP taps, laid out as the pixels are: taps 0 and 1 beside each other for R, G and B in the
 * lower half of a register, 2 and 3 in the upper one. */
struct step {
    uint32_t low[8], high[8];
};

static struct step *make_steps(const struct stk_filter_axis *axis)
{
    size_t count = (size_t)axis->outputs * (axis->taps / STK_FILTER_STEP);
    struct step *steps = aligned_alloc(32, count * sizeof *steps);
    if (!steps) return NULL;
    for (size_t i = 0; i < count; i++)
        for (size_t half = 0; half < 2; half++) {
            const int32_t *w = axis->weights + i * STK_FILTER_STEP + half * 2;
            for (size_t lane = 0; lane < 4; lane++) {
                steps[i].low[half * 4 + lane] = pair(low_of(w[0]), low_of(w[1]));
                steps[i].high[half * 4 + lane] = pair(high_of(w[0]), high_of(w[1]));
            }
        }
    return steps;
}

/* R, G, B and nothing of one pixel, still times 2^22. */
WIDE static inline __m128i join(__m256i low, __m256i high)
{
    __m256i sum = _mm256_add_epi32(low, _mm256_slli_epi32(high, LOW_BITS));
    __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    return _mm_srai_epi32(_mm_add_epi32(both, _mm_set1_epi32(STK_FILTER_HALF)), STK_FILTER_BITS);
}

/* One line: its pixels of `steps_each` steps; four lines share the reading of weights. */
WIDE static void across_four(const struct stk_filter_axis *axis, const struct step *steps, const uint8_t *const from[4],
                             uint8_t *const to[4])
{
    const __m256i spread = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /* taps 0, 1 */
                                            6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const uint32_t each = axis->taps / STK_FILTER_STEP;
    for (uint32_t x = 0; x < axis->outputs; x++) {
        size_t at = (size_t)axis->first[x] * 3;
        uint32_t used = (axis->real[x] + STK_FILTER_STEP - 1) / STK_FILTER_STEP;
        __m256i low[4], high[4];
        for (int i = 0; i < 4; i++) low[i] = high[i] = _mm256_setzero_si256();
        for (uint32_t s = 0; s < used; s++, at += (size_t)STK_FILTER_STEP * 3) {
            const struct step *step = &steps[(size_t)x * each + s];
            __m256i low_weights = _mm256_load_si256((const __m256i *)(const void *)step->low);
            __m256i high_weights = _mm256_load_si256((const __m256i *)(const void *)step->high);
            for (int i = 0; i < 4; i++) {
                __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from[i] + at));
                __m256i values = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), spread);
                low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(values, low_weights));
                high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(values, high_weights));
            }
        }
        __m128i first = _mm_packs_epi32(join(low[0], high[0]), join(low[1], high[1]));
        __m128i second = _mm_packs_epi32(join(low[2], high[2]), join(low[3], high[3]));
        uint8_t out[16];
        _mm_storeu_si128((__m128i *)(void *)out, _mm_packus_epi16(first, second));
        for (size_t i = 0; i < 4; i++) memcpy(to[i] + (size_t)x * 3, out + 4 * i, 4); /* the next pixel mends the 4th */
    }
}

stoker_status stk_filter_across_wide(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines,
                                     stoker_error *err)
{
    struct step *steps = make_steps(axis);
    if (!steps) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a filter of %u taps", axis->taps);
    for (uint32_t line = 0; line < lines->count; line += 4) {
        const uint8_t *from[4];
        uint8_t *to[4];
        for (uint32_t i = 0; i < 4; i++) { /* the last line again where there is none */
            uint32_t which = line + i < lines->count ? line + i : lines->count - 1;
            from[i] = lines->from + which * lines->from_stride;
            to[i] = lines->to + which * lines->to_stride;
        }
        across_four(axis, steps, from, to);
    }
    free(steps);
    return STOKER_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- down
 */

struct sums {
    __m256i low[4], high[4];
};

/* Two lines of 32 values times their weights. The order of values is undone by the packing. */
WIDE static inline void add_pair(struct sums *sums, __m256i first, __m256i second, __m256i low_weights,
                                 __m256i high_weights)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i left = _mm256_unpacklo_epi8(first, second), right = _mm256_unpackhi_epi8(first, second);
    const __m256i values[4] = {_mm256_unpacklo_epi8(left, zero), _mm256_unpackhi_epi8(left, zero),
                               _mm256_unpacklo_epi8(right, zero), _mm256_unpackhi_epi8(right, zero)};
    for (int i = 0; i < 4; i++) {
        sums->low[i] = _mm256_add_epi32(sums->low[i], _mm256_madd_epi16(values[i], low_weights));
        sums->high[i] = _mm256_add_epi32(sums->high[i], _mm256_madd_epi16(values[i], high_weights));
    }
}

WIDE static inline void put(uint8_t *to, const struct sums *sums)
{
    __m256i whole[4];
    for (int i = 0; i < 4; i++) {
        __m256i sum = _mm256_add_epi32(sums->low[i], _mm256_slli_epi32(sums->high[i], LOW_BITS));
        whole[i] = _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(STK_FILTER_HALF)), STK_FILTER_BITS);
    }
    __m256i first = _mm256_packs_epi32(whole[0], whole[1]), second = _mm256_packs_epi32(whole[2], whole[3]);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_packus_epi16(first, second));
}

WIDE void stk_filter_down_wide(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines, size_t bytes)
{
    STK_ASSERT(lines->to_stride % 32 == 0 && lines->to_stride >= bytes);
    for (uint32_t y = 0; y < axis->outputs; y++) {
        const int32_t *weights = axis->weights + (size_t)y * axis->taps;
        const uint8_t *from = lines->from + axis->first[y] * lines->from_stride;
        uint8_t *to = lines->to + y * lines->to_stride;
        uint32_t taps = axis->real[y];
        for (size_t x = 0; x < bytes; x += 32) {
            struct sums sums;
            for (int i = 0; i < 4; i++) sums.low[i] = sums.high[i] = _mm256_setzero_si256();
            for (uint32_t t = 0; t < taps; t += 2) {
                const uint8_t *line = from + t * lines->from_stride + x;
                bool alone = t + 1 == taps;
                __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)line);
                __m256i second =
                    alone ? first : _mm256_loadu_si256((const __m256i *)(const void *)(line + lines->from_stride));
                int32_t w0 = weights[t], w1 = alone ? 0 : weights[t + 1];
                add_pair(&sums, first, second, _mm256_set1_epi32((int32_t)pair(low_of(w0), low_of(w1))),
                         _mm256_set1_epi32((int32_t)pair(high_of(w0), high_of(w1))));
            }
            put(to + x, &sums);
        }
    }
}

/* --------------------------------------------------------------------------------------------------------------- split
 */

/* 16 pixels: bytes 3*i + channel, from three registers. */
WIDE size_t stk_filter_split_wide(const uint8_t *from, size_t width, uint8_t *r, uint8_t *g, uint8_t *b)
{
    uint8_t *const to[3] = {r, g, b};
    __m128i masks[3][3];
    for (int c = 0; c < 3; c++)
        for (int part = 0; part < 3; part++) {
            int8_t mask[16];
            for (int i = 0; i < 16; i++) {
                int at = 3 * i + c - 16 * part;
                mask[i] = at >= 0 && at < 16 ? (int8_t)at : -1;
            }
            masks[c][part] = _mm_loadu_si128((const __m128i *)(const void *)mask);
        }
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const __m128i *at = (const __m128i *)(const void *)(from + 3 * x);
        __m128i first = _mm_loadu_si128(at), second = _mm_loadu_si128(at + 1), third = _mm_loadu_si128(at + 2);
        for (int c = 0; c < 3; c++) {
            __m128i out = _mm_or_si128(_mm_shuffle_epi8(first, masks[c][0]), _mm_shuffle_epi8(second, masks[c][1]));
            out = _mm_or_si128(out, _mm_shuffle_epi8(third, masks[c][2]));
            _mm_storeu_si128((__m128i *)(void *)(to[c] + x), out);
        }
    }
    return x;
}

#else

bool stk_filter_is_wide(void) { return false; }

stoker_status stk_filter_across_wide(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines,
                                     stoker_error *err)
{
    (void)axis, (void)lines;
    STK_ASSERT(stk_filter_is_wide());
    return stk_fail(err, STOKER_ERR_INTERNAL, "no vector code on this machine");
}

void stk_filter_down_wide(const struct stk_filter_axis *axis, const struct stk_filter_lines *lines, size_t bytes)
{
    (void)axis, (void)lines, (void)bytes;
    STK_ASSERT(stk_filter_is_wide());
}

size_t stk_filter_split_wide(const uint8_t *from, size_t width, uint8_t *r, uint8_t *g, uint8_t *b)
{
    (void)from, (void)width, (void)r, (void)g, (void)b;
    return 0;
}

#endif
