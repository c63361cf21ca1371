/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. A lane is one loader of one rank: its options, its source, its plan of requests, its workers
 * if it has its own.
 *
 * A lane closes in steps: no new work, cancelled batches end as their workers report, its own workers end; the last of
 * these frees the entry (stk_lane_settle). Its loader id is free at once; slabs that the rank still views outlive it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/server_internal.h"

static uint32_t crew_of(const struct stk_lane *lane)
{
    return lane->kind == STK_SOURCE_PROCESS ? lane->index + 1 : STK_CREW_NATIVE;
}

struct stk_lane *stk_lane_find(struct stk_connection *connection, uint32_t loader_id)
{
    struct stk_server *server = connection->server;
    for (uint32_t i = 0; i < server->lane_high; i++) {
        struct stk_lane *lane = &server->lanes[i];
        if (lane->connection == connection->index && lane->loader_id == loader_id &&
            (lane->state == STK_LANE_OPENING || lane->state == STK_LANE_OPEN))
            return lane;
    }
    return NULL;
}

/* ---- sources */

static int take_fd(struct stk_incoming *in, uint32_t index)
{
    if (index >= in->fd_count) return -1;
    int fd = in->fds[index];
    in->fds[index] = -1;
    return fd;
}

/* Ranks of one job bring the same dataset: its blob is kept, mapped and sent to workers once. Process sources belong
 * to one rank (its environment is in the blob). */
static stoker_status share_source(struct stk_server *server, uint32_t kind, struct stk_incoming *in,
                                  uint32_t *out_entry, stoker_error *err)
{
    stoker_source *source;
    int blob_fd = take_fd(in, 0), payload_fd = kind == STK_SOURCE_PROCESS ? take_fd(in, 1) : -1;
    if (blob_fd < 0) return stk_fail(err, STOKER_ERR_PROTOCOL, "a loader was opened without its source");
    STK_TRY(stk_source_open_blob(kind, blob_fd, payload_fd, &source, err));
    uint32_t free_entry = STK_NONE;
    for (uint32_t i = 0; i < STK_LANES_MAX; i++) {
        struct stk_shared_source *shared = &server->sources[i];
        if (shared->source_id == 0) {
            if (free_entry == STK_NONE) free_entry = i;
            continue;
        }
        if (kind == STK_SOURCE_PROCESS || shared->source->kind != source->kind ||
            memcmp(shared->source->digest, source->digest, sizeof source->digest) != 0)
            continue;
        stoker_source_close(source);
        shared->users++;
        *out_entry = i;
        return STOKER_OK;
    }
    STK_ASSERT(free_entry != STK_NONE); /* there are as many entries as lanes */
    server->sources[free_entry] = (struct stk_shared_source){++server->source_count, 1, source};
    *out_entry = free_entry;
    return STOKER_OK;
}

static void drop_source(struct stk_server *server, uint32_t entry)
{
    struct stk_shared_source *shared = &server->sources[entry];
    if (--shared->users > 0) return;
    struct stk_message_source message = {shared->source_id, 0};
    uint32_t cursor = 0;
    for (struct stk_worker *worker; (worker = stk_pool_walk(server->pool, &cursor));) {
        if (!(worker->sources[entry / 8] >> (entry % 8) & 1)) continue;
        worker->sources[entry / 8] &= (uint8_t) ~(1u << (entry % 8));
        STK_LINK_SEND(&worker->link, &server->loop, STK_MESSAGE_SOURCE_DROP, source, &message, NULL, 0);
    }
    stoker_source_close(shared->source);
    *shared = (struct stk_shared_source){0};
}

/* ---- open */

/* Workers are shared: the strictest wish of all loaders counts. Connections are no wish, but what sources need. */
static void add_wish(struct stk_native_rights *rights, const struct stk_native_rights *wish)
{
    static const uint8_t strictness[] = {1, 2, 0}; /* auto, on, off */
    if (strictness[wish->isolation] > strictness[rights->isolation]) rights->isolation = wish->isolation;
    if (wish->max_bytes && (rights->max_bytes == 0 || wish->max_bytes < rights->max_bytes))
        rights->max_bytes = wish->max_bytes;
}

