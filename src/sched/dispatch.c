/* SPDX-License-Identifier: Apache-2.0
 *
 * Who makes what next: see dispatch.h for the life of a batch.
 *
 * One block holds the lanes, the batches, the items and the queues (dispatch_queue.c). A batch is in a queue exactly
 * while it may hand out an item. The items of a batch are a chain in order of their
 * place; those that wait to be handed out are a second chain. An item's id holds its slot and a serial number that
 * changes each time it is handed out, so that the answer of a worker that was given up is recognised as late (rule C3).
 */
#include "sched/dispatch.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/dispatch_internal.h"

static size_t part(size_t *offset, size_t count, size_t size)
{
    size_t at = (size_t)stk_align_up(*offset, 16);
    *offset = at + count * size;
    return at;
}

struct layout {
    size_t lanes, batches, items, nodes, pools, flows, share_flows, share_nodes, waiting_lanes, total;
};

static struct layout lay_out(const struct stk_dispatch_limits *limits)
{
    struct layout layout;
    size_t offset = sizeof(struct stk_dispatch);
    STK_ASSERT(limits->lanes > 0 && limits->lanes <= STK_LANES_MAX);
    STK_ASSERT(limits->batches > 0 && limits->batches <= STK_BATCHES_MAX);
    STK_ASSERT(limits->items > 0 && limits->items < (1u << SLOT_BITS));
    layout.lanes = part(&offset, limits->lanes, sizeof(struct lane));
    layout.batches = part(&offset, limits->batches, sizeof(struct batch));
    layout.items = part(&offset, limits->items, sizeof(struct item));
    layout.nodes = part(&offset, limits->batches, sizeof(struct stk_heap_node));
    layout.pools = part(&offset, limits->lanes + 1u, sizeof(struct pool_state));
    layout.flows = part(&offset, limits->lanes + 1u, sizeof(struct flow));
    layout.share_flows = part(&offset, limits->lanes + 1u, sizeof(struct stk_share_flow));
    layout.share_nodes = part(&offset, limits->lanes + 1u, sizeof(struct stk_heap_node));
    layout.waiting_lanes = part(&offset, limits->lanes, sizeof(uint32_t));
    layout.total = part(&offset, 0, 1);
    return layout;
}

size_t stk_dispatch_bytes(const struct stk_dispatch_limits *limits) { return lay_out(limits).total; }

struct stk_dispatch *stk_dispatch_init(void *block, size_t size, const struct stk_dispatch_limits *limits)
{
    struct layout layout = lay_out(limits);
    STK_ASSERT(size >= layout.total);
    STK_ASSERT((uintptr_t)block % 16 == 0);
    uint8_t *bytes = block;
    struct stk_dispatch *d = block;
    memset(d, 0, sizeof *d);
    d->limits = *limits;
    d->lanes = (void *)(bytes + layout.lanes);
    d->batches = (void *)(bytes + layout.batches);
    d->items = (void *)(bytes + layout.items);
    d->nodes = (void *)(bytes + layout.nodes);
    d->pools = (void *)(bytes + layout.pools);
    d->flows = (void *)(bytes + layout.flows);
    stk_share_init(&d->share, (void *)(bytes + layout.share_flows), (void *)(bytes + layout.share_nodes));
    d->waiting_lanes = (void *)(bytes + layout.waiting_lanes);
    d->free_batch = d->free_item = NONE;
    memset(d->lanes, 0, limits->lanes * sizeof *d->lanes);
    for (uint32_t i = 0; i <= limits->lanes; i++) {
        d->pools[i] = (struct pool_state){.roots = {STK_HEAP_NONE, STK_HEAP_NONE}};
        d->flows[i] = (struct flow){.roots = {STK_HEAP_NONE, STK_HEAP_NONE}};
        stk_share_open(&d->share, i, 1);
    }
    return d;
}

static struct lane *get_lane(const struct stk_dispatch *d, uint32_t lane)
{
    STK_ASSERT(lane < d->limits.lanes);
    STK_ASSERT(d->lanes[lane].open);
    return &d->lanes[lane];
}

