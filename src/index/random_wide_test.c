/* SPDX-License-Identifier: Apache-2.0 */
#include "index/random_internal.h"

#include "tests/support/unit.h"

static void need_wide(void)
{
    if (!stk_random_is_wide()) STK_SKIP("no AVX2");
}

static void check_draws(struct stk_mt19937 *random, uint32_t max, uint32_t mask, uint32_t count)
{
    struct stk_mt19937 wide = *random;
    uint32_t expected[1024 + STK_DRAW_SLACK], drawn[1024 + STK_DRAW_SLACK];
    stk_mt19937_draws(random, max, mask, count, expected);
    stk_mt19937_draws_wide(&wide, max, mask, count, drawn);
    assert_memory_equal(drawn, expected, count * sizeof *drawn);
    assert_memory_equal(&wide, random, sizeof wide);
}

static void test_draws_are_the_same_with_each_mask(void **state)
{
    (void)state;
    need_wide();
    struct stk_mt19937 random;
    stk_mt19937_seed(&random, 11);
    for (uint32_t bits = 1; bits <= 32; bits++) {
        uint32_t mask = UINT32_MAX >> (32 - bits), least = (mask >> 1) + 1, count = mask - least + 1;
        if (count > 1024) count = 1024;
        for (int times = 0; times < 20; times++) {
            check_draws(&random, mask, mask, count);              /* nothing or little is refused */
            check_draws(&random, least + count - 1, mask, count); /* half is refused */
        }
    }
}

static void test_draws_go_on_from_each_position(void **state)
{
    (void)state;
    need_wide();
    struct stk_mt19937 random, start;
    stk_mt19937_seed(&start, 12);
    (void)stk_mt19937_next(&start);
    for (uint32_t position = 0; position <= STK_MT_WORDS; position++) {
        for (uint32_t count = 0; count < 40; count += 3) {
            random = start;
            random.position = position;
            check_draws(&random, 200, 255, count);
        }
    }
}

static void test_renewed_blocks_are_the_same(void **state)
{
    (void)state;
    need_wide();
    struct stk_mt19937 random, wide;
    uint32_t drawn[1024 + STK_DRAW_SLACK];
    stk_mt19937_seed(&random, UINT32_MAX);
    wide = random;
    for (int block = 0; block < 100; block++) {
        stk_mt19937_draws_wide(&wide, UINT32_MAX, UINT32_MAX, 624, drawn);
        for (int i = 0; i < 624; i++) assert_int_equal(drawn[i], stk_mt19937_next(&random));
    }
    assert_memory_equal(&wide, &random, sizeof wide);
}

static void test_shuffles_are_the_same(void **state)
{
    (void)state;
    need_wide();
    static uint32_t values[5000], expected[5000];
    static uint64_t long_values[5000];
    struct stk_mt19937 random, wide, longer;
    stk_mt19937_seed(&random, 0);
    for (uint64_t count = 0; count < 5000; count = count * 2 + 1) {
        for (uint32_t i = 0; i < 5000; i++) long_values[i] = values[i] = expected[i] = i;
        wide = longer = random;
        stk_shuffle_32_with(stk_mt19937_draws, &random, expected, count);
        stk_shuffle_32_with(stk_mt19937_draws_wide, &wide, values, count);
        stk_shuffle_64_with(stk_mt19937_draws_wide, &longer, long_values, count);
        assert_memory_equal(values, expected, sizeof values);
        for (int i = 0; i < 5000; i++) assert_true(long_values[i] == expected[i]);
        assert_memory_equal(&wide, &random, sizeof wide);
        assert_memory_equal(&longer, &random, sizeof longer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_are_the_same_with_each_mask),
        cmocka_unit_test(test_draws_go_on_from_each_position),
        cmocka_unit_test(test_renewed_blocks_are_the_same),
        cmocka_unit_test(test_shuffles_are_the_same),
    };
    return stk_run_tests(tests);
}
