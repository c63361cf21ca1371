/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of sched/dispatch under random events, held against a model that is written the slow way: every batch ends
 * exactly once, no item runs twice at once, the earliest deadline goes first, memory is granted in plan order, skipped
 * places are filled from the nearest good one, and the same events give the same actions.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/dispatch.h"
#include "tests/property/prop.h"

enum { LANES = 3, POOLS = LANES + 1, BATCHES = 12, ITEMS = 60, ITEMS_OF_ONE = 6, RUNNING = 8 };
enum place { TODO, RUNS, GOOD, BAD, COPIED };

struct model_batch {
    bool live, granted, canceled, failed, ended, copying;
    uint32_t lane, count, verdicts;
    uint64_t sequence, deadline, order;
    enum place places[ITEMS_OF_ONE];
    uint32_t lost[ITEMS_OF_ONE];
    bool was_good[ITEMS_OF_ONE];
};

struct model_lane {
    struct stk_lane_options options;
    uint32_t generation;
    uint64_t next;       /* sequence to request */
    uint64_t next_grant; /* sequence that must be granted next */
};

static struct stk_dispatch *dispatch;
static struct model_batch model[BATCHES];
static struct model_lane lanes[LANES];
static struct stk_item running[RUNNING];
static uint32_t running_count;
static uint64_t orders, digest;
static struct prop_random rnd;

static void note(uint64_t value) { digest = (digest ^ value) * UINT64_C(0x100000001b3); }

static uint32_t left_of(const struct model_batch *b)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < b->count; i++) left += b->places[i] == TODO || b->places[i] == RUNS;
    return left;
}

static uint32_t running_of(uint32_t handle)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < running_count; i++) count += running[i].batch == handle;
    return count;
}

static bool has_todo(const struct model_batch *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->places[i] == TODO) return true;
    return false;
}

static bool goes_before(const struct model_batch *a, const struct model_batch *b)
{
    if (a->deadline != b->deadline) return a->deadline < b->deadline;
    if (left_of(a) != left_of(b)) return left_of(a) > left_of(b);
    return a->order < b->order;
}

static void end_batch(uint32_t handle)
{
    PROP_CHECK(++model[handle].verdicts == 1);
    PROP_CHECK(running_of(handle) == 0);
    model[handle].ended = true;
}

/* ---- actions ---- */

static void add(void)
{
    uint32_t lane = prop_below(&rnd, LANES), handle = 99, count = 1 + prop_below(&rnd, ITEMS_OF_ONE);
    struct model_lane *l = &lanes[lane];
    uint64_t deadline = prop_below(&rnd, 6);
    stoker_status status =
        stk_dispatch_batch_add(dispatch, lane, l->generation, l->next, count, deadline, &handle, NULL);
    note((uint64_t)status);
    if (status != STOKER_OK) return; /* a full table pushes back */
    note(handle);
    PROP_CHECK(handle < BATCHES);
    PROP_CHECK(!model[handle].live);
    model[handle] = (struct model_batch){
        .live = true, .lane = lane, .count = count, .sequence = l->next++, .deadline = deadline, .order = orders++};
}

static void grant(void)
{
    uint8_t blocked[1] = {(uint8_t)prop_below(&rnd, 8)};
    uint32_t handle;
    if (!stk_dispatch_next_waiting(dispatch, blocked, &handle)) return;
    struct model_batch *b = &model[handle];
    note(handle);
    PROP_CHECK((blocked[0] >> b->lane & 1) == 0);
    for (uint32_t i = 0; i < BATCHES; i++) {
        const struct model_batch *x = &model[i];
        if (!x->live || x->granted || x->canceled || x->failed || x == b) continue;
        if (x->lane == b->lane) PROP_CHECK(x->order > b->order); /* plan order */
    }
    b->granted = true;
    stk_dispatch_granted(dispatch, handle);
}

