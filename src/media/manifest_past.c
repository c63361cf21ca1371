/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of the past: see manifest_past.h.
 */
#include "media/manifest_past.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int compare(const char *path, const char *member, const struct stk_manifest_past *past)
{
    int order = strcmp(path, past->path);
    return order ? order : strcmp(member, past->member);
}

static int by_name(const void *left, const void *right)
{
    const struct stk_manifest_past *a = left, *b = right;
    int order = compare(a->path, a->member, b);
    if (order != 0) return order;
    return a->at < b->at ? -1 : a->at > b->at;
}

const struct stk_manifest_past *stk_manifest_pasts_find(const struct stk_manifest_pasts *pasts, const char *path,
                                                        const char *member)
{
    size_t low = 0, high = pasts->count;
    if (!member) member = "";
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(path, member, &pasts->entries[middle]) >= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && compare(path, member, &pasts->entries[low - 1]) == 0 ? &pasts->entries[low - 1] : NULL;
}

static stoker_status reserve(struct stk_manifest_pasts *pasts, size_t count, stoker_error *err)
{
    pasts->count = 0;
    pasts->entries = calloc(count + 1, sizeof *pasts->entries);
    return pasts->entries ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu entries", count);
}

static void add(struct stk_manifest_pasts *pasts, const struct stk_manifest_value *value, uint64_t at)
{
    pasts->entries[pasts->count++] = (struct stk_manifest_past){value->path, value->member ? value->member : "", at};
}

stoker_status stk_manifest_pasts_of_manifest(const stoker_manifest *manifest, struct stk_manifest_pasts *out,
                                             stoker_error *err)
{
    struct stk_manifest_value value;
    uint64_t count = manifest ? manifest->header.entry_count : 0;
    STK_TRY(reserve(out, (size_t)count, err));
    for (uint64_t i = 0; i < count; i++) {
        stk_manifest_value_at(manifest, i, &value);
        add(out, &value, i);
    }
    qsort(out->entries, out->count, sizeof *out->entries, by_name);
    return STOKER_OK;
}

stoker_status stk_manifest_pasts_of_journal(const struct stk_manifest_journal *journal, struct stk_manifest_pasts *out,
                                            stoker_error *err)
{
    struct stk_manifest_value value;
    size_t count = 0;
    for (uint64_t at = STK_MANIFEST_JOURNAL_FIRST; at < journal->end; count++)
        at = stk_manifest_journal_value(journal, at, &value);
    STK_TRY(reserve(out, count, err));
    for (uint64_t at = STK_MANIFEST_JOURNAL_FIRST, next; at < journal->end; at = next) {
        next = stk_manifest_journal_value(journal, at, &value);
        add(out, &value, at);
    }
    qsort(out->entries, out->count, sizeof *out->entries, by_name);
    return STOKER_OK;
}

void stk_manifest_pasts_fini(struct stk_manifest_pasts *pasts)
{
    free(pasts->entries);
    *pasts = (struct stk_manifest_pasts){NULL, 0};
}
