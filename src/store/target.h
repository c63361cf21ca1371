/* SPDX-License-Identifier: Apache-2.0
 *
 * From an address to a request: where an object of S3 lies on its server, how its path is spelled, what of an address
 * may be said in messages.
 */
#ifndef STK_STORE_TARGET_H
#define STK_STORE_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

struct stk_target {
    bool s3;
    char *url;  /* what is asked for */
    char *host; /* of S3: as it is signed; else NULL */
    char *path; /* of S3: percent-encoded, as it is sent and signed; else NULL */
    char *name; /* for messages: without user, password and query of the address */
};

/* "s3://bucket/key": the bucket is what comes before the first slash, the key is the rest, which may be empty. */
void stk_s3_split(const char *url, const char **out_bucket, size_t *out_bucket_size, const char **out_key);

/* INVALID_ARGUMENT: no bucket, no key, an endpoint that is no address, or characters that a request cannot have.
 * NO_MEMORY, LIMIT. On failure *out_target holds nothing. */
stoker_status stk_target_init(const char *url, const stoker_object_options *options, struct stk_target *out_target,
                              stoker_error *err);
void stk_target_fini(struct stk_target *target);

#endif
