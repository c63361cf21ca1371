/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of manifests: absolute ones without "." parts, and what is kept of them below the folder of a manifest. ".."
 * stays: what it means depends on links.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "media/manifest.h"
#include "store/range.h"

/* Appends the parts of `path` to `out`, which holds the text so far (no slash at its end). */
static size_t append_parts(char *out, size_t used, const char *path)
{
    while (*path) {
        const char *slash = strchr(path, '/');
        size_t size = slash ? (size_t)(slash - path) : strlen(path);
        if (size > 0 && !(size == 1 && path[0] == '.')) {
            out[used++] = '/';
            memcpy(out + used, path, size);
            used += size;
        }
        path += size + (slash != NULL);
    }
    return used;
}

stoker_status stk_manifest_absolute(const char *path, char **out_path, stoker_error *err)
{
    char folder[STK_MANIFEST_PATH_BYTES_MAX + 1] = "";
    if (!path[0]) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a path is empty");
    bool object = stk_url_is_object(path);
    if (path[0] != '/' && !object && !getcwd(folder, sizeof folder))
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read the name of the working directory");
    char *out = malloc(strlen(folder) + strlen(path) + 3);
    if (!out) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    size_t used = 0;
    if (object) {
        used = strlen(path);
        memcpy(out, path, used);
    } else {
        used = append_parts(out, append_parts(out, 0, folder), path);
        if (used == 0) out[used++] = '/';
    }
    out[used] = 0;
    if (used > STK_MANIFEST_PATH_BYTES_MAX) {
        stoker_status status = stk_fail(err, STOKER_ERR_LIMIT, "a path of %zu bytes, expected at most %u: '%.80s...'",
                                        used, STK_MANIFEST_PATH_BYTES_MAX, out);
        free(out);
        return status;
    }
    *out_path = out;
    return STOKER_OK;
}

const char *stk_manifest_relative(const char *folder, const char *path)
{
    size_t size = strlen(folder);
    return strncmp(folder, path, size) == 0 && path[size] ? path + size : path;
}

char *stk_manifest_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
}
