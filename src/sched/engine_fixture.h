/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine of a few hosts for unit tests: two servers a host, lane 0 on host 0 with server 0, lane 1 on host 1 with
 * server 2. Times are milliseconds.
 */
#ifndef STK_SCHED_ENGINE_FIXTURE_H
#define STK_SCHED_ENGINE_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "sched/engine.h"
#include "tests/support/unit.h"

#define MS (STK_SECOND_NS / 1000)
enum { FIXTURE_HOSTS = 4, FIXTURE_SERVERS = 8, FIXTURE_LANES = 4, FIXTURE_TASKS = 32, FIXTURE_ACTIONS = 512 };

struct fixture {
    struct stk_engine *engine;
    void *block;
    struct stk_action actions[FIXTURE_ACTIONS];
    size_t count;
    uint64_t now_ns;
};

static inline void fixture_make_limited(struct fixture *f, const struct stk_engine_options *options, uint32_t models)
{
    const struct stk_engine_limits limits = {.servers = FIXTURE_SERVERS,
                                             .lanes = FIXTURE_LANES,
                                             .tasks = FIXTURE_TASKS,
                                             .hosts = FIXTURE_HOSTS,
                                             .models = models};
    size_t size = stk_engine_bytes(&limits);
    *f = (struct fixture){.block = aligned_alloc(16, size)};
    assert_non_null(f->block);
    memset(f->block, 0xa5, size);
    f->engine = stk_engine_init(f->block, size, &limits, options);
}

static inline void fixture_make(struct fixture *f, const struct stk_engine_options *options)
{
    fixture_make_limited(f, options, 0);
}

static inline void fixture_free(struct fixture *f) { free(f->block); }

static inline stoker_status fixture_try(struct fixture *f, struct stk_event event)
{
    size_t applied;
    return stk_engine_step(f->engine, f->now_ns, &event, 1, f->actions, FIXTURE_ACTIONS, &f->count, &applied, NULL);
}

static inline void fixture_send(struct fixture *f, struct stk_event event)
{
    assert_int_equal(fixture_try(f, event), STOKER_OK);
}

static inline void fixture_at(struct fixture *f, uint64_t now_ms) { f->now_ns = now_ms * MS; }

static inline void fixture_tick(struct fixture *f, uint64_t now_ms)
{
    fixture_at(f, now_ms);
    fixture_send(f, (struct stk_event){.type = STK_EVENT_TICK});
}

static inline void fixture_join(struct fixture *f, uint32_t server, uint32_t workers)
{
    fixture_send(
        f, (struct stk_event){.type = STK_EVENT_SERVER_JOIN, .server = server, .host = server / 2, .workers = workers});
}

/* Opens a lane on the host of that number, with the first server of the host as its own, and begins an iteration. */
static inline void fixture_lane(struct fixture *f, uint32_t lane)
{
    fixture_send(
        f, (struct stk_event){.type = STK_EVENT_LANE_OPEN, .lane = lane, .server = 2 * lane, .host = lane, .group = 1});
    fixture_send(f, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = lane});
}

static inline void fixture_request(struct fixture *f, uint32_t lane, uint64_t sequence, uint64_t cpu_ms)
{
    fixture_send(f, (struct stk_event){.type = STK_EVENT_REQUEST,
                                       .lane = lane,
                                       .sequence = sequence,
                                       .items = 1,
                                       .cpu_ns = cpu_ms * MS,
                                       .output_bytes = 1000});
}

static inline void fixture_result(struct fixture *f, uint32_t lane, uint64_t sequence, uint32_t server, uint64_t cpu_ms)
{
    fixture_send(f, (struct stk_event){.type = STK_EVENT_RESULT,
                                       .lane = lane,
                                       .sequence = sequence,
                                       .server = server,
                                       .cpu_ns = cpu_ms * MS,
                                       .wall_ns = cpu_ms * MS});
}

/* Gives each server of the range a task of its own and its answer, through a lane of another group, so that none is new
 * any more. Pools must be 0. */
static inline void fixture_prove(struct fixture *f, uint32_t first, uint32_t end)
{
    uint32_t lane = FIXTURE_LANES - 1;
    for (uint32_t server = first; server < end; server++) {
        fixture_send(f, (struct stk_event){.type = STK_EVENT_LANE_OPEN,
                                           .lane = lane,
                                           .server = server,
                                           .host = server / 2,
                                           .group = 99,
                                           .pools = UINT64_C(1) << 63});
        fixture_send(f, (struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = lane});
        fixture_send(f, (struct stk_event){.type = STK_EVENT_REQUEST, .lane = lane, .items = 1});
        fixture_send(f, (struct stk_event){.type = STK_EVENT_RESULT, .lane = lane, .server = server});
        fixture_send(f, (struct stk_event){.type = STK_EVENT_LANE_CLOSE, .lane = lane});
    }
}

/* The only action of the last step, of that type. */
static inline const struct stk_action *fixture_only(const struct fixture *f, enum stk_action_type type)
{
    assert_int_equal(f->count, 1);
    assert_int_equal(f->actions[0].type, type);
    return &f->actions[0];
}

static inline struct stk_engine_server fixture_server(const struct fixture *f, uint32_t server)
{
    struct stk_engine_server state;
    assert_true(stk_engine_read_server(f->engine, server, &state));
    return state;
}

static inline struct stk_engine_stats fixture_stats(const struct fixture *f)
{
    struct stk_engine_stats stats;
    stk_engine_read_stats(f->engine, &stats);
    return stats;
}

#endif
