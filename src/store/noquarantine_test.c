/* SPDX-License-Identifier: Apache-2.0
 *
 * Quarantine lists without SQLite: a message that says so. Linked with noquarantine.c in every build.
 */
#include <stoker/quarantine.h>

#include "tests/support/unit.h"

static void test_noquarantine_refuses_lists(void **state)
{
    (void)state;
    stoker_quarantine *list = NULL;
    stoker_error err = {0};
    assert_int_equal(stoker_quarantine_open("q.sqlite", STOKER_QUARANTINE_WRITE, &list, &err), STOKER_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "SQLite"));
    assert_null(list);
    stoker_quarantine_close(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_noquarantine_refuses_lists)};
    return stk_run_tests(tests);
}
