/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of token-aware batches in tests: memory of the exact size that is asked for (so that a sanitizer sees one byte
 * too many), and the exact optimum of one step by search.
 */
#ifndef STK_TESTS_BATCHING_H
#define STK_TESTS_BATCHING_H

#include <stdlib.h>

#include <stoker/batch.h>

struct batching {
    void *memory;
    stoker_batch_planner *planner;
    stoker_batch_window window;
};

static inline stoker_status batching_make(struct batching *batching, const stoker_batch_source *sources, size_t count,
                                          const stoker_batch_options *options, stoker_error *err)
{
    size_t size = stoker_batch_bytes(sources, count, options);
    batching->memory = aligned_alloc(16, (size > 0 ? size : 16) / 16 * 16 + 16);
    if (!batching->memory) abort();
    return stoker_batch_init(sources, count, options, batching->memory, size, &batching->planner, err);
}

static inline void batching_drop(struct batching *batching)
{
    free(batching->memory);
    batching->memory = NULL;
}

static inline uint32_t batching_rows(const stoker_batch_window *window, uint32_t step)
{
    return (window->step_cells[step + 1] - window->step_cells[step]) / window->ranks;
}

static inline uint32_t batching_cell(const stoker_batch_window *window, uint32_t step, uint32_t rank, uint32_t row)
{
    return window->step_cells[step] + rank * batching_rows(window, step) + row;
}

static inline uint32_t batching_id(const stoker_batch_window *window, uint32_t place)
{
    return window->pool[place < window->pool_count ? place : (place - window->pool_count) % window->pool_count];
}

static inline uint64_t batching_most(const stoker_batch_window *window, uint32_t step)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < window->ranks; r++) {
        uint64_t load = window->loads[(size_t)step * window->ranks + r];
        if (load > most) most = load;
    }
    return most;
}

static inline uint64_t batching_sum(const stoker_batch_window *window, uint32_t step)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < window->ranks; r++) sum += window->loads[(size_t)step * window->ranks + r];
    return sum;
}

/* The least largest load that any way to give `rows` of the loads (falling) to each of `ranks` ranks has. */
struct batching_search {
    const uint64_t *loads;
    uint32_t ranks, rows;
    uint64_t load[16], best;
    uint32_t used[16];
};

static inline void batching_place(struct batching_search *search, uint32_t at)
{
    if (at == search->ranks * search->rows) {
        uint64_t most = 0;
        for (uint32_t r = 0; r < search->ranks; r++)
            if (search->load[r] > most) most = search->load[r];
        if (most < search->best) search->best = most;
        return;
    }
    for (uint32_t r = 0; r < search->ranks; r++) {
        if (search->used[r] < search->rows && search->load[r] + search->loads[at] < search->best) {
            search->used[r]++, search->load[r] += search->loads[at];
            batching_place(search, at + 1);
            search->used[r]--, search->load[r] -= search->loads[at];
        }
        if (search->used[r] == 0) break; /* empty ranks are alike */
    }
}

static inline uint64_t batching_optimum(const uint64_t *falling, uint32_t ranks, uint32_t rows)
{
    struct batching_search search = {falling, ranks, rows, {0}, UINT64_MAX, {0}};
    batching_place(&search, 0);
    return search.best;
}

static inline int batching_falling(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left > right ? -1 : left < right;
}

#endif
