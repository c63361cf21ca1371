/* SPDX-License-Identifier: Apache-2.0
 *
 * Open and close a client, ask for the DataServer's status, and the queue of messages to the I/O thread (client.h).
 *
 * Opening runs on the caller's thread: find or start the DataServer, say HELLO, wait for WELCOME, then start the I/O
 * thread, which owns the channel from there on. A connection that ends before WELCOME is tried again: the server that
 * held the name may have been leaving.
 */
#include "plane/client.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "control/channel.h"
#include "plane/discover.h"
#include "sys/clock.h"
#include "sys/process.h"

enum {
    SERVER_STARTS_MAX = 3, /* a server that ends three times before it answers does so for a reason */
    RETRY_WAIT_MS = 10,
    OUT_BYTES_MIN = 4096, /* smallest message buffer; larger ones are not kept */
    SPARE_OUT_MAX = 32,
    CPU_MASK_BYTES = 1024 /* 8,192 CPUs, the kernel's own bound */
};

stoker_status stk_options_read(const void *options, void *out, size_t size, const char *what, stoker_error *err)
{
    uint32_t given;
    memcpy(&given, options, sizeof given);
    if (given < sizeof given) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s options without struct_size", what);
    }
    for (size_t i = size; i < given; i++) {
        if (((const uint8_t *)options)[i] != 0) {
            return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                            "%s options of %u bytes use fields that this version (%zu bytes) does not know", what,
                            given, size);
        }
    }
    memset(out, 0, size);
    memcpy(out, options, given < size ? given : size);
    return STOKER_OK;
}

uint64_t stk_deadline_after(uint64_t timeout_ns)
{
    uint64_t now = stk_clock_now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* ------------------------------------------------------------------------------------------------ queue of messages */

struct stk_out *stk_client_out_create(struct stoker_client *client, uint16_t type, size_t body_size)
{
    struct stk_out *out = NULL;
    if (body_size <= OUT_BYTES_MIN) {
        stk_mutex_lock(client->lock);
        out = client->spare_out;
        if (out) {
            client->spare_out = out->next;
            client->spare_out_count--;
        }
        stk_mutex_unlock(client->lock);
    }
    if (!out) {
        size_t capacity = body_size > OUT_BYTES_MIN ? body_size : OUT_BYTES_MIN, size;
        if (!stk_add_size(sizeof *out, capacity, &size)) return NULL;
        out = malloc(size);
        if (!out) return NULL;
        out->capacity = capacity;
    }
    out->next = NULL;
    out->size = 0;
    out->type = type;
    out->fd_count = 0;
    return out;
}

void stk_client_out_recycle(struct stoker_client *client, struct stk_out *out)
{
    if (out->capacity == OUT_BYTES_MIN) {
        stk_mutex_lock(client->lock);
        bool kept = client->spare_out_count < SPARE_OUT_MAX;
        if (kept) {
            out->next = client->spare_out;
            client->spare_out = out;
            client->spare_out_count++;
        }
        stk_mutex_unlock(client->lock);
        if (kept) return;
    }
    free(out);
}

void stk_client_out_queue_locked(struct stoker_client *client, struct stk_out *out)
{
    STK_ASSERT(out->size <= out->capacity);
    if (client->queue_last) {
        client->queue_last->next = out;
    } else {
        client->queue_first = out;
    }
    client->queue_last = out;
}

stoker_status stk_client_check_locked(const struct stoker_client *client, stoker_error *err)
{
    if (!client->gone) return STOKER_OK;
    if (err) *err = client->gone_error;
    return client->gone_error.status;
}

stoker_status stk_client_out_send(struct stoker_client *client, struct stk_out *out, stoker_error *err)
{
    stk_mutex_lock(client->lock);
    stoker_status status = stk_client_check_locked(client, err);
    if (status == STOKER_OK) stk_client_out_queue_locked(client, out);
    stk_mutex_unlock(client->lock);
    if (status == STOKER_OK) {
        stk_client_core_wake(client->core);
    } else {
        stk_client_out_recycle(client, out);
    }
    return status;
}

stoker_status stk_client_check_process(const struct stoker_client *client, stoker_error *err)
{
    if (client->fork_generation == stk_fork_generation()) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_WRONG_STATE, "this client was opened before a fork: open another one in the child");
}

