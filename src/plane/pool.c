/* SPDX-License-Identifier: Apache-2.0
 *
 * See pool.h. This file: worker entries from start to reaping, and the membership of crews.
 */
#include "plane/pool.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/pool_internal.h"
#include "sys/clock.h"
#include "sys/process.h"

stoker_status stk_pool_create(const struct stk_pool_options *options, struct stk_pool **out_pool, stoker_error *err)
{
    struct stk_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the pool");
    pool->options = *options;
    pool->crews = calloc(STK_CREWS_MAX, sizeof *pool->crews);
    pool->workers = calloc(STK_WORKERS_MAX, sizeof *pool->workers);
    if (!pool->crews || !pool->workers) {
        stk_pool_destroy(pool);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the pool's tables");
    }
    for (uint32_t i = 0; i < STK_CREWS_MAX; i++) {
        struct stk_crew *crew = &pool->crews[i];
        crew->number = i;
        crew->pool = pool;
        crew->idle_head = STK_WORKER_NONE;
        crew->template.pidfd = crew->template.life.fd = crew->template.link.watch.fd = -1;
    }
    pool->crews[STK_CREW_NATIVE].state = STK_CREW_OPEN;
    pool->crew_high = 1;
    pool->next_tick_ns = UINT64_MAX;
    *out_pool = pool;
    return STOKER_OK;
}

static void wait_ended(int pidfd, uint64_t deadline_ns)
{
    uint64_t now_ns = stk_clock_now_ns();
    struct pollfd poll_fd = {pidfd, POLLIN, 0};
    if (pidfd >= 0 && now_ns < deadline_ns)
        (void)poll(&poll_fd, 1, (int)((deadline_ns - now_ns) / 1000000)); /* best effort */
}

static void destroy_template(struct stk_pool *pool, struct stk_template *template, uint64_t deadline_ns)
{
    wait_ended(template->pidfd, deadline_ns);
    (void)waitpid(template->pid, NULL, WNOHANG); /* one that does not end is left to init */
    stk_link_close(&template->link, pool->options.loop);
    stk_loop_remove(pool->options.loop, &template->life);
    (void)close(template->pidfd); /* nothing is lost by closing a pidfd */
}

void stk_pool_destroy(struct stk_pool *pool)
{
    if (!pool) return;
    uint64_t deadline_ns = stk_clock_now_ns() + STK_SECOND_NS;
    for (uint32_t i = 0; pool->workers && i < pool->worker_high; i++)
        if (pool->workers[i].state != STK_WORKER_FREE) stk_process_kill(pool->workers[i].pidfd);
    for (uint32_t i = 0; pool->crews && i < pool->crew_high; i++)
        if (pool->crews[i].template.pid) stk_process_kill(pool->crews[i].template.pidfd);
    /* Templates first: what they forked is ours to reap once they have ended. */
    for (uint32_t i = 0; pool->crews && i < pool->crew_high; i++)
        if (pool->crews[i].template.pid) destroy_template(pool, &pool->crews[i].template, deadline_ns);
    for (uint32_t i = 0; pool->workers && i < pool->worker_high; i++) {
        struct stk_worker *worker = &pool->workers[i];
        if (worker->state == STK_WORKER_FREE) continue;
        wait_ended(worker->pidfd, deadline_ns);
        if (worker->pid > 0) (void)waitpid(worker->pid, NULL, WNOHANG);
        stk_worker_free(worker);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) continue; /* helpers of the user's workers */
    for (uint32_t i = 0; pool->crews && i < pool->crew_high; i++) free(pool->crews[i].members);
    free(pool->workers);
    free(pool->crews);
    free(pool);
}

void stk_pool_tick_before(struct stk_pool *pool, uint64_t time_ns)
{
    if (time_ns < pool->next_tick_ns) pool->next_tick_ns = time_ns;
}

uint64_t stk_pool_next_tick_ns(const struct stk_pool *pool) { return pool->next_tick_ns; }

