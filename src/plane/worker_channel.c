/* SPDX-License-Identifier: Apache-2.0
 *
 * The two channels of a worker in another language (include/stoker/worker.h): the template's control socket and the
 * worker's task socket. Blocking loops, one thread each; a closed socket means "exit".
 *
 * A task's memory: the slab that came with it, then, if it was too small, the one that NEED asked for. Both stay
 * mapped until the task is done or failed, so that what was written can be copied over.
 */
#include "plane/worker_channel.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "control/channel.h"
#include "sys/clock.h"
#include "transport/shm.h"

struct stoker_template_channel {
    struct stk_channel *channel;
};

enum { SLABS_OF_TASK_MAX = 16 }; /* the first and each growth; a worker that grows more often than that is broken */

struct stoker_worker_channel {
    struct stk_channel *channel;
    struct stk_shm_table *table;
    /* the current task */
    bool busy;
    uint64_t item_id;
    uint64_t wall_began_ns, cpu_began_ns;
    struct stk_shm_mapping *mappings[SLABS_OF_TASK_MAX];
    uint32_t mapping_count;
    size_t slab_size; /* of the newest slab */
    bool has_slab;
    uint8_t *payload; /* copy: a growth receives another message while the task reads it */
    size_t payload_capacity;
};

/* Takes socket_fd, even on failure. */
static stoker_status open_channel(int socket_fd, struct stk_channel **out_channel, stoker_error *err)
{
    uint64_t incarnation = stk_clock_now_ns() ^ (uint64_t)getpid() << 40;
    stoker_status status = stk_channel_create(socket_fd, incarnation, out_channel, err);
    if (status != STOKER_OK) (void)close(socket_fd); /* nothing was sent on it */
    return status;
}

STOKER_API stoker_status stoker_worker_die_with_parent(int64_t parent_pid, stoker_error *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return stk_fail(err, STOKER_ERR_IO, "cannot ask for a signal at the parent's end");
    /* The parent may have ended before the signal was asked for. */
    if (getppid() == (pid_t)parent_pid) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_UNAVAILABLE, "the parent (pid %lld) has ended", (long long)parent_pid);
}

/* The end of the stream between two messages is END; inside one it is the death of the other side. */
static stoker_status receive(struct stk_channel *channel, uint64_t deadline_ns, struct stk_incoming *out,
                             stoker_error *err)
{
    stoker_status status = stk_channel_receive_wait(channel, deadline_ns, out, err);
    return status == STOKER_ERR_UNAVAILABLE ? STOKER_END : status;
}

static stoker_status flush(struct stk_channel *channel, stoker_error *err)
{
    return stk_channel_flush_wait(channel, UINT64_MAX, err);
}

/* Text for the wire: at most STK_TEXT_BYTES_MAX bytes, with a remark if the detail has to stay here. */
struct report {
    char text[STK_TEXT_BYTES_MAX];
    struct stk_span text_span, detail_span;
};

static void make_report(struct report *report, const char *message, const void *detail, size_t detail_size)
{
    bool lost = detail_size > STK_DETAIL_BYTES_MAX;
    int room = (int)(sizeof report->text - sizeof STK_DETAIL_LOST_TEXT);
    int size = snprintf(report->text, sizeof report->text, "%.*s%s", room, message ? message : "",
                        lost ? STK_DETAIL_LOST_TEXT : "");
    report->text_span = (struct stk_span){report->text, size > 0 ? (size_t)size : 0};
    report->detail_span = (struct stk_span){lost ? NULL : detail, lost ? 0 : detail_size};
}

/* ------------------------------------------------------------------------------------------------ template */

STOKER_API stoker_status stoker_template_channel_open(int socket_fd, stoker_template_channel **out_channel,
                                                      stoker_error *err)
{
    struct stk_channel *channel;
    STK_TRY(open_channel(socket_fd, &channel, err));
    struct stoker_template_channel *template = calloc(1, sizeof *template);
    if (!template) {
        stk_channel_destroy(channel);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a channel");
    }
    template->channel = channel;
    *out_channel = template;
    return STOKER_OK;
}