/* ------------------------------------------------------------------------------------------------ lifetime */

static void free_outs(struct stk_out *out)
{
    while (out) {
        struct stk_out *next = out->next;
        free(out);
        out = next;
    }
}

void stk_client_ref(struct stoker_client *client)
{
    atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed); /* relaxed: the caller has a reference */
}

void stk_client_unref(struct stoker_client *client)
{
    /* acq_rel: the last one frees what all others have finished with. */
    if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) != 1) return;
    free_outs(client->queue_first);
    free_outs(client->spare_out);
    free_outs(client->sending);
    while (client->spare_batches) {
        struct stoker_batch *next = client->spare_batches->next;
        free(client->spare_batches);
        client->spare_batches = next;
    }
    free(client->refusal_detail);
    stk_condition_destroy(client->changed);
    stk_mutex_destroy(client->lock);
    free(client);
}

static stoker_status read_options(const stoker_client_options *options, stoker_client_options *out, stoker_error *err)
{
    if (!options) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "no client options");
    STK_TRY(stk_options_read(options, out, sizeof *out, "client", err));
    if (out->world_size == 0) out->world_size = 1;
    if (out->local_world_size == 0) out->local_world_size = 1;
    if (out->connect_timeout_ns == 0) out->connect_timeout_ns = STK_CONNECT_TIMEOUT_NS;
    if (out->rank >= out->world_size) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rank %u of a world of %u", out->rank, out->world_size);
    }
    if (out->local_rank >= out->local_world_size) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "local rank %u of a local world of %u", out->local_rank,
                        out->local_world_size);
    }
    if (out->local_world_size > STK_RANKS_MAX) {
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "local world of %u ranks, at most %u are possible",
                        out->local_world_size, STK_RANKS_MAX);
    }
    return STOKER_OK;
}

static stoker_status send_hello(struct stk_channel *channel, const stoker_client_options *options, const char *key,
                                uint64_t deadline_ns, stoker_error *err)
{
    uint8_t mask[CPU_MASK_BYTES];
    size_t mask_size = stk_process_affinity(mask, sizeof mask);
    struct stk_message_hello hello = {
        .key = {key, STK_KEY_BYTES - 1},
        .version = {STOKER_VERSION, strlen(STOKER_VERSION)},
        .rank = options->rank,
        .world_size = options->world_size,
        .local_rank = options->local_rank,
        .local_world_size = options->local_world_size,
        .pid = getpid(),
        .cpu_mask = {mask, mask_size},
    };
    /* What workers print goes where this process prints, also if another rank started the DataServer. */
    const int output[2] = {STDOUT_FILENO, STDERR_FILENO};
    bool prints = fcntl(STDOUT_FILENO, F_GETFD) >= 0 && fcntl(STDERR_FILENO, F_GETFD) >= 0;
    stoker_status status;
    STK_CHANNEL_SEND(status, channel, STK_MESSAGE_HELLO, hello, &hello, prints ? output : NULL, prints ? 2 : 0, err);
    if (status < 0) return status;
    return stk_channel_flush_wait(channel, deadline_ns, err);
}

static stoker_status read_answer(const struct stk_incoming *answer, int64_t *out_pid, stoker_error *err)
{
    if (answer->frame.type == STK_MESSAGE_REFUSED) {
        struct stk_message_verdict verdict;
        STK_TRY(stk_verdict_decode(answer->body, &verdict, err));
        stoker_status status = verdict.status < 0 ? (stoker_status)verdict.status : STOKER_ERR_PROTOCOL;
        return stk_fail(err, status, "%.*s", (int)verdict.text.size, (const char *)verdict.text.data);
    }
    if (answer->frame.type != STK_MESSAGE_WELCOME) {
        return stk_fail(err, STOKER_ERR_PROTOCOL, "message %u instead of WELCOME", answer->frame.type);
    }
    struct stk_message_welcome welcome;
    STK_TRY(stk_welcome_decode(answer->body, &welcome, err));
    if (welcome.version.size != strlen(STOKER_VERSION) ||
        memcmp(welcome.version.data, STOKER_VERSION, welcome.version.size) != 0) {
        return stk_fail(err, STOKER_ERR_MISMATCH,
                        "the DataServer (pid %lld) is version %.*s, this library is version %s", (long long)welcome.pid,
                        (int)welcome.version.size, (const char *)welcome.version.data, STOKER_VERSION);
    }
    *out_pid = welcome.pid;
    return STOKER_OK;
}