bool stk_pidfd_ended(int pidfd)
{
    struct pollfd poll_fd = {pidfd, POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1;
}

int stk_child_reap(pid_t pid, int pidfd, char *out, size_t size)
{
    int status = 0;
    bool known = waitpid(pid, &status, WNOHANG) == pid || stk_process_ending(pid, pidfd, &status);
    if (!known)
        (void)snprintf(out, size, "ended"); /* somebody else reaped it: the reason is lost, the fact is not */
    else if (WIFSIGNALED(status))
        (void)snprintf(out, size, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        (void)snprintf(out, size, "exited with status %d", WEXITSTATUS(status));
    return known && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* ---- entries */

static void worker_message_ready(struct stk_watch *watch, uint32_t events);
static void worker_life_ready(struct stk_watch *watch, uint32_t events);

struct stk_worker *stk_worker_create(struct stk_pool *pool, struct stk_crew *crew, uint32_t member, int socket_fd,
                                     stoker_error *err)
{
    uint32_t index = 0;
    while (index < pool->worker_high && pool->workers[index].state != STK_WORKER_FREE) index++;
    if (index == STK_WORKERS_MAX) {
        (void)close(socket_fd);
        (void)stk_fail(err, STOKER_ERR_LIMIT, "%u worker processes are the most that one host runs", STK_WORKERS_MAX);
        return NULL;
    }
    struct stk_worker *worker = &pool->workers[index];
    /* The watches survive the entry: events that were fetched before it was freed may still point at them. */
    struct stk_watch life = {worker_life_ready, worker, -1, 0}, link = {worker_message_ready, worker, -1, 0};
    *worker = (struct stk_worker){
        .index = index, .crew = crew->number, .member = member, .pidfd = -1, .pool = pool, .life = life};
    worker->link.watch = link;
    worker->next_idle = STK_WORKER_NONE;
    if (stk_link_open(&worker->link, pool->options.loop, socket_fd, pool->options.incarnation, err) != STOKER_OK)
        return NULL;
    if (index == pool->worker_high) pool->worker_high++;
    worker->state = STK_WORKER_FORKING;
    worker->process = ++*pool->options.process_count;
    crew->members[member] = index;
    crew->live++;
    pool->worker_live++;
    return worker;
}

stoker_status stk_worker_started(struct stk_worker *worker, pid_t pid, int pidfd, stoker_error *err)
{
    worker->pid = pid;
    worker->pidfd = pidfd;
    worker->pool->stats.started++;
    return stk_loop_add(worker->pool->options.loop, &worker->life, pidfd, err);
}

void stk_worker_free(struct stk_worker *worker)
{
    struct stk_pool *pool = worker->pool;
    struct stk_crew *crew = &pool->crews[worker->crew];
    stk_link_close(&worker->link, pool->options.loop);
    stk_loop_remove(pool->options.loop, &worker->life);
    if (worker->pidfd >= 0) (void)close(worker->pidfd);
    worker->pidfd = -1;
    worker->state = STK_WORKER_FREE;
    crew->members[worker->member] = STK_WORKER_NONE;
    crew->missing = true;
    crew->live--;
    pool->worker_live--;
}

void stk_worker_make_idle(struct stk_worker *worker)
{
    struct stk_crew *crew = &worker->pool->crews[worker->crew];
    worker->state = STK_WORKER_IDLE;
    worker->next_idle = crew->idle_head;
    crew->idle_head = worker->index;
    crew->idle_count++;
}

static void leave_idle_list(struct stk_worker *worker)
{
    struct stk_pool *pool = worker->pool;
    struct stk_crew *crew = &pool->crews[worker->crew];
    uint32_t *place = &crew->idle_head;
    while (*place != worker->index) place = &pool->workers[*place].next_idle;
    *place = worker->next_idle;
    worker->next_idle = STK_WORKER_NONE;
    crew->idle_count--;
}

void stk_worker_end(struct stk_worker *worker, uint64_t now_ns)
{
    if (worker->state == STK_WORKER_IDLE) leave_idle_list(worker);
    if (worker->state == STK_WORKER_ENDING) return;
    bool known = worker->state != STK_WORKER_FORKING; /* else the template's answer, or its end, settles it */
    worker->state = STK_WORKER_ENDING;
    stk_link_close(&worker->link, worker->pool->options.loop);
    worker->kill_at_ns = now_ns + STK_GRACE_NS;
    worker->expected = true;
    (void)snprintf(worker->ending, sizeof worker->ending, "told to end");
    if (known) stk_pool_tick_before(worker->pool, worker->kill_at_ns);
}

static void kill_now(struct stk_worker *worker)
{
    if (worker->state == STK_WORKER_IDLE) leave_idle_list(worker);
    worker->state = STK_WORKER_ENDING;
    if (worker->killed_at_ns) return;
    uint64_t now_ns = stk_clock_now_ns();
    if (worker->pidfd < 0) { /* its process is not known yet */
        worker->kill_at_ns = now_ns;
        return;
    }
    stk_process_kill(worker->pidfd);
    worker->killed_at_ns = now_ns;
    stk_pool_tick_before(worker->pool, now_ns + STK_STUCK_NS);
}

void stk_pool_kill(struct stk_worker *worker, const char *format, ...)
{
    if (!worker->killed_at_ns) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(worker->ending, sizeof worker->ending, format, arguments);
        va_end(arguments);
        worker->expected = true;
    }
    kill_now(worker);
}

/* ---- events */

static void drain(struct stk_worker *worker)
{
    struct stk_pool *pool = worker->pool;
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    while (worker->link.channel && status == STOKER_OK) {
        struct stk_incoming in;
        status = stk_channel_receive(worker->link.channel, &in, &err);
        if (status == STOKER_OK) status = pool->options.ops->message(pool->options.user, worker, &in, &err);
    }
    if (status == STOKER_OK || status == STOKER_AGAIN) return;
    worker->unread = stk_channel_unread(worker->link.channel);
    /* Nothing more is read of it. What it holds is settled when the process has ended. */
    stk_link_close(&worker->link, pool->options.loop);
    if (worker->killed_at_ns || stk_pidfd_ended(worker->pidfd)) return;
    if (status == STOKER_END || status == STOKER_ERR_UNAVAILABLE) {
        kill_now(worker); /* usually on its way out; a worker without a socket is of no use */
        return;
    }
    stk_log(pool->options.log, STOKER_LOG_WARN, "worker_refused", "worker %ld is killed: %s", (long)worker->pid,
            err.message);
    stk_pool_kill(worker, "killed for a message that makes no sense: %s", err.message);
}

static void worker_message_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    struct stk_worker *worker = watch->owner;
    if (worker->state == STK_WORKER_FREE) return;
    if (worker->pidfd < 0) { /* no task was given to it: the template tells what became of it */
        stk_link_close(&worker->link, worker->pool->options.loop);
        worker->state = STK_WORKER_ENDING;
        return;
    }
    stk_link_flush(&worker->link, worker->pool->options.loop);
    drain(worker);
}

static void worker_life_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    struct stk_worker *worker = watch->owner;
    struct stk_pool *pool = worker->pool;
    if (worker->state == STK_WORKER_FREE || !stk_pidfd_ended(worker->pidfd)) return;
    drain(worker); /* a result that was sent before the end counts */
    char ending[96];
    worker->end_signal = stk_child_reap(worker->pid, worker->pidfd, ending, sizeof ending);
    if (!worker->ending[0]) (void)snprintf(worker->ending, sizeof worker->ending, "%s", ending);
    bool crashed = !worker->expected;
    bool at_work = (worker->item_id != 0 && !stk_worker_never_began(worker)) || worker->finished_any;
    if (worker->state == STK_WORKER_IDLE) leave_idle_list(worker);
    worker->state = STK_WORKER_ENDING;
    if (crashed) pool->stats.crashed++;

    struct stk_crew *crew = &pool->crews[worker->crew];
    char why[sizeof worker->ending];
    memcpy(why, worker->ending, sizeof why);
    pool->options.ops->gone(pool->options.user, worker);
    stk_worker_free(worker);
    uint64_t now_ns = stk_clock_now_ns();
    if (crew->state == STK_CREW_CLOSING) {
        stk_crew_check_closed(crew);
        return;
    }
    if (worker->member < crew->size) pool->stats.replaced++;
    if (crashed && !at_work) stk_crew_count_death(crew, now_ns, why);
    stk_crew_fill(crew, now_ns);
}

