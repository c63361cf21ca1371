/* SPDX-License-Identifier: Apache-2.0
 *
 * A range for tests: its byte at position p is p modulo 251. It keeps the list of what it was asked for, and can fail
 * or hold its reads.
 */
#ifndef STK_STORE_RANGE_FIXTURE_H
#define STK_STORE_RANGE_FIXTURE_H

#include <stdlib.h>

#include "base/error.h"
#include "store/range_internal.h"
#include "sys/thread.h"
#include "tests/support/unit.h"

enum { FAKE_REQUESTS_MAX = 256 };

struct fake_range {
    struct stk_range head;
    uint64_t size;
    struct stk_mutex *lock;
    struct stk_condition *changed;
    /* guarded by lock */
    struct {
        uint64_t offset;
        size_t size;
    } requests[FAKE_REQUESTS_MAX];
    unsigned count, inside, inside_most;
    bool unlogged;
    unsigned gather;   /* reads wait until so many are inside at once */
    uint64_t fails_at; /* a read that holds this byte fails */
    uint64_t empty_at; /* a read from this byte on finds nothing */
};

static inline uint8_t fake_byte(uint64_t position) { return (uint8_t)(position % 251); }

static inline stoker_status fake_read(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                                      stoker_error *err)
{
    struct fake_range *fake = (struct fake_range *)range;
    stk_mutex_lock(fake->lock);
    if (!fake->unlogged) {
        assert_true(fake->count < FAKE_REQUESTS_MAX);
        fake->requests[fake->count].offset = offset;
        fake->requests[fake->count++].size = size;
    }
    if (++fake->inside > fake->inside_most) fake->inside_most = fake->inside;
    if (fake->inside_most >= fake->gather) stk_condition_signal(fake->changed);
    while (fake->inside_most < fake->gather) (void)stk_condition_wait(fake->changed, fake->lock, UINT64_MAX);
    fake->inside--;
    stk_mutex_unlock(fake->lock);
    if (offset <= fake->fails_at && fake->fails_at < offset + size)
        return stk_fail(err, STOKER_ERR_IO, "no byte %llu today", (unsigned long long)fake->fails_at);
    size_t got = offset >= fake->size ? 0 : fake->size - offset < size ? (size_t)(fake->size - offset) : size;
    if (offset == fake->empty_at) got = 0;
    for (size_t i = 0; i < got; i++) ((uint8_t *)out)[i] = fake_byte(offset + i);
    *out_got = got;
    return STOKER_OK;
}

static inline stoker_status fake_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    (void)err;
    *out_size = ((struct fake_range *)range)->size;
    return STOKER_OK;
}

static inline void fake_close(struct stk_range *range)
{
    struct fake_range *fake = (struct fake_range *)range;
    stk_mutex_destroy(fake->lock);
    stk_condition_destroy(fake->changed);
    stk_range_free(range);
}

static inline struct fake_range *fake_open(uint64_t size, unsigned ways)
{
    static const struct stk_range_backend one = {fake_read, fake_size, NULL, fake_close, 1};
    static const struct stk_range_backend many = {fake_read, fake_size, NULL, fake_close, 8};
    struct stk_range *range = NULL;
    assert_int_equal(stk_range_create(sizeof(struct fake_range), ways > 1 ? &many : &one, "fake", &range, NULL),
                     STOKER_OK);
    struct fake_range *fake = (struct fake_range *)range;
    fake->size = size;
    fake->fails_at = fake->empty_at = UINT64_MAX;
    assert_int_equal(stk_mutex_create(90, &fake->lock, NULL), STOKER_OK);
    assert_int_equal(stk_condition_create(&fake->changed, NULL), STOKER_OK);
    return fake;
}

/* Reads and compares; the reference is the pattern itself. */
static inline void fake_expect(struct stk_range *range, uint64_t offset, size_t size)
{
    uint8_t *got = malloc(size + 1);
    stoker_error err = {0};
    assert_non_null(got);
    assert_int_equal(stk_range_read(range, offset, size, got, &err), STOKER_OK);
    for (size_t i = 0; i < size; i++) assert_int_equal(got[i], fake_byte(offset + i));
    assert_int_equal(err.status, 0);
    free(got);
}

#endif
