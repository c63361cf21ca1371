/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of a client: one connection to the host's DataServer and the I/O thread that owns it. The threads of the
 * user queue messages under a short lock and wake that thread; it sends, receives, attaches results to the tickets of
 * loaders, and wakes who waits for them. No lock is held while it sends, receives, maps, or calls the user's log
 * function.
 *
 *     client.c           open, close, status, the queue of messages
 *     client_io.c        the I/O thread
 *     client_register.c  loaders: open, close
 *     client_loader.c    loaders: requests, tickets, next()
 */
#ifndef STK_PLANE_CLIENT_H
#define STK_PLANE_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>

#include "obs/log.h"
#include "plane/batch.h"
#include "plane/client_core.h"
#include "plane/turn.h"
#include "sys/thread.h"
#include "transport/shm.h"
#include "wire/message.h"

#define STK_CLIENT_LOCK_RANK 100u

/* A message on its way to the I/O thread. */
struct stk_out {
    struct stk_out *next;
    size_t capacity, size;
    uint16_t type;
    uint32_t fd_count;
    int fds[3]; /* borrowed: the sender waits until the message was answered */
    uint8_t body[];
};

enum stk_ticket_state { STK_TICKET_WAITING, STK_TICKET_READY, STK_TICKET_FAILED };

struct stk_failure { /* what FAILED or LOADER_FAILED said */
    stoker_error error;
    size_t detail_size;
    uint8_t detail[];
};

/* One request that was not handed out yet. */
struct stk_ticket {
    struct stk_ticket *next;
    uint64_t sequence;
    uint64_t turn; /* of its batch */
    bool is_last;  /* it is the batch, or the last part of it */
    enum stk_ticket_state state;
    uint32_t tasks_retried;
    uint64_t finish_order;       /* of the answers' arrival */
    struct stoker_batch *batch;  /* READY */
    struct stk_failure *failure; /* FAILED; NULL: there was no memory to keep it */
};

enum stk_loader_state { STK_LOADER_OPENING, STK_LOADER_OPEN, STK_LOADER_REFUSED };

struct stoker_loader {
    /* fixed after open */
    struct stoker_client *client; /* a reference */
    struct stk_condition *answered;
    struct stk_held *held;
    uint32_t loader_id, kind, batch_samples_max, any_order;
    uint64_t sample_count;
    char quarantine_digest[STOKER_DIGEST_HEX_BYTES]; /* with its count: of what the DataServer leaves out */
    uint64_t quarantine_count;
    /* the loader's thread */
    uint64_t next_sequence;
    struct stk_turn turn;    /* of the next request */
    uint64_t wait_began_ns;  /* first next() since the last result; 0: none */
    uint64_t last_return_ns; /* of the last result; 0: none in this iteration */
    struct stk_failure *last_failure;
    stoker_loader_stats stats;
    /* guarded by client->lock */
    struct stoker_loader *next;
    enum stk_loader_state state;
    struct stk_failure *refusal;
    bool closed; /* the client was closed: nothing but close is possible */
    uint32_t generation;
    uint32_t ticket_count;
    uint64_t finish_count;
    struct stk_ticket *first, *last; /* outstanding, by sequence */
    struct stk_ticket *spare;
    struct stk_ticket *heard; /* of an exchange, in order of arrival: batches that were given (READY; the tag is in
                                 tasks_retried), and what was gathered (FAILED, with a status that may be OK) */
    uint32_t listening;       /* calls that wait for one of these */
};

struct stk_status_wait { /* lives on the stack of a caller of stoker_client_status() */
    struct stk_status_wait *next;
    uint64_t token;
    char *text; /* the answer; NULL with `answered`: no memory */
    bool answered;
};

