/* SPDX-License-Identifier: Apache-2.0
 *
 * Rule A1 as a law: for every interleaving of releases, retries, stopped and hoarding consumers, every lane whose
 * consumer goes on gets all its batches, and nothing but an overflow takes memory beyond the limit. Simulates credit
 * and dispatch with a fake allocator: a slab is its bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/credit.h"
#include "sched/dispatch.h"
#include "tests/property/prop.h"

enum { LANES = 4, PLAN = 12, AHEAD = 6, WORKERS = 3, QUARANTINE = 256 };
enum consumer { CONSUMER_NORMAL, CONSUMER_HOARDS, CONSUMER_STOPS };
enum delivery { NOT_READY, READY_VIEW, READY_COPY, READY_FAILED };

struct sim_batch {
    uint64_t bytes;  /* of its slab; 0: none */
    uint64_t needed; /* known to a lane of unknown sizes only when made */
    enum delivery delivery;
};

struct sim_lane {
    enum consumer kind;
    bool sizes_unknown, open;
    uint64_t largest, used_check;
    uint32_t plan, requested, taken, stop_at;
    struct sim_batch batches[PLAN];
    uint64_t views[PLAN]; /* kept by the consumer */
    uint32_t view_count;
};

struct quarantined {
    uint32_t lane;
    uint64_t bytes;
};

static struct stk_credit credit;
static struct stk_dispatch *dispatch;
static struct sim_lane lanes[LANES];
static uint32_t lane_count;
static struct stk_item running[WORKERS];
static uint32_t running_count;
static struct quarantined quarantine[QUARANTINE];
static uint32_t quarantine_count;
static struct prop_random rnd;
static bool allow_faults, forced;

static uint64_t shared_bytes(void)
{
    uint64_t reserved = credit.reserved + credit.orphaned;
    return credit.limit > reserved ? credit.limit - reserved : 0;
}

static void check_bounds(void)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < lane_count; i++) used += credit.lanes[i].used;
    if (forced) return; /* an overflow may exceed the limit until it is returned */
    PROP_CHECK(credit.charged <= shared_bytes());
    PROP_CHECK(used <= credit.limit);
}

static void free_slab(uint32_t lane, struct sim_batch *batch)
{
    if (batch->bytes == 0) return;
    stk_credit_give(&credit, lane, batch->bytes);
    batch->bytes = 0;
}

static struct sim_batch *batch_of(uint32_t handle, uint32_t *out_lane)
{
    struct stk_batch_state state;
    stk_dispatch_read(dispatch, handle, &state);
    *out_lane = state.lane;
    return &lanes[state.lane].batches[state.sequence];
}

/* ---- actions: true if something happened ---- */

static bool request(uint32_t lane)
{
    struct sim_lane *l = &lanes[lane];
    uint32_t handle;
    if (l->requested == l->plan || l->requested - l->taken == AHEAD) return false;
    uint32_t items = l->sizes_unknown ? 1 : 1 + prop_below(&rnd, 3);
    PROP_CHECK(stk_dispatch_batch_add(dispatch, lane, 1, l->requested, items, prop_below(&rnd, 50), &handle, NULL) ==
               STOKER_OK);
    l->requested++;
    return true;
}

/* One round as the DataServer makes it: until every lane that waits was refused. */
static bool grant(void)
{
    uint8_t blocked[(LANES + 7) / 8] = {0};
    uint32_t handle, lane;
    bool any = false;
    while (stk_dispatch_next_waiting(dispatch, blocked, &handle)) {
        struct sim_batch *batch = batch_of(handle, &lane);
        struct sim_lane *l = &lanes[lane];
        uint64_t bytes = l->sizes_unknown ? l->largest : batch->needed;
        if (bytes > 0 && !stk_credit_take(&credit, lane, bytes)) {
            blocked[lane / 8] |= (uint8_t)(1u << (lane % 8));
            continue;
        }
        batch->bytes = bytes;
        stk_dispatch_granted(dispatch, handle);
        any = true;
    }
    check_bounds();
    return any;
}

