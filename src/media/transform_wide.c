/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels into values with AVX2 and F16C: see transform_internal.h.
 */
#include "media/transform_internal.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx2,f16c")))

/* Every processor with AVX2 has F16C, which is older; not every compiler can ask for it by name. */
static bool is_wide(void) { return __builtin_cpu_supports("avx2"); }

WIDE static inline __m256 eight(const uint8_t *in, __m256 scale, __m256 offset)
{
    __m256i whole = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)in));
    return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(whole), scale), offset);
}

WIDE static size_t floats(const uint8_t *in, float *out, size_t count, struct stk_affine affine, bool past_cache)
{
    const __m256 scale = _mm256_set1_ps(affine.scale), offset = _mm256_set1_ps(affine.offset);
    size_t i = 0;
    if (past_cache && ((uintptr_t)out & 31) == 0) {
        for (; i + 8 <= count; i += 8) _mm256_stream_ps(out + i, eight(in + i, scale, offset));
    } else {
        for (; i + 8 <= count; i += 8) _mm256_storeu_ps(out + i, eight(in + i, scale, offset));
    }
    return i;
}

/* To nearest even; the values are finite or infinite, never NaN, which would need care. */
WIDE static inline __m256i round_bfloat(__m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)), 16);
}

WIDE static size_t bfloats(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine)
{
    const __m256 scale = _mm256_set1_ps(affine.scale), offset = _mm256_set1_ps(affine.offset);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i low = round_bfloat(eight(in + i, scale, offset)), high = round_bfloat(eight(in + i + 8, scale, offset));
        __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(out + i), both);
    }
    return i;
}

WIDE static size_t halves(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine)
{
    const __m256 scale = _mm256_set1_ps(affine.scale), offset = _mm256_set1_ps(affine.offset);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i eight_halves = _mm256_cvtps_ph(eight(in + i, scale, offset), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(out + i), eight_halves);
    }
    return i;
}

size_t stk_floats_wide(const uint8_t *in, float *out, size_t count, struct stk_affine affine, bool past_cache)
{
    return is_wide() ? floats(in, out, count, affine, past_cache) : 0;
}

size_t stk_bfloats_wide(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine)
{
    return is_wide() ? bfloats(in, out, count, affine) : 0;
}

size_t stk_halves_wide(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine)
{
    return is_wide() ? halves(in, out, count, affine) : 0;
}

void stk_wide_finish(bool past_cache)
{
    if (past_cache) _mm_sfence();
}

#else

size_t stk_floats_wide(const uint8_t *in, float *out, size_t count, struct stk_affine affine, bool past_cache)
{
    (void)in, (void)out, (void)count, (void)affine, (void)past_cache;
    return 0;
}

size_t stk_bfloats_wide(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine)
{
    (void)in, (void)out, (void)count, (void)affine;
    return 0;
}

size_t stk_halves_wide(const uint8_t *in, uint16_t *out, size_t count, struct stk_affine affine)
{
    (void)in, (void)out, (void)count, (void)affine;
    return 0;
}

void stk_wide_finish(bool past_cache) { (void)past_cache; }

#endif
