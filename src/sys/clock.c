/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: see clock.h. clock_gettime on these ids cannot fail on any kernel that runs the rest of the program, so a
 * failure is a broken invariant and not an error that every caller would have to pass on.
 */
#include "sys/clock.h"

#include <time.h>

#include "base/assert.h"
#include "base/limits.h"

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;
    int result = clock_gettime(id, &now);
    STK_ASSERT(result == 0);
    return (uint64_t)now.tv_sec * STK_SECOND_NS + (uint64_t)now.tv_nsec;
}

uint64_t stk_clock_now_ns(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t stk_clock_thread_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

uint64_t stk_clock_process_cpu_ns(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }
