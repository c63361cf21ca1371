/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. The DataServer of one host as a loop: drain what arrived, let the engine decide once, move
 * what can move, drop what broke. It never maps payload, starts no thread and installs no signal handler; whoever runs
 * it says stop by a descriptor.
 *
 * Its life (rule B7): it ends when nobody is connected and every rank that the launcher announced has come and gone,
 * or nobody has been connected for 30 s. Before it returns every process that it started has been killed and reaped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/estimate.h"
#include "plane/server_internal.h"
#include "sys/clock.h"

void stk_server_event(struct stk_server *server, struct stk_event event)
{
    stk_coordinator_event(server->coordinator, server->now_ns, &event);
    server->busy = true;
}

/* ---- log: to the sink, and to the ranks if they should know */

static void log_record(void *user, stoker_log_level level, const char *id, const char *text)
{
    struct stk_server *server = user;
    const stoker_dataserver_options *options = server->options;
    if (options->log_fn && level <= options->log_level) options->log_fn(options->log_user, level, id, text);
    if (level > STOKER_LOG_WARN || server->quiet || !server->connections) return;
    server->quiet = true; /* what goes wrong with telling is not told */
    for (uint32_t i = 0; i < server->connection_high; i++)
        stk_connection_notice(&server->connections[i], level, id, (struct stk_span){text, strlen(text)});
    server->quiet = false;
}

/* ---- callbacks of what the server is made of */

static void place(void *user, const struct stk_action *action) { stk_flow_place(user, action); }

static void refuse(void *user, const struct stk_event *event, const stoker_error *err)
{
    stk_flow_refuse(user, event, err);
}

/* A slow disk delays the loop: a journal is for finding faults. */
static bool keep_record(void *user, const void *bytes, size_t size)
{
    struct stk_server *server = user;
    const uint8_t *next = bytes;
    while (size > 0) {
        ssize_t written = write(server->journal_fd, next, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            stk_log(&server->log, STOKER_LOG_WARN, "journal_failed", "cannot write to the journal '%s': %s",
                    server->options->journal, strerror(errno));
            return false;
        }
        next += written;
        size -= (size_t)written;
    }
    return true;
}

static const struct stk_coordinator_ops coordinator_ops = {place, refuse, NULL},
                                        recording_ops = {place, refuse, keep_record};

static void send_unmap(void *user, uint32_t process, uint64_t segment_id)
{
    struct stk_server *server = user;
    struct stk_message_unmap unmap = {segment_id};
    struct stk_link *link = NULL;
    struct stk_connection *connection = stk_connection_find_process(server, process);
    if (connection) {
        link = &connection->link;
    } else {
        struct stk_worker *worker = stk_pool_find_process(server->pool, process);
        if (worker) {
            link = &worker->link;
            worker->told_more = true;
        }
    }
    if (link) STK_LINK_SEND(link, &server->loop, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0);
}

static void listen_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    stk_server_accept(watch->owner);
}

static void stop_ready(struct stk_watch *watch, uint32_t events)
{
    (void)events;
    struct stk_server *server = watch->owner;
    server->stopping = true;
}

/* ---- start and end */

static stoker_status create_tables(struct stk_server *server, stoker_error *err)
{
    server->connections = calloc(STK_CONNECTIONS_MAX, sizeof *server->connections);
    server->sources = calloc(STK_LANES_MAX, sizeof *server->sources);
    server->lanes = calloc(STK_LANES_MAX, sizeof *server->lanes);
    server->requests = calloc(STK_BATCHES_MAX, sizeof *server->requests);
    server->request_of_batch = malloc(STK_BATCHES_MAX * sizeof *server->request_of_batch);
    server->scratch = malloc(STK_BATCHES_MAX * sizeof *server->scratch);
    struct stk_dispatch_limits limits = {STK_LANES_MAX, STK_BATCHES_MAX, STK_ITEMS_MAX};
    size_t size = stk_dispatch_bytes(&limits);
    server->dispatch_block = malloc(size);
    if (!server->connections || !server->sources || !server->lanes || !server->requests || !server->request_of_batch ||
        !server->scratch || !server->dispatch_block)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the tables of a DataServer");
    server->dispatch = stk_dispatch_init(server->dispatch_block, size, &limits);
    for (uint32_t i = 0; i < STK_BATCHES_MAX; i++) server->request_of_batch[i] = STK_NONE;
    server->request_free = server->delivered_free = STK_NONE;
    return STOKER_OK;
}

