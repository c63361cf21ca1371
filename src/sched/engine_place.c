/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement in the engine: finds the candidates of a task, predicts what each would take, lets sched/place choose.
 *
 * Candidates: the lane's own server, up to STK_ENGINE_LOCAL_LOOK servers of its host, and of each pool of the lane the
 * heads of the idle and the busy heaps of each shard. The best server by earliest start is always among them.
 *
 * A transfer waits for the networks of both hosts (what was promised before crosses first) and then takes its bytes at
 * the speed of the link.
 *
 * Servers that have not answered yet are in heaps of their own. They get probes: second copies of tasks that will be
 * late, where they are predicted to be done first. One that is as good as it says takes part from then on; one that is
 * not loses, and harms nobody.
 */
#include "base/assert.h"
#include "sched/engine_internal.h"

#define CHECKS_A_STEP 16u
#define RECHECK_NS_MIN (STK_SECOND_NS / 1000)

/* ---- what a candidate would take */

struct prediction { /* of one task on one host */
    uint32_t host;
    bool known;
    uint64_t cpu_ns, io_ns, margin_ns;
};

static uint64_t at_most(uint64_t value, uint64_t max) { return value < max ? value : max; }

static void predict(const struct stk_engine *e, const struct task *t, uint32_t host, struct prediction *p)
{
    if (p->known && p->host == host) return;
    *p = (struct prediction){.host = host, .known = true};
    if (e->cost && t->featured) {
        struct stk_cost_key key = {e->lanes[t->lane].job, t->class_id, host};
        struct stk_cost cost;
        stk_cost_predict(e->cost, &key, &t->features, &cost);
        p->cpu_ns = at_most(cost.cpu_ns, WORK_NS_MAX);
        p->io_ns = at_most(cost.io_ns, WORK_NS_MAX);
        p->margin_ns = at_most(cost.late_ns - cost.cpu_ns - cost.io_ns, WORK_NS_MAX);
    } else {
        uint64_t speed = e->hosts[host].speed;
        p->cpu_ns = at_most(t->cpu_ns * speed / STRETCH_ONE, WORK_NS_MAX);
        p->io_ns = t->io_ns;
        p->margin_ns = at_most(t->margin_ns * speed / STRETCH_ONE, WORK_NS_MAX);
    }
    if (t->data_host == NONE || t->data_host == host || t->data_host >= e->limits.hosts) return;
    struct stk_speed speed = stk_links_get(e->links, t->data_host, host);
    p->io_ns = at_most(p->io_ns + stk_speed_transfer_ns(&speed, t->features.bytes_in) + speed.latency_ns, WORK_NS_MAX);
}

static uint64_t net_of(const struct stk_engine *e, const struct task *t, uint32_t from, uint32_t to, uint64_t ready_ns)
{
    struct stk_speed speed = stk_links_get(e->links, from, to);
    uint64_t start_ns = ready_ns;
    if (e->hosts[from].out_free_ns > start_ns) start_ns = e->hosts[from].out_free_ns;
    if (e->hosts[to].in_free_ns > start_ns) start_ns = e->hosts[to].in_free_ns;
    return start_ns - ready_ns + stk_speed_transfer_ns(&speed, t->output_bytes) + speed.latency_ns +
           e->options.overhead_ns;
}

/* Items beyond the workers take another round each; a share of the whole otherwise. */
static uint64_t rounds(uint64_t whole_ns, uint32_t items, uint32_t workers)
{
    return whole_ns / items * (((uint64_t)items + workers - 1) / workers);
}

