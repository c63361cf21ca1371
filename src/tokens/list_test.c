/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/list.h"

#include <stdlib.h>

#include "base/limits.h"
#include "tests/support/allocations.h"
#include "tests/support/unit.h"

static void test_list_keeps_its_elements_over_chunks(void **state)
{
    (void)state;
    enum { COUNT = 3 * (STK_TOKEN_CHUNK_BYTES / 8) + 5, STEP = 777 };
    struct stk_list list;
    int64_t *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < COUNT; i++) values[i] = i * 3;
    stk_list_init(&list, 8);
    for (uint64_t at = 0; at < COUNT; at += STEP) {
        uint64_t part = COUNT - at < STEP ? COUNT - at : STEP;
        assert_int_equal(stk_list_reserve(&list, part, NULL), STOKER_OK);
        stk_list_append(&list, values + at, part);
    }
    assert_int_equal(list.count, COUNT);
    uint64_t seen = 0, runs = 0;
    const void *run = NULL;
    for (uint64_t count; (count = stk_list_run(&list, seen, &run)) > 0; seen += count, runs++)
        assert_memory_equal(run, values + seen, count * 8);
    assert_int_equal(seen, COUNT);
    assert_int_equal(runs, 4);
    stk_list_truncate(&list, 10);
    assert_int_equal(stk_list_run(&list, 4, &run), 6);
    stk_list_append(&list, values, 1); /* room stays */
    assert_int_equal(stk_list_run(&list, 10, &run), 1);
    assert_memory_equal(run, values, 8);
    stk_list_fini(&list);
    stk_list_fini(&list);
    free(values);
}

static void test_fault_list_is_as_before(void **state)
{
    (void)state;
    struct stk_list list;
    stoker_error err = {0};
    const void *run = NULL;
    stk_list_init(&list, 4);
    assert_int_equal(stk_list_reserve(&list, UINT64_MAX, &err), STOKER_ERR_NO_MEMORY);
    for (uint64_t n = 1; n <= 2; n++) {
        allocations_fail(n);
        assert_int_equal(stk_list_reserve(&list, 1, &err), STOKER_ERR_NO_MEMORY);
        allocations_fail(0);
        assert_int_equal(list.count, 0);
        assert_int_equal(stk_list_run(&list, 0, &run), 0);
    }
    assert_int_equal(stk_list_reserve(&list, 1, &err), STOKER_OK);
    stk_list_fini(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_keeps_its_elements_over_chunks),
        cmocka_unit_test(test_fault_list_is_as_before),
    };
    return stk_run_tests(tests);
}
