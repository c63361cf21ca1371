/* SPDX-License-Identifier: Apache-2.0
 *
 * Images into samples: see image.h.
 */
#include "media/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/filter.h"
#include "media/image_codec.h"
#include "media/image_head.h"
#include "media/look.h"

/* Scratch memory above this is given back after the image that needed it. */
#define KEEP_BYTES ((size_t)64 << 20)
/* An eighth would be the mean of each block as the JPEG has quantised it: 2 to 3 levels off, a quarter is 1. */
#define REDUCE_MAX 4u

struct stk_image_decoder {
    struct stk_pixel_room file, pixels, planes;
    struct stk_filter_room filter;
    struct stk_look_room look;
    struct stk_codecs codecs;
};

/* ---------------------------------------------------------------------------------------------------------------- form
 */

static stoker_status check_choices(const stoker_image_spec *spec, stoker_error *err)
{
    if ((unsigned)spec->layout > STOKER_IMAGE_HWC)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "layout %d is none of CHW, HWC", (int)spec->layout);
    if ((unsigned)spec->resize > STOKER_IMAGE_PAD)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "resize mode %d is not known", (int)spec->resize);
    if ((unsigned)spec->filter > STOKER_IMAGE_BICUBIC)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "filter %d is none of bilinear, bicubic", (int)spec->filter);
    if ((unsigned)spec->mode > STOKER_IMAGE_FAST)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "mode %d is none of exact, fast", (int)spec->mode);
    if ((unsigned)spec->alpha > STOKER_IMAGE_ALPHA_COMPOSITE)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "alpha rule %d is none of drop, composite", (int)spec->alpha);
    if (spec->alpha == STOKER_IMAGE_ALPHA_DROP && (spec->background[0] || spec->background[1] || spec->background[2]))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a background is given, but alpha is dropped");
    if ((unsigned)spec->partial > STOKER_IMAGE_PARTIAL_MARK)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "partial rule %d is none of refuse, accept, mark",
                        (int)spec->partial);
    if (spec->ignore_orientation > 1)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "ignore_orientation is %u, expected 0 or 1",
                        spec->ignore_orientation);
    if (spec->pixels_max > STK_IMAGE_PIXELS_LARGEST)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "pixels_max is %u, expected at most %u", spec->pixels_max,
                        STK_IMAGE_PIXELS_LARGEST);
    return STOKER_OK;
}

static stoker_status fill_values(struct stk_form *values, const stoker_image_spec *spec, uint32_t width,
                                 uint32_t height, stoker_error *err)
{
    stoker_video_spec frame = STOKER_VIDEO_SPEC_INIT;
    frame.frames = 1, frame.width = width, frame.height = height;
    frame.dtype = spec->dtype;
    frame.layout = spec->layout == STOKER_IMAGE_HWC ? STOKER_LAYOUT_THWC : STOKER_LAYOUT_TCHW;
    memcpy(frame.mean, spec->mean, sizeof frame.mean);
    memcpy(frame.std, spec->std, sizeof frame.std);
    return stk_form_init(values, &frame, err);
}

stoker_status stk_image_form_init(struct stk_image_form *form, const stoker_image_spec *spec, stoker_error *err)
{
    if (!spec) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "no form is given");
    if (spec->struct_size != sizeof *spec)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the form has %u bytes, this library knows %zu", spec->struct_size,
                        sizeof *spec);
    STK_TRY(check_choices(spec, err));
    bool keep = spec->resize == STOKER_IMAGE_KEEP;
    stoker_augment augment;
    STK_TRY(stk_augment_init(&augment, &spec->augment, err));
    if (augment.crop == STOKER_CROP_RANDOM && spec->resize == STOKER_IMAGE_PAD)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "a padded picture fits whole: it cannot be cropped at random");
    form->looks = spec->resize == STOKER_IMAGE_PAD || stk_augment_is_random(&augment);
    if (keep && form->looks)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the size of the file is kept, but something is random");
    if (keep && (spec->width || spec->height))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "size is %ux%u, but the size of the file is kept",
                        spec->width, spec->height);
    form->spec = *spec;
    form->spec.augment = augment;
    if (!spec->pixels_max) form->spec.pixels_max = STK_IMAGE_PIXELS_MAX;
    return fill_values(&form->values, spec, keep ? 1 : spec->width, keep ? 1 : spec->height, err);
}

