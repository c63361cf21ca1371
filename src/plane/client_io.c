/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O thread of a client (client.h): returns dropped batches, sends what was queued, turns answers into batches
 * and failures, and notices the end of the DataServer. It sleeps in poll(); a wake-up or the socket ends the sleep.
 *
 * It alone touches the channel and the table of segments. Whatever goes wrong on the connection ends it: every later
 * call gets the cause. Batches of a connection that ended stay valid, their memory is mapped.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "control/channel.h"
#include "plane/client.h"
#include "sys/clock.h"
#include "sys/process.h"
#include "wire/exchange.h"

enum {
    RELEASE_IDS_MAX = 256, /* slabs in one RELEASE */
    SPARE_BATCHES_MAX =
        256, /* control blocks that are kept; a rank holds few batches, a list of thousands is an exception */
    NOTICE_ID_BYTES = 64
};
#define LOOK_NS (2 * STK_SECOND_NS)           /* how often a rank that waits looks at its DataServer */
#define STOPPED_LOOK_NS (5 * STK_SECOND_NS)   /* silence before a stopped one is told */
#define ASK_AFTER_NS (30 * STK_SECOND_NS)     /* silence before it is asked for a sign */
#define ANSWER_WITHIN_NS (10 * STK_SECOND_NS) /* it has one loop, which never waits */
#define TELL_AGAIN_NS (30 * STK_SECOND_NS)
#define STOP_TIMEOUT_NS (2 * STK_SECOND_NS) /* close does not wait longer for a DataServer that does not read */

/* ------------------------------------------------------------------------------------------------ dropped batches */

static stoker_status send_release(struct stoker_client *client, const uint8_t *ids, size_t count, stoker_error *err)
{
    if (count == 0) return STOKER_OK;
    struct stk_message_release release = {.slabs = {ids, count * sizeof(uint64_t)}};
    stoker_status status;
    STK_CHANNEL_SEND(status, client->core->channel, STK_MESSAGE_RELEASE, release, &release, NULL, 0, err);
    return status;
}

static stoker_status release_slab(struct stoker_client *client, uint64_t slab_id, stoker_error *err)
{
    uint8_t id[sizeof slab_id];
    stk_store_u64(id, slab_id);
    return send_release(client, id, 1, err);
}

static void recycle_batch(struct stoker_client *client, struct stoker_batch *batch)
{
    stk_batch_fini(batch);
    if (client->spare_batch_count == SPARE_BATCHES_MAX) {
        free(batch);
        return;
    }
    batch->next = client->spare_batches;
    client->spare_batches = batch;
    client->spare_batch_count++;
}

static stoker_status return_batches(struct stoker_client *client, struct stoker_batch *list, stoker_error *err)
{
    uint8_t ids[RELEASE_IDS_MAX * sizeof(uint64_t)];
    size_t count = 0;
    stoker_status status = STOKER_OK;
    while (list) {
        struct stoker_batch *next = list->next;
        if (list->slab_id) stk_store_u64(ids + sizeof(uint64_t) * count++, list->slab_id);
        recycle_batch(client, list);
        if (count == RELEASE_IDS_MAX && status >= 0) {
            status = send_release(client, ids, count, err);
            count = 0;
        } else if (count == RELEASE_IDS_MAX) {
            count = 0;
        }
        list = next;
    }
    return status < 0 ? status : send_release(client, ids, count, err);
}

/* ------------------------------------------------------------------------------------------------ sending */

static void take_queue(struct stoker_client *client)
{
    stk_mutex_lock(client->lock);
    client->sending = client->queue_first;
    client->queue_first = client->queue_last = NULL;
    stk_mutex_unlock(client->lock);
}

static stoker_status send_out(struct stk_channel *channel, const struct stk_out *out, stoker_error *err)
{
    struct stk_writer writer;
    STK_TRY(stk_channel_begin(channel, out->type, out->size, &writer, err));
    STK_ASSERT(writer.size - writer.used >= out->size);
    memcpy(writer.data + writer.used, out->body, out->size);
    writer.used += out->size;
    return stk_channel_end(channel, &writer, out->fds, out->fd_count, err);
}

