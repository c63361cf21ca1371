/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of frames: by index, by time, by a plan, or all of them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/decode_internal.h"
#include "media/filter.h"
#include "media/plan_object.h"

/* A time is taken for that of a frame if it is this much too early: times in seconds are rounded binary numbers. */
#define NEAR_S 1e-9

/* One place of a caller's list. */
struct request {
    uint64_t ordinal;
    size_t place;
};

struct listing {
    const stoker_frame_list *list;
    struct stk_form form; /* of one frame, uint8 T,H,W,C */
    uint8_t *rgb;
    struct request *requests; /* by ordinal, then place; NULL: `index` is the place */
    uint64_t *ordinals;       /* each wanted frame once */
    stoker_frame_fn frame_fn;
    void *user;
};

static int by_ordinal(const void *left, const void *right)
{
    const struct request *a = left, *b = right;
    if (a->ordinal != b->ordinal) return a->ordinal < b->ordinal ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static stoker_status give_frame(struct stk_pass *pass, size_t index, const struct stk_av_frame *frame,
                                stoker_error *err)
{
    struct listing *listing = pass->user;
    struct stk_planes planes;
    STK_TRY(stk_pass_render(pass, &listing->form, frame, NULL, &planes, err));
    stk_form_store(&listing->form, &planes, listing->rgb, 0);
    if (!listing->requests)
        return listing->frame_fn(listing->user, index, listing->rgb, listing->form.width, listing->form.height, err);
    size_t low = 0, high = listing->list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (listing->requests[middle].ordinal < pass->ordinals[index])
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < listing->list->count && listing->requests[low].ordinal == pass->ordinals[index]; low++)
        STK_TRY(listing->frame_fn(listing->user, listing->requests[low].place, listing->rgb, listing->form.width,
                                  listing->form.height, err));
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------- indices
 */

static stoker_status past_the_end(uint64_t ordinal, uint64_t frames, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "frame %llu is asked for, the last of %llu frames is %llu",
                    (unsigned long long)ordinal, (unsigned long long)frames,
                    (unsigned long long)(frames ? frames - 1 : 0));
}

/* Sorts the requests and makes pass->ordinals of them. */
static void sort_requests(struct stk_pass *pass, struct listing *listing)
{
    size_t wanted = listing->list->count, count = 0;
    const struct request *requests = listing->requests;
    qsort(listing->requests, wanted, sizeof *requests, by_ordinal);
    for (size_t i = 0; i < wanted; i++)
        if (i == 0 || requests[i].ordinal != requests[i - 1].ordinal) listing->ordinals[count++] = requests[i].ordinal;
    pass->ordinals = listing->ordinals;
    pass->count = count;
}

static stoker_status request_indices(struct stk_pass *pass, struct listing *listing, stoker_error *err)
{
    for (size_t i = 0; i < listing->list->count; i++)
        listing->requests[i] = (struct request){listing->list->indices[i], i};
    sort_requests(pass, listing);
    uint64_t last = pass->ordinals[pass->count - 1];
    return last < pass->table->shown_count ? STOKER_OK : past_the_end(last, pass->table->shown_count, err);
}

/* ------------------------------------------------------------------------------------------------------------- seconds
 */

/* When frames that come out are shown, in time units; one that says no time makes them useless. */
struct times {
    int64_t *pts;
    size_t count, cap;
    bool known;
};

static stoker_status note_time(struct stk_pass *pass, size_t index, const struct stk_av_frame *frame, stoker_error *err)
{
    struct times *times = pass->user;
    STK_ASSERT(index == times->count);
    if (times->count == times->cap) {
        size_t cap = times->cap ? 2 * times->cap : 256;
        int64_t *larger = realloc(times->pts, cap * sizeof *larger);
        if (!larger) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the times of %zu frames", cap);
        times->pts = larger;
        times->cap = cap;
    }
    if (frame->pts == STK_TIME_NONE || (index > 0 && frame->pts < times->pts[index - 1])) times->known = false;
    times->pts[times->count++] = frame->pts;
    return STOKER_OK;
}

/* The last of `count` ascending times that is not after `seconds` after the first of the table. */
static uint64_t frame_at(const struct stk_pass *pass, const int64_t *pts, size_t stride, size_t count, double seconds)
{
    double base = stk_av_facts(pass->av)->time_base, start = (double)pass->table->shown[0].pts;
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        double at = ((double)*(const int64_t *)(const void *)((const char *)pts + middle * stride) - start) * base;
        if (at <= seconds + NEAR_S)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

static uint64_t frame_by_rate(const struct stk_pass *pass, uint64_t count, double seconds)
{
    uint64_t num, den;
    stk_av_rate(pass->av, &num, &den);
    double ordinal = num ? floor((seconds + NEAR_S) * (double)num / (double)den) : 0;
    return ordinal < (double)count ? (uint64_t)ordinal : count - 1;
}

static stoker_status check_seconds(const struct stk_pass *pass, const stoker_frame_list *list, stoker_error *err)
{
    double duration = stk_av_duration(pass->av);
    if (!(duration > 0))
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the file tells no times: its frames are known by number only");
    for (size_t i = 0; i < list->count; i++)
        if (!(list->seconds[i] >= 0 && list->seconds[i] < duration))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "second %g is asked for, the clip lasts %g seconds",
                            list->seconds[i], duration);
    return STOKER_OK;
}

