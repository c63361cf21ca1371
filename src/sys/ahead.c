/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages ahead of their first use: see ahead.h. Areas are cut into as many steps, so that arrays which are filled side
 * by side are also made so.
 */
#include "sys/ahead.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "sys/thread.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22  /* Linux 5.14; EINVAL before */
#define MADV_POPULATE_WRITE 23 /* the same */
#endif

#define STEP_BYTES ((size_t)4 << 20)       /* of all areas together: a few milliseconds */
#define TOTAL_BYTES_MIN ((size_t)16 << 20) /* below, starting a thread costs as much */

struct stk_ahead {
    struct stk_thread *thread;
    struct stk_ahead_area areas[STK_AHEAD_AREAS_MAX];
    struct stk_ahead_file files[STK_AHEAD_AREAS_MAX]; /* or these */
    size_t count, steps;
    atomic_bool stopped; /* relaxed: nothing else is told by it */
};

/* False where the kernel cannot do it, or will not: no memory, no disk space. The first use then says so. */
static bool make_pages(const struct stk_ahead_area *area, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)area->data + from) / page * page;
    size_t end = (uintptr_t)area->data + to;
    return end <= first || madvise((void *)first, end - first, MADV_POPULATE_WRITE) == 0;
}

static bool make_file_pages(const struct stk_ahead_file *file, size_t from, size_t to)
{
    void *data = mmap(NULL, to - from, PROT_READ, MAP_SHARED, file->fd, (off_t)from);
    if (data == MAP_FAILED) return false;
    (void)madvise(data, to - from, MADV_HUGEPAGE);
    bool made = madvise(data, to - from, MADV_POPULATE_READ) == 0;
    STK_ASSERT(munmap(data, to - from) == 0);
    return made;
}

static void run_files(void *argument)
{
    struct stk_ahead *ahead = argument;
    for (size_t i = 0; i < ahead->count; i++) {
        const struct stk_ahead_file *file = &ahead->files[i];
        for (size_t from = file->from / STEP_BYTES * STEP_BYTES; from < file->end; from += STEP_BYTES) {
            size_t left = file->end - from;
            if (atomic_load_explicit(&ahead->stopped, memory_order_relaxed)) return;
            if (!make_file_pages(file, from, from + (left < STEP_BYTES ? left : STEP_BYTES))) return;
        }
    }
}

static void run(void *argument)
{
    struct stk_ahead *ahead = argument;
    for (size_t step = 0; step < ahead->steps; step++)
        for (size_t i = 0; i < ahead->count; i++) {
            const struct stk_ahead_area *area = &ahead->areas[i];
            size_t share = area->size / ahead->steps + 1, from = step * share, to = from + share;
            if (atomic_load_explicit(&ahead->stopped, memory_order_relaxed)) return;
            if (from >= area->size) continue;
            if (!make_pages(area, from, to < area->size ? to : area->size)) return;
        }
}

/* Starts the thread over a copy. */
static stoker_status start(const struct stk_ahead *wanted, void (*main)(void *), struct stk_ahead **out_ahead,
                           stoker_error *err)
{
    struct stk_ahead *ahead = malloc(sizeof *ahead);
    if (!ahead) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to make %zu areas ahead", wanted->count);
    *ahead = *wanted;
    stoker_error reason = {0};
    stoker_status status = stk_thread_start("stoker-ahead", main, ahead, &ahead->thread, &reason);
    if (status == STOKER_OK) {
        *out_ahead = ahead;
        return STOKER_OK;
    }
    free(ahead);
    if (status != STOKER_ERR_NO_MEMORY) return STOKER_OK; /* no more threads here: it is only a hint */
    return stk_fail(err, status, "%s", reason.message);
}

static bool is_worth_it(size_t half_bytes)
{
    return half_bytes >= TOTAL_BYTES_MIN / 2 && sysconf(_SC_NPROCESSORS_ONLN) >= 2;
}

stoker_status stk_ahead_start(const struct stk_ahead_area *areas, size_t count, struct stk_ahead **out_ahead,
                              stoker_error *err)
{
    struct stk_ahead wanted = {.count = count};
    size_t half = 0; /* all of them may be more than a size_t counts */
    STK_ASSERT(count <= STK_AHEAD_AREAS_MAX);
    *out_ahead = NULL;
    for (size_t i = 0; i < count; i++) half += areas[i].size / 2, wanted.areas[i] = areas[i];
    wanted.steps = half / (STEP_BYTES / 2) + 1;
    return is_worth_it(half) ? start(&wanted, run, out_ahead, err) : STOKER_OK;
}

stoker_status stk_ahead_start_files(const struct stk_ahead_file *files, size_t count, struct stk_ahead **out_ahead,
                                    stoker_error *err)
{
    struct stk_ahead wanted = {.count = count};
    size_t half = 0;
    STK_ASSERT(count <= STK_AHEAD_AREAS_MAX);
    *out_ahead = NULL;
    for (size_t i = 0; i < count; i++) half += (files[i].end - files[i].from) / 2, wanted.files[i] = files[i];
    return is_worth_it(half) ? start(&wanted, run_files, out_ahead, err) : STOKER_OK;
}

void stk_ahead_stop(struct stk_ahead *ahead)
{
    if (!ahead) return;
    atomic_store_explicit(&ahead->stopped, true, memory_order_relaxed);
    stk_thread_join(ahead->thread);
    free(ahead);
}