/* Large requests wait here, not in the channel, while the DataServer does not read. */
static stoker_status send_queued(struct stoker_client *client, stoker_error *err)
{
    struct stk_channel *channel = client->core->channel;
    if (stk_channel_wants_write(channel)) STK_TRY(stk_channel_flush(channel, err));
    if (!client->sending) take_queue(client);
    while (client->sending && !stk_channel_wants_write(channel)) {
        struct stk_out *out = client->sending;
        STK_TRY(send_out(channel, out, err));
        client->sending = out->next;
        stk_client_out_recycle(client, out);
        if (!client->sending) take_queue(client);
    }
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------ answers */

/* A text from the wire becomes the message; one that does not fit loses its middle, since the cause stands at the
 * end. */
static void fill_error(stoker_error *error, int32_t status, struct stk_span text)
{
    stoker_status own = status < 0 ? (stoker_status)status : STOKER_ERR_PROTOCOL;
    const char *bytes = text.data;
    int size = (int)text.size, half = STOKER_ERROR_MESSAGE_BYTES / 2 - 4;
    memset(error, 0, sizeof *error);
    if (text.size < STOKER_ERROR_MESSAGE_BYTES) {
        (void)stk_fail(error, own, "%.*s", size, size ? bytes : "");
    } else {
        (void)stk_fail(error, own, "%.*s...%.*s", half, bytes, half, bytes + size - half);
    }
}

static struct stk_failure *make_failure(int32_t status, struct stk_span text, struct stk_span detail)
{
    struct stk_failure *failure = malloc(sizeof *failure + detail.size);
    if (!failure) return NULL;
    fill_error(&failure->error, status, text);
    failure->detail_size = detail.size;
    if (detail.size) memcpy(failure->detail, detail.data, detail.size);
    return failure;
}

static struct stoker_batch *take_block(struct stoker_client *client)
{
    struct stoker_batch *batch = client->spare_batches;
    if (!batch) return calloc(1, sizeof *batch);
    client->spare_batches = batch->next;
    client->spare_batch_count--;
    return batch;
}

static void warn_of_copies(struct stoker_client *client)
{
    if (client->copies_told) return;
    client->copies_told = true;
    stk_log(&client->log, STOKER_LOG_WARN, "batches_copied",
            "this rank keeps more batches than its reserve of shared memory: further ones are handed out as private "
            "copies until it "
            "drops some");
}

/* Maps the segment that came along, whether or not anybody still waits for the batch. */
static stoker_status map_region(struct stoker_client *client, struct stk_incoming *incoming,
                                const struct stk_message_region *region, struct stk_shm_mapping **out_mapping,
                                void **out_memory, stoker_error *err)
{
    if (region->fd_sent) {
        if (incoming->fd_count == 0)
            return stk_fail(err, STOKER_ERR_PROTOCOL, "READY: the segment's descriptor is missing");
        int fd = incoming->fds[0];
        incoming->fds[0] = -1;
        STK_TRY(stk_shm_table_add(client->table, region->segment_id, region->segment_bytes, fd, err));
    }
    return stk_shm_table_resolve(client->table, region->segment_id, region->offset, region->size, out_mapping,
                                 out_memory, err);
}

/* This process cannot have the batch (ulimit -v, a full table of mappings): the batch fails, the connection goes on. */
static stoker_status fail_ready(struct stoker_client *client, const struct stk_message_ready *ready,
                                const stoker_error *cause, stoker_error *err)
{
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    stk_error_text(cause, text, sizeof text);
    struct stk_failure *failure =
        make_failure(cause->status, (struct stk_span){text, strlen(text)}, (struct stk_span){0});
    struct stoker_loader *loader;
    stk_mutex_lock(client->lock);
    struct stk_ticket *ticket =
        stk_loader_ticket_locked(client, ready->loader_id, ready->generation, ready->sequence, &loader);
    if (ticket) {
        ticket->tasks_retried = ready->tasks_retried;
        ticket->failure = failure;
        failure = NULL;
        stk_loader_finish_locked(loader, ticket, STK_TICKET_FAILED);
    }
    stk_mutex_unlock(client->lock);
    free(failure);
    return release_slab(client, ready->region.slab_id, err);
}

static stoker_status on_ready(struct stoker_client *client, struct stk_incoming *incoming, stoker_error *err)
{
    struct stk_message_ready ready;
    struct stk_shm_mapping *mapping;
    void *memory;
    STK_TRY(stk_ready_decode(incoming->body, &ready, err));
    STK_TRY(stk_batch_check(&ready, err));
    stoker_error map_err = {0};
    stoker_status mapped = map_region(client, incoming, &ready.region, &mapping, &memory, &map_err);
    if (mapped == STOKER_ERR_NO_MEMORY) return fail_ready(client, &ready, &map_err, err);
    if (mapped < 0) {
        if (err) *err = map_err;
        return mapped;
    }
    struct stoker_batch *block = take_block(client);
    struct stoker_loader *loader;
    stk_mutex_lock(client->lock);
    struct stk_ticket *ticket =
        stk_loader_ticket_locked(client, ready.loader_id, ready.generation, ready.sequence, &loader);
    if (ticket) ticket->tasks_retried = ready.tasks_retried;
    bool kept = ticket && block;
    if (kept) {
        stk_batch_init(block, client->core, loader->held, &ready, mapping, memory);
        ticket->batch = block;
        stk_loader_finish_locked(loader, ticket, STK_TICKET_READY);
    } else if (ticket) {
        stk_loader_finish_locked(loader, ticket, STK_TICKET_FAILED); /* without a failure: no memory */
    }
    stk_mutex_unlock(client->lock);
    if (kept) {
        if (ready.flags & STK_READY_COPY) warn_of_copies(client);
        return STOKER_OK;
    }
    stk_shm_mapping_unref(mapping);
    if (block) {
        block->next = client->spare_batches;
        client->spare_batches = block;
        client->spare_batch_count++;
    }
    return release_slab(client, ready.region.slab_id, err);
}

static stoker_status on_failed(struct stoker_client *client, struct stk_span body, stoker_error *err)
{
    struct stk_message_failed failed;
    STK_TRY(stk_failed_decode(body, &failed, err));
    struct stk_failure *failure = make_failure(failed.status, failed.text, failed.detail);
    struct stoker_loader *loader;
    stk_mutex_lock(client->lock);
    struct stk_ticket *ticket =
        stk_loader_ticket_locked(client, failed.loader_id, failed.generation, failed.sequence, &loader);
    if (ticket) {
        ticket->tasks_retried = failed.tasks_retried;
        ticket->failure = failure;
        failure = NULL;
        stk_loader_finish_locked(loader, ticket, STK_TICKET_FAILED);
    }
    stk_mutex_unlock(client->lock);
    free(failure);
    return STOKER_OK;
}

/* Takes the ticket if the loader still iterates; false: nobody waits for it. */
static bool hear(struct stoker_client *client, uint32_t loader_id, uint32_t generation, struct stk_ticket *ticket)
{
    stk_mutex_lock(client->lock);
    struct stoker_loader *loader = stk_loader_find_locked(client, loader_id);
    bool taken = loader && loader->generation == generation;
    if (taken) {
        struct stk_ticket **end = &loader->heard;
        while (*end) end = &(*end)->next;
        *end = ticket;
        stk_condition_signal(loader->answered);
    }
    stk_mutex_unlock(client->lock);
    return taken;
}

static stoker_status on_gathered(struct stoker_client *client, struct stk_span body, stoker_error *err)
{
    struct stk_message_gathered gathered;
    STK_TRY(stk_gathered_decode(body, &gathered, err));
    struct stk_ticket *ticket = calloc(1, sizeof *ticket);
    struct stk_failure *answer = make_failure(gathered.status, gathered.text, gathered.data);
    if (!ticket || !answer) {
        free(ticket);
        free(answer);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu bytes that ranks told each other",
                        gathered.data.size);
    }
    answer->error.status = (stoker_status)gathered.status;
    *ticket = (struct stk_ticket){.sequence = gathered.number, .state = STK_TICKET_FAILED, .failure = answer};
    if (!hear(client, gathered.loader_id, gathered.generation, ticket)) stk_loader_dispose_tickets(ticket);
    return STOKER_OK;
}

