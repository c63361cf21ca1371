/* SPDX-License-Identifier: Apache-2.0
 *
 * Native video sources: a list of files (files.h) and one form of a video. Lists of images have the same kind and
 * another magic; they are opened here and belong to image.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/decode_known.h"
#include "media/decode_work.h"
#include "media/transform.h"
#include "source/blob.h"
#include "source/files.h"
#include "source/listed.h"
#include "source/source_internal.h"
#include "source/work.h"
#include "store/file.h"
#include "sys/shmem.h"
#include "sys/thread.h"

#define MAGIC 0x564b5453u /* "STKV" in a dump */
#define VERSION 3u
enum { MODE_AT = 132, AUGMENT_AT = 144, FORM_BYTES = AUGMENT_AT + STK_BLOB_AUGMENT_BYTES };
static const struct stk_files_kind video_files = {MAGIC, VERSION, FORM_BYTES};

/* Decoders that rest between samples; more threads than that make and drop theirs. */
#define RESTING_MAX 16u
/* Above plain data structures, below nothing: no other lock is taken while it is held. */
#define RANK 50u

struct media_source {
    struct stoker_source base;
    /* fixed after open */
    const uint8_t *blob;
    size_t blob_size;
    struct stk_files files;
    struct stk_form form;
    stoker_descriptor sample;  /* what all descriptors share */
    stoker_manifest *manifest; /* of a list from one, as long as it is the same; else NULL */
    struct stk_mutex *lock;
    /* guarded by lock */
    struct stk_decoder *resting[RESTING_MAX];
    uint32_t resting_count;
    uint32_t *known_frames; /* one entry a file, 0: unknown; made when the first damaged file is met */
};

/* ---------------------------------------------------------------------------------------------------------------- blob
 */

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_form(uint8_t *at, const stoker_video_spec *spec)
{
    const uint32_t words[7] = {spec->frames,
                               spec->width,
                               spec->height,
                               (uint32_t)spec->dtype,
                               (uint32_t)spec->layout,
                               (uint32_t)spec->resize,
                               (uint32_t)spec->short_clip};
    uint64_t damaged_bits;
    memcpy(&damaged_bits, &spec->damaged_max, sizeof damaged_bits);
    memset(at, 0, FORM_BYTES);
    for (int i = 0; i < 7; i++) stk_blob_put32(at + 4 * i, words[i]);
    for (int c = 0; c < 3; c++) {
        stk_blob_put32(at + 28 + 4 * c, float_bits(spec->mean[c]));
        stk_blob_put32(at + 40 + 4 * c, float_bits(spec->std[c]));
    }
    stk_blob_put64(at + 56, damaged_bits); /* 52 to 55, 64 to 71 and 140 to 143 are zero */
    uint64_t fps_bits;
    memcpy(&fps_bits, &spec->fps, sizeof fps_bits);
    stk_blob_put64(at + 72, fps_bits);
    const stoker_picture_options *picture = &spec->picture;
    const uint32_t more[12] = {(uint32_t)spec->sampling,
                               spec->stride,
                               spec->frames_min,
                               spec->frames_max,
                               spec->frame_factor,
                               (uint32_t)spec->rounding,
                               (uint32_t)spec->spread,
                               spec->count_frames,
                               (uint32_t)picture->untagged,
                               picture->apply_sar,
                               picture->ignore_rotation,
                               (uint32_t)picture->alpha};
    for (int i = 0; i < 12; i++) stk_blob_put32(at + 80 + 4 * i, more[i]);
    memcpy(at + 128, picture->background, sizeof picture->background);
    stk_blob_put32(at + MODE_AT, (uint32_t)spec->mode);
    stk_blob_put32(at + MODE_AT + 4, (uint32_t)spec->filter);
    stk_blob_put_augment(at + AUGMENT_AT, &spec->augment);
}

