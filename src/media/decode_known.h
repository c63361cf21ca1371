/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes of files whose packets are known from a manifest.
 */
#ifndef STK_MEDIA_DECODE_KNOWN_H
#define STK_MEDIA_DECODE_KNOWN_H

#include "media/decode.h"
#include "media/scan.h"

/* As stk_decoder_video(). `scan` (NULL allowed) is of this file, whose size and time are those of then. If it turns out
 * to be of another one all the same (another version of the demultiplexer counts packets differently), the file is
 * scanned: the sample never depends on it. */
stoker_status stk_decoder_video_known(struct stk_decoder *decoder, const struct stk_file *file,
                                      const struct stk_form *form, uint64_t draw, const struct stk_scan *scan,
                                      uint64_t *known_frames, void *dst, stoker_video_result *out_result,
                                      stoker_error *err);

#endif
