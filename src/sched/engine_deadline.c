/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups, windows and deadlines of the engine (rule D1): see engine.h.
 *
 * The deadlines of a group lie on a line: batch `next` is wanted at next_ns, and one batch each pace from then on. The
 * first rank that reports a step moves along it; a line that proves right (within a sixteenth of a window, and a
 * sixty-fourth of its pace) stays, so that a thousand ranks do not cause a thousand times new deadlines. A rank that is
 * behind wants everything now. Windows are in sched/window.
 */
#include "base/assert.h"
#include "sched/engine_internal.h"

/* Batches ahead of the anchor that are told apart; with windows of at most STK_WINDOW_NS_MAX no product can wrap. */
#define AHEAD_MAX (1u << 20)

uint32_t stk_engine_group_join(struct stk_engine *e, uint32_t key, const struct stk_event *event)
{
    uint32_t slot = NONE;
    for (uint32_t i = 0; i < e->limits.lanes; i++) {
        if (e->groups[i].lanes > 0 && e->groups[i].key == key) return i;
        if (e->groups[i].lanes == 0 && slot == NONE) slot = i;
    }
    STK_ASSERT(slot != NONE); /* a lane is free, so a group is */
    e->groups[slot] = (struct group){.key = key,
                                     .first_lane = NONE,
                                     .live_at = e->live_group_count,
                                     .job = event->job,
                                     .next_ns = e->now_ns,
                                     .pace_ns = STK_WINDOW_DEFAULT_NS,
                                     .last_step_ns = e->now_ns,
                                     .held = STK_HEAP_NONE};
    stk_window_init(&e->groups[slot].window);
    stk_share_open(&e->share, slot, event->weight);
    e->live_groups[e->live_group_count++] = slot;
    return slot;
}

void stk_engine_group_leave(struct stk_engine *e, uint32_t lane)
{
    struct lane *l = &e->lanes[lane];
    struct group *g = &e->groups[l->group];
    uint32_t *link = &g->first_lane;
    while (*link != lane) link = &e->lanes[*link].next_in_group;
    *link = l->next_in_group;
    if (--g->lanes > 0) return;
    STK_ASSERT(g->held == STK_HEAP_NONE);
    uint32_t moved = e->live_groups[--e->live_group_count];
    e->live_groups[g->live_at] = moved;
    e->groups[moved].live_at = g->live_at;
}

void stk_engine_group_begin(struct stk_engine *e, struct group *g, uint32_t iteration)
{
    if (iteration <= g->iteration) return;
    g->iteration = iteration;
    g->next = 0;
    g->next_ns = g->last_step_ns = e->now_ns; /* the first batch is wanted at once */
    g->pace_ns = g->window.median_ns;
    g->paused_until_ns = 0;
    g->changed = true;
}

static void learn_window(struct lane *l, struct group *g, uint64_t window_ns)
{
    if (window_ns == 0) return; /* the first call of an iteration has none */
    if (stk_window_learn(&g->window, window_ns)) {
        l->pauses_in_a_row = 0;
    } else if (++l->pauses_in_a_row == STK_WINDOW_PAUSES_MAX) {
        /* Not a pause but the new normal: learning starts again. */
        stk_window_init(&g->window);
        (void)stk_window_learn(&g->window, window_ns);
        l->pauses_in_a_row = 0;
    }
}

static uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

static uint64_t on_line(const struct group *g, uint64_t sequence)
{
    uint64_t ahead = sequence - g->next;
    return g->next_ns + (ahead < AHEAD_MAX ? ahead : AHEAD_MAX) * g->pace_ns;
}

