/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders come and go (client.h): the options, the registration with the DataServer, the wait for its answer, the
 * end. Requests and results are client_loader.c.
 *
 * A loader that was refused never existed for its user: what its template reported waits in the client until it is
 * taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "plane/badlist.h"
#include "plane/client.h"
#include "source/source.h"

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
    bool required = source->kind != STK_SOURCE_PROCESS;
    if ((required && out->batch_samples_max == 0) || out->batch_samples_max > STK_BATCH_SAMPLES_MAX) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "batch_samples_max %u, expected 1 to %u",
                        out->batch_samples_max, STK_BATCH_SAMPLES_MAX);
    }
    if ((unsigned)out->isolation > STOKER_ISOLATION_OFF) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "isolation %d is none of 0, 1, 2", (int)out->isolation);
    }
    if (out->sample_timeout_ns == 0) out->sample_timeout_ns = STK_SAMPLE_CPU_NS;
    if (out->sample_timeout_ns == UINT64_MAX) out->sample_timeout_ns = 0;
    if (out->quarantine && !required)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                        "a quarantine list needs a native source: what a dataset in another "
                        "language reads is not known here");
    if (out->profile_count > STK_COST_ROWS_MAX || (out->profile_count > 0 && !out->profile))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a cost profile of %zu rows, expected at most %u",
                        out->profile_count, STK_COST_ROWS_MAX);
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
    if (source->kind != STK_SOURCE_PROCESS && source->ops->count(source) > 0) {
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

/* The list as the DataServer and its other ranks name it. */
static stoker_status absolute_path(const char *path, char out[STK_TEXT_BYTES_MAX + 1], stoker_error *err)
{
    size_t used = 0, size = strlen(path);
    if (path[0] != '/') {
        if (!getcwd(out, STK_TEXT_BYTES_MAX))
            return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read the name of the working directory");
        used = strlen(out);
        out[used++] = '/';
    }
    if (size == 0 || used + size > STK_TEXT_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the path of a quarantine list has 1 to %u bytes, not %zu",
                        STK_TEXT_BYTES_MAX, size ? used + size : 0);
    memcpy(out + used, path, size + 1);
    return STOKER_OK;
}

/* What a loader brings of its quarantine list. */
struct listed {
    int fd; /* -1: none */
    char path[STK_TEXT_BYTES_MAX + 1];
};

static stoker_status read_list(const stoker_loader_options *options, struct listed *out, stoker_error *err)
{
    out->fd = -1;
    out->path[0] = 0;
    if (!options->quarantine) return STOKER_OK;
    STK_TRY(absolute_path(options->quarantine, out->path, err));
    return stk_badlist_create(out->path, &out->fd, err);
}

static const void *put_profile(uint8_t *out, const stoker_loader_options *options)
{
    for (size_t i = 0; i < options->profile_count; i++) {
        const stoker_cost_row *row = &options->profile[i];
        const uint64_t numbers[STK_COST_ROW_BYTES / 8] = {
            row->kind,        row->samples, row->pixels_in, row->bytes_in,    row->pixels_out,
            row->estimate_ns, row->cpu_ns,  row->wall_ns,   row->input_bytes, row->output_bytes};
        for (size_t k = 0; k < STK_COST_ROW_BYTES / 8; k++)
            stk_store_u64(out + i * STK_COST_ROW_BYTES + 8 * k, numbers[k]);
    }
    return out;
}

static stoker_status send_open(struct stoker_loader *loader, const stoker_source *source,
                               const stoker_loader_options *options, const struct listed *listed, uint32_t order,
                               stoker_error *err)
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
        .isolation = options->isolation,
        .worker_bytes = options->worker_max_bytes,
        .sample_cpu_ns = options->sample_timeout_ns,
        .quarantine = {listed->path, strlen(listed->path)},
        .profile = {NULL, options->profile_count * STK_COST_ROW_BYTES},
    };
    STK_TRY(sample_bytes(source, &open.sample_bytes, err));
    size_t size = stk_loader_open_size(&open);
    struct stk_out *out = stk_client_out_create(loader->client, STK_MESSAGE_LOADER_OPEN, size + open.profile.size);
    if (!out) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a message of %zu bytes", size);
    open.profile.data = put_profile(out->body + size, options); /* behind the message's own place */
    struct stk_writer writer = {.data = out->body, .size = size};
    stk_loader_open_encode(&writer, &open);
    out->size = writer.used;
    out->fds[out->fd_count++] = source->blob_fd;
    if (source->kind == STK_SOURCE_PROCESS) out->fds[out->fd_count++] = source->payload_fd;
    if (listed->fd >= 0) out->fds[out->fd_count++] = listed->fd;
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
    struct listed listed;
    STK_TRY(read_options(source, options, &own, err));
    STK_TRY(read_list(&own, &listed, err));
    stoker_status status = create_loader(client, source, &own, &loader, err);
    if (status != STOKER_OK) goto close_list;
    STK_ASSERT(loader);
    stk_mutex_lock(client->lock);
    keep_refusal_locked(client, NULL);
    uint32_t order = client->loaders_opened++;
    loader->loader_id = order + 1;
    loader->next = client->loaders;
    client->loaders = loader;
    stk_mutex_unlock(client->lock);
    status = send_open(loader, source, &own, &listed, order, err);
    if (status == STOKER_OK) {
        status = wait_until_open(loader, err);
    } else {
        stk_mutex_lock(client->lock);
        unlink_loader_locked(loader);
        stk_mutex_unlock(client->lock);
    }
    if (status == STOKER_OK)
        *out_loader = loader;
    else
        free_loader(loader);
close_list:
    if (listed.fd >= 0) (void)close(listed.fd); /* the DataServer has its own */
    return status;
}

STOKER_API void stoker_loader_quarantine(const stoker_loader *loader, char out_digest[STOKER_DIGEST_HEX_BYTES],
                                         uint64_t *out_count)
{
    memcpy(out_digest, loader->quarantine_digest, STOKER_DIGEST_HEX_BYTES); /* written before the open returned */
    *out_count = loader->quarantine_count;
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
