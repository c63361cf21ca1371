/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame of every C unit test: includes cmocka in the order that it needs and runs a table of tests with TAP output.
 */
#ifndef STK_TESTS_UNIT_H
#define STK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* cmocka 1.1.5 prints a skipped test as "not ok 4 # SKIP name", which is a failure in TAP. Its calls of print_message()
 * come here instead, because a program is searched before its libraries. Weak: several sources of one program include
 * this header. */
__attribute__((weak, visibility("default"))) const char *stk_skip_reason = "";

__attribute__((weak, visibility("default"))) void print_message(const char *const format, ...)
{
    static const char skipped[] = "not ok %u # SKIP";
    bool is_skip = strncmp(format, skipped, sizeof skipped - 1) == 0;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    if (is_skip) {
        int length = vsnprintf(line, sizeof line, format + 4, arguments);
        if (length > 0 && length < (int)sizeof line && line[length - 1] == '\n') line[length - 1] = 0;
        printf("%s: %s\n", line, stk_skip_reason);
        (void)fflush(stdout); /* a forked child would print it again */
    } else {
        vprint_message(format, arguments);
    }
    va_end(arguments);
}

/* Ends the test, which is counted as skipped, with the reason in its line. */
#define STK_SKIP(reason) (stk_skip_reason = (reason), skip())

/* TAP is one line a test, so that the runner can count tests and not programs. */
#define stk_run_tests(tests) (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests(tests, NULL, NULL))

#endif
