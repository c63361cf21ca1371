/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts and servers of the engine: see engine_internal.h.
 *
 * Backlog: free_ns is the time at which all that a server was given is predicted to be done. A placement adds its work
 * over the workers; each result corrects it to what is left: at most all of the outstanding work, at least what cannot
 * have begun, because more items are outstanding than there are workers. So an error of prediction lives no longer than
 * the task that had it.
 *
 * A server is in one heap of its pool and shard: with a free worker in the idle one, by speed, then by load; else in
 * the busy one, by free_ns. Keys change with events only, never with time.
 *
 * Feedback: `stretch` is how much longer a server's tasks took than predicted (the mean of the first eight, then an
 * eighth of each difference, never below one). A server that is slower than it should be, for whatever reason, looks so
 * and is left alone: one of the reasons why more servers cannot make the tail worse (docs/decisions/0182).
 */
#include "base/assert.h"
#include "base/error.h"
#include "sched/engine_internal.h"

#define WORKERS_MAX (1u << 16)
#define ACTUAL_NS_MAX (UINT64_C(1) << 50)
#define STRETCH_SUSPECT (STRETCH_ONE * 5 / 4)
#define NOISE_NS (STK_SECOND_NS / 1000) /* of a round of messages: no stretch */
#define SPEED_MIN 64u
#define SPEED_MAX (64u * STRETCH_ONE)

/* ---- heaps */

static void heap_leave(struct stk_engine *e, uint32_t server)
{
    struct server *s = &e->servers[server];
    if (s->heap == HEAP_COUNT) return;
    uint32_t *root = &e->roots[s->pool][s->heap][server % STK_ENGINE_SHARDS];
    *root = stk_heap_remove(e->server_nodes, *root, server);
    s->heap = HEAP_COUNT;
}

static bool by_load(const struct stk_engine *e)
{
    return e->options.place.policy == STK_POLICY_LEAST_REQUEST || e->options.place.policy == STK_POLICY_ROUND_ROBIN;
}

static struct stk_heap_key key_of(const struct stk_engine *e, uint32_t server, enum server_heap *out_heap)
{
    const struct server *s = &e->servers[server];
    struct stk_heap_key key = {.order = server};
    uint64_t load = (s->items << 16) / s->workers;
    if (load > UINT32_MAX) load = UINT32_MAX;
    *out_heap = HEAP_IDLE;
    if (by_load(e)) {
        key.deadline_ns = load;
    } else if (!s->proven) {
        key.deadline_ns = load;
        *out_heap = HEAP_NEW;
    } else if (s->items < s->workers) {
        uint64_t slow = (uint64_t)e->hosts[s->host].speed * s->stretch / STRETCH_ONE;
        key.deadline_ns = (slow >> 6) << 32 | load;
    } else {
        key.deadline_ns = s->free_ns;
        *out_heap = HEAP_BUSY;
    }
    return key;
}

static bool accepts(const struct stk_engine *e, const struct server *s)
{
    if (!s->joined || s->workers == 0 || s->saturated) return false;
    return e->options.hold == 0 || s->items < (uint64_t)e->options.hold * s->workers;
}

void stk_engine_server_settle(struct stk_engine *e, uint32_t server)
{
    struct server *s = &e->servers[server];
    bool now_accepts = accepts(e, s);
    if (now_accepts != s->accepts) {
        s->accepts = now_accepts;
        e->accepting_servers += now_accepts ? 1u : UINT32_MAX; /* adds or takes one */
    }
    if (!s->joined || s->workers == 0) {
        heap_leave(e, server);
        return;
    }
    enum server_heap heap;
    struct stk_heap_key key = key_of(e, server, &heap);
    struct stk_heap_node *node = &e->server_nodes[server];
    if (s->heap == (uint32_t)heap && node->key.deadline_ns == key.deadline_ns) return;
    heap_leave(e, server);
    node->key = key;
    uint32_t *root = &e->roots[s->pool][heap][server % STK_ENGINE_SHARDS];
    *root = stk_heap_insert(e->server_nodes, *root, server);
    s->heap = heap;
}

