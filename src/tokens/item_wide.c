/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of items with AVX2: see item.h. What is left over at the end goes through the portable ones.
 */
#include "tokens/item.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include <stoker/dataset.h>

#define WIDE __attribute__((target("avx2")))

WIDE static inline __m128i load16(const uint8_t *from) { return _mm_loadu_si128((const __m128i *)(const void *)from); }

/* 4 or 2 bytes, in the low lanes. */
WIDE static inline __m128i load4(const uint8_t *from)
{
    int32_t bits;
    memcpy(&bits, from, sizeof bits);
    return _mm_cvtsi32_si128(bits);
}

WIDE static inline __m128i load8(const uint8_t *from) { return _mm_loadl_epi64((const __m128i *)(const void *)from); }

WIDE static inline void store(int64_t *out, __m256i values) { _mm256_storeu_si256((__m256i *)(void *)out, values); }

/* Eight elements a turn. */
#define WIDEN(size, load, convert)                                                                                     \
    for (; i + 8 <= count; i += 8) {                                                                                   \
        store(out + i, convert(load(bytes + (size)*i)));                                                               \
        store(out + i + 4, convert(load(bytes + (size) * (i + 4))));                                                   \
    }

/* Elements before the first whole vector of `out`: stores that cross a cache line take two turns. */
static inline size_t before_vector(const int64_t *out, size_t count)
{
    size_t head = (0 - (uintptr_t)out / sizeof *out) % 4;
    return head < count ? head : count;
}

WIDE static void widen(int dtype_code, const void *from, size_t count, int64_t *out)
{
    const uint8_t *bytes = from;
    size_t i = before_vector(out, count), size = 0;
    stk_item_plain.widen(dtype_code, bytes, i, out);
    switch (dtype_code) {
    case STOKER_TOKEN_UINT8: size = 1; WIDEN(1, load4, _mm256_cvtepu8_epi64) break;
    case STOKER_TOKEN_INT8: size = 1; WIDEN(1, load4, _mm256_cvtepi8_epi64) break;
    case STOKER_TOKEN_UINT16: size = 2; WIDEN(2, load8, _mm256_cvtepu16_epi64) break;
    case STOKER_TOKEN_INT16: size = 2; WIDEN(2, load8, _mm256_cvtepi16_epi64) break;
    case STOKER_TOKEN_INT32: size = 4; WIDEN(4, load16, _mm256_cvtepi32_epi64) break;
    default: size = sizeof *out; break; /* a copy */
    }
    stk_item_plain.widen(dtype_code, bytes + i * size, count - i, out + i);
}

WIDE static inline __m256i load32(const uint8_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

/* 64 bytes a turn. `wanted` has the value in each lane. */
#define HOLDS(size, compare)                                                                                           \
    for (; i + 64 / (size) <= count; i += 64 / (size)) {                                                               \
        __m256i low = compare(load32(bytes + (size)*i), wanted);                                                       \
        __m256i high = compare(load32(bytes + (size)*i + 32), wanted);                                                 \
        if (_mm256_movemask_epi8(_mm256_or_si256(low, high)) != 0) return true;                                        \
    }

WIDE static bool holds(int dtype_code, const void *from, size_t count, int64_t value)
{
    const uint8_t *bytes = from;
    size_t i = 0, size = 0;
    __m256i wanted = _mm256_set1_epi16((int16_t)(uint16_t)((uint64_t)value & UINT16_MAX));
    switch (dtype_code) {
    case STOKER_TOKEN_UINT16:
        if (value < 0 || value > UINT16_MAX) return false;
        size = 2;
        HOLDS(2, _mm256_cmpeq_epi16)
        break;
    case STOKER_TOKEN_INT32:
        if (value < INT32_MIN || value > INT32_MAX) return false;
        size = 4;
        wanted = _mm256_set1_epi32((int32_t)value);
        HOLDS(4, _mm256_cmpeq_epi32)
        break;
    default: break; /* the rest is rare */
    }
    return stk_item_plain.holds(dtype_code, bytes + i * size, count - i, value);
}

WIDE static void ramp(int64_t *out, size_t count)
{
    size_t i = 0;
    __m256i values = _mm256_setr_epi64x(0, 1, 2, 3);
    const __m256i step = _mm256_set1_epi64x(4);
    for (; i + 4 <= count; i += 4) {
        store(out + i, values);
        values = _mm256_add_epi64(values, step);
    }
    for (; i < count; i++) out[i] = (int64_t)i;
}

WIDE static void fill(float *out, size_t count, float value)
{
    size_t i = 0;
    const __m256 values = _mm256_set1_ps(value);
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(out + i, values);
    for (; i < count; i++) out[i] = value;
}

WIDE static inline __m256i equal(const int64_t *values, __m256i wanted)
{
    return _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *)(const void *)values), wanted);
}

WIDE static bool find(const int64_t *values, size_t count, int64_t value)
{
    size_t i = 0;
    const __m256i wanted = _mm256_set1_epi64x(value);
    for (; i + 16 <= count; i += 16) {
        __m256i low = _mm256_or_si256(equal(values + i, wanted), equal(values + i + 4, wanted));
        __m256i high = _mm256_or_si256(equal(values + i + 8, wanted), equal(values + i + 12, wanted));
        if (!_mm256_testz_si256(_mm256_or_si256(low, high), _mm256_or_si256(low, high))) return true;
    }
    return stk_item_plain.find(values + i, count - i, value);
}

WIDE static void unmask(const int64_t *values, size_t count, int64_t value, float *loss)
{
    size_t i = 0;
    const __m256i wanted = _mm256_set1_epi64x(value), low_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    for (; i + 4 <= count; i += 4) {
        __m256i same = _mm256_permutevar8x32_epi32(equal(values + i, wanted), low_halves);
        __m128 kept = _mm_andnot_ps(_mm_castsi128_ps(_mm256_castsi256_si128(same)), _mm_loadu_ps(loss + i));
        _mm_storeu_ps(loss + i, kept);
    }
    stk_item_plain.unmask(values + i, count - i, value, loss + i);
}

WIDE static void clear(int64_t *values, size_t count, int64_t value)
{
    size_t i = 0;
    const __m256i wanted = _mm256_set1_epi64x(value);
    for (; i + 4 <= count; i += 4) {
        __m256i have = _mm256_loadu_si256((const __m256i *)(const void *)(values + i));
        store(values + i, _mm256_andnot_si256(_mm256_cmpeq_epi64(have, wanted), have));
    }
    stk_item_plain.clear(values + i, count - i, value);
}

const struct stk_item_ops *stk_item_wide(void)
{
    static const struct stk_item_ops wide = {widen, holds, ramp, fill, find, unmask, clear};
    return __builtin_cpu_supports("avx2") ? &wide : NULL;
}

#else

const struct stk_item_ops *stk_item_wide(void) { return NULL; }

#endif