static stoker_status create_coordinator(struct stk_server *server, stoker_error *err)
{
    const stoker_dataserver_options *given = server->options;
    struct stk_coordinator_options options = {
        .limits = {.servers = 1, .lanes = STK_LANES_MAX, .tasks = STK_BATCHES_MAX},
        .record_bytes_max = given->journal_bytes_max};
    if (given->policy && !stk_policy_parse(given->policy, &options.engine.place.policy))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "policy '%.64s' is not known: deadline, cost, least-request or round-robin", given->policy);
    if (given->journal) {
        server->journal_fd = open(given->journal, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (server->journal_fd < 0)
            return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot make the journal '%s'", given->journal);
    }
    STK_TRY(stk_coordinator_create(&options, given->journal ? &recording_ops : &coordinator_ops, server,
                                   &server->coordinator, err));
    STK_TRY(stk_estimate_create(&server->estimate, err));
    server->workers_told = 1;
    stk_server_event(server, (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = 0, .workers = 1});
    return STOKER_OK;
}

static stoker_status start(struct stk_server *server, stoker_error *err)
{
    const stoker_dataserver_options *options = server->options;
    if (!options->key || strlen(options->key) != 64 || !options->program)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "a DataServer needs a key of 64 digits and the path of its program");
    server->now_ns = server->started_ns = server->alone_since_ns = stk_clock_now_ns();
    /* Never 0 and never that of an earlier DataServer of this host: process ids alone come round. */
    server->incarnation = (server->started_ns << 16 ^ (uint64_t)getpid()) | 1;
    server->log = (struct stk_log){log_record, server,
                                   options->log_level > STOKER_LOG_WARN ? options->log_level : STOKER_LOG_WARN};
    /* What workers and templates leave behind comes to us, to be reaped, not to an init that may not do it. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    STK_TRY(create_tables(server, err));
    STK_TRY(stk_quarantine_create(&server->quarantine, err));
    STK_TRY(stk_loop_init(&server->loop, err));
    STK_TRY(stk_arena_create(options->shm_dir, send_unmap, server, &server->arena, err));
    STK_TRY(create_coordinator(server, err));
    struct stk_pool_options pool_options = {.loop = &server->loop,
                                            .log = &server->log,
                                            .program = options->program,
                                            .incarnation = server->incarnation,
                                            .process_count = &server->process_count,
                                            .ops = &stk_server_pool_ops,
                                            .user = server};
    STK_TRY(stk_pool_create(&pool_options, &server->pool, err));
    int flags = fcntl(server->listen_fd, F_GETFL); /* accepting goes on until nobody waits */
    if (flags < 0 || fcntl(server->listen_fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return stk_fail_os(err, STOKER_ERR_INVALID_ARGUMENT, errno, "cannot listen on descriptor %d",
                           server->listen_fd);
    server->listen_watch = (struct stk_watch){listen_ready, server, -1, 0};
    server->stop_watch = (struct stk_watch){stop_ready, server, -1, 0};
    STK_TRY(stk_loop_add(&server->loop, &server->listen_watch, server->listen_fd, err));
    if (options->stop_fd >= 0) STK_TRY(stk_loop_add(&server->loop, &server->stop_watch, options->stop_fd, err));
    return STOKER_OK;
}

void stk_server_destroy(struct stk_server *server)
{
    /* Nobody may find this server any more while it ends. */
    stk_loop_remove(&server->loop, &server->listen_watch);
    (void)close(server->listen_fd); /* nothing was sent on it */
    server->quiet = true;
    stk_pool_destroy(server->pool);
    server->pool = NULL;
    stk_exchange_destroy(server);
    for (uint32_t i = 0; i < server->connection_high; i++) {
        stk_link_close(&server->connections[i].link, &server->loop);
        if (server->connections[i].pidfd >= 0) (void)close(server->connections[i].pidfd); /* nothing to lose */
        server->connections[i].state = STK_CONNECTION_FREE;
    }
    stk_coordinator_destroy(server->coordinator);
    stk_estimate_destroy(server->estimate);
    if (server->journal_fd >= 0) (void)close(server->journal_fd); /* a write that failed was told */
    for (uint32_t i = 0; server->sources && i < STK_LANES_MAX; i++)
        if (server->sources[i].source_id) stoker_source_close(server->sources[i].source);
    for (uint32_t i = 0; i < server->lane_high; i++) free(server->lanes[i].ring);
    for (uint32_t i = 0; i < server->request_high; i++) {
        free(server->requests[i].bytes);
        free(server->requests[i].failure_text);
        free(server->requests[i].detail);
        stk_ragged_destroy(server->requests[i].ragged);
        free(server->requests[i].crashed);
    }
    stk_quarantine_destroy(server->quarantine);
    stk_arena_destroy(server->arena);
    stk_loop_fini(&server->loop);
    stk_map_fini(&server->delivered_map);
    free(server->delivered);
    free(server->dispatch_block);
    free(server->scratch);
    free(server->request_of_batch);
    free(server->requests);
    free(server->lanes);
    free(server->sources);
    free(server->connections);
    free(server);
}

/* ---- the loop */

bool stk_server_is_over(struct stk_server *server)
{
    if (server->stopping) return true;
    if (server->ranks_open > 0) return false;
    uint64_t alone_ns = server->now_ns - server->alone_since_ns;
    bool all_came = server->local_seen_count > 0 && server->local_seen_count >= server->local_world_size;
    if (!all_came && alone_ns < STK_IDLE_EXIT_NS) return false;
    /* Workers of Python lanes end by themselves, in their grace, so that what they opened is closed. */
    for (uint32_t i = 0; alone_ns < STK_CLOSING_NS && i < server->lane_high; i++)
        if (server->lanes[i].state != STK_LANE_FREE && server->lanes[i].kind == STK_SOURCE_PROCESS) return false;
    /* One that connected at this very moment is served. */
    stk_server_accept(server);
    for (uint32_t i = 0; i < server->connection_high; i++)
        if (server->connections[i].state == STK_CONNECTION_GREETING) return false;
    return true;
}

static int timeout_ms(const struct stk_server *server)
{
    if (server->busy) return 0;
    uint64_t until_ns = server->next_beat_ns, tick_ns = stk_pool_next_tick_ns(server->pool);
    if (tick_ns < until_ns) until_ns = tick_ns;
    uint64_t now_ns = stk_clock_now_ns();
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns + 999999) / 1000000);
}

