/* SPDX-License-Identifier: Apache-2.0
 *
 * The Coordinator's state machine: see engine.h. Events change the state (windows, anchors, tasks); actions are written
 * once at the end of a step from what the tasks then lack (a server, the present deadline), so that no order of events
 * can overflow the caller's array.
 *
 * The anchor of a group is the step that its ranks are predicted to want next, and when. The first rank to report a
 * step moves it, so that the ranks of a group share one deadline a step; a rank that is behind wants everything "now".
 * Windows are in sched/window.
 */
#include "sched/engine.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/window.h"

#define NONE UINT32_MAX
/* Batches ahead of the anchor that are told apart; with windows of at most STK_WINDOW_NS_MAX no product can wrap. */
#define AHEAD_MAX (1u << 20)

struct server {
    bool joined;
    uint32_t workers;
    uint64_t load; /* items placed and not yet answered */
};

struct lane {
    bool open;
    uint32_t server, group; /* the local server; slot of the group */
    uint32_t next_in_group;
    uint32_t iteration; /* begins so far, counted as the group does */
    uint32_t pauses_in_a_row;
    uint32_t first, last; /* tasks, in order of request */
};

struct group {
    uint32_t key, lanes, first_lane; /* lanes == 0: free slot */
    uint32_t iteration;
    struct stk_window window;
    uint64_t next, next_ns;   /* the anchor */
    uint64_t paused_until_ns; /* 0: the ranks do not pause */
    uint64_t last_step_ns;
    bool changed; /* deadlines must be looked at */
};

struct task {
    uint32_t lane, server, items; /* server NONE: to be placed */
    uint64_t sequence, deadline_ns;
    uint32_t prev, next; /* in the lane; next is also the chain of free slots */
    uint32_t bucket_next;
    uint32_t unplaced_prev, unplaced_next;
};

struct stk_engine {
    struct stk_engine_limits limits;
    uint64_t now_ns;
    struct server *servers;
    struct lane *lanes;
    struct group *groups; /* one a lane at most */
    struct task *tasks;
    uint32_t *buckets; /* tasks by (lane, sequence) */
    uint32_t bucket_mask;
    uint32_t free_task, tasks_touched;
    uint32_t first_unplaced, last_unplaced; /* in the order in which they came to be so */
};

/* ---- block ---- */

static size_t part(size_t *offset, size_t count, size_t size)
{
    size_t at = (size_t)stk_align_up(*offset, 16);
    *offset = at + count * size;
    return at;
}

struct layout {
    size_t servers, lanes, groups, tasks, buckets, total;
    uint32_t bucket_count;
};

static struct layout lay_out(const struct stk_engine_limits *limits)
{
    struct layout layout = {.bucket_count = 1};
    size_t offset = sizeof(struct stk_engine);
    STK_ASSERT(limits->servers > 0 && limits->servers <= 1u << 20);
    STK_ASSERT(limits->lanes > 0 && limits->lanes <= 1u << 20);
    STK_ASSERT(limits->tasks > 0 && limits->tasks <= 1u << 24);
    while (layout.bucket_count < limits->tasks) layout.bucket_count *= 2;
    layout.servers = part(&offset, limits->servers, sizeof(struct server));
    layout.lanes = part(&offset, limits->lanes, sizeof(struct lane));
    layout.groups = part(&offset, limits->lanes, sizeof(struct group));
    layout.tasks = part(&offset, limits->tasks, sizeof(struct task));
    layout.buckets = part(&offset, layout.bucket_count, sizeof(uint32_t));
    layout.total = part(&offset, 0, 1);
    return layout;
}

size_t stk_engine_bytes(const struct stk_engine_limits *limits) { return lay_out(limits).total; }

