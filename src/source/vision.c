/* SPDX-License-Identifier: Apache-2.0
 *
 * Native sources of patches: a list of files, what is known of each, and one form. Samples differ in their number of
 * rows, which is computed from what is known (rule A8), never by a decode.
 *
 * The blob (little-endian): header of 16 bytes; form of 240 bytes; the most rows of any sample (8); count (8); then
 * `count` entries of 24 bytes {width, height, frames, duration}; then a list of files as a blob of its own (files.h).
 *
 * Docs: docs/reference/source-blobs.md.
 */
#include <stoker/vision.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/patch_sample.h"
#include "source/blob.h"
#include "source/files.h"
#include "source/source_internal.h"
#include "store/file.h"
#include "sys/shmem.h"
#include "sys/thread.h"

#define MAGIC 0x504c5453u /* "STLP" in a dump */
#define VERSION 1u
static const struct stk_files_kind patch_files = {MAGIC, VERSION, STK_FILES_FORM_BYTES};

#define FORM_BYTES 240u
#define ROWS_AT (STK_BLOB_HEADER_BYTES + FORM_BYTES)
#define COUNT_AT (ROWS_AT + 8u)
#define FACTS_AT (COUNT_AT + 8u)
#define FACT_BYTES 24u

/* Makers that rest between samples; more threads than that make and drop theirs. */
#define RESTING_MAX 16u
/* Above plain data structures, below nothing: no other lock is taken while it is held. */
#define RANK 50u

/* A checked blob. Borrows it. */
struct patch_list {
    const uint8_t *blob;
    struct stk_files files;
    uint64_t rows_max;
    struct stk_patch_form form;
};

struct patch_source {
    struct stoker_source base;
    /* fixed after open */
    const uint8_t *blob;
    size_t blob_size;
    struct patch_list list;
    uint64_t row_bytes;
    struct stk_mutex *lock;
    /* guarded by lock */
    struct stk_patch_maker *resting[RESTING_MAX];
    uint32_t resting_count;
};

/* ---------------------------------------------------------------------------------------------------------------- form
 */

/* Writes and reads the same fields in the same order: one walk for both directions. */
struct walk {
    uint8_t *to;         /* NULL: read */
    const uint8_t *from; /* else */
};

static void word(struct walk *walk, uint32_t *value)
{
    if (walk->to)
        stk_blob_put32(walk->to, *value), walk->to += 4;
    else
        *value = stk_blob_get32(walk->from), walk->from += 4;
}

static void wide(struct walk *walk, uint64_t *value)
{
    if (walk->to)
        stk_blob_put64(walk->to, *value), walk->to += 8;
    else
        *value = stk_blob_get64(walk->from), walk->from += 8;
}

static void real(struct walk *walk, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    wide(walk, &bits);
    memcpy(value, &bits, sizeof bits);
}

static void single(struct walk *walk, float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    word(walk, &bits);
    memcpy(value, &bits, sizeof bits);
}

/* An enumeration of the form, through a word. */
#define CHOICE(walk, type, field)                                                                                      \
    do {                                                                                                               \
        uint32_t number = (uint32_t)(field);                                                                           \
        word(walk, &number);                                                                                           \
        (field) = (type)number;                                                                                        \
    } while (0)