static stoker_status send_template(stoker_template_channel *template, uint16_t type,
                                   const struct stk_message_template_report *message, stoker_error *err)
{
    stoker_status status;
    STK_CHANNEL_SEND(status, template->channel, type, template_report, message, NULL, 0, err);
    if (status < 0) return status;
    return flush(template->channel, err);
}

STOKER_API stoker_status stoker_template_channel_report(stoker_template_channel *channel, const char *error_message,
                                                        const void *detail, size_t detail_size, stoker_error *err)
{
    struct report report;
    make_report(&report, error_message, detail, detail_size);
    struct stk_message_template_report message = {
        /* A dataset that cannot be loaded is the caller's to mend. */
        .status = error_message ? STOKER_ERR_INVALID_ARGUMENT : STOKER_OK,
        .pid = getpid(),
        .text = report.text_span,
        .detail = report.detail_span,
    };
    return send_template(channel, STK_MESSAGE_TEMPLATE_REPORT, &message, err);
}

STOKER_API stoker_status stoker_template_channel_next(stoker_template_channel *channel, uint64_t timeout_ns,
                                                      uint32_t *out_worker_id, int *out_worker_fd, stoker_error *err)
{
    uint64_t now = stk_clock_now_ns();
    struct stk_incoming incoming;
    stoker_status status =
        receive(channel->channel, timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns, &incoming, err);
    if (status != STOKER_OK) return status;
    if (incoming.frame.type != STK_MESSAGE_FORK) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "message %u is not one for a template", incoming.frame.type);
    }
    struct stk_message_template_report fork_message;
    STK_TRY(stk_template_report_decode(incoming.body, &fork_message, err));
    if (incoming.fd_count != 1) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "FORK: %u descriptors, expected the worker's socket",
                        incoming.fd_count);
    }
    *out_worker_fd = incoming.fds[0];
    incoming.fds[0] = -1;
    *out_worker_id = fork_message.worker_id;
    return STOKER_OK;
}

STOKER_API stoker_status stoker_template_channel_forked(stoker_template_channel *channel, uint32_t worker_id,
                                                        int64_t pid, stoker_error *err)
{
    if (pid <= 0 || pid > INT32_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%lld is not a process id", (long long)pid);
    struct stk_message_template_report message = {.worker_id = worker_id, .status = STOKER_OK, .pid = pid};
    return send_template(channel, STK_MESSAGE_FORKED, &message, err);
}

STOKER_API void stoker_template_channel_close(stoker_template_channel *channel)
{
    if (!channel) return;
    stk_channel_destroy(channel->channel);
    free(channel);
}

/* ------------------------------------------------------------------------------------------------ worker */

STOKER_API stoker_status stoker_worker_channel_open(int socket_fd, stoker_worker_channel **out_channel,
                                                    stoker_error *err)
{
    struct stk_channel *channel;
    STK_TRY(open_channel(socket_fd, &channel, err));
    stoker_status status;
    struct stoker_worker_channel *worker = calloc(1, sizeof *worker);
    if (!worker) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a channel");
        goto destroy_channel;
    }
    worker->channel = channel;
    status = stk_shm_table_create(1, &worker->table, err);
    if (status != STOKER_OK) goto free_worker;
    *out_channel = worker;
    return STOKER_OK;
free_worker:
    free(worker);
destroy_channel:
    stk_channel_destroy(channel);
    return status;
}

/* Maps a region that came with a message and keeps it for the task. */
static stoker_status map_region(stoker_worker_channel *worker, struct stk_incoming *incoming,
                                const struct stk_message_region *region, void **out_address, stoker_error *err)
{
    if (worker->mapping_count == SLABS_OF_TASK_MAX) {
        return stk_fail(err, STOKER_ERR_LIMIT, "a task replaced its memory %u times", (unsigned)SLABS_OF_TASK_MAX);
    }
    if (region->fd_sent) {
        if (incoming->fd_count == 0) return stk_fail(err, STOKER_ERR_PROTOCOL, "a region's descriptor is missing");
        int fd = incoming->fds[0];
        incoming->fds[0] = -1;
        STK_TRY(stk_shm_table_add(worker->table, region->segment_id, region->segment_bytes, fd, err));
    }
    struct stk_shm_mapping *mapping;
    STK_TRY(stk_shm_table_resolve(worker->table, region->segment_id, region->offset, region->size, &mapping,
                                  out_address, err));
    worker->mappings[worker->mapping_count++] = mapping;
    worker->slab_size = region->size;
    worker->has_slab = true;
    return STOKER_OK;
}

