/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole range into a file: parts are read at once and written where they belong, and the file appears when all of it
 * is there. Memory is one part for each read under way.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/jobs.h"
#include "store/range_internal.h"
#include "sys/publish.h"

struct download {
    struct stk_range *range;
    struct stk_publish publish;
    uint64_t size;
};

static stoker_status copy_part(void *user, size_t job, stoker_error *err)
{
    struct download *download = user;
    uint64_t offset = (uint64_t)job * STK_RANGE_PART_BYTES;
    uint64_t left = download->size - offset;
    size_t size = left < STK_RANGE_PART_BYTES ? (size_t)left : STK_RANGE_PART_BYTES;
    uint8_t *data = malloc(size);
    if (!data)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu bytes of '%s'", size, download->range->name);
    stoker_status status = stk_range_read(download->range, offset, size, data, err);
    if (status >= 0) status = stk_publish_write(&download->publish, offset, data, size, err);
    free(data);
    return status;
}

static stoker_status make_parents(const char *path, stoker_error *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return STOKER_OK;
    char *folder = strndup(path, (size_t)(slash - path));
    if (!folder) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the folder of '%s'", path);
    stoker_status status = stk_make_folders(folder, err);
    free(folder);
    return status;
}

stoker_status stk_range_download(struct stk_range *range, const char *path, stoker_error *err)
{
    struct download download = {.range = range, .publish = {.fd = -1}};
    STK_TRY(stk_range_size(range, &download.size, err));
    STK_TRY(make_parents(path, err));
    STK_TRY(stk_publish_begin(path, &download.publish, err));
    uint64_t parts = download.size / STK_RANGE_PART_BYTES + (download.size % STK_RANGE_PART_BYTES != 0);
    stoker_status status = stk_jobs_run((size_t)parts, range->backend->ways, copy_part, &download, err);
    if (status >= 0) status = stk_publish_commit(&download.publish, err);
    if (status < 0) stk_publish_abort(&download.publish);
    return status;
}