static void check_copy(const struct model_batch *b, const struct stk_item *item)
{
    PROP_CHECK(!b->was_good[item->index]);
    PROP_CHECK(b->was_good[item->from_index]);
    if (item->from_index < item->index) {
        for (uint32_t i = item->from_index + 1; i < item->index; i++) PROP_CHECK(!b->was_good[i]);
    } else {
        for (uint32_t i = 0; i < item->from_index; i++) PROP_CHECK(!b->was_good[i]);
    }
}

static void pick(void)
{
    uint32_t pool = prop_below(&rnd, POOLS);
    struct stk_item item;
    if (running_count == RUNNING) return;
    const struct model_batch *best = NULL;
    for (uint32_t i = 0; i < BATCHES; i++) {
        const struct model_batch *b = &model[i];
        if (!b->live || !b->granted || b->canceled || b->failed || b->ended || !has_todo(b)) continue;
        if (lanes[b->lane].options.pool != pool) continue;
        if (!best || goes_before(b, best)) best = b;
    }
    bool picked = stk_dispatch_pick(dispatch, pool, &item);
    PROP_CHECK(picked == (best != NULL));
    if (!picked) return;
    struct model_batch *b = &model[item.batch];
    note(item.item_id);
    PROP_CHECK(b == best);
    PROP_CHECK(b->places[item.index] == TODO);
    PROP_CHECK((item.kind == STK_ITEM_COPY) == b->copying);
    if (item.kind == STK_ITEM_COPY) check_copy(b, &item);
    if (prop_once_in(&rnd, 10)) {
        stk_dispatch_unpick(dispatch, item.item_id);
        return;
    }
    b->places[item.index] = RUNS;
    running[running_count++] = item;
}

/* What the last MAKE item of a batch under SKIP leads to. */
static void settle_skip(struct model_batch *b)
{
    if (b->copying || left_of(b) > 0) return;
    uint32_t bad = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        b->was_good[i] = b->places[i] == GOOD;
        bad += b->places[i] == BAD;
    }
    if (bad == b->count) b->failed = true;
    if (bad == 0 || bad == b->count) return;
    b->copying = true;
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->places[i] != BAD) continue;
        b->places[i] = TODO;
        b->lost[i] = 0; /* a copy has a loss of its own */
    }
}

/* Applies the rules of dispatch.h for one item that ended. Which of retries and substitutes is tried is seen in the
 * item itself. */
static void model_outcome(struct model_batch *b, const struct stk_item *item, enum stk_item_outcome outcome,
                          uint32_t tries)
{
    const struct stk_lane_options *options = &lanes[b->lane].options;
    enum place *place = &b->places[item->index];
    *place = BAD;
    if (outcome == STK_OUTCOME_OK) {
        *place = item->kind == STK_ITEM_COPY ? COPIED : GOOD;
    } else if (outcome == STK_OUTCOME_LOST && b->lost[item->index]++ == 0) {
        *place = TODO;
    } else if (outcome == STK_OUTCOME_BAD_DATA && item->kind == STK_ITEM_MAKE) {
        if (item->substitute == 0 && tries < options->retries)
            *place = TODO;
        else if (options->policy == STK_POLICY_REPLACE && item->substitute < STK_REPLACE_TRIES)
            *place = TODO;
        else if (options->policy != STK_POLICY_SKIP)
            b->failed = true;
    } else {
        b->failed = true;
    }
    if (!b->failed) settle_skip(b);
}

static uint32_t bad_tries[BATCHES][ITEMS_OF_ONE];

static void forget_tries(uint32_t handle) { memset(bad_tries[handle], 0, sizeof bad_tries[handle]); }