static struct batch *get_batch(const struct stk_dispatch *d, uint32_t batch)
{
    STK_ASSERT(batch < d->batches_touched);
    STK_ASSERT(d->batches[batch].item_count > 0); /* 0 marks a free slot */
    return &d->batches[batch];
}

/* The item that was handed out under this id, or NULL. */
static struct item *running_item(const struct stk_dispatch *d, uint64_t item_id)
{
    uint32_t slot = (uint32_t)(item_id & ((1u << SLOT_BITS) - 1));
    if (item_id == 0 || slot >= d->items_touched || d->items[slot].item_id != item_id) return NULL;
    STK_ASSERT(d->items[slot].state == ITEM_RUNNING);
    return &d->items[slot];
}

static uint32_t slot_of(const struct stk_dispatch *d, const struct item *item) { return (uint32_t)(item - d->items); }

/* ---- queues ---- */

static void todo_first(struct stk_dispatch *d, struct batch *b, uint32_t slot)
{
    d->items[slot].state = ITEM_TODO;
    d->items[slot].next_todo = b->first_todo;
    b->first_todo = slot;
    if (b->last_todo == NONE) b->last_todo = slot;
}

static void todo_last(struct stk_dispatch *d, struct batch *b, uint32_t slot)
{
    d->items[slot].state = ITEM_TODO;
    d->items[slot].next_todo = NONE;
    if (b->last_todo == NONE)
        b->first_todo = slot;
    else
        d->items[b->last_todo].next_todo = slot;
    b->last_todo = slot;
}

/* Moves the lane's waiting mark to the next batch that still wants memory, from `batch` on. */
static void settle_waiting(struct stk_dispatch *d, uint32_t lane, uint32_t batch)
{
    struct lane *l = &d->lanes[lane];
    while (batch != NONE && (d->batches[batch].granted || d->batches[batch].canceled || d->batches[batch].failed))
        batch = d->batches[batch].next;
    if (l->waiting == NONE && batch != NONE) {
        l->waiting_at = d->waiting_count;
        d->waiting_lanes[d->waiting_count++] = lane;
    } else if (l->waiting != NONE && batch == NONE) {
        uint32_t moved = d->waiting_lanes[--d->waiting_count];
        d->waiting_lanes[l->waiting_at] = moved;
        d->lanes[moved].waiting_at = l->waiting_at;
    }
    l->waiting = batch;
}

/* ---- lanes and batches ---- */

stoker_status stk_dispatch_lane_open(struct stk_dispatch *d, uint32_t lane, const struct stk_lane_options *options,
                                     stoker_error *err)
{
    if (lane >= d->limits.lanes)
        return stk_fail(err, STOKER_ERR_LIMIT, "this would be loader and rank number %u, at most %u are served at once",
                        lane + 1, d->limits.lanes);
    STK_ASSERT(!d->lanes[lane].open);
    STK_ASSERT(options->pool <= d->limits.lanes);
    STK_ASSERT(options->policy <= STK_POLICY_REPLACE);
    d->lanes[lane] = (struct lane){.options = *options, .first = NONE, .last = NONE, .waiting = NONE, .open = true};
    stk_dispatch_lane_join(d, lane);
    return STOKER_OK;
}

void stk_dispatch_lane_close(struct stk_dispatch *d, uint32_t lane)
{
    STK_ASSERT(get_lane(d, lane)->first == NONE);
    stk_dispatch_lane_part(d, lane);
    d->lanes[lane].open = false;
}

static uint32_t take_item(struct stk_dispatch *d)
{
    uint32_t slot = d->free_item;
    if (slot != NONE)
        d->free_item = d->items[slot].next;
    else
        slot = d->items_touched++;
    d->items_in_use++;
    return slot;
}

