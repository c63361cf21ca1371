/* SPDX-License-Identifier: Apache-2.0
 *
 * Orchestrates a decode: see decode.h for the two ways and why both give the same frames.
 */
#include "media/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/ffmpeg.h"
#include "media/filter.h"
#include "media/plan.h"

struct stk_decoder {
    struct stk_scaler *scaler;
    uint8_t *turned; /* three rotated planes */
    size_t turned_size;
    uint64_t keep_bytes;
    int in_order;
};

/* One file being decoded for a list of frames. */
struct pass {
    struct stk_decoder *decoder;
    struct stk_av *av;
    const struct stk_packet_table *table;
    const uint64_t *ordinals; /* ascending, no repeats; NULL with count 0: `deliver` gets all frames if `all` */
    size_t count;
    bool all;
    uint8_t *delivered; /* one flag an ordinal */
    stoker_status (*deliver)(struct pass *pass, size_t index, const struct stk_av_frame *frame, stoker_error *err);
    void *user;
    stoker_video_result result;
};

stoker_status stk_decoder_create(struct stk_decoder **out_decoder, stoker_error *err)
{
    struct stk_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    decoder->keep_bytes = STK_AV_KEEP_BYTES;
    stoker_status status = stk_scaler_create(&decoder->scaler, err);
    if (status < 0) {
        free(decoder);
        return status;
    }
    *out_decoder = decoder;
    return STOKER_OK;
}

void stk_decoder_destroy(struct stk_decoder *decoder)
{
    if (!decoder) return;
    stk_scaler_destroy(decoder->scaler);
    free(decoder->turned);
    free(decoder);
}

void stk_decoder_set_keep_bytes(struct stk_decoder *decoder, uint64_t bytes) { decoder->keep_bytes = bytes; }

void stk_decoder_set_in_order(struct stk_decoder *decoder, int in_order) { decoder->in_order = in_order; }

/* -------------------------------------------------------------------------------------------------------------- render
 */

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

/* The current frame in the form's size; at `direct` (NULL allowed) if it could be made there. */
static stoker_status render(struct pass *pass, const struct stk_form *form, const struct stk_av_frame *frame,
                            uint8_t *const direct[3], struct stk_planes *out, stoker_error *err)
{
    int32_t rotation = stk_av_facts(pass->av)->rotation;
    struct stk_fit fit =
        stk_fit_picture(form->resize, frame->width, frame->height, rotation, form->width, form->height);
    struct stk_scaling scaling = {fit.scaled_width, fit.scaled_height, fit.keep};
    struct stk_scaled scaled;
    STK_TRY(stk_scaler_run(pass->decoder->scaler, pass->av, &scaling, rotation ? NULL : direct, &scaled, err));
    *out = (struct stk_planes){{scaled.planes[0], scaled.planes[1], scaled.planes[2]}, scaled.stride};
    if (rotation == 0) return STOKER_OK;
    return turn(pass->decoder, &scaled, fit.keep.width, fit.keep.height, rotation, out, err);
}

/* -------------------------------------------------------------------------------------------------------------- passes
 */

static stoker_status send(struct pass *pass, uint32_t packet, bool needed, stoker_error *err)
{
    pass->result.packets_decoded++;
    pass->result.bytes_read += pass->table->packets[packet].size;
    return stk_av_send(pass->av, packet, needed, err);
}

static size_t find_ordinal(const struct pass *pass, uint64_t ordinal)
{
    size_t low = 0, high = pass->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pass->ordinals[middle] < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low < pass->count && pass->ordinals[low] == ordinal ? low : SIZE_MAX;
}

/* Takes what the decoder has, by time. *sound becomes false at a frame that the decoder calls damaged; frames before
 * the key frame's own time are the leading pictures of an open group, which are broken by nature after a jump and never
 * wanted there. */
