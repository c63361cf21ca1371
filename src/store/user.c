/* SPDX-License-Identifier: Apache-2.0
 *
 * A range over a caller's own reader: each read is one call of it, retries are its own matter. Its reads are exact, so
 * the size is asked for once, and reads that pass the end are cut there before the caller sees them.
 */
#include <stdatomic.h>

#include "base/error.h"
#include "store/range_internal.h"

#define SIZE_UNKNOWN UINT64_MAX

struct user_range {
    struct stk_range head;
    stoker_range_ops ops;
    _Atomic uint64_t size; /* relaxed: whoever finds it unknown asks, and all get the same answer */
};

static stoker_status user_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    struct user_range *self = (struct user_range *)range;
    uint64_t size = atomic_load_explicit(&self->size, memory_order_relaxed);
    if (size == SIZE_UNKNOWN) {
        stoker_status status = self->ops.size(self->ops.user, range->name, &size, err);
        if (status < 0) {
            stk_error_context(err, "%s", range->name);
            return status;
        }
        if (size > INT64_MAX)
            return stk_fail(err, STOKER_ERR_CORRUPT, "'%s': its reader says that it has %llu bytes", range->name,
                            (unsigned long long)size);
        atomic_store_explicit(&self->size, size, memory_order_relaxed);
    }
    *out_size = size;
    return STOKER_OK;
}

static stoker_status user_read(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                               stoker_error *err)
{
    struct user_range *self = (struct user_range *)range;
    uint64_t whole = 0;
    STK_TRY(user_size(range, &whole, err));
    size_t part = offset >= whole ? 0 : whole - offset < size ? (size_t)(whole - offset) : size;
    if (part > 0) {
        stoker_status status = self->ops.read(self->ops.user, range->name, offset, part, out, err);
        if (status < 0) {
            stk_error_context(err, "%s", range->name);
            return status;
        }
    }
    *out_got = part;
    return STOKER_OK;
}

static void user_close(struct stk_range *range) { stk_range_free(range); }

stoker_status stk_range_open_user(const stoker_range_ops *ops, const char *url, struct stk_range **out_range,
                                  stoker_error *err)
{
    static const struct stk_range_backend backend = {user_read, user_size, NULL, user_close, 1};
    struct stk_range *range = NULL;
    if (!ops->size || !ops->read)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the reader for '%s' lacks %s", url,
                        ops->size ? "read" : "size");
    STK_TRY(stk_range_create(sizeof(struct user_range), &backend, url, &range, err));
    struct user_range *self = (struct user_range *)range;
    self->ops = *ops;
    atomic_init(&self->size, SIZE_UNKNOWN);
    *out_range = range;
    return STOKER_OK;
}
