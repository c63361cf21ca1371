/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels of a frame into rows of patches, as models whose patches merge take them (stoker/vision.h): values converted,
 * each patch at the place that the order of rows gives it. Written straight into the sample.
 */
#ifndef STK_MEDIA_PATCHES_H
#define STK_MEDIA_PATCHES_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/vision.h>

#include "media/transform.h"

/* Memory that is kept from frame to frame. Zeroed at first. */
struct stk_patch_room {
    uint8_t *data;
    size_t size;
};
void stk_patch_room_fini(struct stk_patch_room *room);

struct stk_patch_writer {
    stoker_patch_rule rule;
    stoker_patch_plan plan;
    uint32_t frames;               /* of the clip; a last group that is not full repeats the last of them */
    const struct stk_form *values; /* of any size: type, scale and tables are used */
};

/* Writes one frame, interleaved RGB of the plan's size, to all the places it has in the sample at `dst`. NO_MEMORY. */
stoker_status stk_patches_store(const struct stk_patch_writer *writer, uint32_t frame, const uint8_t *rgb,
                                size_t stride, struct stk_patch_room *room, void *dst, stoker_error *err);

#endif
