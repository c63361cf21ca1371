/* SPDX-License-Identifier: Apache-2.0
 *
 * Fill and extend error objects. The first function that knows a cause writes the message with stk_fail(); callers add
 * only the noun that they alone know with stk_error_context(). Success never touches the object.
 */
#ifndef STK_BASE_ERROR_H
#define STK_BASE_ERROR_H

#include <stoker/error.h>

/* Fills *err (NULL allowed) and returns `status`. The message is cut at its bound, never overrun; control characters
 * that came from outside are replaced by '?'. Clears the context. */
stoker_status stk_fail(stoker_error *err, stoker_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As stk_fail, and records errno and its text: "cannot open 'a': No such file or directory" from format "cannot open
 * 'a'". */
stoker_status stk_fail_os(stoker_error *err, stoker_status status, int os_error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "noun" before what the context already says: "noun: older". NULL err allowed. */
void stk_error_context(stoker_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes "context: message" into out (terminated, cut at size). */
void stk_error_text(const stoker_error *err, char *out, unsigned long size);

/* Forwards a failure (negative status) of an expression. */
#define STK_TRY(expr)                                                                                                  \
    do {                                                                                                               \
        stoker_status stk_try_status = (expr);                                                                         \
        if (stk_try_status < 0) return stk_try_status;                                                                 \
    } while (0)

#endif