static stoker_status take_by_time(struct pass *pass, int64_t key_pts, size_t *missing, bool *sound, stoker_error *err)
{
    struct stk_av_frame frame;
    for (;;) {
        stoker_status status = stk_av_receive(pass->av, &frame, err);
        if (status != STOKER_OK) return status < 0 ? status : STOKER_OK;
        if (frame.damaged && frame.pts >= key_pts) *sound = false;
        size_t ordinal = frame.pts == STK_TIME_NONE ? SIZE_MAX : stk_plan_find(pass->table, frame.pts);
        size_t index = ordinal == SIZE_MAX ? SIZE_MAX : find_ordinal(pass, ordinal);
        if (index == SIZE_MAX || pass->delivered[index]) continue;
        STK_TRY(pass->deliver(pass, index, &frame, err));
        pass->delivered[index] = 1;
        --*missing;
    }
}

static stoker_status run_segments(struct pass *pass, const struct stk_segment *segments, size_t segment_count,
                                  const uint8_t *needed, bool *out_complete, stoker_error *err)
{
    uint64_t faults = stk_av_faults(pass->av);
    size_t missing = pass->count;
    bool sound = true;
    memset(pass->delivered, 0, pass->count);
    for (size_t i = 0; i < segment_count && sound; i++) {
        int64_t key_pts = pass->table->packets[segments[i].first].pts;
        STK_TRY(stk_av_restart(pass->av, false, err));
        for (uint32_t packet = segments[i].first; packet < segments[i].end && sound; packet++) {
            STK_TRY(send(pass, packet, needed[packet], err));
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

/* Where frames were lost, the k-th of those that come out is not the k-th of the table, also for a request whose own
 * packets are whole. */
static bool may_jump(const struct pass *pass)
{
    return pass->table->by_time && !pass->table->broken && !pass->decoder->in_order;
}

/* The fewest packets, frames known by their times. *out_complete false: damage was met or a frame did not come; decode
 * in order. */
static stoker_status decode_by_time(struct pass *pass, bool *out_complete, stoker_error *err)
{
    const struct stk_av_facts *facts = stk_av_facts(pass->av);
    const struct stk_plan_costs costs = {facts->ns_per_pixel, facts->ns_per_byte, (double)facts->width * facts->height};
    struct stk_segment *segments = calloc(pass->count, sizeof *segments);
    uint8_t *needed = malloc(pass->table->count);
    stoker_status status;
    if (!segments || !needed) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    } else {
        size_t count = stk_plan_segments(pass->table, &costs, pass->ordinals, pass->count, segments, needed);
        status = run_segments(pass, segments, count, needed, out_complete, err);
    }
    free(needed);
    free(segments);
    return status;
}

static bool is_presented(const struct pass *pass, const struct stk_av_frame *frame)
{
    /* The decoder drops hidden frames itself, but not every wrapper of a foreign decoder does. */
    return !pass->table->by_time || frame->pts == STK_TIME_NONE || stk_plan_find(pass->table, frame->pts) != SIZE_MAX;
}

static stoker_status take_in_order(struct pass *pass, uint64_t *counted, size_t *next, stoker_error *err)
{
    struct stk_av_frame frame;
    for (;;) {
        stoker_status status = stk_av_receive(pass->av, &frame, err);
        if (status != STOKER_OK) return status < 0 ? status : STOKER_OK;
        if (!is_presented(pass, &frame)) continue;
        uint64_t ordinal = (*counted)++;
        if (pass->all) {
            STK_TRY(pass->deliver(pass, (size_t)ordinal, &frame, err));
        } else if (*next < pass->count && pass->ordinals[*next] == ordinal) {
            STK_TRY(pass->deliver(pass, (*next)++, &frame, err));
        }
    }
}

/* Everything from the start, frames known by counting. With `count_is_known` it ends at the last wanted frame. */
static stoker_status decode_in_order(struct pass *pass, bool count_is_known, uint64_t *out_counted, stoker_error *err)
{
    uint64_t counted = 0;
    size_t next = 0;
    STK_TRY(stk_av_restart(pass->av, true, err));
    for (uint32_t packet = 0; packet < pass->table->count; packet++) {
        if (count_is_known && next == pass->count) break;
        STK_TRY(send(pass, packet, true, err));
        STK_TRY(take_in_order(pass, &counted, &next, err));
    }
    if (!count_is_known || next < pass->count) {
        STK_TRY(stk_av_drain(pass->av, err));
        STK_TRY(take_in_order(pass, &counted, &next, err));
    }
    *out_counted = counted;
    return STOKER_OK;
}

/* Opens and scans; the pass is closed with end_pass() whatever the result. */
static stoker_status begin_pass(struct pass *pass, struct stk_decoder *decoder, const struct stk_file *file,
                                stoker_error *err)
{
    pass->decoder = decoder;
    STK_TRY(stk_av_open(file, &pass->av, err));
    STK_TRY(stk_av_scan(pass->av, decoder->keep_bytes, err));
    pass->table = stk_av_table(pass->av);
    pass->result.frames_promised = pass->table->shown_count;
    if (pass->table->shown_count == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "the video stream holds no frames");
    return STOKER_OK;
}

static void end_pass(struct pass *pass)
{
    stk_av_close(pass->av);
    free(pass->delivered);
}

/* --------------------------------------------------------------------------------------------------------------
 * samples */

struct sample {
    const struct stk_form *form;
    void *dst;
};

/* Ordinal `index` of the pass goes to place `index`; in a clip of too few frames the last one goes to all later places
 * too. */
static stoker_status store_sample(struct pass *pass, size_t index, const struct stk_av_frame *frame, stoker_error *err)
{
    const struct sample *sample = pass->user;
    struct stk_planes planes;
    uint8_t *direct[3];
    bool may_direct = stk_form_planes(sample->form, sample->dst, (uint32_t)index, direct);
    STK_TRY(render(pass, sample->form, frame, may_direct ? direct : NULL, &planes, err));
    uint32_t place = (uint32_t)index, end = index + 1 == pass->count ? sample->form->frames : (uint32_t)index + 1;
    if (may_direct && planes.rgb[0] == direct[0]) place++;
    for (; place < end; place++) stk_form_store(sample->form, &planes, sample->dst, place);
    return STOKER_OK;
}

static stoker_status check_loss(const struct pass *pass, const struct stk_form *form, uint64_t frames,
                                stoker_error *err)
{
    uint64_t promised = pass->table->shown_count;
    const char *reason = stk_av_last_message(pass->av);
    if (frames == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "none of %llu frames can be decoded (%s)",
                        (unsigned long long)promised, reason[0] ? reason : "no reason given");
    if (frames < promised && (double)(promised - frames) > form->damaged_max * (double)promised)
        return stk_fail(err, STOKER_ERR_CORRUPT, "only %llu of %llu frames can be decoded, allowed loss %g (%s)",
                        (unsigned long long)frames, (unsigned long long)promised, form->damaged_max,
                        reason[0] ? reason : "no reason given");
    if (frames < form->frames && form->short_clip == STOKER_SHORT_ERROR)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the clip has %llu frames, %u are wanted", (unsigned long long)frames,
                        form->frames);
    return STOKER_OK;
}

static void choose(struct pass *pass, const struct stk_form *form, uint64_t frames, uint64_t *ordinals)
{
    pass->count = frames < form->frames ? (size_t)frames : form->frames;
    for (uint32_t i = 0; i < pass->count; i++) ordinals[i] = stk_plan_uniform(frames, form->frames, i);
    pass->ordinals = ordinals;
}

static stoker_status make_sample(struct pass *pass, const struct stk_form *form, uint64_t *known_frames,
                                 uint64_t *ordinals, stoker_error *err)
{
    uint64_t frames = *known_frames ? *known_frames : pass->table->shown_count;
    bool known = *known_frames != 0;
    STK_TRY(check_loss(pass, form, frames, err));
    choose(pass, form, frames, ordinals);
    if (!known && may_jump(pass)) {
        bool complete = false;
        STK_TRY(decode_by_time(pass, &complete, err));
        pass->result.frames_presented = frames;
        if (complete) return STOKER_OK;
    }
    /* The first pass may find another count; the second then takes the right frames and must find the same. */
    for (int tries = 0; tries < 2; tries++) {
        uint64_t counted = 0;
        STK_TRY(decode_in_order(pass, known, &counted, err));
        pass->result.frames_presented = frames;
        if (known || counted == frames) {
            *known_frames = frames;
            return STOKER_OK;
        }
        frames = counted;
        STK_TRY(check_loss(pass, form, frames, err));
        choose(pass, form, frames, ordinals);
    }
    return stk_fail(err, STOKER_ERR_CORRUPT, "the number of frames differs between two decodes");
}

stoker_status stk_decoder_video(struct stk_decoder *decoder, const struct stk_file *file, const struct stk_form *form,
                                uint64_t *known_frames, void *dst, stoker_video_result *out_result, stoker_error *err)
{
    struct sample sample = {form, dst};
    struct pass pass = {.deliver = store_sample, .user = &sample};
    uint64_t known = known_frames ? *known_frames : 0;
    uint64_t *ordinals = calloc(form->frames, sizeof *ordinals);
    pass.delivered = malloc(form->frames);
    stoker_status status = ordinals && pass.delivered ? begin_pass(&pass, decoder, file, err)
                                                      : stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    if (status == STOKER_OK) status = make_sample(&pass, form, &known, ordinals, err);
    if (status == STOKER_OK) {
        if (known_frames) *known_frames = known;
        if (out_result) *out_result = pass.result;
    }
    end_pass(&pass);
    free(ordinals);
    return status;
}

/* -------------------------------------------------------------------------------------------------------------- frame
 * lists */

/* One place of a caller's list. */
struct request {
    uint64_t ordinal;
    size_t place;
};

struct listing {
    struct stk_form form; /* of one frame, uint8 T,H,W,C */
    uint8_t *rgb;
    const struct request *requests; /* by ordinal, then place; NULL: all frames */
    size_t request_count;
    stoker_frame_fn frame_fn;
    void *user;
};

static int by_ordinal(const void *left, const void *right)
{
    const struct request *a = left, *b = right;
    if (a->ordinal != b->ordinal) return a->ordinal < b->ordinal ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static stoker_status give_frame(struct pass *pass, size_t index, const struct stk_av_frame *frame, stoker_error *err)
{
    struct listing *listing = pass->user;
    struct stk_planes planes;
    STK_TRY(render(pass, &listing->form, frame, NULL, &planes, err));
    stk_form_store(&listing->form, &planes, listing->rgb, 0);
    if (!listing->requests)
        return listing->frame_fn(listing->user, index, listing->rgb, listing->form.width, listing->form.height, err);
    size_t low = 0, high = listing->request_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (listing->requests[middle].ordinal < pass->ordinals[index])
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < listing->request_count && listing->requests[low].ordinal == pass->ordinals[index]; low++)
        STK_TRY(listing->frame_fn(listing->user, listing->requests[low].place, listing->rgb, listing->form.width,
                                  listing->form.height, err));
    return STOKER_OK;
}

static stoker_status past_the_end(uint64_t ordinal, uint64_t frames, stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "frame %llu is asked for, the last of %llu frames is %llu",
                    (unsigned long long)ordinal, (unsigned long long)frames,
                    (unsigned long long)(frames ? frames - 1 : 0));
}

