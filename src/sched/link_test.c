/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tests/support/unit.h"

static const struct stk_speed otherwise = {1000000000, 100000};
static void *block;

static struct stk_links *make(uint32_t pairs)
{
    size_t size = stk_links_bytes(pairs);
    free(block);
    block = aligned_alloc(16, size);
    assert_non_null(block);
    memset(block, 0xa5, size);
    return stk_links_init(block, size, pairs, &otherwise);
}

static void test_unknown_pairs_have_the_default(void **state)
{
    (void)state;
    struct stk_links *links = make(4);
    struct stk_speed speed = stk_links_get(links, 1, 2);
    assert_int_equal(speed.bytes_per_s, 1000000000);
    assert_int_equal(speed.latency_ns, 100000);
    assert_int_equal(stk_links_count(links), 0); /* asking adds nothing */
}

static void test_estimates_follow_measurements_by_a_quarter(void **state)
{
    (void)state;
    struct stk_links *links = make(4);
    const struct stk_speed seen = {2000000000, 0};
    stk_links_learn(links, 1, 2, &seen);
    assert_int_equal(stk_links_get(links, 1, 2).bytes_per_s, 1250000000);
    assert_int_equal(stk_links_get(links, 1, 2).latency_ns, 100000); /* 0 says nothing */
    assert_int_equal(stk_links_get(links, 2, 1).bytes_per_s, 1000000000);
    for (int i = 0; i < 50; i++) stk_links_learn(links, 1, 2, &seen);
    assert_in_range(stk_links_get(links, 1, 2).bytes_per_s, 1999990000, 2000000000);
}

static void test_d3_the_oldest_pair_makes_room(void **state)
{
    (void)state;
    struct stk_links *links = make(3);
    const struct stk_speed seen = {5000000000, 1};
    for (uint32_t i = 0; i < 3; i++) stk_links_learn(links, i, 9, &seen);
    stk_links_learn(links, 0, 9, &seen); /* used again */
    stk_links_learn(links, 3, 9, &seen);
    assert_int_equal(stk_links_count(links), 3);
    assert_true(stk_links_get(links, 0, 9).bytes_per_s > 1000000000);
    assert_true(stk_links_get(links, 1, 9).bytes_per_s == 1000000000);
    assert_true(stk_links_get(links, 2, 9).bytes_per_s > 1000000000);
    for (uint32_t i = 0; i < 100000; i++) stk_links_learn(links, i, i + 1, &seen);
    assert_int_equal(stk_links_count(links), 3);
}

static void test_pairs_of_a_host_that_left_are_forgotten(void **state)
{
    (void)state;
    struct stk_links *links = make(8);
    const struct stk_speed seen = {5000000000, 1};
    stk_links_learn(links, 1, 2, &seen);
    stk_links_learn(links, 2, 1, &seen);
    stk_links_learn(links, 2, 3, &seen);
    stk_links_forget(links, 1);
    assert_int_equal(stk_links_count(links), 1);
    assert_true(stk_links_get(links, 2, 3).bytes_per_s > 1000000000);
    stk_links_forget(links, 3);
    assert_int_equal(stk_links_count(links), 0);
    for (uint32_t i = 0; i < 8; i++) stk_links_learn(links, i, i, &seen);
    assert_int_equal(stk_links_count(links), 8);
}

static void test_transfer_times_are_bounded(void **state)
{
    (void)state;
    const struct stk_speed speed = {1000000000, 0};
    assert_in_range(stk_speed_transfer_ns(&speed, 100000000), 99900000, 100000000);
    struct stk_links *links = make(1);
    const struct stk_speed slow = {1, UINT64_MAX}, fast = {UINT64_MAX, 0};
    for (int i = 0; i < 100; i++) stk_links_learn(links, 0, 1, &slow);
    struct stk_speed least = stk_links_get(links, 0, 1);
    assert_int_equal(least.bytes_per_s, STK_LINK_BYTES_PER_S_MIN);
    assert_true(least.latency_ns <= 60 * STK_SECOND_NS);
    assert_in_range(stk_speed_transfer_ns(&least, UINT64_MAX), UINT64_C(1) << 49, UINT64_C(1) << 51);
    for (int i = 0; i < 200; i++) stk_links_learn(links, 0, 1, &fast);
    least = stk_links_get(links, 0, 1);
    assert_true(stk_speed_transfer_ns(&least, 1 << 20) <= 2000);
}

static int tear_down(void **state)
{
    (void)state;
    free(block);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_pairs_have_the_default),
        cmocka_unit_test(test_estimates_follow_measurements_by_a_quarter),
        cmocka_unit_test(test_d3_the_oldest_pair_makes_room),
        cmocka_unit_test(test_pairs_of_a_host_that_left_are_forgotten),
        cmocka_unit_test_teardown(test_transfer_times_are_bounded, tear_down),
    };
    return stk_run_tests(tests);
}
