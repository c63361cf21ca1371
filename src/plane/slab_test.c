/* SPDX-License-Identifier: Apache-2.0 */
#include "plane/slab.h"

#include <string.h>
#include <sys/stat.h>

#include "sys/shmem.h"
#include "tests/support/unit.h"

#define MIB (UINT64_C(1) << 20)

static struct stk_arena *arena;
static uint64_t unmapped[64];
static uint32_t unmapped_by[64], unmap_count;

static void note_unmap(void *user, uint32_t process, uint64_t segment_id)
{
    (void)user;
    assert_true(unmap_count < 64);
    unmapped_by[unmap_count] = process;
    unmapped[unmap_count++] = segment_id;
}

static int set_up(void **state)
{
    (void)state;
    unmap_count = 0;
    return stk_arena_create(NULL, note_unmap, NULL, &arena, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    stk_arena_destroy(arena);
    return 0;
}

static void open_lane(uint32_t lane, uint64_t largest, uint64_t max_bytes)
{
    assert_int_equal(stk_arena_lane_open(arena, lane, largest, max_bytes, NULL), STOKER_OK);
}

static struct stk_slab alloc(uint32_t lane, uint64_t size)
{
    struct stk_slab slab = {0};
    assert_int_equal(stk_arena_alloc(arena, lane, size, false, &slab, NULL), STOKER_OK);
    return slab;
}

static stoker_status try_alloc(uint32_t lane, uint64_t size, bool overflow)
{
    struct stk_slab slab;
    return stk_arena_alloc(arena, lane, size, overflow, &slab, NULL);
}

static struct stk_arena_stats stats(void)
{
    struct stk_arena_stats out;
    stk_arena_read_stats(arena, &out);
    return out;
}

static void test_a2_small_slabs_share_a_segment_large_ones_have_their_own(void **state)
{
    (void)state;
    open_lane(0, 6 * MIB, 256 * MIB);
    struct stk_slab a = alloc(0, 100), b = alloc(0, 70000), c = alloc(0, 6 * MIB), d = alloc(0, 100);
    assert_int_equal(a.segment_id, b.segment_id);
    assert_int_equal(a.segment_id, d.segment_id);
    assert_int_equal(a.segment_bytes, 4 * MIB);
    assert_int_equal(a.offset, 0);
    assert_int_equal(b.offset, 64 << 10);
    assert_int_equal(d.offset, 192 << 10);
    assert_int_equal(b.size, 70000);
    assert_int_not_equal(c.segment_id, a.segment_id);
    assert_int_equal(c.segment_bytes, 6 * MIB);
    assert_int_equal(stats().used_bytes, 10 * MIB);
    assert_int_equal(stats().slabs, 4);
}

static void test_a2_a_freed_segment_is_reused_and_ids_never_are(void **state)
{
    (void)state;
    open_lane(0, 6 * MIB, 64 * MIB);
    struct stk_slab a = alloc(0, 6 * MIB);
    assert_true(stk_arena_free(arena, a.slab_id));
    assert_false(stk_arena_free(arena, a.slab_id));
    assert_int_equal(stats().used_bytes, 0);
    assert_int_equal(stats().committed_bytes, 6 * MIB);
    struct stk_slab b = alloc(0, 6 * MIB - 1);
    assert_int_equal(a.segment_id, b.segment_id);
    assert_int_not_equal(a.slab_id, b.slab_id);
    assert_int_equal(unmap_count, 0);
}

static void test_a2_above_max_bytes_is_an_error_naming_both_figures(void **state)
{
    (void)state;
    stoker_error err = {0};
    struct stk_slab slab = {0};
    assert_int_equal(stk_arena_lane_open(arena, 0, 20 * MIB, 16 * MIB, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "41943040"));
    assert_non_null(strstr(err.message, "16777216"));
    open_lane(0, 0, 16 * MIB);
    assert_int_equal(stk_arena_alloc(arena, 0, 16 * MIB + 1, true, &slab, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "16777217"));
    assert_non_null(strstr(err.message, "16777216"));
    assert_non_null(strstr(err.message, "max_bytes"));
    assert_int_equal(slab.slab_id, 0);
    assert_int_equal(try_alloc(0, 16 * MIB, false),
                     STOKER_OK); /* exactly all of it fits, whatever its class would be */
    assert_int_equal(stats().committed_bytes, 16 * MIB);
}

static void test_a2_an_unclassed_segment_ends_when_idle(void **state)
{
    (void)state;
    open_lane(0, 0, 4096 * MIB);
    struct stk_slab slab;
    stoker_status status = stk_arena_alloc(arena, 0, 1024 * MIB + 1, false, &slab, NULL);
    if (status == STOKER_ERR_NO_MEMORY) STK_SKIP("a small machine: the rule that it was refused by has its own test");
    assert_int_equal(status, STOKER_OK);
    assert_int_equal(slab.segment_bytes, 1026 * MIB);
    assert_true(stk_arena_free(arena, slab.slab_id));
    assert_int_equal(stats().committed_bytes, 0);
}

static void test_a1_credit_bounds_a_lane_and_freeing_gives_it_back(void **state)
{
    (void)state;
    open_lane(0, 8 * MIB, 40 * MIB);
    open_lane(1, 8 * MIB, 40 * MIB);
    struct stk_slab slabs[3];
    for (int i = 0; i < 3; i++) slabs[i] = alloc(0, 8 * MIB);
    assert_int_equal(try_alloc(0, 8 * MIB, false), STOKER_AGAIN);
    (void)alloc(1, 8 * MIB);
    (void)alloc(1, 8 * MIB);
    assert_int_equal(try_alloc(1, 8 * MIB, false), STOKER_AGAIN);
    assert_true(stk_arena_free(arena, slabs[1].slab_id));
    (void)alloc(1, 8 * MIB); /* takes the place of a segment of the other lane */
    assert_int_equal(stats().committed_bytes, 40 * MIB);
    assert_int_equal(stats().peak_committed_bytes, 40 * MIB);
}

static void test_a1_memory_comes_from_the_longest_idle_segments(void **state)
{
    (void)state;
    int fd;
    open_lane(0, 8 * MIB, 40 * MIB);
    open_lane(1, 8 * MIB, 40 * MIB);
    struct stk_slab a = alloc(0, 8 * MIB), b = alloc(0, 8 * MIB), c = alloc(0, 8 * MIB);
    stk_arena_give(arena, a.slab_id, 11, &fd);
    stk_arena_returned(arena, a.slab_id, 11);
    stk_arena_give(arena, b.slab_id, 11, &fd);
    stk_arena_returned(arena, b.slab_id, 11);
    stk_arena_give(arena, b.slab_id, 12, &fd);
    stk_arena_returned(arena, b.slab_id, 12);
    assert_true(stk_arena_free(arena, b.slab_id));
    assert_true(stk_arena_free(arena, a.slab_id));
    assert_true(stk_arena_free(arena, c.slab_id));
    (void)alloc(1, 8 * MIB);
    (void)alloc(1, 8 * MIB);
    assert_int_equal(unmap_count, 0);
    (void)alloc(1, 8 * MIB);
    assert_int_equal(unmap_count, 2); /* b was idle first; both of its processes are told */
    assert_int_equal(unmapped[0], b.segment_id);
    assert_int_equal(unmapped[1], b.segment_id);
    assert_int_equal(unmapped_by[0] + unmapped_by[1], 23);
    assert_int_equal(alloc(0, 8 * MIB).segment_id, c.segment_id); /* still there, the list has it first */
}

static void test_a5_pins_of_a_shared_segment_count_once(void **state)
{
    (void)state;
    uint64_t used, pinned;
    open_lane(0, 8 * MIB, 16 * MIB);
    struct stk_slab a = alloc(0, 1000), b = alloc(0, 1000);
    assert_true(stk_arena_pin(arena, a.slab_id));
    assert_true(stk_arena_pin(arena, b.slab_id));
    assert_true(stk_arena_pin(arena, b.slab_id));
    stk_arena_lane_stats(arena, 0, &used, &pinned);
    assert_int_equal(used, MIB / 4);
    assert_int_equal(pinned, MIB / 4);
    struct stk_slab c = alloc(0, 8 * MIB);
    assert_false(stk_arena_pin(arena, c.slab_id)); /* no room would be left for one more batch */
    assert_true(stk_arena_free(arena, a.slab_id));
    assert_int_equal(stats().pinned_bytes, MIB / 4);
    assert_true(stk_arena_free(arena, b.slab_id));
    assert_int_equal(stats().pinned_bytes, 0);
    assert_true(stk_arena_pin(arena, c.slab_id));
}

/* Two lanes with half of the memory each: what a lane uses can be viewed but for one batch, in whatever order slabs
 * come and go. */
static void test_a5_most_of_the_memory_can_be_viewed_whatever_was_freed_before(void **state)
{
    (void)state;
    enum { COUNT = 20 }; /* of 320 KiB each: 6.25 of 8 MiB */
    struct stk_slab slabs[2][COUNT];
    open_lane(0, 0, 16 * MIB);
    open_lane(1, 0, 16 * MIB);
    for (int i = 0; i < 2 * COUNT; i++) slabs[i % 2][i / 2] = alloc((uint32_t)i % 2, 262144 + 300);
    for (int i = 0; i < COUNT; i++)
        for (uint32_t lane = 0; lane < 2; lane++) {
            struct stk_slab *slab = &slabs[lane][i * 7 % COUNT];
            assert_true(stk_arena_pin(arena, slab->slab_id));
            if (i % 2) continue;
            assert_true(stk_arena_free(arena, slab->slab_id));
            *slab = alloc(lane, 262144 + 300);
            assert_true(stk_arena_pin(arena, slab->slab_id));
        }
    assert_int_equal(stats().pinned_bytes, 2 * COUNT * 327680);
}

static void test_b6_overflow_goes_beyond_the_credit_but_not_max_bytes(void **state)
{
    (void)state;
    open_lane(0, 8 * MIB, 16 * MIB);
    (void)alloc(0, 8 * MIB);
    (void)alloc(0, 8 * MIB);
    assert_int_equal(try_alloc(0, 8 * MIB, false), STOKER_AGAIN);
    assert_int_equal(try_alloc(0, 12 * MIB, true), STOKER_OK);
    assert_int_equal(try_alloc(0, 17 * MIB, true), STOKER_ERR_LIMIT);
}

static void test_a4_a_freed_slab_that_is_held_is_quarantined(void **state)
{
    (void)state;
    int fd;
    uint32_t cursor = 0, process = 0;
    struct stk_slab slab = {0}, out;
    open_lane(0, 8 * MIB, 24 * MIB);
    slab = alloc(0, 8 * MIB);
    stk_arena_give(arena, slab.slab_id, 5, &fd);
    assert_true(fd >= 0);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, 8 * MIB);
    stk_arena_give(arena, slab.slab_id, 5, &fd);
    assert_int_equal(fd, -1); /* it has the segment already */
    stk_arena_give(arena, slab.slab_id, 6, &fd);
    assert_true(stk_arena_held(arena, slab.slab_id, 5));
    stk_arena_returned(arena, slab.slab_id, 6);
    assert_false(stk_arena_held(arena, slab.slab_id, 5));
    assert_true(stk_arena_free(arena, slab.slab_id));
    assert_false(stk_arena_free(arena, slab.slab_id));
    assert_int_equal(stats().quarantined, 1);
    assert_int_equal(stats().quarantined_bytes, 8 * MIB);
    assert_true(stk_arena_walk_quarantine(arena, &cursor, &out, &process));
    assert_int_equal(out.slab_id, slab.slab_id);
    assert_int_equal(process, 5);
    assert_false(stk_arena_walk_quarantine(arena, &cursor, &out, &process));
    for (int i = 0; i < 2; i++) assert_int_not_equal(alloc(0, 8 * MIB).segment_id, slab.segment_id);
    assert_int_equal(try_alloc(0, 8 * MIB, false), STOKER_AGAIN); /* it stays charged */
    stk_arena_returned(arena, slab.slab_id, 5);
    assert_int_equal(stats().quarantined, 1); /* given twice, returned once */
    stk_arena_returned(arena, slab.slab_id, 5);
    assert_int_equal(stats().quarantined, 0);
    assert_int_equal(alloc(0, 8 * MIB).segment_id, slab.segment_id);
    stk_arena_returned(arena, slab.slab_id, 5); /* late news */
}

