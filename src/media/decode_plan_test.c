/* SPDX-License-Identifier: Apache-2.0
 *
 * How plans are chosen, on hand-made packet tables.
 */
#include "media/decode_plan.h"

#include <stdlib.h>
#include <string.h>

#include "media/plan_fixture.h"

/* Packets cost 1 ms each; a restart costs `restart_ms`. */
static struct stk_plan_costs costs_of(double restart_ms)
{
    return (struct stk_plan_costs){1e6, 0, 1, restart_ms * 1e6, 1};
}

static struct stk_decode_plan plan_of(const struct fixture *f, double restart_ms, const uint64_t *ordinals,
                                      size_t count, void *memory)
{
    const struct stk_plan_costs costs = costs_of(restart_ms);
    struct stk_decode_plan plan;
    stk_decode_plan_by_time(&plan, &f->table, &costs, ordinals, count, memory);
    assert_int_equal(plan.kept_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(plan.kept[i].ordinal, ordinals[i]);
        assert_int_equal(plan.kept[i].packet, f->shown[ordinals[i]].packet);
    }
    for (uint32_t i = 0; i < plan.segment_count; i++)
        assert_int_equal(plan.segments[i].dts, f->packets[plan.segments[i].first].dts);
    return plan;
}

static void expect_segment(const struct stk_decode_plan *plan, uint32_t index, uint32_t first, uint32_t end)
{
    assert_true(index < plan->segment_count);
    assert_int_equal(plan->segments[index].first, first);
    assert_int_equal(plan->segments[index].end, end);
}

/* An open group: key packet 4 (pts 6) is followed by its leading pictures 4 and 5, which need the group before. */
static void fill_open_group(struct fixture *f)
{
    const int64_t pts[] = {0, 1, 2, 3, 6, 4, 5, 7, 8, 9};
    const uint32_t flags[] = {K, 0, 0, 0, K, 0, 0, 0, K, 0};
    fill(f, 10, pts, flags);
}

static void test_plan_starts_at_the_right_key_frame(void **state)
{
    (void)state;
    struct fixture f;
    void *memory = malloc(stk_decode_plan_room(10));
    uint8_t needed[10];
    fill_open_group(&f);

    const uint64_t leading[] = {5};
    struct stk_decode_plan plan = plan_of(&f, 0.1, leading, 1, memory);
    assert_int_equal(plan.segment_count, 1);
    expect_segment(&plan, 0, 0, 7);
    const uint8_t only_six[] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    stk_decode_plan_mark(&plan, needed);
    assert_memory_equal(needed, only_six, 10);

    const uint64_t trailing[] = {7};
    plan = plan_of(&f, 0.1, trailing, 1, memory);
    assert_int_equal(plan.segment_count, 1);
    expect_segment(&plan, 0, 4, 8);

    /* Overlap: a leading picture and a frame of its own group. */
    const uint64_t both[] = {4, 7};
    plan = plan_of(&f, 0.1, both, 2, memory);
    assert_int_equal(plan.segment_count, 1);
    expect_segment(&plan, 0, 0, 8);
    free(memory);
}

static void test_plan_jumps_only_where_that_is_cheaper(void **state)
{
    (void)state;
    struct fixture f;
    void *memory = malloc(stk_decode_plan_room(2));
    fill_open_group(&f);
    const uint64_t far[] = {0, 9}; /* 7 packets between */
    struct stk_decode_plan plan = plan_of(&f, 6.9, far, 2, memory);
    assert_int_equal(plan.segment_count, 2);
    expect_segment(&plan, 0, 0, 1);
    expect_segment(&plan, 1, 8, 10);
    plan = plan_of(&f, 7, far, 2, memory);
    assert_int_equal(plan.segment_count, 1);
    expect_segment(&plan, 0, 0, 10);
    free(memory);
}

