/* SPDX-License-Identifier: Apache-2.0
 *
 * See pool.h. This file: the template process of a Python lane (rule B4). It is started with the rank's environment,
 * loads the dataset once, says so, and forks a worker for each FORK message, which carries the worker's socket. It
 * reaps its children; the DataServer watches them by pidfd.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "plane/pool_internal.h"
#include "sys/clock.h"
#include "sys/process.h"

enum { ARGUMENTS_MAX = 1024 };

static void break_text(struct stk_crew *crew, stoker_status status, const char *text)
{
    stk_crew_break(crew, &(struct stk_message_verdict){.status = status, .text = {text, strlen(text)}});
}

/* ---- messages */

static stoker_status take_report(struct stk_crew *crew, const struct stk_message_template_report *report,
                                 stoker_error *err)
{
    struct stk_pool *pool = crew->pool;
    if (crew->state == STK_CREW_CLOSING || crew->state == STK_CREW_BROKEN) return STOKER_OK;
    if (crew->state != STK_CREW_LOADING) return stk_fail(err, STOKER_ERR_PROTOCOL, "the template reported twice");
    if (report->status < 0) {
        stk_crew_break(crew, &(struct stk_message_verdict){
                                 .status = report->status, .text = report->text, .detail = report->detail});
        return STOKER_OK;
    }
    crew->state = STK_CREW_OPEN;
    crew->template.loaded = true;
    pool->options.ops->opened(pool->options.user, crew->number);
    if (crew->state == STK_CREW_OPEN) stk_crew_fill(crew, stk_clock_now_ns());
    return STOKER_OK;
}

static stoker_status take_forked(struct stk_crew *crew, const struct stk_message_template_report *report,
                                 stoker_error *err)
{
    struct stk_pool *pool = crew->pool;
    struct stk_template *template = &crew->template;
    struct stk_worker *worker = NULL;
    if (report->worker_id < crew->member_cap && crew->members[report->worker_id] != STK_WORKER_NONE)
        worker = &pool->workers[crew->members[report->worker_id]];
    if (!worker || worker->pidfd >= 0 || template->forks == 0)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "the template forked worker %u, which nobody asked for",
                        report->worker_id);
    uint64_t now_ns = stk_clock_now_ns();
    template->fork_since_ns = --template->forks ? now_ns : 0;

    char why[STOKER_ERROR_MESSAGE_BYTES];
    stoker_error started_err = {0};
    int pidfd = -1;
    if (report->status < 0) {
        (void)snprintf(why, sizeof why, "the template could not fork: %.*s", (int)report->text.size,
                       (const char *)report->text.data);
    } else {
        pidfd = stk_process_open((pid_t)report->pid);
        /* A number that was given to another process since would have another parent: what we may kill is ours for
         * certain. */
        if (pidfd >= 0 && stk_process_parent((pid_t)report->pid) != template->pid) {
            (void)close(pidfd);
            pidfd = -1;
        }
        (void)snprintf(why, sizeof why, "it ended right after the fork");
    }
    bool wanted = worker->state == STK_WORKER_FORKING && crew->state != STK_CREW_CLOSING;
    if (pidfd >= 0 && stk_worker_started(worker, (pid_t)report->pid, pidfd, &started_err) != STOKER_OK) {
        stk_process_kill(pidfd);
        pidfd = -1; /* closed with the entry */
        memcpy(why, started_err.message, sizeof why);
    }
    if (pidfd < 0) {
        stk_worker_free(worker);
        if (crew->state == STK_CREW_CLOSING) {
            stk_crew_check_closed(crew);
        } else {
            stk_crew_count_death(crew, now_ns, why);
            stk_crew_fill(crew, now_ns);
        }
    } else if (wanted) {
        stk_worker_make_idle(worker);
    } else if (worker->kill_at_ns == 0) { /* it has closed its socket already: one more that did not live to work */
        stk_process_kill(pidfd);
        worker->killed_at_ns = now_ns;
        stk_pool_tick_before(pool, now_ns + STK_STUCK_NS);
    } else if (worker->kill_at_ns <= now_ns) {
        stk_pool_kill(worker, "killed before its first task");
    } else {
        stk_pool_tick_before(pool, worker->kill_at_ns);
    }
    return STOKER_OK;
}