/* ---- joining and leaving */

static void host_add(struct stk_engine *e, uint32_t server)
{
    struct server *s = &e->servers[server];
    struct host *h = &e->hosts[s->host];
    s->host_prev = NONE;
    s->host_next = h->first_server;
    if (h->first_server != NONE) e->servers[h->first_server].host_prev = server;
    h->first_server = server;
    h->servers++;
}

static void host_drop(struct stk_engine *e, uint32_t server)
{
    const struct server *s = &e->servers[server];
    struct host *h = &e->hosts[s->host];
    if (s->host_prev == NONE)
        h->first_server = s->host_next;
    else
        e->servers[s->host_prev].host_next = s->host_next;
    if (s->host_next != NONE) e->servers[s->host_next].host_prev = s->host_prev;
    if (--h->servers > 0) return;
    /* Its number may mean another machine next time. */
    *h = (struct host){.first_server = NONE, .speed = STRETCH_ONE};
    stk_links_forget(e->links, s->host);
    if (e->cost) stk_cost_forget_host(e->cost, s->host);
}

stoker_status stk_engine_server_join(struct stk_engine *e, const struct stk_event *event, stoker_error *err)
{
    if (event->server >= e->limits.servers)
        return stk_fail(err, STOKER_ERR_LIMIT, "DataServer number %u, at most %u can join", event->server,
                        e->limits.servers);
    if (event->host >= e->limits.hosts)
        return stk_fail(err, STOKER_ERR_LIMIT, "DataServer %u joined from host number %u, at most %u are known",
                        event->server, event->host, e->limits.hosts);
    if (event->pool >= STK_ENGINE_POOLS)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "DataServer %u joined pool %u, pools are 0 to %u",
                        event->server, event->pool, STK_ENGINE_POOLS - 1);
    stk_engine_server_leave(e, event->server);
    struct server *s = &e->servers[event->server];
    *s = (struct server){.joined = true,
                         .host = event->host,
                         .pool = event->pool,
                         .workers = event->workers < WORKERS_MAX ? event->workers : WORKERS_MAX,
                         .heap = HEAP_COUNT,
                         .first_seat = NONE,
                         .stretch = STRETCH_ONE};
    host_add(e, event->server);
    if (s->workers > 0) e->working_servers++;
    e->stats.servers++;
    e->room = true;
    stk_engine_server_settle(e, event->server);
    return STOKER_OK;
}

void stk_engine_server_leave(struct stk_engine *e, uint32_t server)
{
    if (server >= e->limits.servers || !e->servers[server].joined) return;
    struct server *s = &e->servers[server];
    s->joined = false;
    if (s->workers > 0) e->working_servers--;
    while (s->first_seat != NONE) stk_engine_task_again(e, s->first_seat / SEATS, s->first_seat % SEATS);
    stk_engine_server_settle(e, server);
    host_drop(e, server);
    e->stats.servers--;
}

/* ---- what servers report */

void stk_engine_heartbeat(struct stk_engine *e, const struct stk_event *event)
{
    if (event->server >= e->limits.servers || !e->servers[event->server].joined) return;
    struct server *s = &e->servers[event->server];
    bool worked = s->workers > 0;
    s->workers = event->workers < WORKERS_MAX ? event->workers : WORKERS_MAX;
    if (worked != (s->workers > 0)) e->working_servers += worked ? UINT32_MAX : 1u;
    s->saturated = event->saturated;
    s->extra_ns = event->load_ns < WORK_NS_MAX ? event->load_ns : WORK_NS_MAX;
    s->latency_ns = event->latency_ns < STK_SECOND_NS * 60 ? event->latency_ns : STK_SECOND_NS * 60;
    /* Without results nothing is known anew: the server is given another chance, slowly, and has to prove itself. */
    if (s->tasks == 0 && s->stretch > STRETCH_ONE) {
        s->stretch -= (s->stretch - STRETCH_ONE + 15) / 16;
        if (s->suspect && s->stretch < STRETCH_SUSPECT) s->suspect = s->proven = false;
    }
    stk_engine_server_settle(e, event->server);
    e->room |= s->accepts;
}

