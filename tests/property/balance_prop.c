/* SPDX-License-Identifier: Apache-2.0
 *
 * Redistribution (tier 2): whatever the round, the projected step time (the load of the slowest rank) never rises,
 * every rank keeps its number of samples, a plan carried out gives the assignment, and equal rounds give equal results.
 */
#include <string.h>

#include "sched/balance.h"
#include "tests/property/prop.h"

enum { RANKS = 17, SAMPLES = 160 };

static uint32_t owners[SAMPLES], assignment[SAMPLES], again[SAMPLES], scratch[SAMPLES];
static uint64_t costs[SAMPLES];
static stoker_balance_move moves[SAMPLES];

static stoker_balance_round draw_round(struct prop_random *rnd)
{
    stoker_balance_round round = STOKER_BALANCE_ROUND_INIT;
    round.ranks = 1 + prop_below(rnd, RANKS);
    round.count = prop_below(rnd, SAMPLES + 1);
    round.owners = owners;
    round.costs = costs;
    bool even = prop_once_in(rnd, 2), wide = prop_once_in(rnd, 3);
    for (uint32_t i = 0; i < round.count; i++) {
        owners[i] = even ? i * round.ranks / round.count : prop_below(rnd, round.ranks);
        costs[i] = wide ? prop_next(rnd) % (STK_BALANCE_COST_MAX + 1) : prop_below(rnd, 20);
        if (prop_once_in(rnd, 10)) costs[i] = 0;
    }
    return round;
}

static void prop_tier_2_never_raises_the_step_time(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    stoker_balance_round round = draw_round(&rnd);
    stoker_balance_gate gate = STOKER_BALANCE_GATE_INIT;
    int32_t balance[RANKS] = {0};
    uint64_t before, after, decided;
    size_t count;
    PROP_CHECK(stoker_balance_propose(&round, scratch, assignment, NULL) == STOKER_OK);
    PROP_CHECK(stoker_balance_load(&round, NULL, &before, NULL) == STOKER_OK);
    PROP_CHECK(stoker_balance_load(&round, assignment, &after, NULL) == STOKER_OK);
    PROP_CHECK(after <= before);
    for (uint32_t i = 0; i < round.count; i++) {
        balance[owners[i]]++;
        balance[assignment[i]]--;
    }
    for (uint32_t rank = 0; rank < round.ranks; rank++) PROP_CHECK(balance[rank] == 0);
    PROP_CHECK(stoker_balance_propose(&round, scratch, again, NULL) == STOKER_OK);
    PROP_CHECK(memcmp(again, assignment, round.count * sizeof again[0]) == 0);
    PROP_CHECK(stoker_balance_plan(&round, assignment, moves, &count, NULL) == STOKER_OK);
    memcpy(again, owners, sizeof again);
    for (size_t i = 0; i < count; i++) {
        PROP_CHECK(moves[i].from != moves[i].to && again[moves[i].sample] == moves[i].from);
        again[moves[i].sample] = moves[i].to;
    }
    PROP_CHECK(memcmp(again, assignment, round.count * sizeof again[0]) == 0);
    gate.min_gain_ppm = prop_below(&rnd, 300000);
    gate.transfer_cost = prop_next(&rnd) % 8;
    PROP_CHECK(stoker_balance_decide(&round, &gate, assignment, NULL) == STOKER_OK);
    PROP_CHECK(stoker_balance_load(&round, assignment, &decided, NULL) == STOKER_OK);
    PROP_CHECK(decided == before || (decided == after && before - after > gate.transfer_cost));
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_tier_2_never_raises_the_step_time", prop_tier_2_never_raises_the_step_time, 1000}};
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
