/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. The way of a request: placed by the engine, given memory in plan order (rule A1), handed out
 * to workers, and delivered or failed. Nothing here decides: order and turns are dispatch's, memory is the arena's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/server_internal.h"
#include "sys/clock.h"

enum { KEPT_BUFFER_BYTES = 1 << 20 }; /* larger request buffers are freed, not kept for the next */

/* ---- table of requests */

static bool fill_bytes(struct stk_request *request, struct stk_span bytes, struct stk_span draws, stoker_error *err)
{
    size_t size = bytes.size + draws.size; /* both were checked against the largest message */
    if (size > request->cap) {
        uint8_t *grown = realloc(request->bytes, size);
        if (!grown)
            return (void)stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request of %zu bytes", size), false;
        request->bytes = grown;
        request->cap = size;
    }
    memcpy(request->bytes, bytes.data, bytes.size);
    if (draws.size) memcpy(request->bytes + bytes.size, draws.data, draws.size);
    request->size = size;
    return true;
}

/* Where the randomness of an item of a native batch comes from. */
static uint64_t draw_of(const struct stk_request *request, uint32_t item)
{
    size_t at = 8 * ((size_t)request->sample_count + item);
    return at < request->size ? stk_load_u64(request->bytes + at) : 0;
}

/* Where everything of a native batch lies. */
static stoker_status lay_out(struct stk_lane *lane, struct stk_request *request, stoker_error *err)
{
    struct stk_server *server = lane->server;
    const struct stoker_source *source = server->sources[lane->source].source;
    if (!stk_source_is_ragged(source)) return stk_source_layout(source, request->sample_count, &request->layout, err);
    STK_TRY(stk_ragged_create(request->sample_count, &request->ragged, err));
    for (uint32_t i = 0; i < request->sample_count; i++) {
        struct stk_ragged_place *place = &request->ragged->place[i];
        place->id = place->planned = stk_load_u64(request->bytes + 8 * (size_t)i);
        place->draw = place->planned_draw = draw_of(request, i);
    }
    stoker_status status = stk_blame_leave_out(server, lane, request)
                               ? stk_ragged_lay_out(request->ragged, source, &request->layout, err)
                               : stk_fail(err, STOKER_ERR_CORRUPT,
                                          "all samples of the batch are on the quarantine list '%s'", lane->list->path);
    if (status < 0) {
        stk_ragged_destroy(request->ragged);
        request->ragged = NULL;
    }
    return status;
}

struct stk_request *stk_request_create(struct stk_lane *lane, const struct stk_message_request *message,
                                       stoker_error *err)
{
    struct stk_server *server = lane->server;
    bool native = lane->kind != STK_SOURCE_PROCESS;
    struct stk_span bytes = native ? message->ids : message->payload, draws = {0};
    if (native) draws = message->draws;
    if (lane->queued_bytes + bytes.size + draws.size > STK_QUEUED_BYTES_MAX) {
        (void)stk_fail(err, STOKER_ERR_LIMIT,
                       "the requests in flight of one loader take more than %llu bytes: request fewer ahead",
                       (unsigned long long)STK_QUEUED_BYTES_MAX);
        return NULL;
    }
    uint32_t index = server->request_free;
    if (index == STK_NONE && server->request_high == STK_BATCHES_MAX) {
        (void)stk_fail(err, STOKER_ERR_LIMIT, "%u batches are in flight, which is the limit: request fewer ahead",
                       STK_BATCHES_MAX);
        return NULL;
    }
    if (index == STK_NONE) index = server->request_high;
    struct stk_request *request = &server->requests[index];
    uint32_t next_free = index == server->request_high ? STK_NONE : request->next_free;
    struct stk_request fresh = {.index = index, .lane = lane->index, .generation = lane->generation, .batch = STK_NONE};
    fresh.bytes = request->bytes;
    fresh.cap = request->cap;
    fresh.next_free = next_free;
    *request = fresh;
    if (!fill_bytes(request, bytes, draws, err)) return NULL;
    if (native) {
        request->sample_count = (uint32_t)(bytes.size / 8);
        if (lay_out(lane, request, err) != STOKER_OK) return NULL;
    }
    if (index == server->request_high)
        server->request_high++;
    else
        server->request_free = next_free;
    request->payload_samples = message->samples;
    request->estimate_ns = message->estimate_ns;
    request->sequence = message->sequence;
    request->since_ns = server->now_ns;
    lane->queued_bytes += request->size;
    lane->live++;
    return request;
}

