/* SPDX-License-Identifier: Apache-2.0
 *
 * Native image sources: a list of files (files.h) and one form of an image. All samples have one size.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/image.h"
#include "source/blob.h"
#include "source/files.h"
#include "source/source_internal.h"
#include "store/file.h"
#include "sys/shmem.h"
#include "sys/thread.h"

#define MAGIC 0x494b5453u /* "STKI" in a dump */
#define VERSION 2u
/* Decoders that rest between samples; more threads than that make and drop theirs. */
#define RESTING_MAX 16u
/* Above plain data structures, below nothing: no other lock is taken while it is held. */
#define RANK 50u

enum { AUGMENT_AT = 72, FORM_BYTES = AUGMENT_AT + STK_BLOB_AUGMENT_BYTES };
static const struct stk_files_kind image_files = {MAGIC, VERSION, FORM_BYTES};

struct image_source {
    struct stoker_source base;
    /* fixed after open */
    const uint8_t *blob;
    size_t blob_size;
    struct stk_files files;
    struct stk_image_form form;
    stoker_descriptor sample; /* what all descriptors share */
    struct stk_mutex *lock;
    /* guarded by lock */
    struct stk_image_decoder *resting[RESTING_MAX];
    uint32_t resting_count;
};

/* ---------------------------------------------------------------------------------------------------------------- blob
 */

static void put_form(uint8_t *at, const stoker_image_spec *spec)
{
    const uint32_t words[11] = {spec->width,
                                spec->height,
                                (uint32_t)spec->dtype,
                                (uint32_t)spec->layout,
                                (uint32_t)spec->resize,
                                (uint32_t)spec->filter,
                                (uint32_t)spec->mode,
                                (uint32_t)spec->alpha,
                                (uint32_t)spec->background[0] | (uint32_t)spec->background[1] << 8 |
                                    (uint32_t)spec->background[2] << 16 | (uint32_t)spec->ignore_orientation << 24,
                                (uint32_t)spec->partial,
                                spec->pixels_max};
    memset(at, 0, FORM_BYTES); /* 68 to 71 stay zero */
    stk_blob_put_augment(at + AUGMENT_AT, &spec->augment);
    for (int i = 0; i < 11; i++) stk_blob_put32(at + 4 * i, words[i]);
    for (int c = 0; c < 3; c++) {
        uint32_t mean, std;
        memcpy(&mean, &spec->mean[c], sizeof mean);
        memcpy(&std, &spec->std[c], sizeof std);
        stk_blob_put32(at + 44 + 4 * c, mean);
        stk_blob_put32(at + 56 + 4 * c, std);
    }
}

static void get_form(const uint8_t *at, stoker_image_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->struct_size = sizeof *spec;
    spec->width = stk_blob_get32(at), spec->height = stk_blob_get32(at + 4);
    spec->dtype = (stoker_dtype)stk_blob_get32(at + 8);
    spec->layout = (stoker_image_layout)stk_blob_get32(at + 12);
    spec->resize = (stoker_image_resize)stk_blob_get32(at + 16);
    spec->filter = (stoker_image_filter)stk_blob_get32(at + 20);
    spec->mode = (stoker_image_mode)stk_blob_get32(at + 24);
    spec->alpha = (stoker_image_alpha)stk_blob_get32(at + 28);
    memcpy(spec->background, at + 32, 3);
    spec->ignore_orientation = at[35];
    spec->partial = (stoker_image_partial)stk_blob_get32(at + 36);
    spec->pixels_max = stk_blob_get32(at + 40);
    stk_blob_get_augment(at + AUGMENT_AT, &spec->augment);
    for (int c = 0; c < 3; c++) {
        uint32_t mean = stk_blob_get32(at + 44 + 4 * c), std = stk_blob_get32(at + 56 + 4 * c);
        memcpy(&spec->mean[c], &mean, sizeof mean);
        memcpy(&spec->std[c], &std, sizeof std);
    }
}

