/* SPDX-License-Identifier: Apache-2.0
 *
 * Native sound sources: a list of files (files.h) and one form of a window. All samples have one size; where a random
 * window begins, the draw of the sample says.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#include <stoker/audio.h>

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/audio.h"
#include "source/blob.h"
#include "source/files.h"
#include "source/source_internal.h"
#include "store/file.h"
#include "sys/shmem.h"
#include "sys/thread.h"

#define MAGIC 0x414b5453u /* "STKA" in a dump */
#define VERSION 1u
/* Listeners that rest between samples; more threads than that make and drop theirs. */
#define RESTING_MAX 16u
/* Above plain data structures, below nothing: no other lock is taken while it is held. */
#define RANK 50u
/* Of the leaf that says where a window lies. */
#define WINDOW_WORDS 3u
#define WINDOW_BYTES (WINDOW_WORDS * 8u)

static const struct stk_files_kind audio_files = {MAGIC, VERSION, STK_FILES_FORM_BYTES};

struct audio_source {
    struct stoker_source base;
    /* fixed after open */
    const uint8_t *blob;
    size_t blob_size;
    struct stk_files files;
    struct stk_audio_form form;
    stoker_descriptor sample; /* what all descriptors share */
    struct stk_mutex *lock;
    /* guarded by lock */
    struct stk_listener *resting[RESTING_MAX];
    uint32_t resting_count;
};

/* ---------------------------------------------------------------------------------------------------------------- blob
 */

static void put_float(uint8_t *at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    stk_blob_put32(at, bits);
}

