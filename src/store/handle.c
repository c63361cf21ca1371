/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of the public API: a range under a public name. Reads are cut into parts that go at once; nothing is cached.
 */
#include <stoker/dataset.h>

#include <stdlib.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/jobs.h"
#include "store/range_internal.h"

struct stoker_object {
    struct stk_range *range;
};

stoker_status stoker_object_open(const char *url, const stoker_object_options *options, stoker_object **out_object,
                                 stoker_error *err)
{
    struct stk_range_retry retry = {STK_OBJECT_RETRIES, STK_OBJECT_DELAY_NS};
    if (!url || !out_object) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "an argument is NULL");
    if (options && options->struct_size >= sizeof *options) {
        if (options->retries != 0) retry.retries = options->retries < 0 ? 0 : (uint32_t)options->retries;
        if (options->retry_delay_ns != 0) retry.delay_ns = options->retry_delay_ns;
    }
    stoker_object *object = calloc(1, sizeof *object);
    if (!object) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open an object");
    stoker_status status = stk_range_open_url(url, options, retry, &object->range, err);
    if (status < 0) {
        free(object);
        return status;
    }
    *out_object = object;
    return STOKER_OK;
}

void stoker_object_close(stoker_object *object)
{
    if (!object) return;
    stk_range_close(object->range);
    free(object);
}

stoker_status stoker_object_size(stoker_object *object, uint64_t *out_size, stoker_error *err)
{
    return stk_range_size(object->range, out_size, err);
}

stoker_status stoker_object_read(stoker_object *object, stoker_object_range range, void *out, stoker_error *err)
{
    struct stk_piece piece = {range.offset, range.size, out, 0};
    STK_TRY(stk_range_read_pieces(object->range, &piece, 1, err));
    if (piece.got < piece.size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s' ends before byte %llu: %zu bytes at offset %llu were wanted",
                        object->range->name, (unsigned long long)(range.offset + range.size), range.size,
                        (unsigned long long)range.offset);
    return STOKER_OK;
}

stoker_status stoker_object_download(stoker_object *object, const char *path, stoker_error *err)
{
    if (!path) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the path is NULL");
    return stk_range_download(object->range, path, err);
}