/* Samples of a batch have one size. */
static stoker_status form_init(struct stk_image_form *form, const stoker_image_spec *spec, stoker_error *err)
{
    STK_TRY(stk_image_form_init(form, spec, err));
    if (spec->resize == STOKER_IMAGE_KEEP)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "images of a source have one size, so theirs cannot be kept");
    return STOKER_OK;
}

static stoker_status check_blob(const uint8_t *blob, size_t size, struct stk_files *files, struct stk_image_form *form,
                                stoker_error *err)
{
    stoker_image_spec spec;
    STK_TRY(stk_files_check(&image_files, blob, size, files, err));
    get_form(blob + STK_FILES_FORM_AT, &spec);
    return form_init(form, &spec, err) < 0 ? stk_files_bad_form(err) : STOKER_OK;
}

bool stk_image_source_is(const uint8_t *blob, size_t size) { return size >= 4 && stk_blob_get32(blob) == MAGIC; }

stoker_status stk_image_source_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    struct stk_files files;
    struct stk_image_form form;
    return check_blob(blob, size, &files, &form, err);
}

stoker_status stoker_source_create_images(const stoker_path_list *list, const stoker_image_spec *spec,
                                          stoker_source **out_source, stoker_error *err)
{
    struct stk_image_form form;
    uint8_t bytes[FORM_BYTES];
    int fd = -1;
    if (!list || !out_source || (list->count && !list->paths))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "list and out_source must be given");
    STK_TRY(form_init(&form, spec, err));
    put_form(bytes, spec);
    STK_TRY(stk_files_create(&image_files, bytes, list, &fd, err));
    return stk_image_source_open(fd, -1, out_source, err);
}

/* ----------------------------------------------------------------------------------------------------------------- use
 */

static const struct image_source *of(const struct stoker_source *source)
{
    STK_ASSERT(source->kind == STK_SOURCE_MEDIA);
    return (const struct image_source *)source;
}

static uint64_t count_images(const struct stoker_source *source) { return of(source)->files.count; }

static stoker_status describe_image(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                    stoker_error *err)
{
    (void)err; /* the id was checked: nothing can fail */
    *out = of(source)->sample;
    stk_files_describe(&of(source)->files, id, out);
    return STOKER_OK;
}

static stoker_status acquire_decoder(struct image_source *images, struct stk_image_decoder **out_decoder,
                                     stoker_error *err)
{
    struct stk_image_decoder *decoder = NULL;
    stk_mutex_lock(images->lock);
    if (images->resting_count > 0) decoder = images->resting[--images->resting_count];
    stk_mutex_unlock(images->lock);
    if (!decoder) STK_TRY(stk_image_decoder_create(&decoder, err));
    *out_decoder = decoder;
    return STOKER_OK;
}

static void release_decoder(struct image_source *images, struct stk_image_decoder *decoder)
{
    stk_mutex_lock(images->lock);
    if (images->resting_count < RESTING_MAX) {
        images->resting[images->resting_count++] = decoder;
        decoder = NULL;
    }
    stk_mutex_unlock(images->lock);
    stk_image_decoder_destroy(decoder);
}

/* `out_partial` (NULL allowed) says whether the file is damaged. */
static stoker_status decode_image(struct image_source *images, const stoker_sample *which, void *dst,
                                  uint8_t *out_partial, struct stk_made *out_made, stoker_error *err)
{
    struct stk_file file;
    stoker_image_result result = {0};
    stoker_descriptor described;
    const stoker_descriptor *sample = &described;
    STK_TRY(describe_image(&images->base, which->id, &described, err));
    struct stk_image_decoder *decoder = NULL;
    stoker_status status = stk_files_open(&images->files, sample, &file, err);
    if (status < 0) {
        stk_error_context(err, "%s", sample->path);
        return status;
    }
    status = acquire_decoder(images, &decoder, err);
    if (status == STOKER_OK) {
        status = stk_image_decoder_file(decoder, &file, &images->form, which->draw, dst,
                                        images->form.values.sample_bytes, &result, err);
        release_decoder(images, decoder);
    }
    stk_file_close(&file);
    if (status < 0) {
        stk_error_context(err, "%s", sample->path);
        return status;
    }
    if (out_partial) *out_partial = (uint8_t)result.partial;
    *out_made = (struct stk_made){result.bytes_read, 1};
    return STOKER_OK;
}

