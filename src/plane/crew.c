/* SPDX-License-Identifier: Apache-2.0
 *
 * See pool.h. This file: crews as a whole: their size, filling, giving up and closing, and the start of native workers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "plane/pool_internal.h"
#include "sys/clock.h"
#include "sys/process.h"

stoker_status stk_crew_reserve(struct stk_crew *crew, uint32_t size, stoker_error *err)
{
    if (size <= crew->member_cap) return STOKER_OK;
    uint32_t *grown = realloc(crew->members, size * sizeof *grown);
    if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %u workers", size);
    for (uint32_t i = crew->member_cap; i < size; i++) grown[i] = STK_WORKER_NONE;
    crew->members = grown;
    crew->member_cap = size;
    return STOKER_OK;
}

static stoker_status start_native(struct stk_crew *crew, uint32_t member, stoker_error *err)
{
    struct stk_pool *pool = crew->pool;
    int fds[2];
    STK_TRY(stk_unix_pair(fds, err));
    struct stk_worker *worker = stk_worker_create(pool, crew, member, fds[0], err);
    if (!worker) {
        (void)close(fds[1]);
        return STOKER_ERR_LIMIT;
    }
    static const char *const isolations[] = {"auto", "on", "off"};
    char max_bytes[24];
    (void)snprintf(max_bytes, sizeof max_bytes, "%llu", (unsigned long long)pool->rights.max_bytes);
    worker->rights = pool->rights;
    const char *argv[] = {pool->options.program,
                          "worker",
                          "--fd",
                          "3",
                          "--isolation",
                          isolations[pool->rights.isolation],
                          "--max-bytes",
                          max_bytes,
                          pool->rights.network ? "--network" : NULL,
                          NULL};
    struct stk_spawn spawn = {.argv = argv,
                              .keep_fds = &fds[1],
                              .keep_count = 1,
                              .cpu_mask = pool->cpu_mask_size ? pool->cpu_mask : NULL,
                              .cpu_mask_size = pool->cpu_mask_size};
    pid_t pid;
    int pidfd;
    stoker_status status = stk_process_spawn(&spawn, &pid, &pidfd, err);
    (void)close(fds[1]);
    if (status == STOKER_OK) {
        status = stk_worker_started(worker, pid, pidfd, err);
        if (status != STOKER_OK) stk_process_kill(pidfd);
    }
    if (status == STOKER_OK)
        stk_worker_make_idle(worker);
    else
        stk_worker_free(worker);
    return status;
}

void stk_crew_fill(struct stk_crew *crew, uint64_t now_ns)
{
    if (crew->state != STK_CREW_OPEN || !crew->missing) return;
    if (now_ns < crew->respawn_at_ns) {
        stk_pool_tick_before(crew->pool, crew->respawn_at_ns);
        return;
    }
    crew->missing = false;
    for (uint32_t member = 0; member < crew->size && crew->state == STK_CREW_OPEN; member++) {
        if (crew->members[member] != STK_WORKER_NONE) continue;
        stoker_error err = {0};
        stoker_status status =
            crew->number == STK_CREW_NATIVE ? start_native(crew, member, &err) : stk_template_fork(crew, member, &err);
        if (status == STOKER_OK) continue;
        crew->missing = true;
        char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
        stk_error_text(&err, text, sizeof text);
        stk_log(crew->pool->options.log, STOKER_LOG_WARN, "worker_not_started", "a worker could not be started: %s",
                text);
        stk_crew_count_death(crew, now_ns, text);
        if (crew->state == STK_CREW_OPEN) stk_pool_tick_before(crew->pool, crew->respawn_at_ns);
        return;
    }
}

void stk_crew_count_death(struct stk_crew *crew, uint64_t now_ns, const char *why)
{
    if (crew->state != STK_CREW_OPEN) return;
    if (crew->deaths == 0 || now_ns - crew->first_death_ns > STK_DEATHS_WINDOW_NS) {
        crew->deaths = 0;
        crew->first_death_ns = now_ns;
    }
    crew->deaths++;
    /* The first two are replaced at once, so that an accident costs nothing; then 100, 200, 400 ms. */
    if (crew->deaths > 2) crew->respawn_at_ns = now_ns + ((STK_SECOND_NS / 10) << (crew->deaths - 3));
    if (crew->deaths < STK_DEATHS_MAX) return;
    char text[512];
    int used = snprintf(text, sizeof text,
                        "%u workers in a row ended within %u s before they finished any task; the last one: %s",
                        crew->deaths, (unsigned)(STK_DEATHS_WINDOW_NS / STK_SECOND_NS), why);
    size_t size = used < (int)sizeof text ? (size_t)used : sizeof text - 1;
    stk_crew_break(crew, &(struct stk_message_verdict){.status = STOKER_ERR_LOST, .text = {text, size}});
}

void stk_pool_native_refused(struct stk_pool *pool, const struct stk_message_verdict *verdict)
{
    stk_crew_break(&pool->crews[STK_CREW_NATIVE], verdict);
}

void stk_crew_break(struct stk_crew *crew, const struct stk_message_verdict *verdict)
{
    if (crew->state != STK_CREW_OPEN && crew->state != STK_CREW_LOADING) return;
    crew->state = STK_CREW_BROKEN;
    struct stk_pool *pool = crew->pool;
    pool->options.ops->broken(pool->options.user, crew->number, verdict);
}

/* ---- size and closing */

