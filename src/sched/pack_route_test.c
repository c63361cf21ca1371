/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden cases hold routes of one order of ranks (tests/golden/pack_golden.c); here are other orders and bad input.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/pack.h"
#include "tests/support/unit.h"

static const uint32_t lengths[] = {10, 20, 30, 40};
static unsigned char memory[1024] __attribute__((aligned(16)));

static stoker_status make(const stoker_pack_schedule *schedule, const stoker_pack_owners *owners,
                          stoker_pack_route *route, stoker_error *err)
{
    return stoker_pack_route_make(schedule, lengths, owners, memory, sizeof memory, route, err);
}

static void test_members_need_not_be_in_order_of_rank(void **state)
{
    (void)state;
    const uint32_t samples[] = {3, 0, 2, 1}, members[] = {2, 0}, offsets[] = {0, 2, 4};
    const stoker_pack_span spans[] = {{0, 0, 1, 0, 1}, {0, 2, 1, 1, 2}, {1, 0, 1, 3, 1}};
    stoker_pack_schedule schedule = {
        .microbatches = 2, .ranks = 3, .spans = spans, .span_count = 3, .samples = samples, .sample_count = 4};
    stoker_pack_owners owners = {.members = members, .member_count = 2, .offsets = offsets, .rank = 2};
    stoker_pack_route route;
    assert_int_equal(make(&schedule, &owners, &route, NULL), STOKER_OK);
    /* Rank 2 loaded 0 and 1, keeps 0, gives 1 to rank 0, gets 2 from there; its own group comes first in its list. */
    assert_int_equal(route.send_count, 2);
    assert_int_equal(route.send_ids[0], 0);
    assert_int_equal(route.send_ids[1], 1);
    assert_int_equal(route.send_tokens[0], 20);
    assert_int_equal(route.send_tokens[1], 0);
    assert_int_equal(route.send_tokens[2], 10);
    assert_int_equal(route.receive_count, 2);
    assert_int_equal(route.receive_ids[0], 2); /* from rank 0, which is the lower rank and the second member */
    assert_int_equal(route.receive_ids[1], 0);
    assert_int_equal(route.receive_samples[0], 1);
    assert_int_equal(route.receive_samples[2], 1);
}

static void test_bad_schedules_are_named(void **state)
{
    (void)state;
    const uint32_t twice[] = {1, 1}, unknown[] = {1, 4}, members[] = {0, 1}, offsets[] = {0, 2, 4}, wild[] = {0, 7};
    const uint32_t falling[] = {0, 5, 4};
    const stoker_pack_span spans[] = {{0, 0, 2, 0, 2}}, beyond[] = {{0, 0, 2, 1, 2}};
    stoker_pack_schedule schedule = {
        .microbatches = 1, .ranks = 2, .spans = spans, .span_count = 1, .samples = twice, .sample_count = 2};
    stoker_pack_owners owners = {.members = members, .member_count = 2, .offsets = offsets, .rank = 0};
    stoker_pack_route route;
    stoker_error err = {0};
    assert_int_equal(make(&schedule, &owners, &route, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sample 1 to rank 0 twice"));
    schedule.samples = unknown;
    assert_int_equal(make(&schedule, &owners, &route, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sample 4, 4 were loaded"));
    schedule.spans = beyond;
    assert_int_equal(make(&schedule, &owners, &route, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "span 0 ends at sample 3 of 2"));
    owners.members = wild;
    assert_int_equal(make(&schedule, &owners, &route, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "member 1 is rank 7"));
    owners.members = members;
    owners.offsets = falling;
    assert_int_equal(make(&schedule, &owners, &route, &err), STOKER_ERR_INVALID_ARGUMENT);
    owners.offsets = offsets;
    owners.rank = 5;
    assert_int_equal(make(&schedule, &owners, &route, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "rank 5 is not in its data-parallel group"));
}

static void test_memory_is_checked(void **state)
{
    (void)state;
    const uint32_t samples[] = {0, 1, 2, 3}, members[] = {0}, offsets[] = {0, 4};
    const stoker_pack_span spans[] = {{0, 0, 1, 0, 4}};
    stoker_pack_schedule schedule = {
        .microbatches = 1, .ranks = 1, .spans = spans, .span_count = 1, .samples = samples, .sample_count = 4};
    stoker_pack_owners owners = {.members = members, .member_count = 1, .offsets = offsets, .rank = 0};
    stoker_pack_route route;
    size_t size = stoker_pack_route_bytes(&schedule, &owners);
    assert_true(size > 0 && size <= sizeof memory);
    assert_int_equal(stoker_pack_route_make(&schedule, lengths, &owners, memory, size - 1, &route, NULL),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_pack_route_make(&schedule, lengths, &owners, memory, size, &route, NULL), STOKER_OK);
    assert_int_equal(route.send_tokens[0], 100);
    owners.member_count = 0;
    assert_int_equal(stoker_pack_route_bytes(&schedule, &owners), 0);
}

static void test_offsets_are_bounded(void **state)
{
    (void)state;
    const uint32_t counts[] = {2, 0, 3}, many[] = {STK_PACK_SAMPLES_MAX, 1};
    uint32_t offsets[4];
    assert_int_equal(stoker_pack_offsets(counts, 3, offsets, NULL), STOKER_OK);
    assert_int_equal(offsets[1], 2);
    assert_int_equal(offsets[2], 2);
    assert_int_equal(offsets[3], 5);
    assert_int_equal(stoker_pack_offsets(many, 2, offsets, NULL), STOKER_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_need_not_be_in_order_of_rank),
        cmocka_unit_test(test_bad_schedules_are_named),
        cmocka_unit_test(test_memory_is_checked),
        cmocka_unit_test(test_offsets_are_bounded),
    };
    return stk_run_tests(tests);
}