static void assess(const struct stk_engine *e, const struct task *t, uint32_t server, struct prediction *p,
                   struct stk_candidate *c)
{
    const struct server *s = &e->servers[server];
    const struct lane *l = &e->lanes[t->lane];
    predict(e, t, s->host, p);
    *c = (struct stk_candidate){.server = server,
                                .own = server == l->server,
                                .local = s->host == l->host,
                                .accepts = s->accepts,
                                .load = s->items,
                                .workers = s->workers};
    c->cpu_ns = rounds(p->cpu_ns, t->items, s->workers) * s->stretch / STRETCH_ONE;
    c->io_ns = rounds(p->io_ns, t->items, s->workers) * s->stretch / STRETCH_ONE;
    c->margin_ns = rounds(p->margin_ns, t->items, s->workers) * s->stretch / STRETCH_ONE;
    c->work_ns = (p->cpu_ns + p->io_ns) * s->stretch / STRETCH_ONE;
    c->queue_ns = stk_engine_queue_ns(e, s, t->items);
    if (c->local) return;
    c->net_ns = net_of(e, t, s->host, l->host, e->now_ns + c->queue_ns + c->cpu_ns + c->io_ns);
}

/* ---- candidates */

static bool associated(const struct lane *l, const struct server *s, uint32_t server)
{
    return s->joined && s->workers > 0 && (server == l->server || (l->pools >> s->pool & 1) != 0);
}

static uint32_t next_in_turn(struct stk_engine *e, const struct lane *l, uint32_t except)
{
    for (uint32_t i = 1; i <= e->limits.servers; i++) {
        uint32_t server = (e->round_robin + i) % e->limits.servers;
        if (server == except || !associated(l, &e->servers[server], server)) continue;
        e->round_robin = server;
        return server;
    }
    return NONE;
}

struct gathering {
    struct prediction prediction;
    uint32_t count, except;
};

static void add(struct stk_engine *e, const struct task *t, uint32_t server, struct gathering *g)
{
    if (server == g->except) return;
    STK_ASSERT(g->count < STK_PLACE_CANDIDATES_MAX);
    assess(e, t, server, &g->prediction, &e->candidates[g->count++]);
}

/* True if all servers of the host were looked at. */
static bool add_locals(struct stk_engine *e, const struct task *t, const struct lane *l, struct gathering *g)
{
    uint32_t looked = 0, server = e->hosts[l->host].first_server;
    if (l->server < e->limits.servers && associated(l, &e->servers[l->server], l->server)) add(e, t, l->server, g);
    for (; server != NONE && looked < STK_ENGINE_LOCAL_LOOK; server = e->servers[server].host_next, looked++)
        if (server != l->server && associated(l, &e->servers[server], server)) add(e, t, server, g);
    return server == NONE;
}

/* Fills e->candidates with those of the task, without the server `except`. */
static uint32_t gather(struct stk_engine *e, const struct task *t, uint32_t except)
{
    const struct lane *l = &e->lanes[t->lane];
    struct gathering g = {.except = except};
    if (e->options.place.policy == STK_POLICY_ROUND_ROBIN) {
        uint32_t server = next_in_turn(e, l, except);
        if (server != NONE) add(e, t, server, &g);
        return g.count;
    }
    bool all_locals = add_locals(e, t, l, &g);
    for (uint64_t pools = l->pools; pools != 0; pools &= pools - 1) {
        uint32_t pool = (uint32_t)__builtin_ctzll(pools);
        for (uint32_t i = 0; i < HEAP_NEW * STK_ENGINE_SHARDS; i++) {
            uint32_t server = e->roots[pool][i % HEAP_NEW][i / HEAP_NEW];
            if (server == STK_HEAP_NONE || server == l->server) continue;
            if (all_locals && e->servers[server].host == l->host) continue; /* is in already */
            if (g.count + 1 < STK_PLACE_CANDIDATES_MAX) add(e, t, server, &g);
        }
    }
    return g.count;
}

/* Servers that have not answered yet: candidates where there are no others. */
static uint32_t gather_new(struct stk_engine *e, const struct task *t, uint32_t except)
{
    const struct lane *l = &e->lanes[t->lane];
    struct gathering g = {.except = except};
    for (uint64_t pools = l->pools; pools != 0; pools &= pools - 1) {
        uint32_t pool = (uint32_t)__builtin_ctzll(pools);
        for (uint32_t shard = 0; shard < STK_ENGINE_SHARDS; shard++) {
            uint32_t server = e->roots[pool][HEAP_NEW][shard];
            if (server == STK_HEAP_NONE || e->servers[server].host == l->host) continue;
            if (g.count < STK_PLACE_CANDIDATES_MAX) add(e, t, server, &g);
        }
    }
    return g.count;
}