struct stk_engine *stk_engine_init(void *block, size_t size, const struct stk_engine_limits *limits,
                                   const struct stk_engine_options *options)
{
    (void)options; /* least requests alone until placement by cost is in */
    struct layout layout = lay_out(limits);
    STK_ASSERT(size >= layout.total);
    STK_ASSERT((uintptr_t)block % 16 == 0);
    uint8_t *bytes = block;
    struct stk_engine *e = block;
    memset(e, 0, sizeof *e);
    e->limits = *limits;
    e->servers = (void *)(bytes + layout.servers);
    e->lanes = (void *)(bytes + layout.lanes);
    e->groups = (void *)(bytes + layout.groups);
    e->tasks = (void *)(bytes + layout.tasks);
    e->buckets = (void *)(bytes + layout.buckets);
    e->bucket_mask = layout.bucket_count - 1;
    e->free_task = e->first_unplaced = e->last_unplaced = NONE;
    memset(e->servers, 0, limits->servers * sizeof *e->servers);
    memset(e->lanes, 0, limits->lanes * sizeof *e->lanes);
    memset(e->groups, 0, limits->lanes * sizeof *e->groups);
    for (uint32_t i = 0; i < layout.bucket_count; i++) e->buckets[i] = NONE;
    return e;
}

/* ---- tasks ---- */

static uint32_t *bucket_of(const struct stk_engine *e, uint32_t lane, uint64_t sequence)
{
    uint64_t mixed = (sequence ^ (uint64_t)lane << 40) * UINT64_C(0x9e3779b97f4a7c15);
    return &e->buckets[(uint32_t)(mixed >> 32) & e->bucket_mask];
}

static uint32_t find_task(const struct stk_engine *e, uint32_t lane, uint64_t sequence)
{
    uint32_t slot = *bucket_of(e, lane, sequence);
    while (slot != NONE && (e->tasks[slot].lane != lane || e->tasks[slot].sequence != sequence))
        slot = e->tasks[slot].bucket_next;
    return slot;
}

static void unplaced_add(struct stk_engine *e, uint32_t slot)
{
    struct task *t = &e->tasks[slot];
    t->server = NONE;
    t->unplaced_prev = e->last_unplaced;
    t->unplaced_next = NONE;
    if (e->last_unplaced == NONE)
        e->first_unplaced = slot;
    else
        e->tasks[e->last_unplaced].unplaced_next = slot;
    e->last_unplaced = slot;
}

static void unplaced_drop(struct stk_engine *e, uint32_t slot)
{
    const struct task *t = &e->tasks[slot];
    if (t->unplaced_prev == NONE)
        e->first_unplaced = t->unplaced_next;
    else
        e->tasks[t->unplaced_prev].unplaced_next = t->unplaced_next;
    if (t->unplaced_next == NONE)
        e->last_unplaced = t->unplaced_prev;
    else
        e->tasks[t->unplaced_next].unplaced_prev = t->unplaced_prev;
}

static stoker_status task_add(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
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
    uint32_t *bucket = bucket_of(e, event->lane, event->sequence);
    e->tasks[slot] = (struct task){.lane = event->lane,
                                   .items = event->items,
                                   .sequence = event->sequence,
                                   .prev = l->last,
                                   .next = NONE,
                                   .bucket_next = *bucket};
    *bucket = slot;
    if (l->last == NONE)
        l->first = slot;
    else
        e->tasks[l->last].next = slot;
    l->last = slot;
    unplaced_add(e, slot);
    return STOKER_OK;
}

static void task_drop(struct stk_engine *e, uint32_t slot)
{
    struct task *t = &e->tasks[slot];
    struct lane *l = &e->lanes[t->lane];
    uint32_t *link = bucket_of(e, t->lane, t->sequence);
    while (*link != slot) link = &e->tasks[*link].bucket_next;
    *link = t->bucket_next;
    if (t->server == NONE) {
        unplaced_drop(e, slot);
    } else {
        STK_ASSERT(e->servers[t->server].load >= t->items);
        e->servers[t->server].load -= t->items;
    }
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
}

static void drop_tasks_of_lane(struct stk_engine *e, uint32_t lane)
{
    while (e->lanes[lane].first != NONE) task_drop(e, e->lanes[lane].first);
}

/* ---- deadlines ---- */

/* Is the batch that the group wants next still being made for one of its ranks? Then a long silence is ours, not a
 * pause. */
