/* SPDX-License-Identifier: Apache-2.0
 *
 * See patch_sample.h. Decoders are those of videos and images; here is what stands between them and the rows.
 */
#include "media/patch_sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/decode.h"
#include "media/filter.h"
#include "media/fit.h"
#include "media/image.h"
#include "media/patches.h"

/* Scratch memory above this is given back after the sample that needed it. */
#define KEEP_BYTES ((size_t)64 << 20)

struct stk_patch_maker {
    struct stk_decoder *decoder;
    struct stk_image_decoder *images;
    struct stk_filter_room filter;
    struct stk_patch_room lines, picture;
};

/* ---------------------------------------------------------------------------------------------------------------- form
 */

static stoker_status image_form(const stoker_patch_spec *spec, uint32_t width, uint32_t height,
                                struct stk_image_form *out, stoker_error *err)
{
    stoker_image_spec image = STOKER_IMAGE_SPEC_INIT;
    image.width = width, image.height = height;
    image.dtype = STOKER_DTYPE_UINT8;
    image.layout = STOKER_IMAGE_HWC;
    image.resize = STOKER_IMAGE_STRETCH;
    image.filter = STOKER_IMAGE_BICUBIC;
    image.mode = spec->mode == STOKER_PATCHES_FAST ? STOKER_IMAGE_FAST : STOKER_IMAGE_EXACT;
    image.alpha = spec->alpha;
    memcpy(image.background, spec->background, sizeof image.background);
    image.ignore_orientation = spec->ignore_orientation;
    image.partial = spec->partial;
    image.pixels_max = spec->pixels_max;
    return stk_image_form_init(out, &image, err);
}

static stoker_status check_media(const stoker_patch_spec *spec, stoker_error *err)
{
    const stoker_frame_rule *frames = &spec->frames;
    if ((unsigned)spec->media > STOKER_PATCHES_OF_IMAGES)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "media %d are neither videos nor images", (int)spec->media);
    if (spec->media == STOKER_PATCHES_OF_VIDEOS) {
        if (spec->alpha || spec->background[0] || spec->background[1] || spec->background[2] ||
            spec->ignore_orientation || spec->partial || spec->pixels_max)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "alpha, background, ignore_orientation, partial and pixels_max are for images");
        return stk_fit_check_frames(frames, err);
    }
    if (frames->choice || frames->frames || frames->rate != 0 || frames->frames_min || frames->frames_max ||
        frames->group || spec->damaged_max != 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "frames and damaged_max are for videos");
    if (spec->partial == STOKER_IMAGE_PARTIAL_MARK)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "samples of patches cannot mark damaged images");
    struct stk_image_form unused;
    return image_form(spec, 1, 1, &unused, err);
}

stoker_status stk_patch_form_init(struct stk_patch_form *form, const stoker_patch_spec *spec, stoker_error *err)
{
    if (!spec) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "no form is given");
    if (spec->struct_size != sizeof *spec)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the form has %u bytes, this library knows %zu", spec->struct_size,
                        sizeof *spec);
    if ((unsigned)spec->mode > STOKER_PATCHES_FAST)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "mode %d is none of exact, fast", (int)spec->mode);
    STK_TRY(stk_fit_check_rule(&spec->rule, err));
    STK_TRY(check_media(spec, err));
    form->spec = *spec;
    if (spec->dtype == STOKER_DTYPE_DEFAULT) form->spec.dtype = STOKER_DTYPE_FLOAT32;
    stoker_video_spec values = STOKER_VIDEO_SPEC_INIT;
    values.frames = values.width = values.height = 1;
    values.dtype = form->spec.dtype;
    values.short_clip = spec->short_clip;
    values.damaged_max = spec->damaged_max;
    memcpy(values.mean, spec->mean, sizeof values.mean);
    memcpy(values.std, spec->std, sizeof values.std);
    return stk_form_init(&form->values, &values, err);
}

