/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/clock.h"

#include "tests/support/unit.h"

static void test_clocks_never_go_back(void **state)
{
    (void)state;
    uint64_t now = stk_clock_now_ns(), thread = stk_clock_thread_cpu_ns(), process = stk_clock_process_cpu_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now_after = stk_clock_now_ns(), thread_after = stk_clock_thread_cpu_ns();
        uint64_t process_after = stk_clock_process_cpu_ns();
        assert_true(now_after >= now && thread_after >= thread && process_after >= process);
        now = now_after, thread = thread_after, process = process_after;
    }
    assert_true(thread > 0 && process >= thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clocks_never_go_back)};
    return stk_run_tests(tests);
}