/* The chosen plan costs no more than any other way to join the same jumps. */
static void test_plan_is_the_cheapest_of_all(void **state)
{
    (void)state;
    struct fixture f;
    int64_t pts[64];
    uint32_t flags[64];
    for (int i = 0; i < 64; i++) pts[i] = i, flags[i] = i % 5 == 0 || i == 33 ? K : 0;
    fill(&f, 64, pts, flags);
    for (int i = 0; i < 64; i++) f.packets[i].size = (uint32_t)(500 + 3000 * (i % 7 == 0));
    const struct stk_plan_costs costs = {0.5, 92, 4000, 800000, 0.6};
    static const uint64_t wanted[][6] = {{0, 9, 21, 34, 50, 63}, {3, 4, 5, 40, 41, 60}, {11, 19, 27, 36, 44, 52}};
    for (size_t w = 0; w < 3; w++) {
        void *memory = malloc(stk_decode_plan_room(6));
        struct stk_decode_plan plan, other;
        stk_decode_plan_by_time(&plan, &f.table, &costs, wanted[w], 6, memory);
        double chosen = stk_decode_plan_estimate(&plan, &f.table, &costs).ns;
        const struct stk_plan_costs never = {0.5, 92, 4000, -1, 0.6};
        void *apart_memory = malloc(stk_decode_plan_room(6)), *try_memory = malloc(stk_decode_plan_room(6));
        struct stk_decode_plan apart;
        stk_decode_plan_by_time(&apart, &f.table, &never, wanted[w], 6, apart_memory);
        stk_decode_plan_by_time(&other, &f.table, &never, wanted[w], 6, try_memory);
        assert_true(apart.segment_count >= plan.segment_count);
        for (uint32_t joins = 0; joins < 1u << (apart.segment_count - 1); joins++) {
            other.segment_count = 0;
            for (uint32_t i = 0; i < apart.segment_count; i++)
                if (i > 0 && joins >> (i - 1) & 1)
                    other.segments[other.segment_count - 1].end = apart.segments[i].end;
                else
                    other.segments[other.segment_count++] = apart.segments[i];
            assert_true(chosen <= stk_decode_plan_estimate(&other, &f.table, &costs).ns);
        }
        free(memory);
        free(apart_memory);
        free(try_memory);
    }
}

static void test_plan_without_key_frames_starts_at_the_beginning(void **state)
{
    (void)state;
    struct fixture f;
    const int64_t pts[] = {5, 6, 7};
    const uint32_t flags[] = {0, 0, 0};
    void *memory = malloc(stk_decode_plan_room(1));
    fill(&f, 3, pts, flags);
    const uint64_t last[] = {2};
    struct stk_decode_plan plan = plan_of(&f, 0.1, last, 1, memory);
    assert_int_equal(plan.segment_count, 1);
    expect_segment(&plan, 0, 0, 3);
    plan = plan_of(&f, 0.1, last, 0, memory);
    assert_int_equal(plan.segment_count, 0);
    free(memory);
}

static void test_plan_in_order_sends_everything(void **state)
{
    (void)state;
    struct fixture f;
    uint8_t needed[10];
    void *memory = malloc(stk_decode_plan_room(2));
    fill_open_group(&f);
    const uint64_t wanted[] = {1, 6};
    struct stk_decode_plan plan;
    stk_decode_plan_in_order(&plan, &f.table, 7, wanted, 2, memory); /* of ten frames, seven came out */
    assert_int_equal(plan.frames, 7);
    assert_false(plan.by_time);
    assert_int_equal(plan.segment_count, 1);
    expect_segment(&plan, 0, 0, 10);
    stk_decode_plan_mark(&plan, needed);
    for (int i = 0; i < 10; i++) assert_int_equal(needed[i], 1);
    const struct stk_plan_costs costs = costs_of(2);
    struct stk_plan_estimate estimate = stk_decode_plan_estimate(&plan, &f.table, &costs);
    assert_int_equal(estimate.packets, 10);
    assert_int_equal(estimate.bytes, 10000);
    assert_true(estimate.ns > 11.99e6 && estimate.ns < 12.01e6);
    free(memory);
}

static void test_c1_costs_are_constants_of_the_codec(void **state)
{
    (void)state;
    struct stk_plan_costs h264 = stk_plan_costs_of("h264", 100), vp9 = stk_plan_costs_of("vp9", 100),
                          unknown = stk_plan_costs_of("cinepak", 100);
    assert_true(h264.ns_per_pixel == 0.95 && h264.ns_per_byte == 92 && h264.pixels == 100);
    assert_true(h264.skipped_share < 1);
    assert_true(vp9.skipped_share == 1); /* libvpx's format has no frames that nothing refers to */
    assert_true(unknown.ns_per_pixel == h264.ns_per_pixel && unknown.skipped_share == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_starts_at_the_right_key_frame),
        cmocka_unit_test(test_plan_jumps_only_where_that_is_cheaper),
        cmocka_unit_test(test_plan_is_the_cheapest_of_all),
        cmocka_unit_test(test_plan_without_key_frames_starts_at_the_beginning),
        cmocka_unit_test(test_plan_in_order_sends_everything),
        cmocka_unit_test(test_c1_costs_are_constants_of_the_codec),
    };
    return stk_run_tests(tests);
}
