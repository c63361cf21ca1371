/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of sources share: opening a copy as another process does, and damaging blobs.
 */
#ifndef STK_SOURCE_SOURCE_FIXTURE_H
#define STK_SOURCE_SOURCE_FIXTURE_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/blob.h"
#include "sys/shmem.h"
#include "source/source_internal.h"
#include "tests/support/unit.h"

static inline struct stoker_source *reopen(const struct stoker_source *source)
{
    struct stoker_source *copy = NULL;
    stoker_error err;
    int payload_fd = source->payload_fd >= 0 ? dup(source->payload_fd) : -1;
    assert_int_equal(stk_source_open_blob(source->kind, dup(source->blob_fd), payload_fd, &copy, &err), STOKER_OK);
    return copy;
}

typedef stoker_status (*check_fn)(const uint8_t *blob, size_t size, stoker_error *err);

/* Every cut is refused; every single damaged byte is refused or gives a blob that is valid too. Run under ASan. */
static inline void damage(const struct stoker_source *source, check_fn check)
{
    const void *data = NULL;
    size_t size = 0;
    stoker_error err;
    assert_int_equal(stk_shmem_blob_map(source->blob_fd, &data, &size, &err), STOKER_OK);
    assert_int_equal(check(data, size, &err), STOKER_OK);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, data, cut);
        assert_true(check(copy, cut, &err) < 0);
        if (cut >= STK_BLOB_HEADER_BYTES) {
            stk_blob_put64(copy + 8, cut);
            assert_true(check(copy, cut, &err) < 0);
        }
        free(copy);
    }
    for (size_t at = 0; at < size; at++)
        for (unsigned value = 0; value < 256; value += 51) {
            uint8_t *copy = malloc(size);
            assert_non_null(copy);
            memcpy(copy, data, size);
            copy[at] = (uint8_t)value;
            (void)check(copy, size, &err);
            free(copy);
        }
    stk_shmem_blob_unmap(data, size);
}

#endif
