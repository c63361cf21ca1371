/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kinds of sources share with source.c.
 *
 * Blobs start with 16 bytes: magic (4), version (4), size of the blob (8), and are little-endian throughout. Their
 * bytes decide the digest, so equal sources have equal blobs: no pads with chance content, no addresses.
 */
#ifndef STK_SOURCE_SOURCE_INTERNAL_H
#define STK_SOURCE_SOURCE_INTERNAL_H

#include <stdbool.h>

#include "source/source.h"

#define STK_BLOB_HEADER_BYTES 16u

/* Fills ops, kind, descriptors and digest of `source`, which the kind allocated. Takes both descriptors, even on
 * failure. */
stoker_status stk_source_init(struct stoker_source *source, const struct stk_source_ops *ops, enum stk_source_kind kind,
                              int blob_fd, int payload_fd, stoker_error *err);
/* Closes the descriptors. */
void stk_source_fini(struct stoker_source *source);

void stk_source_put_header(uint8_t *blob, uint32_t magic, uint32_t version, uint64_t size);
/* CORRUPT names the field; UNSUPPORTED for another version. */
stoker_status stk_source_check_header(const uint8_t *blob, size_t size, uint32_t magic, uint32_t version,
                                      stoker_error *err);

/* Open a mapped blob. Take the descriptors, even on failure. */
stoker_status stk_media_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err);
stoker_status stk_process_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source,
                                      stoker_error *err);
/* Lists of images are media sources with a magic of their own: stk_media_source_open() comes here with them. */
bool stk_image_source_is(const uint8_t *blob, size_t size);
stoker_status stk_image_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err);
stoker_status stk_image_source_check(const uint8_t *blob, size_t size, stoker_error *err);
/* The same of sound. */
bool stk_audio_source_is(const uint8_t *blob, size_t size);
stoker_status stk_audio_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err);
stoker_status stk_audio_source_check(const uint8_t *blob, size_t size, stoker_error *err);
/* The same of lists of clips or images that become patches. */
bool stk_patch_source_is(const uint8_t *blob, size_t size);
stoker_status stk_patch_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err);
stoker_status stk_patch_source_check(const uint8_t *blob, size_t size, stoker_error *err);
stoker_status stk_token_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err);

/* The views of single kinds behind stk_source_layout() and stk_source_process(). */
stoker_status stk_process_source_view(const struct stoker_source *source, struct stk_process_source *out,
                                      stoker_error *err);

/* Checks of a blob's bytes alone, for the fuzzer: same result as the opens, nothing is kept. */
stoker_status stk_media_source_check(const uint8_t *blob, size_t size, stoker_error *err);
stoker_status stk_process_source_check(const uint8_t *blob, size_t size, stoker_error *err);
stoker_status stk_token_source_check(const uint8_t *blob, size_t size, stoker_error *err);

#endif
