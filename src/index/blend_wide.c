/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ways to compute a blend with AVX2: four errors at once, in the same double arithmetic (a product and a
 * difference, never joined). Arrays that are read as vectors are also written as vectors: a load of four doubles that
 * follows a store of one of them waits until the store has left the core.
 */
#include "index/blend_internal.h"

#include "base/assert.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define KERNEL __attribute__((target("avx2,popcnt,bmi")))

bool stk_blend_is_wide(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi");
}

static const uint64_t lane_masks[4][4] = {
    {UINT64_MAX, 0, 0, 0}, {0, UINT64_MAX, 0, 0}, {0, 0, UINT64_MAX, 0}, {0, 0, 0, UINT64_MAX}};

KERNEL static inline __m256d lane_mask(uint32_t lane)
{
    return _mm256_castsi256_pd(_mm256_loadu_si256((const __m256i *)(const void *)lane_masks[lane]));
}

/* The largest lane in every lane. */
KERNEL static inline __m256d spread_max(__m256d v)
{
    v = _mm256_max_pd(v, _mm256_permute2f128_pd(v, v, 1));
    return _mm256_max_pd(v, _mm256_permute_pd(v, 5));
}

KERNEL static inline __m256d errors_at(const double *weight, const double *taken, uint32_t at, __m256d x)
{
    return _mm256_sub_pd(_mm256_mul_pd(_mm256_loadu_pd(weight + at), x), _mm256_loadu_pd(taken + at));
}

KERNEL static inline uint32_t bits_of(__m256d mask) { return (uint32_t)_mm256_movemask_pd(mask); }
KERNEL static inline __m256d equal(__m256d a, __m256d b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }

/* What becomes of the slot after a sample was taken of its entry: nothing within a round, one more taken, or
 * infinity. */
enum after { SAME, TAKEN, GONE };

static inline enum after take(struct stk_blend *blend, uint32_t slot, uint64_t position, int16_t *out_dataset,
                              int64_t *out_sample)
{
    struct stk_blend_entry *entry = &blend->entry[blend->slot_entry[slot]];
    blend->picked[position % STK_BLEND_BATCH] = (uint16_t)slot;
    if (!stk_blend_take(entry, position, out_dataset, out_sample)) return SAME;
    return entry->taken > STK_BLEND_STEP_MAX ? GONE : TAKEN;
}

#define UNROLL _Pragma("GCC unroll 16")

/* All slots in registers. The next position waits for one difference, the maxima, one comparison and one addition; what
 * has the number of the winner in it is off this path, unless two tie. */
KERNEL static inline __attribute__((always_inline)) uint64_t run_few(struct stk_blend *blend, uint64_t from,
                                                                     uint64_t end, int16_t *out_dataset,
                                                                     int64_t *out_sample, uint32_t vectors)
{
    const __m256d one = _mm256_set1_pd(1.0), infinity = _mm256_set1_pd(__builtin_inf());
    const double threshold = blend->threshold;
    __m256d weight[16], taken[16], x = _mm256_set1_pd((double)from), lowest = _mm256_set1_pd(blend->lowest);
    uint64_t i = from;
    UNROLL for (uint32_t v = 0; v < vectors; v++)
    {
        weight[v] = _mm256_loadu_pd(blend->slot_weight + 4 * v);
        taken[v] = _mm256_loadu_pd(blend->slot_taken + 4 * v);
    }
    for (; i < end; i++, x = _mm256_add_pd(x, one)) {
        __m256d error[16], at = _mm256_max_pd(x, one), most;
        uint64_t bits = 0;
        UNROLL for (uint32_t v = 0; v < vectors; v++)
        {
            error[v] = _mm256_sub_pd(_mm256_mul_pd(weight[v], at), taken[v]);
            most = v == 0 ? error[v] : _mm256_max_pd(most, error[v]);
        }
        most = spread_max(most);
        if (!(_mm256_cvtsd_f64(most) >= threshold)) break;
        lowest = _mm256_min_pd(lowest, most);
        UNROLL for (uint32_t v = 0; v < vectors; v++)
        {
            error[v] = equal(error[v], most);
            bits |= (uint64_t)bits_of(error[v]) << (4 * v);
        }
        uint32_t slot = stk_blend_lowest(blend, 0, bits);
        if ((bits & (bits - 1)) != 0)
            UNROLL for (uint32_t v = 0; v < vectors; v++) error[v] =
                slot / 4 == v ? lane_mask(slot % 4) : _mm256_setzero_pd();
        enum after after = take(blend, slot, i, out_dataset, out_sample);
        if (after == TAKEN) {
            UNROLL for (uint32_t v = 0; v < vectors; v++) taken[v] =
                _mm256_add_pd(taken[v], _mm256_and_pd(error[v], one));
        } else if (after == GONE) {
            UNROLL for (uint32_t v = 0; v < vectors; v++) taken[v] = _mm256_blendv_pd(taken[v], infinity, error[v]);
        }
    }
    UNROLL for (uint32_t v = 0; v < vectors; v++) _mm256_storeu_pd(blend->slot_taken + 4 * v, taken[v]);
    blend->lowest = _mm256_cvtsd_f64(lowest);
    return i;
}