static void walk_form(struct walk *walk, stoker_patch_spec *spec)
{
    stoker_patch_rule *rule = &spec->rule;
    stoker_frame_rule *frames = &spec->frames;
    CHOICE(walk, stoker_patch_media, spec->media);
    word(walk, &rule->patch), word(walk, &rule->merge), word(walk, &rule->temporal);
    CHOICE(walk, stoker_fit_limits, rule->limits);
    word(walk, &rule->flags);
    wide(walk, &rule->pixels_min), wide(walk, &rule->pixels_max);
    wide(walk, &rule->clip_pixels), wide(walk, &rule->frame_pixels_max);
    CHOICE(walk, stoker_frame_choice, frames->choice);
    word(walk, &frames->frames);
    real(walk, &frames->rate);
    word(walk, &frames->frames_min), word(walk, &frames->frames_max), word(walk, &frames->group);
    CHOICE(walk, stoker_patch_mode, spec->mode);
    CHOICE(walk, stoker_dtype, spec->dtype);
    for (int c = 0; c < 3; c++) single(walk, &spec->mean[c]);
    for (int c = 0; c < 3; c++) single(walk, &spec->std[c]);
    CHOICE(walk, stoker_short_clip, spec->short_clip);
    real(walk, &spec->damaged_max);
    CHOICE(walk, stoker_image_alpha, spec->alpha);
    uint32_t background = (uint32_t)spec->background[0] | (uint32_t)spec->background[1] << 8 |
                          (uint32_t)spec->background[2] << 16 | (uint32_t)spec->ignore_orientation << 24;
    word(walk, &background);
    for (int c = 0; c < 3; c++) spec->background[c] = (uint8_t)(background >> 8 * c);
    spec->ignore_orientation = (uint8_t)(background >> 24);
    CHOICE(walk, stoker_image_partial, spec->partial);
    word(walk, &spec->pixels_max);
}

/* --------------------------------------------------------------------------------------------------------------- check
 */

bool stk_patch_source_is(const uint8_t *blob, size_t size) { return size >= 4 && stk_blob_get32(blob) == MAGIC; }

static stoker_status check_form(const uint8_t *blob, struct stk_patch_form *form, stoker_error *err)
{
    stoker_patch_spec spec = STOKER_PATCH_SPEC_INIT;
    struct walk walk = {NULL, blob + STK_BLOB_HEADER_BYTES};
    walk_form(&walk, &spec);
    STK_ASSERT(walk.from <= blob + ROWS_AT);
    if (stk_patch_form_init(form, &spec, err) < 0) return stk_files_bad_form(err);
    return STOKER_OK;
}

static stoker_status check_blob(const uint8_t *blob, size_t size, struct patch_list *out, stoker_error *err)
{
    STK_TRY(stk_source_check_header(blob, size, MAGIC, VERSION, err));
    if (size < FACTS_AT)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes, the form alone has %u", size, FACTS_AT);
    const uint64_t count = stk_blob_get64(blob + COUNT_AT), rows = stk_blob_get64(blob + ROWS_AT);
    if (count > (size - FACTS_AT) / FACT_BYTES)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: count at offset %u is %llu, %zu bytes are left",
                        COUNT_AT, (unsigned long long)count, size - FACTS_AT);
    if (rows > STK_SAMPLE_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: rows at offset %u are %llu, expected at most %llu",
                        ROWS_AT, (unsigned long long)rows, (unsigned long long)STK_SAMPLE_BYTES_MAX);
    STK_TRY(check_form(blob, &out->form, err));
    const size_t files_at = FACTS_AT + (size_t)count * FACT_BYTES;
    STK_TRY(stk_files_check(&patch_files, blob + files_at, size - files_at, &out->files, err));
    if (out->files.count != count)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %llu files at offset %zu, facts of %llu before them",
                        (unsigned long long)out->files.count, files_at, (unsigned long long)count);
    out->blob = blob;
    out->rows_max = rows;
    return STOKER_OK;
}

stoker_status stk_patch_source_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    struct patch_list list;
    return check_blob(blob, size, &list, err);
}

/* -------------------------------------------------------------------------------------------------------------- create
 */