/* Gives the batch its chain of items, all to do. */
static void fill_items(struct stk_dispatch *d, uint32_t batch)
{
    struct batch *b = &d->batches[batch];
    uint32_t before = NONE;
    for (uint32_t index = 0; index < b->item_count; index++) {
        uint32_t slot = take_item(d);
        d->items[slot] = (struct item){.batch = batch, .index = index, .next = NONE, .kind = STK_ITEM_MAKE};
        if (before == NONE)
            b->first_item = slot;
        else
            d->items[before].next = slot;
        before = slot;
        todo_last(d, b, slot);
    }
}

static stoker_status check_room(const struct stk_dispatch *d, uint32_t item_count, stoker_error *err)
{
    if (item_count == 0 || item_count > STK_BATCH_SAMPLES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a batch of %u samples: it must have 1 to %u", item_count,
                        STK_BATCH_SAMPLES_MAX);
    if (d->free_batch == NONE && d->batches_touched == d->limits.batches)
        return stk_fail(err, STOKER_ERR_LIMIT, "%u batches are in flight, which is the limit: request fewer ahead",
                        d->limits.batches);
    if (item_count > d->limits.items - d->items_in_use)
        return stk_fail(err, STOKER_ERR_LIMIT,
                        "%u samples are in flight and %u more were requested, the limit is %u: request fewer ahead",
                        d->items_in_use, item_count, d->limits.items);
    return STOKER_OK;
}

void stk_dispatch_set_order(struct stk_dispatch *d, uint32_t batch, const uint32_t *places, uint32_t *scratch)
{
    struct batch *b = get_batch(d, batch);
    uint32_t place = 0;
    for (uint32_t slot = b->first_item; slot != NONE; slot = d->items[slot].next) {
        STK_ASSERT(d->items[slot].state == ITEM_TODO && d->items[slot].attempt == 0);
        scratch[place++] = slot;
    }
    STK_ASSERT(place == b->item_count);
    b->first_todo = b->last_todo = NONE;
    for (uint32_t i = 0; i < b->item_count; i++) {
        STK_ASSERT(places[i] < b->item_count && scratch[places[i]] != NONE);
        todo_last(d, b, scratch[places[i]]);
        scratch[places[i]] = NONE; /* each place once */
    }
}

stoker_status stk_dispatch_batch_add(struct stk_dispatch *d, uint32_t lane, uint32_t generation, uint64_t sequence,
                                     uint32_t item_count, uint64_t deadline_ns, uint32_t *out_batch, stoker_error *err)
{
    struct lane *l = get_lane(d, lane);
    STK_TRY(check_room(d, item_count, err));
    if (l->planned && l->newest_generation == generation && sequence != l->newest + 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "batch %llu was requested after batch %llu: sequences rise by one",
                        (unsigned long long)sequence, (unsigned long long)l->newest);
    l->planned = true;
    l->newest = sequence;
    l->newest_generation = generation;

    uint32_t batch = d->free_batch;
    if (batch != NONE)
        d->free_batch = d->batches[batch].next;
    else
        batch = d->batches_touched++;
    struct batch *b = &d->batches[batch];
    *b = (struct batch){.lane = lane,
                        .generation = generation,
                        .sequence = sequence,
                        .deadline_ns = deadline_ns,
                        .order = d->next_order++,
                        .item_count = item_count,
                        .items_left = item_count,
                        .failed_index = NONE,
                        .first_item = NONE,
                        .first_todo = NONE,
                        .last_todo = NONE,
                        .prev = l->last,
                        .next = NONE};
    d->nodes[batch] = (struct stk_heap_node){.inside = false};
    fill_items(d, batch);

    if (l->last == NONE)
        l->first = batch;
    else
        d->batches[l->last].next = batch;
    l->last = batch;
    if (l->waiting == NONE) settle_waiting(d, lane, batch);
    *out_batch = batch;
    return STOKER_OK;
}