struct stk_request *stk_request_of_batch(struct stk_server *server, uint32_t batch)
{
    STK_ASSERT(batch < STK_BATCHES_MAX);
    STK_ASSERT(server->request_of_batch[batch] < server->request_high);
    return &server->requests[server->request_of_batch[batch]];
}

struct stk_request *stk_request_of_sequence(struct stk_server *server, uint32_t lane_index, uint64_t sequence)
{
    const struct stk_lane *lane = &server->lanes[lane_index];
    if (sequence < lane->ring_base || sequence - lane->ring_base >= lane->ring_count) return NULL;
    uint32_t index = lane->ring[sequence & (lane->ring_cap - 1)];
    return index == STK_NONE ? NULL : &server->requests[index];
}

struct stk_event stk_request_event(const struct stk_request *request, enum stk_event_type type)
{
    return (struct stk_event){.type = type,
                              .lane = request->lane,
                              .sequence = request->turn,
                              .part = (uint32_t)(request->sequence - request->turn),
                              .cpu_ns = request->cpu_ns,
                              .wall_ns = request->wall_ns};
}

static void leave_ring(struct stk_lane *lane, const struct stk_request *request)
{
    if (stk_request_of_sequence(lane->server, lane->index, request->sequence) == request)
        lane->ring[request->sequence & (lane->ring_cap - 1)] = STK_NONE;
    while (lane->ring_count > 0 && lane->ring[lane->ring_base & (lane->ring_cap - 1)] == STK_NONE) {
        lane->ring_base++;
        lane->ring_count--;
    }
}

void stk_request_free(struct stk_server *server, struct stk_request *request)
{
    struct stk_lane *lane = &server->lanes[request->lane];
    if (request->batch != STK_NONE) {
        stk_dispatch_remove(server->dispatch, request->batch);
        server->request_of_batch[request->batch] = STK_NONE;
        request->batch = STK_NONE;
    }
    if (request->slab.slab_id) (void)stk_arena_free(server->arena, request->slab.slab_id); /* ours until delivered */
    request->slab.slab_id = 0;
    bool current = request->generation == lane->generation && lane->state == STK_LANE_OPEN;
    if (current) leave_ring(lane, request);
    if (current && request->placed) stk_server_event(server, stk_request_event(request, STK_EVENT_RESULT));
    if (request->sizing) lane->sizing = false;
    lane->queued_bytes -= request->size;
    lane->live--;
    if (request->cap > KEPT_BUFFER_BYTES) {
        free(request->bytes);
        request->bytes = NULL;
        request->cap = 0;
    }
    stk_ragged_destroy(request->ragged);
    free(request->failure_text);
    free(request->detail);
    free(request->crashed);
    request->crashed = NULL;
    request->ragged = NULL;
    request->failure_text = NULL;
    request->detail = NULL;
    request->next_free = server->request_free;
    server->request_free = request->index;
    server->busy = server->grants = true;
    stk_lane_settle(lane);
}

void stk_request_fail(struct stk_request *request, stoker_status status, struct stk_span text, struct stk_span detail)
{
    if (request->failure_fixed) return;
    request->failure = status;
    free(request->detail);
    request->detail = NULL;
    request->detail_size = request->failure_size = 0;
    if (!request->failure_text) request->failure_text = malloc(STK_TEXT_BYTES_MAX);
    if (request->failure_text) { /* without memory the status alone must do */
        request->failure_size = text.size < STK_TEXT_BYTES_MAX ? text.size : STK_TEXT_BYTES_MAX;
        if (request->failure_size) memcpy(request->failure_text, text.data, request->failure_size);
    }
    if (detail.size == 0) return;
    request->detail = malloc(detail.size);
    if (!request->detail) return;
    memcpy(request->detail, detail.data, detail.size);
    request->detail_size = detail.size;
}

/* ---- placement */

static void fail_now(struct stk_server *server, struct stk_request *request, const stoker_error *err)
{
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    stk_error_text(err, text, sizeof text);
    stk_request_fail(request, err->status, (struct stk_span){text, strlen(text)}, (struct stk_span){0});
    stk_flow_report_failure(server, request);
    stk_request_free(server, request);
}

