/* SPDX-License-Identifier: Apache-2.0
 *
 * Log records to a sink that comes in through options. Library code that returns errors does not log them; loops that
 * have nobody to return to do.
 */
#ifndef STK_OBS_LOG_H
#define STK_OBS_LOG_H

#include <stoker/service.h>

struct stk_log {
    stoker_log_fn fn; /* NULL: no records */
    void *user;
    stoker_log_level level; /* records above it are dropped */
};

/* `id` is a stable short name; the text is one line, cut at 1,023 bytes. log may be NULL. */
void stk_log(const struct stk_log *log, stoker_log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
