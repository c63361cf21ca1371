/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. Rounds between ranks of this host (tier 2): what each rank of a list says is put together and
 * sent to all of them, and slabs change their owner. The DataServer knows neither features nor assignments, and maps no
 * payload: nothing of it can move here.
 *
 * Each lane has one gathering at most. Lanes of other ranks match by name, else by order of creation. Nobody waits for
 * a rank that cannot come: one that has died, has left, takes part no more, or waits at another number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "plane/server_internal.h"
#include "wire/exchange.h"

enum stk_gather_state { STK_GATHER_NONE, STK_GATHER_WAITING, STK_GATHER_DONE, STK_GATHER_LEFT };

struct stk_gather_entry { /* of a lane */
    enum stk_gather_state state;
    uint32_t loader_id, connection, generation; /* of the lane, when it said this */
    uint64_t number;
    uint32_t rank_count, size;
    uint32_t *ranks; /* owned, and after them the data */
    uint8_t *data;
};

struct stk_exchange {
    struct stk_gather_entry entries[STK_LANES_MAX];
    uint32_t gone[2 * STK_RANKS_MAX]; /* ranks that have left, the latest of them: a ring */
    uint32_t gone_count, gone_at;
    uint8_t closed[STK_LANES_MAX][STK_CONNECTIONS_MAX / 8]; /* bit: that rank's lane that matches this one was closed */
};

void stk_exchange_destroy(struct stk_server *server)
{
    if (!server->exchange) return;
    for (uint32_t i = 0; i < STK_LANES_MAX; i++) free(server->exchange->entries[i].ranks);
    free(server->exchange);
    server->exchange = NULL;
}

/* The last that the lane has said, in this generation or an earlier one; NULL if nothing. */
static struct stk_gather_entry *last_entry_of(struct stk_server *server, const struct stk_lane *lane)
{
    struct stk_gather_entry *entry = &server->exchange->entries[lane->index];
    bool own =
        entry->state != STK_GATHER_NONE && entry->loader_id == lane->loader_id && entry->connection == lane->connection;
    return own ? entry : NULL;
}

/* What the lane has said in its generation, NULL if nothing. */
static struct stk_gather_entry *entry_of(struct stk_server *server, const struct stk_lane *lane)
{
    struct stk_gather_entry *entry = last_entry_of(server, lane);
    return entry && entry->generation == lane->generation ? entry : NULL;
}

static void forget(struct stk_gather_entry *entry)
{
    free(entry->ranks);
    *entry = (struct stk_gather_entry){.state = STK_GATHER_NONE};
}

static struct stk_connection *find_rank(struct stk_server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->connection_high; i++)
        if (server->connections[i].state == STK_CONNECTION_OPEN && server->connections[i].rank == rank)
            return &server->connections[i];
    return NULL;
}

static bool matches(const struct stk_lane *a, const struct stk_lane *b)
{
    if (a->name_size != b->name_size || memcmp(a->name, b->name, a->name_size) != 0) return false;
    return a->name_size > 0 || a->order == b->order;
}

/* The lane of that rank which is the same loader's, and is open or being opened. */
static struct stk_lane *find_match(struct stk_server *server, const struct stk_lane *lane, uint32_t rank)
{
    const struct stk_connection *connection = find_rank(server, rank);
    for (uint32_t i = 0; connection && i < server->lane_high; i++) {
        struct stk_lane *other = &server->lanes[i];
        bool here = other->state == STK_LANE_OPEN || other->state == STK_LANE_OPENING;
        if (here && other->connection == connection->index && matches(lane, other)) return other;
    }
    return NULL;
}

static bool has_rank(const struct stk_gather_entry *entry, uint32_t rank)
{
    for (uint32_t i = 0; i < entry->rank_count; i++)
        if (entry->ranks[i] == rank) return true;
    return false;
}

