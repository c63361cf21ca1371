/* SPDX-License-Identifier: Apache-2.0
 *
 * The Coordinator's state machine: see engine.h, and engine_internal.h for its parts. Events change the state; what
 * follows for tasks is decided once, at the end of a step, from what they then lack (a server, the present deadline),
 * so that no order of events can overflow the caller's array.
 */
#include "sched/engine.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/engine_internal.h"

#define CHECKS_COPIED_MAX 16u
#define COPY_PERCENT_MAX 100000u /* a thousand times what was predicted: keeps the product small */

/* ---- block ---- */

static size_t part(size_t *offset, size_t count, size_t size)
{
    size_t at = (size_t)stk_align_up(*offset, 16);
    *offset = at + count * size;
    return at;
}

struct layout {
    size_t hosts, servers, lanes, groups, jobs, tasks, server_nodes, held_nodes, check_nodes, share_nodes, share_flows;
    size_t links, cost, candidates, live_groups, buckets, total;
    uint32_t bucket_count;
};

static struct stk_engine_limits with_defaults(const struct stk_engine_limits *given)
{
    struct stk_engine_limits limits = *given;
    if (limits.hosts == 0) limits.hosts = limits.servers;
    if (limits.jobs == 0) limits.jobs = limits.lanes;
    if (limits.links == 0) limits.links = limits.hosts * 4;
    STK_ASSERT(limits.servers > 0 && limits.servers <= 1u << 20);
    STK_ASSERT(limits.hosts > 0 && limits.hosts <= 1u << 20);
    STK_ASSERT(limits.lanes > 0 && limits.lanes <= 1u << 20);
    STK_ASSERT(limits.jobs > 0 && limits.jobs <= 1u << 20);
    STK_ASSERT(limits.tasks > 0 && limits.tasks <= 1u << 24);
    return limits;
}

static struct layout lay_out(const struct stk_engine_limits *limits)
{
    struct layout layout = {.bucket_count = 1};
    size_t offset = sizeof(struct stk_engine);
    while (layout.bucket_count < limits->tasks) layout.bucket_count *= 2;
    layout.hosts = part(&offset, limits->hosts, sizeof(struct host));
    layout.servers = part(&offset, limits->servers, sizeof(struct server));
    layout.lanes = part(&offset, limits->lanes, sizeof(struct lane));
    layout.groups = part(&offset, limits->lanes, sizeof(struct group));
    layout.jobs = part(&offset, limits->jobs, sizeof(struct job));
    layout.tasks = part(&offset, limits->tasks, sizeof(struct task));
    layout.server_nodes = part(&offset, limits->servers, sizeof(struct stk_heap_node));
    layout.held_nodes = part(&offset, limits->tasks, sizeof(struct stk_heap_node));
    layout.check_nodes = part(&offset, limits->tasks, sizeof(struct stk_heap_node));
    layout.share_nodes = part(&offset, limits->lanes, sizeof(struct stk_heap_node));
    layout.share_flows = part(&offset, limits->lanes, sizeof(struct stk_share_flow));
    layout.links = part(&offset, 1, stk_links_bytes(limits->links));
    layout.cost = part(&offset, 1, limits->models ? stk_cost_bytes(limits->models) : 0);
    layout.candidates = part(&offset, STK_PLACE_CANDIDATES_MAX, sizeof(struct stk_candidate));
    layout.live_groups = part(&offset, limits->lanes, sizeof(uint32_t));
    layout.buckets = part(&offset, layout.bucket_count, sizeof(uint32_t));
    layout.total = part(&offset, 0, 1);
    return layout;
}

size_t stk_engine_bytes(const struct stk_engine_limits *given)
{
    struct stk_engine_limits limits = with_defaults(given);
    return lay_out(&limits).total;
}

static void set_options(struct stk_engine *e, const struct stk_engine_options *options)
{
    if (options) e->options = *options;
    if (e->options.copy_percent == 0) e->options.copy_percent = 200;
    if (e->options.copy_percent > COPY_PERCENT_MAX && e->options.copy_percent != UINT32_MAX)
        e->options.copy_percent = COPY_PERCENT_MAX;
    if (e->options.latency_ns == 0) e->options.latency_ns = STK_SECOND_NS / 5000;
    if (e->options.bytes_per_s == 0) e->options.bytes_per_s = 1250000000;
    if (e->options.overhead_ns == 0) e->options.overhead_ns = STK_SECOND_NS / 5000;
    if (e->options.overhead_ns > STK_SECOND_NS * 60) e->options.overhead_ns = STK_SECOND_NS * 60;
}