static stoker_status on_given(struct stoker_client *client, struct stk_incoming *incoming, stoker_error *err)
{
    struct stk_message_give given;
    struct stk_message_ready ready;
    struct stk_shm_mapping *mapping;
    void *memory;
    STK_TRY(stk_give_decode(incoming->body, &given, err));
    STK_TRY(stk_ready_decode(given.ready, &ready, err));
    STK_TRY(stk_batch_check(&ready, err));
    STK_TRY(map_region(client, incoming, &ready.region, &mapping, &memory, err));
    stk_mutex_lock(client->lock);
    struct stoker_loader *loader = stk_loader_find_locked(client, given.loader_id);
    struct stk_held *held = loader && loader->generation == given.generation ? loader->held : NULL;
    if (held) stk_held_ref(held);
    stk_mutex_unlock(client->lock);
    struct stk_ticket *ticket = held ? calloc(1, sizeof *ticket) : NULL;
    struct stoker_batch *block = ticket ? take_block(client) : NULL;
    if (!block) {
        free(ticket);
        if (held) stk_held_unref(held);
        stk_shm_mapping_unref(mapping);
        return release_slab(client, ready.region.slab_id, err);
    }
    stk_batch_init(block, client->core, held, &ready, mapping, memory);
    stk_held_unref(held); /* the batch has its own */
    *ticket = (struct stk_ticket){
        .sequence = given.number, .state = STK_TICKET_READY, .tasks_retried = given.tag, .batch = block};
    if (!hear(client, given.loader_id, given.generation, ticket)) stk_loader_dispose_tickets(ticket);
    return STOKER_OK;
}

