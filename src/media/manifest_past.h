/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of the past, by name: those of an older manifest and those of a journal.
 */
#ifndef STK_MEDIA_MANIFEST_PAST_H
#define STK_MEDIA_MANIFEST_PAST_H

#include "media/manifest.h"
#include "media/manifest_journal.h"

struct stk_manifest_past {
    const char *path, *member; /* as kept; "" for none */
    uint64_t at;               /* index in the manifest, or place in the journal */
};

struct stk_manifest_pasts {
    struct stk_manifest_past *entries; /* by path, then member, then `at` */
    size_t count;
};

/* Both borrow what they list. NO_MEMORY. `manifest` may be NULL. */
stoker_status stk_manifest_pasts_of_manifest(const stoker_manifest *manifest, struct stk_manifest_pasts *out,
                                             stoker_error *err);
stoker_status stk_manifest_pasts_of_journal(const struct stk_manifest_journal *journal, struct stk_manifest_pasts *out,
                                            stoker_error *err);
void stk_manifest_pasts_fini(struct stk_manifest_pasts *pasts);

/* The last of that name (in a journal the newest), or NULL. `member` NULL is none. */
const struct stk_manifest_past *stk_manifest_pasts_find(const struct stk_manifest_pasts *pasts, const char *path,
                                                        const char *member);

#endif
