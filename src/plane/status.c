/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. The state of the DataServer as one JSON object, for the STATUS message: what a person asks
 * for when training waits. Fields are added, not changed (docs/reference/messages.md).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plane/estimate.h"
#include "plane/server_internal.h"
#include "wire/exchange.h"

enum {
    STATUS_BYTES_MAX = 8 << 20, /* what the message takes */
    NAME_BYTES_SHOWN = 256
};

struct text {
    char *data;
    size_t size, cap;
    bool failed;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
    for (int attempt = 0; attempt < 2 && !text->failed; attempt++) {
        va_list arguments;
        va_start(arguments, format);
        int needed = vsnprintf(text->data + text->size, text->cap - text->size, format, arguments);
        va_end(arguments);
        if (needed < 0) {
            text->failed = true;
        } else if (text->size + (size_t)needed < text->cap) {
            text->size += (size_t)needed;
            return;
        } else {
            size_t cap = 2 * (text->size + (size_t)needed + 1);
            char *grown = realloc(text->data, cap);
            if (!grown)
                text->failed = true;
            else
                text->data = grown, text->cap = cap;
        }
    }
}

/* A JSON string; bytes that are no printable ASCII are escaped one by one, so that no name can break the object. */
static void add_string(struct text *text, const char *bytes, size_t size)
{
    add(text, "\"");
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            add(text, "\\u%04x", c);
        else
            add(text, "%c", c);
    }
    add(text, "\"");
}

static unsigned long long ull(uint64_t value) { return (unsigned long long)value; }

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

/* Who has this process number, for people: "rank 1 (pid 17)". */
static void add_holder(struct text *text, struct stk_server *server, uint32_t process)
{
    const struct stk_connection *connection = stk_connection_find_process(server, process);
    const struct stk_worker *worker = connection ? NULL : stk_pool_find_process(server->pool, process);
    if (connection)
        add(text, "{\"kind\": \"rank\", \"rank\": %u, \"pid\": %ld}", connection->rank, (long)connection->pid);
    else if (worker)
        add(text, "{\"kind\": \"worker\", \"pid\": %ld}", (long)worker->pid);
    else
        add(text, "null");
}

static void add_arena(struct text *text, struct stk_server *server)
{
    struct stk_arena_stats stats;
    stk_arena_read_stats(server->arena, &stats);
    add(text,
        "\"arena\": {\"limit_bytes\": %llu, \"reserve_bytes\": %llu, \"committed_bytes\": %llu, \"used_bytes\": %llu, "
        "\"pinned_bytes\": %llu, \"quarantined_bytes\": %llu, \"peak_committed_bytes\": %llu, \"segments\": %u, "
        "\"slabs\": %u, "
        "\"quarantined\": [",
        ull(stats.limit_bytes), ull(stats.reserve_bytes), ull(stats.committed_bytes), ull(stats.used_bytes),
        ull(stats.pinned_bytes), ull(stats.quarantined_bytes), ull(stats.peak_committed_bytes), stats.segments,
        stats.slabs);
    uint32_t cursor = 0, process;
    struct stk_slab slab;
    for (bool first = true; stk_arena_walk_quarantine(server->arena, &cursor, &slab, &process); first = false) {
        add(text, "%s{\"slab_id\": %llu, \"bytes\": %llu, \"holder\": ", first ? "" : ", ", ull(slab.slab_id),
            ull(slab.size));
        add_holder(text, server, process);
        add(text, "}");
    }
    add(text, "]}");
}

/* How the engine decides, and what it did so far. */
static void add_engine(struct text *text, const struct stk_engine *engine)
{
    struct stk_engine_stats stats;
    bool first = true;
    stk_engine_read_stats(engine, &stats);
    add(text,
        "\"engine\": {\"policy\": \"%s\", \"servers\": %u, \"tasks\": %u, \"tasks_held\": %u, \"placed\": %llu, "
        "\"remote\": "
        "%llu, \"late\": %llu, \"copies\": %llu, \"cross_bytes\": %llu, \"reasons\": {",
        stk_policy_name(stk_engine_read_options(engine)->place.policy), stats.servers, stats.tasks, stats.held,
        ull(stats.placed), ull(stats.remote), ull(stats.late), ull(stats.copies), ull(stats.cross_bytes));
    for (uint32_t i = 0; i < sizeof stats.by_reason / sizeof *stats.by_reason; i++) {
        if (stats.by_reason[i] == 0) continue;
        add(text, "%s\"%s\": %llu", first ? "" : ", ", stk_place_reason_name((enum stk_place_reason)i),
            ull(stats.by_reason[i]));
        first = false;
    }
    add(text, "}}");
}