void stk_flow_place(struct stk_server *server, const struct stk_action *action)
{
    struct stk_lane *lane = &server->lanes[action->lane];
    struct stk_request *request = stk_request_of_sequence(server, action->lane, action->sequence + action->part);
    if (!request || lane->state != STK_LANE_OPEN) return; /* it was taken back meanwhile */
    if (action->type == STK_ACTION_DEADLINE) {
        if (request->batch != STK_NONE)
            stk_dispatch_set_deadline(server->dispatch, request->batch, action->deadline_ns);
        return;
    }
    if (action->type != STK_ACTION_PLACE) return; /* copies that lost are cancelled, and one server makes no copies */
    if (request->batch != STK_NONE) return;
    request->placed = true;
    stoker_error err = {0};
    if (lane->broken) {
        (void)stk_fail(&err, lane->broken_status, "%s", lane->broken_text);
        fail_now(server, request, &err);
        return;
    }
    uint32_t items = lane->kind == STK_SOURCE_PROCESS ? 1 : request->sample_count, batch;
    if (stk_dispatch_batch_add(server->dispatch, action->lane, request->generation, request->sequence, items,
                               action->deadline_ns, &batch, &err) != STOKER_OK) {
        fail_now(server, request, &err);
        return;
    }
    request->batch = batch;
    server->request_of_batch[batch] = request->index;
    stk_forecast_placed(server, lane, request, items);
    server->grants = true;
}

void stk_flow_refuse(struct stk_server *server, const struct stk_event *event, const stoker_error *err)
{
    struct stk_request *request = NULL;
    if (event->type == STK_EVENT_REQUEST)
        request = stk_request_of_sequence(server, event->lane, event->sequence + event->part);
    if (request)
        fail_now(server, request, err);
    else
        stk_log(&server->log, STOKER_LOG_WARN, "engine_refused", "the engine refused an event: %s", err->message);
}

/* ---- memory */

/* True: granted or failed, look for the next. False: the lane must wait. */
static bool grant(struct stk_server *server, struct stk_request *request)
{
    struct stk_lane *lane = &server->lanes[request->lane];
    bool native = lane->kind != STK_SOURCE_PROCESS;
    uint64_t bytes = native ? request->layout.total_bytes : lane->largest;
    stoker_error err = {0};
    if (!native && bytes == 0) {
        if (lane->sizing) return false;
        lane->sizing = request->sizing = true;
        stk_dispatch_granted(server->dispatch, request->batch);
        return true;
    }
    if (lane->sizing) return false; /* its first batch runs alone, although another has told the size meanwhile */
    stoker_status status = stk_arena_alloc(server->arena, lane->index, bytes, false, &request->slab, &err);
    if (status == STOKER_AGAIN) return false;
    if (status == STOKER_OK) {
        stk_dispatch_granted(server->dispatch, request->batch);
        return true;
    }
    request->slab.slab_id = 0;
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    stk_error_text(&err, text, sizeof text);
    stk_request_fail(request, err.status, (struct stk_span){text, strlen(text)}, (struct stk_span){0});
    stk_request_settle(server, request->batch, stk_dispatch_fail(server->dispatch, request->batch));
    return true;
}

static void grant_waiting(struct stk_server *server)
{
    uint8_t blocked[STK_LANES_MAX / 8] = {0};
    uint32_t batch;
    server->grants = false;
    while (stk_dispatch_next_waiting(server->dispatch, blocked, &batch)) {
        struct stk_request *request = stk_request_of_batch(server, batch);
        if (!grant(server, request)) blocked[request->lane / 8] |= (uint8_t)(1u << (request->lane % 8));
    }
}

int stk_flow_region(struct stk_server *server, const struct stk_slab *slab, uint32_t process,
                    struct stk_message_region *out)
{
    int fd;
    stk_arena_give(server->arena, slab->slab_id, process, &fd);
    *out = (struct stk_message_region){slab->slab_id, slab->segment_id, slab->segment_bytes,
                                       slab->offset,  slab->size,       fd >= 0};
    return fd;
}

/* ---- hand-out */

static void send_held(struct stk_lane *lane);

