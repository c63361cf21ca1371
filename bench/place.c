/* SPDX-License-Identifier: Apache-2.0
 *
 * What one placement costs: ./dev bench place [--servers N] [--json].
 *
 * A cluster in steady state: servers of 16 workers, eight on each host, ranks on an eighth of the hosts, batches of
 * four codecs and three sizes whose costs come from the cost model, local servers that are late so that remote ones are
 * compared. Every decision is one stk_engine_step() with one REQUEST; results come back in another order than they were
 * placed, and each step of the ranks moves deadlines. Only the steps with a request are timed. Without --servers a
 * table over sizes shows how the cost grows with the number of servers.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/engine.h"

enum { WORKERS = 16, PER_HOST = 8, ITEMS = 8, WARM_UP = 20000, MEASURED = 100000, MODELS = 16384 };
#define MS (STK_SECOND_NS / 1000)

struct cluster {
    struct stk_engine *engine;
    void *block;
    struct stk_action *actions;
    size_t cap;
    struct stk_engine_limits limits;
    uint64_t now_ns, random;
    struct stk_action *flying; /* placements that wait for their results */
    size_t flying_count, flying_max;
    uint64_t *next; /* sequence of each lane */
};

struct cell {
    uint32_t servers;
    enum stk_policy policy;
    uint64_t median_ns, p95_ns, p99_ns, mean_ns;
    uint64_t remote, candidates;
};

static uint64_t clock_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at); /* cannot fail */
    return (uint64_t)at.tv_sec * STK_SECOND_NS + (uint64_t)at.tv_nsec;
}

static uint32_t draw(struct cluster *c, uint32_t bound)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (uint32_t)((c->random >> 32) * bound >> 32);
}

static void *need(void *memory)
{
    if (memory) return memory;
    (void)fputs("bench place: no memory\n", stderr);
    exit(4);
}

/* Returns the number of actions. */
static size_t step(struct cluster *c, const struct stk_event *event)
{
    size_t count = 0, applied = 0;
    stoker_error err = {0};
    if (stk_engine_step(c->engine, c->now_ns, event, 1, c->actions, c->cap, &count, &applied, &err) != STOKER_OK) {
        (void)fprintf(stderr, "bench place: %s\n", err.message);
        exit(70);
    }
    return count;
}

static void join(struct cluster *c)
{
    for (uint32_t i = 0; i < c->limits.servers; i++)
        (void)step(c, &(struct stk_event){
                          .type = STK_EVENT_SERVER_JOIN, .server = i, .host = i / PER_HOST, .workers = WORKERS});
    for (uint32_t lane = 0; lane < c->limits.lanes; lane++) {
        (void)step(c, &(struct stk_event){.type = STK_EVENT_LANE_OPEN,
                                          .lane = lane,
                                          .server = lane,
                                          .host = lane / PER_HOST,
                                          .group = 1,
                                          .rank = lane});
        (void)step(c, &(struct stk_event){.type = STK_EVENT_LANE_BEGIN, .lane = lane});
    }
}

static void create(struct cluster *c, uint32_t servers, enum stk_policy policy)
{
    uint32_t hosts = (servers + PER_HOST - 1) / PER_HOST, lanes = servers / 8 ? servers / 8 : 1;
    struct stk_engine_options options = {.place = {.policy = policy}};
    *c = (struct cluster){.now_ns = STK_SECOND_NS, .random = 88172645463325252u};
    c->limits = (struct stk_engine_limits){.servers = servers,
                                           .lanes = lanes,
                                           .tasks = servers * WORKERS,
                                           .hosts = hosts,
                                           .jobs = 1,
                                           .links = hosts * 8,
                                           .models = MODELS};
    size_t size = stk_engine_bytes(&c->limits);
    c->block = need(aligned_alloc(16, size));
    c->engine = stk_engine_init(c->block, size, &c->limits, &options);
    c->cap = stk_engine_actions_max(&c->limits, 1);
    c->actions = need(calloc(c->cap, sizeof *c->actions));
    c->flying_max = (size_t)servers * WORKERS * 3 / 4 / ITEMS; /* three quarters of the workers are busy */
    if (c->flying_max < 2) c->flying_max = 2;
    c->flying = need(calloc(c->flying_max + 1, sizeof *c->flying));
    c->next = need(calloc(lanes, sizeof *c->next));
    join(c);
}

static void destroy(struct cluster *c)
{
    free(c->next);
    free(c->flying);
    free(c->actions);
    free(c->block);
}

static struct stk_event request(struct cluster *c)
{
    static const uint32_t classes[] = {STK_COST_H264, STK_COST_HEVC, STK_COST_VP9, STK_COST_AV1};
    static const uint64_t sides[] = {224, 336, 448}, frames[] = {16, 32, 64};
    uint32_t lane = draw(c, c->limits.lanes), size = draw(c, 3);
    struct stk_event event = {.type = STK_EVENT_REQUEST,
                              .lane = lane,
                              .sequence = c->next[lane]++,
                              .items = ITEMS,
                              .class_id = classes[draw(c, 4)]};
    event.features = (struct stk_cost_features){.samples = ITEMS,
                                                .pixels_in = ITEMS * (20000000 + draw(c, 20000000)),
                                                .bytes_in = ITEMS * (200000 + draw(c, 800000)),
                                                .pixels_out = ITEMS * frames[size] * sides[size] * sides[size]};
    event.output_bytes = 3 * event.features.pixels_out;
    return event;
}