size_t stk_dispatch_cancel(struct stk_dispatch *d, uint32_t lane, uint32_t *out, size_t cap)
{
    size_t count = 0;
    for (uint32_t batch = get_lane(d, lane)->first; batch != NONE; batch = d->batches[batch].next) {
        struct batch *b = &d->batches[batch];
        if (b->ended || b->canceled) continue;
        b->canceled = true;
        stk_dispatch_settle_queue(d, batch);
        if (b->running > 0) continue;
        b->ended = true;
        STK_ASSERT(count < cap);
        out[count++] = batch;
    }
    settle_waiting(d, lane, NONE);
    return count;
}

void stk_dispatch_remove(struct stk_dispatch *d, uint32_t batch)
{
    struct batch *b = get_batch(d, batch);
    struct lane *l = &d->lanes[b->lane];
    STK_ASSERT(b->ended);
    STK_ASSERT(b->running == 0);
    STK_ASSERT(!d->nodes[batch].inside);
    STK_ASSERT(l->waiting != batch);
    uint32_t last = b->first_item;
    d->items_in_use -= b->item_count;
    while (d->items[last].next != NONE) last = d->items[last].next;
    d->items[last].next = d->free_item;
    d->free_item = b->first_item;

    if (b->prev == NONE)
        l->first = b->next;
    else
        d->batches[b->prev].next = b->next;
    if (b->next == NONE)
        l->last = b->prev;
    else
        d->batches[b->next].prev = b->prev;
    b->item_count = 0;
    b->next = d->free_batch;
    d->free_batch = batch;
}

/* ---- memory ---- */

bool stk_dispatch_next_waiting(const struct stk_dispatch *d, const uint8_t *blocked, uint32_t *out_batch)
{
    uint32_t best = NONE;
    for (uint32_t i = 0; i < d->waiting_count; i++) {
        uint32_t lane = d->waiting_lanes[i];
        if (blocked && (blocked[lane / 8] >> (lane % 8) & 1)) continue;
        uint32_t batch = d->lanes[lane].waiting;
        const struct batch *b = &d->batches[batch];
        if (best == NONE || b->deadline_ns < d->batches[best].deadline_ns ||
            (b->deadline_ns == d->batches[best].deadline_ns && b->order < d->batches[best].order))
            best = batch;
    }
    if (best == NONE) return false;
    *out_batch = best;
    return true;
}

void stk_dispatch_granted(struct stk_dispatch *d, uint32_t batch)
{
    struct batch *b = get_batch(d, batch);
    STK_ASSERT(d->lanes[b->lane].waiting == batch); /* plan order (rule A1) */
    b->granted = true;
    settle_waiting(d, b->lane, b->next);
    stk_dispatch_settle_queue(d, batch);
}

/* ---- items ---- */

bool stk_dispatch_pick(struct stk_dispatch *d, uint32_t pool, struct stk_item *out_item)
{
    STK_ASSERT(pool <= d->limits.lanes);
    uint32_t batch = stk_dispatch_next_batch(d, pool);
    if (batch == STK_HEAP_NONE) return false;
    struct batch *b = &d->batches[batch];
    uint32_t slot = b->first_todo;
    struct item *item = &d->items[slot];
    STK_ASSERT(item->state == ITEM_TODO);
    b->first_todo = item->next_todo;
    if (b->first_todo == NONE) b->last_todo = NONE;
    item->state = ITEM_RUNNING;
    item->item_id = ++d->next_serial << SLOT_BITS | slot;
    b->running++;
    stk_dispatch_item_out(d, batch, item);
    stk_dispatch_settle_queue(d, batch);
    *out_item = (struct stk_item){.item_id = item->item_id,
                                  .batch = batch,
                                  .index = item->index,
                                  .kind = item->kind,
                                  .attempt = item->attempt++,
                                  .substitute = item->substitute,
                                  .from_index = item->from_index};
    return true;
}

void stk_dispatch_unpick(struct stk_dispatch *d, uint64_t item_id)
{
    struct item *item = running_item(d, item_id);
    if (!item) return;
    struct batch *b = &d->batches[item->batch];
    STK_ASSERT(!b->canceled);
    STK_ASSERT(!b->failed);
    item->item_id = 0;
    item->attempt--;
    b->running--;
    stk_dispatch_item_back(d, item->batch, item);
    todo_first(d, b, slot_of(d, item));
    stk_dispatch_settle_queue(d, item->batch);
}

