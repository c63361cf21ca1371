/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan on the heap, behind the public handle of plan.h.
 */
#ifndef STK_MEDIA_PLAN_OBJECT_H
#define STK_MEDIA_PLAN_OBJECT_H

#include "media/decode_plan.h"

/* A copy of `plan`; the caller closes it. NO_MEMORY. */
stoker_status stk_plan_object_create(const struct stk_decode_plan *plan, const struct stk_plan_estimate *estimate,
                                     stoker_plan **out_plan, stoker_error *err);
const struct stk_decode_plan *stk_plan_object_view(const stoker_plan *plan);

#endif