/* -------------------------------------------------------------------------------------------------------------- memory
 */

static stoker_status room_for(struct stk_pixel_room *room, size_t size, stoker_error *err)
{
    STK_ASSERT(room);
    if (size <= room->size) return STOKER_OK;
    free(room->data);
    room->data = malloc(size);
    room->size = room->data ? size : 0;
    return room->data ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an image (%zu bytes)", size);
}

static void room_fini(struct stk_pixel_room *room)
{
    free(room->data);
    memset(room, 0, sizeof *room);
}

stoker_status stk_pixels_reserve(const struct stk_image_job *job, uint32_t channels, uint32_t reduce, bool cleared,
                                 struct stk_pixels *out, stoker_error *err)
{
    struct stk_pixels pixels = {.channels = channels};
    pixels.width = (job->head->width + reduce - 1) / reduce, pixels.height = (job->head->height + reduce - 1) / reduce;
    size_t size;
    if (!stk_mul_size(pixels.width, channels, &pixels.stride) || !stk_mul_size(pixels.stride, pixels.height, &size) ||
        !stk_add_size(size, STK_FILTER_SLACK, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a picture of %ux%u is too large", pixels.width, pixels.height);
    STK_TRY(room_for(job->room, size, err));
    pixels.data = job->room->data;
    if (cleared) memset(pixels.data, 0, size);
    *out = pixels;
    return STOKER_OK;
}

stoker_status stk_image_decoder_create(struct stk_image_decoder **out_decoder, stoker_error *err)
{
    struct stk_image_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    *out_decoder = decoder;
    return STOKER_OK;
}

static void drop_large(struct stk_image_decoder *decoder)
{
    if (decoder->file.size > KEEP_BYTES) room_fini(&decoder->file);
    if (decoder->pixels.size > KEEP_BYTES) room_fini(&decoder->pixels);
    if (decoder->planes.size > KEEP_BYTES) room_fini(&decoder->planes);
    if (decoder->look.planes_size > KEEP_BYTES) stk_look_room_fini(&decoder->look);
    if (decoder->filter.sizes[0] > KEEP_BYTES || decoder->filter.sizes[1] > KEEP_BYTES)
        stk_filter_room_fini(&decoder->filter);
}

void stk_image_decoder_destroy(struct stk_image_decoder *decoder)
{
    if (!decoder) return;
    room_fini(&decoder->file);
    room_fini(&decoder->pixels);
    room_fini(&decoder->planes);
    stk_filter_room_fini(&decoder->filter);
    stk_look_room_fini(&decoder->look);
    stk_jpeg_close(decoder->codecs.jpeg);
    free(decoder);
}

/* -------------------------------------------------------------------------------------------------------------- decode
 */

bool stk_image_available(stoker_image_format format)
{
    switch (format) {
    case STOKER_IMAGE_JPEG: return stk_jpeg_available();
    case STOKER_IMAGE_PNG: return stk_png_available();
    case STOKER_IMAGE_WEBP: return stk_webp_available();
    case STOKER_IMAGE_GIF: return true;
    }
    return false;
}

static bool is_sideways(int32_t orientation) { return orientation >= 5; }

/* One image on its way. */
struct work {
    const struct stk_image_form *form;
    struct stk_image_head head;
    int32_t orientation; /* that is applied */
    uint32_t seen_width, seen_height;
    struct stk_form values; /* the sample's size, type and layout */
    struct stk_filter_spec filter;
    uint32_t reduce;
    uint64_t draw;
    struct stk_look look; /* if the form has one */
};

static stoker_resize_mode resize_of(const stoker_image_spec *spec)
{
    switch (spec->resize) {
    case STOKER_IMAGE_STRETCH: return STOKER_RESIZE_EXACT;
    case STOKER_IMAGE_PAD: return STOKER_RESIZE_PAD;
    default: return STOKER_RESIZE_SHORT_SIDE_CROP;
    }
}

static stoker_status check_head(struct work *work, size_t size, stoker_error *err)
{
    const stoker_image_spec *spec = &work->form->spec;
    const struct stk_image_head *head = &work->head;
    uint64_t pixels = (uint64_t)head->width * head->height;
    if (head->width > STK_SAMPLE_SIDE_MAX || head->height > STK_SAMPLE_SIDE_MAX || pixels > spec->pixels_max)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the %s header says %ux%u pixels, allowed are %u a side and %u in all",
                        stk_image_format_name(head->format), head->width, head->height, STK_SAMPLE_SIDE_MAX,
                        spec->pixels_max);
    if (!head->whole && spec->partial == STOKER_IMAGE_PARTIAL_REFUSE)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the %s file ends at byte %zu, before the end of its picture",
                        stk_image_format_name(head->format), size);
    work->orientation = spec->ignore_orientation ? 1 : head->orientation;
    bool sideways = is_sideways(work->orientation);
    work->seen_width = sideways ? head->height : head->width;
    work->seen_height = sideways ? head->width : head->height;
    return STOKER_OK;
}