static void answer(struct stk_server *server, uint32_t lane_index, stoker_status status, const char *text,
                   struct stk_span data)
{
    const struct stk_lane *lane = &server->lanes[lane_index];
    struct stk_gather_entry *entry = &server->exchange->entries[lane_index];
    struct stk_connection *connection = &server->connections[lane->connection];
    struct stk_message_gathered message = {.loader_id = lane->loader_id,
                                           .generation = entry->generation,
                                           .number = entry->number,
                                           .status = status,
                                           .text = {text, strlen(text)},
                                           .data = data};
    entry->state = STK_GATHER_DONE;
    STK_LINK_SEND(&connection->link, &server->loop, STK_MESSAGE_GATHERED, gathered, &message, NULL, 0);
}

static void fail(struct stk_server *server, uint32_t lane_index, stoker_status status, const char *text)
{
    answer(server, lane_index, status, text, (struct stk_span){0});
}

/* Puts together what all of them said; NULL: it is too much, or there is no memory. */
static uint8_t *join(struct stk_server *server, uint32_t *const lanes, uint32_t count, size_t *out_size)
{
    size_t size = 0, used = 0;
    for (uint32_t i = 0; i < count; i++) size += 4 + (size_t)server->exchange->entries[lanes[i]].size;
    if (size > STK_MESSAGE_BYTES_MAX - (64u << 10)) return NULL;
    uint8_t *all = malloc(size + 1);
    if (!all) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct stk_gather_entry *entry = &server->exchange->entries[lanes[i]];
        for (int byte = 0; byte < 4; byte++) all[used++] = (uint8_t)(entry->size >> (8 * byte));
        if (entry->size) memcpy(all + used, entry->data, entry->size);
        used += entry->size;
    }
    *out_size = size;
    return all;
}

/* Ranks begin an iteration at different times: who has left an earlier one still comes, who is in a later one does not.
 */
static uint64_t iteration_of(const struct stk_gather_entry *entry) { return entry->number >> 32; }

static bool is_past(const struct stk_gather_entry *entry, uint64_t iteration)
{
    return iteration_of(entry) + (entry->state == STK_GATHER_LEFT) > iteration;
}

/* Two ranks name each other, and are not of one mind about the round. Text of the same round says where lists differ.
 */
static void describe_difference(char *text, size_t size, const struct stk_gather_entry *mine,
                                const struct stk_gather_entry *other, uint32_t my_rank, uint32_t other_rank)
{
    uint32_t place = 0;
    if (mine->number != other->number) {
        (void)snprintf(text, size,
                       "the ranks of an exchange are not at one round: round %llu of %u ranks meets round %llu of %u "
                       "(rank %u)",
                       (unsigned long long)mine->number, mine->rank_count, (unsigned long long)other->number,
                       other->rank_count, other_rank);
        return;
    }
    while (place < mine->rank_count && place < other->rank_count && mine->ranks[place] == other->ranks[place]) place++;
    if (place < mine->rank_count && place < other->rank_count)
        (void)snprintf(text, size,
                       "the lists of ranks that exchange differ: the list of rank %u has rank %u at place %u, that of "
                       "rank %u has rank %u",
                       my_rank, mine->ranks[place], place, other_rank, other->ranks[place]);
    else
        (void)snprintf(text, size,
                       "the lists of ranks that exchange differ: the list of rank %u has %u ranks, that of rank %u has "
                       "%u",
                       my_rank, mine->rank_count, other_rank, other->rank_count);
}

/* Had the rank a lane that matches this one, and has it closed it? Nameless ones come in the order of their numbers. */
static bool has_closed(const struct stk_server *server, const struct stk_lane *lane,
                       const struct stk_connection *connection)
{
    if (lane->name_size == 0 && connection->orders > lane->order) return true;
    return server->exchange->closed[lane->index][connection->index / 8] >> (connection->index % 8) & 1;
}

