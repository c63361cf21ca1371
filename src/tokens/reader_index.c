/* SPDX-License-Identifier: Apache-2.0
 *
 * PREFIX.idx in memory. Large files are mapped, and shared by all processes of a host; small ones are read, because a
 * process has only 65,530 mappings and may open 32,766 datasets. No descriptor stays open.
 */
#include "tokens/reader_internal.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/file.h"
#include "sys/filemap.h"

static _Atomic uint32_t maps; /* relaxed: only the number counts, it orders nothing */
static _Atomic uint32_t maps_limit = STK_INDEX_MAPS_MAX;

bool stk_maps_take(void)
{
    if (atomic_fetch_add_explicit(&maps, 1, memory_order_relaxed) <
        atomic_load_explicit(&maps_limit, memory_order_relaxed))
        return true;
    stk_maps_give();
    return false;
}

void stk_maps_give(void) { (void)atomic_fetch_sub_explicit(&maps, 1, memory_order_relaxed); }

void stk_maps_set_limit(uint32_t limit)
{
    atomic_store_explicit(&maps_limit, limit ? limit : STK_INDEX_MAPS_MAX, memory_order_relaxed);
}

static stoker_status read_whole(const struct stk_file *file, const char *path, const uint8_t **out_data,
                                stoker_error *err)
{
    size_t got = 0;
    uint8_t *data = malloc(file->size ? file->size : 1);
    if (!data)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the %llu bytes of '%s'",
                        (unsigned long long)file->size, path);
    stoker_status status = stk_file_read(file, 0, data, file->size, &got, err);
    if (status < 0)
        stk_error_context(err, "%s", path);
    else if (got < file->size)
        status = stk_fail(err, STOKER_ERR_CORRUPT, "'%s' was cut from %llu to %zu bytes while it was read", path,
                          (unsigned long long)file->size, got);
    if (status < 0)
        free(data);
    else
        *out_data = data;
    return status;
}

/* Maps or reads; a mapping that the kernel refuses is no fault as long as reading works. */
static stoker_status bring(const struct stk_file *file, const char *path, struct stk_index_file *out, stoker_error *err)
{
    if (file->size > STK_INDEX_READ_BYTES_MAX && stk_maps_take()) {
        const void *data = NULL;
        if (stk_filemap_read(file->fd, file->size, &data, NULL) == STOKER_OK) {
            out->data = data;
            out->mapped = true;
            return STOKER_OK;
        }
        stk_maps_give();
    }
    return read_whole(file, path, &out->data, err);
}

stoker_status stk_index_file_load(const char *path, bool multimodal, const struct stk_index_layout *counts,
                                  struct stk_index_file *out, stoker_error *err)
{
    struct stk_file file;
    struct stk_index_file made = {0};
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = bring(&file, path, &made, err);
    stk_file_close(&file);
    STK_TRY(status);
    made.size = file.size;
    if (counts)
        made.layout = *counts;
    else
        status = stk_index_header_decode(made.data, made.size, path, &made.layout, err);
    made.layout.multimodal = multimodal;
    if (status == STOKER_OK) status = stk_index_place(&made.layout, made.size, path, err);
    if (status == STOKER_OK)
        *out = made;
    else
        stk_index_file_unload(&made);
    return status;
}

void stk_index_file_unload(struct stk_index_file *file)
{
    if (!file->data) return;
    if (file->mapped) {
        stk_filemap_close(file->data, file->size);
        stk_maps_give();
    } else {
        free((void *)(uintptr_t)file->data);
    }
    file->data = NULL;
}
