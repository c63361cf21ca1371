/* SPDX-License-Identifier: Apache-2.0
 *
 * Many reads at once. Threads are started for the call and joined before it returns: a network read costs a thousand
 * times what a thread does, and what does not outlive the call cannot be lost in a forked child.
 */
#ifndef STK_STORE_JOBS_H
#define STK_STORE_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

struct stk_range;

typedef stoker_status (*stk_job_fn)(void *user, size_t job, stoker_error *err);

/* Runs jobs 0 ... count - 1 in this order, at most `ways` at once, the calling thread among them. After a failure no
 * further job begins; the failure of the lowest job is returned. Threads that cannot be started are done without. */
stoker_status stk_jobs_run(size_t count, unsigned ways, stk_job_fn run, void *user, stoker_error *err);

/* A piece of a range and where its bytes go. */
struct stk_piece {
    uint64_t offset;
    size_t size;
    uint8_t *out;
    size_t got; /* out: below size, the object ends there */
};

/* Reads pieces, each cut into parts where the backend gains by it. PROTOCOL if bytes are missing before others. */
stoker_status stk_range_read_pieces(struct stk_range *range, struct stk_piece *pieces, size_t count, stoker_error *err);

#endif