/* Is this lane's gathering without that rank for good? `other` is the rank's lane, NULL if there is none. */
static bool cannot_come(struct stk_server *server, uint32_t lane_index, uint32_t rank, const struct stk_lane *other,
                        char *text, size_t size)
{
    const struct stk_exchange *exchange = server->exchange;
    const struct stk_gather_entry *entry = &exchange->entries[lane_index];
    const struct stk_gather_entry *last = other ? last_entry_of(server, other) : NULL;
    const struct stk_connection *connection = find_rank(server, rank);
    bool gone = false;
    for (uint32_t i = 0; !connection && i < exchange->gone_count; i++) gone = gone || exchange->gone[i] == rank;
    bool past = last && is_past(last, iteration_of(entry));
    if (gone)
        (void)snprintf(text, size, "rank %u has left, round %u of the exchange cannot be held", rank,
                       (uint32_t)entry->number);
    else if (past)
        (void)snprintf(text, size,
                       "rank %u has ended its iteration or exchanges with nobody, this rank waits for it at round %u",
                       rank, (uint32_t)entry->number);
    else if (connection && !other && has_closed(server, &server->lanes[lane_index], connection))
        (void)snprintf(text, size, "rank %u has closed its loader, round %u of the exchange cannot be held", rank,
                       (uint32_t)entry->number);
    else
        return false;
    return true;
}

/* Can the lane's gathering end now, well or badly? */
static void settle(struct stk_server *server, uint32_t lane_index)
{
    struct stk_gather_entry *entry = &server->exchange->entries[lane_index];
    uint32_t lanes[STOKER_BALANCE_RANKS_MAX];
    char text[256];
    bool all = true;
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        uint32_t rank = entry->ranks[i];
        struct stk_lane *other = find_match(server, &server->lanes[lane_index], rank);
        const struct stk_gather_entry *said = other ? entry_of(server, other) : NULL;
        if (cannot_come(server, lane_index, rank, other, text, sizeof text)) {
            fail(server, lane_index, STOKER_ERR_UNAVAILABLE, text);
            return;
        }
        bool waits = said && said->state == STK_GATHER_WAITING && iteration_of(said) == iteration_of(entry);
        if (waits && has_rank(said, server->connections[server->lanes[lane_index].connection].rank) &&
            (said->number != entry->number || said->rank_count != entry->rank_count ||
             memcmp(said->ranks, entry->ranks, entry->rank_count * sizeof *entry->ranks) != 0)) {
            describe_difference(text, sizeof text, entry, said,
                                server->connections[server->lanes[lane_index].connection].rank, rank);
            fail(server, other->index, STOKER_ERR_WRONG_STATE, text);
            fail(server, lane_index, STOKER_ERR_WRONG_STATE, text);
            return;
        }
        if (!waits)
            all = false;
        else
            lanes[i] = other->index;
    }
    if (!all) return;
    size_t size = 0;
    uint32_t count = entry->rank_count;
    uint8_t *data = join(server, lanes, count, &size);
    for (uint32_t i = 0; i < count; i++) {
        if (data)
            answer(server, lanes[i], STOKER_OK, "", (struct stk_span){data, size});
        else
            fail(server, lanes[i], STOKER_ERR_LIMIT, "the features of one round take more than 63 MiB");
    }
    free(data);
}

uint32_t stk_exchange_awaited(const struct stk_lane *lane, uint64_t *out_number, uint32_t *out_ranks)
{
    struct stk_server *server = lane->server;
    const struct stk_gather_entry *entry = server->exchange ? entry_of(server, lane) : NULL;
    uint32_t count = 0;
    if (!entry || entry->state != STK_GATHER_WAITING) return 0;
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        const struct stk_lane *other = find_match(server, lane, entry->ranks[i]);
        const struct stk_gather_entry *said = other ? entry_of(server, other) : NULL;
        if (!said || said->state != STK_GATHER_WAITING || said->number != entry->number)
            out_ranks[count++] = entry->ranks[i];
    }
    *out_number = entry->number;
    return count;
}

/* Others may wait for this lane's rank, which does not come. */
static void settle_waiting(struct stk_server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->lane_high; i++) {
        struct stk_lane *lane = &server->lanes[i];
        struct stk_gather_entry *entry = lane->state == STK_LANE_OPEN ? entry_of(server, lane) : NULL;
        if (entry && entry->state == STK_GATHER_WAITING && has_rank(entry, rank)) settle(server, i);
    }
}

/* Ranks that have what was gathered may still wait for slabs of this one, which do not come. Those that do not wait for
 * it leave the message aside: what it gave before was sent to them before. */