static void test_a4_the_end_of_a_process_lifts_its_quarantine(void **state)
{
    (void)state;
    int fd;
    open_lane(0, 8 * MIB, 24 * MIB);
    struct stk_slab a = alloc(0, 1000), b = alloc(0, 1000);
    stk_arena_give(arena, a.slab_id, 5, &fd);
    stk_arena_give(arena, b.slab_id, 5, &fd);
    stk_arena_give(arena, b.slab_id, 6, &fd);
    assert_true(stk_arena_free(arena, a.slab_id));
    assert_true(stk_arena_free(arena, b.slab_id));
    stk_arena_process_gone(arena, 5);
    stk_arena_process_gone(arena, 5);
    assert_int_equal(stats().quarantined, 1);
    stk_arena_process_gone(arena, 6);
    assert_int_equal(stats().quarantined, 0);
    assert_int_equal(stats().used_bytes, 0);
    stk_arena_lane_close(arena, 0);
    assert_int_equal(unmap_count, 0); /* the dead are not told */
    assert_int_equal(stats().committed_bytes, 0);
}

static void test_a4_quarantine_outlives_its_lane_and_counts(void **state)
{
    (void)state;
    int fd;
    open_lane(0, 8 * MIB, 40 * MIB);
    open_lane(1, 8 * MIB, 40 * MIB);
    struct stk_slab held = alloc(0, 8 * MIB), idle = alloc(0, 8 * MIB);
    stk_arena_give(arena, held.slab_id, 5, &fd);
    assert_true(stk_arena_free(arena, held.slab_id));
    assert_true(stk_arena_free(arena, idle.slab_id));
    stk_arena_lane_close(arena, 0);
    assert_int_equal(stats().committed_bytes, 8 * MIB);
    for (int i = 0; i < 4; i++) (void)alloc(1, 8 * MIB);
    assert_int_equal(try_alloc(1, 8 * MIB, false), STOKER_AGAIN);
    stk_arena_returned(arena, held.slab_id, 5);
    assert_int_equal(unmap_count, 1);
    assert_int_equal(unmapped[0], held.segment_id);
    (void)alloc(1, 8 * MIB);
    open_lane(0, 8 * MIB, 60 * MIB); /* the number can be used again */
    (void)alloc(0, 8 * MIB);
}

