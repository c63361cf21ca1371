/* SPDX-License-Identifier: Apache-2.0
 *
 * A native worker: makes samples of native sources in shared memory, one task at a time, until its socket closes; it
 * holds no state that a retry elsewhere would miss. See stoker_worker_run() in stoker/service.h. The loop blocks on
 * its socket; everything that arrives comes from the DataServer that started the process, so a message that makes no
 * sense ends the worker: the DataServer sees it end, and retries the task elsewhere.
 */
#include <stoker/service.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "control/channel.h"
#include "source/source.h"
#include "sys/clock.h"
#include "sys/sandbox.h"
#include "transport/shm.h"

struct known_source {
    uint64_t source_id;
    stoker_source *source;
};

struct worker {
    struct stk_channel *channel;
    struct stk_shm_table *segments;
    uint64_t max_bytes; /* of private memory; 0: no limit */
    struct known_source *sources;
    size_t source_count, source_cap;
};

static struct known_source *find_source(struct worker *worker, uint64_t source_id)
{
    for (size_t i = 0; i < worker->source_count; i++)
        if (worker->sources[i].source_id == source_id) return &worker->sources[i];
    return NULL;
}

static int take_fd(struct stk_incoming *in, uint32_t index)
{
    if (index >= in->fd_count) return -1;
    int fd = in->fds[index];
    in->fds[index] = -1;
    return fd;
}

static stoker_status add_source(struct worker *worker, struct stk_incoming *in, stoker_error *err)
{
    struct stk_message_source message;
    STK_TRY(stk_source_decode(in->body, &message, err));
    if (find_source(worker, message.source_id))
        return stk_fail(err, STOKER_ERR_PROTOCOL, "source %llu came twice", (unsigned long long)message.source_id);
    if (worker->source_count == worker->source_cap) {
        size_t cap = worker->source_cap ? 2 * worker->source_cap : 8;
        struct known_source *grown = realloc(worker->sources, cap * sizeof *grown);
        if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu sources", cap);
        worker->sources = grown;
        worker->source_cap = cap;
    }
    stoker_source *source;
    STK_TRY(stk_source_open_blob(message.kind, take_fd(in, 0), -1, &source, err));
    worker->sources[worker->source_count++] = (struct known_source){message.source_id, source};
    return STOKER_OK;
}

static stoker_status drop_source(struct worker *worker, const struct stk_incoming *in, stoker_error *err)
{
    struct stk_message_source message;
    STK_TRY(stk_source_decode(in->body, &message, err));
    struct known_source *known = find_source(worker, message.source_id);
    if (known) {
        stoker_source_close(known->source);
        *known = worker->sources[--worker->source_count];
    }
    return STOKER_OK;
}

/* Maps the region's segment if its descriptor came along, and gives the address of its bytes. */
static stoker_status resolve(struct worker *worker, struct stk_incoming *in, const struct stk_message_region *region,
                             uint32_t *fd_index, struct stk_shm_mapping **out_mapping, void **out_address,
                             stoker_error *err)
{
    if (region->fd_sent)
        STK_TRY(stk_shm_table_add(worker->segments, region->segment_id, region->segment_bytes,
                                  take_fd(in, (*fd_index)++), err));
    return stk_shm_table_resolve(worker->segments, region->segment_id, region->offset, region->size, out_mapping,
                                 out_address, err);
}

/* Nothing writes outside its region (rule A8): the size is compared before anyone sees an address. */
static stoker_status lay_out(const struct known_source *known, const struct stk_message_task *task,
                             struct stk_batch_layout *out, stoker_error *err)
{
    if (stk_source_is_ragged(known->source)) {
        const struct stk_batch_extent extent = {task->samples, task->rows};
        STK_TRY(stk_source_layout_rows(known->source, &extent, out, err));
    } else {
        STK_TRY(stk_source_layout(known->source, task->samples, out, err));
    }
    if (out->total_bytes == task->target.size) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_INTERNAL, "%u samples take %llu bytes, their place has %llu", task->samples,
                    (unsigned long long)out->total_bytes, (unsigned long long)task->target.size);
}

