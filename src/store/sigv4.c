/* SPDX-License-Identifier: Apache-2.0
 *
 * AWS Signature Version 4: see sigv4.h. The secret stays within the buffers of this file, which are wiped; errors never
 * quote what was signed, because the session token is part of it.
 */
#include "store/sigv4.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/limits.h"
#include "sys/digest.h"

enum { DIGEST_BYTES = 32, HMAC_BLOCK_BYTES = 64, HMAC_TEXT_BYTES_MAX = 512, SECRET_BYTES_MAX = 256 };

static const char algorithm[] = "AWS4-HMAC-SHA256";

/* Text that grows up to its bound; `full` once something did not fit. */
struct text {
    char *data;
    size_t used, size;
    bool full;
};

static void append(struct text *text, const char *part)
{
    size_t size = strlen(part);
    if (text->full || size >= text->size - text->used) {
        text->full = true;
        return;
    }
    memcpy(text->data + text->used, part, size + 1);
    text->used += size;
}

/* The compiler may not drop it: the buffer is looked at through a volatile pointer. */
void stk_wipe(void *data, size_t size)
{
    volatile unsigned char *bytes = data;
    while (size-- > 0) bytes[size] = 0;
}

/* HMAC-SHA256 of a short text under a key of at most one block (both are, in every step of a signature). */
static void hmac(const void *key, size_t key_size, const char *text, uint8_t out[DIGEST_BYTES])
{
    uint8_t inner[HMAC_BLOCK_BYTES + HMAC_TEXT_BYTES_MAX], outer[HMAC_BLOCK_BYTES + DIGEST_BYTES];
    size_t size = strlen(text);
    memset(inner, 0, HMAC_BLOCK_BYTES);
    memcpy(inner, key, key_size);
    for (size_t i = 0; i < HMAC_BLOCK_BYTES; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    memcpy(inner + HMAC_BLOCK_BYTES, text, size);
    stk_sha256(inner, HMAC_BLOCK_BYTES + size, outer + HMAC_BLOCK_BYTES);
    stk_sha256(outer, sizeof outer, out);
    stk_wipe(inner, sizeof inner);
    stk_wipe(outer, sizeof outer);
}

static void derive_key(const struct stk_sigv4_key *key, const char *day, uint8_t out[DIGEST_BYTES])
{
    char secret[SECRET_BYTES_MAX + 4];
    uint8_t start[DIGEST_BYTES];
    size_t size = strlen(key->secret_access_key) + 4;
    memcpy(secret, "AWS4", 4);
    memcpy(secret + 4, key->secret_access_key, size - 4);
    if (size > HMAC_BLOCK_BYTES) { /* a longer key counts by its digest */
        stk_sha256(secret, size, start);
        hmac(start, sizeof start, day, out);
    } else {
        hmac(secret, size, day, out);
    }
    hmac(out, DIGEST_BYTES, key->region, out);
    hmac(out, DIGEST_BYTES, "s3", out);
    hmac(out, DIGEST_BYTES, "aws4_request", out);
    stk_wipe(secret, sizeof secret);
    stk_wipe(start, sizeof start);
}

void stk_sigv4_date(int64_t unix_seconds, char out[STK_SIGV4_DATE_BYTES])
{
    time_t seconds = (time_t)unix_seconds;
    struct tm when;
    if (!gmtime_r(&seconds, &when) || strftime(out, STK_SIGV4_DATE_BYTES, "%Y%m%dT%H%M%SZ", &when) == 0)
        memcpy(out, "19700101T000000Z", STK_SIGV4_DATE_BYTES); /* a year of five digits: the server will refuse it */
}

static void append_canonical(struct text *text, const struct stk_sigv4_request *request)
{
    append(text, request->method);
    append(text, "\n");
    append(text, request->path);
    append(text, "\n");
    append(text, request->query);
    append(text, "\n");
    for (size_t i = 0; i < request->header_count; i++) {
        append(text, request->headers[i].name);
        append(text, ":");
        append(text, request->headers[i].value);
        append(text, "\n");
    }
    append(text, "\n");
    for (size_t i = 0; i < request->header_count; i++) {
        append(text, i ? ";" : "");
        append(text, request->headers[i].name);
    }
    append(text, "\n");
    append(text, request->payload_sha256);
}

static void hex(const uint8_t *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * size] = 0;
}

stoker_status stk_sigv4_sign(const struct stk_sigv4_key *key, const struct stk_sigv4_request *request,
                             const char date[STK_SIGV4_DATE_BYTES], char out[STK_SIGV4_AUTHORIZATION_BYTES],
                             stoker_error *err)
{
    char day[9], scope[HMAC_TEXT_BYTES_MAX / 2], to_sign[HMAC_TEXT_BYTES_MAX], digest[65], signature[65];
    uint8_t signing[DIGEST_BYTES], mac[DIGEST_BYTES];
    memcpy(day, date, 8);
    day[8] = 0;
    int scope_size = snprintf(scope, sizeof scope, "%s/%s/s3/aws4_request", day, key->region);
    if (scope_size >= (int)sizeof scope || strlen(key->secret_access_key) > SECRET_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "the region or the secret key of S3 is too long");

    struct text canonical = {.data = malloc(STK_HTTP_HEAD_BYTES_MAX), .size = STK_HTTP_HEAD_BYTES_MAX};
    if (!canonical.data) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to sign a request");
    append_canonical(&canonical, request);
    stk_sha256_hex(canonical.data, canonical.used, digest);
    stk_wipe(canonical.data, canonical.used);
    free(canonical.data);
    if (canonical.full)
        return stk_fail(err, STOKER_ERR_LIMIT, "a request of more than %u bytes is to be signed",
                        STK_HTTP_HEAD_BYTES_MAX);

    int size = snprintf(to_sign, sizeof to_sign, "%s\n%s\n%s\n%s", algorithm, date, scope, digest);
    if (size >= (int)sizeof to_sign) return stk_fail(err, STOKER_ERR_LIMIT, "the region of S3 is too long");
    derive_key(key, day, signing);
    hmac(signing, sizeof signing, to_sign, mac);
    stk_wipe(signing, sizeof signing);
    hex(mac, sizeof mac, signature);

    struct text line = {.data = out, .size = STK_SIGV4_AUTHORIZATION_BYTES};
    append(&line, algorithm);
    append(&line, " Credential=");
    append(&line, key->access_key_id);
    append(&line, "/");
    append(&line, scope);
    append(&line, ",SignedHeaders=");
    for (size_t i = 0; i < request->header_count; i++) {
        append(&line, i ? ";" : "");
        append(&line, request->headers[i].name);
    }
    append(&line, ",Signature=");
    append(&line, signature);
    return line.full ? stk_fail(err, STOKER_ERR_LIMIT, "the access key id of S3 is too long") : STOKER_OK;
}
