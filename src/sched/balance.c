/* SPDX-License-Identifier: Apache-2.0
 *
 * A proposal is made in two steps. Samples go, longest first, to the rank with the least load that still has room: that
 * is within a third of the best if numbers of samples do not bind. Where they do, swaps between the rank with most and
 * any other bring it down as long as one helps. The owners win where that is not better.
 */
#include "sched/balance.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

enum { SWAPS_MAX = 256 };

static stoker_status check_ranks(const stoker_balance_round *round, const uint32_t *ranks, const char *what,
                                 stoker_error *err)
{
    for (uint32_t i = 0; i < round->count; i++)
        if (ranks[i] >= round->ranks)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %u of the round %s rank %u of %u", i, what,
                            ranks[i], round->ranks);
    return STOKER_OK;
}

static stoker_status check_round(const stoker_balance_round *round, stoker_error *err)
{
    if (!round || round->struct_size != sizeof *round)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a round of another version of the library");
    if (round->ranks == 0 || round->ranks > STOKER_BALANCE_RANKS_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a round of %u ranks, expected 1 to %u", round->ranks,
                        STOKER_BALANCE_RANKS_MAX);
    if (round->count > STOKER_BALANCE_SAMPLES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a round of %u samples, expected at most %u", round->count,
                        STOKER_BALANCE_SAMPLES_MAX);
    for (uint32_t i = 0; i < round->count; i++)
        if (round->costs[i] > STK_BALANCE_COST_MAX)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "sample %u of the round costs %llu, expected at most 2^40", i,
                            (unsigned long long)round->costs[i]);
    return check_ranks(round, round->owners, "is of", err);
}

static uint64_t sum_loads(const stoker_balance_round *round, const uint32_t *assignment,
                          uint64_t loads[STOKER_BALANCE_RANKS_MAX])
{
    uint64_t most = 0;
    memset(loads, 0, round->ranks * sizeof loads[0]);
    for (uint32_t i = 0; i < round->count; i++) loads[assignment[i]] += round->costs[i];
    for (uint32_t rank = 0; rank < round->ranks; rank++)
        if (loads[rank] > most) most = loads[rank];
    return most;
}

/* Does sample a come before b in the order of work: longest first, then by number? */
static bool comes_before(const stoker_balance_round *round, uint32_t a, uint32_t b)
{
    return round->costs[a] != round->costs[b] ? round->costs[a] > round->costs[b] : a < b;
}

static void sift(const stoker_balance_round *round, uint32_t *heap, uint32_t at, uint32_t size)
{
    for (uint32_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && comes_before(round, heap[child], heap[child + 1])) child++;
        if (!comes_before(round, heap[at], heap[child])) return;
        uint32_t kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
    }
}

/* A heap with the last of the order on top, taken from the end: longest first. */
static void sort_samples(const stoker_balance_round *round, uint32_t *order)
{
    for (uint32_t i = 0; i < round->count; i++) order[i] = i;
    for (uint32_t i = round->count / 2; i-- > 0;) sift(round, order, i, round->count);
    for (uint32_t size = round->count; size > 1;) {
        uint32_t last = order[0];
        order[0] = order[--size];
        order[size] = last;
        sift(round, order, 0, size);
    }
}

static void assign_longest_first(const stoker_balance_round *round, const uint32_t *order, uint32_t *assignment)
{
    uint64_t loads[STOKER_BALANCE_RANKS_MAX] = {0};
    uint32_t room[STOKER_BALANCE_RANKS_MAX] = {0};
    for (uint32_t i = 0; i < round->count; i++) room[round->owners[i]]++;
    for (uint32_t i = 0; i < round->count; i++) {
        uint32_t sample = order[i], best = round->owners[sample];
        for (uint32_t rank = 0; rank < round->ranks; rank++) {
            if (room[rank] == 0) continue;
            if (room[best] == 0 || loads[rank] < loads[best]) best = rank;
        }
        STK_ASSERT(room[best] > 0);
        room[best]--;
        loads[best] += round->costs[sample];
        assignment[sample] = best;
    }
}

/* The swap of a sample of rank `top` that leaves the larger of both loads smallest. */
static bool find_swap(const stoker_balance_round *round, const uint32_t *assignment, const uint64_t *loads,
                      uint32_t top, uint32_t *out_ours, uint32_t *out_other)
{
    uint64_t best = loads[top];
    for (uint32_t i = 0; i < round->count; i++) {
        if (assignment[i] != top) continue;
        for (uint32_t j = 0; j < round->count; j++) {
            if (assignment[j] == top || round->costs[j] >= round->costs[i]) continue;
            uint64_t less = round->costs[i] - round->costs[j];
            uint64_t ours = loads[top] - less, theirs = loads[assignment[j]] + less;
            uint64_t larger = ours > theirs ? ours : theirs;
            if (larger >= best) continue;
            best = larger;
            *out_ours = i;
            *out_other = j;
        }
    }
    return best < loads[top];
}

