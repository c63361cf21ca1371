/* SPDX-License-Identifier: Apache-2.0
 *
 * See pool.h. This file: what the pool notices as time passes. Workers that hold a task too long or are stopped are
 * killed (SIGKILL ends stopped processes too), those told to end get a grace, members whose start was put off are
 * started.
 */
#include <signal.h>
#include <sys/wait.h>

#include "plane/pool_internal.h"
#include "sys/process.h"

/* The tick's time is taken before it kills: a start that lies after it has just been. */
static uint64_t elapsed(uint64_t now_ns, uint64_t since_ns) { return now_ns > since_ns ? now_ns - since_ns : 0; }

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

/* True once the process has been seen stopped for the limit. */
static bool stopped_too_long(pid_t pid, uint64_t *since_ns, uint64_t now_ns)
{
    char state = stk_process_state(pid);
    if (state != 'T' && state != 't') {
        *since_ns = 0;
        return false;
    }
    if (*since_ns == 0) *since_ns = now_ns;
    return elapsed(now_ns, *since_ns) >= STK_STOPPED_LIMIT_NS;
}

static void kill_stalled(struct stk_worker *worker, const char *what, uint64_t since_ns, uint64_t now_ns)
{
    char doing[256];
    stk_process_describe(worker->pid, doing, sizeof doing);
    stk_log(worker->pool->options.log, STOKER_LOG_WARN, "worker_stalled",
            "worker %ld is killed and replaced: %s for %.1f s: %s", (long)worker->pid, what,
            seconds(elapsed(now_ns, since_ns)), doing);
    worker->stalled = true;
    stk_pool_kill(worker, "%s for %.1f s and killed", what, seconds(elapsed(now_ns, since_ns)));
}

uint64_t stk_worker_look_ns(const struct stk_worker *worker)
{
    uint64_t step_ns = worker->stall_limit_ns / 4;
    if (worker->cpu_limit_ns && worker->cpu_limit_ns / 4 < step_ns) step_ns = worker->cpu_limit_ns / 4;
    if (step_ns < STK_LOOK_NS_MIN) step_ns = STK_LOOK_NS_MIN;
    return step_ns < STK_SECOND_NS ? step_ns : STK_SECOND_NS;
}

static bool overran(struct stk_worker *worker)
{
    if (!worker->cpu_limit_ns) return false;
    uint64_t used_ns = elapsed(stk_process_cpu_ns(worker->pid), worker->cpu_began_ns);
    if (used_ns < worker->cpu_limit_ns) return false;
    worker->pool->stats.killed_overran++;
    worker->overran = true;
    stk_pool_kill(worker, "more than %.3g s of CPU time for one sample (sample_timeout_s)",
                  seconds(worker->cpu_limit_ns));
    return true;
}

static void look_at_worker(struct stk_worker *worker, uint64_t now_ns)
{
    struct stk_pool *pool = worker->pool;
    if (worker->pidfd < 0) return;
    if (worker->state == STK_WORKER_BUSY) {
        uint64_t busy_ns = elapsed(now_ns, worker->busy_since_ns);
        if (busy_ns >= worker->stall_limit_ns) {
            pool->stats.killed_stalled++;
            kill_stalled(worker, "busy with one task", worker->busy_since_ns, now_ns);
        } else if (overran(worker)) {
            stk_log(pool->options.log, STOKER_LOG_INFO, "worker_overran", "worker %ld is killed and replaced: %s",
                    (long)worker->pid, worker->ending);
        } else if (busy_ns >= STK_SECOND_NS && stopped_too_long(worker->pid, &worker->stopped_since_ns, now_ns)) {
            pool->stats.killed_stopped++;
            kill_stalled(worker, "stopped", worker->stopped_since_ns, now_ns);
        } else {
            stk_pool_tick_before(pool, now_ns + stk_worker_look_ns(worker));
        }
    }
    if (worker->state != STK_WORKER_ENDING) return;
    if (worker->killed_at_ns == 0) {
        if (now_ns >= worker->kill_at_ns)
            stk_pool_kill(worker, "%s",
                          worker->item_id ? "killed at work, its loader was closed"
                                          : "killed, it did not end by itself");
        else
            stk_pool_tick_before(pool, worker->kill_at_ns);
    } else if (!worker->stuck) {
        if (elapsed(now_ns, worker->killed_at_ns) < STK_STUCK_NS) {
            stk_pool_tick_before(pool, worker->killed_at_ns + STK_STUCK_NS);
            return;
        }
        worker->stuck = true;
        char doing[256];
        stk_process_describe(worker->pid, doing, sizeof doing);
        stk_log(pool->options.log, STOKER_LOG_WARN, "worker_stuck",
                "worker %ld was killed %.1f s ago and does not end: %s", (long)worker->pid,
                seconds(elapsed(now_ns, worker->killed_at_ns)), doing);
        pool->options.ops->stuck(pool->options.user, worker);
    }
}

static void look_at_template(struct stk_crew *crew, uint64_t now_ns)
{
    struct stk_template *template = &crew->template;
    if (!template->pid || template->killed_at_ns) return;
    if (template->kill_at_ns && now_ns >= template->kill_at_ns) {
        stk_template_kill(crew, "killed, it did not end by itself", now_ns);
        return;
    }
    if (template->kill_at_ns) stk_pool_tick_before(crew->pool, template->kill_at_ns);
    bool awaited = crew->state == STK_CREW_LOADING || template->forks > 0;
    if (!awaited) return;
    stk_pool_tick_before(crew->pool, now_ns + STK_SECOND_NS);
    const char *why = NULL;
    if (stopped_too_long(template->pid, &template->stopped_since_ns, now_ns))
        why = "it was stopped and then killed";
    else if (template->forks > 0 && elapsed(now_ns, template->fork_since_ns) >= STK_FORK_LIMIT_NS)
        why = "it did not fork a worker in 60 s and was killed";
    if (!why) return;
    char doing[256];
    stk_process_describe(template->pid, doing, sizeof doing);
    stk_log(crew->pool->options.log, STOKER_LOG_WARN, "template_stalled", "template %ld: %s: %s", (long)template->pid,
            why, doing);
    stk_template_kill(crew, why, now_ns);
}

static bool is_ours(const struct stk_pool *pool, pid_t pid)
{
    for (uint32_t i = 0; i < pool->worker_high; i++)
        if (pool->workers[i].state != STK_WORKER_FREE && pool->workers[i].pid == pid) return true;
    for (uint32_t i = 0; i < pool->crew_high; i++)
        if (pool->crews[i].template.pid == pid) return true;
    return false;
}

void stk_pool_reap_orphans(struct stk_pool *pool)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
        if (is_ours(pool, info.si_pid)) return; /* its pidfd tells in a moment */
        (void)waitpid(info.si_pid, NULL, WNOHANG);
    }
}

void stk_pool_tick(struct stk_pool *pool, uint64_t now_ns)
{
    if (now_ns < pool->next_tick_ns) return;
    pool->next_tick_ns = UINT64_MAX;
    for (uint32_t i = 0; i < pool->worker_high; i++)
        if (pool->workers[i].state != STK_WORKER_FREE) look_at_worker(&pool->workers[i], now_ns);
    for (uint32_t i = 0; i < pool->crew_high; i++) {
        look_at_template(&pool->crews[i], now_ns);
        stk_crew_fill(&pool->crews[i], now_ns);
    }
}
