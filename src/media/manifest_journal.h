/* SPDX-License-Identifier: Apache-2.0
 *
 * What a build has done so far, on disk: entries one after the other, each with a checksum, so that a killed build
 * loses what it was doing and nothing else. Its lock is what keeps two builds of one manifest apart.
 */
#ifndef STK_MEDIA_MANIFEST_JOURNAL_H
#define STK_MEDIA_MANIFEST_JOURNAL_H

#include <stdbool.h>

#include "media/manifest.h"

struct stk_manifest_journal {
    int fd; /* -1: not open */
    char *path;
    uint64_t end;        /* of what is whole */
    const uint8_t *data; /* mapped up to data_size */
    size_t data_size;
};

/* Opens or creates the file, takes its lock, cuts off what is not whole, and maps the rest. `fresh`: cuts off all.
 * UNAVAILABLE: another process has the lock. NOT_FOUND (no such folder), IO, NO_SPACE, NO_MEMORY. */
stoker_status stk_manifest_journal_open(const char *path, bool fresh, struct stk_manifest_journal *out_journal,
                                        stoker_error *err);
/* Adds an entry; *out_at is its place. One thread at a time, but others may read what is mapped. */
stoker_status stk_manifest_journal_append(struct stk_manifest_journal *journal, const struct stk_manifest_value *value,
                                          uint64_t *out_at, stoker_error *err);
/* Maps what was appended since. Values that were given before are no longer valid. */
stoker_status stk_manifest_journal_map(struct stk_manifest_journal *journal, stoker_error *err);
/* The value at a place in what is mapped; gives the place after it. The first place is STK_MANIFEST_JOURNAL_FIRST. */
#define STK_MANIFEST_JOURNAL_FIRST 8u
uint64_t stk_manifest_journal_value(const struct stk_manifest_journal *journal, uint64_t at,
                                    struct stk_manifest_value *out);
/* Gives the lock back; `remove`: the file is gone. Not open and NULL are allowed. */
void stk_manifest_journal_close(struct stk_manifest_journal *journal, bool remove);

#endif
