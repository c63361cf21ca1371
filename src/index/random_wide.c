/* SPDX-License-Identifier: Apache-2.0
 *
 * The bulk draws of random.c with AVX2: eight words are tempered, masked and compared at once, and the accepted ones
 * moved together. On machines without it nothing here is called.
 */
#include "index/random_internal.h"

#include "base/assert.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx2,popcnt")))

bool stk_random_is_wide(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"); }

WIDE static inline __m256i load(const uint32_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}
WIDE static inline void store(uint32_t *to, __m256i value) { _mm256_storeu_si256((__m256i *)(void *)to, value); }

WIDE static inline __m256i temper(__m256i y)
{
    y = _mm256_xor_si256(y, _mm256_srli_epi32(y, 11));
    y = _mm256_xor_si256(y, _mm256_and_si256(_mm256_slli_epi32(y, 7), _mm256_set1_epi32((int)0x9D2C5680u)));
    y = _mm256_xor_si256(y, _mm256_and_si256(_mm256_slli_epi32(y, 15), _mm256_set1_epi32((int)0xEFC60000u)));
    return _mm256_xor_si256(y, _mm256_srli_epi32(y, 18));
}

static const uint32_t lane_orders[256] = {
    0x00000000, 0x00000000, 0x00000001, 0x00000010, 0x00000002, 0x00000020, 0x00000021, 0x00000210, 0x00000003,
    0x00000030, 0x00000031, 0x00000310, 0x00000032, 0x00000320, 0x00000321, 0x00003210, 0x00000004, 0x00000040,
    0x00000041, 0x00000410, 0x00000042, 0x00000420, 0x00000421, 0x00004210, 0x00000043, 0x00000430, 0x00000431,
    0x00004310, 0x00000432, 0x00004320, 0x00004321, 0x00043210, 0x00000005, 0x00000050, 0x00000051, 0x00000510,
    0x00000052, 0x00000520, 0x00000521, 0x00005210, 0x00000053, 0x00000530, 0x00000531, 0x00005310, 0x00000532,
    0x00005320, 0x00005321, 0x00053210, 0x00000054, 0x00000540, 0x00000541, 0x00005410, 0x00000542, 0x00005420,
    0x00005421, 0x00054210, 0x00000543, 0x00005430, 0x00005431, 0x00054310, 0x00005432, 0x00054320, 0x00054321,
    0x00543210, 0x00000006, 0x00000060, 0x00000061, 0x00000610, 0x00000062, 0x00000620, 0x00000621, 0x00006210,
    0x00000063, 0x00000630, 0x00000631, 0x00006310, 0x00000632, 0x00006320, 0x00006321, 0x00063210, 0x00000064,
    0x00000640, 0x00000641, 0x00006410, 0x00000642, 0x00006420, 0x00006421, 0x00064210, 0x00000643, 0x00006430,
    0x00006431, 0x00064310, 0x00006432, 0x00064320, 0x00064321, 0x00643210, 0x00000065, 0x00000650, 0x00000651,
    0x00006510, 0x00000652, 0x00006520, 0x00006521, 0x00065210, 0x00000653, 0x00006530, 0x00006531, 0x00065310,
    0x00006532, 0x00065320, 0x00065321, 0x00653210, 0x00000654, 0x00006540, 0x00006541, 0x00065410, 0x00006542,
    0x00065420, 0x00065421, 0x00654210, 0x00006543, 0x00065430, 0x00065431, 0x00654310, 0x00065432, 0x00654320,
    0x00654321, 0x06543210, 0x00000007, 0x00000070, 0x00000071, 0x00000710, 0x00000072, 0x00000720, 0x00000721,
    0x00007210, 0x00000073, 0x00000730, 0x00000731, 0x00007310, 0x00000732, 0x00007320, 0x00007321, 0x00073210,
    0x00000074, 0x00000740, 0x00000741, 0x00007410, 0x00000742, 0x00007420, 0x00007421, 0x00074210, 0x00000743,
    0x00007430, 0x00007431, 0x00074310, 0x00007432, 0x00074320, 0x00074321, 0x00743210, 0x00000075, 0x00000750,
    0x00000751, 0x00007510, 0x00000752, 0x00007520, 0x00007521, 0x00075210, 0x00000753, 0x00007530, 0x00007531,
    0x00075310, 0x00007532, 0x00075320, 0x00075321, 0x00753210, 0x00000754, 0x00007540, 0x00007541, 0x00075410,
    0x00007542, 0x00075420, 0x00075421, 0x00754210, 0x00007543, 0x00075430, 0x00075431, 0x00754310, 0x00075432,
    0x00754320, 0x00754321, 0x07543210, 0x00000076, 0x00000760, 0x00000761, 0x00007610, 0x00000762, 0x00007620,
    0x00007621, 0x00076210, 0x00000763, 0x00007630, 0x00007631, 0x00076310, 0x00007632, 0x00076320, 0x00076321,
    0x00763210, 0x00000764, 0x00007640, 0x00007641, 0x00076410, 0x00007642, 0x00076420, 0x00076421, 0x00764210,
    0x00007643, 0x00076430, 0x00076431, 0x00764310, 0x00076432, 0x00764320, 0x00764321, 0x07643210, 0x00000765,
    0x00007650, 0x00007651, 0x00076510, 0x00007652, 0x00076520, 0x00076521, 0x00765210, 0x00007653, 0x00076530,
    0x00076531, 0x00765310, 0x00076532, 0x00765320, 0x00765321, 0x07653210, 0x00007654, 0x00076540, 0x00076541,
    0x00765410, 0x00076542, 0x00765420, 0x00765421, 0x07654210, 0x00076543, 0x00765430, 0x00765431, 0x07654310,
    0x00765432, 0x07654320, 0x07654321, 0x76543210,
};

/* Lanes whose bit is set, moved to the front in order: entry `bits` holds their numbers, a nibble each. */
WIDE static inline __m256i compress(__m256i value, uint32_t bits)
{
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    __m256i order = _mm256_srlv_epi32(_mm256_set1_epi32((int)lane_orders[bits]), shifts);
    return _mm256_permutevar8x32_epi32(value, order); /* only the low three bits of an index count */
}

/* Twist of eight words at key, which the words `middle` away are mixed into. */
WIDE static inline void twist(uint32_t *key, const uint32_t *middle)
{
    const __m256i top = _mm256_set1_epi32((int)0x80000000u), one = _mm256_set1_epi32(1);
    __m256i next = load(key + 1);
    __m256i y = _mm256_or_si256(_mm256_and_si256(load(key), top), _mm256_andnot_si256(top, next));
    __m256i odd = _mm256_cmpeq_epi32(_mm256_and_si256(next, one), one);
    __m256i matrix = _mm256_and_si256(odd, _mm256_set1_epi32((int)0x9908B0DFu));
    store(key, _mm256_xor_si256(_mm256_xor_si256(load(middle), matrix), _mm256_srli_epi32(y, 1)));
}

static inline uint32_t twist_one(uint32_t high, uint32_t low)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7FFFFFFFu);
    return (y >> 1) ^ (-(y & 1u) & 0x9908B0DFu);
}