/* Reduced, a side is 1.5 times what is wanted or more: the filter still has something to average. */
static bool still_larger(uint32_t side, uint32_t wanted, uint32_t reduce)
{
    return (uint64_t)side * 2 >= (uint64_t)wanted * 3 * reduce;
}

/* Which size to scale to, what to keep of it, and how far a JPEG may be reduced before. */
static stoker_status plan(struct work *work, stoker_error *err)
{
    const stoker_image_spec *spec = &work->form->spec;
    const struct stk_image_head *head = &work->head;
    struct stk_fit fit = {work->seen_width, work->seen_height, {0, 0, work->seen_width, work->seen_height}};
    if (spec->resize == STOKER_IMAGE_KEEP) {
        STK_TRY(fill_values(&work->values, spec, work->seen_width, work->seen_height, err));
    } else {
        work->values = work->form->values;
        /* What the long side becomes; only the kept part of it is ever made. */
        uint64_t wide = (uint64_t)work->seen_width * spec->height / work->seen_height;
        uint64_t high = (uint64_t)work->seen_height * spec->width / work->seen_width;
        if (spec->resize == STOKER_IMAGE_SHORT_SIDE_CROP &&
            (wide > STK_IMAGE_SCALED_MAX || high > STK_IMAGE_SCALED_MAX))
            return stk_fail(err, STOKER_ERR_CORRUPT, "a picture of %ux%u cannot be scaled to a short side of %ux%u",
                            work->seen_width, work->seen_height, spec->width, spec->height);
        if (work->form->looks) {
            work->look = stk_look_plan(resize_of(spec), &spec->augment, work->draw,
                                       (struct stk_extent){work->seen_width, work->seen_height},
                                       (struct stk_extent){spec->width, spec->height});
            fit = stk_look_fit(&work->look, 0);
        } else {
            fit = stk_fit_picture(resize_of(spec), work->seen_width, work->seen_height, 0, spec->width, spec->height);
        }
    }
    work->reduce = 1;
    bool whole = !work->form->looks || spec->augment.crop != STOKER_CROP_RESIZED;
    if (whole && spec->mode == STOKER_IMAGE_FAST && head->format == STOKER_IMAGE_JPEG)
        while (work->reduce < REDUCE_MAX && still_larger(work->seen_width, fit.scaled_width, work->reduce * 2) &&
               still_larger(work->seen_height, fit.scaled_height, work->reduce * 2))
            work->reduce *= 2;
    work->filter = (struct stk_filter_spec){.orientation = work->orientation,
                                            .filter = spec->filter,
                                            .to_width = fit.scaled_width,
                                            .to_height = fit.scaled_height,
                                            .keep = fit.keep};
    return STOKER_OK;
}

