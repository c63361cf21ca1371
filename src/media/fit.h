/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, grids and counts of what vision models make of a clip: the public functions of stoker/vision.h that need no
 * file, and the checks of their rules.
 *
 * Integers, except where the public implementations divide and take roots in double precision: those operations are
 * done in the same order, so that a size at the edge of two falls on the same side. Pure: nothing but arguments.
 */
#ifndef STK_MEDIA_FIT_H
#define STK_MEDIA_FIT_H

#include <stoker/error.h>
#include <stoker/vision.h>

/* INVALID_ARGUMENT names the field, its value and the bound. */
stoker_status stk_fit_check_rule(const stoker_patch_rule *rule, stoker_error *err);
stoker_status stk_fit_check_frames(const stoker_frame_rule *rule, stoker_error *err);

#endif
