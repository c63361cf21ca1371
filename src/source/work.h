/* SPDX-License-Identifier: Apache-2.0
 *
 * What making a sample of a video decodes: known beforehand where the packets of its file are (a source from a
 * manifest), and measured.
 */
#ifndef STK_SOURCE_WORK_H
#define STK_SOURCE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/media.h>

#include "source/source.h"

struct stk_source_work {
    char codec[STOKER_CODEC_NAME_BYTES];
    uint64_t pixels, bytes; /* of the packets that are decoded, not of those that the decoder leaves out */
};

/* Of the sample of an id of the source, without opening its file; of a random clip, of one of them. False: nothing is
 * known. */
bool stk_source_work(const struct stoker_source *source, uint64_t id, struct stk_source_work *out);

/* As stoker_video_read(), and what that decoded. *out->codec stays empty. */
stoker_status stk_source_measure(const char *path, const stoker_video_spec *spec, void *dst,
                                 struct stk_source_work *out, stoker_error *err);

#endif