bool stk_worker_never_began(const struct stk_worker *worker)
{
    return worker->item_id != 0 && worker->unread && !worker->told_more;
}

/* ---- work */

struct stk_worker *stk_pool_idle(struct stk_pool *pool, uint32_t crew)
{
    uint32_t head = pool->crews[crew].idle_head;
    return head == STK_WORKER_NONE ? NULL : &pool->workers[head];
}

void stk_pool_engage(struct stk_worker *worker, uint64_t now_ns, uint64_t item_id, uint32_t batch,
                     uint64_t stall_limit_ns)
{
    STK_ASSERT(worker->state == STK_WORKER_IDLE);
    leave_idle_list(worker);
    worker->state = STK_WORKER_BUSY;
    worker->item_id = item_id;
    worker->batch = batch;
    worker->stall_limit_ns = stall_limit_ns;
    worker->busy_since_ns = now_ns;
    worker->stopped_since_ns = 0;
    worker->slab_count = 0;
    worker->copies = false;
    worker->cpu_limit_ns = 0;
    stk_pool_tick_before(worker->pool, now_ns + stk_worker_look_ns(worker));
}

void stk_pool_limit_cpu(struct stk_worker *worker, uint64_t now_ns, uint64_t limit_ns)
{
    worker->cpu_limit_ns = limit_ns;
    worker->cpu_began_ns = stk_process_cpu_ns(worker->pid);
    stk_pool_tick_before(worker->pool, now_ns + stk_worker_look_ns(worker));
}