static uint8_t over(uint32_t colour, uint32_t background, uint32_t alpha)
{
    uint32_t sum = colour * alpha + background * (255 - alpha) + 128;
    return (uint8_t)((sum + (sum >> 8)) >> 8);
}

/* RGBA to RGB over a colour, in place. */
static void composite(struct stk_pixels *pixels, const uint8_t background[3])
{
    for (uint32_t y = 0; y < pixels->height; y++) {
        const uint8_t *in = pixels->data + y * pixels->stride;
        uint8_t *out = pixels->data + y * pixels->stride;
        for (uint32_t x = 0; x < pixels->width; x++, in += 4, out += 3) {
            uint32_t alpha = in[3];
            for (int c = 0; c < 3; c++) out[c] = over(in[c], background[c], alpha);
        }
    }
    pixels->channels = 3;
}

static stoker_status decode(struct stk_image_decoder *decoder, const stoker_image_bytes *bytes, struct work *work,
                            struct stk_pixels *out, stoker_error *err)
{
    const stoker_image_spec *spec = &work->form->spec;
    const struct stk_image_job job = {.data = bytes->data,
                                      .size = bytes->size,
                                      .head = &work->head,
                                      .codecs = &decoder->codecs,
                                      .room = &decoder->pixels,
                                      .reduce = work->reduce,
                                      .alpha = spec->alpha == STOKER_IMAGE_ALPHA_COMPOSITE,
                                      .accept_partial = spec->partial != STOKER_IMAGE_PARTIAL_REFUSE};
    switch (work->head.format) {
    case STOKER_IMAGE_JPEG: return stk_jpeg_decode(&job, out, err);
    case STOKER_IMAGE_PNG: return stk_png_decode(&job, out, err);
    case STOKER_IMAGE_WEBP: return stk_webp_decode(&job, out, err);
    case STOKER_IMAGE_GIF: return stk_gif_decode(&job, out, err);
    }
    return stk_fail(err, STOKER_ERR_INTERNAL, "image format %d", (int)work->head.format);
}

/* ----------------------------------------------------------------------------------------------------------------- run
 */

static stoker_status store(struct stk_image_decoder *decoder, const struct work *work, const struct stk_filtered *from,
                           uint8_t *dst, stoker_error *err)
{
    const struct stk_form *values = &work->values;
    const uint32_t width = values->width, height = values->height;
    bool bytes = values->value_bytes == 1, apart = values->layout == STOKER_LAYOUT_TCHW;
    size_t plane = (size_t)width * height;
    if (bytes && !apart) {
        for (uint32_t y = 0; y < height; y++)
            memcpy(dst + (size_t)y * width * 3, from->rgb + y * from->stride, (size_t)width * 3);
        return STOKER_OK;
    }
    uint8_t *base = dst;
    if (!bytes) {
        STK_TRY(room_for(&decoder->planes, plane * 3, err)); /* less than the sample, whose size was checked */
        base = decoder->planes.data;
    }
    uint8_t *const planes[3] = {base, base + plane, base + 2 * plane};
    stk_filter_split(from, width, height, planes);
    const struct stk_planes split = {{planes[0], planes[1], planes[2]}, width};
    if (!bytes) stk_form_store(values, &split, dst, 0);
    return STOKER_OK;
}