static void clear_tables(struct stk_engine *e)
{
    memset(e->servers, 0, e->limits.servers * sizeof *e->servers);
    memset(e->lanes, 0, e->limits.lanes * sizeof *e->lanes);
    memset(e->groups, 0, e->limits.lanes * sizeof *e->groups);
    memset(e->jobs, 0, e->limits.jobs * sizeof *e->jobs);
    for (uint32_t i = 0; i < e->limits.hosts; i++)
        e->hosts[i] = (struct host){.first_server = NONE, .speed = STRETCH_ONE};
    for (uint32_t i = 0; i < e->limits.servers; i++) e->server_nodes[i].inside = false;
    for (uint32_t i = 0; i < e->limits.servers; i++) e->servers[i].heap = HEAP_COUNT;
    for (uint32_t i = 0; i < e->limits.lanes; i++) e->share_nodes[i].inside = false;
    for (uint32_t i = 0; i <= e->bucket_mask; i++) e->buckets[i] = NONE;
    for (uint32_t i = 0; i < STK_ENGINE_POOLS * HEAP_COUNT * STK_ENGINE_SHARDS; i++)
        (&e->roots[0][0][0])[i] = STK_HEAP_NONE;
    e->free_task = e->first_fresh = e->last_fresh = NONE;
    e->checks = STK_HEAP_NONE;
}

struct stk_engine *stk_engine_init(void *block, size_t size, const struct stk_engine_limits *given,
                                   const struct stk_engine_options *options)
{
    struct stk_engine_limits limits = with_defaults(given);
    struct layout layout = lay_out(&limits);
    STK_ASSERT(size >= layout.total);
    STK_ASSERT((uintptr_t)block % 16 == 0);
    uint8_t *bytes = block;
    struct stk_engine *e = block;
    memset(e, 0, sizeof *e);
    e->limits = limits;
    set_options(e, options);
    e->hosts = (void *)(bytes + layout.hosts);
    e->servers = (void *)(bytes + layout.servers);
    e->lanes = (void *)(bytes + layout.lanes);
    e->groups = (void *)(bytes + layout.groups);
    e->jobs = (void *)(bytes + layout.jobs);
    e->tasks = (void *)(bytes + layout.tasks);
    e->server_nodes = (void *)(bytes + layout.server_nodes);
    e->held_nodes = (void *)(bytes + layout.held_nodes);
    e->check_nodes = (void *)(bytes + layout.check_nodes);
    e->share_nodes = (void *)(bytes + layout.share_nodes);
    e->share_flows = (void *)(bytes + layout.share_flows);
    e->candidates = (void *)(bytes + layout.candidates);
    e->live_groups = (void *)(bytes + layout.live_groups);
    e->buckets = (void *)(bytes + layout.buckets);
    e->bucket_mask = layout.bucket_count - 1;
    stk_share_init(&e->share, e->share_flows, e->share_nodes);
    struct stk_speed otherwise = {e->options.bytes_per_s, e->options.latency_ns};
    e->links = stk_links_init(bytes + layout.links, stk_links_bytes(limits.links), limits.links, &otherwise);
    if (limits.models > 0) e->cost = stk_cost_init(bytes + layout.cost, stk_cost_bytes(limits.models), limits.models);
    clear_tables(e);
    return e;
}

/* ---- lanes ---- */

static stoker_status check_lane(const struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    if (event->lane >= e->limits.lanes)
        return stk_fail(err, STOKER_ERR_LIMIT, "loader and rank number %u, at most %u are served at once", event->lane,
                        e->limits.lanes);
    if (event->job >= e->limits.jobs)
        return stk_fail(err, STOKER_ERR_LIMIT, "job number %u, at most %u are served at once", event->job,
                        e->limits.jobs);
    if (event->host >= e->limits.hosts)
        return stk_fail(err, STOKER_ERR_LIMIT, "a rank on host number %u, at most %u are known", event->host,
                        e->limits.hosts);
    if (e->lanes[event->lane].open)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "loader and rank number %u is open already", event->lane);
    return STOKER_OK;
}