static stoker_status resize_native(struct stk_server *server, stoker_error *err)
{
    uint64_t total = 0;
    struct stk_native_rights rights = {STOKER_ISOLATION_OFF, 0, false};
    for (uint32_t i = 0; i < server->lane_high; i++) {
        const struct stk_lane *lane = &server->lanes[i];
        if (lane->kind != STK_SOURCE_PROCESS && (lane->state == STK_LANE_OPEN || lane->state == STK_LANE_OPENING)) {
            total += lane->num_workers;
            add_wish(&rights, &lane->rights);
            if (server->sources[lane->source].source->network) rights.network = true;
        }
    }
    if (total > 0) stk_pool_native_set_rights(server->pool, &rights);
    if (total > UINT32_MAX) total = UINT32_MAX;
    stk_dispatch_set_workers(server->dispatch, STK_POOL_NATIVE, (uint32_t)total);
    return stk_pool_native_resize(server->pool, (uint32_t)total, err);
}

/* Loaders of a job match by name, else by order of creation and dataset (rule B7). */
static uint32_t find_group(struct stk_server *server, const struct stk_lane *lane,
                           const struct stk_message_loader_open *message)
{
    uint8_t used[STK_LANES_MAX / 8] = {0};
    for (uint32_t i = 0; i < server->lane_high; i++) {
        const struct stk_lane *other = &server->lanes[i];
        if (other == lane || other->state == STK_LANE_FREE) continue;
        used[other->group / 8] |= (uint8_t)(1u << (other->group % 8));
        if (other->state == STK_LANE_CLOSING || other->connection == lane->connection) continue;
        bool same =
            other->name_size == message->name.size && memcmp(other->name, message->name.data, other->name_size) == 0;
        if (other->name_size == 0)
            same = same && other->order == message->order && memcmp(other->digest, message->digest.data, 32) == 0;
        if (same) return other->group;
    }
    uint32_t group = 0;
    while (used[group / 8] >> (group % 8) & 1) group++;
    return group;
}

static void note_options(struct stk_lane *lane, const struct stk_message_loader_open *message)
{
    lane->loader_id = message->loader_id;
    lane->kind = message->kind;
    lane->order = message->order;
    lane->num_workers = message->num_workers ? message->num_workers : 1;
    lane->batch_samples_max = message->batch_samples_max;
    lane->on_error = message->on_error;
    lane->retries = message->retries;
    lane->max_bytes = message->max_bytes ? message->max_bytes : STK_MAX_BYTES_DEFAULT;
    lane->stall_limit_ns = message->stall_limit_ns ? message->stall_limit_ns : STK_STALL_LIMIT_NS;
    lane->rights = (struct stk_native_rights){(stoker_isolation)message->isolation, message->worker_bytes, false};
    lane->sample_cpu_ns = message->sample_cpu_ns;
    lane->policy =
        message->quarantine.size && lane->on_error == STOKER_ON_ERROR_RAISE ? STK_POLICY_SKIP : lane->on_error;
    lane->name_size = message->name.size < sizeof lane->name ? message->name.size : sizeof lane->name;
    if (lane->name_size) memcpy(lane->name, message->name.data, lane->name_size);
    memcpy(lane->digest, message->digest.data, sizeof lane->digest);
}

/* Bytes of the lane's largest batch, 0 for a process source. */
static stoker_status measure(struct stk_server *server, struct stk_lane *lane, uint64_t *out_largest, stoker_error *err)
{
    *out_largest = 0;
    const stoker_source *source = server->sources[lane->source].source;
    lane->count = stoker_source_count(source);
    if (lane->kind == STK_SOURCE_PROCESS) return STOKER_OK;
    if (lane->batch_samples_max == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "batch_samples_max is required for a native source");
    struct stk_batch_layout layout;
    STK_TRY(stk_source_layout(source, lane->batch_samples_max, &layout, err));
    lane->sample_bytes = layout.sample_bytes;
    *out_largest = layout.total_bytes;
    return STOKER_OK;
}

