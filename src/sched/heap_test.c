/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/heap.h"

#include "tests/support/unit.h"

enum { NODES = 300 };

static struct stk_heap_node nodes[NODES];

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint32_t least(void)
{
    uint32_t best = STK_HEAP_NONE;
    for (uint32_t i = 0; i < NODES; i++)
        if (nodes[i].inside && (best == STK_HEAP_NONE || stk_heap_before(&nodes[i].key, &nodes[best].key))) best = i;
    return best;
}

static void test_root_is_the_least_under_random_changes(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u, order = 0;
    uint32_t root = STK_HEAP_NONE;
    for (int step = 0; step < 20000; step++) {
        uint32_t node = (uint32_t)(draw(&seed) % NODES);
        if (nodes[node].inside) {
            root = stk_heap_remove(nodes, root, node);
        } else {
            nodes[node].key =
                (struct stk_heap_key){.deadline_ns = draw(&seed) % 7, .remaining = draw(&seed) % 3, .order = ++order};
            root = stk_heap_insert(nodes, root, node);
        }
        assert_int_equal(root, least());
    }
    while (root != STK_HEAP_NONE) {
        assert_int_equal(root, least());
        root = stk_heap_remove(nodes, root, root);
    }
    assert_int_equal(least(), STK_HEAP_NONE);
}

static void test_d1_ties_go_to_more_remaining_work_then_to_the_older(void **state)
{
    (void)state;
    const struct stk_heap_key early = {1, 1, 9}, late = {2, 9, 1}, more = {2, 10, 3}, older = {2, 9, 0};
    assert_true(stk_heap_before(&early, &late));
    assert_true(stk_heap_before(&more, &late));
    assert_true(stk_heap_before(&older, &late));
    assert_false(stk_heap_before(&late, &late));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_root_is_the_least_under_random_changes),
        cmocka_unit_test(test_d1_ties_go_to_more_remaining_work_then_to_the_older),
    };
    return stk_run_tests(tests);
}
