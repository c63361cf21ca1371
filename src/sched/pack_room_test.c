/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/pack_room.h"

#include "tests/support/unit.h"

enum { PACKS = 200 };

static struct stk_rooms rooms; /* too large for a comfortable stack */
static uint64_t room[PACKS];
static struct stk_room_links links[PACKS];
static bool inside[PACKS];

/* What find() must give, by looking at every pack. */
static uint32_t slowly(uint64_t length)
{
    uint32_t best = STK_ROOM_NONE;
    for (uint32_t p = 0; p < PACKS; p++)
        if (inside[p] && room[p] >= length && (best == STK_ROOM_NONE || room[p] < room[best])) best = p;
    return best;
}

static void check_against_slow_search(uint64_t capacity)
{
    uint64_t seed = capacity;
    stk_rooms_init(&rooms, room, links, capacity);
    memset(inside, 0, sizeof inside);
    for (uint32_t i = 0; i < 20000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t pack = (uint32_t)(seed >> 33) % PACKS;
        uint64_t value = (seed >> 13) % (capacity + 1);
        if (i % 3 == 0) value = value % 8 * (capacity / 8); /* many equal ones */
        if (inside[pack])
            stk_rooms_remove(&rooms, pack);
        else
            stk_rooms_insert(&rooms, pack, value);
        inside[pack] = !inside[pack];
        assert_int_equal(stk_rooms_find(&rooms, value), slowly(value));
    }
    assert_int_equal(stk_rooms_find(&rooms, capacity + 1), slowly(capacity + 1));
}

static void test_find_is_the_tightest_pack(void **state)
{
    (void)state;
    check_against_slow_search(1);
    check_against_slow_search(63);
    check_against_slow_search(STK_ROOM_BUCKETS - 1);
    check_against_slow_search(STK_ROOM_BUCKETS);
    check_against_slow_search(1000000);
    check_against_slow_search(2147483647);
}

static void test_an_empty_index_finds_nothing(void **state)
{
    (void)state;
    stk_rooms_init(&rooms, room, links, 100);
    assert_int_equal(stk_rooms_find(&rooms, 0), STK_ROOM_NONE);
    stk_rooms_insert(&rooms, 3, 100);
    assert_int_equal(stk_rooms_find(&rooms, 100), 3);
    assert_int_equal(stk_rooms_find(&rooms, 101), STK_ROOM_NONE);
    assert_int_equal(stk_rooms_find(&rooms, UINT64_MAX), STK_ROOM_NONE);
    stk_rooms_remove(&rooms, 3);
    assert_int_equal(stk_rooms_find(&rooms, 0), STK_ROOM_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_is_the_tightest_pack),
        cmocka_unit_test(test_an_empty_index_finds_nothing),
    };
    return stk_run_tests(tests);
}
