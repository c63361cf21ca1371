/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges of a loader with the loaders of other ranks (include/stoker/balance.h): what they say, and batches that
 * change their owner. Answers wait in a list of their own (client.h): they have no request.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/client.h"
#include "sys/clock.h"
#include "wire/exchange.h"

static stoker_status check_begun(struct stoker_loader *loader, stoker_error *err)
{
    STK_TRY(stk_client_check_process(loader->client, err));
    stk_mutex_lock(loader->client->lock);
    stoker_status status = stk_client_check_locked(loader->client, err);
    if (status == STOKER_OK && loader->closed)
        status = stk_fail(err, STOKER_ERR_WRONG_STATE, "the client of this loader was closed");
    if (status == STOKER_OK && loader->generation == 0)
        status = stk_fail(err, STOKER_ERR_WRONG_STATE, "an exchange before stoker_loader_begin()");
    stk_mutex_unlock(loader->client->lock);
    return status;
}

STOKER_API stoker_status stoker_loader_gather(stoker_loader *loader, const stoker_gather *gather, stoker_error *err)
{
    uint8_t ranks[4 * STOKER_BALANCE_RANKS_MAX];
    if (gather->rank_count > STOKER_BALANCE_RANKS_MAX || gather->size > STOKER_GATHER_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "%zu ranks gather %zu bytes of this one, expected at most %d ranks and %d bytes",
                        gather->rank_count, gather->size, STOKER_BALANCE_RANKS_MAX, STOKER_GATHER_BYTES_MAX);
    for (size_t i = 0; i < gather->rank_count; i++) {
        for (int byte = 0; byte < 4; byte++) ranks[4 * i + (size_t)byte] = (uint8_t)(gather->ranks[i] >> (8 * byte));
        for (size_t j = 0; j < i; j++)
            if (gather->ranks[i] == gather->ranks[j])
                return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rank %u gathers twice", gather->ranks[i]);
    }
    STK_TRY(check_begun(loader, err));
    struct stk_message_gather message = {.loader_id = loader->loader_id,
                                         .generation = loader->generation, /* written by this thread only */
                                         .number = gather->number,
                                         .ranks = {ranks, 4 * gather->rank_count},
                                         .data = {gather->data, gather->size}};
    stoker_status status;
    STK_CLIENT_SEND(status, loader->client, STK_MESSAGE_GATHER, gather, &message, err);
    return status;
}

/* The first of `heard` that ends a wait: a batch of this number, or what was gathered for it. */
static struct stk_ticket **find_locked(struct stoker_loader *loader, uint64_t number, bool batches)
{
    for (struct stk_ticket **at = &loader->heard; *at; at = &(*at)->next)
        if ((*at)->sequence == number && ((*at)->state == STK_TICKET_READY) == batches) return at;
    return NULL;
}

/* A failure that came after the gathering: of a rank that left in the middle of the exchange. */
static struct stk_ticket **find_failure_locked(struct stoker_loader *loader, uint64_t number)
{
    struct stk_ticket **at = find_locked(loader, number, false);
    return at && (*at)->failure->error.status < 0 ? at : NULL;
}

static stoker_status wait_heard(struct stoker_loader *loader, uint64_t number, bool batches, uint64_t timeout_ns,
                                struct stk_ticket **out_ticket, stoker_error *err)
{
    struct stoker_client *client = loader->client;
    uint64_t deadline_ns = stk_deadline_after(timeout_ns);
    bool in_time = true;
    STK_TRY(check_begun(loader, err));
    stk_mutex_lock(client->lock);
    loader->listening++;
    stoker_status status;
    for (;;) {
        struct stk_ticket **at = find_locked(loader, number, batches);
        if (!at && batches) at = find_failure_locked(loader, number);
        if (at) {
            *out_ticket = *at;
            *at = (*at)->next;
            (*out_ticket)->next = NULL;
            status = STOKER_OK;
            break;
        }
        status = loader->closed ? stk_fail(err, STOKER_ERR_WRONG_STATE, "the client of this loader was closed")
                                : stk_client_check_locked(client, err);
        if (status != STOKER_OK) break;
        if (!in_time) {
            status = STOKER_AGAIN;
            break;
        }
        in_time = stk_condition_wait(loader->answered, client->lock, deadline_ns);
    }
    loader->listening--;
    stk_mutex_unlock(client->lock);
    return status;
}

/* Keeps the answer until the next call; gives its status. */
static stoker_status keep_answer(struct stoker_loader *loader, struct stk_ticket *ticket, stoker_error *err)
{
    free(loader->last_failure);
    loader->last_failure = ticket->failure;
    free(ticket);
    stoker_status status = loader->last_failure->error.status;
    if (status < 0 && err) *err = loader->last_failure->error;
    return status;
}

STOKER_API stoker_status stoker_loader_gathered(stoker_loader *loader, uint64_t number, uint64_t timeout_ns,
                                                const void **out_data, size_t *out_size, stoker_error *err)
{
    struct stk_ticket *ticket = NULL;
    stoker_status status = wait_heard(loader, number, false, timeout_ns, &ticket, err);
    if (status != STOKER_OK) return status;
    STK_TRY(keep_answer(loader, ticket, err));
    *out_data = loader->last_failure->detail;
    *out_size = loader->last_failure->detail_size;
    return STOKER_OK;
}

STOKER_API stoker_status stoker_loader_give(stoker_loader *loader, stoker_batch *batch, uint32_t to_rank,
                                            uint64_t number, uint32_t tag, stoker_error *err)
{
    uint8_t bytes[8192];
    STK_TRY(check_begun(loader, err));
    /* acquire: what other threads wrote before they dropped their references comes before the other rank's reads. */
    uint32_t refs = atomic_load_explicit(&batch->refs, memory_order_acquire);
    if (refs != 1)
        return stk_fail(err, STOKER_ERR_WRONG_STATE,
                        "the sample is still viewed (%u references): a sample that goes to rank %u must not be kept",
                        refs - 1, to_rank);
    if (batch->slab_id == 0 || batch->core != loader->client->core)
        return stk_fail(err, STOKER_ERR_WRONG_STATE,
                        "the sample is a private copy, since the round does not fit the memory of the loader: raise "
                        "max_bytes, or lower the number of samples of a round");
    struct stk_writer writer = {.data = bytes, .size = sizeof bytes};
    batch->ready.region.fd_sent = 0;
    stk_ready_encode(&writer, &batch->ready);
    STK_ASSERT(!writer.full);
    struct stk_message_give message = {.loader_id = loader->loader_id,
                                       .generation = loader->generation,
                                       .number = number,
                                       .rank = to_rank,
                                       .tag = tag,
                                       .ready = {bytes, writer.used}};
    stoker_status status;
    STK_CLIENT_SEND(status, loader->client, STK_MESSAGE_GIVE, give, &message, err);
    if (status == STOKER_OK) batch->slab_id = 0; /* not ours to release any more */
    return status;
}

STOKER_API stoker_status stoker_loader_take(stoker_loader *loader, uint64_t number, uint64_t timeout_ns,
                                            stoker_batch **out_batch, uint32_t *out_tag, stoker_error *err)
{
    struct stk_ticket *ticket = NULL;
    stoker_status status = wait_heard(loader, number, true, timeout_ns, &ticket, err);
    if (status != STOKER_OK) return status;
    if (ticket->state == STK_TICKET_FAILED) return keep_answer(loader, ticket, err);
    stk_batch_hand_out(ticket->batch);
    *out_batch = ticket->batch;
    *out_tag = ticket->tasks_retried;
    free(ticket);
    return STOKER_OK;
}