/* "<64 hexadecimal digits> <number of entries>", or nothing. */
static void note_quarantine_locked(struct stoker_loader *loader, struct stk_span text)
{
    const size_t digits = STOKER_DIGEST_HEX_BYTES - 1;
    const char *at = text.data;
    if (text.size < digits + 2 || at[digits] != ' ') return;
    memcpy(loader->quarantine_digest, at, digits);
    for (size_t i = digits + 1; i < text.size && at[i] >= '0' && at[i] <= '9'; i++)
        loader->quarantine_count = 10 * loader->quarantine_count + (uint64_t)(at[i] - '0');
}

static stoker_status on_verdict(struct stoker_client *client, uint16_t type, struct stk_span body, stoker_error *err)
{
    struct stk_message_verdict verdict;
    STK_TRY(stk_verdict_decode(body, &verdict, err));
    struct stk_failure *refusal = NULL;
    if (type == STK_MESSAGE_LOADER_FAILED) {
        refusal = make_failure(verdict.status, verdict.text, verdict.detail);
        if (!refusal)
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a refusal of %zu bytes", verdict.detail.size);
    }
    stk_mutex_lock(client->lock);
    struct stoker_loader *loader = stk_loader_find_locked(client, verdict.loader_id);
    if (loader && loader->state == STK_LOADER_OPENING) {
        if (!refusal) note_quarantine_locked(loader, verdict.text);
        loader->state = refusal ? STK_LOADER_REFUSED : STK_LOADER_OPEN;
        loader->refusal = refusal;
        refusal = NULL;
        stk_condition_signal(client->changed);
    }
    stk_mutex_unlock(client->lock);
    free(refusal);
    return STOKER_OK;
}

static stoker_status on_notice(struct stoker_client *client, struct stk_span body, stoker_error *err)
{
    struct stk_message_notice notice;
    char id[NOTICE_ID_BYTES];
    STK_TRY(stk_notice_decode(body, &notice, err));
    size_t size = notice.id.size < sizeof id ? notice.id.size : sizeof id - 1;
    if (size) memcpy(id, notice.id.data, size);
    id[size] = '\0';
    stk_log(&client->log, (stoker_log_level)notice.level, id, "%.*s", (int)notice.text.size,
            notice.text.size ? (const char *)notice.text.data : "");
    return STOKER_OK;
}

static stoker_status on_status(struct stoker_client *client, struct stk_span body, stoker_error *err)
{
    struct stk_message_status answer;
    STK_TRY(stk_status_decode(body, &answer, err));
    char *text = malloc(answer.text.size + 1);
    if (text) {
        if (answer.text.size) memcpy(text, answer.text.data, answer.text.size);
        text[answer.text.size] = '\0';
    }
    stk_mutex_lock(client->lock);
    for (struct stk_status_wait *wait = client->status_waits; wait; wait = wait->next) {
        if (wait->token != answer.token || wait->answered) continue;
        wait->text = text;
        wait->answered = true;
        text = NULL;
        stk_condition_signal(client->changed);
        break;
    }
    stk_mutex_unlock(client->lock);
    free(text);
    return STOKER_OK;
}