static stoker_status make(struct worker *worker, const struct stk_message_task *task, void *target,
                          struct stk_message_done *done, stoker_error *err)
{
    struct known_source *known = find_source(worker, task->source_id);
    if (!known)
        return stk_fail(err, STOKER_ERR_INTERNAL, "source %llu is not known here", (unsigned long long)task->source_id);
    stoker_descriptor descriptor;
    struct stk_batch_layout layout;
    void *places[STK_NATIVE_LEAVES_MAX];
    STK_TRY(stoker_source_describe(known->source, task->sample_id, &descriptor, err));
    STK_TRY(lay_out(known, task, &layout, err));
    if (stk_source_rows(known->source, task->sample_id) > task->rows - task->row)
        return stk_fail(err, STOKER_ERR_INTERNAL, "sample %llu has %llu rows, its place has %llu",
                        (unsigned long long)task->sample_id,
                        (unsigned long long)stk_source_rows(known->source, task->sample_id),
                        (unsigned long long)(task->rows - task->row));
    const struct stk_batch_place place = {task->index, task->row};
    stk_batch_places_rows(&layout, target, &place, places);
    const stoker_sample sample = {task->sample_id, task->draw};
    struct stk_made made = {0};
    stoker_status status = stk_source_make(known->source, &sample, places, &made, err);
    done->bytes_read = made.bytes_read;
    done->frames_presented = made.frames_presented;
    return status;
}

static stoker_status copy(struct worker *worker, const struct stk_message_task *task, void *from, void *target,
                          stoker_error *err)
{
    struct known_source *known = find_source(worker, task->source_id);
    struct stk_batch_layout layout;
    void *sources[STK_NATIVE_LEAVES_MAX], *places[STK_NATIVE_LEAVES_MAX];
    if (!known)
        return stk_fail(err, STOKER_ERR_INTERNAL, "source %llu is not known here", (unsigned long long)task->source_id);
    STK_TRY(lay_out(known, task, &layout, err));
    stk_batch_places(&layout, from, task->from_index, sources);
    stk_batch_places(&layout, target, task->index, places);
    for (uint32_t i = 0; i < layout.leaf_count; i++) memcpy(places[i], sources[i], (size_t)layout.leaf_bytes[i]);
    return STOKER_OK;
}

/* Without a limit of its own a worker that has no memory is the machine's fault; with one the sample is too large. */
static void judge_memory(const struct worker *worker, struct stk_message_done *done, stoker_error *err)
{
    if (worker->max_bytes == 0 || (done->status != STOKER_ERR_NO_MEMORY && done->status != STOKER_ERR_LIMIT)) return;
    stoker_error seen = *err;
    done->status = stk_fail(err, STOKER_ERR_LIMIT, "it needs more than the %llu bytes that a worker may use (%s)",
                            (unsigned long long)worker->max_bytes, seen.message);
    memcpy(err->context, seen.context, sizeof err->context);
}

/* What went wrong with the task goes into *done; a failure returned from here ends the worker. */
static stoker_status run_task(struct worker *worker, struct stk_incoming *in, struct stk_message_done *done,
                              stoker_error *task_err, stoker_error *err)
{
    struct stk_message_task task;
    STK_TRY(stk_task_decode(in->body, &task, err));
    uint64_t wall = stk_clock_now_ns(), cpu = stk_clock_thread_cpu_ns();
    uint32_t fd_index = 0;
    struct stk_shm_mapping *target_mapping, *from_mapping = NULL;
    void *target, *from;
    STK_TRY(resolve(worker, in, &task.target, &fd_index, &target_mapping, &target, err));
    *done = (struct stk_message_done){.item_id = task.item_id};
    stoker_status status = STOKER_OK;
    if (task.kind == STK_TASK_MAKE) {
        done->status = make(worker, &task, target, done, task_err);
        judge_memory(worker, done, task_err);
    } else if (task.kind == STK_TASK_COPY && task.from.size == task.target.size) {
        status = resolve(worker, in, &task.from, &fd_index, &from_mapping, &from, err);
        if (status == STOKER_OK) done->status = copy(worker, &task, from, target, task_err);
    } else {
        status = stk_fail(err, STOKER_ERR_PROTOCOL, "a native worker got a task of kind %u", task.kind);
    }
    stk_shm_mapping_unref(from_mapping);
    stk_shm_mapping_unref(target_mapping);
    done->used = task.target.size;
    done->cpu_ns = stk_clock_thread_cpu_ns() - cpu;
    done->wall_ns = stk_clock_now_ns() - wall;
    return status;
}

