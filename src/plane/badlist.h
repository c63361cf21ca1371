/* SPDX-License-Identifier: Apache-2.0
 *
 * What a quarantine list leaves out, as it was at one moment: the rank reads the list and sends this blob, the
 * DataServer looks samples up in it. Neither waits for a disk while it serves.
 *
 * The blob (little-endian): magic "STKB", version (4), size of the blob (8), number of entries (8), then the entries in
 * rising order: a path ended by a zero byte, the size of the file (8), its modification time in ns (8). Digest: SHA-256
 * of all entries. docs/reference/quarantine.md.
 */
#ifndef STK_PLANE_BADLIST_H
#define STK_PLANE_BADLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/quarantine.h>

struct stk_badlist {
    const uint8_t *blob; /* mapped */
    size_t size;
    uint64_t count;
    uint64_t *offsets; /* of the entries */
    char digest[STOKER_DIGEST_HEX_BYTES];
};

/* Reads the list at `path`, which is made if it does not exist, into a sealed blob. As stoker_quarantine_open();
 * LIMIT. */
stoker_status stk_badlist_create(const char *path, int *out_fd, stoker_error *err);
/* Maps a blob that came from outside; takes `fd`, even on failure. CORRUPT names the entry and offset. */
stoker_status stk_badlist_open(int fd, struct stk_badlist *out_list, stoker_error *err);
void stk_badlist_close(struct stk_badlist *list); /* zeroed ones allowed */
bool stk_badlist_holds(const struct stk_badlist *list, const char *path, uint64_t bytes, int64_t mtime_ns);

/* Every entry of a blob: `offsets` (NULL allowed) has room for as many as the header says. */
stoker_status stk_badlist_check(const uint8_t *blob, size_t size, uint64_t *offsets, uint64_t *out_count,
                                stoker_error *err);

#endif