/* Facts of one file, from its header or packets. */
static stoker_status read_facts(const char *path, const stoker_patch_spec *spec, stoker_clip_facts *out,
                                stoker_error *err)
{
    stoker_media_info video;
    stoker_image_info image;
    if (spec->media == STOKER_PATCHES_OF_VIDEOS) {
        STK_TRY(stoker_media_probe(path, 0, &video, err));
        *out = (stoker_clip_facts){video.width, video.height, video.frames, video.duration_s};
        return STOKER_OK;
    }
    STK_TRY(stoker_image_probe(path, &image, err));
    bool turned = image.orientation >= 5 && spec->ignore_orientation;
    *out = (stoker_clip_facts){turned ? image.height : image.width, turned ? image.width : image.height, 1, 0};
    return STOKER_OK;
}

static stoker_clip_facts get_facts(const uint8_t *blob, uint64_t id)
{
    stoker_clip_facts facts;
    struct walk walk = {NULL, blob + FACTS_AT + id * FACT_BYTES};
    word(&walk, &facts.width), word(&walk, &facts.height);
    wide(&walk, &facts.frames);
    real(&walk, &facts.duration_s);
    return facts;
}

/* Plan of a sample, all zero if it has none. */
static stoker_patch_plan plan_of(const struct stk_patch_form *form, const stoker_clip_facts *facts)
{
    uint32_t frames;
    stoker_patch_plan plan;
    memset(&plan, 0, sizeof plan);
    (void)stk_patch_form_plan(form, facts, &frames, &plan, NULL); /* it is all zero then */
    return plan;
}

static void put_facts(uint8_t *blob, const stoker_clip_list *list, const struct stk_patch_form *form)
{
    uint64_t rows_max = 0;
    for (size_t i = 0; i < list->count; i++) {
        stoker_clip_facts facts = {0, 0, 0, 0}; /* nothing: the sample fails when it is asked for */
        if (list->facts)
            facts = list->facts[i];
        else
            (void)read_facts(list->paths[i], &form->spec, &facts, NULL);
        struct walk walk = {blob + FACTS_AT + i * FACT_BYTES, NULL};
        word(&walk, &facts.width), word(&walk, &facts.height);
        wide(&walk, &facts.frames);
        real(&walk, &facts.duration_s);
        uint64_t rows = plan_of(form, &facts).patches;
        if (rows > rows_max) rows_max = rows;
    }
    stk_blob_put64(blob + ROWS_AT, rows_max);
}

