/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. Whose fault is a sample that could not be made, what is said of it, and what is remembered.
 *
 * Skipping is for faults of the data only (rule C1). A file is at fault if its decoder says so, if it needs more memory
 * or CPU time than its loader allows, and if it crashed two workers: a decoder that ends itself twice on the same bytes
 * will do so again. A worker that was killed from outside (the kernel's, or an operator's SIGKILL) or that waited too
 * long says nothing of the data.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plane/server_internal.h"

/* A worker's cause without the path that it begins with: the path stands in the sample's name already. */
static struct stk_span after_path(struct stk_span cause, const char *path)
{
    size_t size = strlen(path);
    const char *text = cause.data;
    if (cause.size < size + 2 || memcmp(text, path, size) != 0 || memcmp(text + size, ": ", 2) != 0) return cause;
    return (struct stk_span){text + size + 2, cause.size - size - 2};
}

static bool describe(struct stk_server *server, const struct stk_lane *lane, uint64_t sample_id, stoker_descriptor *out)
{
    return stoker_source_describe(server->sources[lane->source].source, sample_id, out, NULL) == STOKER_OK && out->path;
}

struct stk_span stk_blame_text(struct stk_server *server, const struct stk_lane *lane, uint64_t sample_id,
                               struct stk_span cause, char out[STK_TEXT_BYTES_MAX])
{
    int used = 0;
    stoker_descriptor descriptor;
    if (lane->kind != STK_SOURCE_PROCESS) {
        if (describe(server, lane, sample_id, &descriptor)) {
            used = snprintf(out, STK_TEXT_BYTES_MAX, "sample %llu ('%s'): ", (unsigned long long)sample_id,
                            descriptor.path);
            cause = after_path(cause, descriptor.path);
        } else {
            used = snprintf(out, STK_TEXT_BYTES_MAX, "sample %llu: ", (unsigned long long)sample_id);
        }
    }
    if (used >= (int)STK_TEXT_BYTES_MAX) used = STK_TEXT_BYTES_MAX - 1;
    size_t room = STK_TEXT_BYTES_MAX - (size_t)used;
    if (cause.size > room) cause.size = room;
    if (cause.size) memcpy(out + used, cause.data, cause.size);
    return (struct stk_span){out, (size_t)used + cause.size};
}

/* ---- whose fault */

static bool is_of_data(const struct stk_lane *lane, stoker_status status)
{
    switch (status) {
    case STOKER_ERR_NOT_FOUND:
    case STOKER_ERR_CORRUPT:
    case STOKER_ERR_MISMATCH:
    case STOKER_ERR_UNSUPPORTED: return true;
    case STOKER_ERR_LIMIT: return lane->kind == STK_SOURCE_MEDIA; /* the file is larger than any may be */
    default: return false;
    }
}

enum stk_item_outcome stk_blame_outcome(const struct stk_lane *lane, const struct stk_worker *worker,
                                        stoker_status status)
{
    if (status >= 0) return STK_OUTCOME_OK;
    if (lane->kind == STK_SOURCE_PROCESS)
        return STK_OUTCOME_FATAL; /* its worker has tried again, and skipped what may be */
    if (worker->attempt < lane->retries) return STK_OUTCOME_BAD_DATA;
    /* A list lets the batch get past what is on it, not past what is new. */
    return is_of_data(lane, status) && lane->on_error != STOKER_ON_ERROR_RAISE ? STK_OUTCOME_BAD_DATA
                                                                               : STK_OUTCOME_FATAL;
}

/* Signals that code brings upon itself. */
static bool crashed_itself(int signal_number)
{
    switch (signal_number) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS: return true;
    default: return false;
    }
}

/* Was it the second time that this item crashed its worker? Remembers the first. */
static bool crashed_before(struct stk_request *request, uint32_t index)
{
    if (!request->crashed) request->crashed = calloc((request->sample_count + 7) / 8, 1);
    if (!request->crashed) return false; /* without memory it stays a lost worker */
    bool before = request->crashed[index / 8] >> (index % 8) & 1;
    request->crashed[index / 8] |= (uint8_t)(1u << (index % 8));
    return before;
}

enum stk_item_outcome stk_blame_loss(struct stk_request *request, const struct stk_lane *lane,
                                     const struct stk_worker *worker, stoker_status *out_status)
{
    *out_status = worker->stalled || worker->overran ? STOKER_ERR_TIMEOUT : STOKER_ERR_LOST;
    if (lane->kind != STK_SOURCE_MEDIA || worker->copies) return STK_OUTCOME_LOST;
    bool of_data =
        worker->overran || (crashed_itself(worker->end_signal) && crashed_before(request, worker->index_in_batch));
    if (!of_data) return STK_OUTCOME_LOST;
    return lane->on_error == STOKER_ON_ERROR_RAISE ? STK_OUTCOME_FATAL : STK_OUTCOME_BAD_DATA;
}