static void test_a_small_max_bytes_is_not_rounded_away(void **state)
{
    (void)state;
    open_lane(0, 100000, 220 << 10);
    struct stk_slab a = alloc(0, 100000), b = alloc(0, 100000);
    assert_int_equal(a.segment_bytes, 102400);
    assert_int_not_equal(a.segment_id, b.segment_id);
    assert_int_equal(try_alloc(0, 100000, false), STOKER_AGAIN);
    assert_true(stk_arena_free(arena, a.slab_id));
    assert_int_equal(alloc(0, 100000).segment_id, a.segment_id);
}

static void test_a6_mapped_views_outlive_the_arena(void **state)
{
    (void)state;
    int fd;
    void *view = NULL;
    open_lane(0, 8 * MIB, 24 * MIB);
    struct stk_slab slab = alloc(0, 8 * MIB);
    stk_arena_give(arena, slab.slab_id, 5, &fd);
    assert_int_equal(stk_shmem_map(fd, slab.segment_bytes, 1, &view, NULL), STOKER_OK);
    memset(view, 7, slab.segment_bytes);
    stk_arena_destroy(arena);
    arena = NULL;
    assert_int_equal(((unsigned char *)view)[slab.segment_bytes - 1], 7);
    stk_shmem_unmap(view, slab.segment_bytes);
}