/* A decoded picture that is more than scaled and cut in the middle. */
static stoker_status run_look(struct stk_image_decoder *decoder, struct work *work, const struct stk_pixels *pixels,
                              uint8_t *dst, stoker_error *err)
{
    const struct stk_look *look = &work->look;
    struct stk_filtered scaled = {NULL, 0};
    struct stk_planes planes;
    const uint8_t *from = pixels->data;
    if (work->form->spec.augment.crop == STOKER_CROP_RESIZED) {
        const struct stk_rectangle part =
            stk_look_stored(look, (struct stk_extent){work->seen_width, work->seen_height}, work->orientation);
        from += part.y * pixels->stride + (size_t)part.x * 3;
        work->filter.from_width = part.width, work->filter.from_height = part.height;
        work->filter.extent_width = part.width, work->filter.extent_height = part.height;
    }
    if (look->keep.width) STK_TRY(stk_filter_run(&work->filter, from, pixels->stride, &decoder->filter, &scaled, err));
    if (stk_look_is_plain(look)) return store(decoder, work, &scaled, dst, err);
    STK_TRY(stk_look_finish(look, NULL, &scaled, &decoder->look, &planes, err));
    stk_form_store(&work->values, &planes, dst, 0);
    return STOKER_OK;
}

static stoker_status run(struct stk_image_decoder *decoder, const stoker_image_bytes *bytes, struct work *work,
                         uint8_t *dst, bool *out_partial, stoker_error *err)
{
    struct stk_pixels pixels = {0};
    struct stk_filtered scaled;
    stoker_error damage = {0};
    stoker_status status = decode(decoder, bytes, work, &pixels, &damage);
    bool partial = !work->head.whole;
    bool accepted = work->form->spec.partial != STOKER_IMAGE_PARTIAL_REFUSE;
    if (status == STOKER_ERR_CORRUPT && pixels.usable && accepted) {
        partial = true;
    } else if (status < 0) {
        if (err) *err = damage;
        return status;
    }
    if (pixels.channels == 4) composite(&pixels, work->form->spec.background);
    work->filter.from_width = pixels.width, work->filter.from_height = pixels.height;
    work->filter.extent_width = (double)work->head.width / work->reduce;
    work->filter.extent_height = (double)work->head.height / work->reduce;
    *out_partial = partial;
    if (work->form->looks) return run_look(decoder, work, &pixels, dst, err);
    STK_TRY(stk_filter_run(&work->filter, pixels.data, pixels.stride, &decoder->filter, &scaled, err));
    return store(decoder, work, &scaled, dst, err);
}

stoker_status stk_image_decoder_run(struct stk_image_decoder *decoder, const stoker_image_bytes *bytes,
                                    const struct stk_image_form *form, uint64_t draw, void *dst, size_t dst_size,
                                    stoker_image_result *out_result, stoker_error *err)
{
    struct work work = {.form = form, .draw = draw};
    bool partial = false;
    STK_TRY(stk_image_head_read(bytes->data, bytes->size, &work.head, err));
    STK_TRY(check_head(&work, bytes->size, err));
    STK_TRY(plan(&work, err));
    if (dst_size != work.values.sample_bytes)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the memory has %zu bytes, the sample of %ux%u pixels %zu",
                        dst_size, work.values.width, work.values.height, work.values.sample_bytes);
    stoker_status status = run(decoder, bytes, &work, dst, &partial, err);
    drop_large(decoder);
    if (status == STOKER_OK && out_result)
        *out_result = (stoker_image_result){.width = work.values.width,
                                            .height = work.values.height,
                                            .partial = partial,
                                            .reduced = work.reduce,
                                            .bytes_read = bytes->size};
    return status;
}

static stoker_status read_whole(struct stk_pixel_room *room, const struct stk_file *file, stoker_image_bytes *out,
                                stoker_error *err)
{
    if (file->size > STK_IMAGE_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the file has %llu bytes, allowed for an image are %llu",
                        (unsigned long long)file->size, (unsigned long long)STK_IMAGE_BYTES_MAX);
    size_t got = 0;
    STK_TRY(room_for(room, file->size ? (size_t)file->size : 1, err));
    STK_TRY(stk_file_read(file, 0, room->data, (size_t)file->size, &got, err));
    *out = (stoker_image_bytes){room->data, got};
    return STOKER_OK;
}

