/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders of a client (client.h): a ticket for each outstanding request, in the order of the requests; answers are
 * attached to tickets by the I/O thread, next() takes them from the front (or, with any_order, in the order of
 * arrival).
 *
 * Time is measured here (rule D1): input wait is the time from the first next() after a result to the next result,
 * the window is the time between a result and the next() after it. Both travel as durations. The parts of one batch
 * are one result.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "plane/client.h"
#include "sys/clock.h"

/* ------------------------------------------------------------------------------------------------ tickets */

struct stoker_loader *stk_loader_find_locked(struct stoker_client *client, uint32_t loader_id)
{
    struct stoker_loader *loader = client->loaders;
    while (loader && loader->loader_id != loader_id) loader = loader->next;
    return loader;
}

struct stk_ticket *stk_loader_ticket_locked(struct stoker_client *client, uint32_t loader_id, uint32_t generation,
                                            uint64_t sequence, struct stoker_loader **out_loader)
{
    struct stoker_loader *loader = stk_loader_find_locked(client, loader_id);
    if (!loader || loader->generation != generation) return NULL;
    struct stk_ticket *ticket = loader->first;
    while (ticket && ticket->sequence != sequence) ticket = ticket->next;
    if (!ticket || ticket->state != STK_TICKET_WAITING) return NULL;
    *out_loader = loader;
    return ticket;
}

void stk_loader_finish_locked(struct stoker_loader *loader, struct stk_ticket *ticket, enum stk_ticket_state state)
{
    STK_ASSERT(ticket->state == STK_TICKET_WAITING);
    ticket->state = state;
    ticket->finish_order = loader->finish_count++;
    stk_condition_signal(loader->answered);
}

struct stk_ticket *stk_loader_take_tickets_locked(struct stoker_loader *loader)
{
    struct stk_ticket *tickets = loader->first;
    if (loader->last)
        loader->last->next = loader->heard;
    else
        tickets = loader->heard;
    loader->first = loader->last = loader->heard = NULL;
    loader->ticket_count = 0;
    return tickets;
}

void stk_loader_dispose_tickets(struct stk_ticket *tickets)
{
    while (tickets) {
        struct stk_ticket *next = tickets->next;
        stoker_batch_unref(tickets->batch);
        free(tickets->failure);
        free(tickets);
        tickets = next;
    }
}

/* The ticket whose turn it is, if it was answered. */
static struct stk_ticket *answered_locked(const struct stoker_loader *loader)
{
    if (!loader->any_order) return loader->first && loader->first->state != STK_TICKET_WAITING ? loader->first : NULL;
    struct stk_ticket *best = NULL;
    for (struct stk_ticket *ticket = loader->first; ticket; ticket = ticket->next) {
        if (ticket->state != STK_TICKET_WAITING && (!best || ticket->finish_order < best->finish_order)) best = ticket;
    }
    return best;
}

static void unlink_locked(struct stoker_loader *loader, struct stk_ticket *ticket)
{
    struct stk_ticket *before = NULL;
    for (struct stk_ticket *at = loader->first; at != ticket; at = at->next) before = at;
    if (before) {
        before->next = ticket->next;
    } else {
        loader->first = ticket->next;
    }
    if (loader->last == ticket) loader->last = before;
    loader->ticket_count--;
}

static struct stk_ticket *ticket_create(struct stoker_loader *loader)
{
    stk_mutex_lock(loader->client->lock);
    struct stk_ticket *ticket = loader->spare;
    if (ticket) loader->spare = ticket->next;
    stk_mutex_unlock(loader->client->lock);
    if (!ticket) ticket = malloc(sizeof *ticket);
    if (ticket) memset(ticket, 0, sizeof *ticket);
    return ticket;
}

/* The number of spare tickets is bounded by the most that were ever outstanding at once. */
static void ticket_recycle(struct stoker_loader *loader, struct stk_ticket *ticket)
{
    stk_mutex_lock(loader->client->lock);
    ticket->batch = NULL;
    ticket->failure = NULL;
    ticket->next = loader->spare;
    loader->spare = ticket;
    stk_mutex_unlock(loader->client->lock);
}

/* With the lock: may the loader be used? */
static stoker_status check_loader_locked(const struct stoker_loader *loader, stoker_error *err)
{
    if (loader->closed) return stk_fail(err, STOKER_ERR_WRONG_STATE, "the client of this loader was closed");
    return stk_client_check_locked(loader->client, err);
}

