/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, ranked mutexes and conditions: see thread.h. Locking calls of a correct program cannot fail, so their
 * results are asserted. With STK_DEBUG_LOCKS each thread keeps the list of mutexes that it holds; ranks must rise, so
 * no two threads can ever wait for each other.
 */
#include "sys/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

enum { THREAD_NAME_BYTES = 16 /* of the kernel, with the terminator */ };

struct stk_mutex {
    pthread_mutex_t mutex;
    unsigned rank;
};

struct stk_condition {
    pthread_cond_t condition;
};

struct stk_thread {
    pthread_t id;
    void (*run)(void *);
    void *argument;
    char name[THREAD_NAME_BYTES];
};

#ifdef STK_DEBUG_LOCKS
enum { HELD_MAX = 16 /* deeper nesting is a design fault */ };

static _Thread_local const struct stk_mutex *held[HELD_MAX];
static _Thread_local unsigned held_count;

static void note_locking(const struct stk_mutex *mutex)
{
    for (unsigned i = 0; i < held_count; i++) STK_ASSERT(held[i]->rank < mutex->rank);
    STK_ASSERT(held_count < HELD_MAX);
    held[held_count++] = mutex;
}

static void note_unlocking(const struct stk_mutex *mutex)
{
    unsigned i = held_count;
    while (i > 0 && held[i - 1] != mutex) i--;
    STK_ASSERT(i > 0); /* not held by this thread */
    for (; i < held_count; i++) held[i - 1] = held[i];
    held_count--;
}
#else
static void note_locking(const struct stk_mutex *mutex) { (void)mutex; }

static void note_unlocking(const struct stk_mutex *mutex) { (void)mutex; }
#endif

stoker_status stk_mutex_create(unsigned rank, struct stk_mutex **out_mutex, stoker_error *err)
{
    struct stk_mutex *mutex = malloc(sizeof *mutex);
    if (!mutex) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a mutex");
    int failed = pthread_mutex_init(&mutex->mutex, NULL);
    if (failed) {
        free(mutex);
        return stk_fail_os(err, STOKER_ERR_NO_MEMORY, failed, "cannot create a mutex");
    }
    mutex->rank = rank;
    *out_mutex = mutex;
    return STOKER_OK;
}

void stk_mutex_destroy(struct stk_mutex *mutex)
{
    if (!mutex) return;
    int failed = pthread_mutex_destroy(&mutex->mutex);
    STK_ASSERT(failed == 0); /* nobody holds it */
    free(mutex);
}

void stk_mutex_lock(struct stk_mutex *mutex)
{
    note_locking(mutex); /* before the lock: the fault shows even when the deadlock does not happen this time */
    int failed = pthread_mutex_lock(&mutex->mutex);
    STK_ASSERT(failed == 0);
}

void stk_mutex_unlock(struct stk_mutex *mutex)
{
    note_unlocking(mutex);
    int failed = pthread_mutex_unlock(&mutex->mutex);
    STK_ASSERT(failed == 0);
}

stoker_status stk_condition_create(struct stk_condition **out_condition, stoker_error *err)
{
    struct stk_condition *condition = malloc(sizeof *condition);
    if (!condition) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a condition variable");
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (!failed) {
        failed =
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* a change of the wall clock is no time-out */
        if (!failed) failed = pthread_cond_init(&condition->condition, &attributes);
        (void)pthread_condattr_destroy(&attributes); /* cannot fail on Linux */
    }
    if (failed) {
        free(condition);
        return stk_fail_os(err, STOKER_ERR_NO_MEMORY, failed, "cannot create a condition variable");
    }
    *out_condition = condition;
    return STOKER_OK;
}

void stk_condition_destroy(struct stk_condition *condition)
{
    if (!condition) return;
    int failed = pthread_cond_destroy(&condition->condition);
    STK_ASSERT(failed == 0);
    free(condition);
}

void stk_condition_signal(struct stk_condition *condition)
{
    int failed = pthread_cond_broadcast(&condition->condition);
    STK_ASSERT(failed == 0);
}

bool stk_condition_wait(struct stk_condition *condition, struct stk_mutex *mutex, uint64_t deadline_ns)
{
    int failed;
    note_unlocking(mutex);
    if (deadline_ns == UINT64_MAX) {
        failed = pthread_cond_wait(&condition->condition, &mutex->mutex);
    } else {
        struct timespec deadline = {(time_t)(deadline_ns / STK_SECOND_NS), (long)(deadline_ns % STK_SECOND_NS)};
        failed = pthread_cond_timedwait(&condition->condition, &mutex->mutex, &deadline);
    }
    note_locking(mutex);
    STK_ASSERT(failed == 0 || failed == ETIMEDOUT);
    return failed == 0;
}

static void *thread_main(void *argument)
{
    struct stk_thread *thread = argument;
    (void)pthread_setname_np(pthread_self(), thread->name); /* a name is a help for people, not a need */
    thread->run(thread->argument);
    return NULL;
}

stoker_status stk_thread_start(const char *name, void (*run)(void *), void *argument, struct stk_thread **out_thread,
                               stoker_error *err)
{
    struct stk_thread *thread = malloc(sizeof *thread);
    if (!thread) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for thread '%s'", name);
    thread->run = run;
    thread->argument = argument;
    (void)snprintf(thread->name, sizeof thread->name, "%s", name); /* cut at the kernel's bound */

    /* Signals belong to the threads of the program that loads us. */
    sigset_t all, before;
    (void)sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    STK_ASSERT(failed == 0);
    int started = pthread_create(&thread->id, NULL, thread_main, thread);
    failed = pthread_sigmask(SIG_SETMASK, &before, NULL);
    STK_ASSERT(failed == 0);
    if (started != 0) {
        free(thread);
        return stk_fail_os(err, STOKER_ERR_NO_MEMORY, started, "cannot start thread '%s'", name);
    }
    *out_thread = thread;
    return STOKER_OK;
}

void stk_thread_join(struct stk_thread *thread)
{
    if (!thread) return;
    int failed = pthread_join(thread->id, NULL);
    STK_ASSERT(failed == 0);
    free(thread);
}

stoker_status stk_thread_at_fork_child(void (*run)(void), stoker_error *err)
{
    int failed = pthread_atfork(NULL, NULL, run);
    if (failed) return stk_fail_os(err, STOKER_ERR_NO_MEMORY, failed, "cannot register a fork handler");
    return STOKER_OK;
}