/* END, UNAVAILABLE or IO: the server went away before it answered; another try may find the next one. */
static stoker_status greet(int fd, uint64_t incarnation, const stoker_client_options *options,
                           const struct stk_discover *discover, struct stk_channel **out_channel, int64_t *out_pid,
                           stoker_error *err)
{
    struct stk_channel *channel;
    stoker_status status = stk_channel_create(fd, incarnation, &channel, err);
    if (status != STOKER_OK) {
        (void)close(fd); /* nothing was sent on it */
        return status;
    }
    struct stk_incoming answer;
    status = send_hello(channel, options, discover->key, discover->deadline_ns, err);
    if (status == STOKER_OK) status = stk_channel_receive_wait(channel, discover->deadline_ns, &answer, err);
    if (status == STOKER_OK) status = read_answer(&answer, out_pid, err);
    if (status == STOKER_AGAIN) {
        char name[STK_NAME_BYTES];
        stk_discover_name(discover->key, name);
        status = stk_fail(err, STOKER_ERR_TIMEOUT, "the DataServer at '@%s' did not answer within %.1f s", name,
                          (double)options->connect_timeout_ns / 1e9);
    }
    if (status != STOKER_OK) {
        stk_channel_destroy(channel);
        return status;
    }
    *out_channel = channel;
    return STOKER_OK;
}

static stoker_status join_job(const stoker_client_options *options, uint64_t incarnation,
                              struct stk_channel **out_channel, int64_t *out_pid, stoker_error *err)
{
    char key[STK_KEY_BYTES];
    STK_TRY(stk_discover_key(options->job_key, key, err));
    struct stk_discover discover = {.key = key,
                                    .program = options->program,
                                    .shm_dir = options->shm_dir,
                                    .policy = options->policy,
                                    .deadline_ns = stk_deadline_after(options->connect_timeout_ns)};
    for (int starts = 0;;) {
        int fd = -1;
        bool started = false;
        stoker_status status = stk_discover_connect(&discover, &fd, &started, err);
        starts += started;
        if (status != STOKER_OK && status != STOKER_ERR_UNAVAILABLE) return status;
        if (status == STOKER_OK) status = greet(fd, incarnation, options, &discover, out_channel, out_pid, err);
        if (status != STOKER_END && status != STOKER_ERR_UNAVAILABLE && status != STOKER_ERR_IO) return status;
        if (starts >= SERVER_STARTS_MAX) {
            return stk_fail(err, STOKER_ERR_UNAVAILABLE,
                            "a DataServer started as '%s' ended %d times before it answered", options->program, starts);
        }
        if (stk_clock_now_ns() >= discover.deadline_ns) {
            return stk_fail(err, STOKER_ERR_TIMEOUT,
                            "each DataServer that was found ended before it answered, for %.1f s",
                            (double)options->connect_timeout_ns / 1e9);
        }
        (void)poll(NULL, 0, RETRY_WAIT_MS); /* let the old socket go */
    }
}

static stoker_status start_thread(struct stoker_client *client, stoker_error *err)
{
    STK_TRY(stk_mutex_create(STK_CLIENT_LOCK_RANK, &client->lock, err));
    STK_TRY(stk_condition_create(&client->changed, err));
    /* Segments stay mapped in forked children: what a child inherited by fork can be read as long as the parent keeps
     * the batch. */
    STK_TRY(stk_shm_table_create(0, &client->table, err));
    return stk_thread_start("stoker-client", stk_client_run, client, &client->thread, err);
}

