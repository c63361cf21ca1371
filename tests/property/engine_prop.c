/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of sched/engine under random events, over policies, back-pressure, budgets and second copies (rules D1, D3, C3):
 * each task is made where it may be made, in one place or with a copy in two, is placed again when its server fails or
 * leaves, and is placed no more once its result is in; what is not wanted any more is cancelled; deadlines never
 * decrease with step and are never in the past when they are told, ranks of a group share them; pauses are not learned;
 * bytes across hosts stay within their budget; the same events give the same actions; the state is of one size for
 * ever.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/engine.h"
#include "tests/property/prop.h"

#define MS (STK_SECOND_NS / 1000)
enum {
    SERVERS = 6,
    HOSTS = 3,
    POOLS = 2,
    LANES = 5,
    GROUPS = 2,
    TASKS = 24,
    EVENTS_MAX = 4,
    AHEAD = 6,
    SEQUENCES = 4096
};
enum { BYTES = 1000 };

struct model_task {
    bool live, answered;
    uint32_t seats; /* bit per server */
    uint64_t deadline;
};

struct model_lane {
    bool open, closed_now; /* in this step: its cancellations are still to come */
    uint32_t group, iteration, server, host;
    uint64_t pools;
    uint64_t requested, taken;
    struct model_task tasks[SEQUENCES];
};

struct model_server {
    bool joined;
    uint32_t host, pool, workers;
};

static struct stk_engine *engine;
static struct stk_engine_options options;
static struct model_lane lanes[LANES];
static struct model_server servers[SERVERS];
static struct stk_action actions[1024];
static size_t action_count;
static uint64_t now, digest, steps, crossed;
static uint32_t left_now; /* servers that left in this step: what was cancelled there before is still to be told */
static struct prop_random rnd;

static void note(uint64_t value) { digest = (digest ^ value) * UINT64_C(0x100000001b3); }

static uint32_t part_of(uint64_t sequence) { return (uint32_t)(sequence % 3); }

static uint32_t live_tasks(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < LANES; i++)
        for (uint64_t s = 0; lanes[i].open && s < lanes[i].requested; s++) count += lanes[i].tasks[s].live;
    return count;
}

static bool associated(const struct model_lane *l, uint32_t server)
{
    const struct model_server *s = &servers[server];
    return s->joined && s->workers > 0 && (server == l->server || (l->pools >> s->pool & 1) != 0);
}

static void follow_place(const struct stk_action *a, struct model_lane *l, struct model_task *t)
{
    PROP_CHECK(l->open && t->live);
    PROP_CHECK(associated(l, a->server));
    PROP_CHECK(a->deadline_ns >= now);
    PROP_CHECK(a->candidates > 0);
    PROP_CHECK(a->total_ns == a->cpu_ns + a->io_ns + a->queue_ns + a->net_ns);
    PROP_CHECK(a->late_ns == (a->total_ns > a->deadline_ns - now ? a->total_ns - (a->deadline_ns - now) : 0));
    if (a->reason == STK_REASON_COPY || a->reason == STK_REASON_PROBE)
        PROP_CHECK(t->seats != 0 && (t->seats & (t->seats - 1)) == 0 && !(t->seats >> a->server & 1));
    else
        PROP_CHECK(t->seats == 0);
    t->seats |= 1u << a->server;
    t->deadline = a->deadline_ns;
    if (servers[a->server].host != l->host) crossed += BYTES;
    if (a->reason == STK_REASON_LOCAL_ON_TIME || a->reason == STK_REASON_BUDGET)
        PROP_CHECK(servers[a->server].host == l->host);
}

static void follow_actions(void)
{
    for (size_t i = 0; i < action_count; i++) {
        const struct stk_action *a = &actions[i];
        struct model_lane *l = &lanes[a->lane];
        struct model_task *t = &l->tasks[a->sequence];
        note(a->type);
        note(a->server);
        note(a->lane);
        note(a->sequence);
        note(a->deadline_ns);
        note(a->reason);
        note(a->total_ns);
        PROP_CHECK(a->part == part_of(a->sequence));
        switch (a->type) {
        case STK_ACTION_PLACE: follow_place(a, l, t); break;
        case STK_ACTION_DEADLINE:
            PROP_CHECK(l->open && t->live && (t->seats >> a->server & 1));
            PROP_CHECK(a->deadline_ns >= now);
            t->deadline = a->deadline_ns;
            break;
        case STK_ACTION_CANCEL:
            PROP_CHECK(!t->live && ((t->seats | left_now) >> a->server & 1));
            PROP_CHECK(a->server != l->server || t->answered);
            t->seats &= ~(1u << a->server);
            break;
        case STK_ACTION_GIVE_UP:
            PROP_CHECK(t->seats == 0); /* a result may have come in the same step */
            t->live = false;
            break;
        }
    }
}

