/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of resample.c with AVX2: the same integers, 16 at a time. On machines without it nothing here is called.
 */
#include "media/resample_internal.h"

#include "base/assert.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx2")))

bool stk_resample_is_wide(void) { return __builtin_cpu_supports("avx2"); }

/* 8 outputs as 32-bit sums: two groups of 4, one in each half of the register. */
WIDE static inline __m256i sum_groups(const struct stk_steps *steps, const uint8_t *from, size_t at)
{
    __m256i low = _mm256_setzero_si256(), high = low;
    const __m256i zero = low;
    for (size_t s = 0; s < steps->per_group; s++) {
        size_t a = at + s, b = a + steps->per_group;
        const struct stk_step *left = &steps->steps[a], *right = &steps->steps[b];
        __m128i left_bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + steps->base[a]));
        __m128i right_bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + steps->base[b]));
        left_bytes = _mm_shuffle_epi8(left_bytes, _mm_loadu_si128((const __m128i *)(const void *)left->mask));
        right_bytes = _mm_shuffle_epi8(right_bytes, _mm_loadu_si128((const __m128i *)(const void *)right->mask));
        __m256i bytes = _mm256_set_m128i(right_bytes, left_bytes);
        const __m128i *lw = (const __m128i *)(const void *)left->weights,
                      *rw = (const __m128i *)(const void *)right->weights;
        __m256i low_weights = _mm256_set_m128i(_mm_loadu_si128(rw), _mm_loadu_si128(lw));
        __m256i high_weights = _mm256_set_m128i(_mm_loadu_si128(rw + 1), _mm_loadu_si128(lw + 1));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi8(bytes, zero), low_weights));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi8(bytes, zero), high_weights));
    }
    __m256i sums = _mm256_hadd_epi32(low, high); /* in order: pairs of taps are joined within each half */
    return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(64)), 7);
}

WIDE void stk_resample_across_wide(const struct stk_steps *steps, const uint8_t *from, int16_t *to)
{
    STK_ASSERT(steps->groups % 4 == 0);
    for (size_t group = 0; group < steps->groups; group += 4) {
        __m256i first = sum_groups(steps, from, group * steps->per_group);
        __m256i second = sum_groups(steps, from, (group + 2) * steps->per_group);
        __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(to + group * STK_GROUP), both);
    }
}

WIDE void stk_resample_copy_wide(const uint8_t *from, int16_t *to, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i values = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(from + i)));
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_slli_epi16(values, 7));
    }
    for (; i < count; i++) to[i] = (int16_t)(from[i] << 7);
}

WIDE static inline __m256i down(const struct stk_lines *lines, size_t x)
{
    __m256i sum = _mm256_setzero_si256();
    for (uint32_t t = 0; t < lines->taps; t++) {
        __m256i values = _mm256_loadu_si256((const __m256i *)(const void *)(lines->lines[t] + x));
        sum = _mm256_add_epi16(sum, _mm256_mulhrs_epi16(values, _mm256_set1_epi16(lines->weights[t])));
    }
    return sum;
}

WIDE static inline void put(uint8_t *to, __m256i value)
{
    value = _mm256_srai_epi16(_mm256_add_epi16(value, _mm256_set1_epi16(16)), 5);
    __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(value, value), 0xd8);
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(bytes));
}

WIDE void stk_resample_down_wide(const struct stk_lines planes[3], const struct stk_matrix *matrix, size_t line,
                                 uint8_t *const rgb[3])
{
    const __m256i y_offset = _mm256_set1_epi16(matrix->y_offset), c_offset = _mm256_set1_epi16(128 * 64);
    const __m256i by_y = _mm256_set1_epi16(matrix->y), r_v = _mm256_set1_epi16(matrix->r_v);
    const __m256i g_u = _mm256_set1_epi16(matrix->g_u), g_v = _mm256_set1_epi16(matrix->g_v);
    const __m256i b_u = _mm256_set1_epi16(matrix->b_u);
    for (size_t x = 0; x < line; x += 16) {
        __m256i y = _mm256_slli_epi16(_mm256_sub_epi16(down(&planes[0], x), y_offset), 1);
        __m256i u = _mm256_slli_epi16(_mm256_sub_epi16(down(&planes[1], x), c_offset), 1);
        __m256i v = _mm256_slli_epi16(_mm256_sub_epi16(down(&planes[2], x), c_offset), 1);
        __m256i grey = _mm256_mulhrs_epi16(y, by_y);
        put(rgb[0] + x, _mm256_add_epi16(grey, _mm256_mulhrs_epi16(v, r_v)));
        put(rgb[1] + x,
            _mm256_add_epi16(_mm256_add_epi16(grey, _mm256_mulhrs_epi16(u, g_u)), _mm256_mulhrs_epi16(v, g_v)));
        put(rgb[2] + x, _mm256_add_epi16(grey, _mm256_mulhrs_epi16(u, b_u)));
    }
}

#else

bool stk_resample_is_wide(void) { return false; }

void stk_resample_across_wide(const struct stk_steps *steps, const uint8_t *from, int16_t *to)
{
    (void)steps, (void)from, (void)to;
    STK_ASSERT(stk_resample_is_wide());
}

void stk_resample_copy_wide(const uint8_t *from, int16_t *to, size_t count)
{
    (void)from, (void)to, (void)count;
    STK_ASSERT(stk_resample_is_wide());
}

void stk_resample_down_wide(const struct stk_lines planes[3], const struct stk_matrix *matrix, size_t line,
                            uint8_t *const rgb[3])
{
    (void)planes, (void)matrix, (void)line, (void)rgb;
    STK_ASSERT(stk_resample_is_wide());
}

#endif
