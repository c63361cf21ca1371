/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. Ranks: accept, handshake, messages, death. Whatever a rank says is checked before it is used;
 * a message that makes no sense costs the rank its connection, and nobody else anything.
 *
 * Death of a rank (rule A9) is the end of its socket, or of its process where that is visible: a helper that it forked
 * may hold the socket open. A rank that leaves alive keeps the views that it holds; their slabs stay out of use until
 * its process ends.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "base/error.h"
#include "plane/server_internal.h"
#include "sys/process.h"

#define SEND(connection, type, name, message, fds, count)                                                              \
    STK_LINK_SEND(&(connection)->link, &(connection)->server->loop, type, name, message, fds, count)

static struct stk_span span_of(const char *text) { return (struct stk_span){text, strlen(text)}; }

void stk_connection_send_verdict(struct stk_connection *connection, uint16_t type,
                                 const struct stk_message_verdict *verdict)
{
    SEND(connection, type, verdict, verdict, NULL, 0);
}

void stk_connection_notice(struct stk_connection *connection, stoker_log_level level, const char *id,
                           struct stk_span text)
{
    /* A rank that does not read is not sent more of what nobody waits for. */
    if (connection->state != STK_CONNECTION_OPEN || !connection->link.channel ||
        stk_channel_wants_write(connection->link.channel))
        return;
    struct stk_message_notice notice = {.level = level, .id = span_of(id), .text = text};
    SEND(connection, STK_MESSAGE_NOTICE, notice, &notice, NULL, 0);
}

struct stk_connection *stk_connection_find_process(struct stk_server *server, uint32_t process)
{
    for (uint32_t i = 0; i < server->connection_high; i++)
        if (server->connections[i].state != STK_CONNECTION_FREE && server->connections[i].process == process)
            return &server->connections[i];
    return NULL;
}

/* ---- the end of a connection */

static void free_connection(struct stk_connection *connection)
{
    struct stk_server *server = connection->server;
    stk_loop_remove(&server->loop, &connection->life);
    if (connection->pidfd >= 0) (void)close(connection->pidfd); /* nothing is lost by closing a pidfd */
    connection->pidfd = -1;
    connection->state = STK_CONNECTION_FREE;
    /* Whatever it mapped, it holds nothing that was not returned or waited for. */
    stk_arena_process_gone(server->arena, connection->process);
    server->busy = server->grants = true;
}

static bool process_ended(const struct stk_connection *connection)
{
    return connection->pidfd < 0 || stk_pidfd_ended(connection->pidfd); /* not visible: the end of its socket must do */
}

static void update_cpus(struct stk_server *server)
{
    uint8_t mask[STK_CPU_MASK_BYTES_MAX] = {0};
    size_t size = 0;
    for (uint32_t i = 0; i < server->connection_high; i++) {
        const struct stk_connection *connection = &server->connections[i];
        if (connection->state != STK_CONNECTION_OPEN) continue;
        for (size_t byte = 0; byte < connection->cpu_mask_size; byte++) mask[byte] |= connection->cpu_mask[byte];
        if (connection->cpu_mask_size > size) size = connection->cpu_mask_size;
    }
    if (size == 0) return;
    stk_process_set_affinity(getpid(), mask, size);
    stk_pool_set_cpus(server->pool, mask, size);
}

static void release_output(struct stk_server *server);

void stk_connection_drop(struct stk_connection *connection, const char *why, bool expected)
{
    struct stk_server *server = connection->server;
    if (connection->state == STK_CONNECTION_FREE || connection->state == STK_CONNECTION_LINGERING) return;
    bool was_open = connection->state == STK_CONNECTION_OPEN;
    stk_link_close(&connection->link, &server->loop);
    connection->state = STK_CONNECTION_LINGERING;
    if (was_open) {
        for (uint32_t i = 0; i < server->lane_high; i++)
            if (server->lanes[i].state != STK_LANE_FREE && server->lanes[i].connection == connection->index) {
                if (server->lanes[i].state == STK_LANE_OPEN) stk_exchange_lane_left(&server->lanes[i]);
                stk_lane_close(&server->lanes[i], !expected);
            }
        stk_exchange_rank_left(connection);
        stk_flow_forget_rank(connection);
        server->ranks_open--;
        release_output(server);
        server->alone_since_ns = server->now_ns;
        stk_log(&server->log, expected ? STOKER_LOG_INFO : STOKER_LOG_WARN, expected ? "rank_left" : "rank_lost",
                "rank %u (pid %ld) %s", connection->rank, (long)connection->pid, why);
        update_cpus(server);
    }
    if (connection->delivered == 0 || process_ended(connection)) free_connection(connection);
    server->busy = true;
}