static stoker_status on_unmap(stoker_worker_channel *worker, struct stk_span body, stoker_error *err)
{
    struct stk_message_unmap unmap;
    STK_TRY(stk_unmap_decode(body, &unmap, err));
    stk_shm_table_remove(worker->table, unmap.segment_id);
    return STOKER_OK;
}

/* Waits for a message of one type; UNMAP is served on the way. */
static stoker_status receive_type(stoker_worker_channel *worker, uint16_t type, struct stk_incoming *out,
                                  stoker_error *err)
{
    for (;;) {
        stoker_status status = receive(worker->channel, UINT64_MAX, out, err);
        if (status != STOKER_OK) return status;
        if (out->frame.type == type) return STOKER_OK;
        if (out->frame.type != STK_MESSAGE_UNMAP) {
            return stk_fail(err, STOKER_ERR_PROTOCOL, "message %u instead of %u", out->frame.type, type);
        }
        STK_TRY(on_unmap(worker, out->body, err));
    }
}

static stoker_status keep_payload(stoker_worker_channel *worker, struct stk_span payload, stoker_error *err)
{
    if (payload.size > worker->payload_capacity) {
        uint8_t *larger = realloc(worker->payload, payload.size);
        if (!larger) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request of %zu bytes", payload.size);
        worker->payload = larger;
        worker->payload_capacity = payload.size;
    }
    if (payload.size) memcpy(worker->payload, payload.data, payload.size);
    return STOKER_OK;
}

STOKER_API stoker_status stoker_worker_channel_next(stoker_worker_channel *channel, stoker_worker_task *out_task,
                                                    stoker_error *err)
{
    if (channel->busy) return stk_fail(err, STOKER_ERR_WRONG_STATE, "the task before was neither done nor failed");
    struct stk_incoming incoming;
    stoker_status status = receive_type(channel, STK_MESSAGE_TASK, &incoming, err);
    if (status != STOKER_OK) return status;
    struct stk_message_task message;
    STK_TRY(stk_task_decode(incoming.body, &message, err));
    if (message.kind != STK_TASK_BATCH) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "TASK: kind %u is not one for a worker of a process source",
                        message.kind);
    }
    STK_TRY(keep_payload(channel, message.payload, err));
    channel->slab_size = 0;
    channel->has_slab = false;
    void *slab = NULL;
    if (message.target.slab_id) STK_TRY(map_region(channel, &incoming, &message.target, &slab, err));
    channel->busy = true;
    channel->item_id = message.item_id;
    channel->wall_began_ns = stk_clock_now_ns();
    channel->cpu_began_ns = stk_clock_process_cpu_ns();
    stoker_worker_task task = {
        .item_id = message.item_id,
        .attempt = message.attempt,
        .payload = channel->payload,
        .payload_size = message.payload.size,
        .slab = slab,
        .slab_size = channel->slab_size,
    };
    *out_task = task;
    return STOKER_OK;
}