/* ---- what is remembered */

/* The bytes of a file that changed or went are not at fault, and those that nobody has seen neither. */
static bool is_listable(stoker_status status, const stoker_descriptor *descriptor)
{
    bool never_there = descriptor->bytes == 0 && descriptor->mtime_ns == 0;
    return status != STOKER_ERR_MISMATCH && (status == STOKER_ERR_NOT_FOUND) == never_there;
}

void stk_blame_bad(struct stk_server *server, const struct stk_lane *lane, const struct stk_bad_sample *bad)
{
    stoker_descriptor descriptor;
    if (lane->on_error != STOKER_ON_ERROR_RAISE) {
        /* Only the rank whose sample it is is told: with a few bad files in a hundred the others would hear of nothing
         * else. */
        stk_log(&server->log, STOKER_LOG_INFO, "sample_skipped", "%.*s", (int)bad->text.size,
                (const char *)bad->text.data);
        stk_connection_notice(&server->connections[lane->connection], STOKER_LOG_WARN, "sample_skipped", bad->text);
    }
    if (!lane->list || !describe(server, lane, bad->sample_id, &descriptor)) return;
    if (!is_listable(bad->status, &descriptor)) return;
    char error[STK_TEXT_BYTES_MAX];
    struct stk_span cause = after_path(bad->cause, descriptor.path);
    size_t size = cause.size < sizeof error ? cause.size : sizeof error - 1;
    if (size) memcpy(error, cause.data, size);
    error[size] = 0;
    const stoker_quarantine_entry entry = {.path = descriptor.path,
                                           .bytes = descriptor.bytes,
                                           .mtime_ns = descriptor.mtime_ns,
                                           .status = bad->status,
                                           .error = error};
    stk_quarantine_note(server->quarantine, lane->list, &entry);
}

void stk_blame_answer(struct stk_server *server, const struct stk_lane *lane, const struct stk_worker *worker,
                      const struct stk_bad_sample *bad)
{
    bool native = lane->kind != STK_SOURCE_PROCESS;
    if (native && is_of_data(lane, bad->status) && worker->attempt >= lane->retries) stk_blame_bad(server, lane, bad);
}

static bool is_listed(struct stk_server *server, const struct stk_lane *lane, uint64_t sample_id)
{
    stoker_descriptor descriptor;
    return lane->list && lane->list->bad.count > 0 && describe(server, lane, sample_id, &descriptor) &&
           stk_badlist_holds(&lane->list->bad, descriptor.path, descriptor.bytes, descriptor.mtime_ns);
}

bool stk_blame_pass_over(struct stk_server *server, const struct stk_item *item)
{
    struct stk_request *request = stk_request_of_batch(server, item->batch);
    const struct stk_lane *lane = &server->lanes[request->lane];
    if (!lane->list || item->kind != STK_ITEM_MAKE || request->ragged) return false;
    uint64_t sample_id = (stk_load_u64(request->bytes + 8 * (size_t)item->index) + item->substitute) % lane->count;
    if (!is_listed(server, lane, sample_id)) return false;
    char cause[STK_TEXT_BYTES_MAX + 64], text[STK_TEXT_BYTES_MAX];
    int used = snprintf(cause, sizeof cause, "it is on the quarantine list '%s'", lane->list->path);
    struct stk_span full =
        stk_blame_text(server, lane, sample_id, (struct stk_span){cause, used > 0 ? (size_t)used : 0}, text);
    stk_request_fail(request, STOKER_ERR_CORRUPT, full, (struct stk_span){0});
    uint32_t batch = STK_NONE;
    enum stk_batch_verdict verdict = stk_dispatch_finish(server->dispatch, item->item_id, STK_OUTCOME_BAD_DATA, &batch);
    stk_request_settle(server, batch, verdict);
    return true;
}

bool stk_blame_leave_out(struct stk_server *server, const struct stk_lane *lane, struct stk_request *request)
{
    if (!lane->list || lane->list->bad.count == 0) return true;
    for (;;) {
        for (uint32_t i = 0; i < request->ragged->count; i++)
            if (is_listed(server, lane, request->ragged->place[i].id)) stk_ragged_mark(request->ragged, i);
        if (request->ragged->bad == 0) return true;
        if (!stk_ragged_substitute(request->ragged, lane->policy, lane->count, &request->samples_skipped)) return false;
    }
}