/* What the engine expects of a loader: empty for one that it does not know any more. */
static void add_plan(struct text *text, const struct stk_server *server, const struct stk_lane *lane)
{
    struct stk_engine_lane plan;
    if (lane->state == STK_LANE_CLOSING ||
        !stk_engine_read_lane(stk_coordinator_engine(server->coordinator), lane->index, &plan))
        return;
    double left_s = plan.deadline_ns > server->now_ns ? seconds(plan.deadline_ns - server->now_ns) : 0.0;
    add(text, "\"next\": %llu, \"deadline_s\": %.6f, \"paused\": %s, ", ull(plan.next), left_s,
        plan.paused ? "true" : "false");
    if (plan.placed)
        add(text, "\"placement\": {\"reason\": \"%s\", \"total_s\": %.6f, \"late_s\": %.6f}, ",
            stk_place_reason_name(plan.reason), seconds(plan.total_ns), seconds(plan.late_ns));
}

static void add_ranks(struct text *text, struct stk_server *server)
{
    static const char *const names[] = {"free", "greeting", "connected", "left, keeps views"};
    bool first = true;
    add(text, "\"ranks\": [");
    for (uint32_t i = 0; i < server->connection_high; i++) {
        const struct stk_connection *connection = &server->connections[i];
        if (connection->state == STK_CONNECTION_FREE || connection->state == STK_CONNECTION_GREETING) continue;
        add(text, "%s{\"rank\": %u, \"world_size\": %u, \"pid\": %ld, \"state\": \"%s\", \"slabs_held\": %u}",
            first ? "" : ", ", connection->rank, connection->world_size, (long)connection->pid,
            names[connection->state], connection->delivered);
        first = false;
    }
    add(text, "]");
}

/* How well the costs of its samples are known. */
static void add_forecast(struct text *text, struct stk_server *server, const struct stk_lane *lane)
{
    const struct stk_estimate_of of = {lane->group, lane->cost_class, NULL};
    uint32_t learned, error = stk_estimate_error(server->estimate, &of, &learned);
    add(text, "\"costs_learned\": %u, \"cost_error_p95\": %.3f, ", learned, error / 1000.0);
}

/* Whom it waits for in an exchange. */
static void add_awaited(struct text *text, const struct stk_lane *lane)
{
    uint32_t ranks[STOKER_BALANCE_RANKS_MAX];
    uint64_t number = 0;
    uint32_t count = stk_exchange_awaited(lane, &number, ranks);
    if (count == 0) return;
    add(text, "\"exchange\": {\"number\": %llu, \"awaits\": [", ull(number));
    for (uint32_t i = 0; i < count; i++) add(text, "%s%u", i ? ", " : "", ranks[i]);
    add(text, "]}, ");
}

static void add_lane(struct text *text, struct stk_server *server, struct stk_lane *lane)
{
    static const char *const names[] = {"free", "opening", "open", "closing"};
    uint64_t used, pinned;
    struct stk_crew_info crew;
    bool native = lane->kind != STK_SOURCE_PROCESS;
    stk_arena_lane_stats(server->arena, lane->index, &used, &pinned);
    stk_pool_read_crew(server->pool, native ? STK_CREW_NATIVE : lane->index + 1, &crew);
    add(text, "{\"rank\": %u, \"loader_id\": %u, \"name\": ", server->connections[lane->connection].rank,
        lane->loader_id);
    add_string(text, lane->name, lane->name_size < NAME_BYTES_SHOWN ? lane->name_size : NAME_BYTES_SHOWN);
    add(text,
        ", \"group\": %u, \"kind\": \"%s\", \"state\": \"%s\", \"generation\": %u, \"requested\": %llu, \"in_flight\": "
        "%u, \"held\": %u, ",
        lane->group, native ? "media" : "process", lane->broken ? "broken" : names[lane->state], lane->generation,
        ull(lane->next_sequence), lane->live, lane->held);
    add(text,
        "\"num_workers\": %u, \"template_pid\": %ld, \"max_bytes\": %llu, \"largest_bytes\": %llu, \"used_bytes\": "
        "%llu, "
        "\"pinned_bytes\": %llu, \"window_s\": %.6f, ",
        lane->num_workers, (long)crew.template_pid, ull(lane->max_bytes),
        ull(native ? lane->sample_bytes * lane->batch_samples_max : lane->largest), ull(used), ull(pinned),
        lane->state == STK_LANE_CLOSING ? 0.0 : seconds(stk_coordinator_window_ns(server->coordinator, lane->index)));
    add_plan(text, server, lane);
    add_awaited(text, lane);
    add_forecast(text, server, lane);
    add(text,
        "\"batches\": %llu, \"failed\": %llu, \"samples\": %llu, \"samples_skipped\": %llu, \"tasks_retried\": %llu, "
        "\"copies\": %llu}",
        ull(lane->counts.batches), ull(lane->counts.failed), ull(lane->counts.samples), ull(lane->counts.skipped),
        ull(lane->counts.retried), ull(lane->counts.copies));
}