static bool pick(void)
{
    if (running_count == WORKERS || !stk_dispatch_pick(dispatch, STK_POOL_NATIVE, &running[running_count]))
        return false;
    running_count++;
    return true;
}

static void deliver(uint32_t handle)
{
    uint32_t lane;
    struct sim_batch *batch = batch_of(handle, &lane);
    batch->delivery = stk_credit_pin(&credit, lane, batch->bytes) ? READY_VIEW : READY_COPY;
    stk_dispatch_remove(dispatch, handle);
    check_bounds();
}

static void fail(uint32_t handle)
{
    uint32_t lane;
    struct sim_batch *batch = batch_of(handle, &lane);
    free_slab(lane, batch);
    batch->delivery = READY_FAILED;
    stk_dispatch_remove(dispatch, handle);
}

/* A batch of unknown size turned out larger than its slab: an overflow slab, needed now (rule B6). */
static bool overflow(uint32_t lane, struct sim_batch *batch)
{
    struct sim_lane *l = &lanes[lane];
    free_slab(lane, batch);
    uint64_t before = credit.lanes[lane].largest;
    if (stk_credit_lane_grow(&credit, lane, batch->needed, NULL) != STOKER_OK) return false;
    forced |= credit.lanes[lane].largest > before; /* its new reserve may be drawn on by others still */
    l->largest = credit.lanes[lane].largest;
    if (!stk_credit_take(&credit, lane, batch->needed)) {
        stk_credit_force(&credit, lane, batch->needed);
        forced = true;
    }
    batch->bytes = batch->needed;
    return true;
}

/* The worker cannot be reaped yet: its slab is quarantined, the batch starts again in a fresh one (rule A4), which it
 * gets at once. */
static void restart(uint32_t handle)
{
    uint32_t lane;
    struct sim_batch *batch = batch_of(handle, &lane);
    PROP_CHECK(quarantine_count < QUARANTINE);
    quarantine[quarantine_count++] = (struct quarantined){.lane = lane, .bytes = batch->bytes};
    if (!stk_credit_take(&credit, lane, batch->bytes)) {
        stk_credit_force(&credit, lane, batch->bytes);
        forced = true;
    }
    for (uint32_t i = 0; i < running_count;) {
        if (running[i].batch == handle)
            running[i] = running[--running_count];
        else
            i++;
    }
    stk_dispatch_restart(dispatch, handle);
}

static bool finish(void)
{
    if (running_count == 0) return false;
    uint32_t at = prop_below(&rnd, running_count), handle, lane;
    struct stk_item item = running[at];
    running[at] = running[--running_count];
    enum stk_item_outcome outcome = STK_OUTCOME_OK;
    if (allow_faults && prop_once_in(&rnd, 6))
        outcome = prop_once_in(&rnd, 2) ? STK_OUTCOME_LOST : STK_OUTCOME_BAD_DATA;
    struct sim_batch *batch = batch_of(item.batch, &lane);
    if (outcome == STK_OUTCOME_OK && lanes[lane].sizes_unknown && batch->bytes < batch->needed &&
        !overflow(lane, batch))
        outcome = STK_OUTCOME_FATAL;
    switch (stk_dispatch_finish(dispatch, item.item_id, outcome, &handle)) {
    case STK_VERDICT_DONE: deliver(handle); break;
    case STK_VERDICT_FAILED: fail(handle); break;
    case STK_VERDICT_NONE: {
        struct stk_batch_state state;
        stk_dispatch_read(dispatch, handle, &state);
        if (outcome == STK_OUTCOME_LOST && !state.failed && prop_once_in(&rnd, 2)) restart(handle);
        break;
    }
    default: PROP_CHECK(!"an item that runs is known");
    }
    return true;
}

static bool reap(void)
{
    if (quarantine_count == 0) return false;
    uint32_t at = prop_below(&rnd, quarantine_count);
    stk_credit_give(&credit, quarantine[at].lane, quarantine[at].bytes);
    quarantine[at] = quarantine[--quarantine_count];
    return true;
}