static enum stk_batch_verdict fail_batch(struct stk_dispatch *d, uint32_t batch, uint32_t index)
{
    struct batch *b = &d->batches[batch];
    b->failed = true;
    b->failed_index = index;
    stk_dispatch_settle_queue(d, batch);
    if (d->lanes[b->lane].waiting == batch) settle_waiting(d, b->lane, b->next);
    if (b->running > 0) return STK_VERDICT_NONE;
    b->ended = true;
    return STK_VERDICT_FAILED;
}

/* SKIP: each bad place becomes a copy of the good one before it, the first ones of the good one after them (C1). */
static void plan_copies(struct stk_dispatch *d, struct batch *b)
{
    uint32_t source = NONE;
    for (uint32_t slot = b->first_item; slot != NONE && source == NONE; slot = d->items[slot].next)
        if (d->items[slot].state == ITEM_GOOD) source = d->items[slot].index;
    for (uint32_t slot = b->first_item; slot != NONE; slot = d->items[slot].next) {
        struct item *item = &d->items[slot];
        if (item->state == ITEM_GOOD) {
            source = item->index;
            continue;
        }
        item->kind = STK_ITEM_COPY;
        item->from_index = source;
        item->attempt = item->retried = 0;
        item->lost = item->substitute = 0;
        todo_last(d, b, slot);
    }
}

static uint32_t first_bad_index(const struct stk_dispatch *d, const struct batch *b)
{
    uint32_t slot = b->first_item;
    while (d->items[slot].state != ITEM_BAD) slot = d->items[slot].next;
    return d->items[slot].index;
}

/* An item of a live batch has ended for good, GOOD or BAD. */
static enum stk_batch_verdict item_ended(struct stk_dispatch *d, uint32_t batch)
{
    struct batch *b = &d->batches[batch];
    STK_ASSERT(b->items_left > 0);
    b->items_left--;
    if (b->items_left == 0 && b->bad > 0 && !b->copying) {
        if (b->bad == b->item_count) return fail_batch(d, batch, first_bad_index(d, b));
        b->copying = true;
        b->items_left = b->skipped = b->bad;
        plan_copies(d, b);
    }
    stk_dispatch_settle_queue(d, batch);
    if (b->items_left > 0) return STK_VERDICT_NONE;
    STK_ASSERT(b->running == 0);
    b->ended = true;
    return STK_VERDICT_DONE;
}

/* The data of a MAKE item is at fault: retries first, then the lane's policy. */
static enum stk_batch_verdict bad_data(struct stk_dispatch *d, struct item *item)
{
    struct batch *b = &d->batches[item->batch];
    const struct stk_lane_options *options = &d->lanes[b->lane].options;
    if (item->substitute == 0 && item->retried < options->retries) {
        item->retried++;
        b->retried++;
    } else if (options->policy == STK_POLICY_SKIP) {
        item->state = ITEM_BAD;
        b->bad++;
        return item_ended(d, item->batch);
    } else if (options->policy == STK_POLICY_REPLACE && item->substitute < STK_REPLACE_TRIES) {
        if (item->substitute++ == 0) b->skipped++;
    } else {
        return fail_batch(d, item->batch, item->index);
    }
    todo_last(d, b, slot_of(d, item));
    stk_dispatch_settle_queue(d, item->batch);
    return STK_VERDICT_NONE;
}