static stoker_status start_workers(struct stk_server *server, struct stk_lane *lane, stoker_error *err)
{
    if (lane->kind == STK_SOURCE_PROCESS) {
        lane->crew_closed = false;
        stoker_status status = stk_pool_crew_open(server->pool, crew_of(lane), lane->num_workers,
                                                  server->sources[lane->source].source, err);
        if (status != STOKER_OK) lane->crew_closed = true;
        return status;
    }
    lane->crew_closed = true;
    if (stk_pool_crew_is_broken(server->pool, STK_CREW_NATIVE)) stk_pool_crew_retry(server->pool, STK_CREW_NATIVE);
    return resize_native(server, err);
}

static stoker_status open_list(struct stk_lane *lane, const struct stk_message_loader_open *message,
                               struct stk_incoming *in, stoker_error *err)
{
    if (message->quarantine.size == 0) return STOKER_OK;
    if (lane->kind == STK_SOURCE_PROCESS)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "a quarantine list needs a native source");
    return stk_quarantine_list_open(lane->server->quarantine, message->quarantine, take_fd(in, 1), &lane->list, err);
}

static void close_list(struct stk_lane *lane)
{
    stk_quarantine_list_close(lane->server->quarantine, lane->list);
    lane->list = NULL;
}

/* What may fail for reasons that the rank is told. The entry is left free on failure. */
static stoker_status open_lane(struct stk_lane *lane, const struct stk_message_loader_open *message,
                               struct stk_incoming *in, stoker_error *err)
{
    struct stk_server *server = lane->server;
    uint64_t largest;
    STK_TRY(share_source(server, message->kind, in, &lane->source, err));
    stoker_status status = open_list(lane, message, in, err);
    if (status == STOKER_OK) status = measure(server, lane, &largest, err);
    if (status != STOKER_OK) goto drop;
    status = stk_arena_lane_open(server->arena, lane->index, largest, lane->max_bytes, err);
    if (status != STOKER_OK) goto drop;
    struct stk_lane_options options = {crew_of(lane), STK_POLICY_RAISE, 0};
    if (lane->kind != STK_SOURCE_PROCESS) { /* policy and retries of Python samples are their worker's */
        /* Bad samples of a ragged batch are replaced by a new layout, not in their places (ragged.h). */
        bool ragged = stk_source_is_ragged(server->sources[lane->source].source);
        options.policy = ragged ? STK_POLICY_RAISE : lane->policy;
        options.retries = lane->retries;
    }
    status = stk_dispatch_lane_open(server->dispatch, lane->index, &options, err);
    if (status != STOKER_OK) goto close_arena;
    lane->state = STK_LANE_OPENING;
    lane->group = find_group(server, lane, message);
    stk_dispatch_lane_share(server->dispatch, lane->index, lane->group, 1);
    if (lane->kind == STK_SOURCE_PROCESS) stk_dispatch_set_workers(server->dispatch, crew_of(lane), lane->num_workers);
    status = start_workers(server, lane, err);
    if (status != STOKER_OK) goto close_dispatch;
    return STOKER_OK;

close_dispatch:
    lane->state = STK_LANE_FREE;
    stk_dispatch_lane_close(server->dispatch, lane->index);
close_arena:
    stk_arena_lane_close(server->arena, lane->index);
drop:
    close_list(lane);
    drop_source(server, lane->source);
    return status;
}

static void tell_failed(struct stk_connection *connection, uint32_t loader_id,
                        const struct stk_message_verdict *verdict)
{
    struct stk_message_verdict message = *verdict;
    message.loader_id = loader_id;
    stk_connection_send_verdict(connection, STK_MESSAGE_LOADER_FAILED, &message);
}

static void tell_error(struct stk_connection *connection, uint32_t loader_id, const stoker_error *err)
{
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    stk_error_text(err, text, sizeof text);
    tell_failed(connection, loader_id,
                &(struct stk_message_verdict){.status = err->status, .text = {text, strlen(text)}});
}

