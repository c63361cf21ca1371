/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame of every C unit test: includes cmocka in the order that it needs and runs a table of tests with TAP output.
 */
#ifndef STK_TESTS_UNIT_H
#define STK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* TAP is one line a test, so that the runner can count tests and not programs. */
#define stk_run_tests(tests) (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests(tests, NULL, NULL))

#endif
