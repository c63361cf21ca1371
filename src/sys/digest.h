/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (OpenSSL's libcrypto; the only file that includes it is digest.c).
 */
#ifndef STK_SYS_DIGEST_H
#define STK_SYS_DIGEST_H

#include <stddef.h>
#include <stdint.h>

void stk_sha256(const void *data, size_t size, uint8_t out[32]);
void stk_sha256_hex(const void *data, size_t size, char out[65]); /* terminated */

#endif