/* What a forgotten task leaves behind at its own server, which needs no message, unless another one answered. */
static void check_ended(const struct model_lane *l, const struct model_task *t)
{
    if (t->live) return;
    PROP_CHECK(t->seats == 0 || (!t->answered && t->seats == 1u << l->server));
}

static void check_lane(uint32_t i, uint32_t *unplaced)
{
    uint64_t before = 0;
    for (uint64_t s = 0; s < lanes[i].requested; s++) {
        const struct model_task *t = &lanes[i].tasks[s];
        check_ended(&lanes[i], t);
        if (!t->live) continue;
        if (t->seats == 0) {
            ++*unplaced;
            if (options.hold == 0 && options.place.policy != STK_POLICY_ROUND_ROBIN)
                PROP_CHECK(!associated(&lanes[i], lanes[i].server) || servers[lanes[i].server].host != lanes[i].host);
            continue;
        }
        PROP_CHECK(t->deadline >= before || t->deadline <= now); /* among those that are late already, order is age */
        before = t->deadline > before ? t->deadline : before;
        for (uint32_t other = 0; other < i; other++) {
            const struct model_task *u = &lanes[other].tasks[s];
            if (!lanes[other].open || lanes[other].group != lanes[i].group || s >= lanes[other].requested) continue;
            if (!u->live || u->seats == 0 || lanes[other].iteration != lanes[i].iteration) continue;
            if (t->deadline > now && u->deadline > now) PROP_CHECK(t->deadline == u->deadline);
        }
    }
}

static void check_laws(void)
{
    struct stk_engine_stats stats;
    uint32_t unplaced = 0;
    for (uint32_t i = 0; i < LANES; i++)
        if (lanes[i].open) check_lane(i, &unplaced);
    stk_engine_read_stats(engine, &stats);
    PROP_CHECK(stats.held == unplaced);
    PROP_CHECK(stats.tasks == live_tasks());
    PROP_CHECK(stats.cross_bytes == crossed);
    for (uint32_t i = 0; i < SERVERS; i++) {
        struct stk_engine_server server;
        PROP_CHECK(stk_engine_read_server(engine, i, &server) == servers[i].joined);
        if (!servers[i].joined) continue;
        uint32_t tasks = 0;
        for (uint32_t l = 0; l < LANES; l++)
            for (uint64_t s = 0; lanes[l].open && s < lanes[l].requested; s++)
                tasks += lanes[l].tasks[s].live && (lanes[l].tasks[s].seats >> i & 1);
        PROP_CHECK(server.tasks == tasks);
        PROP_CHECK(tasks > 0 || (server.items == 0 && server.backlog_ns == 0));
    }
}

static void send(const struct stk_event *events, size_t count)
{
    size_t applied = 99;
    PROP_CHECK(stk_engine_step(engine, now, events, count, actions, 1024, &action_count, &applied, NULL) == STOKER_OK);
    PROP_CHECK(applied == count);
    follow_actions();
    check_laws();
}

static void drop_tasks(uint32_t lane)
{
    for (uint64_t s = 0; s < lanes[lane].requested; s++) lanes[lane].tasks[s].live = false;
}

static void leave(uint32_t server)
{
    servers[server].joined = false;
    left_now |= 1u << server;
    for (uint32_t i = 0; i < LANES; i++)
        for (uint64_t s = 0; s < lanes[i].requested; s++) lanes[i].tasks[s].seats &= ~(1u << server);
}

static void open_lane(uint32_t lane, struct stk_event *event)
{
    struct model_lane *l = &lanes[lane];
    memset(l, 0, sizeof *l);
    event->type = STK_EVENT_LANE_OPEN;
    event->group = 70 + lane % GROUPS;
    event->host = lane % HOSTS;
    event->server = lane % HOSTS;
    event->job = 0;
    event->pools = prop_below(&rnd, 4);
    event->weight = prop_below(&rnd, 3);
    l->open = true;
    l->group = event->group;
    l->host = event->host;
    l->server = event->server;
    l->pools = event->pools ? event->pools : 1;
}