/* Read as a vector, so written as one. */
KERNEL static inline void store_after(struct stk_blend *blend, uint32_t slot, enum after after)
{
    double *vector = blend->slot_taken + slot / 4 * 4;
    __m256d old = _mm256_loadu_pd(vector), mine = lane_mask(slot % 4), one = _mm256_set1_pd(1.0);
    if (after == TAKEN)
        _mm256_storeu_pd(vector, _mm256_add_pd(old, _mm256_and_pd(mine, one)));
    else if (after == GONE)
        _mm256_storeu_pd(vector, _mm256_blendv_pd(old, _mm256_set1_pd(__builtin_inf()), mine));
}

/* Any number of slots in memory. */
KERNEL static uint64_t run_many(struct stk_blend *blend, uint64_t from, uint64_t end, int16_t *out_dataset,
                                int64_t *out_sample)
{
    for (uint64_t i = from; i < end; i++) {
        __m256d x = _mm256_set1_pd(stk_blend_x(i)), most = _mm256_set1_pd(-__builtin_inf());
        uint32_t best = STK_BLEND_NONE;
        for (uint32_t s = 0; s < blend->awake; s += 8) {
            __m256d low = errors_at(blend->slot_weight, blend->slot_taken, s, x);
            most = _mm256_max_pd(most, _mm256_max_pd(low, errors_at(blend->slot_weight, blend->slot_taken, s + 4, x)));
        }
        most = spread_max(most);
        if (!(_mm256_cvtsd_f64(most) >= blend->threshold)) return i;
        if (_mm256_cvtsd_f64(most) < blend->lowest) blend->lowest = _mm256_cvtsd_f64(most);
        for (uint32_t s = 0; s < blend->awake; s += 8) {
            uint32_t bits = bits_of(equal(errors_at(blend->slot_weight, blend->slot_taken, s, x), most));
            bits |= bits_of(equal(errors_at(blend->slot_weight, blend->slot_taken, s + 4, x), most)) << 4;
            if (bits == 0) continue;
            uint32_t slot = stk_blend_lowest(blend, s, bits);
            if (best == STK_BLEND_NONE ||
                stk_blend_member(blend, blend->slot_entry[slot]) < stk_blend_member(blend, blend->slot_entry[best]))
                best = slot;
        }
        store_after(blend, best, take(blend, best, i, out_dataset, out_sample));
    }
    return end;
}

#define FEW(VECTORS) return run_few(blend, from, end, out_dataset, out_sample, VECTORS)

KERNEL static uint64_t steps(struct stk_blend *blend, uint64_t from, uint64_t end, int16_t *out_dataset,
                             int64_t *out_sample)
{
    switch ((blend->awake + 3) / 4) {
    case 1: FEW(1);
    case 2: FEW(2);
    case 3: FEW(3);
    case 4: FEW(4);
    case 5: FEW(5);
    case 6: FEW(6);
    case 7:
    case 8: FEW(8);
    case 9:
    case 10:
    case 11:
    case 12: FEW(12);
    case 13:
    case 14:
    case 15:
    case 16: FEW(16);
    default: return run_many(blend, from, end, out_dataset, out_sample);
    }
}

const struct stk_blend_ways stk_blend_wide = {.steps = steps, .stay_max = 32};

#else

bool stk_blend_is_wide(void) { return false; }

const struct stk_blend_ways stk_blend_wide; /* not used */

#endif