static bool group_waits_for_us(const struct stk_engine *e, const struct group *g)
{
    for (uint32_t lane = g->first_lane; lane != NONE; lane = e->lanes[lane].next_in_group)
        if (e->lanes[lane].iteration == g->iteration && find_task(e, lane, g->next) != NONE) return true;
    return false;
}

/* During a pause all deadlines are "now plus one window"; they are moved on when half of that has passed, not at each
 * call. */
static void look_for_pause(struct stk_engine *e, struct group *g)
{
    uint64_t window = g->window.median_ns;
    if (e->now_ns - g->last_step_ns <= STK_WINDOW_PAUSE_FACTOR * window || group_waits_for_us(e, g)) {
        g->changed |= g->paused_until_ns != 0;
        g->paused_until_ns = 0;
    } else if (g->paused_until_ns < e->now_ns + window / 2) {
        g->paused_until_ns = e->now_ns + window;
        g->changed = true;
    }
}

static uint64_t deadline_of(const struct stk_engine *e, const struct task *t)
{
    const struct lane *l = &e->lanes[t->lane];
    const struct group *g = &e->groups[l->group];
    if (g->paused_until_ns != 0) return g->paused_until_ns;
    uint64_t at = e->now_ns; /* behind the group: late already */
    if (l->iteration == g->iteration && t->sequence >= g->next) {
        uint64_t ahead = t->sequence - g->next;
        at = g->next_ns + (ahead < AHEAD_MAX ? ahead : AHEAD_MAX) * g->window.median_ns;
    }
    return at > e->now_ns ? at : e->now_ns;
}

/* ---- events ---- */

static uint32_t group_join(struct stk_engine *e, uint32_t key)
{
    uint32_t slot = NONE;
    for (uint32_t i = 0; i < e->limits.lanes; i++) {
        if (e->groups[i].lanes > 0 && e->groups[i].key == key) return i;
        if (e->groups[i].lanes == 0 && slot == NONE) slot = i;
    }
    STK_ASSERT(slot != NONE); /* a lane is free, so a group is */
    e->groups[slot] = (struct group){.key = key, .first_lane = NONE, .next_ns = e->now_ns, .last_step_ns = e->now_ns};
    stk_window_init(&e->groups[slot].window);
    return slot;
}

static stoker_status lane_open(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    if (event->lane >= e->limits.lanes)
        return stk_fail(err, STOKER_ERR_LIMIT, "loader and rank number %u, at most %u are served at once", event->lane,
                        e->limits.lanes);
    struct lane *l = &e->lanes[event->lane];
    if (l->open)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "loader and rank number %u is open already", event->lane);
    uint32_t slot = group_join(e, event->group);
    struct group *g = &e->groups[slot];
    /* One begin behind the group, so that the first begin of a late comer joins the iteration in progress. */
    *l = (struct lane){.open = true,
                       .server = event->server,
                       .group = slot,
                       .next_in_group = g->first_lane,
                       .iteration = g->iteration > 0 ? g->iteration - 1 : 0,
                       .first = NONE,
                       .last = NONE};
    g->first_lane = event->lane;
    g->lanes++;
    return STOKER_OK;
}

static void lane_close(struct stk_engine *e, uint32_t lane)
{
    struct lane *l = &e->lanes[lane];
    struct group *g = &e->groups[l->group];
    drop_tasks_of_lane(e, lane);
    uint32_t *link = &g->first_lane;
    while (*link != lane) link = &e->lanes[*link].next_in_group;
    *link = l->next_in_group;
    g->lanes--;
    l->open = false;
}

static void lane_begin(struct stk_engine *e, uint32_t lane)
{
    struct lane *l = &e->lanes[lane];
    struct group *g = &e->groups[l->group];
    drop_tasks_of_lane(e, lane);
    l->iteration++;
    if (l->iteration <= g->iteration) return;
    g->iteration = l->iteration;
    g->next = 0;
    g->next_ns = g->last_step_ns = e->now_ns; /* the first batch is wanted at once */
    g->paused_until_ns = 0;
    g->changed = true;
}

