/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pieces: each text one reference, ids as they were learned, memory within its bound.
 */
#include "text/pieces.h"

#include <stdio.h>

#include "tests/support/unit.h"

static uint32_t find(struct stk_pieces *pieces, const char *text, bool keep)
{
    uint32_t reference = 0;
    assert_int_equal(stk_pieces_find(pieces, text, strlen(text), keep, &reference, NULL), STOKER_OK);
    return reference;
}

static void learn(struct stk_pieces *pieces, uint32_t reference, int32_t first, size_t count)
{
    int32_t ids[8];
    for (size_t i = 0; i < count; i++) ids[i] = first + (int32_t)i;
    assert_int_equal(stk_pieces_learn(pieces, reference, ids, count, NULL), STOKER_OK);
}

static void expect_ids(struct stk_pieces *pieces, uint32_t reference, int32_t first, size_t count)
{
    size_t got;
    const int32_t *ids = stk_pieces_ids(pieces, reference, &got);
    assert_non_null(ids);
    assert_int_equal(got, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], first + (int32_t)i);
}

static void test_pieces_are_remembered_between_rounds(void **state)
{
    (void)state;
    struct stk_pieces pieces;
    assert_int_equal(stk_pieces_init(&pieces, 1 << 20, NULL), STOKER_OK);
    stk_pieces_begin(&pieces);
    uint32_t a = find(&pieces, "a", true), b = find(&pieces, " a", true), empty = find(&pieces, "", true);
    assert_int_equal(find(&pieces, "a", true), a);
    assert_true(a != b && b != empty);
    assert_int_equal(pieces.unknown.count, 3);
    size_t size;
    assert_memory_equal(stk_pieces_text(&pieces, stk_pieces_unknown(&pieces, 1), &size), " a", 2);
    assert_int_equal(size, 2);
    assert_null(stk_pieces_ids(&pieces, a, &size));
    learn(&pieces, a, 7, 2);
    learn(&pieces, b, 100, 1);
    learn(&pieces, empty, 0, 0);
    expect_ids(&pieces, a, 7, 2);
    expect_ids(&pieces, empty, 0, 0);

    stk_pieces_begin(&pieces);
    assert_int_equal(pieces.unknown.count, 0);
    expect_ids(&pieces, find(&pieces, "a", true), 7, 2);
    uint32_t passing = find(&pieces, "a", false);
    assert_int_equal(pieces.unknown.count, 1);
    learn(&pieces, passing, 50, 3);
    expect_ids(&pieces, passing, 50, 3);
    expect_ids(&pieces, find(&pieces, "a", true), 7, 2);
    stk_pieces_fini(&pieces);
}

static void test_pieces_of_a_failed_round_are_unknown_again(void **state)
{
    (void)state;
    struct stk_pieces pieces;
    assert_int_equal(stk_pieces_init(&pieces, 1 << 20, NULL), STOKER_OK);
    stk_pieces_begin(&pieces);
    (void)find(&pieces, "a", true);
    stk_pieces_begin(&pieces);
    (void)find(&pieces, "a", true);
    assert_int_equal(pieces.unknown.count, 1);
    stk_pieces_fini(&pieces);
}

static void test_pieces_many_and_within_the_bound(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct stk_pieces pieces;
    char text[32];
    assert_int_equal(stk_pieces_init(&pieces, 4 << 20, NULL), STOKER_OK);
    for (int round = 0; round < 2; round++) {
        stk_pieces_begin(&pieces);
        for (int i = 0; i < COUNT; i++) {
            (void)snprintf(text, sizeof text, "piece number %d", i);
            uint32_t reference = find(&pieces, text, true);
            if (round == 0) learn(&pieces, reference, i, 3);
            expect_ids(&pieces, reference, i, 3);
        }
        assert_int_equal(pieces.unknown.count, round == 0 ? COUNT : 0);
    }
    assert_int_equal(pieces.resets, 0);
    pieces.bytes_max = 1 << 16;
    stk_pieces_begin(&pieces);
    assert_int_equal(pieces.resets, 1);
    (void)find(&pieces, "piece number 1", true);
    assert_int_equal(pieces.unknown.count, 1);
    stk_pieces_fini(&pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_remembered_between_rounds),
        cmocka_unit_test(test_pieces_of_a_failed_round_are_unknown_again),
        cmocka_unit_test(test_pieces_many_and_within_the_bound),
    };
    return stk_run_tests(tests);
}
