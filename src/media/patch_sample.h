/* SPDX-License-Identifier: Apache-2.0
 *
 * From an opened file to a sample of patches: which frames, their size, decode, resize, rows, grid.
 *
 * The shape of a sample is a function of the form and the facts of its file, which are known before anything is decoded
 * (rule A8); its values are a function of those and the file. A file that gives fewer frames than the facts promise is
 * sampled by the same indices, and those past its end are its last frame, unless the form makes that an error.
 */
#ifndef STK_MEDIA_PATCH_SAMPLE_H
#define STK_MEDIA_PATCH_SAMPLE_H

#include <stdint.h>

#include <stoker/error.h>
#include <stoker/vision.h>

#include "media/transform.h"
#include "store/file.h"

struct stk_patch_form {
    stoker_patch_spec spec; /* checked, defaults filled in */
    struct stk_form values; /* type, scale and tables */
};

/* INVALID_ARGUMENT names the field, its value and the bound. */
stoker_status stk_patch_form_init(struct stk_patch_form *form, const stoker_patch_spec *spec, stoker_error *err);

/* Number of frames and plan of a file of these facts. CORRUPT if the file cannot have any: nothing is known of it, or
 * its sides differ too much. */
stoker_status stk_patch_form_plan(const struct stk_patch_form *form, const stoker_clip_facts *facts,
                                  uint32_t *out_frames, stoker_patch_plan *out_plan, stoker_error *err);

/* What one thread keeps from sample to sample. One user at a time. */
struct stk_patch_maker;

stoker_status stk_patch_maker_create(struct stk_patch_maker **out_maker, stoker_error *err);
void stk_patch_maker_destroy(struct stk_patch_maker *maker); /* NULL allowed */

/* Where a sample goes: plan.patches * plan.row_values values, and t, h, w. */
struct stk_patch_target {
    void *pixels;
    int64_t *grid;
};

/* Makes one sample. *out_frames: frames of the file that were found. */
stoker_status stk_patch_maker_run(struct stk_patch_maker *maker, const struct stk_file *file,
                                  const struct stk_patch_form *form, const stoker_clip_facts *facts,
                                  const struct stk_patch_target *target, uint64_t *out_frames, stoker_error *err);

#endif