static void tell_source(struct stk_server *server, struct stk_worker *worker, uint32_t entry)
{
    if (worker->sources[entry / 8] >> (entry % 8) & 1) return;
    worker->sources[entry / 8] |= (uint8_t)(1u << (entry % 8));
    const struct stk_shared_source *shared = &server->sources[entry];
    struct stk_message_source message = {shared->source_id, shared->source->kind};
    STK_LINK_SEND(&worker->link, &server->loop, STK_MESSAGE_SOURCE, source, &message, &shared->source->blob_fd, 1);
}

static void hand_out(struct stk_server *server, struct stk_worker *worker, const struct stk_item *item)
{
    struct stk_request *request = stk_request_of_batch(server, item->batch);
    struct stk_lane *lane = &server->lanes[request->lane];
    struct stk_message_task task = {.item_id = item->item_id, .kind = STK_TASK_BATCH, .attempt = item->attempt};
    int fd = -1;
    stk_pool_engage(worker, server->now_ns, item->item_id, item->batch, lane->stall_limit_ns);
    worker->index_in_batch = item->index;
    worker->attempt = item->attempt;
    worker->told_more = false;
    if (request->slab.slab_id) {
        fd = stk_flow_region(server, &request->slab, worker->process, &task.target);
        worker->slabs[worker->slab_count++] = request->slab.slab_id;
    }
    if (lane->kind == STK_SOURCE_PROCESS) {
        task.payload = (struct stk_span){request->bytes, request->size};
    } else {
        uint64_t id = stk_load_u64(request->bytes + 8 * (size_t)item->index);
        tell_source(server, worker, lane->source);
        task.source_id = server->sources[lane->source].source_id;
        task.sample_id = worker->sample_id = (id + item->substitute) % lane->count;
        task.target.size = request->layout.total_bytes;
        task.samples = request->sample_count;
        task.index = item->index;
        task.kind = item->kind == STK_ITEM_COPY ? STK_TASK_COPY : STK_TASK_MAKE;
        worker->copies = item->kind == STK_ITEM_COPY;
        if (lane->sample_cpu_ns) stk_pool_limit_cpu(worker, server->now_ns, lane->sample_cpu_ns);
        task.draw = task.kind == STK_TASK_MAKE ? draw_of(request, item->index) : 0;
        if (item->kind == STK_ITEM_COPY) {
            task.from = task.target;
            task.from.fd_sent = 0;
            task.from_index = item->from_index;
        }
        if (request->ragged) {
            const struct stk_ragged_place *place = &request->ragged->place[item->index];
            task.sample_id = worker->sample_id = place->id;
            task.draw = place->draw;
            task.rows = request->ragged->rows, task.row = place->row;
        }
    }
    STK_LINK_SEND(&worker->link, &server->loop, STK_MESSAGE_TASK, task, &task, &fd, fd >= 0 ? 1 : 0);
}

void stk_flow_run(struct stk_server *server)
{
    for (uint32_t i = 0; i < server->lane_high; i++)
        if (server->lanes[i].held > 0) send_held(&server->lanes[i]);
    if (server->grants) grant_waiting(server);
    for (uint32_t crew = 0; crew <= server->lane_high; crew++) {
        struct stk_worker *worker;
        struct stk_item item;
        while ((worker = stk_pool_idle(server->pool, crew)) && stk_dispatch_pick(server->dispatch, crew, &item))
            if (!stk_blame_pass_over(server, &item)) hand_out(server, worker, &item);
    }
}

/* ---- delivery */

static bool note_delivered(struct stk_server *server, const struct stk_request *request, uint32_t connection)
{
    uint32_t entry = server->delivered_free;
    if (entry == STK_NONE && server->delivered_high == server->delivered_cap) {
        uint32_t cap = server->delivered_cap ? 2 * server->delivered_cap : 256;
        struct stk_delivered *grown = realloc(server->delivered, cap * sizeof *grown);
        if (!grown) return false;
        server->delivered = grown;
        server->delivered_cap = cap;
    }
    if (entry == STK_NONE) entry = server->delivered_high;
    if (!stk_map_add(&server->delivered_map, request->slab.slab_id, entry)) return false;
    if (entry == server->delivered_high)
        server->delivered_high++;
    else
        server->delivered_free = server->delivered[entry].next_free;
    server->delivered[entry] =
        (struct stk_delivered){request->slab.slab_id, request->slab, connection, request->lane, false, STK_NONE};
    server->connections[connection].delivered++;
    return true;
}

