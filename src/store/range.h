/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes by range, wherever they lie: a path, an object behind HTTP(S) or S3, or a caller's own reader; and a block cache
 * over any of them. Every read is exact: fewer bytes than asked are an error that names the object and the place.
 */
#ifndef STK_STORE_RANGE_H
#define STK_STORE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

struct stk_range;

struct stk_range_retry {
    uint32_t retries;  /* tries after the first */
    uint64_t delay_ns; /* before the first retry, then doubling */
};

/* "s3://", "http://", "https://" (stoker reads these itself) or "msc://" (through a caller's reader). */
bool stk_url_is_object(const char *url);

/* Opens the file anew for each read, so that any number of ranges costs no descriptor. Nothing is opened yet. */
stoker_status stk_range_open_path(const char *path, struct stk_range_retry retry, struct stk_range **out_range,
                                  stoker_error *err);
/* libcurl; credentials and endpoint of S3 come from the usual AWS_ variables and files, read by the caller (see
 * store/object.h). UNSUPPORTED if stoker was built without it. */
stoker_status stk_range_open_url(const char *url, struct stk_range_retry retry, struct stk_range **out_range,
                                 stoker_error *err);
/* ops->user must live as long as the range. */
stoker_status stk_range_open_user(const stoker_range_ops *ops, const char *url, struct stk_range **out_range,
                                  stoker_error *err);
/* Keeps blocks of `block_bytes` of `inner`, which it takes. A read that spans several blocks fetches the missing ones
 * in parallel; a read within cached blocks touches nothing. `cache_bytes` bounds what is kept. */
stoker_status stk_range_open_blocks(struct stk_range *inner, uint64_t block_bytes, uint64_t cache_bytes,
                                    struct stk_range **out_range, stoker_error *err);
void stk_range_close(struct stk_range *range); /* NULL allowed */

/* Any thread at once. NOT_FOUND, IO, UNAVAILABLE, TIMEOUT. */
stoker_status stk_range_size(struct stk_range *range, uint64_t *out_size, stoker_error *err);
/* CORRUPT: the object ends before offset + size. */
stoker_status stk_range_read(struct stk_range *range, uint64_t offset, size_t size, void *out, stoker_error *err);

/* Copies all of a range into a file, published by rename when it is complete; parents are created. */
stoker_status stk_range_download(struct stk_range *range, const char *path, stoker_error *err);

#endif
