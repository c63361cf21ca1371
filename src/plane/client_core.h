/* SPDX-License-Identifier: Apache-2.0
 *
 * What batches keep alive of a client after everything else of it may be gone: the connection, a wake-up of the I/O
 * thread, and the lock-free list on which dropped batches wait for that thread (rules A6, A9).
 *
 * Counted: one reference of the client, one of each batch. While the client is open, dropping a batch is one push and
 * one wake-up. After the client was closed the list is shut, and whoever drops a batch unmaps it. The connection ends
 * with the last reference and not before: the DataServer must not give away memory that views of this process still
 * show.
 *
 * Forked children: a handler closes the sockets of all cores in the child and moves the fork generation on. A core
 * whose generation is not the current one belongs to another process; nothing may be done with it.
 */
#ifndef STK_PLANE_CLIENT_CORE_H
#define STK_PLANE_CLIENT_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

#include "control/channel.h"

#define STK_CLIENTS_MAX 64u /* open connections of one process to DataServers: one each job; tests open a few */

struct stoker_batch;

struct stk_client_core {
    /* fixed after create */
    struct stk_channel *channel; /* owned; used by the I/O thread only, except that the last reference closes it */
    int wake_fd;                 /* eventfd */
    uint32_t fork_generation;
    uint32_t slot;
    uint8_t
        bye[STK_FRAME_HEADER_BYTES]; /* a whole BYE message: the last reference sends it without encoding anything */
    /* atomic */
    _Atomic(uint32_t) refs;
    _Atomic(struct stoker_batch *) dropped;
    _Atomic(bool) say_bye; /* the stream stands between two messages: a BYE may follow */
};

/* Takes the channel, even on failure. LIMIT: STK_CLIENTS_MAX clients are open. */
stoker_status stk_client_core_create(struct stk_channel *channel, uint64_t incarnation,
                                     struct stk_client_core **out_core, stoker_error *err);
void stk_client_core_ref(struct stk_client_core *core);
/* The last one says BYE and closes the connection. Any thread of the creator's process. */
void stk_client_core_unref(struct stk_client_core *core);

/* Changes with each fork, in the child. */
uint32_t stk_fork_generation(void);
/* Is the calling process the one that created the core? */
bool stk_client_core_is_ours(const struct stk_client_core *core);

/* Makes the I/O thread look at the list and at its queue. Any thread, never blocks. */
void stk_client_core_wake(struct stk_client_core *core);
/* Forgets the wake-ups so far; I/O thread. */
void stk_client_core_clear_wake(struct stk_client_core *core);

/* Puts a batch that nobody references on the list. False: the list is shut, the batch is still the caller's. */
bool stk_client_core_push(struct stk_client_core *core, struct stoker_batch *batch);
/* Takes the whole list, linked by `next`, newest first. */
struct stoker_batch *stk_client_core_take(struct stk_client_core *core);
/* As take; later pushes are refused. */
struct stoker_batch *stk_client_core_shut(struct stk_client_core *core);

#endif