static void restart(uint32_t handle)
{
    struct model_batch *b = &model[handle];
    for (uint32_t i = 0; i < running_count;) {
        uint32_t unused;
        if (running[i].batch != handle) {
            i++;
            continue;
        }
        struct stk_item item = running[i];
        running[i] = running[--running_count];
        if (prop_once_in(&rnd, 2)) continue;
        stk_dispatch_restart(dispatch, handle); /* twice is the same as once */
        PROP_CHECK(stk_dispatch_finish(dispatch, item.item_id, STK_OUTCOME_OK, &unused) == STK_VERDICT_UNKNOWN);
    }
    stk_dispatch_restart(dispatch, handle);
    b->copying = false;
    for (uint32_t i = 0; i < b->count; i++) b->places[i] = TODO;
    for (uint32_t i = 0; i < b->count; i++) b->was_good[i] = false;
    forget_tries(handle);
}

static void finish(void)
{
    if (running_count == 0) return;
    uint32_t at = prop_below(&rnd, running_count), handle = 99;
    struct stk_item item = running[at];
    running[at] = running[--running_count];
    struct model_batch *b = &model[item.batch];
    static const enum stk_item_outcome outcomes[] = {STK_OUTCOME_OK,       STK_OUTCOME_OK,   STK_OUTCOME_OK,
                                                     STK_OUTCOME_BAD_DATA, STK_OUTCOME_LOST, STK_OUTCOME_FATAL};
    enum stk_item_outcome outcome = outcomes[prop_below(&rnd, prop_once_in(&rnd, 5) ? 6 : 5)];
    bool draining = b->canceled || b->failed;
    if (draining)
        b->places[item.index] = BAD;
    else
        model_outcome(b, &item, outcome, bad_tries[item.batch][item.index]);
    if (outcome == STK_OUTCOME_BAD_DATA) bad_tries[item.batch][item.index]++;

    enum stk_batch_verdict verdict = stk_dispatch_finish(dispatch, item.item_id, outcome, &handle), expected;
    note(verdict);
    PROP_CHECK(handle == item.batch);
    if (b->canceled)
        expected = running_of(handle) ? STK_VERDICT_NONE : STK_VERDICT_CANCELED;
    else if (b->failed)
        expected = running_of(handle) ? STK_VERDICT_NONE : STK_VERDICT_FAILED;
    else
        expected = left_of(b) ? STK_VERDICT_NONE : STK_VERDICT_DONE;
    PROP_CHECK(verdict == expected);
    PROP_CHECK(stk_dispatch_finish(dispatch, item.item_id, outcome, &handle) == STK_VERDICT_UNKNOWN);
    if (verdict != STK_VERDICT_NONE) end_batch(item.batch);
    if (verdict == STK_VERDICT_DONE)
        for (uint32_t i = 0; i < b->count; i++) PROP_CHECK(b->places[i] == GOOD || b->places[i] == COPIED);
    if (verdict == STK_VERDICT_NONE && !draining && !b->failed && outcome == STK_OUTCOME_LOST && prop_once_in(&rnd, 3))
        restart(item.batch);
}

static void cancel(uint32_t lane)
{
    uint32_t out[BATCHES], cursor = UINT32_MAX, handle, expected = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct model_batch *b = &model[i];
        if (!b->live || b->lane != lane || b->ended || b->canceled) continue;
        b->canceled = true;
        expected += running_of(i) == 0;
    }
    size_t count = stk_dispatch_cancel(dispatch, lane, out, BATCHES);
    PROP_CHECK(count == expected);
    for (size_t i = 0; i < count; i++) end_batch(out[i]);
    uint64_t before = 0;
    while (stk_dispatch_walk(dispatch, lane, &cursor, &handle)) { /* plan order */
        PROP_CHECK(model[handle].live && model[handle].lane == lane);
        PROP_CHECK(model[handle].order >= before);
        before = model[handle].order;
    }
    lanes[lane].generation++;
    lanes[lane].next = 0;
}