static void drain(struct stk_crew *crew)
{
    struct stk_template *template = &crew->template;
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    while (template->link.channel && status == STOKER_OK) {
        struct stk_incoming in;
        struct stk_message_template_report report;
        status = stk_channel_receive(template->link.channel, &in, &err);
        if (status != STOKER_OK) break;
        status = stk_template_report_decode(in.body, &report, &err);
        if (status != STOKER_OK) break;
        if (in.frame.type == STK_MESSAGE_TEMPLATE_REPORT)
            status = take_report(crew, &report, &err);
        else if (in.frame.type == STK_MESSAGE_FORKED)
            status = take_forked(crew, &report, &err);
        else
            status = stk_fail(&err, STOKER_ERR_PROTOCOL, "a template sent a message of type %u", in.frame.type);
    }
    if (status == STOKER_OK || status == STOKER_AGAIN) return;
    stk_link_close(&template->link, crew->pool->options.loop);
    if (status == STOKER_END || status == STOKER_ERR_UNAVAILABLE) {
        /* It is ending; if it has only closed its socket, it is of no use any more. */
        if (!template->kill_at_ns) template->kill_at_ns = stk_clock_now_ns() + STK_GRACE_NS;
        stk_pool_tick_before(crew->pool, template->kill_at_ns);
        return;
    }
    stk_log(crew->pool->options.log, STOKER_LOG_WARN, "template_refused", "template %ld is killed: %s",
            (long)template->pid, err.message);
    stk_template_kill(crew, "killed for a message that makes no sense", stk_clock_now_ns());
}

static void template_message_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    struct stk_crew *crew = watch->owner;
    stk_link_flush(&crew->template.link, crew->pool->options.loop);
    if (crew->template.pid) drain(crew);
}

static void template_life_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    struct stk_crew *crew = watch->owner;
    struct stk_pool *pool = crew->pool;
    struct stk_template *template = &crew->template;
    if (!template->pid || !stk_pidfd_ended(template->pidfd)) return;
    drain(crew); /* a report that was sent before the end counts */
    char ending[96], text[256];
    stk_child_reap(template->pid, template->pidfd, ending, sizeof ending);
    bool loading = crew->state == STK_CREW_LOADING;
    (void)snprintf(text, sizeof text, "the dataset's template process (pid %ld) ended%s: %s", (long)template->pid,
                   loading ? " before the dataset was loaded" : "", template->ending ? template->ending : ending);
    stk_link_close(&template->link, pool->options.loop);
    stk_loop_remove(pool->options.loop, &template->life);
    (void)close(template->pidfd);
    template->pidfd = -1;
    template->pid = 0;
    template->forks = 0;
    template->fork_since_ns = template->kill_at_ns = template->killed_at_ns = template->stopped_since_ns = 0;
    bool ours = template->ending != NULL;
    template->ending = NULL;
    bool retry = template->retry && crew->state == STK_CREW_BROKEN;
    /* Killed from outside after it had loaded its dataset: once more, then it is given up until a task is finished. */
    bool again = crew->state == STK_CREW_OPEN && template->loaded && !ours && !crew->reloaded;
    template->retry = template->loaded = false;

    /* Its children have had their death signal; one that came to be at this very moment is killed here. */
    for (uint32_t member = 0; member < crew->member_cap; member++) {
        if (crew->members[member] == STK_WORKER_NONE) continue;
        struct stk_worker *worker = &pool->workers[crew->members[member]];
        if (worker->pidfd < 0)
            stk_worker_free(worker);
        else
            stk_pool_kill(worker, "killed because its template ended");
    }
    if (again) {
        crew->reloaded = true;
        stk_log(pool->options.log, STOKER_LOG_WARN, "template_restarted", "%s; another one loads the dataset", text);
    }
    if (retry || again)
        stk_crew_reload(crew);
    else
        break_text(crew, STOKER_ERR_LOST, text);
    stk_crew_check_closed(crew);
}

/* ---- life */