/* Of a server that makes the task; false if none does. */
static bool seat_event(struct stk_event *event, const struct model_task *t)
{
    for (uint32_t i = 0; i < SERVERS; i++) {
        if (!(t->seats >> i & 1)) continue;
        event->server = i;
        if (prop_once_in(&rnd, 2)) break;
    }
    return t->seats != 0;
}

static bool server_event(struct stk_event *event, uint32_t what)
{
    uint32_t server = event->server;
    if (what == 1 && !prop_once_in(&rnd, 4)) what = 0;
    if (what == 0) {
        event->type = STK_EVENT_SERVER_JOIN;
        event->workers = prop_below(&rnd, 4);
        event->host = server % HOSTS;
        event->pool = server % POOLS;
        leave(server);
        servers[server] = (struct model_server){true, event->host, event->pool, event->workers};
    } else if (what == 1) {
        event->type = STK_EVENT_SERVER_LEAVE;
        leave(server);
    } else if (what == 2) {
        event->type = STK_EVENT_HEARTBEAT;
        event->workers = servers[server].joined ? servers[server].workers : 1;
        event->load_ns = prop_below(&rnd, 20) * MS;
        event->saturated = prop_once_in(&rnd, 8) && server >= HOSTS;
    } else {
        event->type = STK_EVENT_LINK;
        event->host = prop_below(&rnd, HOSTS);
        event->to_host = prop_below(&rnd, HOSTS);
        event->bytes_per_s = 1 + prop_next(&rnd) % 10000000000;
        event->inflight_bytes = prop_below(&rnd, 10000000);
    }
    return true;
}

static bool task_event(struct stk_event *event, struct model_lane *l, uint32_t what)
{
    uint64_t back = prop_below(&rnd, l->requested < AHEAD ? (uint32_t)l->requested : AHEAD);
    event->sequence = l->requested - 1 - back;
    event->part = part_of(event->sequence);
    struct model_task *t = &l->tasks[event->sequence];
    if (what == 0) {
        /* Seats are known for tasks of steps before this one only; a failure of the last try ends the task. */
        if (!t->live || !seat_event(event, t)) return false;
        event->type = STK_EVENT_FAILURE;
        t->seats &= ~(1u << event->server);
        return true;
    }
    if (what == 1) {
        event->type = STK_EVENT_CANCEL;
        t->live = false;
        return true;
    }
    event->type = STK_EVENT_RESULT;
    event->server = prop_below(&rnd, SERVERS);
    if (t->live && seat_event(event, t)) t->seats &= ~(1u << event->server);
    event->cpu_ns = 1 + prop_below(&rnd, 50) * MS;
    event->wall_ns = event->cpu_ns + prop_below(&rnd, 10) * MS;
    event->failed = prop_once_in(&rnd, 20);
    t->answered |= t->live; /* answers may come twice */
    t->live = false;
    return true;
}

/* Makes one valid event and tells the model of it; false if the draw does not apply. */
static bool make_event(struct stk_event *event)
{
    uint32_t lane = prop_below(&rnd, LANES);
    struct model_lane *l = &lanes[lane];
    *event = (struct stk_event){.lane = lane, .server = prop_below(&rnd, SERVERS)};
    uint32_t what = prop_below(&rnd, 44);
    if (!l->open) {
        if (l->closed_now) return false;
        open_lane(lane, event);
    } else if (what < 4) {
        return server_event(event, what);
    } else if (what == 4) {
        event->type = STK_EVENT_LANE_BEGIN;
        drop_tasks(lane);
        l->iteration++;
    } else if (what == 5 && prop_once_in(&rnd, 4)) {
        event->type = STK_EVENT_LANE_CLOSE;
        drop_tasks(lane);
        l->open = false;
        l->closed_now = true;
    } else if (what < 22 && l->requested < l->taken + AHEAD && l->requested < SEQUENCES && live_tasks() < TASKS) {
        event->type = STK_EVENT_REQUEST;
        event->items = 1 + prop_below(&rnd, 8);
        event->sequence = l->requested++;
        event->part = part_of(event->sequence);
        event->cpu_ns = prop_below(&rnd, 50) * MS;
        event->io_ns = prop_below(&rnd, 10) * MS;
        event->margin_ns = prop_below(&rnd, 10) * MS;
        event->output_bytes = BYTES;
        event->data_known = prop_once_in(&rnd, 4);
        event->data_host = prop_below(&rnd, HOSTS);
        l->tasks[event->sequence] = (struct model_task){.live = true};
    } else if (what < 34 && l->requested > 0) {
        return task_event(event, l, what - 22);
    } else if (l->taken < l->requested && !l->tasks[l->taken].live) {
        event->type = STK_EVENT_STEP;
        event->sequence = l->taken++;
        event->window_ns = prop_once_in(&rnd, 10) ? 3000 * MS : 10 * MS + prop_below(&rnd, 90) * MS;
        steps++;
    } else {
        event->type = STK_EVENT_TICK;
    }
    return true;
}