stoker_status stk_image_decoder_file(struct stk_image_decoder *decoder, const struct stk_file *file,
                                     const struct stk_image_form *form, uint64_t draw, void *dst, size_t dst_size,
                                     stoker_image_result *out_result, stoker_error *err)
{
    stoker_image_bytes bytes = {NULL, 0};
    STK_TRY(read_whole(&decoder->file, file, &bytes, err));
    return stk_image_decoder_run(decoder, &bytes, form, draw, dst, dst_size, out_result, err);
}

/* -------------------------------------------------------------------------------------------------------------- public
 */

static void fill_info(const struct stk_image_head *head, uint64_t size, int64_t mtime_ns, stoker_image_info *out)
{
    bool sideways = is_sideways(head->orientation);
    memset(out, 0, sizeof *out);
    out->format = head->format;
    out->width = sideways ? head->height : head->width, out->height = sideways ? head->width : head->height;
    out->orientation = head->orientation;
    out->channels = head->channels, out->bit_depth = head->bit_depth;
    out->bytes = size, out->mtime_ns = mtime_ns;
}

stoker_status stoker_image_probe_bytes(const void *data, size_t size, stoker_image_info *out_info, stoker_error *err)
{
    struct stk_image_head head;
    if (!out_info || (size && !data))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "data and out_info must be given");
    STK_TRY(stk_image_head_read(data, size, &head, err));
    fill_info(&head, size, 0, out_info);
    return STOKER_OK;
}

stoker_status stoker_image_probe(const char *path, stoker_image_info *out_info, stoker_error *err)
{
    struct stk_file file;
    struct stk_pixel_room room = {0};
    struct stk_image_head head;
    stoker_image_bytes bytes = {NULL, 0};
    if (!path || !out_info) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and out_info must be given");
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = read_whole(&room, &file, &bytes, err);
    if (status == STOKER_OK) status = stk_image_head_read(bytes.data, bytes.size, &head, err);
    if (status == STOKER_OK)
        fill_info(&head, file.size, file.mtime_ns, out_info);
    else
        stk_error_context(err, "%s", path);
    room_fini(&room);
    stk_file_close(&file);
    return status;
}

size_t stoker_image_sample_bytes(const stoker_image_spec *spec, const stoker_image_info *info)
{
    struct stk_image_form form;
    if (stk_image_form_init(&form, spec, NULL) < 0) return 0;
    if (spec->resize != STOKER_IMAGE_KEEP) return form.values.sample_bytes;
    if (!info) return 0;
    bool turned = spec->ignore_orientation && is_sideways(info->orientation);
    struct stk_form values;
    stoker_status status =
        fill_values(&values, spec, turned ? info->height : info->width, turned ? info->width : info->height, NULL);
    return status < 0 ? 0 : values.sample_bytes;
}

stoker_status stoker_image_decode(const stoker_image_bytes *bytes, const stoker_image_spec *spec, void *dst,
                                  size_t dst_size, stoker_image_result *out_result, stoker_error *err)
{
    struct stk_image_form form;
    struct stk_image_decoder *decoder = NULL;
    if (!bytes || !dst || (bytes->size && !bytes->data))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "bytes and dst must be given");
    STK_TRY(stk_image_form_init(&form, spec, err));
    STK_TRY(stk_image_decoder_create(&decoder, err));
    stoker_status status = stk_image_decoder_run(decoder, bytes, &form, 0, dst, dst_size, out_result, err);
    stk_image_decoder_destroy(decoder);
    return status;
}

stoker_status stoker_image_read(const char *path, const stoker_image_spec *spec, void *dst, size_t dst_size,
                                stoker_image_result *out_result, stoker_error *err)
{
    struct stk_file file;
    struct stk_image_form form;
    struct stk_image_decoder *decoder = NULL;
    if (!path || !dst) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and dst must be given");
    STK_TRY(stk_image_form_init(&form, spec, err));
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_image_decoder_create(&decoder, err);
    if (status == STOKER_OK) status = stk_image_decoder_file(decoder, &file, &form, 0, dst, dst_size, out_result, err);
    stk_image_decoder_destroy(decoder);
    stk_file_close(&file);
    if (status < 0) stk_error_context(err, "%s", path);
    return status;
}