static stoker_status request_seconds(struct stk_pass *pass, struct listing *listing, stoker_error *err)
{
    const stoker_frame_list *list = listing->list;
    const struct stk_packet_table *table = pass->table;
    STK_TRY(check_seconds(pass, list, err));
    for (size_t i = 0; i < list->count; i++) {
        uint64_t ordinal = table->by_time ? frame_at(pass, &table->shown[0].pts, sizeof table->shown[0],
                                                     table->shown_count, list->seconds[i])
                                          : frame_by_rate(pass, table->shown_count, list->seconds[i]);
        listing->requests[i] = (struct request){ordinal, i};
    }
    sort_requests(pass, listing);
    return STOKER_OK;
}

/* The same of the frames that really come out of a damaged file. */
static stoker_status request_found_seconds(struct stk_pass *pass, struct listing *listing, stoker_error *err)
{
    struct times times = {.known = pass->table->by_time};
    uint64_t counted = 0;
    struct stk_pass look = *pass; /* shares everything but where frames go */
    look.deliver = note_time, look.user = &times, look.all = true;
    stoker_status status = stk_pass_run_in_order(&look, false, &counted, err);
    pass->result = look.result;
    if (status == STOKER_OK && counted == 0)
        status = stk_fail(err, STOKER_ERR_CORRUPT, "none of %zu frames can be decoded", pass->table->shown_count);
    for (size_t i = 0; status == STOKER_OK && i < listing->list->count; i++) {
        double seconds = listing->list->seconds[i];
        uint64_t ordinal = times.known ? frame_at(pass, times.pts, sizeof *times.pts, times.count, seconds)
                                       : frame_by_rate(pass, counted, seconds);
        listing->requests[i] = (struct request){ordinal, i};
    }
    if (status == STOKER_OK) sort_requests(pass, listing);
    free(times.pts);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------------- ways
 */

static stoker_status make_requests(struct stk_pass *pass, struct listing *listing, stoker_error *err)
{
    size_t count = listing->list->count;
    listing->requests = calloc(count, sizeof *listing->requests);
    listing->ordinals = calloc(count, sizeof *listing->ordinals);
    pass->delivered = calloc(count, 1);
    if (!listing->requests || !listing->ordinals || !pass->delivered)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu frames", count);
    return listing->list->indices ? request_indices(pass, listing, err) : request_seconds(pass, listing, err);
}

static stoker_status give_listed(struct stk_pass *pass, struct listing *listing, stoker_error *err)
{
    uint64_t counted = 0;
    if (stk_pass_may_jump(pass)) {
        bool complete = false;
        STK_TRY(stk_pass_plan_by_time(pass, err));
        STK_TRY(stk_pass_run_by_time(pass, &complete, err));
        if (complete) return STOKER_OK;
    }
    STK_TRY(stk_pass_plan_in_order(pass, pass->table->shown_count, err));
    if (listing->list->seconds) {
        STK_TRY(request_found_seconds(pass, listing, err));
        STK_TRY(stk_pass_plan_in_order(pass, pass->table->shown_count, err));
    }
    STK_TRY(stk_pass_run_in_order(pass, true, &counted, err));
    uint64_t last = pass->ordinals[pass->count - 1];
    return last < counted ? STOKER_OK : past_the_end(last, counted, err);
}

static stoker_status give_all(struct stk_pass *pass, stoker_error *err)
{
    uint64_t counted = 0;
    pass->all = true;
    STK_TRY(stk_pass_plan_in_order(pass, pass->table->shown_count, err));
    STK_TRY(stk_pass_run_in_order(pass, false, &counted, err));
    if (counted > 0) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_CORRUPT, "none of %zu frames can be decoded", pass->table->shown_count);
}

