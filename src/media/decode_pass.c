/* SPDX-License-Identifier: Apache-2.0
 *
 * One file, some frames, by a plan: see decode_internal.h.
 */
#include "media/decode_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* --------------------------------------------------------------------------------------------------------------- begin
 */

stoker_status stk_pass_begin(struct stk_pass *pass, struct stk_decoder *decoder, const struct stk_file *file,
                             stoker_error *err)
{
    static const stoker_picture_options usual = {STOKER_UNTAGGED_BT601, 0, 0, STOKER_ALPHA_DROP, {0, 0, 0, 0}};
    pass->decoder = decoder;
    if (!pass->picture) pass->picture = &usual;
    STK_TRY(stk_av_open(file, &pass->av, err));
    if (pass->picture->alpha == STOKER_ALPHA_COMPOSITE) stk_av_want_alpha(pass->av);
    stoker_status adopted = decoder->scan ? stk_av_adopt(pass->av, decoder->scan, err) : STOKER_AGAIN;
    STK_TRY(adopted);
    if (adopted == STOKER_AGAIN) STK_TRY(stk_av_scan(pass->av, decoder->keep_bytes, err));
    pass->table = stk_av_table(pass->av);
    pass->result.frames_promised = pass->table->shown_count;
    if (pass->table->shown_count == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "the video stream holds no frames");
    const struct stk_av_facts *facts = stk_av_facts(pass->av);
    pass->costs = stk_plan_costs_of(facts->codec, (double)facts->width * facts->height);
    if (decoder->choice == STK_PLAN_JUMP_ALWAYS) pass->costs.restart_ns = -1;
    if (decoder->choice == STK_PLAN_JUMP_ONCE) pass->costs.restart_ns = INFINITY;
    return STOKER_OK;
}

void stk_pass_end(struct stk_pass *pass)
{
    if (pass->av) pass->decoder->stale = stk_av_is_stale(pass->av);
    stk_av_close(pass->av);
    free(pass->delivered);
    free(pass->memory);
}

/* ---------------------------------------------------------------------------------------------------------------- plan
 */

bool stk_pass_may_jump(const struct stk_pass *pass)
{
    return pass->table->by_time && !pass->table->broken && pass->decoder->choice != STK_PLAN_IN_ORDER;
}

static stoker_status make_room(struct stk_pass *pass, stoker_error *err)
{
    void *larger = realloc(pass->memory, stk_decode_plan_room(pass->count));
    if (!larger) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a plan of %zu frames", pass->count);
    pass->memory = larger;
    return STOKER_OK;
}

stoker_status stk_pass_plan_by_time(struct stk_pass *pass, stoker_error *err)
{
    STK_TRY(make_room(pass, err));
    stk_decode_plan_by_time(&pass->plan, pass->table, &pass->costs, pass->ordinals, pass->count, pass->memory);
    return STOKER_OK;
}