/* ------------------------------------------------------------------------------------------------ requests */

STOKER_API stoker_status stoker_loader_begin(stoker_loader *loader, stoker_error *err)
{
    struct stoker_client *client = loader->client;
    STK_TRY(stk_client_check_process(client, err));
    stk_mutex_lock(client->lock);
    stoker_status status = check_loader_locked(loader, err);
    struct stk_ticket *tickets = NULL;
    if (status == STOKER_OK) {
        tickets = stk_loader_take_tickets_locked(loader);
        loader->generation++;
    }
    struct stk_message_loader_ref ref = {.loader_id = loader->loader_id, .generation = loader->generation};
    stk_mutex_unlock(client->lock);
    if (status != STOKER_OK) return status;
    stk_loader_dispose_tickets(tickets);
    loader->next_sequence = 0;
    loader->turn = (struct stk_turn){0};
    loader->wait_began_ns = 0;
    loader->last_return_ns = 0;
    STK_CLIENT_SEND(status, client, STK_MESSAGE_LOADER_BEGIN, loader_ref, &ref, err);
    return status;
}

static stoker_status check_part(const struct stoker_loader *loader, const stoker_request *request, stoker_error *err)
{
    struct stk_turn turn = loader->turn;
    uint64_t batch;
    if (request->parts > 1 && loader->any_order)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a batch in %u parts of a loader with any_order",
                        request->parts);
    if (!stk_turn_take(&turn, request->part, request->parts, &batch))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "part %u of %u after %u of %u parts", request->part,
                        request->parts, loader->turn.part, loader->turn.parts);
    return STOKER_OK;
}

static stoker_status check_request(const struct stoker_loader *loader, const stoker_request *request, stoker_error *err)
{
    if (loader->kind == STK_SOURCE_PROCESS) {
        if (request->id_count > 0 || request->draws)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample ids for a process source");
        if (request->payload_size == 0 || request->payload_size > STK_PAYLOAD_BYTES_MAX) {
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a payload of %zu bytes, expected 1 to %u",
                            request->payload_size, STK_PAYLOAD_BYTES_MAX);
        }
        if (request->samples > STK_BATCH_SAMPLES_MAX)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a payload of %u samples, expected at most %u",
                            request->samples, STK_BATCH_SAMPLES_MAX);
        return check_part(loader, request, err);
    }
    if (request->part > 0 || request->parts > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "part %u of %u beside ids: native batches have no parts",
                        request->part, request->parts);
    if (request->samples > 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "samples = %u beside ids: their number is known",
                        request->samples);
    if (request->payload_size > 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a payload for a native source");
    if (request->id_count == 0 || request->id_count > loader->batch_samples_max) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%zu sample ids, expected 1 to %u (batch_samples_max)",
                        request->id_count, loader->batch_samples_max);
    }
    for (size_t i = 0; i < request->id_count; i++) {
        if (request->ids[i] >= loader->sample_count) {
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample id %llu of a source of %llu samples",
                            (unsigned long long)request->ids[i], (unsigned long long)loader->sample_count);
        }
    }
    return STOKER_OK;
}

/* The ids and draws stand behind the message's own place in the buffer while it is encoded. */
static stoker_status encode_request(struct stoker_loader *loader, const stoker_request *request,
                                    struct stk_out **out_out, stoker_error *err)
{
    struct stk_message_request message = {
        .loader_id = loader->loader_id,
        .generation = loader->generation, /* written by this thread only */
        .sequence = loader->next_sequence,
        .ids = {NULL, request->id_count * sizeof(uint64_t)},
        .payload = {request->payload, request->payload_size},
        .draws = {NULL, request->parts > 1 ? STK_PART_BYTES
                        : request->draws   ? request->id_count * sizeof(uint64_t)
                                           : 0},
        .samples = request->samples,
        .estimate_ns = request->estimate_ns,
    };
    size_t size = stk_request_size(&message);
    struct stk_out *out =
        stk_client_out_create(loader->client, STK_MESSAGE_REQUEST, size + message.ids.size + message.draws.size);
    if (!out) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request of %zu bytes", size);
    for (size_t i = 0; i < request->id_count; i++)
        stk_store_u64(out->body + size + i * sizeof(uint64_t), request->ids[i]);
    message.ids.data = out->body + size;
    uint8_t *draws = out->body + size + message.ids.size;
    message.draws.data = draws;
    for (size_t i = 0; request->draws && i < request->id_count; i++)
        stk_store_u64(draws + i * sizeof(uint64_t), request->draws[i]);
    if (request->parts > 1) {
        stk_store_u64(draws, request->part);
        stk_store_u64(draws + sizeof(uint64_t), request->parts);
    }
    struct stk_writer writer = {.data = out->body, .size = size};
    stk_request_encode(&writer, &message);
    STK_ASSERT(!writer.full);
    out->size = writer.used;
    *out_out = out;
    return STOKER_OK;
}

