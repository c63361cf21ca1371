/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

#include "tests/support/unit.h"

static void test_numbers_are_those_of_splitmix64(void **state)
{
    (void)state;
    struct stk_rng rng = {1234567}; /* the published test vector of this seed */
    static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                        UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                        UINT64_C(16408922859458223821)};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) assert_true(stk_rng_next(&rng) == expected[i]);
}

static void test_b3_draw_depends_on_each_part(void **state)
{
    (void)state;
    enum { SIDE = 8, COUNT = SIDE * SIDE * SIDE * SIDE };
    static uint64_t draws[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        draws[i] = stk_rng_draw(i % SIDE, i / SIDE % SIDE, i / (SIDE * SIDE) % SIDE, i / (SIDE * SIDE * SIDE));
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < i; j++) assert_true(draws[i] != draws[j]);
    assert_true(stk_rng_draw(1, 2, 3, 4) == UINT64_C(0x2a87e238e55fc7c5)); /* what a seed means does not change */
}

static void test_purposes_are_independent(void **state)
{
    (void)state;
    struct stk_rng one, other;
    int equal_bits = 0;
    for (uint64_t draw = 0; draw < 64; draw++) {
        stk_rng_init(&one, draw, STK_RNG_CLIP);
        stk_rng_init(&other, draw, (enum stk_rng_purpose)(STK_RNG_CLIP + 1));
        equal_bits += __builtin_popcountll(~(stk_rng_next(&one) ^ stk_rng_next(&other)));
    }
    assert_in_range(equal_bits, 64 * 32 - 256, 64 * 32 + 256); /* 8 standard deviations */
}

static void test_bounds_and_evenness(void **state)
{
    (void)state;
    struct stk_rng rng;
    uint32_t counts[6] = {0};
    stk_rng_init(&rng, 7, STK_RNG_CLIP);
    for (int i = 0; i < 60000; i++) counts[stk_rng_below(&rng, 6)]++;
    for (int i = 0; i < 6; i++) assert_in_range(counts[i], 9500, 10500);
    for (int i = 0; i < 1000; i++) {
        double unit = stk_rng_unit(&rng);
        assert_true(unit >= 0 && unit < 1);
        assert_int_equal(stk_rng_below(&rng, 1), 0);
        /* Numbers above the last whole multiple are drawn again: with n just over half, every other one is. */
        assert_true(stk_rng_below(&rng, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_those_of_splitmix64),
        cmocka_unit_test(test_b3_draw_depends_on_each_part),
        cmocka_unit_test(test_purposes_are_independent),
        cmocka_unit_test(test_bounds_and_evenness),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
