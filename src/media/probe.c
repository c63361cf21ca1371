/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of a file from its packet table, and the public entry points over one file by name.
 */
#include <stdlib.h>
#include <string.h>

#include <stoker/media.h>

#include "base/error.h"
#include "media/decode.h"
#include "media/ffmpeg.h"
#include "store/file.h"

/* The first frame is decoded from memory if the file is small: reading on is cheaper than reading again. */
#define LOOK_KEEP_BYTES ((uint64_t)8 << 20)

static void fill_info(stoker_media_info *info, const struct stk_av *av, const struct stk_file *file)
{
    const struct stk_av_facts *facts = stk_av_facts(av);
    bool turned = facts->rotation == 90 || facts->rotation == 270;
    memcpy(info->codec, facts->codec, sizeof info->codec);
    info->width = turned ? facts->height : facts->width;
    info->height = turned ? facts->width : facts->height;
    info->rotation = facts->rotation;
    info->frames = stk_av_table(av)->shown_count;
    info->duration_s = stk_av_duration(av);
    info->bytes = file->size;
    info->mtime_ns = file->mtime_ns;
}

static void fill_look(stoker_media_info *info, const struct stk_av_look *look)
{
    info->sar_num = look->sar_num;
    info->sar_den = look->sar_den;
    memcpy(info->pixel_format, look->pixel_format, sizeof info->pixel_format);
    info->bit_depth = look->bit_depth;
    memcpy(info->matrix, look->matrix, sizeof info->matrix);
    memcpy(info->range, look->range, sizeof info->range);
    info->interlaced = look->interlaced;
    info->alpha = look->alpha;
}

static stoker_status read_info(const struct stk_file *file, stoker_media_info *out_info, stoker_error *err)
{
    struct stk_av *av = NULL;
    STK_TRY(stk_av_open(file, &av, err));
    struct stk_av_look look;
    stoker_status status = stk_av_scan(av, LOOK_KEEP_BYTES, err);
    if (status == STOKER_OK) status = stk_av_look(av, &look, err);
    if (status == STOKER_OK) {
        memset(out_info, 0, sizeof *out_info);
        fill_look(out_info, &look);
        fill_info(out_info, av, file);
        if (out_info->width == 0 || out_info->height == 0)
            status = stk_fail(err, STOKER_ERR_CORRUPT, "the video stream does not say how large its pictures are");
    }
    stk_av_close(av);
    return status;
}

static stoker_status count_frames(const struct stk_file *file, uint64_t *out_frames, stoker_error *err)
{
    struct stk_decoder *decoder = NULL;
    STK_TRY(stk_decoder_create(&decoder, err));
    stoker_status status = stk_decoder_count(decoder, file, out_frames, err);
    stk_decoder_destroy(decoder);
    return status;
}

stoker_status stoker_media_probe(const char *path, uint32_t flags, stoker_media_info *out_info, stoker_error *err)
{
    if (!path || !out_info) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and out_info must be given");
    if (flags & ~(uint32_t)STOKER_PROBE_EXACT)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "flags %#x are not known", flags);
    struct stk_file file;
    stoker_media_info info;
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = read_info(&file, &info, err);
    if (status == STOKER_OK && (flags & STOKER_PROBE_EXACT) && info.frames > 0)
        status = count_frames(&file, &info.frames, err);
    stk_file_close(&file);
    if (status < 0) {
        stk_error_context(err, "%s", path);
        return status;
    }
    *out_info = info;
    return STOKER_OK;
}

size_t stoker_video_sample_bytes(const stoker_video_spec *spec)
{
    struct stk_form form;
    return stk_form_init(&form, spec, NULL) == STOKER_OK ? form.sample_bytes : 0;
}

stoker_status stoker_video_read(const char *path, const stoker_video_spec *spec, void *dst,
                                stoker_video_result *out_result, stoker_error *err)
{
    struct stk_form form;
    struct stk_file file;
    struct stk_decoder *decoder = NULL;
    if (!path || !dst) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and dst must be given");
    STK_TRY(stk_form_init(&form, spec, err));
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_decoder_create(&decoder, err);
    if (status == STOKER_OK) status = stk_decoder_video(decoder, &file, &form, 0, NULL, dst, out_result, err);
    if (status < 0) stk_error_context(err, "%s", path);
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
    return status;
}

stoker_status stoker_frames_read(const char *path, const stoker_frame_list *list, stoker_frame_fn frame_fn, void *user,
                                 stoker_error *err)
{
    struct stk_file file;
    struct stk_decoder *decoder = NULL;
    if (!path || !list || !frame_fn)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path, list and frame_fn must be given");
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_decoder_create(&decoder, err);
    if (status == STOKER_OK) status = stk_decoder_frames(decoder, &file, list, frame_fn, user, err);
    if (status < 0) stk_error_context(err, "%s", path);
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
    return status;
}

stoker_status stoker_frames_plan(const char *path, const stoker_frame_list *list, stoker_plan **out_plan,
                                 stoker_error *err)
{
    struct stk_file file;
    struct stk_decoder *decoder = NULL;
    if (!path || !list || !out_plan)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path, list and out_plan must be given");
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_decoder_create(&decoder, err);
    if (status == STOKER_OK) status = stk_decoder_plan(decoder, &file, list, out_plan, err);
    if (status < 0) stk_error_context(err, "%s", path);
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
    return status;
}