stoker_status stk_patch_form_plan(const struct stk_patch_form *form, const stoker_clip_facts *facts,
                                  uint32_t *out_frames, stoker_patch_plan *out_plan, stoker_error *err)
{
    uint32_t count = 1;
    if (facts->width == 0 || facts->height == 0 || facts->frames == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "nothing was known of the pictures in this file when the source was made");
    stoker_status status = STOKER_OK;
    if (form->spec.media == STOKER_PATCHES_OF_VIDEOS)
        status = stoker_frames_count(&form->spec.frames, facts, &count, err);
    const stoker_clip clip = {count, facts->width, facts->height};
    if (status == STOKER_OK) status = stoker_patch_plan_clip(&form->spec.rule, &clip, out_plan, err);
    *out_frames = count;
    if (status == STOKER_OK) return STOKER_OK;
    /* The form was checked: whatever it is, the file has it, and not the caller. */
    if (err) err->status = STOKER_ERR_CORRUPT;
    return STOKER_ERR_CORRUPT;
}

/* --------------------------------------------------------------------------------------------------------------- maker
 */

stoker_status stk_patch_maker_create(struct stk_patch_maker **out_maker, stoker_error *err)
{
    struct stk_patch_maker *maker = calloc(1, sizeof *maker);
    if (!maker) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    *out_maker = maker;
    return STOKER_OK;
}

void stk_patch_maker_destroy(struct stk_patch_maker *maker)
{
    if (!maker) return;
    stk_decoder_destroy(maker->decoder);
    stk_image_decoder_destroy(maker->images);
    stk_filter_room_fini(&maker->filter);
    stk_patch_room_fini(&maker->lines);
    stk_patch_room_fini(&maker->picture);
    free(maker);
}

static void drop_large(struct stk_patch_maker *maker)
{
    if (maker->picture.size > KEEP_BYTES) stk_patch_room_fini(&maker->picture);
    if (maker->filter.sizes[0] > KEEP_BYTES || maker->filter.sizes[1] > KEEP_BYTES)
        stk_filter_room_fini(&maker->filter);
}

/* One clip on its way. */
struct work {
    struct stk_patch_maker *maker;
    const struct stk_patch_form *form;
    const stoker_clip_facts *facts;
    struct stk_patch_writer writer;
    void *pixels;
};

/* An RGB frame of the file, of whatever size, as one frame of the sample. */
static stoker_status take_frame(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                                stoker_error *err)
{
    struct work *work = user;
    const stoker_patch_plan *plan = &work->writer.plan;
    struct stk_filtered scaled = {rgb, (size_t)width * 3};
    if (width != plan->width || height != plan->height) {
        const struct stk_filter_spec spec = {.from_width = width,
                                             .from_height = height,
                                             .extent_width = width,
                                             .extent_height = height,
                                             .orientation = 1,
                                             .filter = STOKER_IMAGE_BICUBIC,
                                             .to_width = plan->width,
                                             .to_height = plan->height,
                                             .keep = {0, 0, plan->width, plan->height}};
        STK_TRY(stk_filter_run(&spec, rgb, (size_t)width * 3, &work->maker->filter, &scaled, err));
    }
    return stk_patches_store(&work->writer, (uint32_t)position, scaled.rgb, scaled.stride, &work->maker->lines,
                             work->pixels, err);
}

static stoker_status read_frames(struct work *work, const struct stk_file *file, const uint64_t *indices,
                                 stoker_error *err)
{
    stoker_frame_list list = {.indices = indices, .count = work->writer.frames};
    if (work->form->spec.mode == STOKER_PATCHES_FAST)
        list.width = work->writer.plan.width, list.height = work->writer.plan.height;
    return stk_decoder_frames(work->maker->decoder, file, &list, take_frame, work, err);
}

static stoker_status check_loss(const struct work *work, uint64_t found, stoker_error *err)
{
    const uint64_t promised = work->facts->frames;
    if (found == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "none of %llu frames can be decoded", (unsigned long long)promised);
    if (work->form->spec.short_clip == STOKER_SHORT_ERROR)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the file has %llu frames, %llu were described",
                        (unsigned long long)found, (unsigned long long)promised);
    if ((double)(promised - found) > work->form->values.damaged_max * (double)promised)
        return stk_fail(err, STOKER_ERR_CORRUPT, "only %llu of %llu frames can be decoded, allowed loss %g",
                        (unsigned long long)found, (unsigned long long)promised, work->form->values.damaged_max);
    return STOKER_OK;
}