STOKER_API stoker_status stoker_client_open(const stoker_client_options *options, stoker_client **out_client,
                                            stoker_error *err)
{
    stoker_client_options own;
    STK_TRY(read_options(options, &own, err));
    struct stoker_client *client = calloc(1, sizeof *client);
    if (!client) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a client");
    atomic_init(&client->refs, 1);
    client->fork_generation = stk_fork_generation();
    client->log = (struct stk_log){own.log_fn, own.log_user, own.log_level};
    uint64_t incarnation = stk_clock_now_ns() ^ (uint64_t)getpid() << 40;
    struct stk_channel *channel = NULL;
    stoker_status status = join_job(&own, incarnation, &channel, &client->server_pid, err);
    if (status != STOKER_OK) goto unref_client;
    status = stk_client_core_create(channel, incarnation, &client->core, err);
    if (status != STOKER_OK) goto unref_client;
    status = start_thread(client, err);
    if (status != STOKER_OK) goto unref_core;
    *out_client = client;
    return STOKER_OK;
unref_core:
    stk_shm_table_destroy(client->table);
    stk_client_core_unref(client->core);
unref_client:
    stk_client_unref(client);
    return status;
}

STOKER_API void stoker_client_close(stoker_client *client)
{
    if (!client || stk_client_check_process(client, NULL) != STOKER_OK) return;
    while (stk_loader_detach(client, NULL)) continue;
    stk_mutex_lock(client->lock);
    client->stopping = true;
    stk_mutex_unlock(client->lock);
    stk_client_core_wake(client->core);
    stk_thread_join(client->thread);
    stk_shm_table_destroy(client->table);
    stk_client_core_unref(client->core);
    client->core = NULL;
    stk_client_unref(client);
}

STOKER_API int64_t stoker_client_server_pid(const stoker_client *client) { return client->server_pid; }

STOKER_API void stoker_client_failure(stoker_client *client, char **out_detail, size_t *out_size)
{
    *out_detail = NULL;
    *out_size = 0;
    if (stk_client_check_process(client, NULL) != STOKER_OK) return;
    stk_mutex_lock(client->lock);
    *out_detail = client->refusal_detail;
    *out_size = client->refusal_detail_size;
    client->refusal_detail = NULL;
    client->refusal_detail_size = 0;
    stk_mutex_unlock(client->lock);
}

/* ------------------------------------------------------------------------------------------------ status */

static void unlink_wait_locked(struct stoker_client *client, struct stk_status_wait *wait)
{
    struct stk_status_wait **at = &client->status_waits;
    while (*at != wait) at = &(*at)->next;
    *at = wait->next;
}

static stoker_status wait_for_status(struct stoker_client *client, struct stk_status_wait *wait, uint64_t timeout_ns,
                                     stoker_error *err)
{
    uint64_t deadline_ns = stk_deadline_after(timeout_ns);
    stoker_status status;
    bool in_time = true;
    stk_mutex_lock(client->lock);
    while (!wait->answered && !client->gone && in_time) {
        in_time = stk_condition_wait(client->changed, client->lock, deadline_ns);
    }
    unlink_wait_locked(client, wait);
    if (wait->answered) {
        status = STOKER_OK;
    } else if (client->gone) {
        status = stk_client_check_locked(client, err);
    } else {
        status = stk_fail(err, STOKER_ERR_TIMEOUT, "the DataServer (pid %lld) did not answer within %.1f s",
                          (long long)client->server_pid, (double)timeout_ns / 1e9);
    }
    stk_mutex_unlock(client->lock);
    return status;
}

STOKER_API stoker_status stoker_client_status(stoker_client *client, uint64_t timeout_ns, char **out_json,
                                              stoker_error *err)
{
    STK_TRY(stk_client_check_process(client, err));
    struct stk_status_wait wait = {0};
    stk_mutex_lock(client->lock);
    wait.token = ++client->status_token;
    wait.next = client->status_waits;
    client->status_waits = &wait;
    stk_mutex_unlock(client->lock);
    struct stk_message_status query = {.token = wait.token, .text = {"", 0}};
    stoker_status status;
    STK_CLIENT_SEND(status, client, STK_MESSAGE_STATUS_QUERY, status, &query, err);
    if (status != STOKER_OK) {
        stk_mutex_lock(client->lock);
        unlink_wait_locked(client, &wait);
        stk_mutex_unlock(client->lock);
        return status;
    }
    status = wait_for_status(client, &wait, timeout_ns, err);
    if (status == STOKER_OK && !wait.text) status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the status");
    if (status == STOKER_OK) *out_json = wait.text;
    return status;
}

STOKER_API void stoker_text_free(char *text) { free(text); }