static void message_ready(struct stk_watch *watch, uint32_t events);

/* A rank that keeps batches until its process ends cannot say BYE. If it has closed its loaders, its end is no loss. */
static bool has_finished(const struct stk_connection *connection)
{
    const struct stk_server *server = connection->server;
    for (uint32_t i = 0; i < server->lane_high; i++) {
        const struct stk_lane *lane = &server->lanes[i];
        if (lane->connection == connection->index && (lane->state == STK_LANE_OPEN || lane->state == STK_LANE_OPENING))
            return false;
    }
    return connection->had_loader;
}

static void life_ready(struct stk_watch *watch, uint32_t events)
{
    struct stk_connection *connection = watch->owner;
    if (connection->state == STK_CONNECTION_FREE || !process_ended(connection)) return;
    message_ready(&connection->link.watch, events); /* it may have said BYE */
    stk_connection_drop(connection, "has died", has_finished(connection));
    if (connection->state == STK_CONNECTION_LINGERING) free_connection(connection);
}

/* ---- handshake */

static void refuse(struct stk_connection *connection, stoker_status status, const char *text)
{
    struct stk_message_verdict verdict = {.status = status, .text = span_of(text)};
    stk_connection_send_verdict(connection, STK_MESSAGE_REFUSED, &verdict);
    stk_log(&connection->server->log, STOKER_LOG_WARN, "rank_refused", "pid %ld was refused: %s", (long)connection->pid,
            text);
    connection->link.broken = true; /* what was sent is still delivered */
    connection->server->busy = true;
}

static bool same_text(struct stk_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

static void note_local_rank(struct stk_server *server, const struct stk_connection *connection)
{
    if (connection->local_world_size > server->local_world_size)
        server->local_world_size = connection->local_world_size;
    uint32_t place = connection->local_rank % STK_RANKS_MAX;
    if (server->local_seen[place / 8] >> (place % 8) & 1) return;
    server->local_seen[place / 8] |= (uint8_t)(1u << (place % 8));
    server->local_seen_count++;
}

/* The output of the first rank that comes is that of the workers. */
static void take_output(struct stk_server *server, const struct stk_incoming *in)
{
    if (!server->options->owns_output || server->ranks_open > 0 || in->fd_count < 2) return;
    (void)dup2(in->fds[0], STDOUT_FILENO); /* without it the output stays where it was */
    (void)dup2(in->fds[1], STDERR_FILENO);
}

/* Who reads the output of a rank that has left, through a pipe, waits for its end. */
static void release_output(struct stk_server *server)
{
    if (!server->options->owns_output || server->ranks_open > 0) return;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return; /* then it ends with this process */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd); /* nothing was written to it */
}

static stoker_status hello(struct stk_connection *connection, const struct stk_incoming *in, stoker_error *err)
{
    struct stk_server *server = connection->server;
    struct stk_message_hello message;
    STK_TRY(stk_hello_decode(in->body, &message, err));
    char text[512];
    if (!same_text(message.key, server->options->key)) {
        (void)snprintf(text, sizeof text,
                       "this DataServer (pid %ld) serves the job with key %.16s..., the rank presented %.*s...",
                       (long)getpid(), server->options->key, message.key.size < 16 ? (int)message.key.size : 16,
                       (const char *)message.key.data);
        refuse(connection, STOKER_ERR_MISMATCH, text);
        return STOKER_OK;
    }
    if (!same_text(message.version, STOKER_VERSION)) {
        (void)snprintf(text, sizeof text, "this DataServer (pid %ld) is stoker %s, the rank is stoker %.*s",
                       (long)getpid(), STOKER_VERSION, message.version.size < 64 ? (int)message.version.size : 64,
                       (const char *)message.version.data);
        refuse(connection, STOKER_ERR_MISMATCH, text);
        return STOKER_OK;
    }
    if (server->ranks_open >= STK_RANKS_MAX) {
        (void)snprintf(text, sizeof text, "%u ranks are connected, which is the limit of one host", server->ranks_open);
        refuse(connection, STOKER_ERR_LIMIT, text);
        return STOKER_OK;
    }
    connection->state = STK_CONNECTION_OPEN;
    connection->rank = message.rank;
    connection->world_size = message.world_size;
    connection->local_rank = message.local_rank;
    connection->local_world_size = message.local_world_size;
    connection->cpu_mask_size =
        message.cpu_mask.size < sizeof connection->cpu_mask ? message.cpu_mask.size : sizeof connection->cpu_mask;
    if (connection->cpu_mask_size) memcpy(connection->cpu_mask, message.cpu_mask.data, connection->cpu_mask_size);
    take_output(server, in);
    server->ranks_open++;
    note_local_rank(server, connection);
    update_cpus(server);
    struct stk_message_welcome welcome = {.pid = getpid(), .version = span_of(STOKER_VERSION)};
    SEND(connection, STK_MESSAGE_WELCOME, welcome, &welcome, NULL, 0);
    stk_log(&server->log, STOKER_LOG_INFO, "rank_joined", "rank %u of %u (pid %ld)", connection->rank,
            connection->world_size, (long)connection->pid);
    return STOKER_OK;
}

