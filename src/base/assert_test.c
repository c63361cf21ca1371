/* SPDX-License-Identifier: Apache-2.0
 *
 * Assertions end the program, checked arithmetic refuses what does not fit.
 */
#include "base/assert.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

static void test_assertion_that_holds_has_no_effect(void **state)
{
    (void)state;
    int evaluated = 0;
    STK_ASSERT(++evaluated == 1);
    assert_int_equal(evaluated, 1);
}

static void test_failed_assertion_names_itself_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        stk_assert_failed("1 == 2", "here.c", 7);
    }
    (void)close(ends[1]);
    char text[256] = "";
    size_t used = 0;
    ssize_t got;
    while (used < sizeof text - 1 && (got = read(ends[0], text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_string_equal(text, "stoker: broken invariant: 1 == 2 (here.c:7)\n");
}

static void test_sums_and_products_do_not_wrap(void **state)
{
    (void)state;
    size_t out = 5;
    assert_true(stk_add_size(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    out = 5;
    assert_false(stk_add_size(SIZE_MAX, 1, &out));
    assert_int_equal(out, 5);
    assert_false(stk_mul_size(SIZE_MAX / 2 + 1, 2, &out));
    assert_int_equal(out, 5);
    assert_true(stk_mul_size(SIZE_MAX, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_true(stk_mul_size(0, SIZE_MAX, &out));
    assert_int_equal(out, 0);
}

static void test_align_up_keeps_multiples(void **state)
{
    (void)state;
    assert_int_equal(stk_align_up(0, 256), 0);
    assert_int_equal(stk_align_up(1, 256), 256);
    assert_int_equal(stk_align_up(256, 256), 256);
    assert_int_equal(stk_align_up(257, 256), 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assertion_that_holds_has_no_effect),
        cmocka_unit_test(test_failed_assertion_names_itself_and_aborts),
        cmocka_unit_test(test_sums_and_products_do_not_wrap),
        cmocka_unit_test(test_align_up_keeps_multiples),
    };
    return stk_run_tests(tests);
}