stoker_status stk_pass_plan_in_order(struct stk_pass *pass, uint64_t frames, stoker_error *err)
{
    STK_TRY(make_room(pass, err));
    stk_decode_plan_in_order(&pass->plan, pass->table, frames, pass->ordinals, pass->count, pass->memory);
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------- by time
 */

static stoker_status send(struct stk_pass *pass, uint32_t packet, bool needed, stoker_error *err)
{
    pass->result.packets_decoded++;
    pass->result.bytes_read += pass->table->packets[packet].size;
    return stk_av_send(pass->av, packet, needed, err);
}

static size_t find_kept(const struct stk_decode_plan *plan, uint64_t ordinal)
{
    size_t low = 0, high = plan->kept_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plan->kept[middle].ordinal < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low < plan->kept_count && plan->kept[low].ordinal == ordinal ? low : SIZE_MAX;
}

/* Takes what the decoder has, by time. *sound becomes false at a frame that the decoder calls damaged; frames before
 * the key frame's own time are the leading pictures of an open group, which are broken by nature after a jump and never
 * wanted there. */
static stoker_status take_by_time(struct stk_pass *pass, int64_t key_pts, size_t *missing, bool *sound,
                                  stoker_error *err)
{
    struct stk_av_frame frame;
    for (;;) {
        stoker_status status = stk_av_receive(pass->av, &frame, err);
        if (status != STOKER_OK) return status < 0 ? status : STOKER_OK;
        if (frame.damaged && frame.pts >= key_pts) *sound = false;
        size_t ordinal = frame.pts == STK_TIME_NONE ? SIZE_MAX : stk_plan_find(pass->table, frame.pts);
        size_t index = ordinal == SIZE_MAX ? SIZE_MAX : find_kept(&pass->plan, ordinal);
        if (index == SIZE_MAX || pass->delivered[index]) continue;
        STK_TRY(pass->deliver(pass, index, &frame, err));
        pass->delivered[index] = 1;
        --*missing;
    }
}

static stoker_status run_segments(struct stk_pass *pass, const uint8_t *needed, bool *out_complete, stoker_error *err)
{
    const struct stk_decode_plan *plan = &pass->plan;
    uint64_t faults = stk_av_faults(pass->av);
    size_t missing = plan->kept_count;
    bool sound = true;
    memset(pass->delivered, 0, plan->kept_count);
    for (uint32_t i = 0; i < plan->segment_count && sound; i++) {
        int64_t key_pts = pass->table->packets[plan->segments[i].first].pts;
        STK_TRY(stk_av_restart(pass->av, false, err));
        for (uint32_t packet = plan->segments[i].first; packet < plan->segments[i].end && sound; packet++) {
            STK_TRY(send(pass, packet, needed[packet] || !plan->skips, err));
            STK_TRY(take_by_time(pass, key_pts, &missing, &sound, err));
            sound = sound && stk_av_faults(pass->av) == faults;
        }
        if (!sound || missing == 0) break;
        STK_TRY(stk_av_drain(pass->av, err));
        STK_TRY(take_by_time(pass, key_pts, &missing, &sound, err));
        sound = sound && stk_av_faults(pass->av) == faults;
    }
    *out_complete = sound && missing == 0;
    return STOKER_OK;
}

stoker_status stk_pass_run_by_time(struct stk_pass *pass, bool *out_complete, stoker_error *err)
{
    STK_ASSERT(pass->plan.by_time);
    STK_ASSERT(pass->plan.packets == pass->table->count);
    uint8_t *needed = malloc(pass->table->count);
    if (!needed) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    stk_decode_plan_mark(&pass->plan, needed);
    stoker_status status = run_segments(pass, needed, out_complete, err);
    free(needed);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ in order
 */

static bool is_presented(const struct stk_pass *pass, const struct stk_av_frame *frame)
{
    /* The decoder drops hidden frames itself, but not every wrapper of a foreign decoder does. */
    return !pass->table->by_time || frame->pts == STK_TIME_NONE || stk_plan_find(pass->table, frame->pts) != SIZE_MAX;
}

static stoker_status take_in_order(struct stk_pass *pass, uint64_t *counted, size_t *next, stoker_error *err)
{
    struct stk_av_frame frame;
    for (;;) {
        stoker_status status = stk_av_receive(pass->av, &frame, err);
        if (status != STOKER_OK) return status < 0 ? status : STOKER_OK;
        if (!is_presented(pass, &frame)) continue;
        uint64_t ordinal = (*counted)++;
        if (pass->all) {
            STK_TRY(pass->deliver(pass, (size_t)ordinal, &frame, err));
        } else if (*next < pass->plan.kept_count && pass->plan.kept[*next].ordinal == ordinal) {
            STK_TRY(pass->deliver(pass, (*next)++, &frame, err));
        }
    }
}

stoker_status stk_pass_run_in_order(struct stk_pass *pass, bool count_is_known, uint64_t *out_counted,
                                    stoker_error *err)
{
    STK_ASSERT(!pass->plan.by_time);
    uint64_t counted = 0;
    size_t next = 0, wanted = pass->all ? SIZE_MAX : pass->plan.kept_count;
    STK_TRY(stk_av_restart(pass->av, true, err));
    for (uint32_t packet = 0; packet < pass->table->count; packet++) {
        if (count_is_known && next == wanted) break;
        STK_TRY(send(pass, packet, true, err));
        STK_TRY(take_in_order(pass, &counted, &next, err));
    }
    if (!count_is_known || next < wanted) {
        STK_TRY(stk_av_drain(pass->av, err));
        STK_TRY(take_in_order(pass, &counted, &next, err));
    }
    *out_counted = counted;
    return STOKER_OK;
}

/* -------------------------------------------------------------------------------------------------------------- render
 */

int32_t stk_pass_rotation(const struct stk_pass *pass)
{
    return pass->picture->ignore_rotation ? 0 : stk_av_facts(pass->av)->rotation;
}

static stoker_status turn(struct stk_decoder *decoder, const struct stk_scaled *scaled, uint32_t width, uint32_t height,
                          int32_t rotation, struct stk_planes *out, stoker_error *err)
{
    size_t stride = rotation == 180 ? width : height, plane = (size_t)width * height;
    if (decoder->turned_size < plane * 3) {
        free(decoder->turned);
        decoder->turned_size = 0;
        decoder->turned = malloc(plane * 3);
        if (!decoder->turned)
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", plane * 3);
        decoder->turned_size = plane * 3;
    }
    for (size_t c = 0; c < 3; c++) {
        stk_rotate_plane(scaled->planes[c], scaled->stride, width, height, rotation, decoder->turned + c * plane,
                         stride);
        out->rgb[c] = decoder->turned + c * plane;
    }
    out->stride = stride;
    return STOKER_OK;
}

static uint32_t square_width(const struct stk_pass *pass, const struct stk_av_frame *frame)
{
    return pass->picture->apply_sar ? stk_square_width(frame->width, frame->sar_num, frame->sar_den) : frame->width;
}

struct stk_extent stk_pass_extent(const struct stk_pass *pass, const struct stk_av_frame *frame)
{
    const uint32_t width = square_width(pass, frame);
    return stk_pass_rotation(pass) % 180 ? (struct stk_extent){frame->height, width}
                                         : (struct stk_extent){width, frame->height};
}

stoker_status stk_pass_render_fit(struct stk_pass *pass, const struct stk_fit *fit, uint8_t *const direct[3],
                                  struct stk_planes *out, stoker_error *err)
{
    int32_t rotation = stk_pass_rotation(pass);
    struct stk_scaling scaling = {fit->scaled_width, fit->scaled_height, fit->keep};
    struct stk_scaled scaled;
    STK_TRY(stk_scaler_run(pass->decoder->scaler, pass->av, pass->picture, &scaling, rotation ? NULL : direct, &scaled,
                           err));
    *out = (struct stk_planes){{scaled.planes[0], scaled.planes[1], scaled.planes[2]}, scaled.stride};
    if (rotation == 0) return STOKER_OK;
    return turn(pass->decoder, &scaled, fit->keep.width, fit->keep.height, rotation, out, err);
}

stoker_status stk_pass_render(struct stk_pass *pass, const struct stk_form *form, const struct stk_av_frame *frame,
                              uint8_t *const direct[3], struct stk_planes *out, stoker_error *err)
{
    struct stk_fit fit = stk_fit_picture(form->resize, square_width(pass, frame), frame->height,
                                         stk_pass_rotation(pass), form->width, form->height);
    return stk_pass_render_fit(pass, &fit, direct, out, err);
}