WIDE static void renew(struct stk_mt19937 *random)
{
    enum { BACK = STK_MT_WORDS - STK_MT_MIDDLE };
    uint32_t *key = random->key, i = 0;
    for (; i + 8 <= BACK; i += 8) twist(key + i, key + i + STK_MT_MIDDLE);
    for (; i < BACK; i++) key[i] = key[i + STK_MT_MIDDLE] ^ twist_one(key[i], key[i + 1]);
    for (; i + 8 < STK_MT_WORDS; i += 8) twist(key + i, key + i - BACK);
    for (; i < STK_MT_WORDS - 1; i++) key[i] = key[i - BACK] ^ twist_one(key[i], key[i + 1]);
    key[i] = key[i - BACK] ^ twist_one(key[i], key[0]);
    random->position = 0;
}

/* Eight words at once while what each of them is compared with is sure: whatever the words before it are, the bound
 * of a word is within max - 7 ... max. A word in that range, which is rare, is left to the loop over single words. */
WIDE void stk_mt19937_draws_wide(struct stk_mt19937 *random, uint32_t max, uint32_t mask, uint32_t count, uint32_t *out)
{
    const uint32_t end = max - count;
    const __m256i masks = _mm256_set1_epi32((int)mask);
    while (max != end) {
        if (random->position >= STK_MT_WORDS) renew(random);
        uint32_t position = random->position;
        if (mask <= (uint32_t)INT32_MAX) {
            while (position + 8 <= STK_MT_WORDS && max - end >= 8) {
                __m256i value = _mm256_and_si256(temper(load(random->key + position)), masks);
                __m256i above = _mm256_cmpgt_epi32(value, _mm256_set1_epi32((int)max));
                __m256i unsure = _mm256_cmpgt_epi32(value, _mm256_set1_epi32((int)max - 8));
                uint32_t refused = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(above));
                if ((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(unsure)) != refused) break;
                uint32_t accepted = refused ^ 0xFFu, taken = (uint32_t)__builtin_popcount(accepted);
                store(out, compress(value, accepted));
                out += taken;
                max -= taken;
                position += 8;
            }
        }
        for (uint32_t k = 0; k < 8 && position < STK_MT_WORDS && max != end; k++) {
            uint32_t value = stk_mt_temper(random->key[position++]) & mask;
            *out = value;
            out += value <= max;
            max -= value <= max;
        }
        random->position = position;
    }
}

#else

bool stk_random_is_wide(void) { return false; }

void stk_mt19937_draws_wide(struct stk_mt19937 *random, uint32_t max, uint32_t mask, uint32_t count, uint32_t *out)
{
    stk_mt19937_draws(random, max, mask, count, out);
}

#endif