static void forget_delivered(struct stk_server *server, uint32_t entry)
{
    struct stk_delivered *delivered = &server->delivered[entry];
    (void)stk_map_remove(&server->delivered_map,
                         delivered->slab_id); /* it is in the map as long as the entry is in use */
    server->connections[delivered->connection].delivered--;
    delivered->slab_id = 0;
    delivered->next_free = server->delivered_free;
    server->delivered_free = entry;
}

/* The user keeps too much for another view. A copy would help a user who keeps batches for good, but not one who is
 * merely slow: as long as the rank has something older to take, it does not need this batch yet, and by then there may
 * be room. */
static bool can_wait(const struct stk_lane *lane, const struct stk_request *request)
{
    return lane->untaken > 0 && request->turn > lane->highest_sent;
}

static bool deliver(struct stk_server *server, struct stk_request *request, const struct stk_batch_state *state)
{
    struct stk_lane *lane = &server->lanes[request->lane];
    struct stk_connection *connection = &server->connections[lane->connection];
    struct stk_message_ready ready = {.loader_id = lane->loader_id,
                                      .generation = request->generation,
                                      .sequence = request->sequence,
                                      .samples_skipped = state->skipped + request->samples_skipped,
                                      .tasks_retried = state->retried,
                                      .ready_ns = stk_clock_now_ns() - request->since_ns};
    int fd = -1;
    if (request->slab.slab_id) {
        bool pinned = stk_arena_pin(server->arena, request->slab.slab_id);
        if (!pinned && can_wait(lane, request)) {
            if (!request->held) lane->held++;
            request->held = true;
            return true;
        }
        if (!note_delivered(server, request, connection->index)) return false;
        if (!pinned) ready.flags = STK_READY_COPY;
        fd = stk_flow_region(server, &request->slab, connection->process, &ready.region);
    }
    if (lane->kind == STK_SOURCE_PROCESS) {
        ready.region.size = request->used;
        ready.skeleton_offset = request->skeleton_offset;
        ready.skeleton_size = request->skeleton_size;
    } else {
        ready.region.size = request->layout.total_bytes;
        ready.leaf_count = request->layout.leaf_count;
        memcpy(ready.leaves, request->layout.leaves, sizeof ready.leaves);
    }
    STK_LINK_SEND(&connection->link, &server->loop, STK_MESSAGE_READY, ready, &ready, &fd, fd >= 0 ? 1 : 0);
    request->slab.slab_id = 0; /* the rank's now */
    if (request->held) lane->held--;
    request->held = false;
    if (request->is_last && (lane->untaken++ == 0 || request->turn > lane->highest_sent))
        lane->highest_sent = request->turn;
    lane->counts.batches++;
    lane->counts.samples += request->sample_count;
    lane->counts.skipped += ready.samples_skipped;
    lane->counts.retried += ready.tasks_retried;
    lane->counts.copies += ready.flags & STK_READY_COPY;
    return true;
}

void stk_flow_report_failure(struct stk_server *server, struct stk_request *request)
{
    struct stk_lane *lane = &server->lanes[request->lane];
    if (lane->state != STK_LANE_OPEN || request->generation != lane->generation) return;
    static const char unknown[] = "the batch failed for want of memory for the reason";
    struct stk_message_failed failed = {.loader_id = lane->loader_id,
                                        .generation = request->generation,
                                        .sequence = request->sequence,
                                        .status = request->failure < 0 ? request->failure : STOKER_ERR_INTERNAL,
                                        .text = {unknown, sizeof unknown - 1}};
    if (request->failure_text) failed.text = (struct stk_span){request->failure_text, request->failure_size};
    if (request->detail) failed.detail = (struct stk_span){request->detail, request->detail_size};
    if (request->batch != STK_NONE) {
        struct stk_batch_state state;
        stk_dispatch_read(server->dispatch, request->batch, &state);
        failed.tasks_retried = state.retried;
        lane->counts.retried += state.retried;
    }
    lane->counts.failed++;
    struct stk_connection *connection = &server->connections[lane->connection];
    STK_LINK_SEND(&connection->link, &server->loop, STK_MESSAGE_FAILED, failed, &failed, NULL, 0);
}

