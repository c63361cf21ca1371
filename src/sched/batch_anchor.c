/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps around samples that outweigh what ranks get on average. Of cells of one shape whose loads spread widely, rows
 * of neighbours cannot level a step: its dearest cell is more than the others of its row, and what could make up for
 * the difference lies in other rows. So the dearest cell gets the lightest ones beside it, each other rank the dearest
 * cells that fit under that load, and so on with what is left, until the dearest cell is no more than its share. The
 * rest then makes rows as usual.
 *
 * Cells of one shape only: steps keep their mixture of shapes.
 */
#include "sched/batch.h"

#include "base/assert.h"
#include "sched/pack.h"

/* Cells of a rank: with more of them the others make up for a dear one, and looking for them takes longer. */
#define CELLS_MAX 16u

/* The cells by falling load; links lead from taken ones to those that are left. */
struct deal {
    const uint64_t *load;
    const uint32_t *sorted;
    struct stk_room_links
        *links; /* of a place: itself if its cell is left, else the next (lighter) or previous place */
    uint32_t count;
};

static uint64_t load_at(const struct deal *deal, uint32_t place) { return deal->load[deal->sorted[place]]; }

/* The first cell from `place` on that is left; count if none. */
static uint32_t lighter(const struct deal *deal, uint32_t place)
{
    while (place < deal->count && deal->links[place].next != place) {
        uint32_t to = deal->links[place].next;
        if (to < deal->count) deal->links[place].next = deal->links[to].next; /* halves the way of later calls */
        place = to;
    }
    return place;
}

/* The last cell up to `place` that is left; STK_BATCH_END if none. */
static uint32_t dearer(const struct deal *deal, uint32_t place)
{
    while (place != STK_BATCH_END && deal->links[place].prev != place) {
        uint32_t to = deal->links[place].prev;
        if (to != STK_BATCH_END) deal->links[place].prev = deal->links[to].prev;
        place = to;
    }
    return place;
}

static uint32_t take(struct deal *deal, uint32_t place)
{
    STK_ASSERT(place < deal->count && deal->links[place].next == place);
    deal->links[place].next = place + 1;
    deal->links[place].prev = place - 1; /* of the first: STK_BATCH_END */
    return deal->sorted[place];
}

static uint32_t lightest(const struct deal *deal) { return dearer(deal, deal->count - 1); }

/* Sum of the `count` lightest cells. */
static uint64_t sum_of_lightest(const struct deal *deal, uint32_t count)
{
    uint64_t sum = 0;
    uint32_t place = deal->count;
    for (uint32_t i = 0; i < count; i++) {
        place = dearer(deal, place - 1);
        STK_ASSERT(place != STK_BATCH_END);
        sum += load_at(deal, place);
    }
    return sum;
}

/* The dearest cell that is left of at most `room`, else the lightest. */
static uint32_t fit(const struct deal *deal, uint64_t room)
{
    uint32_t low = 0, high = deal->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (load_at(deal, middle) <= room)
            high = middle;
        else
            low = middle + 1;
    }
    uint32_t place = lighter(deal, low);
    return place < deal->count ? place : lightest(deal);
}

/* Cells of one step whose largest load is `peak`, into out. */
static void deal_step(struct deal *deal, uint32_t ranks, uint32_t width, uint64_t peak, uint32_t *out)
{
    uint32_t used = 0;
    out[used++] = take(deal, lighter(deal, 0));
    for (uint32_t i = 1; i < width; i++) out[used++] = take(deal, lightest(deal));
    for (uint32_t r = 1; r < ranks; r++) {
        uint64_t room = peak;
        for (uint32_t left = width; left > 0; left--) {
            uint64_t kept = sum_of_lightest(deal, left - 1);
            uint32_t place = fit(deal, room > kept ? room - kept : 0);
            uint64_t load = load_at(deal, place);
            room = room > load ? room - load : 0;
            out[used++] = take(deal, place);
        }
    }
}

/* As rows, each in falling order of load. */
static void add_rows(struct stoker_batch_planner *planner, const uint32_t *cells, uint32_t count)
{
    uint32_t *rows = planner->rows + (size_t)planner->row_count * planner->options.ranks;
    for (uint32_t i = 0; i < count; i++) planner->keys[i] = planner->cells.load[cells[i]];
    stk_pack_sort(planner->keys, count, planner->order, planner->scratch);
    for (uint32_t i = 0; i < count; i++) rows[i] = cells[planner->order[i]];
    for (uint32_t i = 0; i < planner->options.cells; i++)
        planner->row_shape[planner->row_count++] = planner->cells.shape[cells[0]];
}

uint32_t stk_batch_anchor(struct stoker_batch_planner *planner, uint32_t *sorted, uint32_t count)
{
    uint32_t ranks = planner->options.ranks, width = planner->options.cells, step = ranks * width, left = count;
    struct deal deal = {planner->cells.load, sorted, planner->links, count};
    if (ranks < 2 || width < 2 || width > CELLS_MAX || count < 2 * step || count % step != 0) return 0;
    if (planner->cells.shape[sorted[0]] != planner->cells.shape[sorted[count - 1]]) return 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        planner->links[i] = (struct stk_room_links){i, i};
        sum += load_at(&deal, i);
    }
    for (; left > step; left -= step) { /* the last step has no choice */
        uint32_t cells_left = left / width;
        STK_ASSERT(cells_left > 0);
        uint64_t peak = load_at(&deal, lighter(&deal, 0)) + sum_of_lightest(&deal, width - 1);
        if (peak <= sum / cells_left) break;
        deal_step(&deal, ranks, width, peak, planner->held);
        for (uint32_t i = 0; i < step; i++) sum -= planner->cells.load[planner->held[i]];
        add_rows(planner, planner->held, step);
    }
    uint32_t kept = 0;
    for (uint32_t i = lighter(&deal, 0); i < count; i = lighter(&deal, i + 1)) sorted[kept++] = sorted[i];
    STK_ASSERT(kept == left);
    return count - left;
}
