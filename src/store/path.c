/* SPDX-License-Identifier: Apache-2.0
 *
 * A range over a local path. Each read opens, reads and closes the file, so that ten thousand datasets stay within any
 * limit of descriptors. A failed read is tried again, whatever the fault (as Megatron-LM's file reader does: shared
 * file systems lose files for seconds); a read that finds the end of the file is no failed read.
 */
#include "base/error.h"
#include "store/file.h"
#include "store/range_internal.h"

struct path_range {
    struct stk_range head;
    struct stk_range_retry retry;
};

static stoker_status read_once(const char *path, uint64_t offset, size_t size, void *out, size_t *out_got,
                               stoker_error *err)
{
    struct stk_file file;
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_file_read(&file, offset, out, size, out_got, err);
    if (status < 0) stk_error_context(err, "%s", path);
    stk_file_close(&file);
    return status;
}

static stoker_status path_read(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                               stoker_error *err)
{
    struct path_range *self = (struct path_range *)range;
    for (uint32_t retry = 0;; retry++) {
        stoker_error fault = {0}; /* a later try may succeed, and success leaves *err alone */
        stoker_status status = read_once(range->name, offset, size, out, out_got, &fault);
        if (status >= 0) return STOKER_OK;
        if (retry == self->retry.retries) {
            if (retry > 0) stk_error_context(&fault, "tried %llu times", (unsigned long long)retry + 1);
            if (err) *err = fault;
            return status;
        }
        stk_range_pause(range, stk_range_delay(self->retry.delay_ns, retry, UINT64_MAX));
    }
}

/* Not tried again: it is asked when a dataset is opened, and a wrong name is to be told at once. */
static stoker_status path_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    struct stk_file file;
    STK_TRY(stk_file_open(range->name, &file, err));
    *out_size = file.size;
    stk_file_close(&file);
    return STOKER_OK;
}

static void path_close(struct stk_range *range) { stk_range_free(range); }

stoker_status stk_range_open_path(const char *path, struct stk_range_retry retry, struct stk_range **out_range,
                                  stoker_error *err)
{
    static const struct stk_range_backend backend = {path_read, path_size, NULL, path_close, 1};
    struct stk_range *range = NULL;
    STK_TRY(stk_range_create(sizeof(struct path_range), &backend, path, &range, err));
    ((struct path_range *)range)->retry = retry;
    *out_range = range;
    return STOKER_OK;
}
