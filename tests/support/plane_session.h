/* SPDX-License-Identifier: Apache-2.0
 *
 * The usual beginning and end of a test with one rank and one loader, the sources that such tests use, and what their
 * batches hold.
 */
#ifndef STK_TESTS_PLANE_SESSION_H
#define STK_TESTS_PLANE_SESSION_H

#include "tests/support/plane_server.h"

enum { CLIP_FRAMES = 4, CLIP_SIDE = 32, CLIP_BYTES = CLIP_FRAMES * 3 * CLIP_SIDE * CLIP_SIDE };

/* Samples of session_media_source(): three good ones, one without video, one without file. */
enum { CLIP_H264, CLIP_ROT90, CLIP_AUDIO, CLIP_MISSING, CLIP_VFR, CLIP_COUNT };

stoker_source *session_media_source(void);

extern const struct plane_loader session_native; /* loader 1, 2 workers, at most 8 samples a batch */
extern const struct plane_loader session_python; /* loader 1, 2 workers */

/* A server with one rank that has one loader open, iteration 1 begun. */
void session_begin(struct plane_server *server, struct plane_rank *rank, const stoker_source *source,
                   const struct plane_loader *loader);
/* The rank leaves; the server ends by itself (rule B7), and no process of it is left. */
void session_end(struct plane_server *server, struct plane_rank *rank);

/* One batch of a Python lane, taken and released: from then on the lane knows its size. */
void session_warm_up(struct plane_rank *rank, uint64_t sequence, size_t size);
void session_expect_filled(const struct plane_batch *batch, size_t size, uint8_t value);
/* The batch equals a sequential decode. */
void session_expect_samples(const stoker_source *source, const struct plane_batch *batch, const uint64_t *ids,
                            size_t count);
/* Waits until the process of this pidfd has ended, and closes it. */
void session_expect_end(int pidfd);

#endif