#define ARENA_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_a2_small_slabs_share_a_segment_large_ones_have_their_own),
        ARENA_TEST(test_a2_a_freed_segment_is_reused_and_ids_never_are),
        ARENA_TEST(test_a2_above_max_bytes_is_an_error_naming_both_figures),
        ARENA_TEST(test_a2_an_unclassed_segment_ends_when_idle),
        ARENA_TEST(test_a1_credit_bounds_a_lane_and_freeing_gives_it_back),
        ARENA_TEST(test_a1_memory_comes_from_the_longest_idle_segments),
        ARENA_TEST(test_a5_pins_of_a_shared_segment_count_once),
        ARENA_TEST(test_a5_most_of_the_memory_can_be_viewed_whatever_was_freed_before),
        ARENA_TEST(test_b6_overflow_goes_beyond_the_credit_but_not_max_bytes),
        ARENA_TEST(test_a4_a_freed_slab_that_is_held_is_quarantined),
        ARENA_TEST(test_a4_the_end_of_a_process_lifts_its_quarantine),
        ARENA_TEST(test_a4_quarantine_outlives_its_lane_and_counts),
        ARENA_TEST(test_a_small_max_bytes_is_not_rounded_away),
        ARENA_TEST(test_a6_mapped_views_outlive_the_arena),
    };
    return stk_run_tests(tests);
}
