/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/map.h"

#include <stdlib.h>

#include "tests/support/unit.h"

static void test_empty_map_finds_nothing(void **state)
{
    (void)state;
    struct stk_map map = {0};
    uint32_t value = 7;
    assert_false(stk_map_find(&map, 1, &value));
    assert_false(stk_map_remove(&map, 1));
    assert_int_equal(value, 7);
    stk_map_fini(&map);
}

/* A window of ids slides over the table, as slabs do: what is inside is found, what left is not. */
static void test_sliding_window_of_ids(void **state)
{
    (void)state;
    enum { WINDOW = 500, TOTAL = 20000 };
    struct stk_map map = {0};
    uint32_t value;
    for (uint32_t id = 1; id <= TOTAL; id++) {
        assert_true(stk_map_add(&map, id, id * 3));
        if (id > WINDOW) assert_true(stk_map_remove(&map, id - WINDOW));
        if (id % 97 != 0) continue;
        for (uint32_t probe = id > 2 * WINDOW ? id - 2 * WINDOW : 1; probe <= id; probe++) {
            bool inside = probe + WINDOW > id;
            assert_int_equal(stk_map_find(&map, probe, &value), inside);
            if (inside) assert_int_equal(value, probe * 3);
        }
    }
    assert_int_equal(map.count, WINDOW);
    assert_true(map.cap <= 4 * WINDOW);
    stk_map_fini(&map);
}

/* Removal in any order keeps every other key reachable. */
static void test_removal_in_random_order(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    struct stk_map map = {0};
    uint64_t keys[COUNT];
    uint32_t value, seed = 12345;
    for (uint32_t i = 0; i < COUNT; i++) {
        keys[i] = ((uint64_t)(i + 1) << 20) ^ (i * 7919u);
        assert_true(stk_map_add(&map, keys[i], i));
    }
    for (uint32_t left = COUNT; left > 0; left--) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t chosen = (uint32_t)(((uint64_t)seed * left) >> 32);
        assert_true(stk_map_remove(&map, keys[chosen]));
        assert_false(stk_map_find(&map, keys[chosen], &value));
        keys[chosen] = keys[left - 1];
        for (uint32_t i = 0; i < left - 1; i += 13) assert_true(stk_map_find(&map, keys[i], &value));
    }
    assert_int_equal(map.count, 0);
    stk_map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_map_finds_nothing),
        cmocka_unit_test(test_sliding_window_of_ids),
        cmocka_unit_test(test_removal_in_random_order),
    };
    return stk_run_tests(tests);
}