static stoker_status spawn(struct stk_crew *crew, int control_fd, pid_t *out_pid, int *out_pidfd, stoker_error *err)
{
    struct stk_process_source process;
    STK_TRY(stk_source_process(crew->source, &process, err));
    const char *argv[ARGUMENTS_MAX + 3];
    size_t count = 0;
    while (count < ARGUMENTS_MAX && process.argv[count]) {
        argv[count] = process.argv[count];
        count++;
    }
    if (count == 0 || count == ARGUMENTS_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a template is started with 1 to %d arguments, not %zu",
                        ARGUMENTS_MAX - 1, count);
    argv[count++] = "3";
    argv[count++] = "4";
    argv[count] = NULL;
    const int keep[] = {control_fd, process.payload_fd};
    struct stk_pool *pool = crew->pool;
    struct stk_spawn options = {.argv = argv,
                                .envp = process.envp,
                                .cwd = process.cwd,
                                .keep_fds = keep,
                                .keep_count = 2,
                                .cpu_mask = pool->cpu_mask_size ? pool->cpu_mask : NULL,
                                .cpu_mask_size = pool->cpu_mask_size};
    return stk_process_spawn(&options, out_pid, out_pidfd, err);
}

stoker_status stk_template_start(struct stk_crew *crew, stoker_error *err)
{
    struct stk_pool *pool = crew->pool;
    struct stk_template *template = &crew->template;
    int fds[2], pidfd;
    pid_t pid;
    STK_TRY(stk_unix_pair(fds, err));
    stoker_status status = spawn(crew, fds[1], &pid, &pidfd, err);
    (void)close(fds[1]);
    if (status != STOKER_OK) {
        (void)close(fds[0]);
        return status;
    }
    *template = (struct stk_template){.pid = pid, .pidfd = pidfd};
    template->life = (struct stk_watch){template_life_ready, crew, -1, 0};
    template->link.watch = (struct stk_watch){template_message_ready, crew, -1, 0};
    status = stk_link_open(&template->link, pool->options.loop, fds[0], pool->options.incarnation, err);
    if (status == STOKER_OK) status = stk_loop_add(pool->options.loop, &template->life, pidfd, err);
    if (status == STOKER_OK) {
        stk_pool_tick_before(pool, stk_clock_now_ns() + STK_SECOND_NS); /* it may be stopped while it loads */
        return STOKER_OK;
    }
    stk_process_kill(pidfd);
    stk_link_close(&template->link, pool->options.loop);
    char ending[64];
    stk_child_reap(pid, pidfd, ending, sizeof ending);
    (void)close(pidfd);
    template->pid = 0;
    template->pidfd = -1;
    return status;
}

stoker_status stk_template_fork(struct stk_crew *crew, uint32_t member, stoker_error *err)
{
    struct stk_pool *pool = crew->pool;
    struct stk_template *template = &crew->template;
    int fds[2];
    STK_TRY(stk_unix_pair(fds, err));
    struct stk_worker *worker = stk_worker_create(pool, crew, member, fds[0], err);
    if (!worker) {
        (void)close(fds[1]);
        return STOKER_ERR_LIMIT;
    }
    struct stk_message_template_report fork_message = {.worker_id = member};
    STK_LINK_SEND(&template->link, pool->options.loop, STK_MESSAGE_FORK, template_report, &fork_message, &fds[1], 1);
    (void)close(fds[1]);
    if (!template->link.channel || template->link.broken) {
        stk_worker_free(worker);
        return stk_fail(err, STOKER_ERR_UNAVAILABLE, "the template (pid %ld) does not read its socket",
                        (long)template->pid);
    }
    uint64_t now_ns = stk_clock_now_ns();
    if (template->forks++ == 0) template->fork_since_ns = now_ns;
    stk_pool_tick_before(pool, now_ns + STK_SECOND_NS);
    return STOKER_OK;
}

void stk_template_end(struct stk_crew *crew, bool at_once, uint64_t now_ns)
{
    struct stk_template *template = &crew->template;
    if (at_once) {
        stk_template_kill(crew, "killed because its rank is gone", now_ns);
        return;
    }
    stk_link_close(&template->link, crew->pool->options.loop);
    if (!template->kill_at_ns) template->kill_at_ns = now_ns + STK_GRACE_NS;
    stk_pool_tick_before(crew->pool, template->kill_at_ns);
}

void stk_template_kill(struct stk_crew *crew, const char *why, uint64_t now_ns)
{
    struct stk_template *template = &crew->template;
    if (!template->pid || template->killed_at_ns) return;
    template->ending = why;
    template->killed_at_ns = now_ns;
    stk_process_kill(template->pidfd);
}