static stoker_status lane_open(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    STK_TRY(check_lane(e, event, err));
    uint32_t slot = stk_engine_group_join(e, event->group, event);
    struct group *g = &e->groups[slot];
    /* One begin behind the group, so that the first begin of a late comer joins the iteration in progress. */
    e->lanes[event->lane] = (struct lane){.open = true,
                                          .server = event->server,
                                          .host = event->host,
                                          .group = slot,
                                          .job = event->job,
                                          .rank = event->rank,
                                          .pools = event->pools ? event->pools : 1,
                                          .next_in_group = g->first_lane,
                                          .iteration = g->iteration > 0 ? g->iteration - 1 : 0,
                                          .first = NONE,
                                          .last = NONE,
                                          .last_remote = NONE};
    g->first_lane = event->lane;
    g->lanes++;
    struct job *job = &e->jobs[event->job];
    if (job->lanes++ == 0)
        stk_budget_init(&job->budget, event->budget_bytes ? event->budget_bytes : e->options.budget_step_bytes);
    e->stats.lanes++;
    return STOKER_OK;
}

static void lane_close(struct stk_engine *e, uint32_t lane)
{
    struct lane *l = &e->lanes[lane];
    stk_engine_lane_drop_tasks(e, lane);
    stk_engine_group_leave(e, lane);
    /* The number may mean another job next time. */
    if (--e->jobs[l->job].lanes == 0 && e->cost) stk_cost_forget_job(e->cost, l->job);
    l->open = false;
    e->stats.lanes--;
}

static void lane_begin(struct stk_engine *e, uint32_t lane)
{
    struct lane *l = &e->lanes[lane];
    stk_engine_lane_drop_tasks(e, lane);
    l->iteration++;
    stk_engine_group_begin(e, &e->groups[l->group], l->iteration);
}

/* ---- tasks ---- */

static stoker_status request(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    if (event->lane >= e->limits.lanes || !e->lanes[event->lane].open)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a request of loader and rank number %u, which is not open",
                        event->lane);
    if (stk_engine_task_find(e, event->lane, event->sequence, event->part) != NONE)
        return STOKER_OK; /* sent again after a reconnection */
    return stk_engine_task_add(e, event, err);
}

/* The first valid result wins (rule C3), also of a server that was given up meanwhile. */
static void result(struct stk_engine *e, uint32_t slot, const struct stk_event *event)
{
    const struct task *t = &e->tasks[slot];
    uint32_t seat = stk_engine_seat_of(t, event->server);
    if (seat != NONE) {
        stk_engine_learn(e, t, seat, event);
        if (seat == t->copy) e->stats.copies_won++;
    }
    if (event->failed) e->stats.failed++;
    stk_engine_task_drop(e, slot, event->server);
}

static void failure(struct stk_engine *e, uint32_t slot, const struct stk_event *event)
{
    struct task *t = &e->tasks[slot];
    uint32_t seat = stk_engine_seat_of(t, event->server);
    if (seat == NONE) return; /* late news of an earlier placement */
    t->avoid = event->server;
    e->stats.failed++;
    if (++t->tries >= STK_ENGINE_TRIES && t->seats[1 - seat].server == NONE) {
        (void)stk_engine_act(e, STK_ACTION_GIVE_UP, t, event->server);
        stk_engine_task_drop(e, slot, event->server);
    } else {
        stk_engine_task_again(e, slot, seat);
    }
}

/* Events that are late news, and change nothing, if what they are about is gone. */
static void apply_news(struct stk_engine *e, const struct stk_event *event)
{
    bool known = event->lane < e->limits.lanes && e->lanes[event->lane].open;
    uint32_t slot = known ? stk_engine_task_find(e, event->lane, event->sequence, event->part) : NONE;
    switch (event->type) {
    case STK_EVENT_LANE_BEGIN:
        if (known) lane_begin(e, event->lane);
        break;
    case STK_EVENT_LANE_CLOSE:
        if (known) lane_close(e, event->lane);
        break;
    case STK_EVENT_STEP:
        if (known) stk_engine_group_step(e, event);
        break;
    case STK_EVENT_RESULT:
        if (slot != NONE) result(e, slot, event);
        break;
    case STK_EVENT_FAILURE:
        if (slot != NONE) failure(e, slot, event);
        break;
    case STK_EVENT_CANCEL:
        if (slot != NONE) stk_engine_task_drop(e, slot, NONE);
        break;
    default: break;
    }
}

