/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks of the engine: see engine_internal.h. A task is in the list of its lane and in a bucket by (lane, sequence,
 * part); it is being made in one or two seats, or fresh (this step places it), or held (no server accepts it).
 */
#include "base/assert.h"
#include "base/error.h"
#include "sched/engine_internal.h"

static uint32_t *bucket_of(const struct stk_engine *e, uint32_t lane, uint64_t sequence, uint32_t part)
{
    uint64_t mixed = (sequence ^ (uint64_t)lane << 40 ^ (uint64_t)part << 20) * UINT64_C(0x9e3779b97f4a7c15);
    return &e->buckets[(uint32_t)(mixed >> 32) & e->bucket_mask];
}

uint32_t stk_engine_task_find(const struct stk_engine *e, uint32_t lane, uint64_t sequence, uint32_t part)
{
    uint32_t slot = *bucket_of(e, lane, sequence, part);
    for (; slot != NONE; slot = e->tasks[slot].bucket_next) {
        const struct task *t = &e->tasks[slot];
        if (t->lane == lane && t->sequence == sequence && t->part == part) break;
    }
    return slot;
}

/* ---- waiting for a server */

void stk_engine_task_fresh(struct stk_engine *e, uint32_t slot)
{
    e->tasks[slot].fresh_next = NONE;
    if (e->first_fresh == NONE)
        e->first_fresh = slot;
    else
        e->tasks[e->last_fresh].fresh_next = slot;
    e->last_fresh = slot;
}

static bool fresh_drop(struct stk_engine *e, uint32_t slot)
{
    uint32_t before = NONE, at = e->first_fresh;
    for (; at != NONE && at != slot; at = e->tasks[at].fresh_next) before = at;
    if (at == NONE) return false;
    if (before == NONE)
        e->first_fresh = e->tasks[slot].fresh_next;
    else
        e->tasks[before].fresh_next = e->tasks[slot].fresh_next;
    if (e->last_fresh == slot) e->last_fresh = before;
    return true;
}

void stk_engine_task_hold(struct stk_engine *e, uint32_t slot)
{
    struct task *t = &e->tasks[slot];
    uint32_t group = e->lanes[t->lane].group;
    t->deadline_ns = stk_engine_deadline_of(e, t);
    t->held = true;
    /* No tie by size: tasks of a lane leave in the order of its plan, which that of requests is. */
    e->held_nodes[slot].key = (struct stk_heap_key){.deadline_ns = t->deadline_ns, .order = t->order};
    e->groups[group].held = stk_heap_insert(e->held_nodes, e->groups[group].held, slot);
    e->held_count++;
    stk_share_wake(&e->share, group);
}

void stk_engine_task_unhold(struct stk_engine *e, uint32_t slot)
{
    struct task *t = &e->tasks[slot];
    if (!t->held) return;
    uint32_t group = e->lanes[t->lane].group;
    t->held = false;
    e->groups[group].held = stk_heap_remove(e->held_nodes, e->groups[group].held, slot);
    e->held_count--;
    if (e->groups[group].held == STK_HEAP_NONE) stk_share_sleep(&e->share, group);
}

/* ---- life of a task */

static uint64_t at_most(uint64_t value, uint64_t max) { return value < max ? value : max; }

static void fill(struct task *t, const struct stk_event *event)
{
    const struct stk_cost_features *f = &event->features;
    t->class_id = event->class_id;
    t->featured = (f->samples | f->pixels_in | f->bytes_in | f->pixels_out | f->hint_ns) != 0;
    t->features = *f;
    t->cpu_ns = at_most(event->cpu_ns, WORK_NS_MAX);
    t->io_ns = at_most(event->io_ns, WORK_NS_MAX);
    t->margin_ns = at_most(event->margin_ns, WORK_NS_MAX);
    t->output_bytes = at_most(event->output_bytes, BYTES_MAX);
    t->data_host = event->data_known ? event->data_host : NONE;
}