enum stk_batch_verdict stk_dispatch_finish(struct stk_dispatch *d, uint64_t item_id, enum stk_item_outcome outcome,
                                           uint32_t *out_batch)
{
    struct item *item = running_item(d, item_id);
    if (!item) return STK_VERDICT_UNKNOWN;
    struct batch *b = &d->batches[item->batch];
    *out_batch = item->batch;
    item->item_id = 0;
    item->state = ITEM_BAD; /* until known better below */
    STK_ASSERT(b->running > 0);
    b->running--;
    stk_dispatch_item_back(d, item->batch, item);
    if (b->canceled || b->failed) {
        if (b->running > 0) return STK_VERDICT_NONE;
        b->ended = true;
        return b->canceled ? STK_VERDICT_CANCELED : STK_VERDICT_FAILED;
    }
    switch (outcome) {
    case STK_OUTCOME_OK: item->state = ITEM_GOOD; return item_ended(d, item->batch);
    case STK_OUTCOME_BAD_DATA:
        if (item->kind == STK_ITEM_COPY) break; /* there is no data in a copy: a fault of ours or of the machine */
        return bad_data(d, item);
    case STK_OUTCOME_LOST:
        if (++item->lost == LOST_MAX) break;
        b->retried++;
        todo_first(d, b, slot_of(d, item));
        stk_dispatch_settle_queue(d, item->batch);
        return STK_VERDICT_NONE;
    case STK_OUTCOME_UNSTARTED:
        item->attempt--;
        todo_first(d, b, slot_of(d, item));
        stk_dispatch_settle_queue(d, item->batch);
        return STK_VERDICT_NONE;
    case STK_OUTCOME_FATAL: break;
    }
    return fail_batch(d, item->batch, item->index);
}

void stk_dispatch_restart(struct stk_dispatch *d, uint32_t batch)
{
    struct batch *b = get_batch(d, batch);
    STK_ASSERT(b->granted);
    STK_ASSERT(!b->ended);
    STK_ASSERT(!b->canceled);
    STK_ASSERT(!b->failed);
    b->retried += b->running;
    b->running = b->bad = b->skipped = 0;
    b->copying = false;
    b->items_left = b->item_count;
    b->first_todo = b->last_todo = NONE;
    for (uint32_t slot = b->first_item; slot != NONE; slot = d->items[slot].next) {
        struct item *item = &d->items[slot];
        stk_dispatch_item_back(d, batch, item);
        item->item_id = 0;
        item->kind = STK_ITEM_MAKE;
        item->retried = 0;
        item->substitute = 0; /* item->lost stays: a sample that hangs each of its workers ends the batch at last */
        todo_last(d, b, slot);
    }
    stk_dispatch_settle_queue(d, batch);
}

enum stk_batch_verdict stk_dispatch_fail(struct stk_dispatch *d, uint32_t batch)
{
    STK_ASSERT(!get_batch(d, batch)->ended);
    if (d->batches[batch].canceled || d->batches[batch].failed) return STK_VERDICT_NONE;
    return fail_batch(d, batch, NONE);
}

void stk_dispatch_set_deadline(struct stk_dispatch *d, uint32_t batch, uint64_t deadline_ns)
{
    get_batch(d, batch)->deadline_ns = deadline_ns;
    stk_dispatch_settle_queue(d, batch);
}

void stk_dispatch_read(const struct stk_dispatch *d, uint32_t batch, struct stk_batch_state *out_state)
{
    const struct batch *b = get_batch(d, batch);
    *out_state = (struct stk_batch_state){.lane = b->lane,
                                          .generation = b->generation,
                                          .sequence = b->sequence,
                                          .deadline_ns = b->deadline_ns,
                                          .item_count = b->item_count,
                                          .items_left = b->items_left,
                                          .skipped = b->skipped,
                                          .retried = b->retried,
                                          .granted = b->granted,
                                          .canceled = b->canceled,
                                          .failed = b->failed,
                                          .failed_index = b->failed_index};
}

bool stk_dispatch_walk(const struct stk_dispatch *d, uint32_t lane, uint32_t *cursor, uint32_t *out_batch)
{
    uint32_t batch = *cursor == UINT32_MAX ? get_lane(d, lane)->first : *cursor;
    if (batch == NONE || batch == WALK_END) return false;
    uint32_t next = get_batch(d, batch)->next;
    *cursor = next == NONE ? WALK_END : next; /* the batch itself may be removed before the next call */
    *out_batch = batch;
    return true;
}