/* ---- seats */

static uint64_t output_bytes_of(const struct stk_engine *e, const struct task *t, uint32_t host)
{
    if (t->output_bytes > 0 || !e->cost || !t->featured) return t->output_bytes;
    struct stk_cost_key key = {e->lanes[t->lane].job, t->class_id, host};
    struct stk_cost cost;
    stk_cost_predict(e->cost, &key, &t->features, &cost);
    return at_most(cost.output_bytes > BYTES_MAX / t->items ? BYTES_MAX : cost.output_bytes * t->items, BYTES_MAX);
}

static uint64_t busy_until_ns(const struct stk_engine *e, uint64_t free_ns, uint64_t took_ns)
{
    uint64_t ahead_ns = free_ns > e->now_ns ? free_ns - e->now_ns : 0;
    return e->now_ns + at_most(ahead_ns + took_ns, HORIZON_NS);
}

static void promise_transfer(struct stk_engine *e, const struct task *t, struct lane *l, const struct stk_candidate *c,
                             bool is_probe)
{
    struct host *from = &e->hosts[e->servers[c->server].host], *to = &e->hosts[l->host];
    struct stk_speed speed = stk_links_get(e->links, e->servers[c->server].host, l->host);
    uint64_t took_ns = stk_speed_transfer_ns(&speed, t->output_bytes);
    from->out_free_ns = busy_until_ns(e, from->out_free_ns, took_ns);
    to->in_free_ns = busy_until_ns(e, to->in_free_ns, took_ns);
    if (is_probe)
        stk_budget_take_probe(&e->jobs[l->job].budget, t->output_bytes);
    else
        stk_budget_take(&e->jobs[l->job].budget, t->output_bytes);
    l->last_remote = c->server;
    e->stats.remote++;
    e->stats.cross_bytes += t->output_bytes;
}

static void take(struct stk_engine *e, uint32_t slot, uint32_t seat, uint32_t count,
                 const struct stk_place_answer *answer)
{
    struct task *t = &e->tasks[slot];
    struct lane *l = &e->lanes[t->lane];
    const struct stk_candidate c = e->candidates[answer->index];
    uint64_t local_ns = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t total_ns = stk_candidate_total_ns(&e->candidates[i]);
        if (e->candidates[i].local && total_ns < local_ns) local_ns = total_ns;
    }
    stk_engine_seat_take(e, slot, seat, c.server, &c);
    if (!c.local) promise_transfer(e, t, l, &c, answer->reason == STK_REASON_PROBE);
    t->deadline_ns = stk_engine_deadline_of(e, t);
    struct stk_action *action = stk_engine_act(e, STK_ACTION_PLACE, t, c.server);
    action->reason = answer->reason;
    action->candidates = count;
    action->total_ns = answer->total_ns;
    action->late_ns = answer->late_ns;
    action->cpu_ns = c.cpu_ns;
    action->io_ns = c.io_ns;
    action->queue_ns = c.queue_ns;
    action->net_ns = c.net_ns;
    action->local_ns = local_ns;
    l->shown = (struct stk_engine_lane){.placed = true,
                                        .reason = answer->reason,
                                        .server = c.server,
                                        .total_ns = answer->total_ns,
                                        .late_ns = answer->late_ns};
    e->stats.placed++;
    e->stats.by_reason[answer->reason]++;
    if (answer->late_ns > 0) e->stats.late++;
    bool copy = answer->reason == STK_REASON_COPY || answer->reason == STK_REASON_PROBE;
    t->copy = copy ? seat : NONE;
    if (copy) e->copies_now++;
    if (copy || e->working_servers < 2 || e->options.copy_percent == UINT32_MAX) return;
    stk_engine_check_at(
        e, slot, e->now_ns + at_most(answer->total_ns, WORK_NS_MAX) / 100 * e->options.copy_percent + RECHECK_NS_MIN);
}