/* ---- messages */

static stoker_status release(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_message_release message;
    STK_TRY(stk_release_decode(body, &message, err));
    for (size_t at = 0; at + 8 <= message.slabs.size; at += 8) {
        uint64_t slab_id = stk_load_u64((const uint8_t *)message.slabs.data + at);
        if (!stk_flow_release(connection, slab_id))
            return stk_fail(err, STOKER_ERR_PROTOCOL, "slab %llu was returned, which this rank does not hold",
                            (unsigned long long)slab_id);
    }
    return STOKER_OK;
}

static stoker_status step(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_message_step message;
    STK_TRY(stk_step_decode(body, &message, err));
    struct stk_lane *lane = stk_lane_find(connection, message.loader_id);
    if (!lane || lane->generation != message.generation) return STOKER_OK; /* a step of an iteration that is over */
    if (message.sequence >= lane->turn.batch)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "a step took batch %llu, only %llu were requested",
                        (unsigned long long)message.sequence, (unsigned long long)lane->turn.batch);
    stk_flow_taken(lane);
    stk_server_event(connection->server, (struct stk_event){.type = STK_EVENT_STEP,
                                                            .lane = lane->index,
                                                            .sequence = message.sequence,
                                                            .wait_ns = message.wait_ns,
                                                            .window_ns = message.window_ns});
    return STOKER_OK;
}

static stoker_status close_loader(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_message_loader_ref ref;
    STK_TRY(stk_loader_ref_decode(body, &ref, err));
    struct stk_lane *lane = stk_lane_find(connection, ref.loader_id);
    if (!lane) return STOKER_OK; /* its opening failed meanwhile */
    stk_exchange_lane_left(lane);
    stk_lane_close(lane, false);
    return STOKER_OK;
}

static stoker_status begin_loader(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_message_loader_ref ref;
    STK_TRY(stk_loader_ref_decode(body, &ref, err));
    return stk_lane_begin(connection, &ref, err);
}

static stoker_status request(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_message_request message;
    STK_TRY(stk_request_decode(body, &message, err));
    return stk_lane_request(connection, &message, err);
}

static stoker_status query_status(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_message_status message;
    STK_TRY(stk_status_decode(body, &message, err));
    stk_status_send(connection, message.token);
    return STOKER_OK;
}

static stoker_status handle(struct stk_connection *connection, struct stk_incoming *in, stoker_error *err)
{
    if (connection->state == STK_CONNECTION_GREETING) {
        if (in->frame.type != STK_MESSAGE_HELLO)
            return stk_fail(err, STOKER_ERR_PROTOCOL, "the first message has type %u, expected HELLO", in->frame.type);
        return hello(connection, in, err);
    }
    switch (in->frame.type) {
    case STK_MESSAGE_LOADER_OPEN: return stk_lane_open(connection, in, err);
    case STK_MESSAGE_LOADER_BEGIN: return begin_loader(connection, in->body, err);
    case STK_MESSAGE_REQUEST: return request(connection, in->body, err);
    case STK_MESSAGE_RELEASE: return release(connection, in->body, err);
    case STK_MESSAGE_STEP: return step(connection, in->body, err);
    case STK_MESSAGE_GATHER: return stk_exchange_gather(connection, in->body, err);
    case STK_MESSAGE_GIVE: return stk_exchange_give(connection, in->body, err);
    case STK_MESSAGE_LOADER_CLOSE: return close_loader(connection, in->body, err);
    case STK_MESSAGE_STATUS_QUERY: return query_status(connection, in->body, err);
    case STK_MESSAGE_BYE: return STOKER_END;
    default: return stk_fail(err, STOKER_ERR_PROTOCOL, "a rank sent a message of type %u", in->frame.type);
    }
}