static void improve(const stoker_balance_round *round, uint32_t *assignment)
{
    uint64_t loads[STOKER_BALANCE_RANKS_MAX];
    (void)sum_loads(round, assignment, loads);
    if (round->count > 1024) return; /* longest first is as good as it gets with so many */
    for (int turn = 0; turn < SWAPS_MAX; turn++) {
        uint32_t top = 0, ours = 0, other = 0;
        for (uint32_t rank = 1; rank < round->ranks; rank++)
            if (loads[rank] > loads[top]) top = rank;
        if (!find_swap(round, assignment, loads, top, &ours, &other)) return;
        uint32_t rank = assignment[other];
        uint64_t less = round->costs[ours] - round->costs[other];
        loads[top] -= less;
        loads[rank] += less;
        assignment[ours] = rank;
        assignment[other] = top;
    }
}

/* Samples of equal cost may change places: those that can stay where they are do. */
static void keep_at_home(const stoker_balance_round *round, uint32_t *assignment)
{
    if (round->count > 1024) return;
    for (uint32_t i = 0; i < round->count; i++) {
        uint32_t home = round->owners[i];
        for (uint32_t j = 0; j < round->count && assignment[i] != home; j++) {
            if (assignment[j] != home || round->owners[j] == home || round->costs[j] != round->costs[i]) continue;
            assignment[j] = assignment[i];
            assignment[i] = home;
        }
    }
}

STOKER_API stoker_status stoker_balance_load(const stoker_balance_round *round, const uint32_t *assignment,
                                             uint64_t *out_load, stoker_error *err)
{
    uint64_t loads[STOKER_BALANCE_RANKS_MAX];
    STK_TRY(check_round(round, err));
    if (assignment) STK_TRY(check_ranks(round, assignment, "is given to", err));
    *out_load = sum_loads(round, assignment ? assignment : round->owners, loads);
    return STOKER_OK;
}

STOKER_API stoker_status stoker_balance_propose(const stoker_balance_round *round, uint32_t *scratch,
                                                uint32_t *out_assignment, stoker_error *err)
{
    uint64_t loads[STOKER_BALANCE_RANKS_MAX];
    STK_TRY(check_round(round, err));
    sort_samples(round, scratch);
    assign_longest_first(round, scratch, out_assignment);
    improve(round, out_assignment);
    keep_at_home(round, out_assignment);
    uint64_t before = sum_loads(round, round->owners, loads);
    if (sum_loads(round, out_assignment, loads) >= before && round->count > 0)
        memcpy(out_assignment, round->owners, round->count * sizeof out_assignment[0]);
    return STOKER_OK;
}

STOKER_API stoker_status stoker_balance_decide(const stoker_balance_round *round, const stoker_balance_gate *gate,
                                               uint32_t *assignment, stoker_error *err)
{
    uint64_t loads[STOKER_BALANCE_RANKS_MAX];
    uint32_t received[STOKER_BALANCE_RANKS_MAX] = {0}, most = 0;
    STK_TRY(check_round(round, err));
    STK_TRY(check_ranks(round, assignment, "is given to", err));
    if (!gate || gate->struct_size != sizeof *gate || gate->transfer_cost > STK_BALANCE_COST_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "a gate of another version of the library, or with a transfer cost above 2^40");
    uint64_t before = sum_loads(round, round->owners, loads), after = sum_loads(round, assignment, loads);
    for (uint32_t i = 0; i < round->count; i++)
        if (assignment[i] != round->owners[i] && ++received[assignment[i]] > most) most = received[assignment[i]];
    /* before <= 65,536 * 2^40 = 2^56: divided first, so that nothing overflows. */
    uint64_t least = before / 1000000 * gate->min_gain_ppm + before % 1000000 * gate->min_gain_ppm / 1000000;
    bool gains = before > after && before - after >= least && before - after > gate->transfer_cost * most;
    if (!gains && round->count > 0) memcpy(assignment, round->owners, round->count * sizeof assignment[0]);
    return STOKER_OK;
}

STOKER_API stoker_status stoker_balance_plan(const stoker_balance_round *round, const uint32_t *assignment,
                                             stoker_balance_move *out_moves, size_t *out_count, stoker_error *err)
{
    STK_TRY(check_round(round, err));
    STK_TRY(check_ranks(round, assignment, "is given to", err));
    size_t count = 0;
    for (uint32_t i = 0; i < round->count; i++)
        if (assignment[i] != round->owners[i])
            out_moves[count++] = (stoker_balance_move){i, round->owners[i], assignment[i]};
    *out_count = count;
    return STOKER_OK;
}