static void learn_window(struct lane *l, struct group *g, uint64_t window_ns)
{
    if (window_ns == 0) return; /* the first call of an iteration has none */
    g->changed = true;          /* also when the rank is behind: later deadlines must not fall below earlier ones */
    if (stk_window_learn(&g->window, window_ns)) {
        l->pauses_in_a_row = 0;
    } else if (++l->pauses_in_a_row == STK_WINDOW_PAUSES_MAX) {
        /* Not a pause but the new normal: learning starts again. */
        stk_window_init(&g->window);
        (void)stk_window_learn(&g->window, window_ns);
        l->pauses_in_a_row = 0;
    }
}

static void lane_step(struct stk_engine *e, const struct stk_event *event)
{
    struct lane *l = &e->lanes[event->lane];
    struct group *g = &e->groups[l->group];
    learn_window(l, g, event->window_ns);
    if (l->iteration != g->iteration || event->sequence < g->next || event->sequence == UINT64_MAX) return;
    g->next = event->sequence + 1;
    g->next_ns = e->now_ns + g->window.median_ns;
    g->last_step_ns = e->now_ns;
    g->paused_until_ns = 0;
    g->changed = true;
}

static stoker_status server_join(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    if (event->server >= e->limits.servers)
        return stk_fail(err, STOKER_ERR_LIMIT, "DataServer number %u, at most %u can join", event->server,
                        e->limits.servers);
    struct server *s = &e->servers[event->server];
    s->joined = true;
    s->workers = event->workers;
    return STOKER_OK;
}

static void server_leave(struct stk_engine *e, uint32_t server)
{
    if (server >= e->limits.servers || !e->servers[server].joined) return;
    e->servers[server] = (struct server){.joined = false};
    for (uint32_t lane = 0; lane < e->limits.lanes; lane++) {
        if (!e->lanes[lane].open) continue;
        for (uint32_t slot = e->lanes[lane].first; slot != NONE; slot = e->tasks[slot].next)
            if (e->tasks[slot].server == server) unplaced_add(e, slot);
    }
}

static stoker_status request(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    if (event->lane >= e->limits.lanes || !e->lanes[event->lane].open)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a request of loader and rank number %u, which is not open",
                        event->lane);
    if (find_task(e, event->lane, event->sequence) != NONE) return STOKER_OK; /* sent again after a reconnection */
    return task_add(e, event, err);
}

static stoker_status apply(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    bool lane_known = event->lane < e->limits.lanes && e->lanes[event->lane].open;
    uint32_t slot;
    switch (event->type) {
    case STK_EVENT_SERVER_JOIN: return server_join(e, event, err);
    case STK_EVENT_LANE_OPEN: return lane_open(e, event, err);
    case STK_EVENT_REQUEST: return request(e, event, err);
    case STK_EVENT_SERVER_LEAVE: server_leave(e, event->server); break;
    /* What follows may arrive after the lane was closed: nothing is left to do then. */
    case STK_EVENT_LANE_BEGIN:
        if (lane_known) lane_begin(e, event->lane);
        break;
    case STK_EVENT_LANE_CLOSE:
        if (lane_known) lane_close(e, event->lane);
        break;
    case STK_EVENT_RESULT:
        slot = lane_known ? find_task(e, event->lane, event->sequence) : NONE;
        if (slot != NONE) task_drop(e, slot);
        break;
    case STK_EVENT_STEP:
        if (lane_known) lane_step(e, event);
        break;
    default: break;
    }
    return STOKER_OK;
}

/* ---- actions ---- */

/* Is server a less loaded than b once each had `items` more? Loads are compared per worker, without division. */
static int compare_load(const struct server *a, const struct server *b, uint32_t items)
{
    bool a_works = a->workers > 0, b_works = b->workers > 0; /* a server without workers is a delivery end point only */
    if (a_works != b_works) return a_works ? -1 : 1;
    uint64_t left = (a->load + items) * (b_works ? b->workers : 1),
             right = (b->load + items) * (a_works ? a->workers : 1);
    return left < right ? -1 : left > right;
}

