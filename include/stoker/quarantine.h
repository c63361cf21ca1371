/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of files that could not be decoded, which outlives the run: one SQLite file, shared by any number of ranks,
 * jobs and tools of one host at a time. A loader adds to it, and leaves out what is on it, when its options name it.
 *
 * An entry is one version of a file: path, size and modification time. A file that was repaired is another version and
 * is tried again. docs/reference/quarantine.md describes the table.
 */
#ifndef STOKER_QUARANTINE_H
#define STOKER_QUARANTINE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STOKER_DIGEST_HEX_BYTES = 65 }; /**< 64 hexadecimal digits and the end */

typedef struct stoker_quarantine stoker_quarantine;

/** One version of a file that failed. */
typedef struct stoker_quarantine_entry {
    const char *path;
    uint64_t bytes;       /**< size; 0 with a time of 0: there was no file */
    int64_t mtime_ns;
    stoker_status status; /**< of the last failure */
    const char *error;    /**< its sentence */
    uint64_t count;       /**< failures; not read by stoker_quarantine_add(), which adds one */
    int64_t first_seen_s; /**< seconds since 1970; not read by stoker_quarantine_add() */
    int64_t last_seen_s;
} stoker_quarantine_entry;

/** How to open a list. */
typedef enum stoker_quarantine_mode {
    STOKER_QUARANTINE_READ = 0, /**< it must exist */
    STOKER_QUARANTINE_WRITE = 1 /**< it is made if it does not */
} stoker_quarantine_mode;

/** Open a list.
 *
 * Owns:    `path` is borrowed. On success *out_list is the caller's, who calls stoker_quarantine_close().
 * Threads: any; a list is used by one thread at a time, and a file by any number of lists and processes.
 * Errors:  NOT_FOUND, CORRUPT (no such list, or another database), UNSUPPORTED (a newer version, or a build without
 *          SQLite), IO, NO_MEMORY, TIMEOUT (another process holds it for 10 s).
 */
STOKER_API stoker_status stoker_quarantine_open(const char *path, stoker_quarantine_mode mode,
                                                stoker_quarantine **out_list, stoker_error *err);

/** Note failures: each entry is added, or counted once more with its new error. All or none.
 *
 * Owns:    entries are borrowed.
 * Threads: the list's thread.
 * Errors:  INVALID_ARGUMENT, IO, NO_SPACE, TIMEOUT.
 */
STOKER_API stoker_status stoker_quarantine_add(stoker_quarantine *list, const stoker_quarantine_entry *entries,
                                               size_t count, stoker_error *err);

/** Receives one entry, valid during the call. A failure ends the walk and is returned. */
typedef stoker_status (*stoker_quarantine_fn)(void *user, const stoker_quarantine_entry *entry, stoker_error *err);

/** Walk the entries in the order of path, size and time: one state of the list, whatever others add meanwhile.
 *
 * Owns:    nothing.
 * Threads: the list's thread; `entry_fn` must not use the list.
 * Errors:  IO, TIMEOUT, and those of `entry_fn`.
 */
STOKER_API stoker_status stoker_quarantine_walk(stoker_quarantine *list, stoker_quarantine_fn entry_fn, void *user,
                                                stoker_error *err);

/** Remove entries: all of them, or those of one path.
 *
 * Owns:    `path` is borrowed; NULL: all.
 * Threads: the list's thread.
 * Errors:  IO, TIMEOUT.
 */
STOKER_API stoker_status stoker_quarantine_clear(stoker_quarantine *list, const char *path, uint64_t *out_removed,
                                                 stoker_error *err);

/** Digest (SHA-256) of what the list leaves out: paths, sizes and times in order; neither errors nor counts.
 *
 * Owns:    the outputs are filled on success.
 * Threads: the list's thread.
 * Errors:  IO, TIMEOUT, NO_MEMORY, LIMIT (1,048,576 entries).
 */
STOKER_API stoker_status stoker_quarantine_digest(stoker_quarantine *list, char out_digest[STOKER_DIGEST_HEX_BYTES],
                                                  uint64_t *out_count, stoker_error *err);

/** Close a list.
 *
 * Owns:    takes `list`; NULL is allowed.
 * Threads: the list's thread.
 * Errors:  none.
 */
STOKER_API void stoker_quarantine_close(stoker_quarantine *list);

#ifdef __cplusplus
}
#endif

#endif