/* What the task is to those that hold it now, to the first candidate that was assessed. */
static struct stk_place_question question_of(const struct stk_engine *e, const struct task *t)
{
    const struct lane *l = &e->lanes[t->lane];
    uint64_t deadline_ns = stk_engine_deadline_of(e, t);
    return (struct stk_place_question){
        .left_ns = deadline_ns - e->now_ns,
        .affordable = stk_budget_affords(&e->jobs[l->job].budget, t->output_bytes, e->candidates[0].work_ns),
        .last_remote = l->last_remote,
        .items = t->items};
}

/* The task will be late where it is: an unproven server may show that it does better. One with nothing to do, one probe
 * for each four tasks at a time. */
static void probe(struct stk_engine *e, uint32_t slot, const struct stk_place_question *question)
{
    struct task *t = &e->tasks[slot];
    bool allowed = question->affordable || stk_budget_allows_probe(&e->jobs[e->lanes[t->lane].job].budget);
    if (!allowed || e->copies_now > e->stats.tasks / 4) return;
    uint32_t count = gather_new(e, t, t->avoid), best = NONE;
    uint64_t best_ns = t->seats[0].total_ns;
    for (uint32_t i = 0; i < count; i++) {
        const struct stk_candidate *c = &e->candidates[i];
        uint64_t total_ns = stk_candidate_total_ns(c);
        if (!c->accepts || c->load > 0 || total_ns > WORK_NS_MAX || total_ns + c->margin_ns >= best_ns) continue;
        best = i;
        best_ns = total_ns + c->margin_ns;
    }
    if (best == NONE) return;
    uint64_t total_ns = stk_candidate_total_ns(&e->candidates[best]);
    struct stk_place_answer answer = {best, STK_REASON_PROBE, total_ns,
                                      total_ns > question->left_ns ? total_ns - question->left_ns : 0};
    take(e, slot, 1, count, &answer);
    e->stats.probes++;
}

/* Chooses among the first `count` candidates. */
static struct stk_place_answer choose(struct stk_engine *e, const struct task *t, uint32_t count,
                                      struct stk_place_question *question)
{
    struct stk_place_answer answer = {.index = STK_PLACE_NONE, .reason = STK_REASON_ONLY};
    if (count == 0) return answer;
    *question = question_of(e, t);
    return stk_place_choose(&e->options.place, e->candidates, count, question);
}

static bool is_better_away(const struct stk_engine *e, const struct stk_place_answer *answer)
{
    if (answer->reason == STK_REASON_REMOTE_ON_TIME || answer->reason == STK_REASON_BUDGET) return true;
    return answer->reason == STK_REASON_EARLIEST && !e->candidates[answer->index].local;
}

/* False: nobody but `except` takes it now. */
static bool place_without(struct stk_engine *e, uint32_t slot, uint32_t except)
{
    struct task *t = &e->tasks[slot];
    struct stk_place_question question = {0};
    uint32_t count = gather(e, t, except);
    struct stk_place_answer answer = choose(e, t, count, &question);
    if (answer.index == STK_PLACE_NONE) { /* better a new server than none */
        count = gather_new(e, t, except);
        answer = choose(e, t, count, &question);
    }
    if (answer.index == STK_PLACE_NONE) return false;
    if (is_better_away(e, &answer))
        stk_budget_note(&e->jobs[e->lanes[t->lane].job].budget, t->output_bytes, e->candidates[0].work_ns);
    take(e, slot, 0, count, &answer);
    if (answer.late_ns > 0 && answer.total_ns > 0) probe(e, slot, &question);
    return true;
}

static bool place(struct stk_engine *e, uint32_t slot)
{
    struct task *t = &e->tasks[slot];
    t->output_bytes = output_bytes_of(e, t, e->lanes[t->lane].host);
    if (place_without(e, slot, t->avoid)) return true;
    return t->avoid != NONE && place_without(e, slot, NONE); /* better the one that failed than none */
}

/* ---- who is placed when */

