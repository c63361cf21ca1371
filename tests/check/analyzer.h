/* SPDX-License-Identifier: Apache-2.0
 *
 * Put before every source that clang-tidy looks at (tidy.py). The analyzer does not see into other files, so it takes
 * for possible that stk_fail() returns OK, and then reports that outputs of a function that failed are used. These
 * macros tell it what error.c does.
 */
#include "base/error.h"

#define stk_fail(err, status, ...) ((void)stk_fail((err), (status), __VA_ARGS__), (status))
#define stk_fail_os(err, status, ...) ((void)stk_fail_os((err), (status), __VA_ARGS__), (status))