static void message_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    struct stk_connection *connection = watch->owner;
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    bool said_bye = false;
    stk_link_flush(&connection->link, &connection->server->loop);
    while (connection->link.channel && (!connection->link.broken || connection->link.peer_closed) &&
           status == STOKER_OK) {
        struct stk_incoming in;
        status = stk_channel_receive(connection->link.channel, &in, &err);
        if (status != STOKER_OK) break;
        status = handle(connection, &in, &err);
        said_bye = status == STOKER_END;
    }
    if (status == STOKER_OK || status == STOKER_AGAIN) return;
    if (said_bye) {
        stk_connection_drop(connection, "has left", true);
    } else if (status == STOKER_END || status == STOKER_ERR_UNAVAILABLE) {
        stk_connection_drop(connection, "has closed its connection without a word", has_finished(connection));
    } else {
        char why[STOKER_ERROR_MESSAGE_BYTES + 64];
        (void)snprintf(why, sizeof why, "is dropped for what it sent: %s", err.message);
        stk_connection_drop(connection, why, false);
    }
}

/* ---- arrival */

void stk_server_accept(struct stk_server *server)
{
    for (;;) {
        stoker_error err = {0};
        int fd;
        int64_t pid = 0;
        stoker_status status = stk_unix_accept(server->listen_fd, &fd, &pid, &err);
        if (status == STOKER_AGAIN) return;
        if (status != STOKER_OK) {
            stk_log(&server->log, STOKER_LOG_WARN, "accept_failed", "a connection was not accepted: %s", err.message);
            if (status == STOKER_ERR_WRONG_STATE) continue;
            /* Most likely there is no descriptor for it, and it would be offered again at once: later. */
            stk_loop_remove(&server->loop, &server->listen_watch);
            return;
        }
        uint32_t index = 0;
        while (index < server->connection_high && server->connections[index].state != STK_CONNECTION_FREE) index++;
        if (index == STK_CONNECTIONS_MAX) {
            stk_log(&server->log, STOKER_LOG_WARN, "accept_failed", "%u connections are held, which is the limit",
                    STK_CONNECTIONS_MAX);
            (void)close(fd);
            continue;
        }
        struct stk_connection *connection = &server->connections[index];
        *connection = (struct stk_connection){.index = index, .server = server, .pidfd = -1};
        connection->pid = pid > 0 ? (pid_t)pid : 0;
        connection->since_ns = server->now_ns;
        connection->life = (struct stk_watch){life_ready, connection, -1, 0};
        connection->link.watch = (struct stk_watch){message_ready, connection, -1, 0};
        if (stk_link_open(&connection->link, &server->loop, fd, server->incarnation, &err) != STOKER_OK) {
            stk_log(&server->log, STOKER_LOG_WARN, "accept_failed", "a connection was not accepted: %s", err.message);
            continue;
        }
        if (index == server->connection_high) server->connection_high++;
        connection->state = STK_CONNECTION_GREETING;
        connection->process = ++server->process_count;
        connection->pidfd = connection->pid ? stk_process_open(connection->pid) : -1;
        /* Without a watch on the process its socket alone tells of its end. */
        if (connection->pidfd >= 0) (void)stk_loop_add(&server->loop, &connection->life, connection->pidfd, NULL);
    }
}

void stk_connections_check(struct stk_server *server)
{
    for (uint32_t i = 0; i < server->connection_high; i++) {
        struct stk_connection *connection = &server->connections[i];
        if (connection->state == STK_CONNECTION_FREE) continue;
        if (connection->state == STK_CONNECTION_GREETING && server->now_ns - connection->since_ns > STK_GREETING_NS)
            stk_connection_drop(connection, "never said HELLO", false);
        else if (connection->link.broken) {
            /* Its BYE may have come while something was on the way to it. */
            if (connection->link.peer_closed) message_ready(&connection->link.watch, 0);
            stk_connection_drop(connection, "does not read its connection, or has closed it", has_finished(connection));
        }
    }
}
