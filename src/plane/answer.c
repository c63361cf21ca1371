/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. What workers say (DONE, NEED), and what is done when they end or cannot be ended.
 *
 * A worker holds the slabs of its task until it has reported or is gone (rule A4); the arena is told here and only
 * here.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plane/server_internal.h"

#define DETAIL_NONE ((struct stk_span){0})

/* ---- DONE */

static stoker_status note_result(struct stk_lane *lane, struct stk_request *request,
                                 const struct stk_message_done *done, stoker_error *err)
{
    if (lane->kind != STK_SOURCE_PROCESS) return STOKER_OK;
    uint64_t room = request->slab.slab_id ? request->slab.size : 0;
    if (done->used > room)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "it used %llu bytes of a slab of %llu",
                        (unsigned long long)done->used, (unsigned long long)room);
    request->used = done->used;
    request->skeleton_offset = done->skeleton_offset;
    request->skeleton_size = done->skeleton_size;
    request->samples_skipped = done->samples_skipped;
    if (done->used > lane->largest)
        lane->largest = done->used; /* the arena raises the reserve with the next slab of it */
    return STOKER_OK;
}

/* The slabs of the finished task are its batch's again; those that the task outgrew are nobody's. */
static void return_slabs(struct stk_server *server, struct stk_worker *worker, uint64_t kept)
{
    for (uint32_t i = 0; i < worker->slab_count; i++) {
        stk_arena_returned(server->arena, worker->slabs[i], worker->process);
        if (worker->slabs[i] != kept)
            (void)stk_arena_free(server->arena, worker->slabs[i]); /* freed already if it is unknown */
    }
    worker->slab_count = 0;
    server->busy = server->grants = true;
}

static void restart(struct stk_server *server, uint32_t batch, uint64_t size);

/* The last item of a ragged batch has ended and places are marked: other ids, another layout, and all of it again.
 * False if there is nothing to put in their places: the batch fails for the last reason. */
static bool make_again(struct stk_server *server, const struct stk_lane *lane, struct stk_request *request,
                       uint64_t item_id)
{
    stoker_error err = {0};
    uint32_t batch = STK_NONE;
    if (!stk_ragged_substitute(request->ragged, lane->on_error, lane->count, &request->samples_skipped) ||
        !stk_blame_leave_out(server, lane, request))
        return false;
    stoker_status status =
        stk_ragged_lay_out(request->ragged, server->sources[lane->source].source, &request->layout, &err);
    if (status < 0) {
        stk_request_fail(request, status, (struct stk_span){err.message, strlen(err.message)}, DETAIL_NONE);
        return false;
    }
    (void)stk_dispatch_finish(server->dispatch, item_id, STK_OUTCOME_UNSTARTED, &batch); /* NONE: it is to do again */
    restart(server, batch, request->layout.total_bytes);
    return true;
}

/* An item whose worker has let go of it. */
struct ended {
    uint64_t item_id;
    uint32_t batch, index, attempt;
};

static struct ended item_of(const struct stk_worker *worker)
{
    return (struct ended){worker->item_id, worker->batch, worker->index_in_batch, worker->attempt};
}

/* A sample of a ragged batch that is bad for good, where the policy is to go on, only has its place marked, so that all
 * bad ones of the batch are known when its last item ends. */
static void end_item(struct stk_server *server, const struct ended *item, enum stk_item_outcome outcome)
{
    struct stk_request *request = stk_request_of_batch(server, item->batch);
    struct stk_lane *lane = &server->lanes[request->lane];
    struct stk_batch_state state;
    stk_dispatch_read(server->dispatch, item->batch, &state);
    bool live = request->ragged && !state.canceled && !state.failed;
    if (live && outcome == STK_OUTCOME_BAD_DATA && lane->on_error != STOKER_ON_ERROR_RAISE &&
        item->attempt >= lane->retries) {
        stk_ragged_mark(request->ragged, item->index);
        outcome = STK_OUTCOME_OK;
    }
    if (live && outcome == STK_OUTCOME_OK && request->ragged->bad > 0 && state.items_left == 1) {
        if (make_again(server, lane, request, item->item_id)) return;
        outcome = STK_OUTCOME_FATAL;
    }
    uint32_t batch = STK_NONE;
    enum stk_batch_verdict verdict = stk_dispatch_finish(server->dispatch, item->item_id, outcome, &batch);
    stk_request_settle(server, batch, verdict);
}

