/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame choice and decode plans on hand-made packet tables.
 */
#include "media/plan.h"

#include <math.h>
#include <string.h>

#include "tests/support/unit.h"

#define K STK_PACKET_KEY
#define H STK_PACKET_HIDDEN

struct fixture {
    struct stk_packet packets[64];
    struct stk_shown shown[64];
    struct stk_packet_table table;
};

static void fill(struct fixture *f, size_t count, const int64_t *pts, const uint32_t *flags)
{
    for (size_t i = 0; i < count; i++) f->packets[i] = (struct stk_packet){pts[i], (int64_t)i, 1000, flags[i], 0};
    f->table.packets = f->packets;
    f->table.count = count;
    f->table.shown = f->shown;
    f->table.shown_count = stk_plan_shown(f->packets, count, f->shown, &f->table.by_time);
}

static void test_plan_uniform_rounds_half_to_even(void **state)
{
    (void)state;
    /* 71 frames, 29 wanted: 70/28 = 2.5 -> 2, 5, 7.5 -> 8 */
    assert_int_equal(stk_plan_uniform(71, 29, 1), 2);
    assert_int_equal(stk_plan_uniform(71, 29, 2), 5);
    assert_int_equal(stk_plan_uniform(71, 29, 3), 8);
    for (uint64_t n = 1; n < 200; n++)
        for (uint32_t wanted = 1; wanted < 40; wanted++)
            for (uint32_t i = 0; i < wanted; i++) {
                uint64_t expected =
                    wanted == 1 ? 0 : (uint64_t)rint((double)i * (double)(n - 1) / (double)(wanted - 1));
                if (n <= wanted) expected = i < n ? i : n - 1;
                assert_int_equal(stk_plan_uniform(n, wanted, i), expected);
            }
    assert_int_equal(stk_plan_uniform(UINT32_MAX, 65536, 65535), UINT32_MAX - 1);
}

static void test_plan_shown_sorts_hides_and_judges_times(void **state)
{
    (void)state;
    struct fixture f;
    const int64_t pts[] = {-20, -10, 0, 30, 10, 20};
    const uint32_t flags[] = {K | H, H, 0, 0, 0, 0};
    fill(&f, 6, pts, flags);
    assert_true(f.table.by_time);
    assert_int_equal(f.table.shown_count, 4);
    const uint32_t expected[] = {2, 4, 5, 3};
    for (size_t i = 0; i < 4; i++) assert_int_equal(f.shown[i].packet, expected[i]);
    assert_int_equal(stk_plan_find(&f.table, 20), 2);
    assert_true(stk_plan_find(&f.table, 15) == SIZE_MAX);
    assert_true(stk_plan_find(&f.table, -20) == SIZE_MAX);
    assert_int_equal(stk_plan_delay(&f.table), 1);

    const int64_t twice[] = {0, 10, 0, 10};
    const uint32_t keys[] = {K, 0, K, 0};
    fill(&f, 4, twice, keys);
    assert_false(f.table.by_time);
    assert_int_equal(f.table.shown_count, 4);

    const int64_t unknown[] = {0, STK_TIME_NONE, 20, 30};
    fill(&f, 4, unknown, keys);
    assert_false(f.table.by_time);

    fill(&f, 0, unknown, keys);
    assert_int_equal(f.table.shown_count, 0);
}

static void test_plan_delay_counts_held_frames(void **state)
{
    (void)state;
    struct fixture f;
    const int64_t pyramid[] = {0, 4, 2, 1, 3, 8, 6, 5, 7};
    const uint32_t flags[] = {K, 0, 0, 0, 0, 0, 0, 0, 0};
    fill(&f, 9, pyramid, flags);
    assert_int_equal(stk_plan_delay(&f.table), 2);
    const int64_t straight[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    fill(&f, 9, straight, flags);
    assert_int_equal(stk_plan_delay(&f.table), 0);
}

static void test_plan_segments_start_at_the_right_key_frame(void **state)
{
    (void)state;
    struct fixture f;
    /* An open group: key packet 4 (pts 6) is followed by its leading pictures 4 and 5, which need the group before. */
    const int64_t pts[] = {0, 1, 2, 3, 6, 4, 5, 7, 8, 9};
    const uint32_t flags[] = {K, 0, 0, 0, K, 0, 0, 0, K, 0};
    fill(&f, 10, pts, flags);
    const struct stk_plan_costs dear = {1e6, 0, 1};
    struct stk_segment segments[10];
    uint8_t needed[10];

    const uint64_t leading[] = {5};
    assert_int_equal(stk_plan_segments(&f.table, &dear, leading, 1, segments, needed), 1);
    assert_int_equal(segments[0].first, 0);
    assert_int_equal(segments[0].end, 7);
    const uint8_t only_six[] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    assert_memory_equal(needed, only_six, 10);

    const uint64_t trailing[] = {7};
    assert_int_equal(stk_plan_segments(&f.table, &dear, trailing, 1, segments, needed), 1);
    assert_int_equal(segments[0].first, 4);
    assert_int_equal(segments[0].end, 8);

    const uint64_t far[] = {0, 9};
    assert_int_equal(stk_plan_segments(&f.table, &dear, far, 2, segments, needed), 2);
    assert_int_equal(segments[0].end, 1);
    assert_int_equal(segments[1].first, 8);
    assert_int_equal(segments[1].end, 10);

    /* When decoding is cheaper than restarting, the gap is decoded. */
    const struct stk_plan_costs cheap = {1, 0, 1};
    assert_int_equal(stk_plan_segments(&f.table, &cheap, far, 2, segments, needed), 1);
    assert_int_equal(segments[0].end, 10);

    /* Overlap: the leading picture and a frame of its own group. */
    const uint64_t both[] = {4, 7};
    assert_int_equal(stk_plan_segments(&f.table, &dear, both, 2, segments, needed), 1);
    assert_int_equal(segments[0].first, 0);
    assert_int_equal(segments[0].end, 8);
}

static void test_plan_segments_without_key_frames_start_at_the_beginning(void **state)
{
    (void)state;
    struct fixture f;
    const int64_t pts[] = {5, 6, 7};
    const uint32_t flags[] = {0, 0, 0};
    fill(&f, 3, pts, flags);
    const struct stk_plan_costs dear = {1e6, 0, 1};
    struct stk_segment segments[3];
    uint8_t needed[3];
    const uint64_t last[] = {2};
    assert_int_equal(stk_plan_segments(&f.table, &dear, last, 1, segments, needed), 1);
    assert_int_equal(segments[0].first, 0);
    assert_int_equal(segments[0].end, 3);
    assert_int_equal(stk_plan_segments(&f.table, &dear, last, 0, segments, needed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_uniform_rounds_half_to_even),
        cmocka_unit_test(test_plan_shown_sorts_hides_and_judges_times),
        cmocka_unit_test(test_plan_delay_counts_held_frames),
        cmocka_unit_test(test_plan_segments_start_at_the_right_key_frame),
        cmocka_unit_test(test_plan_segments_without_key_frames_start_at_the_beginning),
    };
    return stk_run_tests(tests);
}
