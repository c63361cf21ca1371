/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/balance.h"

#include <string.h>

#include "tests/support/unit.h"

static stoker_balance_round round_of(uint32_t ranks, uint32_t count, const uint32_t *owners, const uint64_t *costs)
{
    stoker_balance_round round = STOKER_BALANCE_ROUND_INIT;
    round.ranks = ranks;
    round.count = count;
    round.owners = owners;
    round.costs = costs;
    return round;
}

static void test_proposal_evens_loads_and_keeps_counts(void **state)
{
    (void)state;
    const uint32_t owners[] = {0, 0, 0, 1, 1, 1};
    const uint64_t costs[] = {9, 8, 7, 1, 2, 3};
    stoker_balance_round round = round_of(2, 6, owners, costs);
    uint32_t scratch[6], assignment[6], ours = 0;
    uint64_t before, after;
    assert_int_equal(stoker_balance_propose(&round, scratch, assignment, NULL), STOKER_OK);
    assert_int_equal(stoker_balance_load(&round, NULL, &before, NULL), STOKER_OK);
    assert_int_equal(stoker_balance_load(&round, assignment, &after, NULL), STOKER_OK);
    assert_int_equal(before, 24);
    assert_int_equal(after, 16); /* 9 3 2 : 8 7 1 is as near as three samples each can be */
    for (int i = 0; i < 6; i++) ours += assignment[i] == 0;
    assert_int_equal(ours, 3);
}

static void test_swaps_help_where_counts_bind(void **state)
{
    (void)state;
    /* Longest first gives {6, 4, 1} and {5, 5, 3}, because each rank has three; a swap finds 12 : 12. */
    const uint32_t owners[] = {0, 0, 0, 1, 1, 1};
    const uint64_t costs[] = {6, 5, 5, 4, 3, 1};
    stoker_balance_round round = round_of(2, 6, owners, costs);
    uint32_t scratch[6], assignment[6];
    uint64_t after;
    assert_int_equal(stoker_balance_propose(&round, scratch, assignment, NULL), STOKER_OK);
    assert_int_equal(stoker_balance_load(&round, assignment, &after, NULL), STOKER_OK);
    assert_int_equal(after, 12);
}

static void test_equal_samples_stay_at_home(void **state)
{
    (void)state;
    const uint32_t owners[] = {0, 0, 0, 0, 1, 1, 1, 1};
    const uint64_t costs[] = {9, 9, 9, 9, 1, 1, 1, 1};
    stoker_balance_round round = round_of(2, 8, owners, costs);
    uint32_t scratch[8], assignment[8], moved = 0;
    assert_int_equal(stoker_balance_propose(&round, scratch, assignment, NULL), STOKER_OK);
    for (int i = 0; i < 8; i++) moved += assignment[i] != owners[i];
    assert_int_equal(moved, 4); /* two of each kind, which is the least for 20 : 20 */
}

static void test_balanced_round_stays_as_it_is(void **state)
{
    (void)state;
    const uint32_t owners[] = {1, 0, 1, 0};
    const uint64_t costs[] = {2, 2, 5, 5};
    stoker_balance_round round = round_of(2, 4, owners, costs);
    uint32_t scratch[4], assignment[4];
    assert_int_equal(stoker_balance_propose(&round, scratch, assignment, NULL), STOKER_OK);
    assert_memory_equal(assignment, owners, sizeof owners);
}

static void test_gate_keeps_owners_unless_it_pays(void **state)
{
    (void)state;
    const uint32_t owners[] = {0, 0, 1, 1}, better[] = {0, 1, 0, 1};
    const uint64_t costs[] = {10, 6, 1, 1}; /* 16 : 2 becomes 11 : 7; each rank receives one sample */
    stoker_balance_round round = round_of(2, 4, owners, costs);
    static const struct {
        uint64_t transfer_cost;
        uint32_t min_gain_ppm;
        bool kept;
    } cases[] = {{0, 0, false}, {4, 0, false}, {5, 0, true}, {0, 312500, false}, {0, 400000, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stoker_balance_gate gate = STOKER_BALANCE_GATE_INIT;
        uint32_t assignment[4];
        gate.transfer_cost = cases[i].transfer_cost;
        gate.min_gain_ppm = cases[i].min_gain_ppm;
        memcpy(assignment, better, sizeof better);
        assert_int_equal(stoker_balance_decide(&round, &gate, assignment, NULL), STOKER_OK);
        assert_memory_equal(assignment, cases[i].kept ? owners : better, sizeof owners);
    }
}

static void test_plan_names_what_moves(void **state)
{
    (void)state;
    const uint32_t owners[] = {0, 0, 1, 1}, assignment[] = {0, 1, 0, 1};
    const uint64_t costs[] = {1, 1, 1, 1};
    stoker_balance_round round = round_of(2, 4, owners, costs);
    stoker_balance_move moves[4];
    size_t count;
    assert_int_equal(stoker_balance_plan(&round, assignment, moves, &count, NULL), STOKER_OK);
    assert_int_equal(count, 2);
    assert_true(moves[0].sample == 1 && moves[0].from == 0 && moves[0].to == 1);
    assert_true(moves[1].sample == 2 && moves[1].from == 1 && moves[1].to == 0);
}

static void test_errors_name_the_sample(void **state)
{
    (void)state;
    uint32_t owners[] = {0, 2}, assignment[] = {0, 1}, scratch[2];
    uint64_t costs[] = {1, 1}, load = 77;
    stoker_error err = {0};
    stoker_balance_round round = round_of(2, 2, owners, costs);
    assert_int_equal(stoker_balance_propose(&round, scratch, assignment, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_string_equal(err.message, "sample 1 of the round is of rank 2 of 2");
    owners[1] = 1;
    assignment[0] = 9;
    assert_int_equal(stoker_balance_load(&round, assignment, &load, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_string_equal(err.message, "sample 0 of the round is given to rank 9 of 2");
    assert_int_equal(load, 77);
    costs[0] = STK_BALANCE_COST_MAX + 1;
    assert_int_equal(stoker_balance_load(&round, NULL, &load, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sample 0 of the round costs"));
    round.ranks = 0;
    assert_int_equal(stoker_balance_load(&round, NULL, &load, &err), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_empty_round_is_none(void **state)
{
    (void)state;
    stoker_balance_round round = round_of(3, 0, NULL, NULL);
    uint32_t nothing[1];
    uint64_t load = 1;
    assert_int_equal(stoker_balance_propose(&round, nothing, nothing, NULL), STOKER_OK);
    assert_int_equal(stoker_balance_load(&round, NULL, &load, NULL), STOKER_OK);
    assert_int_equal(load, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proposal_evens_loads_and_keeps_counts),
        cmocka_unit_test(test_swaps_help_where_counts_bind),
        cmocka_unit_test(test_equal_samples_stay_at_home),
        cmocka_unit_test(test_balanced_round_stays_as_it_is),
        cmocka_unit_test(test_gate_keeps_owners_unless_it_pays),
        cmocka_unit_test(test_plan_names_what_moves),
        cmocka_unit_test(test_errors_name_the_sample),
        cmocka_unit_test(test_empty_round_is_none),
    };
    return stk_run_tests(tests);
}