static void make_engine(const struct stk_engine_limits *limits, const struct stk_engine_options *how, int garbage)
{
    static void *block;
    size_t size = stk_engine_bytes(limits);
    free(block);
    block = aligned_alloc(16, size);
    PROP_CHECK(block);
    memset(block, garbage, size);
    engine = stk_engine_init(block, size, limits, how);
}

static void draw_options(void)
{
    options = (struct stk_engine_options){.place = {.policy = (enum stk_policy)prop_below(&rnd, 4)}};
    if (prop_once_in(&rnd, 2)) options.place.policy = STK_POLICY_DEADLINE;
    options.hold = prop_once_in(&rnd, 2) ? 0 : 1 + prop_below(&rnd, 3);
    options.copy_percent = prop_once_in(&rnd, 2) ? 0 : 110;
    options.budget_step_bytes = prop_once_in(&rnd, 2) ? 0 : 1 + prop_below(&rnd, 3 * BYTES);
}

static void run(uint64_t seed, int garbage)
{
    const struct stk_engine_limits limits = {
        .servers = SERVERS, .lanes = LANES, .tasks = TASKS, .hosts = HOSTS, .jobs = 1, .links = 2};
    rnd = prop_seed(seed);
    draw_options();
    make_engine(&limits, &options, garbage);
    for (uint32_t i = 0; i < LANES; i++) lanes[i].open = lanes[i].closed_now = false, lanes[i].requested = 0;
    memset(servers, 0, sizeof servers);
    now = prop_below(&rnd, 1000);
    digest = 1;
    steps = crossed = 0;
    left_now = 0;
    for (int step = 0; step < 200; step++) {
        struct stk_event events[EVENTS_MAX];
        size_t count = 0;
        now += prop_once_in(&rnd, 20) ? 2000 * MS : prop_below(&rnd, 30) * MS;
        for (uint32_t i = 1 + prop_below(&rnd, EVENTS_MAX); i > 0; i--) count += make_event(&events[count]);
        send(events, count);
        for (uint32_t i = 0; i < LANES; i++) lanes[i].closed_now = false;
        left_now = 0;
    }
}

static void prop_d1_c3_engine_keeps_its_laws(uint64_t seed) { run(seed, 0xa5); }

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
    make_engine(&limits, NULL, 0);
    rnd = prop_seed(seed);
    now = 0;
    size_t applied;
    struct stk_event event = {.type = STK_EVENT_LANE_OPEN};
    uint64_t pace = (1 + prop_below(&rnd, 500)) * MS;
    for (uint64_t sequence = 0; sequence < 60; sequence++) {
        PROP_CHECK(stk_engine_step(engine, now, &event, 1, actions, 1024, &action_count, &applied, NULL) == STOKER_OK);
        if (sequence > 1)
            PROP_CHECK(stk_engine_window_ns(engine, 0) >= pace && stk_engine_window_ns(engine, 0) < 2 * pace);
        bool pause = sequence > 3 && event.window_ns < 10 * pace && prop_once_in(&rnd, 4); /* never five in a row */
        uint64_t interval = pause ? 11 * pace : pace + prop_next(&rnd) % pace;
        event = (struct stk_event){.type = STK_EVENT_STEP, .sequence = sequence, .window_ns = interval};
        now += interval;
    }
}

/* Rule D3: joins and leaves without end need no more state, and leave nothing behind: a million steps of them write
 * nothing past the block, and then all tables can be filled to their last entry. */
