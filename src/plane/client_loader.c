/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders of a client (client.h): a ticket for each outstanding request, in the order of the requests; answers are
 * attached to tickets by the I/O thread, next() takes them from the front (or, with any_order, in the order of
 * arrival).
 *
 * Time is measured here (rule D1): input wait is the time from the first next() after a result to the next result,
 * the window is the time between a result and the next() after it. Both travel as durations.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "plane/client.h"
#include "source/source.h"
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
    loader->first = loader->last = NULL;
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

/* ------------------------------------------------------------------------------------------------ open and close */

static stoker_status read_options(const stoker_source *source, const stoker_loader_options *options,
                                  stoker_loader_options *out, stoker_error *err)
{
    if (!source || !options) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "no source or no loader options");
    STK_TRY(stk_options_read(options, out, sizeof *out, "loader", err));
    if (out->num_workers == 0) out->num_workers = 1;
    if (out->num_workers > STK_WORKERS_MAX) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u workers, at most %u are possible", out->num_workers,
                        STK_WORKERS_MAX);
    }
    if (out->max_bytes == 0) out->max_bytes = STK_MAX_BYTES_DEFAULT;
    if (out->stall_limit_ns == 0) out->stall_limit_ns = STK_STALL_LIMIT_NS;
    if ((unsigned)out->on_error > STOKER_ON_ERROR_REPLACE) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "on_error %d is none of 0, 1, 2", (int)out->on_error);
    }
    bool required = source->kind == STK_SOURCE_MEDIA;
    if ((required && out->batch_samples_max == 0) || out->batch_samples_max > STK_BATCH_SAMPLES_MAX) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "batch_samples_max %u, expected 1 to %u",
                        out->batch_samples_max, STK_BATCH_SAMPLES_MAX);
    }
    if (out->name && strlen(out->name) > STK_TEXT_BYTES_MAX) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "name of %zu bytes, at most %u are possible",
                        strlen(out->name), STK_TEXT_BYTES_MAX);
    }
    return STOKER_OK;
}

/* All samples of a native source have one size, that of their form. */
static stoker_status sample_bytes(const stoker_source *source, uint64_t *out_bytes, stoker_error *err)
{
    stoker_descriptor descriptor = {0};
    if (source->kind == STK_SOURCE_MEDIA && source->ops->count(source) > 0) {
        STK_TRY(source->ops->describe(source, 0, &descriptor, err));
    }
    *out_bytes = descriptor.sample_bytes;
    return STOKER_OK;
}

static void free_loader(struct stoker_loader *loader)
{
    while (loader->spare) {
        struct stk_ticket *next = loader->spare->next;
        free(loader->spare);
        loader->spare = next;
    }
    free(loader->last_failure);
    free(loader->refusal);
    stk_held_unref(loader->held);
    stk_condition_destroy(loader->answered);
    stk_client_unref(loader->client);
    free(loader);
}

static stoker_status create_loader(stoker_client *client, const stoker_source *source,
                                   const stoker_loader_options *options, struct stoker_loader **out_loader,
                                   stoker_error *err)
{
    struct stoker_loader *loader = calloc(1, sizeof *loader);
    if (!loader) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a loader");
    loader->client = client;
    stk_client_ref(client);
    loader->held = stk_held_create();
    loader->kind = source->kind;
    loader->batch_samples_max = options->batch_samples_max;
    loader->any_order = options->any_order;
    loader->sample_count = source->ops->count(source);
    loader->state = STK_LOADER_OPENING;
    stoker_status status = stk_condition_create(&loader->answered, err);
    if (status == STOKER_OK && !loader->held) status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a loader");
    if (status != STOKER_OK) {
        free_loader(loader);
        return status;
    }
    *out_loader = loader;
    return STOKER_OK;
}

static void unlink_loader_locked(struct stoker_loader *loader)
{
    struct stoker_loader **at = &loader->client->loaders;
    while (*at && *at != loader) at = &(*at)->next;
    if (*at) *at = loader->next;
}