static stoker_status compose(const stoker_clip_list *list, const struct stk_patch_form *form, const void *files,
                             size_t files_size, int *out_fd, stoker_error *err)
{
    size_t table = 0, size = 0;
    if (!stk_mul_size(list->count, FACT_BYTES, &table) || !stk_add_size(table, FACTS_AT, &table) ||
        !stk_add_size(table, files_size, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a list of %zu files is too large", list->count);
    uint8_t *blob = calloc(1, size);
    if (!blob)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu files (%zu bytes)", list->count, size);
    stk_source_put_header(blob, MAGIC, VERSION, size);
    stoker_patch_spec spec = form->spec;
    struct walk walk = {blob + STK_BLOB_HEADER_BYTES, NULL};
    walk_form(&walk, &spec);
    stk_blob_put64(blob + COUNT_AT, list->count);
    put_facts(blob, list, form);
    memcpy(blob + table, files, files_size);
    stoker_status status = stk_shmem_blob_create(blob, size, out_fd, err);
    free(blob);
    return status;
}

stoker_status stoker_source_create_patches(const stoker_clip_list *list, const stoker_patch_spec *spec,
                                           stoker_source **out_source, stoker_error *err)
{
    static const uint8_t no_form[STK_FILES_FORM_BYTES] = {0};
    struct stk_patch_form form;
    if (!list || !out_source || (list->count && !list->paths))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "list and out_source must be given");
    STK_TRY(stk_patch_form_init(&form, spec, err));
    const stoker_path_list paths = {.paths = list->paths, .count = list->count};
    int files_fd = -1, fd = -1;
    const void *files = NULL;
    size_t files_size = 0;
    STK_TRY(stk_files_create(&patch_files, no_form, &paths, &files_fd, err));
    stoker_status status = stk_shmem_blob_map(files_fd, &files, &files_size, err);
    if (status == STOKER_OK) {
        status = compose(list, &form, files, files_size, &fd, err);
        stk_shmem_blob_unmap(files, files_size);
    }
    (void)close(files_fd); /* memory, not a file: nothing can be lost */
    return status < 0 ? status : stk_patch_source_open(fd, -1, out_source, err);
}

/* ----------------------------------------------------------------------------------------------------------------- use
 */

static const struct patch_source *of(const struct stoker_source *source)
{
    STK_ASSERT(source->kind == STK_SOURCE_MEDIA);
    return (const struct patch_source *)source;
}

static uint64_t count_clips(const struct stoker_source *source) { return of(source)->list.files.count; }

static stoker_patch_plan plan_at(const struct patch_source *clips, uint64_t id)
{
    const stoker_clip_facts facts = get_facts(clips->list.blob, id);
    stoker_patch_plan plan = plan_of(&clips->list.form, &facts);
    if (plan.patches > clips->list.rows_max) memset(&plan, 0, sizeof plan); /* a blob that contradicts itself */
    return plan;
}

static uint64_t rows_of(const struct stoker_source *source, uint64_t id) { return plan_at(of(source), id).patches; }

static uint64_t rows_max(const struct stoker_source *source) { return of(source)->list.rows_max; }

static stoker_status describe_clip(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                   stoker_error *err)
{
    (void)err; /* the id was checked: nothing can fail */
    const struct patch_source *clips = of(source);
    const stoker_patch_plan plan = plan_at(clips, id);
    *out = (stoker_descriptor){.dtype = clips->list.form.spec.dtype, .ndim = 2, .tokens = plan.tokens};
    out->shape[0] = plan.patches;
    out->shape[1] = clips->row_bytes / clips->list.form.values.value_bytes;
    /* As stoker_source_make() lays out the two: the grid behind the patches, at the alignment of tensors. */
    out->sample_bytes = stk_align_up(plan.patches * clips->row_bytes, STK_LEAF_ALIGNMENT) + 3 * sizeof(int64_t);
    stk_files_describe(&clips->list.files, id, out);
    return STOKER_OK;
}

static void patch_leaves(const struct stoker_source *source, struct stk_sample_leaves *out)
{
    const struct patch_source *clips = of(source);
    const bool videos = clips->list.form.spec.media == STOKER_PATCHES_OF_VIDEOS;
    const uint64_t values = clips->row_bytes / clips->list.form.values.value_bytes;
    out->count = 2;
    out->leaf[0] = (struct stk_sample_leaf){
        .name = videos ? "pixel_values_videos" : "pixel_values",
        .dtype = (uint32_t)clips->list.form.spec.dtype,
        .ndim = 2,
        .shape = {0, values},
        .bytes = clips->row_bytes,
        .ragged = true,
    };
    out->leaf[1] = (struct stk_sample_leaf){
        .name = videos ? "video_grid_thw" : "image_grid_thw",
        .dtype = STOKER_DTYPE_INT64,
        .ndim = 1,
        .shape = {3},
        .bytes = 3 * sizeof(int64_t),
    };
}

static stoker_status acquire_maker(struct patch_source *clips, struct stk_patch_maker **out_maker, stoker_error *err)
{
    struct stk_patch_maker *maker = NULL;
    stk_mutex_lock(clips->lock);
    if (clips->resting_count > 0) maker = clips->resting[--clips->resting_count];
    stk_mutex_unlock(clips->lock);
    if (!maker) STK_TRY(stk_patch_maker_create(&maker, err));
    *out_maker = maker;
    return STOKER_OK;
}

static void release_maker(struct patch_source *clips, struct stk_patch_maker *maker)
{
    stk_mutex_lock(clips->lock);
    if (clips->resting_count < RESTING_MAX) {
        clips->resting[clips->resting_count++] = maker;
        maker = NULL;
    }
    stk_mutex_unlock(clips->lock);
    stk_patch_maker_destroy(maker);
}

static stoker_status run_maker(struct patch_source *clips, const stoker_descriptor *described, void *const *dst,
                               struct stk_made *out_made, stoker_error *err)
{
    struct stk_file file;
    struct stk_patch_maker *maker = NULL;
    uint64_t frames = 0;
    STK_TRY(stk_file_open(described->path, &file, err));
    stoker_status status = stk_files_check_facts(described, &file, err);
    stoker_clip_facts facts = get_facts(clips->list.blob, described->id), unused;
    if (status == STOKER_OK && facts.width == 0) /* says why, if that is still so */
        status = read_facts(described->path, &clips->list.form.spec, &unused, err);
    if (status == STOKER_OK) status = acquire_maker(clips, &maker, err);
    if (status == STOKER_OK) {
        const struct stk_patch_target target = {dst[0], dst[1]};
        status = stk_patch_maker_run(maker, &file, &clips->list.form, &facts, &target, &frames, err);
        release_maker(clips, maker);
    }
    *out_made = (struct stk_made){file.size, frames};
    stk_file_close(&file);
    return status;
}

static stoker_status make_clip(const struct stoker_source *source, const stoker_sample *sample, void *const *dst,
                               struct stk_made *out_made, stoker_error *err)
{
    stoker_descriptor described;
    STK_TRY(describe_clip(source, sample->id, &described, err));
    /* The table is immutable; what is written behind it is guarded by the lock. */
    struct patch_source *clips = (struct patch_source *)(uintptr_t)of(source);
    stoker_status status = run_maker(clips, &described, dst, out_made, err);
    /* A look at its header names the file already. */
    if (status < 0 && err && strcmp(err->context, described.path) != 0) stk_error_context(err, "%s", described.path);
    return status;
}

static void close_clips(struct stoker_source *source)
{
    struct patch_source *clips = (struct patch_source *)source;
    for (uint32_t i = 0; i < clips->resting_count; i++) stk_patch_maker_destroy(clips->resting[i]);
    stk_mutex_destroy(clips->lock);
    stk_shmem_blob_unmap(clips->blob, clips->blob_size);
    stk_source_fini(source);
    free(clips);
}

static const struct stk_source_ops patch_ops = {count_clips, describe_clip, NULL, close_clips};
static const struct stk_leaf_ops patch_leaf_ops = {patch_leaves, make_clip, rows_of, rows_max};

stoker_status stk_patch_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err)
{
    const void *blob = NULL;
    size_t size = 0;
    struct patch_source *clips = calloc(1, sizeof *clips);
    if (!clips) {
        struct stoker_source unused = {.blob_fd = blob_fd, .payload_fd = payload_fd};
        stk_source_fini(&unused);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    stoker_status status = stk_source_init(&clips->base, &patch_ops, STK_SOURCE_MEDIA, blob_fd, payload_fd, err);
    if (status == STOKER_OK) status = stk_shmem_blob_map(blob_fd, &blob, &size, err);
    if (status == STOKER_OK) {
        clips->blob = blob;
        clips->blob_size = size;
        status = check_blob(blob, size, &clips->list, err);
    }
    if (status == STOKER_OK) status = stk_mutex_create(RANK, &clips->lock, err);
    if (status < 0) {
        if (clips->blob) stk_shmem_blob_unmap(clips->blob, clips->blob_size);
        stk_source_fini(&clips->base);
        free(clips);
        return status;
    }
    const struct stk_patch_form *form = &clips->list.form;
    clips->row_bytes = (uint64_t)3 * form->spec.rule.temporal * form->spec.rule.patch * form->spec.rule.patch *
                       form->values.value_bytes;
    clips->base.leaf_ops = &patch_leaf_ops;
    *out_source = &clips->base;
    return STOKER_OK;
}
