/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as public handles: what they tell, and the way to bytes and back.
 */
#include "media/plan_object.h"

#include <stdlib.h>
#include <string.h>

#include "media/plan_fixture.h"

static stoker_plan *make(void)
{
    struct fixture f;
    const int64_t pts[] = {0, 1, 2, 3, 4, 5};
    const uint32_t flags[] = {K, 0, 0, K, 0, 0};
    const uint64_t wanted[] = {1, 5};
    const struct stk_plan_costs costs = {1e6, 0, 1, 5e5, 1};
    struct stk_decode_plan plan;
    void *memory = malloc(stk_decode_plan_room(2));
    stoker_plan *object = NULL;
    fill(&f, 6, pts, flags);
    stk_decode_plan_by_time(&plan, &f.table, &costs, wanted, 2, memory);
    struct stk_plan_estimate estimate = stk_decode_plan_estimate(&plan, &f.table, &costs);
    assert_int_equal(stk_plan_object_create(&plan, &estimate, &object, NULL), STOKER_OK);
    free(memory);
    return object;
}

static void test_a_plan_tells_what_it_does(void **state)
{
    (void)state;
    stoker_plan *plan = make();
    stoker_plan_info info;
    stoker_plan_read_info(plan, &info);
    assert_true(info.by_time && !info.skips);
    assert_int_equal(info.packets, 6);
    assert_int_equal(info.frames, 6);
    assert_int_equal(info.segment_count, 2);
    assert_int_equal(info.segments[1].first, 3);
    assert_int_equal(info.segments[1].end, 6);
    assert_int_equal(info.frame_count, 2);
    assert_int_equal(info.kept[1].packet, 5);
    assert_int_equal(info.packets_sent, 5);
    assert_int_equal(info.bytes_sent, 5000);
    assert_true(info.seconds > 0.0059 && info.seconds < 0.0061); /* five packets and two restarts */
    stoker_plan_close(plan);
    stoker_plan_close(NULL);
}

static void test_bytes_make_the_same_plan(void **state)
{
    (void)state;
    stoker_plan *plan = make(), *again = NULL;
    stoker_plan_info info, info_again;
    stoker_error err;
    uint8_t bytes[128], untouched[128];
    memset(bytes, 0x5a, sizeof bytes);
    memcpy(untouched, bytes, sizeof bytes);
    size_t size = stoker_plan_encode(plan, NULL, 0);
    assert_int_equal(size, 40 + 2 * 16 + 2 * 8);
    assert_int_equal(stoker_plan_encode(plan, bytes, size - 1), size);
    assert_memory_equal(bytes, untouched, sizeof bytes);
    assert_int_equal(stoker_plan_encode(plan, bytes, sizeof bytes), size);
    assert_memory_equal(bytes + size, untouched + size, sizeof bytes - size);
    assert_int_equal(stoker_plan_decode(bytes, size, &again, &err), STOKER_OK);
    stoker_plan_read_info(plan, &info);
    stoker_plan_read_info(again, &info_again);
    assert_true(info.hash == info_again.hash && info.table_hash == info_again.table_hash);
    assert_int_equal(info_again.packets_sent, 5);
    assert_memory_equal(info.segments, info_again.segments, 2 * sizeof *info.segments);
    assert_memory_equal(info.kept, info_again.kept, 2 * sizeof *info.kept);
    stoker_plan_close(again);
    again = NULL;
    assert_int_equal(stoker_plan_decode(bytes, size - 1, &again, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stoker_plan_decode(NULL, size, &again, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(again);
    stoker_plan_close(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_tells_what_it_does),
        cmocka_unit_test(test_bytes_make_the_same_plan),
    };
    return stk_run_tests(tests);
}
