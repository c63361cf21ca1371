/* SPDX-License-Identifier: Apache-2.0
 *
 * The last different lines that a library said about one file, for the error of its sample. Repeats are counted, not
 * kept; a file that causes millions of lines costs a counter. Pure but for the C library's strings.
 */
#ifndef STK_MEDIA_LOG_LINES_H
#define STK_MEDIA_LOG_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_LOG_LINES_KEPT 4u
#define STK_LOG_LINE_BYTES 120u
#define STK_LOG_TEXT_BYTES 384u /* fits an error message beside its own words */

/* Zeroed: nothing was said. One thread at a time. */
struct stk_log_lines {
    uint64_t said; /* lines in all */
    uint32_t kept;
    uint32_t repeats[STK_LOG_LINES_KEPT]; /* oldest first */
    char line[STK_LOG_LINES_KEPT][STK_LOG_LINE_BYTES];
};

/* Counts a line; false if its text is of no interest any more: of a flood only some are looked at. */
bool stk_log_lines_wanted(struct stk_log_lines *lines);
/* Keeps a line that is wanted; ends of lines and sentences, and bytes that are no printable ASCII, are left out. */
void stk_log_lines_keep(struct stk_log_lines *lines, const char *text);
/* "first; second (3 times)", the newest last, cut at its beginning if it does not fit; empty if nothing was said. */
void stk_log_lines_text(const struct stk_log_lines *lines, char out[STK_LOG_TEXT_BYTES]);

#endif