stoker_status stk_engine_task_add(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    uint32_t slot = e->free_task;
    if (slot != NONE) {
        e->free_task = e->tasks[slot].next;
    } else {
        if (e->tasks_touched == e->limits.tasks)
            return stk_fail(err, STOKER_ERR_LIMIT, "%u batches are in flight, which is the limit: request fewer ahead",
                            e->limits.tasks);
        slot = e->tasks_touched++;
    }
    struct lane *l = &e->lanes[event->lane];
    uint32_t *bucket = bucket_of(e, event->lane, event->sequence, event->part);
    struct task *t = &e->tasks[slot];
    uint32_t items = event->items < STK_BATCH_SAMPLES_MAX ? event->items : STK_BATCH_SAMPLES_MAX;
    *t = (struct task){.lane = event->lane,
                       .part = event->part,
                       .items = items > 0 ? items : 1,
                       .avoid = NONE,
                       .copy = NONE,
                       .sequence = event->sequence,
                       .order = e->next_order++,
                       .prev = l->last,
                       .next = NONE,
                       .bucket_next = *bucket,
                       .seats = {{.server = NONE}, {.server = NONE}}};
    fill(t, event);
    e->held_nodes[slot] = e->check_nodes[slot] = (struct stk_heap_node){.inside = false};
    *bucket = slot;
    if (l->last == NONE)
        l->first = slot;
    else
        e->tasks[l->last].next = slot;
    l->last = slot;
    e->stats.tasks++;
    l->tasks++;
    stk_engine_task_fresh(e, slot);
    return STOKER_OK;
}

void stk_engine_task_drop(struct stk_engine *e, uint32_t slot, uint32_t except)
{
    struct task *t = &e->tasks[slot];
    struct lane *l = &e->lanes[t->lane];
    bool seated = false;
    stk_engine_check_drop(e, slot);
    if (t->seats[0].server != NONE && t->seats[1].server != NONE) e->copies_now--;
    for (uint32_t k = 0; k < SEATS; k++) {
        uint32_t server = t->seats[k].server;
        if (server == NONE) continue;
        seated = true;
        /* The lane's own server knows what is not wanted any more, but not that another one was faster. */
        if (server != except && (server != l->server || except != NONE)) {
            (void)stk_engine_act(e, STK_ACTION_CANCEL, t, server);
            e->stats.canceled++;
        }
        stk_engine_seat_free(e, slot, k);
    }
    if (t->held)
        stk_engine_task_unhold(e, slot);
    else if (!seated)
        (void)fresh_drop(e, slot); /* given up tasks are in no chain */
    uint32_t *link = bucket_of(e, t->lane, t->sequence, t->part);
    while (*link != slot) link = &e->tasks[*link].bucket_next;
    *link = t->bucket_next;
    if (t->prev == NONE)
        l->first = t->next;
    else
        e->tasks[t->prev].next = t->next;
    if (t->next == NONE)
        l->last = t->prev;
    else
        e->tasks[t->next].prev = t->prev;
    t->next = e->free_task;
    e->free_task = slot;
    e->stats.tasks--;
    l->tasks--;
}

void stk_engine_lane_drop_tasks(struct stk_engine *e, uint32_t lane)
{
    while (e->lanes[lane].first != NONE) stk_engine_task_drop(e, e->lanes[lane].first, NONE);
}

uint32_t stk_engine_seat_of(const struct task *t, uint32_t server)
{
    for (uint32_t k = 0; k < SEATS; k++)
        if (server != NONE && t->seats[k].server == server) return k;
    return NONE;
}

void stk_engine_task_again(struct stk_engine *e, uint32_t slot, uint32_t seat)
{
    struct task *t = &e->tasks[slot];
    if (t->seats[0].server != NONE && t->seats[1].server != NONE) e->copies_now--;
    stk_engine_seat_free(e, slot, seat);
    if (t->seats[1 - seat].server != NONE) { /* the other copy goes on */
        stk_engine_check_at(e, slot, e->now_ns);
        return;
    }
    stk_engine_check_drop(e, slot);
    stk_engine_task_fresh(e, slot);
}