/* The item of a worker has ended; the worker rests. */
static void finish(struct stk_server *server, struct stk_worker *worker, enum stk_item_outcome outcome)
{
    const struct ended item = item_of(worker);
    return_slabs(server, worker, stk_request_of_batch(server, worker->batch)->slab.slab_id);
    stk_pool_rest(worker);
    end_item(server, &item, outcome);
}

static stoker_status done(struct stk_server *server, struct stk_worker *worker, struct stk_span body, stoker_error *err)
{
    struct stk_message_done message;
    STK_TRY(stk_done_decode(body, &message, err));
    if (worker->item_id == 0 || message.item_id != worker->item_id)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "it answered task %llu, it has task %llu",
                        (unsigned long long)message.item_id, (unsigned long long)worker->item_id);
    if (worker->batch == STK_WORKER_NONE) { /* the batch was made elsewhere meanwhile (rule C3) */
        return_slabs(server, worker, 0);
        stk_pool_rest(worker);
        return STOKER_OK;
    }
    struct stk_request *request = stk_request_of_batch(server, worker->batch);
    struct stk_lane *lane = &server->lanes[request->lane];
    if (message.status >= 0) STK_TRY(note_result(lane, request, &message, err));
    stk_forecast_done(server, lane, request, worker, &message);
    enum stk_item_outcome outcome = stk_blame_outcome(lane, worker, message.status);
    if (outcome != STK_OUTCOME_OK) {
        char text[STK_TEXT_BYTES_MAX];
        struct stk_span full = stk_blame_text(server, lane, worker->sample_id, message.text, text);
        stk_request_fail(request, message.status, full, message.detail);
        const struct stk_bad_sample bad = {worker->sample_id, message.status, full, message.text};
        stk_blame_answer(server, lane, worker, &bad);
    }
    finish(server, worker, outcome);
    return STOKER_OK;
}

/* ---- NEED */

static stoker_status grow(struct stk_server *server, struct stk_worker *worker, uint64_t size,
                          struct stk_slab *out_slab, stoker_error *err)
{
    if (worker->batch == STK_WORKER_NONE)
        return stk_fail(err, STOKER_ERR_CANCELED, "the batch was made elsewhere meanwhile");
    struct stk_request *request = stk_request_of_batch(server, worker->batch);
    struct stk_batch_state state;
    stk_dispatch_read(server->dispatch, worker->batch, &state);
    if (state.canceled || state.failed) return stk_fail(err, STOKER_ERR_CANCELED, "the batch was cancelled");
    stoker_status status = stk_arena_alloc(server->arena, request->lane, size, true, out_slab, err);
    if (status == STOKER_AGAIN)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a batch of %llu bytes now", (unsigned long long)size);
    return status;
}