stoker_status stk_lane_open(struct stk_connection *connection, struct stk_incoming *in, stoker_error *err)
{
    struct stk_server *server = connection->server;
    struct stk_message_loader_open message;
    STK_TRY(stk_loader_open_decode(in->body, &message, err));
    if (message.digest.size != 32)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "the digest of a source has %zu bytes, expected 32",
                        message.digest.size);
    if (stk_lane_find(connection, message.loader_id))
        return stk_fail(err, STOKER_ERR_PROTOCOL, "loader %u was opened twice", message.loader_id);
    if (message.order >= connection->orders) connection->orders = message.order + 1;
    stoker_error open_err = {0};
    uint32_t index = 0;
    while (index < server->lane_high && server->lanes[index].state != STK_LANE_FREE) index++;
    if (index == STK_LANES_MAX) {
        (void)stk_fail(&open_err, STOKER_ERR_LIMIT, "%u loaders are open on this host, which is the limit",
                       STK_LANES_MAX);
        tell_error(connection, message.loader_id, &open_err);
        return STOKER_OK;
    }
    struct stk_lane *lane = &server->lanes[index];
    uint32_t *ring = lane->ring, ring_cap = lane->ring_cap;
    *lane = (struct stk_lane){
        .index = index, .server = server, .connection = connection->index, .ring = ring, .ring_cap = ring_cap};
    note_options(lane, &message);
    if (index == server->lane_high) server->lane_high++;
    if (open_lane(lane, &message, in, &open_err) != STOKER_OK) {
        tell_error(connection, message.loader_id, &open_err);
        return STOKER_OK;
    }
    stk_exchange_lane_opened(lane);
    stk_forecast_lane(lane, message.profile);
    stk_server_event(server,
                     (struct stk_event){.type = STK_EVENT_LANE_OPEN, .lane = index, .server = 0, .group = lane->group});
    if (lane->kind != STK_SOURCE_PROCESS) stk_lane_opened(lane);
    return STOKER_OK;
}

void stk_lane_opened(struct stk_lane *lane)
{
    if (lane->state != STK_LANE_OPENING) return;
    lane->state = STK_LANE_OPEN;
    struct stk_message_verdict verdict = {.loader_id = lane->loader_id};
    char list[STOKER_DIGEST_HEX_BYTES + 24];
    if (lane->list) {
        int size =
            snprintf(list, sizeof list, "%s %llu", lane->list->bad.digest, (unsigned long long)lane->list->bad.count);
        verdict.text = (struct stk_span){list, size > 0 ? (size_t)size : 0};
    }
    lane->server->connections[lane->connection].had_loader = true;
    stk_connection_send_verdict(&lane->server->connections[lane->connection], STK_MESSAGE_LOADER_OPENED, &verdict);
}

/* ---- iterations */

static void cancel_all(struct stk_lane *lane)
{
    struct stk_server *server = lane->server;
    /* What the engine was asked before is decided first: its answers belong to the iteration that ends here. */
    stk_coordinator_step(server->coordinator, server->now_ns);
    stk_flow_drop_held(lane);
    lane->untaken = 0;
    size_t count = stk_dispatch_cancel(server->dispatch, lane->index, server->scratch, STK_BATCHES_MAX);
    lane->ring_count = 0;
    lane->ring_base = 0;
    lane->next_sequence = 0;
    lane->turn = (struct stk_turn){0};
    for (size_t i = 0; i < count; i++) stk_request_settle(server, server->scratch[i], STK_VERDICT_CANCELED);
}

stoker_status stk_lane_begin(struct stk_connection *connection, const struct stk_message_loader_ref *ref,
                             stoker_error *err)
{
    struct stk_lane *lane = stk_lane_find(connection, ref->loader_id);
    if (!lane) return stk_fail(err, STOKER_ERR_PROTOCOL, "loader %u is not open", ref->loader_id);
    if (ref->generation <= lane->generation)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "iteration %u of loader %u begins after iteration %u",
                        ref->generation, ref->loader_id, lane->generation);
    cancel_all(lane);
    lane->generation = ref->generation;
    stk_server_event(lane->server, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = lane->index});
    if (lane->broken) { /* another iteration, another try */
        lane->broken = false;
        stk_pool_crew_retry(lane->server->pool, crew_of(lane));
    }
    return STOKER_OK;
}

