/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, ranked mutexes and wake-ups; the only user of pthread.h. A mutex carries a rank; with STK_DEBUG_LOCKS a
 * thread that locks a mutex of a rank not above those it holds is a broken invariant.
 */
#ifndef STK_SYS_THREAD_H
#define STK_SYS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

struct stk_mutex;
struct stk_condition;
struct stk_thread;

stoker_status stk_mutex_create(unsigned rank, struct stk_mutex **out_mutex, stoker_error *err);
void stk_mutex_destroy(struct stk_mutex *mutex); /* NULL allowed */
void stk_mutex_lock(struct stk_mutex *mutex);
void stk_mutex_unlock(struct stk_mutex *mutex);

stoker_status stk_condition_create(struct stk_condition **out_condition, stoker_error *err);
void stk_condition_destroy(struct stk_condition *condition);
void stk_condition_signal(struct stk_condition *condition); /* all waiters */
/* Waits until signalled or until the monotonic time deadline_ns (UINT64_MAX: for ever). False at the deadline. Wakes up
 * spuriously. */
bool stk_condition_wait(struct stk_condition *condition, struct stk_mutex *mutex, uint64_t deadline_ns);

/* Starts a thread with all signals blocked; `name` is cut at 15 bytes. */
stoker_status stk_thread_start(const char *name, void (*run)(void *), void *argument, struct stk_thread **out_thread,
                               stoker_error *err);
void stk_thread_join(struct stk_thread *thread); /* waits and frees; NULL allowed */

/* Registers a function that runs in every forked child, in the child, before fork() returns there. Only
 * async-signal-safe work. */
stoker_status stk_thread_at_fork_child(void (*run)(void), stoker_error *err);

#endif