static stoker_status need(struct stk_server *server, struct stk_worker *worker, struct stk_span body, stoker_error *err)
{
    struct stk_message_need message;
    STK_TRY(stk_need_decode(body, &message, err));
    if (worker->item_id == 0 || message.item_id != worker->item_id)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "it asked for memory for task %llu, it has task %llu",
                        (unsigned long long)message.item_id, (unsigned long long)worker->item_id);
    if (worker->crew == STK_CREW_NATIVE || message.size == 0 || worker->slab_count == STK_WORKER_SLABS_MAX)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "it asked for %llu bytes where none may be asked for",
                        (unsigned long long)message.size);
    worker->told_more = true;
    struct stk_message_grant grant = {.item_id = message.item_id};
    struct stk_slab slab = {0};
    stoker_error grow_err = {0};
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    int fd = -1;
    if (grow(server, worker, message.size, &slab, &grow_err) == STOKER_OK) {
        fd = stk_flow_region(server, &slab, worker->process, &grant.region);
        /* The smaller slab stays the worker's until its task ends, so that it can copy from it. */
        worker->slabs[worker->slab_count++] = slab.slab_id;
        stk_request_of_batch(server, worker->batch)->slab = slab;
    } else {
        stk_error_text(&grow_err, text, sizeof text);
        grant.status = grow_err.status;
        grant.text = (struct stk_span){text, strlen(text)};
    }
    STK_LINK_SEND(&worker->link, &server->loop, STK_MESSAGE_GRANT, grant, &grant, &fd, fd >= 0 ? 1 : 0);
    return STOKER_OK;
}

/* A native worker says whether it has given up what it does not need. */
static stoker_status isolated(struct stk_server *server, struct stk_worker *worker, struct stk_span body,
                              stoker_error *err)
{
    struct stk_message_template_report report;
    STK_TRY(stk_template_report_decode(body, &report, err));
    if (worker->crew != STK_CREW_NATIVE || worker->isolated != STK_ISOLATED_UNKNOWN)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "it reported like a template, or twice");
    worker->isolated = report.text.size ? STK_ISOLATED_NO : STK_ISOLATED_YES;
    (void)snprintf(server->not_isolated, sizeof server->not_isolated, "%.*s", (int)report.text.size,
                   report.text.size ? (const char *)report.text.data : "");
    if (report.status >= 0) return STOKER_OK;
    char text[sizeof server->not_isolated + 128];
    int size = snprintf(text, sizeof text, "a worker cannot work as its options say (isolation, worker_max_bytes): %s",
                        server->not_isolated);
    const struct stk_message_verdict verdict = {.status = report.status, .text = {text, size > 0 ? (size_t)size : 0}};
    stk_pool_native_refused(server->pool, &verdict);
    return STOKER_OK;
}

static stoker_status message(void *user, struct stk_worker *worker, const struct stk_incoming *in, stoker_error *err)
{
    struct stk_server *server = user;
    switch (in->frame.type) {
    case STK_MESSAGE_DONE: return done(server, worker, in->body, err);
    case STK_MESSAGE_NEED: return need(server, worker, in->body, err);
    case STK_MESSAGE_TEMPLATE_REPORT: return isolated(server, worker, in->body, err);
    default: return stk_fail(err, STOKER_ERR_PROTOCOL, "a worker sent a message of type %u", in->frame.type);
    }
}

/* ---- the end of workers */

/* What is known of the item of a worker that has ended, or never will. */
static enum stk_item_outcome judge_loss(struct stk_server *server, const struct stk_worker *worker)
{
    if (stk_worker_never_began(worker)) return STK_OUTCOME_UNSTARTED;
    struct stk_request *request = stk_request_of_batch(server, worker->batch);
    struct stk_lane *lane = &server->lanes[request->lane];
    struct stk_bad_sample bad = {.sample_id = worker->sample_id};
    char cause[320], text[STK_TEXT_BYTES_MAX];
    enum stk_item_outcome outcome = stk_blame_loss(request, lane, worker, &bad.status);
    int used = snprintf(cause, sizeof cause, "worker %ld was lost while making it, try %u: %s", (long)worker->pid,
                        worker->attempt + 1, worker->ending);
    bad.cause = (struct stk_span){cause, used < (int)sizeof cause ? (size_t)used : sizeof cause - 1};
    bad.text = stk_blame_text(server, lane, worker->sample_id, bad.cause, text);
    stk_request_fail(request, bad.status, bad.text, DETAIL_NONE);
    if (outcome != STK_OUTCOME_LOST && worker->attempt >= lane->retries) stk_blame_bad(server, lane, &bad);
    return outcome;
}