static void get_form(const uint8_t *at, stoker_video_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->struct_size = sizeof *spec;
    spec->frames = stk_blob_get32(at), spec->width = stk_blob_get32(at + 4), spec->height = stk_blob_get32(at + 8);
    spec->dtype = (stoker_dtype)stk_blob_get32(at + 12);
    spec->layout = (stoker_video_layout)stk_blob_get32(at + 16);
    spec->resize = (stoker_resize_mode)stk_blob_get32(at + 20);
    spec->short_clip = (stoker_short_clip)stk_blob_get32(at + 24);
    for (int c = 0; c < 3; c++) {
        spec->mean[c] = bits_float(stk_blob_get32(at + 28 + 4 * c));
        spec->std[c] = bits_float(stk_blob_get32(at + 40 + 4 * c));
    }
    uint64_t damaged_bits = stk_blob_get64(at + 56), fps_bits = stk_blob_get64(at + 72);
    memcpy(&spec->damaged_max, &damaged_bits, sizeof damaged_bits);
    memcpy(&spec->fps, &fps_bits, sizeof fps_bits);
    spec->sampling = (stoker_sampling)stk_blob_get32(at + 80);
    spec->stride = stk_blob_get32(at + 84), spec->frames_min = stk_blob_get32(at + 88);
    spec->frames_max = stk_blob_get32(at + 92), spec->frame_factor = stk_blob_get32(at + 96);
    spec->rounding = (stoker_rounding)stk_blob_get32(at + 100);
    spec->spread = (stoker_spread)stk_blob_get32(at + 104);
    spec->count_frames = stk_blob_get32(at + 108);
    spec->picture.untagged = (stoker_untagged)stk_blob_get32(at + 112);
    spec->picture.apply_sar = stk_blob_get32(at + 116);
    spec->picture.ignore_rotation = stk_blob_get32(at + 120);
    spec->picture.alpha = (stoker_alpha)stk_blob_get32(at + 124);
    memcpy(spec->picture.background, at + 128, sizeof spec->picture.background);
    spec->mode = (stoker_video_mode)stk_blob_get32(at + MODE_AT);
    spec->filter = (stoker_video_filter)stk_blob_get32(at + MODE_AT + 4);
    stk_blob_get_augment(at + AUGMENT_AT, &spec->augment);
}

static stoker_status check_blob(const uint8_t *blob, size_t size, struct stk_files *files, struct stk_form *form,
                                stoker_error *err)
{
    stoker_video_spec spec;
    STK_TRY(stk_files_check(&video_files, blob, size, files, err));
    get_form(blob + STK_FILES_FORM_AT, &spec);
    return stk_form_init(form, &spec, err) < 0 ? stk_files_bad_form(err) : STOKER_OK;
}

stoker_status stk_media_source_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    struct stk_files files;
    struct stk_form form;
    if (stk_image_source_is(blob, size)) return stk_image_source_check(blob, size, err);
    if (stk_audio_source_is(blob, size)) return stk_audio_source_check(blob, size, err);
    if (stk_patch_source_is(blob, size)) return stk_patch_source_check(blob, size, err);
    return check_blob(blob, size, &files, &form, err);
}

/* ----------------------------------------------------------------------------------------------------------------
 * create */

stoker_status stoker_source_create_video(const stoker_path_list *list, const stoker_video_spec *spec,
                                         stoker_source **out_source, stoker_error *err)
{
    struct stk_form form;
    uint8_t bytes[FORM_BYTES];
    int fd = -1;
    if (!list || !out_source || (list->count && !list->paths))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "list and out_source must be given");
    STK_TRY(stk_form_init(&form, spec, err));
    put_form(bytes, spec);
    if (list->count == 1 && stk_listed_is_manifest(list->paths[0]))
        STK_TRY(stk_listed_create(&video_files, bytes, list->paths[0], &fd, err));
    else
        STK_TRY(stk_files_create(&video_files, bytes, list, &fd, err));
    return stk_media_source_open(fd, -1, out_source, err);
}

/* ---------------------------------------------------------------------------------------------------------------- use
 */

static const struct media_source *of(const struct stoker_source *source)
{
    STK_ASSERT(source->kind == STK_SOURCE_MEDIA);
    return (const struct media_source *)source;
}

static uint64_t count_files(const struct stoker_source *source) { return of(source)->files.count; }

static stoker_status describe_file(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                   stoker_error *err)
{
    (void)err; /* the id was checked: nothing can fail */
    const struct media_source *media = of(source);
    *out = media->sample;
    stk_files_describe(&media->files, id, out);
    return STOKER_OK;
}