static stoker_status apply(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    switch (event->type) {
    case STK_EVENT_SERVER_JOIN: return stk_engine_server_join(e, event, err);
    case STK_EVENT_LANE_OPEN: return lane_open(e, event, err);
    case STK_EVENT_REQUEST: return request(e, event, err);
    case STK_EVENT_SERVER_LEAVE: stk_engine_server_leave(e, event->server); break;
    case STK_EVENT_HEARTBEAT: stk_engine_heartbeat(e, event); break;
    case STK_EVENT_LINK: stk_engine_link(e, event); break;
    case STK_EVENT_TICK: e->room = true; break; /* what was on time elsewhere may be late now */
    default: apply_news(e, event); break;
    }
    return STOKER_OK;
}

/* ---- the step ---- */

struct stk_action *stk_engine_act(struct stk_engine *e, enum stk_action_type type, const struct task *t,
                                  uint32_t server)
{
    STK_ASSERT(e->action_count < e->action_cap);
    struct stk_action *action = &e->actions[e->action_count++];
    *action = (struct stk_action){.type = type,
                                  .server = server,
                                  .lane = t->lane,
                                  .part = t->part,
                                  .sequence = t->sequence,
                                  .deadline_ns = t->deadline_ns};
    return action;
}

/* Each task is cancelled in two seats, given up, placed, and told two deadlines at most; n of them may be new. */
size_t stk_engine_actions_max(const struct stk_engine_limits *limits, size_t n)
{
    return 3 * (n + limits->tasks) + 3 * (size_t)limits->tasks + CHECKS_COPIED_MAX;
}

stoker_status stk_engine_step(struct stk_engine *e, uint64_t now_ns, const struct stk_event *events, size_t n,
                              struct stk_action *actions, size_t cap, size_t *out_actions, size_t *out_applied,
                              stoker_error *err)
{
    STK_ASSERT(now_ns >= e->now_ns);
    STK_ASSERT(cap >= stk_engine_actions_max(&e->limits, n));
    e->now_ns = now_ns;
    e->actions = actions;
    e->action_cap = cap;
    e->action_count = 0;
    stoker_status status = STOKER_OK;
    size_t applied = 0;
    while (applied < n && (status = apply(e, &events[applied], err)) == STOKER_OK) applied++;

    stk_engine_look_for_pauses(e);
    stk_engine_write_deadlines(e);
    stk_engine_write_placements(e);
    stk_engine_check_stragglers(e);
    *out_actions = e->action_count;
    *out_applied = applied;
    e->actions = NULL;
    return status;
}

/* ---- what is known ---- */

uint64_t stk_engine_next_check_ns(const struct stk_engine *e)
{
    return e->checks == STK_HEAP_NONE ? UINT64_MAX : e->check_nodes[e->checks].key.deadline_ns;
}

uint64_t stk_engine_window_ns(const struct stk_engine *e, uint32_t lane)
{
    STK_ASSERT(lane < e->limits.lanes && e->lanes[lane].open);
    return e->groups[e->lanes[lane].group].window.median_ns;
}

bool stk_engine_read_lane(const struct stk_engine *e, uint32_t lane, struct stk_engine_lane *out)
{
    if (lane >= e->limits.lanes || !e->lanes[lane].open) return false;
    const struct lane *l = &e->lanes[lane];
    const struct group *g = &e->groups[l->group];
    const struct task next = {.lane = lane, .sequence = g->next};
    *out = l->shown;
    out->window_ns = g->window.median_ns;
    out->next = g->next;
    out->deadline_ns = stk_engine_deadline_of(e, &next);
    out->paused = g->paused_until_ns != 0;
    out->tasks = l->tasks;
    return true;
}

const struct stk_engine_options *stk_engine_read_options(const struct stk_engine *e) { return &e->options; }

void stk_engine_read_stats(const struct stk_engine *e, struct stk_engine_stats *out)
{
    *out = e->stats;
    out->held = e->held_count;
}

struct stk_cost_model *stk_engine_cost(struct stk_engine *e) { return e->cost; }