static void add_workers(struct text *text, struct stk_server *server)
{
    static const char *const names[] = {"free", "forking", "idle", "busy", "ending"};
    static const char *const isolated[] = {"null", "true", "false"};
    struct stk_pool_stats stats;
    stk_pool_read_stats(server->pool, &stats);
    add(text, "\"workers\": [");
    uint32_t cursor = 0;
    bool first = true;
    for (struct stk_worker *worker; (worker = stk_pool_walk(server->pool, &cursor));) {
        add(text, "%s{\"pid\": %ld, \"kind\": \"%s\", \"worker_id\": %u, \"state\": \"%s\"", first ? "" : ", ",
            (long)worker->pid, worker->crew == STK_CREW_NATIVE ? "native" : "process", worker->member,
            worker->stuck ? "stuck" : names[worker->state]);
        if (worker->crew == STK_CREW_NATIVE) add(text, ", \"isolated\": %s", isolated[worker->isolated]);
        if (worker->state == STK_WORKER_BUSY)
            add(text, ", \"busy_s\": %.3f", seconds(server->now_ns - worker->busy_since_ns));
        add(text, "}");
        first = false;
    }
    add(text,
        "], \"pool\": {\"started\": %llu, \"replaced\": %llu, \"killed_stalled\": %llu, \"killed_stopped\": %llu, "
        "\"crashed\": %llu, \"killed_overran\": %llu, \"not_isolated\": ",
        ull(stats.started), ull(stats.replaced), ull(stats.killed_stalled), ull(stats.killed_stopped),
        ull(stats.crashed), ull(stats.killed_overran));
    if (server->not_isolated[0])
        add_string(text, server->not_isolated, strlen(server->not_isolated));
    else
        add(text, "null");
    add(text, "}");
}

void stk_status_send(struct stk_connection *connection, uint64_t token)
{
    struct stk_server *server = connection->server;
    struct text text = {.cap = 4096};
    text.data = malloc(text.cap);
    text.failed = !text.data;
    stk_coordinator_step(server->coordinator, server->now_ns); /* it knows the loaders that are listed */
    add(&text, "{\"schema\": \"stoker.status/1\", \"pid\": %ld, \"uptime_s\": %.3f, ", (long)getpid(),
        seconds(server->now_ns - server->started_ns));
    add_arena(&text, server);
    add(&text, ", ");
    add_engine(&text, stk_coordinator_engine(server->coordinator));
    add(&text, ", ");
    add_ranks(&text, server);
    add(&text, ", \"loaders\": [");
    bool first = true;
    for (uint32_t i = 0; i < server->lane_high; i++) {
        if (server->lanes[i].state == STK_LANE_FREE) continue;
        if (!first) add(&text, ", ");
        add_lane(&text, server, &server->lanes[i]);
        first = false;
    }
    add(&text, "], ");
    add_workers(&text, server);
    add(&text, "}");
    static const char too_large[] = "{\"schema\": \"stoker.status/1\", \"error\": \"too large to be told\"}";
    struct stk_message_status message = {token, {text.data, text.size}};
    if (text.failed || text.size > STATUS_BYTES_MAX) message.text = (struct stk_span){too_large, sizeof too_large - 1};
    STK_LINK_SEND(&connection->link, &server->loop, STK_MESSAGE_STATUS, status, &message, NULL, 0);
    free(text.data);
}