static stoker_status give_planned(struct stk_pass *pass, const stoker_plan *plan, stoker_error *err)
{
    bool complete = false;
    uint64_t counted = 0;
    pass->plan = *stk_plan_object_view(plan);
    STK_TRY(stk_decode_plan_fits(&pass->plan, pass->table, err));
    pass->delivered = calloc((size_t)pass->plan.kept_count + 1, 1);
    if (!pass->delivered) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    if (!pass->plan.by_time) {
        pass->all = pass->plan.kept_count == 0;
        STK_TRY(stk_pass_run_in_order(pass, !pass->all, &counted, err));
        uint64_t last = pass->all ? 0 : pass->plan.kept[pass->plan.kept_count - 1].ordinal;
        return last < counted ? STOKER_OK : past_the_end(last, counted, err);
    }
    STK_TRY(stk_pass_run_by_time(pass, &complete, err));
    if (complete) return STOKER_OK;
    const char *reason = stk_av_last_message(pass->av);
    return stk_fail(err, STOKER_ERR_CORRUPT, "the plan meets damage, which a plan by time cannot pass (%s)",
                    reason[0] ? reason : "no reason given");
}

static stoker_status prepare(struct listing *listing, struct stk_pass *pass, stoker_error *err)
{
    const stoker_frame_list *list = listing->list;
    const struct stk_av_facts *facts = stk_av_facts(pass->av);
    int32_t rotation = stk_pass_rotation(pass);
    bool turned = rotation == 90 || rotation == 270;
    uint32_t width = facts->width, height = facts->height;
    if (list->picture.apply_sar && (!list->width || !list->height)) {
        struct stk_av_look look;
        STK_TRY(stk_av_look(pass->av, &look, err));
        width = stk_square_width(width, look.sar_num, look.sar_den);
    }
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 1;
    spec.width = list->width ? list->width : turned ? height : width;
    spec.height = list->height ? list->height : turned ? width : height;
    spec.layout = STOKER_LAYOUT_THWC;
    spec.resize = STOKER_RESIZE_EXACT;
    spec.picture = list->picture;
    if (spec.width == 0 || spec.height == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the video stream does not say how large its pictures are");
    STK_TRY(stk_form_init(&listing->form, &spec, err));
    listing->rgb = malloc(listing->form.sample_bytes + STK_FILTER_SLACK);
    return listing->rgb ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a frame");
}

static stoker_status check_list(const stoker_frame_list *list, stoker_error *err)
{
    if ((list->indices != NULL) + (list->seconds != NULL) + (list->plan != NULL) > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "only one of indices, seconds and plan can be given");
    return STOKER_OK;
}

static bool is_listed(const stoker_frame_list *list) { return list->indices || list->seconds; }

static void end_listing(struct listing *listing, struct stk_pass *pass)
{
    stk_pass_end(pass);
    free(listing->ordinals);
    free(listing->requests);
    free(listing->rgb);
}

stoker_status stk_decoder_frames(struct stk_decoder *decoder, const struct stk_file *file,
                                 const stoker_frame_list *list, stoker_frame_fn frame_fn, void *user, stoker_error *err)
{
    struct listing listing = {.list = list, .frame_fn = frame_fn, .user = user};
    struct stk_pass pass = {.deliver = give_frame, .user = &listing, .picture = &list->picture};
    STK_TRY(check_list(list, err));
    if (is_listed(list) && list->count == 0) return STOKER_OK;
    stoker_status status = stk_pass_begin(&pass, decoder, file, err);
    if (status == STOKER_OK) status = prepare(&listing, &pass, err);
    if (status == STOKER_OK && is_listed(list)) {
        status = make_requests(&pass, &listing, err);
        if (status == STOKER_OK) status = give_listed(&pass, &listing, err);
    } else if (status == STOKER_OK) {
        status = list->plan ? give_planned(&pass, list->plan, err) : give_all(&pass, err);
    }
    end_listing(&listing, &pass);
    return status;
}

stoker_status stk_decoder_plan(struct stk_decoder *decoder, const struct stk_file *file, const stoker_frame_list *list,
                               stoker_plan **out_plan, stoker_error *err)
{
    struct listing listing = {.list = list};
    struct stk_pass pass = {.user = &listing, .picture = &list->picture};
    STK_TRY(check_list(list, err));
    if (list->plan) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the list has a plan already");
    if (is_listed(list) && list->count == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a plan is made for at least one frame");
    stoker_status status = stk_pass_begin(&pass, decoder, file, err);
    if (status == STOKER_OK && is_listed(list)) status = make_requests(&pass, &listing, err);
    if (status == STOKER_OK)
        status = is_listed(list) && stk_pass_may_jump(&pass)
                     ? stk_pass_plan_by_time(&pass, err)
                     : stk_pass_plan_in_order(&pass, pass.table->shown_count, err);
    if (status == STOKER_OK) {
        struct stk_plan_estimate estimate = stk_decode_plan_estimate(&pass.plan, pass.table, &pass.costs);
        status = stk_plan_object_create(&pass.plan, &estimate, out_plan, err);
    }
    end_listing(&listing, &pass);
    return status;
}
