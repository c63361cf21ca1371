/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of PREFIX.bin: mapped whole, or read by range. When a process has used up its mappings, a file that was to
 * be mapped is read by range too: the same bytes, copied instead of viewed.
 */
#include "tokens/reader_internal.h"

#include <stdlib.h>

#include "base/error.h"
#include "store/file.h"
#include "sys/filemap.h"

static const uint8_t nothing[1]; /* an empty file cannot be mapped */

static stoker_status fail_memory(const char *path, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open '%s'", path);
}

stoker_status stk_bin_of_range(struct stk_range *range, bool ask_size, struct stk_bin **out_bin, stoker_error *err)
{
    uint64_t size = UINT64_MAX;
    struct stk_bin *bin = NULL;
    stoker_status status = ask_size ? stk_range_size(range, &size, err) : STOKER_OK;
    if (status == STOKER_OK) {
        bin = calloc(1, sizeof *bin);
        if (!bin) status = fail_memory("a .bin file", err);
    }
    if (status != STOKER_OK) {
        stk_range_close(range);
        return status;
    }
    bin->size = size;
    bin->range = range;
    *out_bin = bin;
    return STOKER_OK;
}

/* OK with bin->data still NULL: there is no mapping left. */
static stoker_status map_file(const char *path, struct stk_bin *bin, stoker_error *err)
{
    struct stk_file file;
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = STOKER_OK;
    bin->size = file.size;
    if (file.size == 0) {
        bin->data = nothing;
    } else if (stk_maps_take()) {
        const void *data = NULL;
        status = stk_filemap_read(file.fd, file.size, &data, err);
        if (status == STOKER_OK) {
            bin->data = data;
            bin->mapped = true;
        } else {
            stk_maps_give();
            if (status == STOKER_ERR_LIMIT)
                status = STOKER_OK;
            else
                stk_error_context(err, "%s", path);
        }
    }
    stk_file_close(&file);
    return status;
}

stoker_status stk_bin_map(const char *path, struct stk_range_retry retry, struct stk_bin **out_bin, stoker_error *err)
{
    stoker_error fault = {0}; /* success leaves *err alone, also success by the second way */
    struct stk_bin *bin = calloc(1, sizeof *bin);
    if (!bin) return fail_memory(path, err);
    stoker_status status = map_file(path, bin, &fault);
    if (status == STOKER_OK && !bin->data) status = stk_range_open_path(path, retry, &bin->range, &fault);
    if (status == STOKER_OK) {
        *out_bin = bin;
        return STOKER_OK;
    }
    if (err) *err = fault;
    stk_bin_close(bin);
    return status;
}

void stk_bin_close(struct stk_bin *bin)
{
    if (!bin) return;
    stk_range_close(bin->range);
    if (bin->mapped) {
        stk_filemap_close(bin->data, bin->size);
        stk_maps_give();
    }
    free(bin);
}
