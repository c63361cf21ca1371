/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages ahead of their first use. A thread of its own has the pages of fresh mappings made, from their beginnings on,
 * while the caller computes what it will write there: clearing them, and the search of the kernel for huge ones, then
 * cost no time of the caller. A hint: what cannot be made ahead is made at its first use, as ever.
 *
 * Pages of files are made in the cache of the system, through a mapping of the thread's own: none of them counts to the
 * caller's memory before he touches it.
 */
#ifndef STK_SYS_AHEAD_H
#define STK_SYS_AHEAD_H

#include <stddef.h>

#include <stoker/error.h>

struct stk_ahead;

struct stk_ahead_area {
    void *data; /* of a mapping that may be written */
    size_t size;
};

enum { STK_AHEAD_AREAS_MAX = 8 };

struct stk_ahead_file {
    int fd; /* open for reading, stays so */
    size_t from, end;
};

/* Begins with `count` areas, all in proportion; *out_ahead is NULL if it is not worth a thread, or none can be had. The
 * mappings stay until stk_ahead_stop(). NO_MEMORY. */
stoker_status stk_ahead_start(const struct stk_ahead_area *areas, size_t count, struct stk_ahead **out_ahead,
                              stoker_error *err);
/* The same for files, one after the other. */
stoker_status stk_ahead_start_files(const struct stk_ahead_file *files, size_t count, struct stk_ahead **out_ahead,
                                    stoker_error *err);
/* Ends it, however far it has come, within the time of one step. NULL allowed. */
void stk_ahead_stop(struct stk_ahead *ahead);

#endif
