/* SPDX-License-Identifier: Apache-2.0
 *
 * Native video sources: a list of files and one form.
 *
 * The blob (little-endian): header of 16 bytes; form of 72 bytes; count (8); text size (8); then `count` entries of 24
 * bytes {offset of the path in the text, size of the file, its modification time}; then the paths, absolute, each ended
 * by a zero byte. Size and time 0 mean that there was no file when the source was made. Everything is checked once, at
 * open; later reads index without checks.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/decode.h"
#include "media/transform.h"
#include "source/blob.h"
#include "source/source_internal.h"
#include "store/file.h"
#include "sys/shmem.h"
#include "sys/thread.h"

#define MAGIC 0x564b5453u /* "STKV" in a dump */
#define VERSION 1u
#define FORM_AT STK_BLOB_HEADER_BYTES
#define FORM_BYTES 72u
#define COUNT_AT (FORM_AT + FORM_BYTES)
#define TEXT_SIZE_AT (COUNT_AT + 8u)
#define ENTRIES_AT (TEXT_SIZE_AT + 8u)
#define ENTRY_BYTES 24u
#define PATH_BYTES_MAX 4095u
/* Decoders that rest between samples; more threads than that make and drop theirs. */
#define RESTING_MAX 16u
/* Above plain data structures, below nothing: no other lock is taken while it is held. */
#define RANK 50u

struct media_source {
    struct stoker_source base;
    /* fixed after open */
    const uint8_t *blob;
    size_t blob_size;
    uint64_t count;
    const char *text;
    struct stk_form form;
    stoker_descriptor sample; /* what all descriptors share */
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
    stk_blob_put64(at + 56, damaged_bits); /* 52 to 55 and 64 to 71 are zero */
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
    uint64_t damaged_bits = stk_blob_get64(at + 56);
    memcpy(&spec->damaged_max, &damaged_bits, sizeof damaged_bits);
}

static stoker_status check_entries(const uint8_t *blob, uint64_t count, const uint8_t *text, uint64_t text_size,
                                   stoker_error *err)
{
    uint64_t expected = 0; /* paths follow each other without gaps, so that equal lists have equal blobs */
    for (uint64_t i = 0; i < count; i++) {
        size_t at = ENTRIES_AT + (size_t)i * ENTRY_BYTES;
        uint64_t offset = stk_blob_get64(blob + at);
        if (offset != expected || offset >= text_size)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "source blob: path offset at %zu is %llu, expected %llu below %llu", at,
                            (unsigned long long)offset, (unsigned long long)expected, (unsigned long long)text_size);
        const uint8_t *end = memchr(text + offset, 0, (size_t)(text_size - offset));
        size_t length = end ? (size_t)(end - (text + offset)) : 0;
        if (!end || length == 0 || length > PATH_BYTES_MAX)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "source blob: path %llu at text offset %llu has no end within %u bytes",
                            (unsigned long long)i, (unsigned long long)offset, PATH_BYTES_MAX);
        expected = offset + length + 1;
    }
    if (expected != text_size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: the paths end at %llu, the text at %llu",
                        (unsigned long long)expected, (unsigned long long)text_size);
    return STOKER_OK;
}

static stoker_status check_blob(const uint8_t *blob, size_t size, struct stk_form *form, stoker_error *err)
{
    STK_TRY(stk_source_check_header(blob, size, MAGIC, VERSION, err));
    if (size < ENTRIES_AT)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes, expected at least %u", size, ENTRIES_AT);
    stoker_video_spec spec;
    get_form(blob + FORM_AT, &spec);
    if (stk_form_init(form, &spec, err) < 0) {
        if (err) err->status = STOKER_ERR_CORRUPT;
        stk_error_context(err, "source blob: form at offset %u", FORM_AT);
        return STOKER_ERR_CORRUPT;
    }
    uint64_t count = stk_blob_get64(blob + COUNT_AT), text_size = stk_blob_get64(blob + TEXT_SIZE_AT);
    size_t table, needed;
    if (!stk_mul_size((size_t)count, ENTRY_BYTES, &table) || !stk_add_size(table, ENTRIES_AT, &needed) ||
        !stk_add_size(needed, (size_t)text_size, &needed) || needed != size)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "source blob: %llu files at offset %u and %llu bytes of paths do not fill %zu bytes",
                        (unsigned long long)count, COUNT_AT, (unsigned long long)text_size, size);
    return check_entries(blob, count, blob + ENTRIES_AT + table, text_size, err);
}