STOKER_API stoker_status stoker_worker_channel_grow(stoker_worker_channel *channel, size_t size, void **out_slab,
                                                    size_t *out_slab_size, stoker_error *err)
{
    if (!channel->busy) return stk_fail(err, STOKER_ERR_WRONG_STATE, "no task is being worked on");
    struct stk_message_need need = {.item_id = channel->item_id, .size = size};
    stoker_status status;
    STK_CHANNEL_SEND(status, channel->channel, STK_MESSAGE_NEED, need, &need, NULL, 0, err);
    if (status < 0) return status;
    STK_TRY(flush(channel->channel, err));
    struct stk_incoming incoming;
    status = receive_type(channel, STK_MESSAGE_GRANT, &incoming, err);
    if (status == STOKER_END) return stk_fail(err, STOKER_ERR_UNAVAILABLE, "the DataServer closed the channel");
    if (status != STOKER_OK) return status;
    struct stk_message_grant grant;
    STK_TRY(stk_grant_decode(incoming.body, &grant, err));
    if (grant.item_id != channel->item_id) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "GRANT: item %llu instead of %llu", (unsigned long long)grant.item_id,
                        (unsigned long long)channel->item_id);
    }
    if (grant.status < 0) {
        return stk_fail(err, (stoker_status)grant.status, "%.*s", (int)grant.text.size,
                        grant.text.size ? (const char *)grant.text.data : "");
    }
    if (grant.region.size < size) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "GRANT: %llu bytes, %zu were needed",
                        (unsigned long long)grant.region.size, size);
    }
    void *slab;
    STK_TRY(map_region(channel, &incoming, &grant.region, &slab, err));
    *out_slab = slab;
    *out_slab_size = channel->slab_size;
    return STOKER_OK;
}

static stoker_status finish(stoker_worker_channel *channel, struct stk_message_done *done, stoker_error *err)
{
    done->item_id = channel->item_id;
    done->wall_ns = stk_clock_now_ns() - channel->wall_began_ns;
    done->cpu_ns = stk_clock_process_cpu_ns() - channel->cpu_began_ns;
    /* Before the report: afterwards the slab may be somebody else's, and UNMAP may arrive for it. */
    for (uint32_t i = 0; i < channel->mapping_count; i++) stk_shm_mapping_unref(channel->mappings[i]);
    channel->mapping_count = 0;
    channel->busy = false;
    stoker_status status;
    STK_CHANNEL_SEND(status, channel->channel, STK_MESSAGE_DONE, done, done, NULL, 0, err);
    if (status < 0) return status;
    return flush(channel->channel, err);
}

STOKER_API stoker_status stoker_worker_channel_done(stoker_worker_channel *channel, const stoker_worker_result *result,
                                                    stoker_error *err)
{
    if (!channel->busy) return stk_fail(err, STOKER_ERR_WRONG_STATE, "no task is being worked on");
    if (!channel->has_slab || result->used > channel->slab_size) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a result of %zu bytes in a slab of %zu", result->used,
                        channel->slab_size);
    }
    if (result->skeleton_offset > result->used || result->skeleton_size > result->used - result->skeleton_offset) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a skeleton at %zu of %zu bytes in a result of %zu",
                        result->skeleton_offset, result->skeleton_size, result->used);
    }
    if (result->samples_skipped > STK_BATCH_SAMPLES_MAX) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u samples skipped, a batch has at most %u",
                        result->samples_skipped, STK_BATCH_SAMPLES_MAX);
    }
    struct stk_message_done done = {
        .status = STOKER_OK,
        .used = result->used,
        .skeleton_offset = result->skeleton_offset,
        .skeleton_size = result->skeleton_size,
        .samples_skipped = result->samples_skipped,
    };
    return finish(channel, &done, err);
}

STOKER_API stoker_status stoker_worker_channel_fail(stoker_worker_channel *channel,
                                                    const stoker_worker_failure *failure, stoker_error *err)
{
    if (!channel->busy) return stk_fail(err, STOKER_ERR_WRONG_STATE, "no task is being worked on");
    struct report report;
    make_report(&report, failure->message, failure->detail, failure->detail_size);
    bool is_failure = failure->status < 0 && strcmp(stoker_status_name(failure->status), "UNKNOWN") != 0;
    struct stk_message_done done = {
        .status = is_failure ? failure->status : STOKER_ERR_INTERNAL,
        .text = report.text_span,
        .detail = report.detail_span,
    };
    return finish(channel, &done, err);
}

STOKER_API void stoker_worker_channel_close(stoker_worker_channel *channel)
{
    if (!channel) return;
    for (uint32_t i = 0; i < channel->mapping_count; i++) stk_shm_mapping_unref(channel->mappings[i]);
    stk_shm_table_destroy(channel->table);
    stk_channel_destroy(channel->channel);
    free(channel->payload);
    free(channel);
}