struct stoker_client {
    /* fixed after open */
    struct stk_client_core *core; /* a reference, until close */
    uint32_t fork_generation;
    struct stk_log log;
    int64_t server_pid;
    struct stk_thread *thread;
    struct stk_mutex *lock;
    struct stk_condition *changed; /* a loader's state or a status answer */
    /* atomic */
    _Atomic(uint32_t) refs; /* of the handle and of each loader */
    /* the I/O thread */
    struct stk_shm_table *table;
    struct stk_out *sending; /* taken from the queue, not sent yet */
    struct stoker_batch *spare_batches;
    uint32_t spare_batch_count;
    bool copies_told;
    uint64_t stop_deadline_ns; /* 0: not stopping */
    uint64_t heard_ns;         /* when the DataServer last said something */
    uint64_t asked_ns;         /* when it was asked for a sign since; 0: not yet */
    uint64_t told_ns;          /* when its silence was told last; 0: not since it began */
    /* guarded by lock */
    char *refusal_detail; /* of the last loader that did not open, until somebody takes it */
    size_t refusal_detail_size;
    struct stk_out *queue_first, *queue_last;
    struct stk_out *spare_out;
    uint32_t spare_out_count;
    struct stoker_loader *loaders;
    uint32_t loaders_opened;
    struct stk_status_wait *status_waits;
    uint64_t status_token;
    bool stopping; /* close was called */
    bool gone;     /* the connection ended; gone_error says how */
    stoker_error gone_error;
};

/* client.c */

/* Copies an options struct of another size into ours: a larger one with a nonzero tail is UNSUPPORTED. */
stoker_status stk_options_read(const void *options, void *out, size_t size, const char *what, stoker_error *err);
/* An empty message of at most body_size bytes; NULL: no memory. Any thread. */
struct stk_out *stk_client_out_create(struct stoker_client *client, uint16_t type, size_t body_size);
/* Gives an unsent or sent message back. Any thread, without the lock. */
void stk_client_out_recycle(struct stoker_client *client, struct stk_out *out);
/* Queues and wakes; takes `out`. UNAVAILABLE if the DataServer is gone. */
stoker_status stk_client_out_send(struct stoker_client *client, struct stk_out *out, stoker_error *err);
/* The same under the lock, without waking. */
void stk_client_out_queue_locked(struct stoker_client *client, struct stk_out *out);
/* WRONG_STATE in a forked child. */
stoker_status stk_client_check_process(const struct stoker_client *client, stoker_error *err);
/* With the lock: UNAVAILABLE once the connection ended. */
stoker_status stk_client_check_locked(const struct stoker_client *client, stoker_error *err);
/* Monotonic time `timeout_ns` from now, UINT64_MAX if that does not fit. */
uint64_t stk_deadline_after(uint64_t timeout_ns);
void stk_client_ref(struct stoker_client *client);
void stk_client_unref(struct stoker_client *client);

/* Encodes one message struct into a new stk_out and sends it; sets `status`. */
#define STK_CLIENT_SEND(status, client, type, name, message, err)                                                      \
    do {                                                                                                               \
        size_t stk_send_size = stk_##name##_size(message);                                                             \
        struct stk_out *stk_send_out = stk_client_out_create((client), (type), stk_send_size);                         \
        if (!stk_send_out) {                                                                                           \
            (status) = stk_fail((err), STOKER_ERR_NO_MEMORY, "no memory for a message of %zu bytes", stk_send_size);   \
            break;                                                                                                     \
        }                                                                                                              \
        struct stk_writer stk_send_writer = {.data = stk_send_out->body, .size = stk_send_size};                       \
        stk_##name##_encode(&stk_send_writer, (message));                                                              \
        stk_send_out->size = stk_send_writer.used;                                                                     \
        (status) = stk_client_out_send((client), stk_send_out, (err));                                                 \
    } while (0)

/* client_io.c */
void stk_client_run(void *client); /* body of the I/O thread */

/* client_loader.c */

/* With the lock: the ticket of an answer, NULL if nobody waits for it any more. */
struct stk_ticket *stk_loader_ticket_locked(struct stoker_client *client, uint32_t loader_id, uint32_t generation,
                                            uint64_t sequence, struct stoker_loader **out_loader);
void stk_loader_finish_locked(struct stoker_loader *loader, struct stk_ticket *ticket, enum stk_ticket_state state);
struct stoker_loader *stk_loader_find_locked(struct stoker_client *client, uint32_t loader_id);
/* Drops every outstanding ticket. The caller then disposes of the list without the lock. */
struct stk_ticket *stk_loader_take_tickets_locked(struct stoker_loader *loader);
void stk_loader_dispose_tickets(struct stk_ticket *tickets);
/* client_register.c */

/* Takes a loader (NULL: any that is open) out of its client and tells the DataServer; its handle stays. False: none is
 * open. */
bool stk_loader_detach(struct stoker_client *client, struct stoker_loader *loader);

#endif
