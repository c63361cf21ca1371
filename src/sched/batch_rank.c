/* SPDX-License-Identifier: Apache-2.0
 *
 * The cells of one step to its ranks, as many to each, with the least largest load that is found: row after row, the
 * heaviest cell to the least loaded rank; then exchanges between the most loaded rank and others, one cell for one, or
 * the best of all ways to share the cells of both where there are few. Small steps are then searched through for a
 * better plan: exchanges alone leave one in some ten thousand more than five percent above its optimum.
 */
#include "sched/batch.h"

#include "base/assert.h"
#include "sched/pack.h"

#define PARTNERS 16u  /* ranks that are tried for an exchange, the least loaded ones */
#define ROUNDS 8u     /* exchanges for each rank */
#define SHARED_MAX 6u /* cells a rank up to which two ranks are shared out exactly: 924 ways */
#define SEARCH_CELLS_MAX 16u
#define SEARCH_NODES 100000u /* half a millisecond, of the few steps that need them */

struct step {
    const struct stk_batch_cells *cells;
    uint32_t *held; /* rank * width + row */
    uint64_t *load;
    uint32_t ranks, rows, width;
};

static uint32_t *cells_of(const struct step *step, uint32_t rank) { return step->held + (size_t)rank * step->width; }

static uint64_t load_of(const struct step *step, uint32_t rank, uint32_t row)
{
    return step->cells->load[cells_of(step, rank)[row]];
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

struct exchange {
    uint32_t rank, mine, theirs;
    uint64_t peak; /* of both ranks afterwards */
};

static void try_partner(const struct step *step, uint32_t top, uint32_t rank, struct exchange *best)
{
    for (uint32_t i = 0; i < step->rows; i++) {
        for (uint32_t k = 0; k < step->rows; k++) {
            uint64_t mine = load_of(step, top, i), theirs = load_of(step, rank, k);
            if (mine <= theirs) continue;
            uint64_t peak = larger(step->load[top] - (mine - theirs), step->load[rank] + (mine - theirs));
            if (peak < best->peak) *best = (struct exchange){rank, i, k, peak};
        }
    }
}

static void apply(struct step *step, uint32_t top, const struct exchange *exchange)
{
    uint32_t *mine = &cells_of(step, top)[exchange->mine], *theirs = &cells_of(step, exchange->rank)[exchange->theirs];
    uint64_t difference = step->cells->load[*mine] - step->cells->load[*theirs];
    uint32_t swap = *mine;
    *mine = *theirs;
    *theirs = swap;
    step->load[top] -= difference;
    step->load[exchange->rank] += difference;
}

/* The best of all ways to give half of the cells of two ranks to each. True if it lowers the larger load. */
static bool share_out(struct step *step, uint32_t a, uint32_t b)
{
    uint32_t all[2 * SHARED_MAX], n = 2 * step->rows, best_set = 0;
    uint64_t sum = step->load[a] + step->load[b], best = larger(step->load[a], step->load[b]);
    for (uint32_t i = 0; i < step->rows; i++) {
        all[i] = cells_of(step, a)[i];
        all[step->rows + i] = cells_of(step, b)[i];
    }
    /* The first cell stays: a set and its rest are the same. */
    for (uint32_t set = 1; set < 1u << n; set += 2) {
        uint64_t load = 0;
        uint32_t count = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (!(set >> i & 1)) continue;
            load += step->cells->load[all[i]];
            count++;
        }
        if (count != step->rows) continue;
        if (larger(load, sum - load) < best) best = larger(load, sum - load), best_set = set;
    }
    if (best_set == 0) return false;
    uint32_t to_a = 0, to_b = 0;
    step->load[a] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (best_set >> i & 1) {
            cells_of(step, a)[to_a++] = all[i];
            step->load[a] += step->cells->load[all[i]];
        } else {
            cells_of(step, b)[to_b++] = all[i];
        }
    }
    step->load[b] = sum - step->load[a];
    return true;
}

/* Ranks by rising load, ties by rank. */
static void order_ranks(struct stoker_batch_planner *planner)
{
    for (uint32_t r = 0; r < planner->options.ranks; r++) planner->rank_keys[r] = ~planner->rank_load[r];
    stk_pack_sort(planner->rank_keys, planner->options.ranks, planner->rank_order, planner->rank_scratch);
}

static void improve(struct stoker_batch_planner *planner, struct step *step)
{
    uint32_t ranks = step->ranks, partners = ranks - 1 < PARTNERS ? ranks - 1 : PARTNERS;
    for (uint32_t round = 0; round < ROUNDS * ranks; round++) {
        order_ranks(planner);
        uint32_t top = planner->rank_order[ranks - 1];
        struct exchange best = {0, 0, 0, step->load[top]};
        for (uint32_t i = 0; i < partners; i++) try_partner(step, top, planner->rank_order[i], &best);
        if (best.peak < step->load[top]) {
            apply(step, top, &best);
            continue;
        }
        bool better = false;
        for (uint32_t i = 0; i < partners && step->rows <= SHARED_MAX && !better; i++)
            better = share_out(step, top, planner->rank_order[i]);
        if (!better) return;
    }
}

