/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of the arena (rules A1, A2, A4) under random allocations, frees, gives, returns, deaths and refusals of the
 * machine, over fake segments that have no pages: live slabs never overlap, a quarantined slab is never given out
 * again, what is reserved stays within the limit, each process is told of each segment's end, and after all is freed
 * the largest batch fits.
 */
#include "plane/slab.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/shmem.h"
#include "tests/property/prop.h"

#define MIB (UINT64_C(1) << 20)
enum { LANES = 3, SLABS = 400, PROCESSES = 6, STEPS = 300 };

struct model_slab {
    struct stk_slab slab;
    uint32_t lane;
    bool live, quarantined, pinned;
    uint32_t held[PROCESSES]; /* counts */
};

static struct stk_arena *arena;
static struct model_slab slabs[SLABS];
static uint32_t slab_count, gone, fds_open;
static uint64_t segment_of[PROCESSES][SLABS]; /* segments that a process has */
static uint32_t segment_counts[PROCESSES];
static uint64_t largest[LANES], max_bytes[LANES];
static bool lane_open[LANES], refuse, overflowed;
static struct prop_random rnd;

/* ---- fake segments: the arena sees no difference, the machine pays no pages ---- */

stoker_status stk_shmem_create(const char *directory, size_t size, int *out_fd, stoker_error *err)
{
    (void)directory;
    if (refuse && prop_once_in(&rnd, 4)) return stk_fail(err, STOKER_ERR_NO_MEMORY, "%zu bytes refused", size);
    *out_fd = open("/dev/null", O_RDONLY);
    PROP_CHECK(*out_fd >= 0);
    fds_open++;
    return STOKER_OK;
}

stoker_status stk_shmem_punch(int fd, size_t size, stoker_error *err)
{
    (void)size;
    (void)err;
    PROP_CHECK(fcntl(fd, F_GETFD) >= 0);
    fds_open--;
    return STOKER_OK;
}

/* Processes are numbered anew after each death: index and generation. */
static uint32_t number_of(uint32_t process) { return 100 + gone * PROCESSES + process; }

static uint32_t numbers[PROCESSES];

static void note_unmap(void *user, uint32_t number, uint64_t segment_id)
{
    (void)user;
    for (uint32_t p = 0; p < PROCESSES; p++) {
        if (numbers[p] != number) continue;
        for (uint32_t i = 0; i < segment_counts[p]; i++) {
            if (segment_of[p][i] != segment_id) continue;
            segment_of[p][i] = segment_of[p][--segment_counts[p]];
            return;
        }
    }
    PROP_CHECK(!"a process is told of segments that it has, once");
}

/* ---- laws ---- */

static void check_slab(const struct stk_slab *s, const struct model_slab *skip)
{
    PROP_CHECK(s->slab_id != 0);
    PROP_CHECK(s->offset + s->size <= s->segment_bytes);
    PROP_CHECK(s->offset % STK_LEAF_ALIGNMENT == 0);
    for (uint32_t i = 0; i < slab_count; i++) {
        const struct stk_slab *x = &slabs[i].slab;
        if (&slabs[i] == skip) continue;
        PROP_CHECK(x->slab_id != s->slab_id); /* never used again */
        if (!slabs[i].live || x->segment_id != s->segment_id) continue;
        PROP_CHECK(x->offset + x->size <= s->offset || s->offset + s->size <= x->offset);
    }
}

static void check_figures(void)
{
    struct stk_arena_stats stats;
    uint64_t quarantined_bytes = 0;
    uint32_t live = 0, quarantined = 0;
    stk_arena_read_stats(arena, &stats);
    for (uint32_t i = 0; i < slab_count; i++) {
        live += slabs[i].live;
        quarantined += slabs[i].live && slabs[i].quarantined;
        if (slabs[i].live && slabs[i].quarantined) quarantined_bytes += slabs[i].slab.size;
    }
    PROP_CHECK(stats.slabs == live);
    PROP_CHECK(stats.quarantined == quarantined);
    PROP_CHECK(stats.quarantined_bytes == quarantined_bytes);
    PROP_CHECK(stats.segments == fds_open);
    PROP_CHECK(stats.used_bytes <= stats.committed_bytes);
    PROP_CHECK(stats.pinned_bytes <= stats.used_bytes);
    if (!overflowed) PROP_CHECK(stats.committed_bytes <= stats.limit_bytes);
}

