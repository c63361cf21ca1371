/* SPDX-License-Identifier: Apache-2.0
 *
 * Temporary names of files, and what killed processes left under them. A name is ".stoker-HASH-NUMBER.ENDING" in the
 * folder of the file that it is for: HASH is over the name of that file, so that who writes it next finds what is left.
 * Whoever works under such a name holds a record lock on the file (stk_file_claim in publish.h), and the lock ends with
 * its process: what is not locked has lost its owner, on whatever host that was.
 */
#ifndef STK_SYS_LEFTOVER_H
#define STK_SYS_LEFTOVER_H

#include <stdbool.h>
#include <stddef.h>

#define STK_ENDING_PART "part" /* being written */
#define STK_ENDING_OLD "old"   /* what had the name before, until it is clear who stays */

enum { STK_LEFTOVER_PATHS_MAX = 8 };

/* A new name for a file on its way to `path`, on the heap; NULL without memory. */
char *stk_leftover_name(const char *path, const char *ending);

/* Removes what processes that are gone left of these files: parts, and with `old` what stood aside. What belongs to a
 * living process, or lies on a file system without locks, stays. At most STK_LEFTOVER_PATHS_MAX; a folder is read once
 * for those that follow one another. */
void stk_leftovers_remove(const char *const *paths, size_t count, bool old);

#endif
