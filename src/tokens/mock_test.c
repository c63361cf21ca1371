/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up sequences: lengths of the reference, and parts that equal the whole.
 */
#include "tokens/mock.h"

#include <stdlib.h>

#include "tests/support/unit.h"

static void test_sequences_count_modulo_the_vocabulary(void **state)
{
    (void)state;
    struct stk_mock *mock = NULL;
    stoker_error err;
    static int64_t whole[4096], part[4096];
    assert_int_equal(stk_mock_create(7, 99, &mock, &err), STOKER_OK);
    for (uint64_t sequence = 0; sequence < 3; sequence++) {
        uint64_t length = (uint64_t)mock->lengths[sequence];
        assert_in_range(length, 1, 4095);
        stk_mock_read(mock, sequence, 0, length, whole);
        for (uint64_t i = 0; i + 1 < length; i++) assert_int_equal(whole[i], (i + 1) % 7);
        assert_int_equal(whole[length - 1], 99);
        for (uint64_t first = 0; first < length; first += 100) {
            stk_mock_read(mock, sequence, first, length - first, part);
            assert_memory_equal(part, whole + first, (length - first) * sizeof *part);
        }
        stk_mock_read(mock, sequence, 0, length - 1, part);
        assert_memory_equal(part, whole, (length - 1) * sizeof *part);
        stk_mock_read(mock, sequence, length, 0, part);
    }
    free(mock);
}

static void test_a_vocabulary_of_nothing_is_refused(void **state)
{
    (void)state;
    struct stk_mock *mock = NULL;
    stoker_error err;
    assert_int_equal(stk_mock_create(0, 0, &mock, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stk_mock_create(-5, 0, &mock, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "-5"));
    assert_null(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences_count_modulo_the_vocabulary),
        cmocka_unit_test(test_a_vocabulary_of_nothing_is_refused),
    };
    return stk_run_tests(tests);
}
