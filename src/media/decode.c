/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples: see decode.h for the two ways of a decode and why both give the same frames.
 */
#include "media/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "media/decode_internal.h"
#include "media/decode_work.h"

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
    stk_look_room_fini(&decoder->look);
    free(decoder->turned);
    free(decoder);
}

void stk_decoder_set_keep_bytes(struct stk_decoder *decoder, uint64_t bytes) { decoder->keep_bytes = bytes; }

void stk_decoder_set_work(struct stk_decoder *decoder, struct stk_decode_work *work) { decoder->work = work; }

void stk_decoder_set_choice(struct stk_decoder *decoder, enum stk_plan_choice choice) { decoder->choice = choice; }

/* --------------------------------------------------------------------------------------------------------------
 * samples */

struct sample {
    const struct stk_form *form;
    uint64_t draw;
    uint64_t *ordinals; /* room for form->frames */
    void *dst;
};

/* A picture that is more than scaled and cut in the middle. */
static stoker_status render_look(struct stk_pass *pass, const struct stk_av_frame *frame, struct stk_planes *out,
                                 stoker_error *err)
{
    const struct sample *sample = pass->user;
    const struct stk_form *form = sample->form;
    struct stk_look_room *room = &pass->decoder->look;
    const struct stk_extent picture = stk_pass_extent(pass, frame);
    const struct stk_look look = stk_look_plan(form->resize, &form->augment, sample->draw, picture,
                                               (struct stk_extent){form->width, form->height});
    const bool kept = look.keep.width > 0, part = form->augment.crop == STOKER_CROP_RESIZED;
    struct stk_planes planes = {{NULL, NULL, NULL}, 0};
    if (form->mode == STOKER_VIDEO_FAST && !part && kept) {
        const struct stk_fit fit = stk_look_fit(&look, stk_pass_rotation(pass));
        STK_TRY(stk_pass_render_fit(pass, &fit, NULL, &planes, err));
        if (!stk_look_is_plain(&look)) return stk_look_finish(&look, &planes, NULL, room, out, err);
        *out = planes;
        return STOKER_OK;
    }
    struct stk_filtered scaled = {NULL, 0};
    if (kept) {
        const struct stk_fit whole = stk_fit_picture(STOKER_RESIZE_EXACT, frame->width, frame->height,
                                                     stk_pass_rotation(pass), picture.width, picture.height);
        STK_TRY(stk_pass_render_fit(pass, &whole, NULL, &planes, err));
        STK_TRY(stk_look_scale(&look, (stoker_image_filter)form->filter, &planes, room, &scaled, err));
    }
    return stk_look_finish(&look, NULL, &scaled, room, out, err);
}

/* Ordinal `index` of the pass goes to place `index`; in a sample of too few frames the last one goes to all later
 * places too. */
static stoker_status store_sample(struct stk_pass *pass, size_t index, const struct stk_av_frame *frame,
                                  stoker_error *err)
{
    const struct sample *sample = pass->user;
    struct stk_planes planes;
    uint8_t *direct[3];
    bool may_direct = !sample->form->looks && stk_form_planes(sample->form, sample->dst, (uint32_t)index, direct);
    if (sample->form->looks)
        STK_TRY(render_look(pass, frame, &planes, err));
    else
        STK_TRY(stk_pass_render(pass, sample->form, frame, may_direct ? direct : NULL, &planes, err));
    uint32_t place = (uint32_t)index, end = index + 1 == pass->count ? sample->form->frames : (uint32_t)index + 1;
    if (may_direct && planes.rgb[0] == direct[0]) place++;
    for (; place < end; place++) stk_form_store(sample->form, &planes, sample->dst, place);
    return STOKER_OK;
}

static stoker_status check_loss(const struct stk_pass *pass, const struct stk_form *form, uint64_t frames,
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
    return STOKER_OK;
}

/* The ordinals of the sample, of a clip that has `frames`. */
static stoker_status choose(struct stk_pass *pass, uint64_t frames, stoker_error *err)
{
    struct sample *sample = pass->user;
    const struct stk_form *form = sample->form;
    struct stk_clip clip = {.frames = frames};
    uint32_t count = 0;
    STK_TRY(check_loss(pass, form, frames, err));
    stk_av_rate(pass->av, &clip.rate_num, &clip.rate_den);
    STK_TRY(stk_sampling_choose(&form->sampling, &clip, sample->draw, sample->ordinals, &count, err));
    if (count < form->frames && form->short_clip == STOKER_SHORT_ERROR &&
        form->sampling.convention != STOKER_SAMPLING_RATE)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the clip has %llu frames, which gives %u; %u are wanted",
                        (unsigned long long)frames, count, form->frames);
    pass->ordinals = sample->ordinals;
    pass->count = count;
    pass->result.frames_presented = frames;
    pass->result.frames_chosen = count;
    return STOKER_OK;
}

