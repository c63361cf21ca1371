/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining manifests: entries in order, paths kept anew for the folder of the result.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "media/manifest.h"

/* An entry by its name, to find files that stand in two manifests. */
struct named {
    char *path; /* as it is opened */
    const char *member;
    size_t manifest;
};

struct merge {
    char *folder; /* of the result */
    stoker_manifest **manifests;
    size_t count;
    uint64_t total;
    struct named *named; /* in order of the entries */
    size_t named_count;
    uint64_t *firsts; /* of the entries of each manifest */
};

static int by_name(const void *left, const void *right)
{
    const struct named *a = *(const struct named *const *)left, *b = *(const struct named *const *)right;
    int order = strcmp(a->path, b->path);
    if (order == 0) order = strcmp(a->member, b->member);
    if (order == 0) order = a->manifest < b->manifest ? -1 : a->manifest > b->manifest;
    return order;
}

static stoker_status name_entries(struct merge *merge, size_t m, stoker_error *err)
{
    char path[STK_MANIFEST_PATH_BYTES_MAX + 1];
    struct stk_manifest_value value;
    for (uint64_t i = 0; i < merge->manifests[m]->header.entry_count; i++) {
        STK_TRY(stoker_manifest_get_path(merge->manifests[m], i, path, sizeof path, err));
        stk_manifest_value_at(merge->manifests[m], i, &value);
        struct named *named = &merge->named[merge->named_count];
        *named = (struct named){strdup(path), value.member ? value.member : "", m};
        if (!named->path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
        merge->named_count++;
    }
    return STOKER_OK;
}

static stoker_status check_twice(const struct merge *merge, const char *const *names, stoker_error *err)
{
    const struct named **sorted = calloc(merge->named_count + 1, sizeof(struct named *));
    stoker_status status = STOKER_OK;
    if (!sorted) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu entries", merge->named_count);
    for (size_t i = 0; i < merge->named_count; i++) sorted[i] = &merge->named[i];
    qsort(sorted, merge->named_count, sizeof(struct named *), by_name);
    for (size_t i = 1; status >= 0 && i < merge->named_count; i++) {
        const struct named *a = sorted[i - 1], *b = sorted[i];
        if (a->manifest != b->manifest && strcmp(a->path, b->path) == 0 && strcmp(a->member, b->member) == 0)
            status = stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%s%s%s' stands in '%s' and in '%s'", a->path,
                              a->member[0] ? "::" : "", a->member, names[a->manifest], names[b->manifest]);
    }
    free(sorted);
    return status;
}

static stoker_status give_value(void *user, uint64_t index, struct stk_manifest_value *out, stoker_error *err)
{
    const struct merge *merge = user;
    const struct named *named = &merge->named[index];
    (void)err;
    stk_manifest_value_at(merge->manifests[named->manifest], index - merge->firsts[named->manifest], out);
    out->path = stk_manifest_relative(merge->folder, named->path);
    return STOKER_OK;
}

static stoker_status run_merge(struct merge *merge, const char *path, const stoker_manifest_sources *manifests,
                               stoker_error *err)
{
    char *absolute = NULL;
    STK_TRY(stk_manifest_absolute(path, &absolute, err));
    merge->folder = stk_manifest_folder(absolute);
    free(absolute);
    merge->manifests = calloc(manifests->count + 1, sizeof *merge->manifests);
    merge->firsts = calloc(manifests->count + 1, sizeof *merge->firsts);
    if (!merge->folder || !merge->manifests || !merge->firsts)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu manifests", manifests->count);
    for (size_t i = 0; i < manifests->count; i++) {
        STK_TRY(stoker_manifest_open(manifests->sources[i], &merge->manifests[i], err));
        merge->count++;
        merge->firsts[i] = merge->total;
        merge->total += merge->manifests[i]->header.entry_count;
    }
    merge->named = calloc((size_t)merge->total + 1, sizeof *merge->named);
    if (!merge->named)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %llu entries", (unsigned long long)merge->total);
    for (size_t i = 0; i < merge->count; i++) STK_TRY(name_entries(merge, i, err));
    STK_TRY(check_twice(merge, manifests->sources, err));
    return stk_manifest_write(path, merge->total, give_value, merge, err);
}

stoker_status stoker_manifest_merge(const char *path, const stoker_manifest_sources *manifests, stoker_error *err)
{
    struct merge merge = {.folder = NULL};
    if (!path || !manifests || (manifests->count > 0 && !manifests->sources))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and manifests must be given");
    for (size_t i = 0; i < manifests->count; i++)
        if (!manifests->sources[i]) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "manifest %zu is missing", i);
    stoker_status status = run_merge(&merge, path, manifests, err);
    for (size_t i = 0; i < merge.count; i++) stoker_manifest_close(merge.manifests[i]);
    for (size_t i = 0; i < merge.named_count; i++) free(merge.named[i].path);
    free(merge.named);
    free(merge.manifests);
    free(merge.firsts);
    free(merge.folder);
    return status;
}
