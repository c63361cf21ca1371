/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of S3 requests, AWS Signature Version 4. A function of its arguments: time and keys are given.
 */
#ifndef STK_STORE_SIGV4_H
#define STK_STORE_SIGV4_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

/* SHA-256 of nothing: what a request without a body has. */
#define STK_SIGV4_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum { STK_SIGV4_DATE_BYTES = 17, STK_SIGV4_AUTHORIZATION_BYTES = 1024 };

struct stk_sigv4_key {
    const char *access_key_id;
    const char *secret_access_key;
    const char *region;
};

struct stk_sigv4_header {
    const char *name; /* lower case */
    const char *value;
};

struct stk_sigv4_request {
    const char *method;
    const char *path;  /* percent-encoded as it is sent; S3 takes it as it is, also with "//" and "/../" */
    const char *query; /* encoded and sorted; "" if none */
    const struct stk_sigv4_header *headers; /* to be signed, in the order of their names; with host and the date */
    size_t header_count;
    const char *payload_sha256;
};

/* "20130524T000000Z". */
void stk_sigv4_date(int64_t unix_seconds, char out[STK_SIGV4_DATE_BYTES]);

/* Value of the Authorization header. `date` is what the header x-amz-date says. LIMIT, NO_MEMORY. */
stoker_status stk_sigv4_sign(const struct stk_sigv4_key *key, const struct stk_sigv4_request *request,
                             const char date[STK_SIGV4_DATE_BYTES], char out[STK_SIGV4_AUTHORIZATION_BYTES],
                             stoker_error *err);

/* Overwrites what was secret, also where nothing reads it afterwards. */
void stk_wipe(void *data, size_t size);

#endif
