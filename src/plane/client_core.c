/* SPDX-License-Identifier: Apache-2.0
 *
 * The counted part of a client (client_core.h): a list that many threads push to and one thread empties, an eventfd,
 * the connection, and the table of live cores that the fork handler walks in the child.
 *
 * The list is a stack whose head is exchanged as a whole, so no ABA problem can arise; it is shut by exchanging in an
 * address that is no batch. Read next: batch.c (who pushes), client_io.c (who empties).
 */
#include "plane/client_core.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/batch.h"
#include "sys/thread.h"

/* Its address marks a list that is shut. */
static struct stoker_batch shut_mark;

/* Process-wide, because a fork handler has no argument. The child's handler runs while it has one thread only. */
static _Atomic(uint32_t) fork_generation;
static _Atomic(struct stk_client_core *) live[STK_CLIENTS_MAX];
static atomic_flag handler_registered = ATOMIC_FLAG_INIT;

/* Async-signal-safe: closes descriptors and writes atomics, nothing else. */
static void abandon_in_child(void)
{
    for (uint32_t i = 0; i < STK_CLIENTS_MAX; i++) {
        struct stk_client_core *core = atomic_load(&live[i]);
        if (!core) continue;
        stk_channel_abandon(core->channel);
        (void)close(core->wake_fd); /* nothing to do about a failure in the child */
        atomic_store(&live[i], NULL);
    }
    atomic_fetch_add(&fork_generation, 1);
}

static stoker_status register_core(struct stk_client_core *core, stoker_error *err)
{
    for (uint32_t i = 0; i < STK_CLIENTS_MAX; i++) {
        struct stk_client_core *expected = NULL;
        core->slot = i;
        if (atomic_compare_exchange_strong(&live[i], &expected, core)) return STOKER_OK;
    }
    return stk_fail(err, STOKER_ERR_LIMIT, "this process has %u clients open, at most %u are possible", STK_CLIENTS_MAX,
                    STK_CLIENTS_MAX);
}

static stoker_status register_handler(stoker_error *err)
{
    if (atomic_flag_test_and_set(&handler_registered)) return STOKER_OK;
    stoker_status status = stk_thread_at_fork_child(abandon_in_child, err);
    if (status != STOKER_OK) atomic_flag_clear(&handler_registered);
    return status;
}

stoker_status stk_client_core_create(struct stk_channel *channel, uint64_t incarnation,
                                     struct stk_client_core **out_core, stoker_error *err)
{
    stoker_status status = register_handler(err);
    if (status != STOKER_OK) goto destroy_channel;
    struct stk_client_core *core = calloc(1, sizeof *core);
    if (!core) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a client");
        goto destroy_channel;
    }
    core->channel = channel;
    core->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (core->wake_fd < 0) {
        status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot make an event descriptor");
        goto free_core;
    }
    struct stk_frame frame = {.type = STK_MESSAGE_BYE, .incarnation = incarnation};
    stk_frame_encode(&frame, core->bye);
    atomic_init(&core->refs, 1);
    atomic_init(&core->dropped, NULL);
    atomic_init(&core->say_bye, false);
    core->fork_generation = stk_fork_generation();
    status = register_core(core, err);
    if (status != STOKER_OK) goto close_wake;
    *out_core = core;
    return STOKER_OK;
close_wake:
    (void)close(core->wake_fd); /* nothing was written to it */
free_core:
    free(core);
destroy_channel:
    stk_channel_destroy(channel);
    return status;
}

void stk_client_core_ref(struct stk_client_core *core)
{
    /* relaxed: the caller has a reference, so the count cannot reach zero meanwhile. */
    uint32_t before = atomic_fetch_add_explicit(&core->refs, 1, memory_order_relaxed);
    STK_ASSERT(before > 0);
}

void stk_client_core_unref(struct stk_client_core *core)
{
    /* release: what this thread did to the core comes before its end; acquire: the last one sees all of it. */
    uint32_t before = atomic_fetch_sub_explicit(&core->refs, 1, memory_order_acq_rel);
    STK_ASSERT(before > 0);
    if (before != 1) return;
    if (atomic_load_explicit(&core->say_bye, memory_order_relaxed)) {
        /* Without it the DataServer sees the end of the stream, which means the same with a warning. */
        (void)!send(stk_channel_fd(core->channel), core->bye, sizeof core->bye, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    atomic_store(&live[core->slot], NULL);
    stk_channel_destroy(core->channel);
    (void)close(core->wake_fd); /* an eventfd has nothing to lose */
    free(core);
}

uint32_t stk_fork_generation(void)
{
    /* relaxed: the generation changes only in a child that has one thread. */
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

bool stk_client_core_is_ours(const struct stk_client_core *core)
{
    return core->fork_generation == stk_fork_generation();
}

void stk_client_core_wake(struct stk_client_core *core)
{
    uint64_t one = 1;
    ssize_t written;
    do {
        written = write(core->wake_fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
    /* A counter that is full is a wake-up that is pending: nothing is lost. */
}

void stk_client_core_clear_wake(struct stk_client_core *core)
{
    uint64_t count;
    ssize_t got;
    do {
        got = read(core->wake_fd, &count, sizeof count);
    } while (got < 0 && errno == EINTR);
}

bool stk_client_core_push(struct stk_client_core *core, struct stoker_batch *batch)
{
    struct stoker_batch *head = atomic_load_explicit(&core->dropped, memory_order_relaxed);
    do {
        if (head == &shut_mark) return false;
        batch->next = head;
        /* release: the block's contents come before its appearance on the list; take() acquires them. */
    } while (!atomic_compare_exchange_weak_explicit(&core->dropped, &head, batch, memory_order_release,
                                                    memory_order_relaxed));
    return true;
}

struct stoker_batch *stk_client_core_take(struct stk_client_core *core)
{
    /* acquire: pairs with the release of every push that built the list. */
    struct stoker_batch *head = atomic_exchange_explicit(&core->dropped, NULL, memory_order_acquire);
    STK_ASSERT(head != &shut_mark);
    return head;
}

struct stoker_batch *stk_client_core_shut(struct stk_client_core *core)
{
    struct stoker_batch *head = atomic_exchange_explicit(&core->dropped, &shut_mark, memory_order_acq_rel);
    return head == &shut_mark ? NULL : head;
}