static void tell_left(const struct stk_lane *lane, const char *what, bool waiting_too)
{
    struct stk_server *server = lane->server;
    uint32_t rank = server->connections[lane->connection].rank;
    char text[160];
    (void)snprintf(text, sizeof text, "rank %u has %s in the middle of a round of the exchange", rank, what);
    for (uint32_t i = 0; i < server->lane_high; i++) {
        struct stk_lane *other = &server->lanes[i];
        struct stk_gather_entry *entry =
            other->state == STK_LANE_OPEN && other != lane ? entry_of(server, other) : NULL;
        if (!entry || !has_rank(entry, rank) || !matches(lane, other)) continue;
        if (entry->state == STK_GATHER_DONE || (waiting_too && entry->state == STK_GATHER_WAITING))
            fail(server, i, STOKER_ERR_UNAVAILABLE, text);
    }
}

static stoker_status keep(struct stk_gather_entry *entry, const struct stk_lane *lane,
                          const struct stk_message_gather *message, stoker_error *err)
{
    uint32_t count = (uint32_t)(message->ranks.size / 4);
    uint32_t *ranks = malloc(message->ranks.size + message->data.size + 4);
    if (!ranks) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for what a rank said to others");
    forget(entry);
    const uint8_t *from = message->ranks.data;
    for (uint32_t i = 0; i < count; i++)
        ranks[i] = (uint32_t)from[4 * i] | (uint32_t)from[4 * i + 1] << 8 | (uint32_t)from[4 * i + 2] << 16 |
                   (uint32_t)from[4 * i + 3] << 24;
    *entry = (struct stk_gather_entry){.state = count ? STK_GATHER_WAITING : STK_GATHER_LEFT,
                                       .loader_id = lane->loader_id,
                                       .connection = lane->connection,
                                       .generation = lane->generation,
                                       .number = message->number,
                                       .rank_count = count,
                                       .size = (uint32_t)message->data.size,
                                       .ranks = ranks,
                                       .data = (uint8_t *)(ranks + count)};
    if (message->data.size) memcpy(entry->data, message->data.data, message->data.size);
    return STOKER_OK;
}

static stoker_status make_table(struct stk_server *server, stoker_error *err)
{
    if (!server->exchange) server->exchange = calloc(1, sizeof *server->exchange);
    return server->exchange ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for exchanges between ranks");
}

stoker_status stk_exchange_gather(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_server *server = connection->server;
    struct stk_message_gather message;
    STK_TRY(stk_gather_decode(body, &message, err));
    struct stk_lane *lane = stk_lane_find(connection, message.loader_id);
    if (!lane || lane->state != STK_LANE_OPEN)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "loader %u is not open", message.loader_id);
    if (lane->generation != message.generation) return STOKER_OK; /* of an iteration that is over */
    STK_TRY(make_table(server, err));
    const struct stk_gather_entry *before = entry_of(server, lane);
    if (before && before->state == STK_GATHER_WAITING && message.ranks.size)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "rank %u gathers for round %llu and has not got that of round %llu",
                        connection->rank, (unsigned long long)message.number, (unsigned long long)before->number);
    struct stk_gather_entry *entry = &server->exchange->entries[lane->index];
    STK_TRY(keep(entry, lane, &message, err));
    if (entry->state == STK_GATHER_WAITING && !has_rank(entry, connection->rank))
        return stk_fail(err, STOKER_ERR_PROTOCOL, "rank %u gathers for ranks of which it is none", connection->rank);
    if (entry->state == STK_GATHER_WAITING)
        settle(server, lane->index);
    else
        tell_left(lane, "ended its iteration", false);
    settle_waiting(server, connection->rank); /* ranks that are in an earlier iteration still, too */
    return STOKER_OK;
}

/* Has the lane's rank left the iteration of a round since it gathered for that? Then it takes nothing of it any more,
 * and what it got would lie in its memory until the next iteration is over. */
static bool has_moved_on(struct stk_server *server, const struct stk_lane *lane, uint64_t number)
{
    if (!server->exchange) return false;
    const struct stk_gather_entry *entry = last_entry_of(server, lane);
    return entry && is_past(entry, number >> 32);
}