/* ---- search ---- */

/* Depth first over the cells, dearest first, each to any rank that has a place left: cut where a rank reaches the best
 * known peak. The path is `at[]`, so that the search needs no stack of calls. */
struct search {
    uint32_t cells[SEARCH_CELLS_MAX], best_rank[SEARCH_CELLS_MAX];
    uint32_t at[SEARCH_CELLS_MAX]; /* rank of each placed cell */
    uint32_t used[SEARCH_CELLS_MAX];
    uint64_t load[SEARCH_CELLS_MAX];
    uint64_t best;
    bool found;
};

/* The next rank from `rank` on that may take the cell; ranks if none. Empty ranks are alike: only one is tried. */
static uint32_t next_rank(const struct step *step, const struct search *search, uint32_t depth, uint32_t rank)
{
    uint64_t load = step->cells->load[search->cells[depth]];
    for (; rank < step->ranks; rank++) {
        if (rank > 0 && search->used[rank - 1] == 0) return step->ranks;
        if (search->used[rank] < step->rows && search->load[rank] + load < search->best) return rank;
    }
    return step->ranks;
}

static void place(const struct step *step, struct search *search, uint32_t depth, uint32_t rank)
{
    search->at[depth] = rank;
    search->used[rank]++;
    search->load[rank] += step->cells->load[search->cells[depth]];
}

static uint32_t lift(const struct step *step, struct search *search, uint32_t depth)
{
    uint32_t rank = search->at[depth];
    search->used[rank]--;
    search->load[rank] -= step->cells->load[search->cells[depth]];
    return rank;
}

static void keep_best(const struct step *step, struct search *search, uint32_t count)
{
    search->best = 0;
    for (uint32_t r = 0; r < step->ranks; r++) search->best = larger(search->best, search->load[r]);
    for (uint32_t i = 0; i < count; i++) search->best_rank[i] = search->at[i];
    search->found = true;
}

static void run_search(const struct step *step, struct search *search, uint64_t least)
{
    uint32_t count = step->ranks * step->rows, depth = 0, from = 0;
    for (uint32_t node = 0; node < SEARCH_NODES && search->best > least; node++) {
        uint32_t rank = next_rank(step, search, depth, from);
        if (rank == step->ranks) {
            if (depth == 0) return;
            from = lift(step, search, --depth) + 1;
            continue;
        }
        place(step, search, depth, rank);
        from = 0;
        if (++depth < count) continue;
        keep_best(step, search, count);
        from = lift(step, search, --depth) + 1;
    }
}

static void search_small(struct stoker_batch_planner *planner, struct step *step)
{
    struct search search = {.best = 0};
    uint32_t count = step->ranks * step->rows;
    uint64_t sum = 0;
    STK_ASSERT(step->ranks > 0);
    for (uint32_t r = 0; r < step->ranks; r++) {
        search.best = larger(search.best, step->load[r]);
        sum += step->load[r];
        for (uint32_t i = 0; i < step->rows; i++) planner->left[r * step->rows + i] = cells_of(step, r)[i];
    }
    for (uint32_t i = 0; i < count; i++) planner->keys[i] = step->cells->load[planner->left[i]];
    stk_pack_sort(planner->keys, count, planner->order, planner->scratch);
    for (uint32_t i = 0; i < count; i++) search.cells[i] = planner->left[planner->order[i]];
    run_search(step, &search, (sum + step->ranks - 1) / step->ranks);
    if (!search.found) return;
    for (uint32_t r = 0; r < step->ranks; r++) search.used[r] = 0, step->load[r] = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = search.best_rank[i];
        cells_of(step, rank)[search.used[rank]++] = search.cells[i];
        step->load[rank] += step->cells->load[search.cells[i]];
    }
}

void stk_batch_assign(struct stoker_batch_planner *planner, const uint32_t *row_list, uint32_t row_count, bool search)
{
    uint32_t ranks = planner->options.ranks;
    struct step step = {&planner->cells, planner->held, planner->rank_load, ranks, row_count, planner->options.cells};
    for (uint32_t r = 0; r < ranks; r++) step.load[r] = 0;
    /* The first cell of a row is its dearest. */
    for (uint32_t i = 0; i < row_count; i++)
        planner->keys[i] = step.cells->load[planner->rows[(size_t)row_list[i] * ranks]];
    stk_pack_sort(planner->keys, row_count, planner->order, planner->scratch);
    for (uint32_t i = 0; i < row_count; i++) {
        const uint32_t *row = planner->rows + (size_t)row_list[planner->order[i]] * ranks;
        order_ranks(planner);
        for (uint32_t r = 0; r < ranks; r++) {
            uint32_t rank = planner->rank_order[r];
            cells_of(&step, rank)[i] = row[r];
            step.load[rank] += step.cells->load[row[r]];
        }
    }
    if (ranks > 1) improve(planner, &step);
    if (search && ranks > 1 && ranks * row_count <= SEARCH_CELLS_MAX) search_small(planner, &step);
}
