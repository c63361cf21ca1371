/* SPDX-License-Identifier: Apache-2.0
 *
 * Quarantine lists in a build without SQLite: refused by name when they are opened (see quarantine.c).
 */
#include <stoker/quarantine.h>

#include "base/error.h"

static stoker_status refuse(stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "quarantine lists need a build with SQLite (option sqlite)");
}

STOKER_API stoker_status stoker_quarantine_open(const char *path, stoker_quarantine_mode mode,
                                                stoker_quarantine **out_list, stoker_error *err)
{
    (void)path, (void)mode, (void)out_list;
    return refuse(err);
}

STOKER_API stoker_status stoker_quarantine_add(stoker_quarantine *list, const stoker_quarantine_entry *entries,
                                               size_t count, stoker_error *err)
{
    (void)list, (void)entries, (void)count;
    return refuse(err);
}

STOKER_API stoker_status stoker_quarantine_walk(stoker_quarantine *list, stoker_quarantine_fn entry_fn, void *user,
                                                stoker_error *err)
{
    (void)list, (void)entry_fn, (void)user;
    return refuse(err);
}

STOKER_API stoker_status stoker_quarantine_clear(stoker_quarantine *list, const char *path, uint64_t *out_removed,
                                                 stoker_error *err)
{
    (void)list, (void)path, (void)out_removed;
    return refuse(err);
}

STOKER_API stoker_status stoker_quarantine_digest(stoker_quarantine *list, char out_digest[STOKER_DIGEST_HEX_BYTES],
                                                  uint64_t *out_count, stoker_error *err)
{
    (void)list, (void)out_digest, (void)out_count;
    return refuse(err);
}

STOKER_API void stoker_quarantine_close(stoker_quarantine *list) { (void)list; }