/* The least loaded server; ties go to the local one, then to the lowest number. False if there is none. */
static bool place(struct stk_engine *e, struct task *t, enum stk_place_reason *out_reason)
{
    uint32_t best = NONE, local = e->lanes[t->lane].server, count = 0;
    bool tie = false;
    for (uint32_t i = 0; i < e->limits.servers; i++) {
        if (!e->servers[i].joined) continue;
        count++;
        int order = best == NONE ? -1 : compare_load(&e->servers[i], &e->servers[best], t->items);
        if (order < 0)
            tie = false;
        else if (order == 0)
            tie = true;
        if (order < 0 || (order == 0 && i == local)) best = i;
    }
    if (best == NONE) return false;
    *out_reason = count == 1 ? STK_REASON_ONLY : tie && best == local ? STK_REASON_TIE_LOCAL : STK_REASON_LEAST_LOADED;
    t->server = best;
    e->servers[best].load += t->items;
    return true;
}

static size_t write_placements(struct stk_engine *e, struct stk_action *actions, size_t cap)
{
    size_t count = 0;
    uint32_t slot = e->first_unplaced;
    while (slot != NONE) {
        struct task *t = &e->tasks[slot];
        uint32_t following = t->unplaced_next;
        enum stk_place_reason reason;
        if (!place(e, t, &reason)) break; /* no server: all wait */
        unplaced_drop(e, slot);
        t->deadline_ns = deadline_of(e, t);
        STK_ASSERT(count < cap);
        actions[count++] = (struct stk_action){.type = STK_ACTION_PLACE,
                                               .server = t->server,
                                               .lane = t->lane,
                                               .sequence = t->sequence,
                                               .deadline_ns = t->deadline_ns,
                                               .reason = reason};
        slot = following;
    }
    return count;
}

static size_t write_deadlines(struct stk_engine *e, struct stk_action *actions, size_t count, size_t cap)
{
    for (uint32_t lane = 0; lane < e->limits.lanes; lane++) {
        if (!e->lanes[lane].open || !e->groups[e->lanes[lane].group].changed) continue;
        for (uint32_t slot = e->lanes[lane].first; slot != NONE; slot = e->tasks[slot].next) {
            struct task *t = &e->tasks[slot];
            if (t->server == NONE) continue;
            uint64_t deadline_ns = deadline_of(e, t);
            /* Late already, and still: the older deadline orders it well, and no message is needed. */
            bool late = deadline_ns == e->now_ns && t->deadline_ns < e->now_ns;
            if (late || deadline_ns == t->deadline_ns) continue;
            t->deadline_ns = deadline_ns;
            STK_ASSERT(count < cap);
            actions[count++] = (struct stk_action){.type = STK_ACTION_DEADLINE,
                                                   .server = t->server,
                                                   .lane = lane,
                                                   .sequence = t->sequence,
                                                   .deadline_ns = deadline_ns};
        }
    }
    return count;
}

size_t stk_engine_actions_max(const struct stk_engine_limits *limits, size_t n) { return n + limits->tasks; }

stoker_status stk_engine_step(struct stk_engine *e, uint64_t now_ns, const struct stk_event *events, size_t n,
                              struct stk_action *actions, size_t cap, size_t *out_actions, size_t *out_applied,
                              stoker_error *err)
{
    STK_ASSERT(now_ns >= e->now_ns);
    STK_ASSERT(cap >= stk_engine_actions_max(&e->limits, n));
    e->now_ns = now_ns;
    stoker_status status = STOKER_OK;
    size_t applied = 0;
    while (applied < n && (status = apply(e, &events[applied], err)) == STOKER_OK) applied++;

    bool changed = false;
    for (uint32_t i = 0; i < e->limits.lanes; i++) {
        if (e->groups[i].lanes == 0) continue;
        look_for_pause(e, &e->groups[i]);
        changed |= e->groups[i].changed;
    }
    size_t count = write_placements(e, actions, cap);
    if (changed) count = write_deadlines(e, actions, count, cap);
    for (uint32_t i = 0; i < e->limits.lanes; i++) e->groups[i].changed = false;
    *out_actions = count;
    *out_applied = applied;
    return status;
}

uint64_t stk_engine_window_ns(const struct stk_engine *e, uint32_t lane)
{
    STK_ASSERT(lane < e->limits.lanes && e->lanes[lane].open);
    return e->groups[e->lanes[lane].group].window.median_ns;
}
