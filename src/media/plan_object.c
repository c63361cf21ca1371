/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as handles: see plan_object.h and stoker/plan.h.
 */
#include "media/plan_object.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct stoker_plan {
    struct stk_decode_plan plan; /* its arrays are in `memory` */
    struct stk_plan_estimate estimate;
    void *memory;
};

static stoker_status create(size_t room, stoker_plan **out_plan, stoker_error *err)
{
    stoker_plan *plan = calloc(1, sizeof *plan);
    void *memory = malloc(room);
    if (!plan || !memory) {
        free(plan);
        free(memory);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a plan of %zu bytes", room);
    }
    plan->memory = memory;
    *out_plan = plan;
    return STOKER_OK;
}

stoker_status stk_plan_object_create(const struct stk_decode_plan *from, const struct stk_plan_estimate *estimate,
                                     stoker_plan **out_plan, stoker_error *err)
{
    size_t segments = from->segment_count * sizeof *from->segments, kept = from->kept_count * sizeof *from->kept;
    stoker_plan *plan = NULL;
    STK_TRY(create(segments + kept + 1, &plan, err));
    plan->plan = *from;
    plan->plan.segments = plan->memory;
    plan->plan.kept = (stoker_plan_frame *)(void *)(plan->plan.segments + from->segment_count);
    if (segments) memcpy(plan->plan.segments, from->segments, segments);
    if (kept) memcpy(plan->plan.kept, from->kept, kept);
    plan->estimate = *estimate;
    *out_plan = plan;
    return STOKER_OK;
}

const struct stk_decode_plan *stk_plan_object_view(const stoker_plan *plan) { return &plan->plan; }

void stoker_plan_read_info(const stoker_plan *plan, stoker_plan_info *out_info)
{
    const struct stk_decode_plan *p = &plan->plan;
    *out_info = (stoker_plan_info){.hash = stk_decode_plan_hash(p),
                                   .table_hash = p->table_hash,
                                   .by_time = p->by_time,
                                   .skips = p->skips,
                                   .packets = p->packets,
                                   .frames = p->frames,
                                   .segment_count = p->segment_count,
                                   .segments = p->segments,
                                   .frame_count = p->kept_count,
                                   .kept = p->kept,
                                   .packets_sent = plan->estimate.packets,
                                   .bytes_sent = plan->estimate.bytes,
                                   .seconds = plan->estimate.ns * 1e-9};
}

size_t stoker_plan_encode(const stoker_plan *plan, void *out, size_t size)
{
    size_t needed = stk_decode_plan_size(&plan->plan);
    if (out && size >= needed) stk_decode_plan_encode(&plan->plan, out);
    return needed;
}

stoker_status stoker_plan_decode(const void *bytes, size_t size, stoker_plan **out_plan, stoker_error *err)
{
    size_t room = 0;
    stoker_plan *plan = NULL;
    if (!bytes || !out_plan) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "bytes and out_plan must be given");
    STK_TRY(stk_decode_plan_check(bytes, size, &room, err));
    STK_TRY(create(room, &plan, err));
    stk_decode_plan_decode(bytes, &plan->plan, plan->memory);
    for (uint32_t i = 0; i < plan->plan.segment_count; i++)
        plan->estimate.packets += plan->plan.segments[i].end - plan->plan.segments[i].first;
    *out_plan = plan;
    return STOKER_OK;
}

void stoker_plan_close(stoker_plan *plan)
{
    if (!plan) return;
    free(plan->memory);
    free(plan);
}