static stoker_status send_open(struct stoker_loader *loader, const stoker_source *source,
                               const stoker_loader_options *options, uint32_t order, stoker_error *err)
{
    const char *name = options->name ? options->name : "";
    struct stk_message_loader_open open = {
        .loader_id = loader->loader_id,
        .kind = source->kind,
        .order = order,
        .num_workers = options->num_workers,
        .batch_samples_max = options->batch_samples_max,
        .on_error = options->on_error,
        .retries = options->retries,
        .max_bytes = options->max_bytes,
        .stall_limit_ns = options->stall_limit_ns,
        .name = {name, strlen(name)},
        .digest = {source->digest, sizeof source->digest},
    };
    STK_TRY(sample_bytes(source, &open.sample_bytes, err));
    size_t size = stk_loader_open_size(&open);
    struct stk_out *out = stk_client_out_create(loader->client, STK_MESSAGE_LOADER_OPEN, size);
    if (!out) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a message of %zu bytes", size);
    struct stk_writer writer = {.data = out->body, .size = size};
    stk_loader_open_encode(&writer, &open);
    out->size = writer.used;
    out->fds[out->fd_count++] = source->blob_fd;
    if (source->kind == STK_SOURCE_PROCESS) out->fds[out->fd_count++] = source->payload_fd;
    return stk_client_out_send(loader->client, out, err);
}

/* With the lock: the detail waits for stoker_client_failure(). NULL: the one before is forgotten. */
static void keep_refusal_locked(struct stoker_client *client, const struct stk_failure *refusal)
{
    free(client->refusal_detail);
    client->refusal_detail = NULL;
    client->refusal_detail_size = 0;
    if (!refusal || refusal->detail_size == 0) return;
    client->refusal_detail = malloc(refusal->detail_size);
    if (!client->refusal_detail) return; /* the error object still says what happened */
    memcpy(client->refusal_detail, refusal->detail, refusal->detail_size);
    client->refusal_detail_size = refusal->detail_size;
}

/* A template may take minutes to load its dataset; only the answer or the end of the DataServer ends the wait. */
static stoker_status wait_until_open(struct stoker_loader *loader, stoker_error *err)
{
    struct stoker_client *client = loader->client;
    stk_mutex_lock(client->lock);
    while (loader->state == STK_LOADER_OPENING && !client->gone) {
        (void)stk_condition_wait(client->changed, client->lock, UINT64_MAX); /* there is no deadline to miss */
    }
    stoker_status status = STOKER_OK;
    if (loader->state == STK_LOADER_REFUSED) {
        status = loader->refusal->error.status;
        if (err) *err = loader->refusal->error;
        keep_refusal_locked(client, loader->refusal);
    } else if (loader->state == STK_LOADER_OPENING) {
        status = stk_client_check_locked(client, err);
    }
    if (status != STOKER_OK) unlink_loader_locked(loader);
    stk_mutex_unlock(client->lock);
    return status;
}

STOKER_API stoker_status stoker_loader_open(stoker_client *client, const stoker_source *source,
                                            const stoker_loader_options *options, stoker_loader **out_loader,
                                            stoker_error *err)
{
    stoker_loader_options own;
    struct stoker_loader *loader = NULL;
    STK_TRY(stk_client_check_process(client, err));
    STK_TRY(read_options(source, options, &own, err));
    STK_TRY(create_loader(client, source, &own, &loader, err));
    STK_ASSERT(loader);
    stk_mutex_lock(client->lock);
    keep_refusal_locked(client, NULL);
    uint32_t order = client->loaders_opened++;
    loader->loader_id = order + 1;
    loader->next = client->loaders;
    client->loaders = loader;
    stk_mutex_unlock(client->lock);
    stoker_status status = send_open(loader, source, &own, order, err);
    if (status == STOKER_OK) {
        status = wait_until_open(loader, err);
    } else {
        stk_mutex_lock(client->lock);
        unlink_loader_locked(loader);
        stk_mutex_unlock(client->lock);
    }
    if (status != STOKER_OK) {
        free_loader(loader);
        return status;
    }
    *out_loader = loader;
    return STOKER_OK;
}

/* Closing a loader and closing its client may meet on two threads: whoever holds the lock first does all of it there,
 * and the other finds the loader closed. NULL `out`: no memory, the server learns of it by the connection's end. */
static struct stk_ticket *detach_locked(struct stoker_loader *loader, struct stk_out **out)
{
    struct stoker_client *client = loader->client;
    if (loader->closed) return NULL;
    loader->closed = true;
    unlink_loader_locked(loader);
    if (*out && !client->gone) {
        struct stk_message_loader_ref ref = {.loader_id = loader->loader_id};
        struct stk_writer writer = {.data = (*out)->body, .size = (*out)->capacity};
        stk_loader_ref_encode(&writer, &ref);
        (*out)->size = writer.used;
        stk_client_out_queue_locked(client, *out);
        stk_client_core_wake(client->core);
        *out = NULL;
    }
    return stk_loader_take_tickets_locked(loader);
}