static void answer(struct cluster *c)
{
    size_t at = draw(c, (uint32_t)c->flying_count);
    struct stk_action done = c->flying[at];
    c->flying[at] = c->flying[--c->flying_count];
    uint64_t cpu_ns = done.cpu_ns / 10 * (8 + draw(c, 5)) + MS;
    (void)step(c, &(struct stk_event){.type = STK_EVENT_RESULT,
                                      .server = done.server,
                                      .lane = done.lane,
                                      .sequence = done.sequence,
                                      .cpu_ns = cpu_ns,
                                      .wall_ns = cpu_ns + MS,
                                      .output_bytes = 10000000});
    if (done.lane == 0)
        (void)step(c, &(struct stk_event){
                          .type = STK_EVENT_STEP, .lane = 0, .sequence = done.sequence, .window_ns = 300 * MS});
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void measure(struct cell *cell)
{
    struct cluster c;
    create(&c, cell->servers, cell->policy);
    uint64_t *taken = need(calloc(MEASURED, sizeof *taken));
    uint64_t sum = 0;
    for (uint32_t i = 0; i < WARM_UP + MEASURED; i++) {
        while (c.flying_count >= c.flying_max) answer(&c);
        c.now_ns += MS / 10;
        struct stk_event event = request(&c);
        uint64_t before = clock_ns();
        size_t count = step(&c, &event);
        uint64_t after = clock_ns();
        for (size_t k = 0; k < count; k++) {
            if (c.actions[k].type != STK_ACTION_PLACE || c.actions[k].reason == STK_REASON_COPY) continue;
            c.flying[c.flying_count++] = c.actions[k];
            cell->candidates += i >= WARM_UP ? c.actions[k].candidates : 0;
            cell->remote += i >= WARM_UP && c.actions[k].net_ns > 0;
        }
        if (i >= WARM_UP) sum += taken[i - WARM_UP] = after - before;
    }
    qsort(taken, MEASURED, sizeof *taken, by_value);
    cell->median_ns = taken[MEASURED / 2];
    cell->p95_ns = taken[MEASURED * 95 / 100];
    cell->p99_ns = taken[MEASURED * 99 / 100];
    cell->mean_ns = sum / MEASURED;
    free(taken);
    destroy(&c);
}

static void show(const struct cell *cell, bool json, bool first)
{
    double candidates = (double)cell->candidates / MEASURED, remote = 100.0 * (double)cell->remote / MEASURED;
    if (json)
        printf("%s\n  {\"servers\": %" PRIu32 ", \"policy\": \"%s\", \"median_ns\": %" PRIu64 ", \"mean_ns\": %" PRIu64
               ", \"p95_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64 ", \"candidates\": %.1f, \"remote_percent\": %.1f}",
               first ? "" : ",", cell->servers, stk_policy_name(cell->policy), cell->median_ns, cell->mean_ns,
               cell->p95_ns, cell->p99_ns, candidates, remote);
    else
        printf("%8" PRIu32 "  %-14s %8.2f %8.2f %8.2f %8.2f %12.1f %9.1f\n", cell->servers,
               stk_policy_name(cell->policy), (double)cell->median_ns / 1e3, (double)cell->mean_ns / 1e3,
               (double)cell->p95_ns / 1e3, (double)cell->p99_ns / 1e3, candidates, remote);
    (void)fflush(stdout);
}

static void run(uint32_t only, bool json)
{
    static const uint32_t sizes[] = {8, 64, 1000, 4096};
    bool first = true;
    if (json)
        printf("{\"schema\": \"stoker.bench.place/1\", \"cells\": [");
    else
        printf(" servers  policy        median us     mean      p95      p99   candidates  remote %%\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int policy = STK_POLICY_DEADLINE; policy <= STK_POLICY_LEAST_REQUEST; policy++) {
            struct cell cell = {.servers = only ? only : sizes[i], .policy = (enum stk_policy)policy};
            measure(&cell);
            show(&cell, json, first);
            first = false;
        }
        if (only) break;
    }
    if (json) printf("\n]}\n");
}

int main(int argc, char **argv)
{
    uint32_t servers = 0;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--servers") == 0 && i + 1 < argc) {
            errno = 0;
            unsigned long value = strtoul(argv[++i], &end, 10);
            if (errno != 0 || *end != 0 || value == 0 || value > 65536) {
                (void)fprintf(stderr, "bench place: '%s' servers: 1 to 65536 are possible\n", argv[i]);
                return 2;
            }
            servers = (uint32_t)value;
        } else {
            (void)fputs("usage: place [--servers N] [--json]\n", strcmp(argv[i], "--help") == 0 ? stdout : stderr);
            return strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
    }
    run(servers, json);
    return 0;
}