static bool work_of_file(const struct stoker_source *source, uint64_t id, struct stk_source_work *out)
{
    const struct media_source *media = of(source);
    struct stk_decode_work work;
    struct stk_scan scan;
    uint64_t known = 0;
    if (!stk_listed_scan(&media->files, media->manifest, id, &scan, &known)) return false;
    bool told = stk_decode_work_of_scan(&scan, &media->form, 0, known, &work, NULL) == STOKER_OK;
    if (told) {
        memcpy(out->codec, scan.facts.codec, sizeof out->codec);
        out->pixels = work.pixels;
        out->bytes = work.bytes;
    }
    stk_scan_fini(&scan);
    return told;
}

static stoker_status acquire_decoder(struct media_source *media, uint64_t id, struct stk_decoder **out_decoder,
                                     uint64_t *out_known, stoker_error *err)
{
    struct stk_decoder *decoder = NULL;
    stk_mutex_lock(media->lock);
    if (media->resting_count > 0) decoder = media->resting[--media->resting_count];
    *out_known = media->known_frames ? media->known_frames[id] : 0;
    stk_mutex_unlock(media->lock);
    if (!decoder) STK_TRY(stk_decoder_create(&decoder, err));
    *out_decoder = decoder;
    return STOKER_OK;
}

static void release_decoder(struct media_source *media, uint64_t id, struct stk_decoder *decoder, uint64_t known)
{
    bool remember = known > 0 && known <= UINT32_MAX;
    stk_mutex_lock(media->lock);
    bool first = remember && !media->known_frames;
    stk_mutex_unlock(media->lock);
    /* Made outside the lock; dropped if another thread was quicker. Without memory for it the damage is just found
     * again. */
    uint32_t *fresh = first ? calloc((size_t)media->files.count, sizeof *fresh) : NULL;

    stk_mutex_lock(media->lock);
    if (!media->known_frames) {
        media->known_frames = fresh;
        fresh = NULL;
    }
    if (remember && media->known_frames) media->known_frames[id] = (uint32_t)known;
    if (media->resting_count < RESTING_MAX) {
        media->resting[media->resting_count++] = decoder;
        decoder = NULL;
    }
    stk_mutex_unlock(media->lock);
    stk_decoder_destroy(decoder);
    free(fresh);
}

/* *out_chosen (NULL allowed): frames of the sample that are no repeats. */
static stoker_status decode_file(struct media_source *media, const stoker_descriptor *sample, uint64_t draw, void *dst,
                                 int64_t *out_chosen, struct stk_made *out_made, stoker_error *err)
{
    struct stk_file file;
    stoker_video_result result;
    struct stk_decoder *decoder = NULL;
    uint64_t known = 0;
    struct stk_scan scan;
    stoker_status status = stk_files_open(&media->files, sample, &file, err);
    if (status < 0) {
        stk_error_context(err, "%s", sample->path);
        return status;
    }
    status = acquire_decoder(media, sample->id, &decoder, &known, err);
    if (status == STOKER_OK) {
        bool listed = stk_listed_scan(&media->files, media->manifest, sample->id, &scan, &known);
        status = stk_decoder_video_known(decoder, &file, &media->form, draw, listed ? &scan : NULL, &known, dst,
                                         &result, err);
        if (listed) stk_scan_fini(&scan);
        release_decoder(media, sample->id, decoder, status == STOKER_OK ? known : 0);
    }
    stk_file_close(&file);
    if (status < 0) {
        stk_error_context(err, "%s", sample->path);
        return status;
    }
    if (out_chosen) *out_chosen = (int64_t)result.frames_chosen;
    *out_made = (struct stk_made){result.bytes_read, result.frames_presented};
    return STOKER_OK;
}

static stoker_status materialise_file(const struct stoker_source *source, const stoker_sample *sample, void *dst,
                                      struct stk_made *out_made, stoker_error *err)
{
    stoker_descriptor file;
    STK_TRY(describe_file(source, sample->id, &file, err));
    /* The table is immutable; what is written behind it is guarded by the lock. */
    return decode_file((struct media_source *)(uintptr_t)of(source), &file, sample->draw, dst, NULL, out_made, err);
}

static stoker_status materialise_counted(const struct stoker_source *source, const stoker_sample *sample,
                                         void *const *dst, struct stk_made *out_made, stoker_error *err)
{
    stoker_descriptor file;
    int64_t chosen = 0;
    STK_TRY(describe_file(source, sample->id, &file, err));
    STK_TRY(
        decode_file((struct media_source *)(uintptr_t)of(source), &file, sample->draw, dst[0], &chosen, out_made, err));
    memcpy(dst[1], &chosen, sizeof chosen);
    return STOKER_OK;
}