static stoker_status make_in_order(struct stk_pass *pass, uint64_t *known_frames, uint64_t frames, stoker_error *err)
{
    bool known = *known_frames != 0;
    /* The first pass may find another count; the second then takes the right frames and must find the same. */
    for (int tries = 0; tries < 2; tries++) {
        uint64_t counted = 0;
        STK_TRY(stk_pass_plan_in_order(pass, frames, err));
        STK_TRY(stk_pass_run_in_order(pass, known, &counted, err));
        if (known || counted == frames) {
            *known_frames = frames;
            return STOKER_OK;
        }
        frames = counted;
        STK_TRY(choose(pass, frames, err));
    }
    return stk_fail(err, STOKER_ERR_CORRUPT, "the number of frames differs between two decodes");
}

static stoker_status make_sample(struct stk_pass *pass, uint64_t *known_frames, stoker_error *err)
{
    const struct sample *sample = pass->user;
    uint64_t frames = *known_frames ? *known_frames : pass->table->shown_count;
    /* What was met before is met again, but by a random clip: it may lie elsewhere, and what was decoded before must
     * not decide where. */
    bool met = *known_frames && sample->form->sampling.convention != STOKER_SAMPLING_RANDOM;
    if (!met && stk_pass_may_jump(pass)) {
        bool complete = false;
        STK_TRY(choose(pass, pass->table->shown_count, err));
        STK_TRY(stk_pass_plan_by_time(pass, err));
        STK_TRY(stk_pass_run_by_time(pass, &complete, err));
        if (complete) return STOKER_OK;
    }
    STK_TRY(choose(pass, frames, err));
    return make_in_order(pass, known_frames, frames, err);
}

/* By time the plan tells it; otherwise everything that was sent was decoded, also that of a pass which met damage. */
static stoker_status tell_work(const struct stk_pass *pass, struct stk_decode_work *out, stoker_error *err)
{
    const struct stk_av_facts *facts = stk_av_facts(pass->av);
    if (pass->plan.by_time) return stk_decode_work_of_plan(&pass->plan, pass->table, facts, out, err);
    *out = (struct stk_decode_work){pass->result.packets_decoded, pass->result.bytes_read,
                                    pass->result.packets_decoded * facts->width * facts->height};
    return STOKER_OK;
}

stoker_status stk_decoder_video(struct stk_decoder *decoder, const struct stk_file *file, const struct stk_form *form,
                                uint64_t draw, uint64_t *known_frames, void *dst, stoker_video_result *out_result,
                                stoker_error *err)
{
    struct sample sample = {form, draw, calloc(form->frames, sizeof(uint64_t)), dst};
    struct stk_pass pass = {.deliver = store_sample, .user = &sample, .picture = &form->picture};
    uint64_t known = known_frames ? *known_frames : 0;
    pass.delivered = malloc(form->frames);
    stoker_status status = sample.ordinals && pass.delivered ? stk_pass_begin(&pass, decoder, file, err)
                                                             : stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    if (status == STOKER_OK) status = make_sample(&pass, &known, err);
    if (status == STOKER_OK && decoder->work) status = tell_work(&pass, decoder->work, err);
    if (status == STOKER_OK) {
        pass.result.plan_hash = stk_decode_plan_hash(&pass.plan);
        if (known_frames) *known_frames = known;
        if (out_result) *out_result = pass.result;
    }
    stk_pass_end(&pass);
    free(sample.ordinals);
    return status;
}

stoker_status stk_decoder_count(struct stk_decoder *decoder, const struct stk_file *file, uint64_t *out_frames,
                                stoker_error *err)
{
    struct stk_pass pass = {.deliver = NULL};
    uint64_t counted = 0;
    stoker_status status = stk_pass_begin(&pass, decoder, file, err);
    if (status == STOKER_OK) status = stk_pass_plan_in_order(&pass, pass.table->shown_count, err);
    if (status == STOKER_OK) status = stk_pass_run_in_order(&pass, false, &counted, err);
    if (status == STOKER_OK) *out_frames = counted;
    stk_pass_end(&pass);
    return status;
}