static stoker_status on_unmap(struct stoker_client *client, struct stk_span body, stoker_error *err)
{
    struct stk_message_unmap unmap;
    STK_TRY(stk_unmap_decode(body, &unmap, err));
    stk_shm_table_remove(client->table, unmap.segment_id);
    return STOKER_OK;
}

static stoker_status dispatch(struct stoker_client *client, struct stk_incoming *incoming, stoker_error *err)
{
    switch (incoming->frame.type) {
    case STK_MESSAGE_READY: return on_ready(client, incoming, err);
    case STK_MESSAGE_FAILED: return on_failed(client, incoming->body, err);
    case STK_MESSAGE_GATHERED: return on_gathered(client, incoming->body, err);
    case STK_MESSAGE_GIVEN: return on_given(client, incoming, err);
    case STK_MESSAGE_UNMAP: return on_unmap(client, incoming->body, err);
    case STK_MESSAGE_NOTICE: return on_notice(client, incoming->body, err);
    case STK_MESSAGE_STATUS: return on_status(client, incoming->body, err);
    case STK_MESSAGE_LOADER_OPENED:
    case STK_MESSAGE_LOADER_FAILED: return on_verdict(client, incoming->frame.type, incoming->body, err);
    default: return stk_fail(err, STOKER_ERR_PROTOCOL, "message %u is not one for a rank", incoming->frame.type);
    }
}

/* AGAIN: everything that arrived was handled. Anything else: the connection is over. */
static stoker_status receive_all(struct stoker_client *client, stoker_error *err)
{
    for (;;) {
        struct stk_incoming incoming;
        stoker_status status = stk_channel_receive(client->core->channel, &incoming, err);
        if (status != STOKER_OK) return status;
        status = dispatch(client, &incoming, err);
        if (status < 0) return status;
    }
}

/* ------------------------------------------------------------------------------------------------ the loop */

/* Tells everybody who waits, and everybody who will ask, how the connection ended. */
static void connection_ended(struct stoker_client *client, stoker_status status, const stoker_error *cause)
{
    stoker_error error = {0};
    long long pid = client->server_pid;
    if (status == STOKER_END || status == STOKER_ERR_UNAVAILABLE || status == STOKER_ERR_IO) {
        (void)stk_fail(&error, STOKER_ERR_UNAVAILABLE, "the DataServer (pid %lld) of this job is gone", pid);
    } else {
        error = *cause;
        stk_error_context(&error, "connection to the DataServer (pid %lld)", pid);
    }
    stk_mutex_lock(client->lock);
    client->gone = true;
    client->gone_error = error;
    for (struct stoker_loader *loader = client->loaders; loader; loader = loader->next)
        stk_condition_signal(loader->answered);
    stk_condition_signal(client->changed);
    stk_mutex_unlock(client->lock);
}

static bool is_finished(struct stoker_client *client)
{
    stk_mutex_lock(client->lock);
    bool stopping = client->stopping, queued = client->queue_first != NULL;
    stk_mutex_unlock(client->lock);
    if (!stopping) return false;
    if (!client->stop_deadline_ns) client->stop_deadline_ns = stk_clock_now_ns() + STOP_TIMEOUT_NS;
    if (!queued && !client->sending && !stk_channel_wants_write(client->core->channel)) {
        atomic_store(&client->core->say_bye, true);
        return true;
    }
    return stk_clock_now_ns() >= client->stop_deadline_ns;
}

static bool is_awaited(struct stoker_client *client)
{
    bool awaited = false;
    stk_mutex_lock(client->lock);
    for (const struct stoker_loader *loader = client->loaders; loader && !awaited; loader = loader->next) {
        awaited = loader->state == STK_LOADER_OPENING || loader->listening > 0;
        for (const struct stk_ticket *ticket = loader->first; ticket && !awaited; ticket = ticket->next)
            awaited = ticket->state == STK_TICKET_WAITING;
    }
    stk_mutex_unlock(client->lock);
    return awaited;
}