void stk_engine_link(struct stk_engine *e, const struct stk_event *event)
{
    if (event->host >= e->limits.hosts || event->to_host >= e->limits.hosts || event->host == event->to_host) return;
    struct stk_speed measured = {event->bytes_per_s, event->latency_ns};
    stk_links_learn(e->links, event->host, event->to_host, &measured);
    struct stk_speed speed = stk_links_get(e->links, event->host, event->to_host);
    uint64_t until_ns = e->now_ns + stk_speed_transfer_ns(&speed, event->inflight_bytes);
    struct host *from = &e->hosts[event->host], *to = &e->hosts[event->to_host];
    if (from->out_free_ns < until_ns) from->out_free_ns = until_ns;
    if (to->in_free_ns < until_ns) to->in_free_ns = until_ns;
}

/* ---- backlog */

uint64_t stk_engine_queue_ns(const struct stk_engine *e, const struct server *s, uint32_t items)
{
    uint64_t others_ns = s->extra_ns / s->workers + s->latency_ns;
    if (s->items + items <= s->workers) return others_ns;
    if (s->free_ns > e->now_ns) return others_ns + (s->free_ns - e->now_ns);
    /* Overdue: half an item more is as good a guess as any. */
    return s->items < s->workers ? others_ns : others_ns + s->work_ns / s->items / 2;
}

void stk_engine_seat_take(struct stk_engine *e, uint32_t task, uint32_t seat, uint32_t server,
                          const struct stk_candidate *scores)
{
    struct task *t = &e->tasks[task];
    struct server *s = &e->servers[server];
    uint32_t id = task * SEATS + seat;
    uint64_t room_ns = HORIZON_NS - s->work_ns, work_ns = scores->work_ns < room_ns ? scores->work_ns : room_ns;
    t->seats[seat] = (struct seat){.server = server,
                                   .prev = NONE,
                                   .next = s->first_seat,
                                   .placed_ns = e->now_ns,
                                   .total_ns = stk_candidate_total_ns(scores),
                                   .work_ns = work_ns,
                                   .stretch = s->stretch};
    if (s->first_seat != NONE) e->tasks[s->first_seat / SEATS].seats[s->first_seat % SEATS].prev = id;
    s->first_seat = id;
    s->tasks++;
    s->items += t->items;
    s->work_ns += work_ns;
    if (s->free_ns < e->now_ns) s->free_ns = e->now_ns;
    s->free_ns += work_ns / s->workers;
    stk_engine_server_settle(e, server);
}

/* What is left can take no longer than all of it, and no less than what cannot have begun. */
static void correct_backlog(const struct stk_engine *e, struct server *s)
{
    if (s->items == 0 || s->workers == 0) {
        s->free_ns = e->now_ns;
        return;
    }
    uint64_t latest = e->now_ns + s->work_ns / s->workers, earliest = e->now_ns;
    if (s->items > s->workers) earliest += s->work_ns / s->items * (s->items - s->workers) / s->workers;
    if (s->free_ns > latest) s->free_ns = latest;
    if (s->free_ns < earliest) s->free_ns = earliest;
}

void stk_engine_seat_free(struct stk_engine *e, uint32_t task, uint32_t seat)
{
    struct task *t = &e->tasks[task];
    struct seat *at = &t->seats[seat];
    struct server *s = &e->servers[at->server];
    STK_ASSERT(s->items >= t->items);
    STK_ASSERT(s->work_ns >= at->work_ns);
    if (at->prev == NONE)
        s->first_seat = at->next;
    else
        e->tasks[at->prev / SEATS].seats[at->prev % SEATS].next = at->next;
    if (at->next != NONE) e->tasks[at->next / SEATS].seats[at->next % SEATS].prev = at->prev;
    s->tasks--;
    s->items -= t->items;
    s->work_ns -= at->work_ns;
    correct_backlog(e, s);
    stk_engine_server_settle(e, at->server);
    e->room |= s->accepts;
    at->server = NONE;
}

