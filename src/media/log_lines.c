/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping the last lines of a log: see log_lines.h.
 */
#include "media/log_lines.h"

#include <stdio.h>
#include <string.h>

enum {
    ALL_OF = 256, /* lines that are all looked at; a damaged file says tens of them */
    THEN_ONE_IN = 64
};

bool stk_log_lines_wanted(struct stk_log_lines *lines)
{
    lines->said++;
    return lines->said <= ALL_OF || lines->said % THEN_ONE_IN == 0;
}

void stk_log_lines_keep(struct stk_log_lines *lines, const char *text)
{
    char line[STK_LOG_LINE_BYTES];
    size_t used = 0;
    for (const char *at = text; *at && used < sizeof line - 1; at++)
        if ((unsigned char)*at >= 0x20 && (unsigned char)*at < 0x7f) line[used++] = *at;
    while (used > 0 && (line[used - 1] == ' ' || line[used - 1] == '.')) used--;
    line[used] = 0;
    if (used == 0) return;
    for (uint32_t i = 0; i < lines->kept; i++) {
        if (strcmp(lines->line[i], line) != 0) continue;
        lines->repeats[i]++;
        return;
    }
    if (lines->kept == STK_LOG_LINES_KEPT) {
        memmove(lines->line, lines->line + 1, (STK_LOG_LINES_KEPT - 1) * sizeof *lines->line);
        memmove(lines->repeats, lines->repeats + 1, (STK_LOG_LINES_KEPT - 1) * sizeof *lines->repeats);
        lines->kept--;
    }
    memcpy(lines->line[lines->kept], line, used + 1);
    lines->repeats[lines->kept++] = 1;
}

void stk_log_lines_text(const struct stk_log_lines *lines, char out[STK_LOG_TEXT_BYTES])
{
    out[0] = 0;
    for (uint32_t i = lines->kept; i-- > 0;) { /* the newest must be there */
        char line[STK_LOG_LINE_BYTES + 24];
        int size = lines->repeats[i] > 1
                       ? snprintf(line, sizeof line, "%s (%u times)", lines->line[i], lines->repeats[i])
                       : snprintf(line, sizeof line, "%s", lines->line[i]);
        size_t used = strlen(out), gap = used ? 2 : 0;
        if (size < 0 || (size_t)size + gap + used + 1 > STK_LOG_TEXT_BYTES) return;
        memmove(out + size + gap, out, used + 1);
        memcpy(out, line, (size_t)size);
        if (gap) memcpy(out + size, "; ", 2);
    }
}
