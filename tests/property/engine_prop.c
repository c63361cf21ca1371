/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of sched/engine under random events (rules D1, D3): deadlines never decrease with step and are never in the past
 * when they are told, ranks of a group share them, each task is placed on a server that has joined, tasks of a leaving
 * server are placed again, pauses are not learned, the same events give the same actions, and the state stays of one
 * size for ever.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/engine.h"
#include "tests/property/prop.h"

#define MS (STK_SECOND_NS / 1000)
enum { SERVERS = 3, LANES = 5, GROUPS = 2, TASKS = 24, EVENTS_MAX = 4, AHEAD = 6, SEQUENCES = 4096 };

struct model_task {
    bool live, placed;
    uint32_t server;
    uint64_t deadline;
};

struct model_lane {
    bool open;
    uint32_t group, iteration;
    uint64_t requested, taken;
    struct model_task tasks[SEQUENCES];
};

static struct stk_engine *engine;
static struct model_lane lanes[LANES];
static bool joined[SERVERS];
static struct stk_action actions[EVENTS_MAX + TASKS];
static size_t action_count;
static uint64_t now, digest;
static struct prop_random rnd;

static void note(uint64_t value) { digest = (digest ^ value) * UINT64_C(0x100000001b3); }

static uint32_t live_tasks(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < LANES; i++)
        for (uint64_t s = 0; s < lanes[i].requested; s++) count += lanes[i].tasks[s].live;
    return count;
}

static bool any_joined(void) { return joined[0] || joined[1] || joined[2]; }

static void follow_actions(void)
{
    for (size_t i = 0; i < action_count; i++) {
        const struct stk_action *a = &actions[i];
        struct model_task *t = &lanes[a->lane].tasks[a->sequence];
        note(a->type);
        note(a->server);
        note(a->lane);
        note(a->sequence);
        note(a->deadline_ns);
        PROP_CHECK(lanes[a->lane].open && t->live);
        PROP_CHECK(a->deadline_ns >= now);
        PROP_CHECK(joined[a->server]);
        if (a->type == STK_ACTION_PLACE) {
            PROP_CHECK(!t->placed);
            t->placed = true;
            t->server = a->server;
        } else {
            PROP_CHECK(t->placed && t->server == a->server);
            PROP_CHECK(t->deadline != a->deadline_ns);
        }
        t->deadline = a->deadline_ns;
    }
}

static void check_laws(void)
{
    for (uint32_t i = 0; i < LANES; i++) {
        if (!lanes[i].open) continue;
        uint64_t before = 0;
        for (uint64_t s = 0; s < lanes[i].requested; s++) {
            const struct model_task *t = &lanes[i].tasks[s];
            if (!t->live) continue;
            PROP_CHECK(t->placed == any_joined());
            if (!t->placed) continue;
            PROP_CHECK(t->deadline >= before ||
                       t->deadline <= now); /* among those that are late already, order is age */
            before = t->deadline > before ? t->deadline : before;
            for (uint32_t other = 0; other < i; other++) {
                const struct model_task *u = &lanes[other].tasks[s];
                if (!lanes[other].open || lanes[other].group != lanes[i].group || s >= lanes[other].requested) continue;
                if (!u->live || !u->placed || lanes[other].iteration != lanes[i].iteration) continue;
                if (t->deadline > now && u->deadline > now) PROP_CHECK(t->deadline == u->deadline);
            }
        }
    }
}

static void send(const struct stk_event *events, size_t count)
{
    size_t applied = 99;
    PROP_CHECK(stk_engine_step(engine, now, events, count, actions, EVENTS_MAX + TASKS, &action_count, &applied,
                               NULL) == STOKER_OK);
    PROP_CHECK(applied == count);
    follow_actions();
    check_laws();
}

static void drop_tasks(uint32_t lane)
{
    for (uint64_t s = 0; s < lanes[lane].requested; s++) lanes[lane].tasks[s].live = false;
}