static stoker_status check_request(const struct stk_lane *lane, const struct stk_message_request *message,
                                   stoker_error *err)
{
    if (message->sequence != lane->next_sequence)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "batch %llu was requested, expected %llu",
                        (unsigned long long)message->sequence, (unsigned long long)lane->next_sequence);
    if (lane->kind == STK_SOURCE_PROCESS) {
        if (message->ids.size || !message->payload.size || message->payload.size > STK_PAYLOAD_BYTES_MAX)
            return stk_fail(err, STOKER_ERR_PROTOCOL,
                            "a batch of a process source needs a payload of 1 to %u bytes and no ids",
                            STK_PAYLOAD_BYTES_MAX);
        return STOKER_OK;
    }
    if (message->payload.size || !message->ids.size || message->ids.size / 8 > lane->batch_samples_max)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "a batch of this source needs 1 to %u ids and no payload, not %zu",
                        lane->batch_samples_max, message->ids.size / 8);
    for (size_t at = 0; at + 8 <= message->ids.size; at += 8) {
        uint64_t id = stk_load_u64((const uint8_t *)message->ids.data + at);
        if (id >= lane->count)
            return stk_fail(err, STOKER_ERR_PROTOCOL, "sample %llu was requested of %llu", (unsigned long long)id,
                            (unsigned long long)lane->count);
    }
    return STOKER_OK;
}

static stoker_status take_turn(struct stk_lane *lane, const struct stk_message_request *message, uint64_t *out_turn,
                               stoker_error *err)
{
    const uint8_t *numbers = message->draws.data;
    bool in_parts = lane->kind == STK_SOURCE_PROCESS && message->draws.size > 0;
    uint64_t part = in_parts ? stk_load_u64(numbers) : 0, parts = in_parts ? stk_load_u64(numbers + 8) : 1;
    if (part < parts && parts <= STK_BATCH_SAMPLES_MAX && message->sequence - lane->turn.batch < UINT32_MAX &&
        stk_turn_take(&lane->turn, (uint32_t)part, (uint32_t)parts, out_turn))
        return STOKER_OK;
    return stk_fail(err, STOKER_ERR_PROTOCOL, "part %llu of %llu of a batch was requested after %u of %u parts",
                    (unsigned long long)part, (unsigned long long)parts, lane->turn.part, lane->turn.parts);
}

static bool ring_push(struct stk_lane *lane, uint32_t request)
{
    if (lane->ring_count == lane->ring_cap) {
        uint32_t cap = lane->ring_cap ? 2 * lane->ring_cap : 16;
        uint32_t *ring = malloc(cap * sizeof *ring);
        if (!ring) return false;
        for (uint32_t i = 0; i < lane->ring_count; i++)
            ring[(lane->ring_base + i) & (cap - 1)] = lane->ring[(lane->ring_base + i) & (lane->ring_cap - 1)];
        free(lane->ring);
        lane->ring = ring;
        lane->ring_cap = cap;
    }
    lane->ring[(lane->ring_base + lane->ring_count++) & (lane->ring_cap - 1)] = request;
    return true;
}

stoker_status stk_lane_request(struct stk_connection *connection, const struct stk_message_request *message,
                               stoker_error *err)
{
    struct stk_server *server = connection->server;
    struct stk_lane *lane = stk_lane_find(connection, message->loader_id);
    if (!lane || lane->state != STK_LANE_OPEN)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "loader %u is not open", message->loader_id);
    if (message->generation != lane->generation || lane->generation == 0)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "a request of iteration %u came in iteration %u", message->generation,
                        lane->generation);
    STK_TRY(check_request(lane, message, err));
    uint64_t turn;
    STK_TRY(take_turn(lane, message, &turn, err));
    stoker_error request_err = {0};
    struct stk_request *request = stk_request_create(lane, message, &request_err);
    if (!request || !ring_push(lane, request->index)) {
        struct stk_message_failed failed = {lane->loader_id,
                                            lane->generation,
                                            message->sequence,
                                            STOKER_ERR_LIMIT,
                                            0,
                                            {request_err.message, strlen(request_err.message)},
                                            {0}};
        STK_LINK_SEND(&connection->link, &server->loop, STK_MESSAGE_FAILED, failed, &failed, NULL, 0);
        if (request) stk_request_free(server, request);
        lane->next_sequence++;
        if (lane->ring_count == 0)
            lane->ring_base = lane->next_sequence;
        else if (!ring_push(lane, STK_NONE))
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for one more request");
        return STOKER_OK;
    }
    lane->next_sequence++;
    request->turn = turn;
    request->is_last = lane->turn.part == 0;
    struct stk_event event = stk_request_event(request, STK_EVENT_REQUEST);
    event.items = lane->kind == STK_SOURCE_PROCESS ? 1 : request->sample_count;
    stk_forecast_request(server, lane, request, &event);
    stk_server_event(server, event);
    return STOKER_OK;
}