static void fail_outside(void)
{
    uint32_t handle = prop_below(&rnd, BATCHES);
    struct model_batch *b = &model[handle];
    if (!b->live || b->ended) return;
    bool draining = b->canceled || b->failed;
    enum stk_batch_verdict verdict = stk_dispatch_fail(dispatch, handle);
    if (draining) PROP_CHECK(verdict == STK_VERDICT_NONE);
    if (!b->canceled) b->failed = true;
    if (verdict == STK_VERDICT_FAILED) end_batch(handle);
}

static void remove_ended(void)
{
    uint32_t handle = prop_below(&rnd, BATCHES);
    struct model_batch *b = &model[handle];
    struct stk_batch_state state;
    if (!b->live) return;
    stk_dispatch_read(dispatch, handle, &state);
    PROP_CHECK(state.lane == b->lane && state.sequence == b->sequence && state.item_count == b->count);
    PROP_CHECK(state.canceled == b->canceled && state.granted == b->granted);
    if (!b->ended) {
        if (!b->failed && !b->canceled) PROP_CHECK(state.items_left == left_of(b));
        return;
    }
    stk_dispatch_remove(dispatch, handle);
    b->live = false;
    forget_tries(handle);
}

static void set_deadline(void)
{
    uint32_t handle = prop_below(&rnd, BATCHES);
    if (!model[handle].live) return;
    model[handle].deadline = prop_below(&rnd, 6);
    stk_dispatch_set_deadline(dispatch, handle, model[handle].deadline);
}

/* ---- the run ---- */

static void run(uint64_t seed, uint8_t garbage)
{
    static void *block;
    const struct stk_dispatch_limits limits = {.lanes = LANES, .batches = BATCHES, .items = ITEMS};
    size_t size = stk_dispatch_bytes(&limits);
    free(block);
    block = aligned_alloc(16, size);
    PROP_CHECK(block);
    memset(block, garbage, size);
    dispatch = stk_dispatch_init(block, size, &limits);
    memset(model, 0, sizeof model);
    memset(bad_tries, 0, sizeof bad_tries);
    rnd = prop_seed(seed);
    running_count = 0;
    orders = 0;
    digest = 1;
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i] = (struct model_lane){.options = {.pool = prop_below(&rnd, 3) ? STK_POOL_NATIVE : i + 1,
                                                   .policy = prop_below(&rnd, 3),
                                                   .retries = prop_below(&rnd, 3)}};
        PROP_CHECK(stk_dispatch_lane_open(dispatch, i, &lanes[i].options, NULL) == STOKER_OK);
    }
    static void (*const actions[])(void) = {add,    add,    grant,  grant,        pick,         pick,        pick,
                                            finish, finish, finish, remove_ended, remove_ended, set_deadline};
    for (int step = 0; step < 400; step++) {
        actions[prop_below(&rnd, sizeof actions / sizeof *actions)]();
        if (prop_once_in(&rnd, 40)) fail_outside();
        if (prop_once_in(&rnd, 60)) cancel(prop_below(&rnd, LANES));
    }
    /* The end of all: whoever still runs answers, everything can be removed, the tables are empty again. */
    for (uint32_t i = 0; i < LANES; i++) cancel(i);
    while (running_count > 0) finish();
    for (int i = 0; i < 1000; i++) remove_ended();
    for (uint32_t i = 0; i < BATCHES; i++) PROP_CHECK(!model[i].live);
    for (uint32_t i = 0; i < LANES; i++) stk_dispatch_lane_close(dispatch, i);
}

static void prop_dispatch_keeps_its_laws(uint64_t seed) { run(seed, 0xa5); }

static void prop_dispatch_is_deterministic(uint64_t seed)
{
    run(seed, 0x00);
    uint64_t first = digest;
    run(seed, 0xff);
    PROP_CHECK(digest == first);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_dispatch_keeps_its_laws", prop_dispatch_keeps_its_laws, 2000},
        {"prop_dispatch_is_deterministic", prop_dispatch_is_deterministic, 500},
    };
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