stoker_status stk_media_source_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    struct stk_form form;
    return check_blob(blob, size, &form, err);
}

/* ----------------------------------------------------------------------------------------------------------------
 * create */

/* Workers run elsewhere: relative paths are made absolute here. */
static stoker_status get_folder(char *folder, size_t size, stoker_error *err)
{
    if (getcwd(folder, size)) return STOKER_OK;
    return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read the name of the working directory");
}

static stoker_status measure_paths(const stoker_path_list *list, const char *folder, size_t *out_text_size,
                                   stoker_error *err)
{
    size_t total = 0, folder_size = strlen(folder);
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->paths[i];
        if (!path || !path[0]) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path %zu is empty", i);
        size_t length = strlen(path) + (path[0] == '/' ? 0 : folder_size + 1);
        if (length > PATH_BYTES_MAX)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path %zu has %zu bytes, expected at most %u: '%.80s...'",
                            i, length, PATH_BYTES_MAX, path);
        if (!stk_add_size(total, length + 1, &total))
            return stk_fail(err, STOKER_ERR_LIMIT, "the list of paths is too large");
    }
    *out_text_size = total;
    return STOKER_OK;
}

static size_t put_path(char *at, const char *path, const char *folder)
{
    size_t used = 0;
    if (path[0] != '/') {
        size_t folder_size = strlen(folder);
        memcpy(at, folder, folder_size);
        used = folder_size;
        at[used++] = '/';
    }
    size_t length = strlen(path);
    memcpy(at + used, path, length + 1);
    return used + length + 1;
}

static void put_entries(uint8_t *blob, const stoker_path_list *list, const char *folder)
{
    char *text = (char *)blob + ENTRIES_AT + list->count * ENTRY_BYTES;
    size_t offset = 0;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t size = 0;
        int64_t mtime_ns = 0;
        size_t length = put_path(text + offset, list->paths[i], folder);
        if (!stk_file_facts(text + offset, &size, &mtime_ns)) size = 0, mtime_ns = 0;
        uint8_t *entry = blob + ENTRIES_AT + i * ENTRY_BYTES;
        stk_blob_put64(entry, offset);
        stk_blob_put64(entry + 8, size);
        stk_blob_put64(entry + 16, (uint64_t)mtime_ns);
        offset += length;
    }
}

static stoker_status make_blob(const stoker_path_list *list, const stoker_video_spec *spec, int *out_fd,
                               stoker_error *err)
{
    char folder[PATH_BYTES_MAX + 1];
    size_t text_size = 0, table = 0, size = 0;
    STK_TRY(get_folder(folder, sizeof folder, err));
    STK_TRY(measure_paths(list, folder, &text_size, err));
    if (!stk_mul_size(list->count, ENTRY_BYTES, &table) || !stk_add_size(table, text_size + ENTRIES_AT, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "a list of %zu paths is too large", list->count);
    uint8_t *blob = malloc(size);
    if (!blob)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu paths (%zu bytes)", list->count, size);
    stk_source_put_header(blob, MAGIC, VERSION, size);
    put_form(blob + FORM_AT, spec);
    stk_blob_put64(blob + COUNT_AT, list->count);
    stk_blob_put64(blob + TEXT_SIZE_AT, text_size);
    put_entries(blob, list, folder);
    stoker_status status = stk_shmem_blob_create(blob, size, out_fd, err);
    free(blob);
    return status;
}

stoker_status stoker_source_create_video(const stoker_path_list *list, const stoker_video_spec *spec,
                                         stoker_source **out_source, stoker_error *err)
{
    struct stk_form form;
    int fd = -1;
    if (!list || !out_source || (list->count && !list->paths))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "list and out_source must be given");
    STK_TRY(stk_form_init(&form, spec, err));
    STK_TRY(make_blob(list, spec, &fd, err));
    return stk_media_source_open(fd, -1, out_source, err);
}

/* ---------------------------------------------------------------------------------------------------------------- use
 */