static stoker_status give_listed(struct pass *pass, stoker_error *err)
{
    uint64_t last = pass->ordinals[pass->count - 1], counted = 0;
    if (last >= pass->table->shown_count) return past_the_end(last, pass->table->shown_count, err);
    if (may_jump(pass)) {
        bool complete = false;
        STK_TRY(decode_by_time(pass, &complete, err));
        if (complete) return STOKER_OK;
    }
    STK_TRY(decode_in_order(pass, true, &counted, err));
    return last < counted ? STOKER_OK : past_the_end(last, counted, err);
}

static stoker_status give_all(struct pass *pass, stoker_error *err)
{
    uint64_t counted = 0;
    pass->all = true;
    STK_TRY(decode_in_order(pass, false, &counted, err));
    if (counted > 0) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_CORRUPT, "none of %zu frames can be decoded", pass->table->shown_count);
}

static stoker_status prepare_listing(struct listing *listing, struct pass *pass, const stoker_frame_list *list,
                                     stoker_error *err)
{
    const struct stk_av_facts *facts = stk_av_facts(pass->av);
    bool turned = facts->rotation == 90 || facts->rotation == 270;
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 1;
    spec.width = list->width ? list->width : turned ? facts->height : facts->width;
    spec.height = list->height ? list->height : turned ? facts->width : facts->height;
    spec.layout = STOKER_LAYOUT_THWC;
    spec.resize = STOKER_RESIZE_EXACT;
    if (spec.width == 0 || spec.height == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the video stream does not say how large its pictures are");
    STK_TRY(stk_form_init(&listing->form, &spec, err));
    listing->rgb = malloc(listing->form.sample_bytes + STK_FILTER_SLACK);
    return listing->rgb ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a frame");
}

/* Sorts the caller's list; `ordinals` gets each wanted frame once. */
static size_t sort_list(const stoker_frame_list *list, struct request *requests, uint64_t *ordinals)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) requests[i] = (struct request){list->indices[i], i};
    qsort(requests, list->count, sizeof *requests, by_ordinal);
    for (size_t i = 0; i < list->count; i++)
        if (i == 0 || requests[i].ordinal != requests[i - 1].ordinal) ordinals[count++] = requests[i].ordinal;
    return count;
}

