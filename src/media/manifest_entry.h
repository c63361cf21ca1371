/* SPDX-License-Identifier: Apache-2.0
 *
 * From an opened file to an entry: what a build writes and a verify compares with.
 */
#ifndef STK_MEDIA_MANIFEST_ENTRY_H
#define STK_MEDIA_MANIFEST_ENTRY_H

#include <stdbool.h>

#include "media/manifest.h"

/* A value that owns its codec, error and table, and points to them: not to be copied. Its path and member are the
 * caller's. */
struct stk_manifest_made {
    struct stk_manifest_value value;
    char codec[STOKER_CODEC_NAME_BYTES];
    char error[STOKER_ERROR_MESSAGE_BYTES];
    uint8_t *table;
};

/* Scans an opened file into *out, which stk_manifest_made_fini() empties. `exact`: decodes it and counts the frames. A
 * file that cannot be used gives an entry that says so. NO_MEMORY, LIMIT: nothing was made. */
stoker_status stk_manifest_make(const struct stk_file *file, bool exact, struct stk_manifest_made *out,
                                stoker_error *err);
/* The entry of a file that cannot be used; keeps size and time of *out. */
void stk_manifest_make_bad(stoker_status status, const char *message, struct stk_manifest_made *out);
void stk_manifest_made_fini(struct stk_manifest_made *made);

/* What tells of the file, so that its entry may be kept as long as the file is the same; other faults may pass. */
bool stk_manifest_is_lasting(stoker_status status);

#endif