stoker_status stk_pool_native_resize(struct stk_pool *pool, uint32_t size, stoker_error *err)
{
    struct stk_crew *crew = &pool->crews[STK_CREW_NATIVE];
    uint64_t now_ns = stk_clock_now_ns();
    if (size > STK_WORKERS_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "%u native workers, at most %u run on one host; lower num_workers", size,
                        STK_WORKERS_MAX);
    STK_TRY(stk_crew_reserve(crew, size, err));
    for (uint32_t member = size; member < crew->size; member++) {
        if (crew->members[member] == STK_WORKER_NONE) continue;
        struct stk_worker *worker = &pool->workers[crew->members[member]];
        if (worker->state == STK_WORKER_IDLE) stk_worker_end(worker, now_ns); /* busy ones end when they rest */
    }
    crew->size = size;
    crew->missing = true;
    stk_crew_fill(crew, now_ns);
    return STOKER_OK;
}

stoker_status stk_pool_crew_open(struct stk_pool *pool, uint32_t number, uint32_t size, const stoker_source *source,
                                 stoker_error *err)
{
    struct stk_crew *crew = &pool->crews[number];
    uint32_t planned = 0;
    for (uint32_t i = 0; i < pool->crew_high; i++)
        if (pool->crews[i].state != STK_CREW_CLOSED) planned += pool->crews[i].size;
    if (size > STK_WORKERS_MAX - planned)
        return stk_fail(err, STOKER_ERR_LIMIT,
                        "%u more workers beside %u, at most %u run on one host; lower num_workers", size, planned,
                        STK_WORKERS_MAX);
    STK_TRY(stk_crew_reserve(crew, size, err));
    crew->size = size;
    crew->source = source;
    crew->deaths = 0;
    crew->respawn_at_ns = 0;
    crew->missing = true;
    crew->at_once = false;
    crew->reloaded = false;
    STK_TRY(stk_template_start(crew, err));
    crew->state = STK_CREW_LOADING;
    if (number >= pool->crew_high) pool->crew_high = number + 1;
    return STOKER_OK;
}

void stk_crew_check_closed(struct stk_crew *crew)
{
    if (crew->state != STK_CREW_CLOSING || crew->live > 0) return;
    /* The template outlives its workers: its end would be their death signal. */
    if (crew->template.pid) {
        stk_template_end(crew, crew->at_once, stk_clock_now_ns());
        return;
    }
    crew->state = STK_CREW_CLOSED;
    struct stk_pool *pool = crew->pool;
    pool->options.ops->closed(pool->options.user, crew->number);
}

void stk_pool_crew_close(struct stk_pool *pool, uint32_t number, bool at_once)
{
    struct stk_crew *crew = &pool->crews[number];
    if (crew->state == STK_CREW_CLOSED || (crew->state == STK_CREW_CLOSING && (crew->at_once || !at_once))) return;
    uint64_t now_ns = stk_clock_now_ns();
    crew->state = STK_CREW_CLOSING;
    crew->at_once = at_once;
    for (uint32_t member = 0; member < crew->member_cap; member++) {
        if (crew->members[member] == STK_WORKER_NONE) continue;
        struct stk_worker *worker = &pool->workers[crew->members[member]];
        stk_worker_end(worker, now_ns);
        if (at_once) stk_pool_kill(worker, "killed because its rank is gone");
    }
    if (at_once && crew->template.pid) stk_template_kill(crew, "killed because its rank is gone", now_ns);
    stk_crew_check_closed(crew);
}

void stk_crew_reload(struct stk_crew *crew)
{
    stoker_error err = {0};
    crew->state = STK_CREW_LOADING;
    if (stk_template_start(crew, &err) == STOKER_OK) return;
    struct stk_span text = {err.message, strlen(err.message)};
    stk_crew_break(crew, &(struct stk_message_verdict){.status = err.status, .text = text});
}

void stk_pool_crew_retry(struct stk_pool *pool, uint32_t number)
{
    struct stk_crew *crew = &pool->crews[number];
    if (crew->state != STK_CREW_BROKEN) return;
    crew->deaths = 0;
    crew->respawn_at_ns = 0;
    struct stk_template *template = &crew->template;
    if (number == STK_CREW_NATIVE || (template->pid && template->loaded && !template->killed_at_ns)) {
        crew->state = STK_CREW_OPEN;
        crew->missing = true;
        stk_crew_fill(crew, stk_clock_now_ns());
    } else if (template->pid) { /* one that is of no use ends first, then another is started */
        template->retry = true;
        stk_template_kill(crew, "killed to be started again", stk_clock_now_ns());
    } else {
        stk_crew_reload(crew);
    }
}

bool stk_pool_crew_is_broken(const struct stk_pool *pool, uint32_t crew)
{
    return pool->crews[crew].state == STK_CREW_BROKEN;
}

void stk_pool_set_cpus(struct stk_pool *pool, const uint8_t *mask, size_t size)
{
    if (size > sizeof pool->cpu_mask) size = sizeof pool->cpu_mask;
    if (size == pool->cpu_mask_size && memcmp(mask, pool->cpu_mask, size) == 0) return;
    memcpy(pool->cpu_mask, mask, size);
    pool->cpu_mask_size = size;
    for (uint32_t i = 0; i < pool->worker_high; i++)
        if (pool->workers[i].state != STK_WORKER_FREE && pool->workers[i].pid > 0)
            stk_process_set_affinity(pool->workers[i].pid, mask, size);
    for (uint32_t i = 0; i < pool->crew_high; i++)
        if (pool->crews[i].template.pid) stk_process_set_affinity(pool->crews[i].template.pid, mask, size);
}

void stk_pool_sweep(struct stk_pool *pool)
{
    for (uint32_t i = 0; i < pool->worker_high; i++) {
        struct stk_worker *worker = &pool->workers[i];
        if (worker->state == STK_WORKER_FREE || !worker->link.broken) continue;
        worker->link.broken = false;
        if (worker->pidfd >= 0 && !worker->killed_at_ns && !stk_pidfd_ended(worker->pidfd))
            stk_pool_kill(worker, "killed because it does not read its socket");
    }
}