static bool stopped(const struct sim_lane *l) { return l->kind == CONSUMER_STOPS && l->taken >= l->stop_at; }

/* next(): in plan order only. A copy returns its slab at once. */
static bool take(uint32_t lane)
{
    struct sim_lane *l = &lanes[lane];
    if (l->taken == l->plan || stopped(l)) return false;
    struct sim_batch *batch = &l->batches[l->taken];
    if (batch->delivery == NOT_READY) return false;
    if (batch->delivery == READY_VIEW)
        l->views[l->view_count++] = batch->bytes;
    else
        free_slab(lane, batch);
    l->taken++;
    return true;
}

static bool release(uint32_t lane)
{
    struct sim_lane *l = &lanes[lane];
    if (l->view_count == 0 || l->kind == CONSUMER_HOARDS || stopped(l)) return false;
    uint32_t at = prop_below(&rnd, l->view_count);
    stk_credit_unpin(&credit, lane, l->views[at]);
    stk_credit_give(&credit, lane, l->views[at]);
    l->views[at] = l->views[--l->view_count];
    return true;
}

static bool act(uint32_t which, uint32_t lane)
{
    switch (which) {
    case 0: return request(lane);
    case 1: return grant();
    case 2: return pick();
    case 3: return finish();
    case 4: return take(lane);
    case 5: return release(lane);
    default: return reap();
    }
}

/* ---- the run ---- */

static void set_up(uint64_t seed, bool faults, int only_kind)
{
    static void *block;
    const struct stk_dispatch_limits limits = {.lanes = LANES, .batches = LANES * AHEAD, .items = LANES * AHEAD * 3};
    rnd = prop_seed(seed);
    allow_faults = faults;
    forced = false;
    running_count = quarantine_count = 0;
    free(block);
    block = aligned_alloc(16, stk_dispatch_bytes(&limits));
    PROP_CHECK(block);
    dispatch = stk_dispatch_init(block, stk_dispatch_bytes(&limits), &limits);
    stk_credit_init(&credit);
    lane_count = 1 + prop_below(&rnd, LANES);
    memset(lanes, 0, sizeof lanes);

    uint64_t reserves = 0, limit;
    for (uint32_t i = 0; i < lane_count; i++) {
        struct sim_lane *l = &lanes[i];
        uint64_t most = 1 + prop_below(&rnd, 10);
        l->kind = only_kind >= 0 ? (enum consumer)only_kind : (enum consumer)prop_below(&rnd, 3);
        l->sizes_unknown = faults && prop_once_in(&rnd, 3);
        l->largest = l->sizes_unknown ? 0 : most;
        l->plan = PLAN;
        l->stop_at = prop_below(&rnd, PLAN);
        for (uint32_t b = 0; b < PLAN; b++)
            l->batches[b].needed = prop_once_in(&rnd, 4) ? 1 + prop_below(&rnd, (uint32_t)most) : most;
        reserves += 2 * most;
    }
    limit = reserves + (prop_once_in(&rnd, 3) ? 0 : prop_below(&rnd, 40));
    for (uint32_t i = 0; i < lane_count; i++) {
        const struct stk_lane_options options = {.policy = prop_below(&rnd, 3), .retries = prop_below(&rnd, 2)};
        PROP_CHECK(stk_credit_lane_open(&credit, i, lanes[i].largest, limit, NULL) == STOKER_OK);
        PROP_CHECK(stk_dispatch_lane_open(dispatch, i, &options, NULL) == STOKER_OK);
    }
}

/* Random actions until a full sweep of all of them changes nothing. */
static void run_to_rest(void)
{
    for (bool moved = true; moved;) {
        for (uint32_t i = 0; i < 200; i++) (void)act(prop_below(&rnd, 7), prop_below(&rnd, lane_count));
        moved = false;
        for (uint32_t lane = 0; lane < lane_count; lane++)
            for (uint32_t which = 0; which < 7; which++) moved |= act(which, lane);
    }
}

