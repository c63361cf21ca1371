/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of a clip as hashes: one after the other, and by random access.
 */
#ifndef STK_TESTS_GOLDEN_FRAMES_H
#define STK_TESTS_GOLDEN_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/media.h>

struct frames {
    uint64_t *hashes; /* by place in the list */
    double (*means)[3];
    size_t count, capacity;
    uint32_t width, height;
};

/* Decodes `indices` (NULL: all) at the size of the file. The caller frees with frames_drop(). */
stoker_status frames_decode(const char *path, const uint64_t *indices, size_t count, struct frames *out,
                            stoker_error *err);
/* The same at times in seconds. */
stoker_status frames_decode_at(const char *path, const double *seconds, size_t count, struct frames *out,
                               stoker_error *err);
void frames_drop(struct frames *frames);

/* Asserts that frames asked for one by one, `rounds` of them in a seeded order, and all of them as one shuffled list,
 * are those of the decode in order. */
void frames_check_access(const char *path, const struct frames *in_order, size_t rounds);

#endif