/* The table is immutable; what is written behind it is guarded by the lock. */
static struct image_source *writable(const struct stoker_source *source)
{
    return (struct image_source *)(uintptr_t)of(source);
}

static stoker_status materialise_image(const struct stoker_source *source, const stoker_sample *sample, void *dst,
                                       struct stk_made *out_made, stoker_error *err)
{
    return decode_image(writable(source), sample, dst, NULL, out_made, err);
}

static stoker_status materialise_marked(const struct stoker_source *source, const stoker_sample *sample,
                                        void *const *dst, struct stk_made *out_made, stoker_error *err)
{
    return decode_image(writable(source), sample, dst[0], dst[1], out_made, err);
}

static void marked_leaves(const struct stoker_source *source, struct stk_sample_leaves *out)
{
    const stoker_descriptor *sample = &of(source)->sample;
    out->count = 2;
    out->leaf[0] = (struct stk_sample_leaf){"image", (uint32_t)sample->dtype, sample->ndim, {0}, 0, false};
    memcpy(out->leaf[0].shape, sample->shape, sample->ndim * sizeof *sample->shape);
    out->leaf[0].bytes = of(source)->form.values.sample_bytes;
    out->leaf[1] = (struct stk_sample_leaf){"partial", STOKER_DTYPE_BOOL, 0, {0}, 1, false};
}

static void close_images(struct stoker_source *source)
{
    struct image_source *images = (struct image_source *)source;
    for (uint32_t i = 0; i < images->resting_count; i++) stk_image_decoder_destroy(images->resting[i]);
    stk_mutex_destroy(images->lock);
    stk_shmem_blob_unmap(images->blob, images->blob_size);
    stk_source_fini(source);
    free(images);
}

static const struct stk_source_ops image_ops = {count_images, describe_image, materialise_image, close_images};
static const struct stk_leaf_ops marked_ops = {marked_leaves, materialise_marked, NULL, NULL};

static void fill_sample(struct image_source *images)
{
    const stoker_image_spec *spec = &images->form.spec;
    stoker_descriptor *sample = &images->sample;
    const uint64_t h = spec->height, w = spec->width;
    const uint64_t shapes[2][3] = {{3, h, w}, {h, w, 3}};
    sample->dtype = images->form.values.dtype;
    sample->ndim = 3;
    memcpy(sample->shape, shapes[spec->layout], sizeof shapes[0]);
    sample->sample_bytes = images->form.values.sample_bytes;
    if (spec->partial != STOKER_IMAGE_PARTIAL_MARK) return;
    images->base.leaf_ops = &marked_ops;
    /* As stoker_source_materialise() lays out the two: the mark behind the image, at the alignment of tensors. */
    sample->sample_bytes = stk_align_up(sample->sample_bytes, STK_LEAF_ALIGNMENT) + 1;
}

stoker_status stk_image_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err)
{
    const void *blob = NULL;
    size_t size = 0;
    struct image_source *images = calloc(1, sizeof *images);
    if (!images) {
        struct stoker_source unused = {.blob_fd = blob_fd, .payload_fd = payload_fd};
        stk_source_fini(&unused);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    stoker_status status = stk_source_init(&images->base, &image_ops, STK_SOURCE_MEDIA, blob_fd, payload_fd, err);
    if (status == STOKER_OK) status = stk_shmem_blob_map(blob_fd, &blob, &size, err);
    if (status == STOKER_OK) {
        images->blob = blob;
        images->blob_size = size;
        status = check_blob(blob, size, &images->files, &images->form, err);
        images->base.network = images->files.remote;
    }
    if (status == STOKER_OK) status = stk_mutex_create(RANK, &images->lock, err);
    if (status < 0) {
        if (images->blob) stk_shmem_blob_unmap(images->blob, images->blob_size);
        stk_source_fini(&images->base);
        free(images);
        return status;
    }
    fill_sample(images);
    *out_source = &images->base;
    return STOKER_OK;
}