static bool has_rights(const struct stk_worker *worker)
{
    const struct stk_native_rights *wanted = &worker->pool->rights;
    return worker->crew != STK_CREW_NATIVE ||
           (worker->rights.isolation == wanted->isolation && worker->rights.max_bytes == wanted->max_bytes &&
            worker->rights.network == wanted->network);
}

void stk_pool_native_set_rights(struct stk_pool *pool, const struct stk_native_rights *rights)
{
    pool->rights = *rights;
    uint64_t now_ns = stk_clock_now_ns();
    for (uint32_t i = 0; i < pool->worker_high; i++)
        if (pool->workers[i].state == STK_WORKER_IDLE && !has_rights(&pool->workers[i]))
            stk_worker_end(&pool->workers[i], now_ns);
}

void stk_pool_rest(struct stk_worker *worker)
{
    struct stk_crew *crew = &worker->pool->crews[worker->crew];
    worker->item_id = 0;
    worker->slab_count = 0;
    worker->finished_any = true;
    crew->deaths = 0;
    crew->reloaded = false;
    if (worker->state != STK_WORKER_BUSY) return; /* it was killed meanwhile */
    if (worker->member >= crew->size || crew->state == STK_CREW_CLOSING || !has_rights(worker))
        stk_worker_end(worker, stk_clock_now_ns());
    else
        stk_worker_make_idle(worker);
}

/* ---- look-ups */

struct stk_worker *stk_pool_find_process(struct stk_pool *pool, uint32_t process)
{
    for (uint32_t i = 0; i < pool->worker_high; i++)
        if (pool->workers[i].state != STK_WORKER_FREE && pool->workers[i].process == process) return &pool->workers[i];
    return NULL;
}

struct stk_worker *stk_pool_walk(struct stk_pool *pool, uint32_t *cursor)
{
    while (*cursor < pool->worker_high) {
        struct stk_worker *worker = &pool->workers[(*cursor)++];
        if (worker->state != STK_WORKER_FREE) return worker;
    }
    return NULL;
}

void stk_pool_read_crew(const struct stk_pool *pool, uint32_t number, struct stk_crew_info *out)
{
    const struct stk_crew *crew = &pool->crews[number];
    *out = (struct stk_crew_info){crew->size, crew->live, crew->idle_count, crew->state == STK_CREW_BROKEN,
                                  crew->template.pid};
}

void stk_pool_read_stats(const struct stk_pool *pool, struct stk_pool_stats *out) { *out = pool->stats; }