static float get_float(const uint8_t *at)
{
    uint32_t bits = stk_blob_get32(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_double(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    stk_blob_put64(at, bits);
}

static double get_double(const uint8_t *at)
{
    uint64_t bits = stk_blob_get64(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A checked form: every number fits its field. */
static void put_form(uint8_t *at, const stoker_audio_spec *spec)
{
    memset(at, 0, STK_FILES_FORM_BYTES);
    stk_blob_put32(at, spec->rate);
    stk_blob_put32(at + 4, spec->channels | (uint32_t)spec->dtype << 8 | (uint32_t)spec->start << 16 |
                               (uint32_t)spec->short_sound << 24);
    stk_blob_put32(at + 8, (uint32_t)spec->seek | spec->mark << 8 | (spec->mel ? 1u : 0u) << 16);
    put_double(at + 16, spec->start_s);
    put_double(at + 24, spec->duration_s);
    put_double(at + 32, spec->damaged_max);
    if (!spec->mel) return;
    const stoker_mel_spec *mel = spec->mel;
    put_float(at + 12, mel->multiply);
    stk_blob_put32(at + 40, mel->bands | mel->fft << 16);
    stk_blob_put32(at + 44, mel->window | mel->hop << 16);
    stk_blob_put32(at + 48, mel->power | (uint32_t)mel->scale << 8 | (uint32_t)mel->norm << 12 |
                                (uint32_t)mel->log << 16 | mel->last_frame << 20);
    put_float(at + 52, mel->f_min);
    put_float(at + 56, mel->f_max);
    put_float(at + 60, mel->floor);
    put_float(at + 64, mel->range);
    put_float(at + 68, mel->add);
}

/* `mel` is filled if the form has one. */
static void get_form(const uint8_t *at, stoker_audio_spec *spec, stoker_mel_spec *mel)
{
    const uint32_t choices = stk_blob_get32(at + 4), more = stk_blob_get32(at + 8), table = stk_blob_get32(at + 48);
    memset(spec, 0, sizeof *spec);
    memset(mel, 0, sizeof *mel);
    spec->struct_size = sizeof *spec;
    spec->rate = stk_blob_get32(at);
    spec->channels = choices & 0xff;
    spec->dtype = (stoker_dtype)(choices >> 8 & 0xff);
    spec->start = (stoker_audio_start)(choices >> 16 & 0xff);
    spec->short_sound = (stoker_audio_short)(choices >> 24);
    spec->seek = (stoker_audio_seek)(more & 0xff);
    spec->mark = more >> 8 & 0xff;
    spec->start_s = get_double(at + 16);
    spec->duration_s = get_double(at + 24);
    spec->damaged_max = get_double(at + 32);
    if (!(more >> 16)) return;
    spec->mel = mel;
    mel->struct_size = sizeof *mel;
    mel->multiply = get_float(at + 12);
    mel->bands = stk_blob_get32(at + 40) & 0xffff, mel->fft = stk_blob_get32(at + 40) >> 16;
    mel->window = stk_blob_get32(at + 44) & 0xffff, mel->hop = stk_blob_get32(at + 44) >> 16;
    mel->power = table & 0xff;
    mel->scale = (stoker_mel_scale)(table >> 8 & 0xf);
    mel->norm = (stoker_mel_norm)(table >> 12 & 0xf);
    mel->log = (stoker_mel_log)(table >> 16 & 0xf);
    mel->last_frame = table >> 20;
    mel->f_min = get_float(at + 52);
    mel->f_max = get_float(at + 56);
    mel->floor = get_float(at + 60);
    mel->range = get_float(at + 64);
    mel->add = get_float(at + 68);
}

static stoker_status check_blob(const uint8_t *blob, size_t size, struct stk_files *files, struct stk_audio_form *form,
                                stoker_error *err)
{
    stoker_audio_spec spec;
    stoker_mel_spec mel;
    STK_TRY(stk_files_check(&audio_files, blob, size, files, err));
    get_form(blob + STK_FILES_FORM_AT, &spec, &mel);
    return stk_audio_form_init(form, &spec, true, err) < 0 ? stk_files_bad_form(err) : STOKER_OK;
}

bool stk_audio_source_is(const uint8_t *blob, size_t size) { return size >= 4 && stk_blob_get32(blob) == MAGIC; }

stoker_status stk_audio_source_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    struct stk_files files;
    struct stk_audio_form form;
    return check_blob(blob, size, &files, &form, err);
}

stoker_status stoker_source_create_audio(const stoker_path_list *list, const stoker_audio_spec *spec,
                                         stoker_source **out_source, stoker_error *err)
{
    struct stk_audio_form form;
    uint8_t bytes[STK_FILES_FORM_BYTES];
    int fd = -1;
    if (!list || !out_source || (list->count && !list->paths))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "list and out_source must be given");
    STK_TRY(stk_audio_form_init(&form, spec, true, err));
    put_form(bytes, spec);
    STK_TRY(stk_files_create(&audio_files, bytes, list, &fd, err));
    return stk_audio_source_open(fd, -1, out_source, err);
}

/* ----------------------------------------------------------------------------------------------------------------- use
 */

static const struct audio_source *of(const struct stoker_source *source)
{
    STK_ASSERT(source->kind == STK_SOURCE_MEDIA);
    return (const struct audio_source *)source;
}

static uint64_t count_sounds(const struct stoker_source *source) { return of(source)->files.count; }

static stoker_status describe_sound(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                    stoker_error *err)
{
    (void)err; /* the id was checked: nothing can fail */
    *out = of(source)->sample;
    stk_files_describe(&of(source)->files, id, out);
    return STOKER_OK;
}

static stoker_status acquire_listener(struct audio_source *sounds, struct stk_listener **out_listener,
                                      stoker_error *err)
{
    struct stk_listener *listener = NULL;
    stk_mutex_lock(sounds->lock);
    if (sounds->resting_count > 0) listener = sounds->resting[--sounds->resting_count];
    stk_mutex_unlock(sounds->lock);
    if (!listener) STK_TRY(stk_listener_create(&listener, err));
    *out_listener = listener;
    return STOKER_OK;
}

static void release_listener(struct audio_source *sounds, struct stk_listener *listener)
{
    stk_mutex_lock(sounds->lock);
    if (sounds->resting_count < RESTING_MAX) {
        sounds->resting[sounds->resting_count++] = listener;
        listener = NULL;
    }
    stk_mutex_unlock(sounds->lock);
    stk_listener_destroy(listener);
}

static stoker_status decode_sound(const struct stoker_source *source, const stoker_sample *sample, void *dst,
                                  stoker_audio_result *out_result, stoker_error *err)
{
    /* The table is immutable; what is written behind it is guarded by the lock. */
    struct audio_source *sounds = (struct audio_source *)(uintptr_t)of(source);
    const struct stk_audio_target target = {.dst = dst};
    struct stk_file file;
    stoker_descriptor described;
    struct stk_listener *listener = NULL;
    STK_TRY(describe_sound(source, sample->id, &described, err));
    stoker_status status = stk_files_open(&sounds->files, &described, &file, err);
    if (status < 0) {
        stk_error_context(err, "%s", described.path);
        return status;
    }
    status = acquire_listener(sounds, &listener, err);
    if (status == STOKER_OK) {
        status = stk_listener_read(listener, &file, &sounds->form, sample->draw, &target, out_result, err);
        release_listener(sounds, listener);
    }
    stk_file_close(&file);
    if (status < 0) stk_error_context(err, "%s", described.path);
    return status;
}

static stoker_status materialise_sound(const struct stoker_source *source, const stoker_sample *sample, void *dst,
                                       struct stk_made *out_made, stoker_error *err)
{
    stoker_audio_result result;
    STK_TRY(decode_sound(source, sample, dst, &result, err));
    *out_made = (struct stk_made){.bytes_read = result.bytes_read, .frames_presented = 1};
    return STOKER_OK;
}

static stoker_status materialise_marked(const struct stoker_source *source, const stoker_sample *sample,
                                        void *const *dst, struct stk_made *out_made, stoker_error *err)
{
    stoker_audio_result result;
    STK_TRY(decode_sound(source, sample, dst[0], &result, err));
    const int64_t window[WINDOW_WORDS] = {(int64_t)result.start, (int64_t)result.valid, (int64_t)result.total};
    memcpy(dst[1], window, sizeof window);
    *out_made = (struct stk_made){.bytes_read = result.bytes_read, .frames_presented = 1};
    return STOKER_OK;
}

static void marked_leaves(const struct stoker_source *source, struct stk_sample_leaves *out)
{
    const stoker_descriptor *sample = &of(source)->sample;
    out->count = 2;
    out->leaf[0] = (struct stk_sample_leaf){.name = "audio",
                                            .dtype = (uint32_t)sample->dtype,
                                            .ndim = sample->ndim,
                                            .bytes = of(source)->form.sample_bytes};
    memcpy(out->leaf[0].shape, sample->shape, sample->ndim * sizeof *sample->shape);
    out->leaf[1] = (struct stk_sample_leaf){
        .name = "window", .dtype = STOKER_DTYPE_INT64, .ndim = 1, .shape = {WINDOW_WORDS}, .bytes = WINDOW_BYTES};
}

static void close_sounds(struct stoker_source *source)
{
    struct audio_source *sounds = (struct audio_source *)source;
    for (uint32_t i = 0; i < sounds->resting_count; i++) stk_listener_destroy(sounds->resting[i]);
    stk_mutex_destroy(sounds->lock);
    stk_shmem_blob_unmap(sounds->blob, sounds->blob_size);
    stk_source_fini(source);
    free(sounds);
}

static const struct stk_source_ops audio_ops = {
    .count = count_sounds, .describe = describe_sound, .materialise = materialise_sound, .close = close_sounds};
static const struct stk_leaf_ops marked_ops = {.leaves = marked_leaves, .materialise = materialise_marked};

static void fill_sample(struct audio_source *sounds)
{
    const struct stk_audio_form *form = &sounds->form;
    stoker_descriptor *sample = &sounds->sample;
    sample->dtype = form->dtype;
    sample->ndim = 2;
    sample->shape[0] = form->has_mel ? form->mel.bands : form->spec.channels;
    sample->shape[1] = form->has_mel ? form->frames : form->count;
    sample->sample_bytes = form->sample_bytes;
    if (!form->spec.mark) return;
    sounds->base.leaf_ops = &marked_ops;
    /* As stoker_source_materialise() lays out the two: the window behind the sound, at the alignment of tensors. */
    sample->sample_bytes = stk_align_up(sample->sample_bytes, STK_LEAF_ALIGNMENT) + WINDOW_BYTES;
}

stoker_status stk_audio_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err)
{
    const void *blob = NULL;
    size_t size = 0;
    struct audio_source *sounds = calloc(1, sizeof *sounds);
    if (!sounds) {
        struct stoker_source unused = {.blob_fd = blob_fd, .payload_fd = payload_fd};
        stk_source_fini(&unused);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    stoker_status status = stk_source_init(&sounds->base, &audio_ops, STK_SOURCE_MEDIA, blob_fd, payload_fd, err);
    if (status == STOKER_OK) status = stk_shmem_blob_map(blob_fd, &blob, &size, err);
    if (status == STOKER_OK) {
        sounds->blob = blob;
        sounds->blob_size = size;
        status = check_blob(blob, size, &sounds->files, &sounds->form, err);
        sounds->base.network = sounds->files.remote;
    }
    if (status == STOKER_OK) status = stk_mutex_create(RANK, &sounds->lock, err);
    if (status < 0) {
        if (sounds->blob) stk_shmem_blob_unmap(sounds->blob, sounds->blob_size);
        stk_source_fini(&sounds->base);
        free(sounds);
        return status;
    }
    fill_sample(sounds);
    *out_source = &sounds->base;
    return STOKER_OK;
}
