/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes by range, wherever they lie: a path, an object behind HTTP(S) or S3, or a caller's own reader; and a block
 * cache over any of them. Every read is exact: fewer bytes than asked are an error that names object and place.
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
    uint64_t delay_ns; /* before the first retry, then doubling (objects: with chance, at most 20 s) */
};

/* "s3://", "http://", "https://" (stoker reads these itself) or "msc://" (through a caller's reader). */
bool stk_url_is_object(const char *url);

/* Where the local copy of an object lies: the folder joined with the address without its scheme, as Megatron-LM does.
 * Gives *out_path. INVALID_ARGUMENT: no address of an object, or one that would leave the folder. */
stoker_status stk_url_local_path(const char *folder, const char *url, char **out_path, stoker_error *err);

/* Opens the file anew for each read, so that any number of ranges costs no descriptor. Nothing is opened yet. */
stoker_status stk_range_open_path(const char *path, struct stk_range_retry retry, struct stk_range **out_range,
                                  stoker_error *err);
/* s3://, http:// and https:// by libcurl. `options` may be NULL (unsigned, the defaults) and are copied. UNSUPPORTED if
 * stoker was built without libcurl, INVALID_ARGUMENT for an address or options that say nothing sensible. Nothing is
 * asked of the server yet. Only faults that may pass are tried again: broken connections, HTTP 429 and 5xx. */
stoker_status stk_range_open_url(const char *url, const stoker_object_options *options, struct stk_range_retry retry,
                                 struct stk_range **out_range, stoker_error *err);
/* ops->user must live as long as the range. */
stoker_status stk_range_open_user(const stoker_range_ops *ops, const char *url, struct stk_range **out_range,
                                  stoker_error *err);
/* Keeps blocks of `block_bytes` of `inner`, which it takes. A read that spans several blocks fetches the missing ones
 * in parallel; a read within cached blocks touches nothing. `cache_bytes` bounds what is kept. */
stoker_status stk_range_open_blocks(struct stk_range *inner, uint64_t block_bytes, uint64_t cache_bytes,
                                    struct stk_range **out_range, stoker_error *err);
void stk_range_close(struct stk_range *range); /* NULL allowed */

/* Any thread at once, also in a forked child. NOT_FOUND, IO, UNAVAILABLE, TIMEOUT, PROTOCOL (the server's answer makes
 * no sense), UNSUPPORTED (it cannot send ranges); MISMATCH: the object changed since this range was first read. */
stoker_status stk_range_size(struct stk_range *range, uint64_t *out_size, stoker_error *err);
/* CORRUPT: the object ends before offset + size. */
stoker_status stk_range_read(struct stk_range *range, uint64_t offset, size_t size, void *out, stoker_error *err);

/* Copies all of a range into a file, published by rename when it is complete; parents are created. */
stoker_status stk_range_download(struct stk_range *range, const char *path, stoker_error *err);

#endif
