/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded start (rule D1): whatever deadlines other loaders claim, each admitted batch starts. While a loader of weight
 * w waits, a loader of weight v is given at most v * (own work ahead + its largest item) / w plus one item of its own;
 * inside a loader deadlines rise, as the engine sees to (equal ones go by size). Work is conserved: a worker is idle
 * only if nothing waits.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/dispatch.h"
#include "sched/share.h"
#include "tests/property/prop.h"

enum { LOADERS = 5, BATCHES = 64, ITEMS = 256, UNIT = 1 << STK_SHARE_UNIT_SHIFT };

struct waiting { /* a batch whose first item has not been handed out */
    bool is, started;
    uint32_t loader;
    uint64_t given_before[LOADERS]; /* work of each loader so far, when it was admitted */
    uint64_t ahead;                 /* work of its own loader that was admitted and not handed out then */
};

struct loader {
    uint32_t weight;
    uint64_t sequence, deadline, given, queued, largest;
};

static struct stk_dispatch *dispatch;
static struct loader loaders[LOADERS];
static struct waiting waits[BATCHES];
static uint64_t item_work[BATCHES];
static struct prop_random rnd;

static void set_up(void)
{
    static void *block;
    const struct stk_dispatch_limits limits = {.lanes = LOADERS, .batches = BATCHES, .items = ITEMS};
    const struct stk_lane_options options = {.pool = STK_POOL_NATIVE};
    size_t size = stk_dispatch_bytes(&limits);
    free(block);
    block = aligned_alloc(16, size);
    PROP_CHECK(block);
    dispatch = stk_dispatch_init(block, size, &limits);
    memset(waits, 0, sizeof waits);
    for (uint32_t i = 0; i < LOADERS; i++) {
        loaders[i] = (struct loader){.weight = 1 + prop_below(&rnd, prop_once_in(&rnd, 3) ? 64 : 4)};
        PROP_CHECK(stk_dispatch_lane_open(dispatch, i, &options, NULL) == STOKER_OK);
        stk_dispatch_lane_share(dispatch, i, 100 + i, loaders[i].weight);
    }
}

static void admit(void)
{
    uint32_t l = prop_below(&rnd, LOADERS), items = 1 + prop_below(&rnd, 8), batch;
    struct loader *loader = &loaders[l];
    uint64_t work = 1 + prop_below(&rnd, prop_once_in(&rnd, 4) ? 1000 : 10);
    loader->deadline += 1 + prop_below(&rnd, l == 0 ? 1000 : 3); /* the first one claims ever less urgency */
    if (stk_dispatch_batch_add(dispatch, l, 1, loader->sequence, items, loader->deadline, &batch, NULL) != STOKER_OK)
        return; /* the table is full */
    loader->sequence++;
    stk_dispatch_granted(dispatch, batch);
    stk_dispatch_set_cost(dispatch, batch, work * UNIT, 0);
    waits[batch] = (struct waiting){.is = true, .loader = l, .ahead = loader->queued};
    for (uint32_t i = 0; i < LOADERS; i++) waits[batch].given_before[i] = loaders[i].given;
    loader->queued += work * items;
    if (work > loader->largest) loader->largest = work;
    item_work[batch] = work;
}

/* The batch gives its first item now: nobody was given more than the bound since it was admitted. */
static void check_start(const struct waiting *w)
{
    const struct loader *own = &loaders[w->loader];
    for (uint32_t i = 0; i < LOADERS; i++) {
        if (i == w->loader) continue;
        uint64_t given = loaders[i].given - w->given_before[i];
        uint64_t bound = loaders[i].weight * (w->ahead + 2 * own->largest) / own->weight + 2 * loaders[i].largest + 64;
        PROP_CHECK(given <= bound);
    }
}

static bool serve(void)
{
    struct stk_item item;
    uint32_t batch;
    uint64_t queued = 0;
    for (uint32_t i = 0; i < LOADERS; i++) queued += loaders[i].queued;
    bool picked = stk_dispatch_pick(dispatch, STK_POOL_NATIVE, &item);
    PROP_CHECK(picked == (queued > 0));
    if (!picked) return false;
    struct waiting *w = &waits[item.batch];
    PROP_CHECK(w->is);
    if (!w->started) check_start(w);
    w->started = true;
    loaders[w->loader].given += item_work[item.batch];
    loaders[w->loader].queued -= item_work[item.batch];
    if (stk_dispatch_finish(dispatch, item.item_id, STK_OUTCOME_OK, &batch) == STK_VERDICT_DONE) {
        w->is = false;
        stk_dispatch_remove(dispatch, batch);
    }
    return true;
}

static void prop_d1_every_admitted_batch_starts_within_its_bound(uint64_t seed)
{
    rnd = prop_seed(seed);
    set_up();
    uint32_t pressure = 1 + prop_below(&rnd, 12); /* items served for each batch that is admitted */
    for (int i = 0; i < 400; i++) {
        admit();
        for (uint32_t k = prop_below(&rnd, pressure); k > 0; k--) (void)serve();
    }
    while (serve()) continue;
    for (uint32_t i = 0; i < BATCHES; i++) PROP_CHECK(!waits[i].is);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {{"prop_d1_every_admitted_batch_starts_within_its_bound",
                                         prop_d1_every_admitted_batch_starts_within_its_bound, 1000}};
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