/* Fewer frames came out than the file promised: the same indices again, the last frame for those past the end. */
static stoker_status read_what_is_there(struct work *work, const struct stk_file *file, uint64_t *indices,
                                        uint64_t *out_found, stoker_error *err)
{
    uint64_t found = 0;
    STK_TRY(stk_decoder_count(work->maker->decoder, file, &found, err));
    if (found >= work->facts->frames)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the number of frames differs between two decodes");
    STK_TRY(check_loss(work, found, err));
    for (uint32_t i = 0; i < work->writer.frames; i++)
        if (indices[i] >= found) indices[i] = found - 1;
    *out_found = found;
    return read_frames(work, file, indices, err);
}

static stoker_status make_clip(struct work *work, const struct stk_file *file, uint64_t *out_found, stoker_error *err)
{
    const stoker_patch_spec *spec = &work->form->spec;
    const uint32_t count = work->writer.frames;
    if (!work->maker->decoder) STK_TRY(stk_decoder_create(&work->maker->decoder, err));
    if (work->facts->frames < count && spec->short_clip == STOKER_SHORT_ERROR)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the clip has %llu frames, %u are wanted",
                        (unsigned long long)work->facts->frames, count);
    uint64_t *indices = calloc(count, sizeof *indices);
    if (!indices) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %u frames", count);
    for (uint32_t i = 0; i < count; i++) {
        const stoker_frame_place place = {work->facts->frames, count, i};
        indices[i] = stoker_frames_index(spec->frames.choice, &place);
    }
    stoker_error first = {0};
    stoker_status status = read_frames(work, file, indices, &first);
    *out_found = work->facts->frames;
    if (status == STOKER_ERR_INVALID_ARGUMENT) /* an index past the last frame that came out */
        status = read_what_is_there(work, file, indices, out_found, err);
    else if (status < 0 && err)
        *err = first;
    free(indices);
    return status;
}

static stoker_status make_picture(struct work *work, const struct stk_file *file, stoker_error *err)
{
    struct stk_patch_maker *maker = work->maker;
    const stoker_patch_plan *plan = &work->writer.plan;
    struct stk_image_form form;
    if (!maker->images) STK_TRY(stk_image_decoder_create(&maker->images, err));
    STK_TRY(image_form(&work->form->spec, plan->width, plan->height, &form, err));
    const size_t size = form.values.sample_bytes;
    if (maker->picture.size < size + STK_FILTER_SLACK) {
        stk_patch_room_fini(&maker->picture);
        maker->picture.data = malloc(size + STK_FILTER_SLACK);
        if (!maker->picture.data)
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a picture of %ux%u", plan->width, plan->height);
        maker->picture.size = size + STK_FILTER_SLACK;
    }
    STK_TRY(stk_image_decoder_file(maker->images, file, &form, 0, maker->picture.data, size, NULL, err));
    return take_frame(work, 0, maker->picture.data, plan->width, plan->height, err);
}

stoker_status stk_patch_maker_run(struct stk_patch_maker *maker, const struct stk_file *file,
                                  const struct stk_patch_form *form, const stoker_clip_facts *facts,
                                  const struct stk_patch_target *target, uint64_t *out_frames, stoker_error *err)
{
    struct work work = {.maker = maker, .form = form, .facts = facts, .pixels = target->pixels};
    STK_TRY(stk_patch_form_plan(form, facts, &work.writer.frames, &work.writer.plan, err));
    work.writer.rule = form->spec.rule;
    work.writer.values = &form->values;
    uint64_t found = 1;
    stoker_status status = form->spec.media == STOKER_PATCHES_OF_VIDEOS ? make_clip(&work, file, &found, err)
                                                                        : make_picture(&work, file, err);
    drop_large(maker);
    if (status < 0) return status;
    const stoker_patch_plan *plan = &work.writer.plan;
    target->grid[0] = plan->grid_t, target->grid[1] = plan->grid_h, target->grid[2] = plan->grid_w;
    *out_frames = found;
    return STOKER_OK;
}