stoker_status stk_exchange_give(struct stk_connection *connection, struct stk_span body, stoker_error *err)
{
    struct stk_server *server = connection->server;
    struct stk_message_give message;
    struct stk_message_ready ready;
    STK_TRY(stk_give_decode(body, &message, err));
    STK_TRY(stk_ready_decode(message.ready, &ready, err));
    struct stk_lane *lane = stk_lane_find(connection, message.loader_id);
    const struct stk_lane *to = lane ? find_match(server, lane, message.rank) : NULL;
    uint64_t slab_id = ready.region.slab_id, used = ready.region.size;
    /* What it would have got is free. */
    if (!to || to->state != STK_LANE_OPEN || has_moved_on(server, to, message.number)) {
        if (!stk_flow_release(connection, slab_id))
            return stk_fail(err, STOKER_ERR_PROTOCOL, "slab %llu was given, which this rank does not hold",
                            (unsigned long long)slab_id);
        return STOKER_OK;
    }
    struct stk_connection *receiver = &server->connections[to->connection];
    int fd = -1;
    if (!stk_flow_pass(connection, receiver, slab_id, &ready.region, &fd))
        return stk_fail(err, STOKER_ERR_PROTOCOL, "slab %llu was given, which this rank does not hold",
                        (unsigned long long)slab_id);
    if (used > ready.region.size)
        return stk_fail(err, STOKER_ERR_PROTOCOL, "a slab of %llu bytes was given with %llu bytes in it",
                        (unsigned long long)ready.region.size, (unsigned long long)used);
    ready.region.size = used;
    ready.loader_id = to->loader_id;
    ready.generation = to->generation;
    uint8_t bytes[8192];
    struct stk_writer writer = {.data = bytes, .size = sizeof bytes};
    stk_ready_encode(&writer, &ready);
    STK_ASSERT(!writer.full);
    struct stk_message_give given = {.loader_id = to->loader_id,
                                     .generation = to->generation,
                                     .number = message.number,
                                     .rank = connection->rank,
                                     .tag = message.tag,
                                     .ready = {bytes, writer.used}};
    STK_LINK_SEND(&receiver->link, &server->loop, STK_MESSAGE_GIVEN, give, &given, &fd, fd >= 0 ? 1 : 0);
    return STOKER_OK;
}

static void note_closed(const struct stk_lane *lane, bool closed)
{
    const struct stk_server *server = lane->server;
    uint8_t bit = (uint8_t)(1u << (lane->connection % 8));
    for (uint32_t i = 0; i < server->lane_high; i++) {
        const struct stk_lane *other = &server->lanes[i];
        if (other == lane || other->state == STK_LANE_FREE || !matches(lane, other)) continue;
        uint8_t *byte = &server->exchange->closed[i][lane->connection / 8];
        *byte = (uint8_t)(closed ? *byte | bit : *byte & ~bit);
    }
}

void stk_exchange_lane_opened(const struct stk_lane *lane)
{
    struct stk_exchange *exchange = lane->server->exchange;
    if (!exchange) return;
    memset(exchange->closed[lane->index], 0, sizeof exchange->closed[0]);
    note_closed(lane, false);
}

void stk_exchange_lane_left(struct stk_lane *lane)
{
    struct stk_server *server = lane->server;
    if (!server->exchange) return;
    note_closed(lane, true);
    if (entry_of(server, lane)) forget(&server->exchange->entries[lane->index]);
    tell_left(lane, "left", true);
}

void stk_exchange_rank_left(struct stk_connection *connection)
{
    struct stk_server *server = connection->server;
    if (make_table(server, NULL) != STOKER_OK) return; /* then those who wait wait until their time is up */
    struct stk_exchange *exchange = server->exchange;
    exchange->gone[exchange->gone_at] = connection->rank;
    exchange->gone_at = (exchange->gone_at + 1) % (2 * STK_RANKS_MAX);
    if (exchange->gone_count < 2 * STK_RANKS_MAX) exchange->gone_count++;
    for (uint32_t i = 0; i < STK_LANES_MAX; i++) /* another rank may come in its place */
        exchange->closed[i][connection->index / 8] &= (uint8_t) ~(1u << (connection->index % 8));
    settle_waiting(server, connection->rank);
}