/* With the lock. */
static stoker_status add_request_locked(struct stoker_loader *loader, struct stk_ticket *ticket,
                                        const stoker_request *request, struct stk_out *out, stoker_error *err)
{
    STK_TRY(check_loader_locked(loader, err));
    if (loader->generation == 0) {
        return stk_fail(err, STOKER_ERR_WRONG_STATE, "a request before stoker_loader_begin()");
    }
    if (loader->ticket_count >= STK_BATCHES_MAX) {
        return stk_fail(err, STOKER_ERR_LIMIT, "%u requests are outstanding, at most %u are possible",
                        loader->ticket_count, STK_BATCHES_MAX);
    }
    ticket->sequence = loader->next_sequence++;
    bool in_turn = stk_turn_take(&loader->turn, request->part, request->parts, &ticket->turn);
    STK_ASSERT(in_turn); /* it was checked */
    ticket->is_last = loader->turn.part == 0;
    if (loader->last) {
        loader->last->next = ticket;
    } else {
        loader->first = ticket;
    }
    loader->last = ticket;
    loader->ticket_count++;
    stk_client_out_queue_locked(loader->client, out);
    return STOKER_OK;
}

STOKER_API stoker_status stoker_loader_request(stoker_loader *loader, const stoker_request *request, stoker_error *err)
{
    struct stoker_client *client = loader->client;
    STK_TRY(stk_client_check_process(client, err));
    STK_TRY(check_request(loader, request, err));
    struct stk_out *out = NULL;
    STK_TRY(encode_request(loader, request, &out, err));
    struct stk_ticket *ticket = ticket_create(loader);
    if (!ticket) {
        stk_client_out_recycle(client, out);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request");
    }
    stk_mutex_lock(client->lock);
    stoker_status status = add_request_locked(loader, ticket, request, out, err);
    stk_mutex_unlock(client->lock);
    if (status == STOKER_OK) {
        stk_client_core_wake(client->core);
    } else {
        ticket_recycle(loader, ticket);
        stk_client_out_recycle(client, out);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ next */

/* OK: *out_ticket is taken from the list. */
static stoker_status wait_for_ticket(struct stoker_loader *loader, uint64_t deadline_ns, struct stk_ticket **out_ticket,
                                     stoker_error *err)
{
    struct stoker_client *client = loader->client;
    struct stk_ticket *ticket = NULL;
    stoker_status status;
    bool in_time = true;
    stk_mutex_lock(client->lock);
    for (;;) {
        status = check_loader_locked(loader, err);
        if (status != STOKER_OK) break;
        if (!loader->first) {
            status = STOKER_END;
            break;
        }
        ticket = answered_locked(loader);
        if (ticket) {
            unlink_locked(loader, ticket);
            break;
        }
        if (!in_time) {
            status = STOKER_AGAIN;
            break;
        }
        in_time = stk_condition_wait(loader->answered, client->lock, deadline_ns);
    }
    stk_mutex_unlock(client->lock);
    if (status == STOKER_OK) *out_ticket = ticket;
    return status;
}

static stoker_status release_slab(struct stoker_client *client, uint64_t slab_id, stoker_error *err)
{
    uint8_t id[sizeof slab_id];
    stk_store_u64(id, slab_id);
    struct stk_message_release release = {.slabs = {id, sizeof id}};
    stoker_status status;
    STK_CLIENT_SEND(status, client, STK_MESSAGE_RELEASE, release, &release, err);
    return status;
}

/* Rule A5: the rank keeps too much, this batch becomes its own memory and the slab goes back at once. */
static stoker_status make_copy(struct stoker_loader *loader, struct stoker_batch *batch, stoker_error *err)
{
    uint64_t slab_id;
    STK_TRY(stk_batch_make_private(batch, &slab_id, err));
    loader->stats.copies++;
    (void)release_slab(loader->client, slab_id,
                       NULL); /* a DataServer that is gone is reported by the next call; the copy is good */
    return STOKER_OK;
}

static void report_step(struct stoker_loader *loader, uint64_t turn, uint64_t wait_ns)
{
    struct stk_message_step step = {
        .loader_id = loader->loader_id,
        .generation = loader->generation,
        .sequence = turn,
        .wait_ns = wait_ns,
        .window_ns = loader->last_return_ns ? loader->wait_began_ns - loader->last_return_ns : 0,
    };
    stoker_status status;
    STK_CLIENT_SEND(status, loader->client, STK_MESSAGE_STEP, step, &step, NULL);
    (void)status; /* a step that is not reported only makes a deadline less exact */
}

static stoker_status deliver(struct stoker_loader *loader, const struct stk_ticket *ticket, stoker_batch **out_batch,
                             stoker_error *err)
{
    struct stoker_batch *batch = ticket->batch;
    if (batch->ready.flags & STK_READY_COPY) {
        stoker_status status = make_copy(loader, batch, err);
        if (status != STOKER_OK) {
            stoker_batch_unref(batch);
            loader->stats.failures++;
            return status;
        }
    }
    stk_batch_hand_out(batch);
    uint64_t wait_ns = stk_clock_now_ns() - loader->wait_began_ns;
    loader->stats.batches++;
    loader->stats.samples_skipped += batch->ready.samples_skipped;
    loader->stats.last_wait_ns = wait_ns;
    loader->stats.last_ready_ns = batch->ready.ready_ns;
    if (ticket->is_last) report_step(loader, ticket->turn, wait_ns);
    *out_batch = batch;
    return STOKER_OK;
}

static stoker_status raise_failure(struct stoker_loader *loader, struct stk_failure *failure, stoker_error *err)
{
    loader->stats.failures++;
    loader->last_failure = failure;
    if (!failure) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a batch or for the reason of its failure");
    if (err) *err = failure->error;
    return failure->error.status;
}

STOKER_API stoker_status stoker_loader_next(stoker_loader *loader, uint64_t timeout_ns, stoker_batch **out_batch,
                                            stoker_error *err)
{
    STK_TRY(stk_client_check_process(loader->client, err));
    uint64_t now = stk_clock_now_ns(), began_ns = loader->wait_began_ns;
    if (!began_ns) loader->wait_began_ns = now;
    free(loader->last_failure);
    loader->last_failure = NULL;
    struct stk_ticket *ticket;
    stoker_status status =
        wait_for_ticket(loader, timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns, &ticket, err);
    if (status != STOKER_OK) {
        if (timeout_ns == 0) loader->wait_began_ns = began_ns; /* who only looks does not wait */
        if (status == STOKER_END) loader->wait_began_ns = 0;
        return status;
    }
    loader->stats.tasks_retried += ticket->tasks_retried;
    if (ticket->state == STK_TICKET_READY) {
        status = deliver(loader, ticket, out_batch, err);
    } else {
        status = raise_failure(loader, ticket->failure, err);
    }
    bool is_last = ticket->is_last;
    ticket_recycle(loader, ticket);
    if (!is_last && timeout_ns == 0) loader->wait_began_ns = began_ns;
    if (!is_last) return status; /* the rank still waits, for the other parts of its batch, unless it only looks */
    loader->wait_began_ns = 0;
    loader->last_return_ns = stk_clock_now_ns();
    return status;
}

STOKER_API void stoker_loader_failure(const stoker_loader *loader, const void **out_detail, size_t *out_size)
{
    const struct stk_failure *failure = loader->last_failure;
    bool some = failure && failure->detail_size > 0;
    *out_detail = some ? failure->detail : NULL;
    *out_size = some ? failure->detail_size : 0;
}

STOKER_API void stoker_loader_read_stats(const stoker_loader *loader, stoker_loader_stats *out_stats)
{
    *out_stats = loader->stats;
    /* relaxed: a statistic. */
    out_stats->bytes_held = atomic_load_explicit(&loader->held->bytes, memory_order_relaxed);
}