static void gone(void *user, struct stk_worker *worker)
{
    struct stk_server *server = user;
    if (!worker->expected)
        stk_log(&server->log, STOKER_LOG_WARN, "worker_lost", "worker %ld %s%s", (long)worker->pid, worker->ending,
                worker->item_id ? "; its task is tried again elsewhere" : "");
    stk_arena_process_gone(server->arena, worker->process);
    uint64_t kept = 0;
    if (worker->item_id && worker->batch != STK_WORKER_NONE)
        kept = stk_request_of_batch(server, worker->batch)->slab.slab_id;
    return_slabs(server, worker, kept);
    if (worker->item_id == 0 || worker->batch == STK_WORKER_NONE) return;
    const struct ended item = item_of(worker);
    enum stk_item_outcome outcome = judge_loss(server, worker);
    worker->item_id = 0;
    end_item(server, &item, outcome);
}

/* The batch starts again in fresh memory; the old slab is quarantined until every worker that has it has reported or
 * is gone. */
static void restart(struct stk_server *server, uint32_t batch, uint64_t size)
{
    struct stk_request *request = stk_request_of_batch(server, batch);
    uint32_t cursor = 0;
    for (struct stk_worker *other; (other = stk_pool_walk(server->pool, &cursor));)
        if (other->item_id && other->batch == batch) other->batch = STK_WORKER_NONE;
    bool had_slab = request->slab.slab_id != 0;
    if (had_slab) (void)stk_arena_free(server->arena, request->slab.slab_id);
    request->slab.slab_id = 0;
    stk_dispatch_restart(server->dispatch, batch);
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    if (had_slab) status = stk_arena_alloc(server->arena, request->lane, size, true, &request->slab, &err);
    if (status == STOKER_OK) return;
    request->slab.slab_id = 0;
    if (status == STOKER_AGAIN) (void)stk_fail(&err, STOKER_ERR_NO_MEMORY, "no memory to make a batch again");
    stk_request_fail(request, err.status, (struct stk_span){err.message, strlen(err.message)}, DETAIL_NONE);
    stk_request_settle(server, batch, stk_dispatch_fail(server->dispatch, batch));
}

static void stuck(void *user, struct stk_worker *worker)
{
    struct stk_server *server = user;
    if (worker->item_id == 0 || worker->batch == STK_WORKER_NONE) return;
    uint32_t batch = STK_NONE;
    (void)judge_loss(server, worker); /* it may be busy in the kernel, which is no fault of the data */
    enum stk_batch_verdict verdict = stk_dispatch_finish(server->dispatch, worker->item_id, STK_OUTCOME_LOST, &batch);
    worker->batch = STK_WORKER_NONE; /* its item is settled; its slabs are when it is gone */
    server->busy = server->grants = true;
    struct stk_batch_state state;
    stk_dispatch_read(server->dispatch, batch, &state);
    if (verdict == STK_VERDICT_NONE && !state.canceled && !state.failed)
        restart(server, batch, stk_request_of_batch(server, batch)->slab.size);
    else
        stk_request_settle(server, batch, verdict);
}

/* ---- crews */

static void opened(void *user, uint32_t crew)
{
    struct stk_server *server = user;
    stk_lane_opened(&server->lanes[crew - 1]);
}

static void broken(void *user, uint32_t crew, const struct stk_message_verdict *verdict)
{
    struct stk_server *server = user;
    if (crew != STK_CREW_NATIVE) {
        stk_lane_break(&server->lanes[crew - 1], verdict);
        return;
    }
    for (uint32_t i = 0; i < server->lane_high; i++)
        if (server->lanes[i].kind != STK_SOURCE_PROCESS) stk_lane_break(&server->lanes[i], verdict);
}

static void closed(void *user, uint32_t crew)
{
    struct stk_server *server = user;
    struct stk_lane *lane = &server->lanes[crew - 1];
    lane->crew_closed = true;
    server->busy = true;
    stk_lane_settle(lane);
}

const struct stk_pool_ops stk_server_pool_ops = {message, gone, stuck, opened, broken, closed};
