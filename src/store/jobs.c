/* SPDX-License-Identifier: Apache-2.0
 *
 * Many reads at once: see jobs.h.
 */
#include "store/jobs.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/range_internal.h"
#include "sys/thread.h"

enum { LOCK_RANK = 40 };

struct jobs {
    /* fixed */
    size_t count;
    stk_job_fn run;
    void *user;
    struct stk_mutex *lock;
    /* guarded by lock */
    size_t next;
    size_t failed_job; /* the lowest; SIZE_MAX: none */
    stoker_error fault;
};

static void work(void *argument)
{
    struct jobs *jobs = argument;
    for (;;) {
        stk_mutex_lock(jobs->lock);
        bool more = jobs->next < jobs->count && jobs->failed_job == SIZE_MAX;
        size_t job = jobs->next;
        jobs->next += more;
        stk_mutex_unlock(jobs->lock);
        if (!more) return;

        stoker_error fault = {0};
        stoker_status status = jobs->run(jobs->user, job, &fault);
        if (status >= 0) continue;
        fault.status = status;
        stk_mutex_lock(jobs->lock);
        if (job < jobs->failed_job) {
            jobs->failed_job = job;
            jobs->fault = fault;
        }
        stk_mutex_unlock(jobs->lock);
    }
}

stoker_status stk_jobs_run(size_t count, unsigned ways, stk_job_fn run, void *user, stoker_error *err)
{
    if (count == 0) return STOKER_OK;
    if (count == 1) return run(user, 0, err);
    struct jobs jobs = {.count = count, .run = run, .user = user, .failed_job = SIZE_MAX};
    struct stk_thread *threads[STK_RANGE_WAYS_MAX];
    unsigned started = 0;
    STK_TRY(stk_mutex_create(LOCK_RANK, &jobs.lock, err));
    if (ways > STK_RANGE_WAYS_MAX) ways = STK_RANGE_WAYS_MAX;
    while (started + 1 < ways && started + 1 < count &&
           stk_thread_start("stoker-range", work, &jobs, &threads[started], NULL) == STOKER_OK)
        started++;
    work(&jobs);
    for (unsigned i = 0; i < started; i++) stk_thread_join(threads[i]);
    stk_mutex_destroy(jobs.lock);
    if (jobs.failed_job == SIZE_MAX) return STOKER_OK;
    if (err) *err = jobs.fault;
    return jobs.fault.status;
}

struct part {
    struct stk_piece *piece;
    size_t first, size; /* in the piece */
    size_t got;
};

struct parts {
    struct stk_range *range;
    struct part *parts;
};

static stoker_status read_part(void *user, size_t job, stoker_error *err)
{
    struct parts *parts = user;
    struct part *part = &parts->parts[job];
    return stk_range_read_some(parts->range, part->piece->offset + part->first, part->size,
                               part->piece->out + part->first, &part->got, err);
}

/* Parts of one piece stand in a row: the first that is short must be the last that has bytes. */
static stoker_status join_parts(const char *name, struct part *parts, size_t count, stoker_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct stk_piece *piece = parts[i].piece;
        if (parts[i].got > 0 && piece->got < parts[i].first)
            return stk_fail(err, STOKER_ERR_PROTOCOL, "'%s' ended at byte %llu for one request and not for another",
                            name, (unsigned long long)(piece->offset + piece->got));
        piece->got += parts[i].got;
    }
    return STOKER_OK;
}

stoker_status stk_range_read_pieces(struct stk_range *range, struct stk_piece *pieces, size_t count, stoker_error *err)
{
    unsigned ways = range->backend->ways;
    size_t part_bytes = ways > 1 ? STK_RANGE_PART_BYTES : SIZE_MAX;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += pieces[i].size / part_bytes + (pieces[i].size % part_bytes != 0);
        pieces[i].got = 0;
    }
    if (total == 0) return STOKER_OK;
    struct part one, *parts = total == 1 ? &one : calloc(total, sizeof *parts);
    if (!parts) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu reads of '%s'", total, range->name);
    size_t filled = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < pieces[i].size; at += parts[filled++].size) {
            size_t left = pieces[i].size - at;
            parts[filled] = (struct part){&pieces[i], at, left < part_bytes ? left : part_bytes, 0};
        }
    struct parts job = {range, parts};
    stoker_status status = stk_jobs_run(total, ways, read_part, &job, err);
    if (status == STOKER_OK) status = join_parts(range->name, parts, total, err);
    if (parts != &one) free(parts);
    return status;
}
