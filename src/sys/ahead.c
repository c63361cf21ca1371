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
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; EINVAL before */
#endif

#define STEP_BYTES ((size_t)4 << 20)       /* of all areas together: a few milliseconds */
#define TOTAL_BYTES_MIN ((size_t)16 << 20) /* below, starting a thread costs as much */

struct stk_ahead {
    struct stk_thread *thread;
    struct stk_ahead_area areas[STK_AHEAD_AREAS_MAX];
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

stoker_status stk_ahead_start(const struct stk_ahead_area *areas, size_t count, struct stk_ahead **out_ahead,
                              stoker_error *err)
{
    size_t total = 0;
    STK_ASSERT(count <= STK_AHEAD_AREAS_MAX);
    for (size_t i = 0; i < count; i++) total += areas[i].size / 2;
    *out_ahead = NULL;
    if (total < TOTAL_BYTES_MIN / 2 || sysconf(_SC_NPROCESSORS_ONLN) < 2) return STOKER_OK;
    struct stk_ahead *ahead = calloc(1, sizeof *ahead);
    if (!ahead) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to make %zu areas ahead", count);
    for (size_t i = 0; i < count; i++) ahead->areas[i] = areas[i];
    ahead->count = count;
    ahead->steps = total / (STEP_BYTES / 2) + 1;
    stoker_error reason = {0};
    stoker_status status = stk_thread_start("stoker-ahead", run, ahead, &ahead->thread, &reason);
    if (status == STOKER_OK) {
        *out_ahead = ahead;
        return STOKER_OK;
    }
    free(ahead);
    if (status != STOKER_ERR_NO_MEMORY) return STOKER_OK; /* no more threads here: it is only a hint */
    return stk_fail(err, status, "%s", reason.message);
}

void stk_ahead_stop(struct stk_ahead *ahead)
{
    if (!ahead) return;
    atomic_store_explicit(&ahead->stopped, true, memory_order_relaxed);
    stk_thread_join(ahead->thread);
    free(ahead);
}