/* Held tasks by the weighted deficit of their groups, then by deadline, as long as somebody accepts. */
static void place_held(struct stk_engine *e)
{
    uint32_t refused = NONE, group;
    while (e->accepting_servers > 0 && (group = stk_share_first(&e->share)) != STK_SHARE_NONE) {
        uint32_t slot = e->groups[group].held;
        stk_engine_task_unhold(e, slot);
        if (place(e, slot)) {
            uint64_t work_ns = e->tasks[slot].seats[0].work_ns;
            stk_share_charge(&e->share, group, work_ns >> STK_SHARE_UNIT_SHIFT);
            continue;
        }
        e->tasks[slot].fresh_next = refused;
        refused = slot;
    }
    while (refused != NONE) {
        uint32_t next = e->tasks[refused].fresh_next;
        stk_engine_task_hold(e, refused);
        refused = next;
    }
}

void stk_engine_write_placements(struct stk_engine *e)
{
    /* Where tasks are held, new ones stand in line with them. */
    bool in_line = e->held_count > 0 && e->room;
    for (uint32_t slot = e->first_fresh, next; slot != NONE; slot = next) {
        next = e->tasks[slot].fresh_next;
        if (in_line || e->working_servers == 0 || !place(e, slot)) stk_engine_task_hold(e, slot);
    }
    e->first_fresh = e->last_fresh = NONE;
    if (e->room && e->held_count > 0) place_held(e);
    e->room = false;
}

/* ---- stragglers */

void stk_engine_check_at(struct stk_engine *e, uint32_t slot, uint64_t at_ns)
{
    stk_engine_check_drop(e, slot);
    e->check_nodes[slot].key = (struct stk_heap_key){.deadline_ns = at_ns, .order = slot};
    e->checks = stk_heap_insert(e->check_nodes, e->checks, slot);
}

void stk_engine_check_drop(struct stk_engine *e, uint32_t slot)
{
    if (e->check_nodes[slot].inside) e->checks = stk_heap_remove(e->check_nodes, e->checks, slot);
}

/* The rest of a straggler is guessed to be as long as it is over its time already. A second copy is made if the rank
 * would wait for the first one, and the copy is done before even if the model errs. */
static void look_at(struct stk_engine *e, uint32_t slot)
{
    struct task *t = &e->tasks[slot];
    if (t->seats[0].server != NONE && t->seats[1].server != NONE) return; /* until one of them fails */
    uint32_t seat = t->seats[0].server != NONE ? 0 : 1;
    uint64_t elapsed = e->now_ns - t->seats[seat].placed_ns, predicted = t->seats[seat].total_ns;
    uint64_t rest = elapsed > predicted + predicted / 4 ? elapsed - predicted : predicted / 4;
    uint64_t again_ns = e->now_ns + (rest / 2 > RECHECK_NS_MIN ? rest / 2 : RECHECK_NS_MIN);
    uint32_t count = gather(e, t, t->seats[seat].server), best = NONE;
    struct stk_place_question question = question_of(e, t);
    if (count == 0 || question.left_ns >= rest || e->copies_now > e->stats.tasks / 16) {
        stk_engine_check_at(e, slot, again_ns);
        return;
    }
    uint64_t best_ns = rest;
    for (uint32_t i = 0; i < count; i++) {
        const struct stk_candidate *c = &e->candidates[i];
        uint64_t total_ns = stk_candidate_total_ns(c);
        if (!c->accepts || c->load >= c->workers || (!c->local && !question.affordable)) continue;
        if (total_ns > WORK_NS_MAX || total_ns + c->margin_ns >= best_ns) continue;
        best = i;
        best_ns = total_ns + c->margin_ns;
    }
    if (best == NONE) {
        stk_engine_check_at(e, slot, again_ns);
        return;
    }
    uint64_t total_ns = stk_candidate_total_ns(&e->candidates[best]);
    struct stk_place_answer answer = {best, STK_REASON_COPY, total_ns,
                                      total_ns > question.left_ns ? total_ns - question.left_ns : 0};
    take(e, slot, 1 - seat, count, &answer);
    e->stats.copies++;
}

void stk_engine_check_stragglers(struct stk_engine *e)
{
    for (uint32_t i = 0; i < CHECKS_A_STEP && e->checks != STK_HEAP_NONE; i++) {
        uint32_t slot = e->checks;
        if (e->check_nodes[slot].key.deadline_ns > e->now_ns) break;
        stk_engine_check_drop(e, slot);
        look_at(e, slot);
    }
}