bool stk_loader_detach(struct stoker_client *client, struct stoker_loader *loader)
{
    struct stk_message_loader_ref any = {.loader_id = 1};
    struct stk_out *out = stk_client_out_create(client, STK_MESSAGE_LOADER_CLOSE, stk_loader_ref_size(&any));
    struct stk_ticket *tickets = NULL;
    stk_mutex_lock(client->lock);
    if (!loader) loader = client->loaders;
    bool found = loader != NULL;
    if (found) tickets = detach_locked(loader, &out);
    stk_mutex_unlock(client->lock);
    stk_loader_dispose_tickets(tickets);
    if (out) stk_client_out_recycle(client, out);
    return found;
}

STOKER_API void stoker_loader_close(stoker_loader *loader)
{
    if (!loader || stk_client_check_process(loader->client, NULL) != STOKER_OK) return;
    (void)stk_loader_detach(loader->client, loader); /* may be detached already */
    free_loader(loader);
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
    loader->wait_began_ns = 0;
    loader->last_return_ns = 0;
    STK_CLIENT_SEND(status, client, STK_MESSAGE_LOADER_BEGIN, loader_ref, &ref, err);
    return status;
}

static stoker_status check_request(const struct stoker_loader *loader, const stoker_request *request, stoker_error *err)
{
    if (loader->kind == STK_SOURCE_PROCESS) {
        if (request->id_count > 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample ids for a process source");
        if (request->payload_size == 0 || request->payload_size > STK_PAYLOAD_BYTES_MAX) {
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a payload of %zu bytes, expected 1 to %u",
                            request->payload_size, STK_PAYLOAD_BYTES_MAX);
        }
        return STOKER_OK;
    }
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

/* The ids stand behind the message's own place in the buffer while it is encoded. */
static stoker_status encode_request(struct stoker_loader *loader, const stoker_request *request,
                                    struct stk_out **out_out, stoker_error *err)
{
    struct stk_message_request message = {
        .loader_id = loader->loader_id,
        .generation = loader->generation, /* written by this thread only */
        .sequence = loader->next_sequence,
        .ids = {NULL, request->id_count * sizeof(uint64_t)},
        .payload = {request->payload, request->payload_size},
    };
    size_t size = stk_request_size(&message);
    struct stk_out *out = stk_client_out_create(loader->client, STK_MESSAGE_REQUEST, size + message.ids.size);
    if (!out) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request of %zu bytes", size);
    for (size_t i = 0; i < request->id_count; i++)
        stk_store_u64(out->body + size + i * sizeof(uint64_t), request->ids[i]);
    message.ids.data = out->body + size;
    struct stk_writer writer = {.data = out->body, .size = size};
    stk_request_encode(&writer, &message);
    STK_ASSERT(!writer.full);
    out->size = writer.used;
    *out_out = out;
    return STOKER_OK;
}

/* With the lock. */
static stoker_status add_request_locked(struct stoker_loader *loader, struct stk_ticket *ticket, struct stk_out *out,
                                        stoker_error *err)
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
    stoker_status status = add_request_locked(loader, ticket, out, err);
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

static void report_step(struct stoker_loader *loader, uint64_t sequence, uint64_t wait_ns)
{
    struct stk_message_step step = {
        .loader_id = loader->loader_id,
        .generation = loader->generation,
        .sequence = sequence,
        .wait_ns = wait_ns,
        .window_ns = loader->last_return_ns ? loader->wait_began_ns - loader->last_return_ns : 0,
    };
    stoker_status status;
    STK_CLIENT_SEND(status, loader->client, STK_MESSAGE_STEP, step, &step, NULL);
    (void)status; /* a step that is not reported only makes a deadline less exact */
}

static stoker_status deliver(struct stoker_loader *loader, struct stoker_batch *batch, stoker_batch **out_batch,
                             stoker_error *err)
{
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
    report_step(loader, batch->ready.sequence, wait_ns);
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
    uint64_t now = stk_clock_now_ns();
    if (!loader->wait_began_ns) loader->wait_began_ns = now;
    free(loader->last_failure);
    loader->last_failure = NULL;
    struct stk_ticket *ticket;
    stoker_status status =
        wait_for_ticket(loader, timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns, &ticket, err);
    if (status != STOKER_OK) {
        if (status == STOKER_END) loader->wait_began_ns = 0;
        return status;
    }
    loader->stats.tasks_retried += ticket->tasks_retried;
    if (ticket->state == STK_TICKET_READY) {
        status = deliver(loader, ticket->batch, out_batch, err);
    } else {
        status = raise_failure(loader, ticket->failure, err);
    }
    ticket_recycle(loader, ticket);
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