static stoker_status give_list(struct pass *pass, struct listing *listing, const stoker_frame_list *list,
                               stoker_error *err)
{
    struct request *requests = calloc(list->count, sizeof *requests);
    uint64_t *ordinals = calloc(list->count, sizeof *ordinals);
    pass->delivered = calloc(list->count, 1);
    stoker_status status;
    if (!requests || !ordinals || !pass->delivered) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu frames", list->count);
    } else {
        pass->count = sort_list(list, requests, ordinals);
        pass->ordinals = ordinals;
        listing->requests = requests;
        listing->request_count = list->count;
        status = give_listed(pass, err);
    }
    free(ordinals);
    free(requests);
    return status;
}

stoker_status stk_decoder_frames(struct stk_decoder *decoder, const struct stk_file *file,
                                 const stoker_frame_list *list, stoker_frame_fn frame_fn, void *user, stoker_error *err)
{
    struct listing listing = {.frame_fn = frame_fn, .user = user};
    struct pass pass = {.deliver = give_frame, .user = &listing};
    if (list->indices && list->count == 0) return STOKER_OK;
    stoker_status status = begin_pass(&pass, decoder, file, err);
    if (status == STOKER_OK) status = prepare_listing(&listing, &pass, list, err);
    if (status == STOKER_OK) status = list->indices ? give_list(&pass, &listing, list, err) : give_all(&pass, err);
    end_pass(&pass);
    free(listing.rgb);
    return status;
}

stoker_status stk_decoder_count(struct stk_decoder *decoder, const struct stk_file *file, uint64_t *out_frames,
                                stoker_error *err)
{
    struct pass pass = {.deliver = NULL};
    uint64_t counted = 0;
    stoker_status status = begin_pass(&pass, decoder, file, err);
    if (status == STOKER_OK) status = decode_in_order(&pass, false, &counted, err);
    if (status == STOKER_OK) *out_frames = counted;
    end_pass(&pass);
    return status;
}