static stoker_status answer_task(struct worker *worker, struct stk_incoming *in, stoker_error *err)
{
    struct stk_message_done done;
    stoker_error task_err = {0};
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    STK_TRY(run_task(worker, in, &done, &task_err, err));
    if (done.status < 0) {
        stk_error_text(&task_err, text, sizeof text);
        done.text = (struct stk_span){text, strlen(text)};
        done.used = 0;
    }
    stoker_status status;
    STK_CHANNEL_SEND(status, worker->channel, STK_MESSAGE_DONE, done, &done, NULL, 0, err);
    if (status < 0) return status;
    return stk_channel_flush_wait(worker->channel, UINT64_MAX, err);
}

static stoker_status handle(struct worker *worker, struct stk_incoming *in, stoker_error *err)
{
    switch (in->frame.type) {
    case STK_MESSAGE_SOURCE: return add_source(worker, in, err);
    case STK_MESSAGE_SOURCE_DROP: return drop_source(worker, in, err);
    case STK_MESSAGE_TASK: return answer_task(worker, in, err);
    case STK_MESSAGE_UNMAP: {
        struct stk_message_unmap unmap;
        STK_TRY(stk_unmap_decode(in->body, &unmap, err));
        stk_shm_table_remove(worker->segments, unmap.segment_id);
        return STOKER_OK;
    }
    default: return stk_fail(err, STOKER_ERR_PROTOCOL, "a native worker got a message of type %u", in->frame.type);
    }
}

/* Gives up what the options say and tells the DataServer, once and before any task. */
static stoker_status give_up_rights(struct worker *worker, const stoker_worker_options *options, stoker_error *err)
{
    stoker_error why = {0};
    stoker_status status = STOKER_OK;
    if (options->max_bytes) {
        status = stk_sandbox_limit_memory(options->max_bytes, &why);
        worker->max_bytes = options->max_bytes;
    }
    if (status == STOKER_OK && options->isolation == STOKER_ISOLATION_OFF)
        (void)stk_fail(&why, STOKER_ERR_UNSUPPORTED, "it is switched off (isolation)");
    else if (status == STOKER_OK)
        status = stk_sandbox_lock(options->network ? STK_SANDBOX_CONNECTS : STK_SANDBOX_OFFLINE, &why);
    if (status != STOKER_OK && options->isolation == STOKER_ISOLATION_AUTO) status = STOKER_OK;
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    stk_error_text(&why, text, sizeof text);
    struct stk_message_template_report report = {
        .status = status, .pid = getpid(), .text = {text, why.status < 0 ? strlen(text) : 0}};
    stoker_status sent;
    STK_CHANNEL_SEND(sent, worker->channel, STK_MESSAGE_TEMPLATE_REPORT, template_report, &report, NULL, 0, err);
    if (sent >= 0) sent = stk_channel_flush_wait(worker->channel, UINT64_MAX, err);
    if (sent < 0) return sent;
    if (status < 0 && err) *err = why;
    return status;
}

static stoker_status serve(int socket_fd, const stoker_worker_options *options, stoker_error *err)
{
    struct worker worker = {0};
    /* If the DataServer is killed this process goes too, also out of a long decode. Where the signal cannot be had, or
     * its parent was gone before, the closed socket ends the loop. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    stoker_status status = stk_channel_create(socket_fd, 0, &worker.channel, err);
    if (status != STOKER_OK) {
        (void)close(socket_fd); /* nothing was sent */
        return status;
    }
    status = stk_shm_table_create(1, &worker.segments, err);
    if (status == STOKER_OK && options) status = give_up_rights(&worker, options, err);
    while (status == STOKER_OK) {
        struct stk_incoming in;
        status = stk_channel_receive_wait(worker.channel, UINT64_MAX, &in, err);
        if (status == STOKER_OK) status = handle(&worker, &in, err);
    }
    for (size_t i = 0; i < worker.source_count; i++) stoker_source_close(worker.sources[i].source);
    free(worker.sources);
    stk_shm_table_destroy(worker.segments);
    stk_channel_destroy(worker.channel);
    return status == STOKER_END ? STOKER_OK : status;
}

stoker_status stoker_worker_run(int socket_fd, stoker_error *err) { return serve(socket_fd, NULL, err); }

stoker_status stoker_worker_serve(int socket_fd, const stoker_worker_options *options, stoker_error *err)
{
    if (options && options->struct_size == sizeof *options && (unsigned)options->isolation <= STOKER_ISOLATION_OFF) {
        stk_source_own_process();
        return serve(socket_fd, options, err);
    }
    (void)close(socket_fd); /* taken, also on failure */
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the options of a worker are missing or not known here");
}