static bool held(const struct model_slab *m)
{
    for (uint32_t p = 0; p < PROCESSES; p++)
        if (m->held[p] > 0) return true;
    return false;
}

static void settle(struct model_slab *m)
{
    if (m->quarantined && !held(m)) m->live = false;
}

static struct model_slab *any_slab(bool also_quarantined)
{
    for (int tries = 0; slab_count > 0 && tries < 8; tries++) {
        struct model_slab *m = &slabs[prop_below(&rnd, slab_count)];
        if (m->live && (also_quarantined || !m->quarantined)) return m;
    }
    return NULL;
}

/* ---- actions ---- */

static void open_one(uint32_t lane)
{
    static const uint64_t sizes[] = {3000, 200 << 10, 3 * MIB, 6 * MIB, 33 * MIB};
    uint64_t size = sizes[prop_below(&rnd, 5)], bound = 2 * size + prop_below(&rnd, 200) * MIB;
    if (stk_arena_lane_open(arena, lane, size, bound + STK_PAGE_BYTES * 2, NULL) != STOKER_OK) return;
    lane_open[lane] = true;
    largest[lane] = size;
    max_bytes[lane] = bound;
    struct stk_arena_stats stats;
    stk_arena_read_stats(arena, &stats);
    overflowed |= stats.used_bytes > 0; /* part of the new reserve may be in use by others: until they return it */
}

static void alloc(void)
{
    uint32_t lane = prop_below(&rnd, LANES);
    struct stk_slab slab;
    if (!lane_open[lane]) {
        open_one(lane);
        return;
    }
    if (slab_count == SLABS) return;
    bool overflow = prop_once_in(&rnd, 20);
    uint64_t size = prop_once_in(&rnd, 3) ? 1 + prop_next(&rnd) % largest[lane] : largest[lane];
    overflowed |= overflow;
    stoker_status status = stk_arena_alloc(arena, lane, size, overflow, &slab, NULL);
    if (overflow) PROP_CHECK(status != STOKER_AGAIN);
    if (status != STOKER_OK) {
        PROP_CHECK(status == STOKER_AGAIN || (refuse && status == STOKER_ERR_NO_MEMORY));
        return;
    }
    PROP_CHECK(slab.size == size);
    check_slab(&slab, NULL);
    slabs[slab_count++] = (struct model_slab){.slab = slab, .lane = lane, .live = true};
}

static void give(void)
{
    struct model_slab *m = any_slab(false);
    uint32_t p = prop_below(&rnd, PROCESSES);
    int fd = -2;
    if (!m) return;
    stk_arena_give(arena, m->slab.slab_id, numbers[p], &fd);
    m->held[p]++;
    bool has = false;
    for (uint32_t i = 0; i < segment_counts[p]; i++) has |= segment_of[p][i] == m->slab.segment_id;
    PROP_CHECK((fd < 0) == has);
    if (!has) segment_of[p][segment_counts[p]++] = m->slab.segment_id;
}

static void returned(void)
{
    struct model_slab *m = any_slab(true);
    uint32_t p = prop_below(&rnd, PROCESSES);
    if (!m || m->held[p] == 0) return;
    stk_arena_returned(arena, m->slab.slab_id, numbers[p]);
    m->held[p]--;
    settle(m);
}

static void free_one(void)
{
    struct model_slab *m = any_slab(true);
    if (!m) return;
    PROP_CHECK(stk_arena_free(arena, m->slab.slab_id) == !m->quarantined);
    m->quarantined = true;
    settle(m);
    if (!m->live) PROP_CHECK(!stk_arena_free(arena, m->slab.slab_id));
}

static void pin(void)
{
    struct model_slab *m = any_slab(false);
    if (m) m->pinned |= stk_arena_pin(arena, m->slab.slab_id);
}