/* The engine counts with the workers that there are. */
static void tell_workers(struct stk_server *server)
{
    uint32_t workers = 0, cursor = 0;
    while (stk_pool_walk(server->pool, &cursor)) workers++;
    if (workers == 0) workers = 1; /* they are started when there is work */
    if (workers == server->workers_told) return;
    server->workers_told = workers;
    stk_server_event(server, (struct stk_event){.type = STK_EVENT_HEARTBEAT, .server = 0, .workers = workers});
}

/* What is looked at once a second. */
static void beat(struct stk_server *server)
{
    server->next_beat_ns = server->now_ns + STK_HEARTBEAT_NS;
    stk_pool_reap_orphans(server->pool);
    tell_workers(server);
    stoker_error err;
    if (stk_quarantine_take_failure(server->quarantine, &err))
        stk_log(&server->log, STOKER_LOG_WARN, "quarantine_failed", "%s", err.message);
    /* Accepting was given up while there was no descriptor for it. */
    if (server->listen_watch.fd < 0) (void)stk_loop_add(&server->loop, &server->listen_watch, server->listen_fd, NULL);
}

stoker_status stk_server_step(struct stk_server *server, stoker_error *err)
{
    STK_TRY(stk_loop_run_once(&server->loop, timeout_ms(server), err));
    server->now_ns = stk_clock_now_ns();
    server->busy = false;
    stk_pool_tick(server->pool, server->now_ns);
    stk_coordinator_step(server->coordinator, server->now_ns);
    stk_flow_run(server);
    stk_connections_check(server);
    stk_lanes_check(server);
    stk_pool_sweep(server->pool);
    if (server->now_ns >= server->next_beat_ns) beat(server);
    return STOKER_OK;
}

stoker_status stk_server_create(const stoker_dataserver_options *options, struct stk_server **out_server,
                                stoker_error *err)
{
    if (!options || options->struct_size < sizeof *options)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the options of a DataServer are missing or too small");
    stoker_status status = STOKER_OK;
    struct stk_server *server = NULL;
    if (options->struct_size > sizeof *options)
        status =
            stk_fail(err, STOKER_ERR_UNSUPPORTED, "the options of a DataServer have %u bytes, this library knows %zu",
                     options->struct_size, sizeof *options);
    else if (!(server = calloc(1, sizeof *server)))
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a DataServer");
    if (status != STOKER_OK) {
        (void)close(options->listen_fd); /* taken, also on failure */
        return status;
    }
    server->options = options;
    server->listen_fd = options->listen_fd;
    server->journal_fd = -1;
    server->loop.epoll_fd = server->listen_watch.fd = server->stop_watch.fd = -1;
    status = start(server, err);
    if (status != STOKER_OK)
        stk_server_destroy(server);
    else
        *out_server = server;
    return status;
}

stoker_status stoker_dataserver_run(const stoker_dataserver_options *options, stoker_error *err)
{
    struct stk_server *server;
    STK_TRY(stk_server_create(options, &server, err));
    stoker_status status = STOKER_OK;
    while (status == STOKER_OK && !stk_server_is_over(server)) status = stk_server_step(server, err);
    stk_server_destroy(server);
    return status;
}
