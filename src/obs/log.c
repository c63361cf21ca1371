/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats a record and hands it to the sink: see log.h. Text from outside may stand in a record, so control characters
 * become '?': a record is one line whatever a file is called.
 */
#include "obs/log.h"

#include <stdarg.h>
#include <stdio.h>

#define RECORD_BYTES 1024

void stk_log(const struct stk_log *log, stoker_log_level level, const char *id, const char *format, ...)
{
    if (!log || !log->fn || level > log->level) return;
    char text[RECORD_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(text, sizeof text, format, arguments); /* cut text is still the best text */
    va_end(arguments);
    if (written < 0) text[0] = 0; /* an unprintable argument: the id still says what happened */
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
    log->fn(log->user, level, id, text);
}
