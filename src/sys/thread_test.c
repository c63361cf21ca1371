/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "tests/support/unit.h"

struct shared {
    struct stk_mutex *lock;
    struct stk_condition *changed;
    int turn; /* guarded by lock */
    char name[32];
    int signals_blocked;
};

static void open_shared(struct shared *shared)
{
    memset(shared, 0, sizeof *shared);
    assert_int_equal(stk_mutex_create(1, &shared->lock, NULL), STOKER_OK);
    assert_int_equal(stk_condition_create(&shared->changed, NULL), STOKER_OK);
}

static void close_shared(struct shared *shared)
{
    stk_condition_destroy(shared->changed);
    stk_mutex_destroy(shared->lock);
}

static void play_turns(void *argument)
{
    struct shared *shared = argument;
    sigset_t mask;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    shared->signals_blocked = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGCHLD);
    (void)prctl(PR_GET_NAME, shared->name);
    for (int i = 0; i < 1000; i++) {
        stk_mutex_lock(shared->lock);
        while (shared->turn != 1) (void)stk_condition_wait(shared->changed, shared->lock, UINT64_MAX);
        shared->turn = 0;
        stk_condition_signal(shared->changed);
        stk_mutex_unlock(shared->lock);
    }
}

static void test_threads_take_turns(void **state)
{
    (void)state;
    struct shared shared;
    struct stk_thread *thread = NULL;
    open_shared(&shared);
    assert_int_equal(stk_thread_start("a-name-that-is-too-long", play_turns, &shared, &thread, NULL), STOKER_OK);
    for (int i = 0; i < 1000; i++) {
        stk_mutex_lock(shared.lock);
        shared.turn = 1;
        stk_condition_signal(shared.changed);
        while (shared.turn != 0) (void)stk_condition_wait(shared.changed, shared.lock, UINT64_MAX);
        stk_mutex_unlock(shared.lock);
    }
    stk_thread_join(thread);
    assert_string_equal(shared.name, "a-name-that-is-");
    assert_true(shared.signals_blocked);
    close_shared(&shared);
}

static void test_wait_ends_at_deadline(void **state)
{
    (void)state;
    struct shared shared;
    open_shared(&shared);
    uint64_t deadline = stk_clock_now_ns() + 2000000;
    stk_mutex_lock(shared.lock);
    while (stk_condition_wait(shared.changed, shared.lock, deadline)) continue; /* spurious */
    assert_true(stk_clock_now_ns() >= deadline);
    assert_false(stk_condition_wait(shared.changed, shared.lock, 0));
    stk_mutex_unlock(shared.lock);
    close_shared(&shared);
}

static atomic_int forks_seen;

static void count_fork(void) { atomic_fetch_add(&forks_seen, 1); /* relaxed would do: the child has one thread */ }

static void test_fork_handler_runs_in_child(void **state)
{
    (void)state;
    assert_int_equal(stk_thread_at_fork_child(count_fork, NULL), STOKER_OK);
    pid_t child = fork();
    if (child == 0) _exit(atomic_load(&forks_seen));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(atomic_load(&forks_seen), 0);
}

/* The child's assertion line would look like a failure of ours. */
static int child_aborts(void (*run)(void))
{
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr)) run();
        _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void lock_downwards(void)
{
    struct stk_mutex *low = NULL, *high = NULL;
    if (stk_mutex_create(1, &low, NULL) != STOKER_OK || stk_mutex_create(2, &high, NULL) != STOKER_OK) return;
    stk_mutex_lock(high);
    stk_mutex_lock(low);
}

static void lock_upwards(void)
{
    struct stk_mutex *low = NULL, *high = NULL;
    if (stk_mutex_create(1, &low, NULL) != STOKER_OK || stk_mutex_create(2, &high, NULL) != STOKER_OK) abort();
    for (int i = 0; i < 2; i++) { /* unlocking in the order of locking is legal too */
        stk_mutex_lock(low);
        stk_mutex_lock(high);
        stk_mutex_unlock(i ? low : high);
        stk_mutex_unlock(i ? high : low);
    }
    stk_mutex_destroy(low);
    stk_mutex_destroy(high);
}

static void test_locks_out_of_order_are_found(void **state)
{
    (void)state;
    assert_false(child_aborts(lock_upwards));
#ifdef STK_DEBUG_LOCKS
    assert_true(child_aborts(lock_downwards));
#else
    (void)lock_downwards;
    STK_SKIP("the check is part of the sanitizer builds");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_take_turns),
        cmocka_unit_test(test_wait_ends_at_deadline),
        cmocka_unit_test(test_fork_handler_runs_in_child),
        cmocka_unit_test(test_locks_out_of_order_are_found),
    };
    return stk_run_tests(tests);
}