static void check_all_served(void)
{
    for (uint32_t i = 0; i < lane_count; i++) PROP_CHECK(lanes[i].taken == lanes[i].plan || stopped(&lanes[i]));
}

static void prop_a1_lanes_that_consume_get_all_their_batches(uint64_t seed)
{
    set_up(seed, false, -1);
    run_to_rest();
    check_all_served();
}

static void prop_a1_also_with_retries_quarantine_and_overflow(uint64_t seed)
{
    set_up(seed, true, -1);
    run_to_rest();
    check_all_served();
}

static void prop_a5_consumers_that_keep_everything_finish(uint64_t seed)
{
    set_up(seed, false, CONSUMER_HOARDS);
    run_to_rest();
    check_all_served();
    for (uint32_t i = 0; i < lane_count; i++) {
        PROP_CHECK(lanes[i].view_count > 0); /* within the reserve, batches are views */
        PROP_CHECK(credit.lanes[i].used == credit.lanes[i].pinned);
    }
}

/* The sums are what a walk over the lanes would give, whatever the order of calls. */
static void prop_a1_sums_match_the_law(uint64_t seed)
{
    struct prop_random random = prop_seed(seed);
    stk_credit_init(&credit);
    for (int step = 0; step < 200; step++) {
        uint32_t lane = prop_below(&random, 6);
        struct stk_credit_lane *l = &credit.lanes[lane];
        uint64_t bytes = 1 + prop_below(&random, 12), charged_before = credit.charged, shared_before = shared_bytes();
        uint32_t what = prop_below(&random, 7);
        if (!l->open)
            (void)stk_credit_lane_open(&credit, lane, prop_below(&random, 10), 40 + prop_below(&random, 60), NULL);
        else if (what == 0)
            (void)stk_credit_take(&credit, lane, bytes);
        else if (what == 1 && l->used - l->pinned >= bytes)
            stk_credit_give(&credit, lane, bytes);
        else if (what == 2 && l->used - l->pinned >= bytes)
            (void)stk_credit_pin(&credit, lane, bytes);
        else if (what == 3 && l->pinned >= bytes)
            stk_credit_unpin(&credit, lane, bytes);
        else if (what == 4)
            (void)stk_credit_lane_grow(&credit, lane, bytes, NULL);
        else if (what == 5 && l->used == 0)
            stk_credit_lane_close(&credit, lane);

        uint64_t reserved = 0, charged = 0, most = 0;
        for (uint32_t i = 0; i < 6; i++) {
            const struct stk_credit_lane *x = &credit.lanes[i];
            uint64_t demand = x->used > x->pinned + x->largest ? x->used : x->pinned + x->largest;
            if (!x->open) continue;
            reserved += x->reserve;
            charged += demand > x->reserve ? demand - x->reserve : 0;
            most = x->max_bytes > most ? x->max_bytes : most;
            PROP_CHECK(x->reserve >= x->largest);
        }
        PROP_CHECK(credit.reserved == reserved);
        PROP_CHECK(credit.charged == charged);
        PROP_CHECK(credit.limit == (most > reserved ? most : reserved));
        /* Only growth and openings may leave the sum above what is shared; takes and pins never do. */
        if (what < 4 && shared_before == shared_bytes())
            PROP_CHECK(charged <= charged_before || charged <= shared_bytes());
    }
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_a1_lanes_that_consume_get_all_their_batches", prop_a1_lanes_that_consume_get_all_their_batches, 2000},
        {"prop_a1_also_with_retries_quarantine_and_overflow", prop_a1_also_with_retries_quarantine_and_overflow, 2000},
        {"prop_a5_consumers_that_keep_everything_finish", prop_a5_consumers_that_keep_everything_finish, 2000},
        {"prop_a1_sums_match_the_law", prop_a1_sums_match_the_law, 2000},
    };
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