/* ---- learning */

/* From the time that the work itself took: what a task waited is no fault of the server's. */
static void learn_stretch(const struct seat *seat, struct server *s, uint64_t wall_ns)
{
    uint64_t predicted = seat->work_ns / seat->stretch * STRETCH_ONE + NOISE_NS;
    if (wall_ns > ACTUAL_NS_MAX) wall_ns = ACTUAL_NS_MAX;
    uint64_t ratio = wall_ns * STRETCH_ONE / predicted;
    int64_t target = (int64_t)(ratio < STRETCH_MAX ? ratio : STRETCH_MAX);
    if (s->answers < 8) s->answers++;
    int64_t stretch = (int64_t)s->stretch + (target - (int64_t)s->stretch) / s->answers;
    s->stretch = stretch < (int64_t)STRETCH_ONE   ? STRETCH_ONE
                 : stretch > (int64_t)STRETCH_MAX ? STRETCH_MAX
                                                  : (uint32_t)stretch;
    s->suspect |= s->stretch > STRETCH_SUSPECT;
}

static uint64_t ratio_of(uint64_t here, uint64_t elsewhere)
{
    if (here > ACTUAL_NS_MAX) here = ACTUAL_NS_MAX;
    uint64_t ratio = here * STRETCH_ONE / (elsewhere ? elsewhere : 1);
    return ratio < SPEED_MIN ? SPEED_MIN : ratio > SPEED_MAX ? SPEED_MAX : ratio;
}

static void learn_speed(struct stk_engine *e, uint32_t host, uint64_t ratio)
{
    struct host *h = &e->hosts[host];
    uint32_t old = h->speed;
    int64_t speed = (int64_t)old + ((int64_t)ratio - (int64_t)old) / 8;
    h->speed = (uint32_t)speed;
    if (old >> 6 == h->speed >> 6) return;
    for (uint32_t server = h->first_server; server != NONE; server = e->servers[server].host_next)
        stk_engine_server_settle(e, server);
}

void stk_engine_learn(struct stk_engine *e, const struct task *t, uint32_t seat, const struct stk_event *event)
{
    struct server *s = &e->servers[event->server];
    if (event->failed || event->flags != 0) return;
    s->proven = true;
    stk_engine_server_settle(e, event->server);
    if (t->seats[seat].work_ns > 0 && event->wall_ns > 0) learn_stretch(&t->seats[seat], s, event->wall_ns);
    if (e->cost && t->featured) {
        struct stk_cost_key key = {e->lanes[t->lane].job, t->class_id, s->host},
                            any = {key.job, key.class_id, STK_COST_ANY_HOST};
        struct stk_cost_result result = {t->features, event->cpu_ns, event->wall_ns, event->output_bytes, event->flags};
        if (!stk_cost_learn(e->cost, &key, &result)) return;
        struct stk_cost here, elsewhere;
        stk_cost_predict(e->cost, &key, &t->features, &here);
        stk_cost_predict(e->cost, &any, &t->features, &elsewhere);
        learn_speed(e, s->host, ratio_of(here.cpu_ns, elsewhere.cpu_ns));
    } else if (t->cpu_ns > 0 && event->cpu_ns > 0) {
        learn_speed(e, s->host, ratio_of(event->cpu_ns, t->cpu_ns));
    }
}

bool stk_engine_read_server(const struct stk_engine *e, uint32_t server, struct stk_engine_server *out)
{
    if (server >= e->limits.servers || !e->servers[server].joined) return false;
    const struct server *s = &e->servers[server];
    *out = (struct stk_engine_server){.host = s->host,
                                      .pool = s->pool,
                                      .workers = s->workers,
                                      .tasks = s->tasks,
                                      .items = s->items,
                                      .backlog_ns = s->free_ns > e->now_ns ? s->free_ns - e->now_ns : 0,
                                      .stretch_permille = (uint32_t)((uint64_t)s->stretch * 1000 / STRETCH_ONE),
                                      .saturated = s->saturated};
    return true;
}
