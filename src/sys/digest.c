/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256: see digest.h. The one-shot EVP call allocates its context itself; a failure of it means that libcrypto is
 * unusable (a FIPS self-test, no memory for 100 bytes), which nobody above could handle better than by ending.
 */
#include "sys/digest.h"

#include <openssl/evp.h>

#include "base/assert.h"

void stk_sha256(const void *data, size_t size, uint8_t out[32])
{
    unsigned length = 0;
    int done = EVP_Digest(size ? data : "", size, out, &length, EVP_sha256(), NULL);
    STK_ASSERT(done == 1);
    STK_ASSERT(length == 32);
}

void stk_sha256_hex(const void *data, size_t size, char out[65])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[32];
    stk_sha256(data, size, digest);
    for (int i = 0; i < 32; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[64] = 0;
}