/* Makes one valid event and tells the model of it; false if the draw does not apply. */
static bool make_event(struct stk_event *event)
{
    uint32_t lane = prop_below(&rnd, LANES), server = prop_below(&rnd, SERVERS);
    struct model_lane *l = &lanes[lane];
    *event = (struct stk_event){.lane = lane, .server = server};
    uint32_t what = prop_below(&rnd, 40);
    if (!l->open) {
        event->type = STK_EVENT_LANE_OPEN;
        event->group = 70 + lane % GROUPS;
        memset(l, 0, sizeof *l);
        l->open = true;
        l->group = event->group;
    } else if (what == 0) {
        event->type = STK_EVENT_SERVER_JOIN;
        event->workers = prop_below(&rnd, 4);
        joined[server] = true;
    } else if (what == 1) {
        event->type = STK_EVENT_SERVER_LEAVE;
        joined[server] = false;
        for (uint32_t i = 0; i < LANES; i++)
            for (uint64_t s = 0; s < lanes[i].requested; s++)
                if (lanes[i].tasks[s].server == server) lanes[i].tasks[s].placed = false;
    } else if (what == 2) {
        event->type = STK_EVENT_LANE_BEGIN;
        drop_tasks(lane);
        l->requested = l->taken = 0;
        l->iteration++;
    } else if (what == 3 && prop_once_in(&rnd, 4)) {
        event->type = STK_EVENT_LANE_CLOSE;
        drop_tasks(lane);
        l->open = false;
    } else if (what < 20 && l->requested < l->taken + AHEAD && l->requested < SEQUENCES && live_tasks() < TASKS) {
        event->type = STK_EVENT_REQUEST;
        event->items = 1 + prop_below(&rnd, 8);
        event->sequence = l->requested++;
        l->tasks[event->sequence] = (struct model_task){.live = true};
    } else if (what < 30 && l->requested > 0) {
        event->type = STK_EVENT_RESULT;
        event->sequence = l->requested - 1 - prop_below(&rnd, l->requested < AHEAD ? (uint32_t)l->requested : AHEAD);
        l->tasks[event->sequence].live = false; /* answers may come twice */
    } else if (l->taken < l->requested && !l->tasks[l->taken].live) {
        event->type = STK_EVENT_STEP;
        event->sequence = l->taken++;
        event->window_ns = prop_once_in(&rnd, 10) ? 3000 * MS : 10 * MS + prop_below(&rnd, 90) * MS;
    } else {
        return false;
    }
    return true;
}

static void make_engine(const struct stk_engine_limits *limits, int garbage)
{
    static void *block;
    size_t size = stk_engine_bytes(limits);
    free(block);
    block = aligned_alloc(16, size);
    PROP_CHECK(block);
    memset(block, garbage, size);
    engine = stk_engine_init(block, size, limits, NULL);
}

static void run(uint64_t seed, int garbage)
{
    const struct stk_engine_limits limits = {.servers = SERVERS, .lanes = LANES, .tasks = TASKS};
    make_engine(&limits, garbage);
    for (uint32_t i = 0; i < LANES; i++) lanes[i].open = false, lanes[i].requested = 0;
    memset(joined, 0, sizeof joined);
    rnd = prop_seed(seed);
    now = prop_below(&rnd, 1000);
    digest = 1;
    for (int step = 0; step < 300; step++) {
        struct stk_event events[EVENTS_MAX];
        size_t count = 0;
        now += prop_once_in(&rnd, 20) ? 2000 * MS : prop_below(&rnd, 30) * MS;
        for (uint32_t i = 1 + prop_below(&rnd, EVENTS_MAX); i > 0; i--) count += make_event(&events[count]);
        send(events, count);
    }
}

static void prop_d1_engine_keeps_its_laws(uint64_t seed) { run(seed, 0xa5); }

static void prop_engine_is_deterministic(uint64_t seed)
{
    run(seed, 0x00);
    uint64_t first = digest;
    run(seed, 0xff);
    PROP_CHECK(digest == first);
}