static void die(uint32_t p)
{
    segment_counts[p] = 0; /* the dead are not told */
    stk_arena_process_gone(arena, numbers[p]);
    for (uint32_t i = 0; i < slab_count; i++) {
        slabs[i].held[p] = 0;
        if (slabs[i].live) settle(&slabs[i]);
    }
    gone++;
    numbers[p] = number_of(p);
}

static void close_lane(uint32_t lane)
{
    if (!lane_open[lane]) return;
    for (uint32_t i = 0; i < slab_count; i++) {
        struct model_slab *m = &slabs[i];
        if (!m->live || m->lane != lane || m->quarantined) continue;
        PROP_CHECK(stk_arena_free(arena, m->slab.slab_id));
        m->quarantined = true;
        settle(m);
    }
    stk_arena_lane_close(arena, lane);
    lane_open[lane] = false;
    overflowed = true; /* the limit may have shrunk below what others use */
}

static void check_quarantine_walk(void)
{
    uint32_t cursor = 0, process, count = 0;
    struct stk_slab slab;
    while (stk_arena_walk_quarantine(arena, &cursor, &slab, &process)) {
        bool found = false;
        for (uint32_t i = 0; i < slab_count; i++)
            found |= slabs[i].slab.slab_id == slab.slab_id && slabs[i].live && slabs[i].quarantined;
        PROP_CHECK(found);
        count++;
    }
    struct stk_arena_stats stats;
    stk_arena_read_stats(arena, &stats);
    PROP_CHECK(count == stats.quarantined);
}

/* After everything is freed and every process is gone, nothing is left over and the largest batch fits twice. */
static void check_the_end(void)
{
    struct stk_arena_stats stats;
    struct stk_slab slab;
    refuse = false;
    for (uint32_t i = 0; i < slab_count; i++)
        if (slabs[i].live && !slabs[i].quarantined) (void)stk_arena_free(arena, slabs[i].slab.slab_id);
    for (uint32_t p = 0; p < PROCESSES; p++) stk_arena_process_gone(arena, numbers[p]);
    stk_arena_read_stats(arena, &stats);
    PROP_CHECK(stats.used_bytes == 0 && stats.pinned_bytes == 0 && stats.slabs == 0 && stats.quarantined == 0);
    PROP_CHECK(stats.committed_bytes <= stats.limit_bytes);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        if (!lane_open[lane]) continue;
        PROP_CHECK(stk_arena_alloc(arena, lane, largest[lane], false, &slab, NULL) == STOKER_OK);
        PROP_CHECK(stk_arena_alloc(arena, lane, largest[lane], false, &slab, NULL) == STOKER_OK);
    }
}

static void prop_a4_arena_keeps_its_laws(uint64_t seed)
{
    stk_arena_destroy(arena);
    arena = NULL;
    PROP_CHECK(stk_arena_create(NULL, note_unmap, NULL, &arena, NULL) == STOKER_OK);
    rnd = prop_seed(seed);
    refuse = prop_once_in(&rnd, 3);
    overflowed = false;
    slab_count = gone = fds_open = 0;
    memset(lane_open, 0, sizeof lane_open);
    memset(segment_counts, 0, sizeof segment_counts);
    for (uint32_t p = 0; p < PROCESSES; p++) numbers[p] = number_of(p);
    open_one(0);
    overflowed = false;
    for (int step = 0; step < STEPS; step++) {
        static void (*const actions[])(void) = {alloc,    alloc,    alloc,    give,     give,
                                                returned, returned, free_one, free_one, pin};
        actions[prop_below(&rnd, sizeof actions / sizeof *actions)]();
        if (prop_once_in(&rnd, 30)) die(prop_below(&rnd, PROCESSES));
        if (prop_once_in(&rnd, 100)) close_lane(prop_below(&rnd, LANES));
        check_figures();
    }
    check_quarantine_walk();
    check_the_end();
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {{"prop_a4_arena_keeps_its_laws", prop_a4_arena_keeps_its_laws, 2000}};
    return prop_main(props, sizeof props / sizeof *props, argc, argv);
}