static void tell_silence(struct stoker_client *client, uint64_t now_ns, const char *what)
{
    char doing[256];
    if (client->told_ns && now_ns - client->told_ns < TELL_AGAIN_NS) return;
    client->told_ns = now_ns;
    stk_process_describe((pid_t)client->server_pid, doing, sizeof doing);
    stk_log(&client->log, STOKER_LOG_WARN, "dataserver_silent",
            "the DataServer (pid %lld) has said nothing for %.0f s: %s. This rank waits for it; %s",
            (long long)client->server_pid, (double)(now_ns - client->heard_ns) / 1e9, what, doing);
}

/* A batch may take minutes, so silence alone says nothing: a stopped process does, and one that leaves a question
 * open. */
static void look_at_server(struct stoker_client *client)
{
    uint64_t now_ns = stk_clock_now_ns(), silent_ns = now_ns - client->heard_ns;
    if (silent_ns < STOPPED_LOOK_NS) return;
    char state = stk_process_state((pid_t)client->server_pid); /* 0: not visible from here */
    if (state == 'T' || state == 't') {
        char what[96];
        (void)snprintf(what, sizeof what, "it is stopped; 'kill -CONT %lld' lets it go on",
                       (long long)client->server_pid);
        tell_silence(client, now_ns, what);
        return;
    }
    if (silent_ns < ASK_AFTER_NS) return;
    if (!client->asked_ns) {
        const struct stk_message_status query = {.token = 0, .text = {"", 0}}; /* nobody waits for token 0 */
        stoker_status status;
        STK_CLIENT_SEND(status, client, STK_MESSAGE_STATUS_QUERY, status, &query, NULL);
        (void)status; /* without memory it is asked at the next look */
        if (status == STOKER_OK) client->asked_ns = now_ns;
    } else if (now_ns - client->asked_ns >= ANSWER_WITHIN_NS) {
        tell_silence(client, now_ns, "it does not answer, and may hang or be starved of CPU time");
    }
}

static void wait_for_events(struct stoker_client *client)
{
    struct stk_channel *channel = client->core->channel;
    struct pollfd polled[2] = {
        {.fd = stk_channel_fd(channel), .events = (short)(POLLIN | (stk_channel_wants_write(channel) ? POLLOUT : 0))},
        {.fd = client->core->wake_fd, .events = POLLIN},
    };
    bool awaited = is_awaited(client);
    int timeout_ms = client->stop_deadline_ns ? (int)(STOP_TIMEOUT_NS / 1000000)
                     : awaited                ? (int)(LOOK_NS / 1000000)
                                              : -1;
    (void)poll(polled, 2, timeout_ms);              /* an interrupted poll is a wake-up like any other */
    if ((polled[0].revents & POLLIN) || !awaited) { /* silence begins when somebody waits */
        client->heard_ns = stk_clock_now_ns();
        client->asked_ns = client->told_ns = 0;
    } else {
        look_at_server(client);
    }
    if (polled[1].revents) stk_client_core_clear_wake(client->core);
}

/* AGAIN: go on. */
static stoker_status turn(struct stoker_client *client, stoker_error *err)
{
    stoker_status status = return_batches(client, stk_client_core_take(client->core), err);
    if (status >= 0) status = send_queued(client, err);
    /* What a server said before it ended is still read: its last message may be the reason. */
    if (status < 0 && status != STOKER_ERR_UNAVAILABLE) return status;
    return receive_all(client, err);
}

void stk_client_run(void *argument)
{
    struct stoker_client *client = argument;
    client->heard_ns = stk_clock_now_ns();
    for (;;) {
        stoker_error error = {0};
        stoker_status status = turn(client, &error);
        if (status != STOKER_AGAIN) {
            connection_ended(client, status, &error);
            break;
        }
        if (is_finished(client)) break;
        wait_for_events(client);
    }
    /* From here on a dropped batch is unmapped by whoever drops it. Its slab needs no RELEASE: the connection ends
     * with the last one. */
    struct stoker_batch *list = stk_client_core_shut(client->core);
    while (list) {
        struct stoker_batch *next = list->next;
        recycle_batch(client, list);
        list = next;
    }
}