static void prop_d3_joins_and_leaves_keep_the_state_constant(uint64_t seed)
{
    enum { GUARD = 64, SERVER_MAX = 8, LANE_MAX = 16, TASK_MAX = 32 };
    const struct stk_engine_limits limits = {
        .servers = SERVER_MAX, .lanes = LANE_MAX, .tasks = TASK_MAX, .hosts = 4, .jobs = 3, .links = 5, .models = 6};
    static struct stk_action out[1024];
    static uint8_t *memory;
    size_t applied, count, size = stk_engine_bytes(&limits);
    free(memory);
    memory = aligned_alloc(16, (size + GUARD + 15) / 16 * 16);
    PROP_CHECK(memory);
    memset(memory, 0x5a, size + GUARD);
    engine = stk_engine_init(memory, size, &limits, NULL);
    rnd = prop_seed(seed);
    bool open[LANE_MAX] = {false};
    struct stk_event events[64];
    for (uint32_t i = 0; i < 1000000; i++) {
        uint32_t lane = prop_below(&rnd, LANE_MAX), server = prop_below(&rnd, SERVER_MAX), host = server % 4;
        struct stk_event *e = events;
        *e++ = (struct stk_event){.type = prop_once_in(&rnd, 2) ? STK_EVENT_SERVER_JOIN : STK_EVENT_SERVER_LEAVE,
                                  .server = server,
                                  .host = host,
                                  .pool = prop_below(&rnd, STK_ENGINE_POOLS),
                                  .workers = 1};
        *e++ = (struct stk_event){.type = open[lane] ? STK_EVENT_LANE_CLOSE : STK_EVENT_LANE_OPEN,
                                  .lane = lane,
                                  .host = prop_below(&rnd, 4),
                                  .job = prop_below(&rnd, 3),
                                  .pools = prop_next(&rnd),
                                  .group = prop_below(&rnd, 1000000)};
        *e++ =
            (struct stk_event){.type = STK_EVENT_LINK, .host = host, .to_host = prop_below(&rnd, 4), .latency_ns = i};
        open[lane] = !open[lane];
        for (uint64_t k = 0; open[lane] && k < 2; k++) {
            *e = (struct stk_event){.type = STK_EVENT_REQUEST, .lane = lane, .sequence = i + k, .items = 3};
            e->class_id = prop_below(&rnd, STK_COST_CLASSES);
            e->features = (struct stk_cost_features){.samples = 3, .pixels_in = 1000000, .bytes_in = 1000};
            e++;
        }
        *e++ = (struct stk_event){.type = STK_EVENT_RESULT,
                                  .lane = lane,
                                  .server = server,
                                  .sequence = i - prop_below(&rnd, 3),
                                  .cpu_ns = 1000,
                                  .wall_ns = 2000};
        PROP_CHECK(stk_engine_step(engine, i, events, (size_t)(e - events), out, 1024, &count, &applied, NULL) ==
                   STOKER_OK);
    }
    for (size_t i = 0; i < GUARD; i++) PROP_CHECK(memory[size + i] == 0x5a);
    size_t n = 0;
    for (uint32_t i = 0; i < LANE_MAX; i++) events[n++] = (struct stk_event){.type = STK_EVENT_LANE_CLOSE, .lane = i};
    for (uint32_t i = 0; i < SERVER_MAX; i++)
        events[n++] = (struct stk_event){.type = STK_EVENT_SERVER_LEAVE, .server = i};
    PROP_CHECK(stk_engine_step(engine, 1000000, events, n, out, 1024, &count, &applied, NULL) == STOKER_OK);
    struct stk_engine_stats stats;
    stk_engine_read_stats(engine, &stats);
    PROP_CHECK(stats.servers == 0 && stats.lanes == 0 && stats.tasks == 0 && stats.held == 0);
    n = 0;
    for (uint32_t i = 0; i < LANE_MAX; i++)
        events[n++] = (struct stk_event){.type = STK_EVENT_LANE_OPEN, .lane = i, .group = i};
    for (uint32_t i = 0; i < TASK_MAX; i++)
        events[n++] = (struct stk_event){.type = STK_EVENT_REQUEST, .lane = i / 2, .sequence = i, .items = 1};
    events[n++] = (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = 7, .workers = 1};
    PROP_CHECK(stk_engine_step(engine, 1000000, events, n, out, 1024, &count, &applied, NULL) == STOKER_OK);
    PROP_CHECK(count == TASK_MAX);
    struct stk_event more = {.type = STK_EVENT_REQUEST, .lane = 0, .sequence = 99};
    PROP_CHECK(stk_engine_step(engine, 1000000, &more, 1, out, 1024, &count, &applied, NULL) == STOKER_ERR_LIMIT);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_d1_c3_engine_keeps_its_laws", prop_d1_c3_engine_keeps_its_laws, 1000},
        {"prop_engine_is_deterministic", prop_engine_is_deterministic, 200},
        {"prop_d1_pauses_are_not_learned", prop_d1_pauses_are_not_learned, 2000},
        {"prop_d3_joins_and_leaves_keep_the_state_constant", prop_d3_joins_and_leaves_keep_the_state_constant, 1},
    };
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