/* ---- the end */

void stk_lane_break(struct stk_lane *lane, const struct stk_message_verdict *verdict)
{
    struct stk_server *server = lane->server;
    if (lane->state != STK_LANE_OPENING && lane->state != STK_LANE_OPEN) return;
    stk_log(&server->log, STOKER_LOG_WARN, "loader_broken", "loader %u of rank %u: %.*s", lane->loader_id,
            server->connections[lane->connection].rank, (int)verdict->text.size, (const char *)verdict->text.data);
    if (lane->state == STK_LANE_OPENING) {
        tell_failed(&server->connections[lane->connection], lane->loader_id, verdict);
        lane->doomed = true; /* closed by the sweep: the pool is in the middle of telling us */
        server->busy = true;
        return;
    }
    lane->broken = true;
    lane->broken_status = verdict->status;
    (void)snprintf(lane->broken_text, sizeof lane->broken_text, "%.*s", (int)verdict->text.size,
                   (const char *)verdict->text.data);
    uint32_t cursor = UINT32_MAX, batch;
    while (stk_dispatch_walk(server->dispatch, lane->index, &cursor, &batch)) {
        struct stk_batch_state state;
        stk_dispatch_read(server->dispatch, batch, &state);
        struct stk_request *request = stk_request_of_batch(server, batch);
        if (state.canceled || state.failed || request->held) continue; /* held: it is made, and will be sent */
        stk_request_fail(request, verdict->status, verdict->text, verdict->detail);
        stk_request_settle(server, batch, stk_dispatch_fail(server->dispatch, batch));
    }
}

void stk_lane_close(struct stk_lane *lane, bool at_once)
{
    struct stk_server *server = lane->server;
    if (lane->state == STK_LANE_FREE) return;
    if (lane->state == STK_LANE_CLOSING) {
        if (at_once && !lane->crew_closed) stk_pool_crew_close(server->pool, crew_of(lane), true);
        return;
    }
    cancel_all(lane);
    lane->state = STK_LANE_CLOSING;
    stk_server_event(server, (struct stk_event){.type = STK_EVENT_LANE_CLOSE, .lane = lane->index});
    stk_flow_forget_lane(lane);
    if (!lane->crew_closed)
        stk_pool_crew_close(server->pool, crew_of(lane), at_once);
    else
        (void)resize_native(server, NULL); /* fewer workers: cannot fail for want of anything */
    server->busy = server->grants = true;
    stk_lane_settle(lane);
}

void stk_lane_settle(struct stk_lane *lane)
{
    struct stk_server *server = lane->server;
    if (lane->state != STK_LANE_CLOSING || lane->live > 0 || !lane->crew_closed) return;
    stk_dispatch_lane_close(server->dispatch, lane->index);
    stk_arena_lane_close(server->arena, lane->index);
    close_list(lane);
    drop_source(server, lane->source);
    /* The engine forgets the lane before its number can be used again. */
    stk_coordinator_step(server->coordinator, server->now_ns);
    lane->state = STK_LANE_FREE;
    server->busy = server->grants = true;
}

void stk_lanes_check(struct stk_server *server)
{
    for (uint32_t i = 0; i < server->lane_high; i++)
        if (server->lanes[i].doomed && server->lanes[i].state != STK_LANE_FREE) {
            server->lanes[i].doomed = false;
            stk_lane_close(&server->lanes[i], true);
        }
}