/* Whatever pauses come in between, the window is a value of the true pace. */
static void prop_d1_pauses_are_not_learned(uint64_t seed)
{
    const struct stk_engine_limits limits = {.servers = 1, .lanes = 1, .tasks = 1};
    make_engine(&limits, 0);
    rnd = prop_seed(seed);
    now = 0;
    size_t applied;
    struct stk_event event = {.type = STK_EVENT_LANE_OPEN};
    uint64_t pace = (1 + prop_below(&rnd, 500)) * MS;
    for (uint64_t sequence = 0; sequence < 60; sequence++) {
        PROP_CHECK(stk_engine_step(engine, now, &event, 1, actions, 2, &action_count, &applied, NULL) == STOKER_OK);
        if (sequence > 1)
            PROP_CHECK(stk_engine_window_ns(engine, 0) >= pace && stk_engine_window_ns(engine, 0) < 2 * pace);
        bool pause = sequence > 3 && event.window_ns < 10 * pace && prop_once_in(&rnd, 4); /* never five in a row */
        uint64_t interval = pause ? 11 * pace : pace + prop_next(&rnd) % pace;
        event = (struct stk_event){.type = STK_EVENT_STEP, .sequence = sequence, .window_ns = interval};
        now += interval;
    }
}

/* Rule D3: joins and leaves without end need no more state, and leave nothing behind. */
static void prop_d3_joins_and_leaves_keep_the_state_constant(uint64_t seed)
{
    const struct stk_engine_limits limits = {.servers = 8, .lanes = 16, .tasks = 32};
    static struct stk_action out[96];
    make_engine(&limits, 0);
    rnd = prop_seed(seed);
    size_t applied, count;
    bool open[16] = {false};
    struct stk_event events[64];
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t lane = prop_below(&rnd, 16), server = prop_below(&rnd, 8);
        struct stk_event *e = events;
        *e++ = (struct stk_event){.type = prop_once_in(&rnd, 2) ? STK_EVENT_SERVER_JOIN : STK_EVENT_SERVER_LEAVE,
                                  .server = server,
                                  .workers = 1};
        *e++ = (struct stk_event){.type = open[lane] ? STK_EVENT_LANE_CLOSE : STK_EVENT_LANE_OPEN,
                                  .lane = lane,
                                  .group = prop_below(&rnd, 1000000)};
        open[lane] = !open[lane];
        if (open[lane]) {
            *e++ = (struct stk_event){.type = STK_EVENT_REQUEST, .lane = lane, .sequence = i, .items = 3};
            *e++ = (struct stk_event){.type = STK_EVENT_REQUEST, .lane = lane, .sequence = i + 1, .items = 3};
        }
        PROP_CHECK(stk_engine_step(engine, i, events, (size_t)(e - events), out, 96, &count, &applied, NULL) ==
                   STOKER_OK);
    }
    size_t n = 0;
    for (uint32_t i = 0; i < 16; i++) events[n++] = (struct stk_event){.type = STK_EVENT_LANE_CLOSE, .lane = i};
    for (uint32_t i = 0; i < 8; i++) events[n++] = (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = i};
    PROP_CHECK(stk_engine_step(engine, 100000, events, n, out, 96, &count, &applied, NULL) == STOKER_OK);
    /* Everything is free again: all tables can be filled to their last entry. */
    n = 0;
    for (uint32_t i = 0; i < 16; i++)
        events[n++] = (struct stk_event){.type = STK_EVENT_LANE_OPEN, .lane = i, .group = i};
    for (uint32_t i = 0; i < 32; i++)
        events[n++] = (struct stk_event){.type = STK_EVENT_REQUEST, .lane = i / 2, .sequence = i, .items = 1};
    events[n++] = (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = 7, .workers = 1};
    PROP_CHECK(stk_engine_step(engine, 100000, events, n, out, 96, &count, &applied, NULL) == STOKER_OK);
    PROP_CHECK(count == 32);
    struct stk_event more = {.type = STK_EVENT_REQUEST, .lane = 0, .sequence = 99};
    PROP_CHECK(stk_engine_step(engine, 100000, &more, 1, out, 96, &count, &applied, NULL) == STOKER_ERR_LIMIT);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_d1_engine_keeps_its_laws", prop_d1_engine_keeps_its_laws, 2000},
        {"prop_engine_is_deterministic", prop_engine_is_deterministic, 500},
        {"prop_d1_pauses_are_not_learned", prop_d1_pauses_are_not_learned, 2000},
        {"prop_d3_joins_and_leaves_keep_the_state_constant", prop_d3_joins_and_leaves_keep_the_state_constant, 2},
    };
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