void stk_request_settle(struct stk_server *server, uint32_t batch, enum stk_batch_verdict verdict)
{
    if (verdict == STK_VERDICT_UNKNOWN) return;
    struct stk_request *request = stk_request_of_batch(server, batch);
    struct stk_batch_state state;
    stk_dispatch_read(server->dispatch, batch, &state);
    if (verdict == STK_VERDICT_NONE) {
        if (state.failed) request->failure_fixed = true;
        return;
    }
    if (verdict == STK_VERDICT_DONE && !deliver(server, request, &state)) {
        static const char text[] = "no memory to note a delivered batch";
        stk_request_fail(request, STOKER_ERR_NO_MEMORY, (struct stk_span){text, sizeof text - 1}, (struct stk_span){0});
        verdict = STK_VERDICT_FAILED;
    }
    if (request->held) return;
    if (verdict == STK_VERDICT_FAILED) stk_flow_report_failure(server, request);
    stk_request_free(server, request);
}

void stk_flow_taken(struct stk_lane *lane)
{
    if (lane->untaken > 0) lane->untaken--; /* a failed batch is taken without a step and was not counted */
    if (lane->held > 0) lane->server->busy = true;
}

void stk_flow_drop_held(struct stk_lane *lane)
{
    uint64_t end = lane->ring_base + lane->ring_count;
    for (uint64_t sequence = lane->ring_base; sequence < end && lane->held > 0; sequence++) {
        struct stk_request *request = stk_request_of_sequence(lane->server, lane->index, sequence);
        if (!request || !request->held) continue;
        request->held = false;
        lane->held--;
        stk_request_free(lane->server, request);
    }
}

/* Sends what had to wait and need not any more. */
static void send_held(struct stk_lane *lane)
{
    uint64_t end = lane->ring_base + lane->ring_count;
    for (uint64_t sequence = lane->ring_base; sequence < end && lane->held > 0; sequence++) {
        struct stk_request *request = stk_request_of_sequence(lane->server, lane->index, sequence);
        if (request && request->held) stk_request_settle(lane->server, request->batch, STK_VERDICT_DONE);
    }
}

/* ---- what ranks hold */

bool stk_flow_release(struct stk_connection *connection, uint64_t slab_id)
{
    struct stk_server *server = connection->server;
    uint32_t entry;
    if (!stk_map_find(&server->delivered_map, slab_id, &entry) ||
        server->delivered[entry].connection != connection->index)
        return false;
    bool freed = server->delivered[entry].freed;
    forget_delivered(server, entry);
    stk_arena_returned(server->arena, slab_id, connection->process);
    if (!freed) (void)stk_arena_free(server->arena, slab_id);
    server->busy = server->grants = true;
    return true;
}

bool stk_flow_pass(struct stk_connection *from, struct stk_connection *to, uint64_t slab_id,
                   struct stk_message_region *out, int *out_fd)
{
    struct stk_server *server = from->server;
    uint32_t entry;
    if (!stk_map_find(&server->delivered_map, slab_id, &entry) || server->delivered[entry].connection != from->index)
        return false;
    struct stk_delivered *delivered = &server->delivered[entry];
    *out_fd = stk_flow_region(server, &delivered->slab, to->process, out);
    stk_arena_returned(server->arena, slab_id, from->process);
    from->delivered--;
    to->delivered++;
    delivered->connection = to->index;
    return true;
}

void stk_flow_forget_rank(struct stk_connection *connection)
{
    struct stk_server *server = connection->server;
    uint32_t held = connection->delivered;
    for (uint32_t i = 0; i < server->delivered_high; i++) {
        struct stk_delivered *delivered = &server->delivered[i];
        if (delivered->slab_id == 0 || delivered->connection != connection->index) continue;
        if (!delivered->freed)
            (void)stk_arena_free(server->arena, delivered->slab_id); /* quarantined until its process ends */
        forget_delivered(server, i);
    }
    connection->delivered = held;
}

void stk_flow_forget_lane(struct stk_lane *lane)
{
    struct stk_server *server = lane->server;
    for (uint32_t i = 0; i < server->delivered_high; i++) {
        struct stk_delivered *delivered = &server->delivered[i];
        if (delivered->slab_id == 0 || delivered->freed || delivered->lane != lane->index) continue;
        (void)stk_arena_free(server->arena, delivered->slab_id); /* quarantined until the rank returns it */
        delivered->freed = true;
        delivered->lane = STK_NONE;
    }
}