static void counted_leaves(const struct stoker_source *source, struct stk_sample_leaves *out)
{
    const stoker_descriptor *sample = &of(source)->sample;
    out->count = 2;
    out->leaf[0] = (struct stk_sample_leaf){"video", (uint32_t)sample->dtype, sample->ndim, {0}, 0, false};
    memcpy(out->leaf[0].shape, sample->shape, sample->ndim * sizeof *sample->shape);
    out->leaf[0].bytes = of(source)->form.sample_bytes;
    out->leaf[1] = (struct stk_sample_leaf){"frames", STOKER_DTYPE_INT64, 0, {0}, sizeof(int64_t), false};
}

static void close_media(struct stoker_source *source)
{
    struct media_source *media = (struct media_source *)source;
    for (uint32_t i = 0; i < media->resting_count; i++) stk_decoder_destroy(media->resting[i]);
    stk_mutex_destroy(media->lock);
    stoker_manifest_close(media->manifest);
    free(media->known_frames);
    stk_shmem_blob_unmap(media->blob, media->blob_size);
    stk_source_fini(source);
    free(media);
}

static const struct stk_source_ops media_ops = {count_files, describe_file, materialise_file, close_media};
static const struct stk_leaf_ops counted_ops = {counted_leaves, materialise_counted, NULL, NULL};

static void fill_sample(struct media_source *media)
{
    const struct stk_form *form = &media->form;
    stoker_descriptor *sample = &media->sample;
    const uint64_t t = form->frames, h = form->height, w = form->width;
    const uint64_t shapes[3][4] = {{t, 3, h, w}, {3, t, h, w}, {t, h, w, 3}};
    sample->dtype = form->dtype;
    sample->ndim = 4;
    memcpy(sample->shape, shapes[form->layout], sizeof shapes[0]);
    sample->sample_bytes = form->sample_bytes;
    if (!form->counts) return;
    media->base.leaf_ops = &counted_ops;
    /* As stoker_source_materialise() lays out the two: the count behind the video, at the alignment of tensors. */
    sample->sample_bytes = stk_align_up(sample->sample_bytes, STK_LEAF_ALIGNMENT) + sizeof(int64_t);
}

/* Does the blob have the magic of another list? One that cannot be mapped has none: the open of videos says why. */
static bool blob_is(int blob_fd, bool (*is)(const uint8_t *blob, size_t size))
{
    const void *blob = NULL;
    size_t size = 0;
    if (stk_shmem_blob_map(blob_fd, &blob, &size, NULL) < 0) return false;
    bool result = is(blob, size);
    stk_shmem_blob_unmap(blob, size);
    return result;
}

stoker_status stk_media_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err)
{
    const void *blob = NULL;
    size_t size = 0;
    if (blob_is(blob_fd, stk_image_source_is)) return stk_image_source_open(blob_fd, payload_fd, out_source, err);
    if (blob_is(blob_fd, stk_audio_source_is)) return stk_audio_source_open(blob_fd, payload_fd, out_source, err);
    if (blob_is(blob_fd, stk_patch_source_is)) return stk_patch_source_open(blob_fd, payload_fd, out_source, err);
    struct media_source *media = calloc(1, sizeof *media);
    if (!media) {
        struct stoker_source unused = {.blob_fd = blob_fd, .payload_fd = payload_fd};
        stk_source_fini(&unused);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    stoker_status status = stk_source_init(&media->base, &media_ops, STK_SOURCE_MEDIA, blob_fd, payload_fd, err);
    if (status == STOKER_OK) status = stk_shmem_blob_map(blob_fd, &blob, &size, err);
    if (status == STOKER_OK) {
        media->blob = blob;
        media->blob_size = size;
        status = check_blob(blob, size, &media->files, &media->form, err);
        media->base.network = media->files.remote;
    }
    if (status == STOKER_OK) status = stk_mutex_create(RANK, &media->lock, err);
    if (status < 0) {
        if (media->blob) stk_shmem_blob_unmap(media->blob, media->blob_size);
        stk_source_fini(&media->base);
        free(media);
        return status;
    }
    fill_sample(media);
    media->manifest = stk_listed_open_manifest(&media->files);
    if (media->manifest) media->base.work = work_of_file;
    *out_source = &media->base;
    return STOKER_OK;
}