static const struct media_source *of(const struct stoker_source *source)
{
    STK_ASSERT(source->kind == STK_SOURCE_MEDIA);
    return (const struct media_source *)source;
}

static uint64_t count_files(const struct stoker_source *source) { return of(source)->count; }

static stoker_status describe_file(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                   stoker_error *err)
{
    (void)err; /* the id was checked: nothing can fail */
    const struct media_source *media = of(source);
    STK_ASSERT(id < media->count);
    const uint8_t *entry = media->blob + ENTRIES_AT + id * ENTRY_BYTES;
    *out = media->sample;
    out->id = id;
    out->path = media->text + stk_blob_get64(entry);
    out->bytes = stk_blob_get64(entry + 8);
    out->mtime_ns = (int64_t)stk_blob_get64(entry + 16);
    return STOKER_OK;
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
    uint32_t *fresh = first ? calloc((size_t)media->count, sizeof *fresh) : NULL;

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

static stoker_status check_facts(const stoker_descriptor *sample, const struct stk_file *file, stoker_error *err)
{
    if (sample->bytes == 0 && sample->mtime_ns == 0) return STOKER_OK; /* no file when the source was made, one now */
    if (sample->bytes != file->size)
        return stk_fail(err, STOKER_ERR_MISMATCH, "the file has %llu bytes, it had %llu when the source was made",
                        (unsigned long long)file->size, (unsigned long long)sample->bytes);
    if (sample->mtime_ns != file->mtime_ns)
        return stk_fail(err, STOKER_ERR_MISMATCH,
                        "the file was changed at %lld ns, it was of %lld ns when the source was made",
                        (long long)file->mtime_ns, (long long)sample->mtime_ns);
    return STOKER_OK;
}

static stoker_status decode_file(struct media_source *media, const stoker_descriptor *sample, void *dst,
                                 struct stk_made *out_made, stoker_error *err)
{
    struct stk_file file;
    stoker_video_result result;
    struct stk_decoder *decoder = NULL;
    uint64_t known = 0;
    STK_TRY(stk_file_open(sample->path, &file, err));
    stoker_status status = check_facts(sample, &file, err);
    if (status == STOKER_OK) status = acquire_decoder(media, sample->id, &decoder, &known, err);
    if (status == STOKER_OK) {
        status = stk_decoder_video(decoder, &file, &media->form, &known, dst, &result, err);
        release_decoder(media, sample->id, decoder, status == STOKER_OK ? known : 0);
    }
    stk_file_close(&file);
    if (status < 0) {
        stk_error_context(err, "%s", sample->path);
        return status;
    }
    *out_made = (struct stk_made){result.bytes_read, result.frames_presented};
    return STOKER_OK;
}

static stoker_status materialise_file(const struct stoker_source *source, uint64_t id, void *dst,
                                      struct stk_made *out_made, stoker_error *err)
{
    stoker_descriptor sample;
    STK_TRY(describe_file(source, id, &sample, err));
    /* The table is immutable; what is written behind it is guarded by the lock. */
    return decode_file((struct media_source *)(uintptr_t)of(source), &sample, dst, out_made, err);
}

static void close_media(struct stoker_source *source)
{
    struct media_source *media = (struct media_source *)source;
    for (uint32_t i = 0; i < media->resting_count; i++) stk_decoder_destroy(media->resting[i]);
    stk_mutex_destroy(media->lock);
    free(media->known_frames);
    stk_shmem_blob_unmap(media->blob, media->blob_size);
    stk_source_fini(source);
    free(media);
}

static const struct stk_source_ops media_ops = {count_files, describe_file, materialise_file, close_media};

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
}

stoker_status stk_media_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err)
{
    const void *blob = NULL;
    size_t size = 0;
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
        status = check_blob(blob, size, &media->form, err);
    }
    if (status == STOKER_OK) status = stk_mutex_create(RANK, &media->lock, err);
    if (status < 0) {
        if (media->blob) stk_shmem_blob_unmap(media->blob, media->blob_size);
        stk_source_fini(&media->base);
        free(media);
        return status;
    }
    media->count = stk_blob_get64(media->blob + COUNT_AT);
    media->text = (const char *)media->blob + ENTRIES_AT + media->count * ENTRY_BYTES;
    fill_sample(media);
    *out_source = &media->base;
    return STOKER_OK;
}
