/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as bytes: what is written is read again, and everything else is refused with the field that is wrong.
 */
#include <stdlib.h>
#include <string.h>

#include "media/decode_plan.h"
#include "media/plan_fixture.h"

enum { SIZE = 40 + 2 * 16 + 2 * 8 };

struct made {
    struct fixture f;
    struct stk_decode_plan plan;
    void *memory;
    uint8_t bytes[SIZE];
};

static void make(struct made *made)
{
    const int64_t pts[] = {0, 1, 2, 3, 6, 4, 5, 7, 8, 9};
    const uint32_t flags[] = {K, 0, 0, 0, K, 0, 0, 0, K, 0};
    const uint64_t wanted[] = {1, 9};
    const struct stk_plan_costs costs = {1e6, 0, 1, 0, 0.6};
    fill(&made->f, 10, pts, flags);
    made->memory = malloc(stk_decode_plan_room(2));
    stk_decode_plan_by_time(&made->plan, &made->f.table, &costs, wanted, 2, made->memory);
    assert_int_equal(stk_decode_plan_size(&made->plan), SIZE);
    stk_decode_plan_encode(&made->plan, made->bytes);
}

static void test_a_plan_is_read_again_as_it_was_written(void **state)
{
    (void)state;
    struct made made;
    struct stk_decode_plan plan;
    size_t room = 0;
    stoker_error err;
    uint8_t again[SIZE];
    make(&made);
    assert_int_equal(stk_decode_plan_check(made.bytes, SIZE, &room, &err), STOKER_OK);
    void *memory = malloc(room);
    stk_decode_plan_decode(made.bytes, &plan, memory);
    stk_decode_plan_encode(&plan, again);
    assert_memory_equal(again, made.bytes, SIZE);
    assert_true(stk_decode_plan_hash(&plan) == stk_decode_plan_hash(&made.plan));
    assert_int_equal(stk_decode_plan_fits(&plan, &made.f.table, &err), STOKER_OK);
    free(memory);
    free(made.memory);
}

static void test_the_hash_is_that_of_the_bytes(void **state)
{
    (void)state;
    struct made made;
    make(&made);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < SIZE; i++) hash = (hash ^ made.bytes[i]) * UINT64_C(1099511628211);
    assert_true(stk_decode_plan_hash(&made.plan) == hash);
    assert_true(hash == UINT64_C(0x751ae10958648cd0)); /* stored hashes stay valid */
    made.plan.kept[1].ordinal--;
    assert_true(stk_decode_plan_hash(&made.plan) != hash);
    free(made.memory);
}

static void expect_refused(const uint8_t *good, size_t at, uint32_t value, const char *text)
{
    uint8_t bytes[SIZE];
    size_t room;
    stoker_error err;
    memcpy(bytes, good, SIZE);
    for (int i = 0; i < 4; i++) bytes[at + (size_t)i] = (uint8_t)(value >> 8 * i);
    stoker_status status = stk_decode_plan_check(bytes, SIZE, &room, &err);
    assert_true(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
    if (!strstr(err.message, text)) fail_msg("'%s' does not say '%s'", err.message, text);
}

static void test_each_damaged_field_is_named(void **state)
{
    (void)state;
    struct made made;
    size_t room;
    stoker_error err;
    make(&made);
    for (size_t size = 0; size < SIZE; size++)
        assert_int_equal(stk_decode_plan_check(made.bytes, size, &room, &err), STOKER_ERR_CORRUPT);
    expect_refused(made.bytes, 0, 1, "magic at offset 0 is 0x1");
    expect_refused(made.bytes, 4, 2, "version 2, expected 1");
    expect_refused(made.bytes, 8, 2, "flags at offset 8 are 0x2");
    expect_refused(made.bytes, 8, 4, "flags at offset 8 are 0x4");
    expect_refused(made.bytes, 8, 0, "in order with 2 segments");
    expect_refused(made.bytes, 12, 9, "segment 1 is packets 8 to 10 of 9");
    expect_refused(made.bytes, 12, UINT32_MAX, "4294967295 packets");
    expect_refused(made.bytes, 16, 9, "kept frame 1 is 9, expected ascending numbers below 9");
    expect_refused(made.bytes, 20, UINT32_MAX, "segments and 2 frames take");
    expect_refused(made.bytes, 24, 3, "2 segments and 3 frames take");
    expect_refused(made.bytes, 28, 1, "offset 28 is 1");
    expect_refused(made.bytes, 40, 2, "segment 0 is packets 2 to 2");
    expect_refused(made.bytes, 56, 1, "segment 1 is packets 1 to 10 of 10, expected some after packet 2");
    expect_refused(made.bytes, 72, 9, "kept frame 1 is 9, expected ascending");
    expect_refused(made.bytes, 76, 5, "kept frame 0 is of packet 5, expected one in a segment");
    expect_refused(made.bytes, 84, UINT32_MAX, "kept frame 1 is of packet 4294967295");
    free(made.memory);
}

static void test_a_plan_of_another_file_is_a_mismatch(void **state)
{
    (void)state;
    struct made made;
    stoker_error err;
    make(&made);
    made.f.packets[7].size++;
    assert_int_equal(stk_decode_plan_fits(&made.plan, &made.f.table, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "10 packets"));
    made.f.packets[7].size--;
    made.plan.kept[0].packet = 0;
    assert_int_equal(stk_decode_plan_fits(&made.plan, &made.f.table, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "frame 1 in packet 0, the file in 1"));
    made.plan.kept[0].packet = 1;
    made.f.table.by_time = false;
    assert_int_equal(stk_decode_plan_fits(&made.plan, &made.f.table, &err), STOKER_ERR_MISMATCH);
    free(made.memory);
}

static void test_a_plan_in_order_is_one_segment(void **state)
{
    (void)state;
    struct made made;
    stoker_error err;
    size_t room;
    const uint64_t wanted[] = {0, 3};
    uint8_t bytes[40 + 16 + 16];
    make(&made);
    stk_decode_plan_in_order(&made.plan, &made.f.table, 4, wanted, 2, made.memory);
    assert_int_equal(stk_decode_plan_size(&made.plan), sizeof bytes);
    stk_decode_plan_encode(&made.plan, bytes);
    assert_int_equal(stk_decode_plan_check(bytes, sizeof bytes, &room, &err), STOKER_OK);
    assert_int_equal(stk_decode_plan_fits(&made.plan, &made.f.table, &err), STOKER_OK);
    bytes[60] = 0; /* the packet of a kept frame */
    assert_int_equal(stk_decode_plan_check(bytes, sizeof bytes, &room, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "expected none, in order"));
    free(made.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_is_read_again_as_it_was_written),
        cmocka_unit_test(test_the_hash_is_that_of_the_bytes),
        cmocka_unit_test(test_each_damaged_field_is_named),
        cmocka_unit_test(test_a_plan_of_another_file_is_a_mismatch),
        cmocka_unit_test(test_a_plan_in_order_is_one_segment),
    };
    return stk_run_tests(tests);
}