void stk_engine_group_step(struct stk_engine *e, const struct stk_event *event)
{
    struct lane *l = &e->lanes[event->lane];
    struct group *g = &e->groups[l->group];
    learn_window(l, g, event->window_ns);
    if (l->iteration != g->iteration || event->sequence < g->next || event->sequence == UINT64_MAX) return;
    uint64_t pace = g->window.median_ns, steps = event->sequence + 1 - g->next;
    uint64_t line_ns = on_line(g, event->sequence + 1), seen_ns = e->now_ns + pace;
    bool right = g->paused_until_ns == 0 && distance(line_ns, seen_ns) <= pace / 16 &&
                 distance(g->pace_ns, pace) <= pace / 64 && steps < AHEAD_MAX;
    g->next = event->sequence + 1;
    g->next_ns = right ? line_ns : seen_ns;
    g->last_step_ns = e->now_ns;
    for (uint64_t i = 0; i < steps && i < STK_BUDGET_STEPS; i++) stk_budget_step(&e->jobs[g->job].budget);
    if (right) return;
    g->pace_ns = pace;
    g->paused_until_ns = 0;
    g->changed = true;
}

/* Is a batch that the group wants by now still being made for one of its ranks? Then a long silence is ours, not a
 * pause. */
static bool group_waits_for_us(const struct stk_engine *e, const struct group *g)
{
    for (uint32_t lane = g->first_lane; lane != NONE; lane = e->lanes[lane].next_in_group) {
        const struct lane *l = &e->lanes[lane];
        if (l->iteration == g->iteration && l->first != NONE && e->tasks[l->first].sequence <= g->next) return true;
    }
    return false;
}

/* During a pause all deadlines are "now plus one window"; they are moved on when half of that has passed, not at each
 * call. */
static void look_for_pause(struct stk_engine *e, struct group *g)
{
    uint64_t window = g->window.median_ns;
    bool silent = e->now_ns - g->last_step_ns > STK_WINDOW_PAUSE_FACTOR * window;
    if (!silent || group_waits_for_us(e, g)) {
        g->changed |= g->paused_until_ns != 0;
        g->paused_until_ns = 0;
    } else if (g->paused_until_ns < e->now_ns + window / 2) {
        g->paused_until_ns = e->now_ns + window;
        g->changed = true;
    }
}

void stk_engine_look_for_pauses(struct stk_engine *e)
{
    for (uint32_t i = 0; i < e->live_group_count; i++) look_for_pause(e, &e->groups[e->live_groups[i]]);
}

uint64_t stk_engine_deadline_of(const struct stk_engine *e, const struct task *t)
{
    const struct lane *l = &e->lanes[t->lane];
    const struct group *g = &e->groups[l->group];
    if (g->paused_until_ns != 0) return g->paused_until_ns > e->now_ns ? g->paused_until_ns : e->now_ns;
    uint64_t at = e->now_ns; /* behind the group: late already */
    if (l->iteration == g->iteration && t->sequence >= g->next) at = on_line(g, t->sequence);
    return at > e->now_ns ? at : e->now_ns;
}

static void write_deadline(struct stk_engine *e, uint32_t slot)
{
    struct task *t = &e->tasks[slot];
    uint64_t deadline_ns = stk_engine_deadline_of(e, t);
    if (t->held) {
        stk_engine_task_unhold(e, slot);
        stk_engine_task_hold(e, slot);
        return;
    }
    /* Late already, and still: the older deadline orders it well, and no message is needed. */
    bool late = deadline_ns == e->now_ns && t->deadline_ns < e->now_ns;
    if (late || deadline_ns == t->deadline_ns) return;
    t->deadline_ns = deadline_ns;
    for (uint32_t k = 0; k < SEATS; k++)
        if (t->seats[k].server != NONE) (void)stk_engine_act(e, STK_ACTION_DEADLINE, t, t->seats[k].server);
}

void stk_engine_write_deadlines(struct stk_engine *e)
{
    for (uint32_t i = 0; i < e->live_group_count; i++) {
        struct group *g = &e->groups[e->live_groups[i]];
        if (!g->changed) continue;
        g->changed = false;
        for (uint32_t lane = g->first_lane; lane != NONE; lane = e->lanes[lane].next_in_group)
            for (uint32_t slot = e->lanes[lane].first; slot != NONE; slot = e->tasks[slot].next)
                write_deadline(e, slot);
    }
}
