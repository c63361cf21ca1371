/* SPDX-License-Identifier: Apache-2.0
 *
 * The blob of a token source: see token_blob.h. All integers are little-endian. Offsets of texts count from the start
 * of the text part, those of arrays from the start of the array part.
 *
 *      0  header (16)                 48  flags (4)                   72  set of the blend (88)
 *     16  count (8)                   52  number of datasets (4)     160  datasets (184 each)
 *     24  sequence length (8)         56  bytes of texts (8)           .  texts, each ended by a zero byte
 *     32  pad id (8), eod id (8)      64  bytes of arrays (8)          .  zeros to a multiple of 16, arrays
 */
#include "source/token_blob.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "source/blob.h"
#include "source/source_internal.h"
#include "sys/shmem.h"
#include "tokens/gpt.h"

#define MAGIC 0x544b5453u /* "STKT" in a dump */
#define VERSION 1u
#define SET_BYTES 88u
#define DATASET_BYTES 184u
#define BLEND_AT 72u
#define DATASETS_AT (BLEND_AT + SET_BYTES)
#define SET_IN_DATASET 96u
#define IN_BLOB UINT64_MAX /* offset of a folder: the arrays are here */
#define ARRAY_ALIGNMENT 16u
#define PATH_BYTES_MAX 4095u

enum flag {
    EXTRA = 1,
    RESET_POSITIONS = 2,
    RESET_ATTENTION = 4,
    EOD_MASK = 8,
    ATTENTION = 16,
    DOCUMENTS = 32,
    BLEND = 64
};
enum { ALL_FLAGS = 127, KIND_FILES = 1, KIND_MOCK = 2, MULTIMODAL = 1 };

/* ---------------------------------------------------------------------------------------------------------- writing */

/* The parts in the making. The first pass only counts: `blob` is NULL. */
struct writing {
    uint8_t *blob;
    size_t text_at, text_used, array_at, array_used;
    char folder[PATH_BYTES_MAX + 1]; /* working directory */
    stoker_error *err;
};

static void put(const struct writing *writing, size_t at, uint64_t value, int bytes)
{
    if (!writing->blob) return;
    if (bytes == 4)
        stk_blob_put32(writing->blob + at, (uint32_t)value);
    else
        stk_blob_put64(writing->blob + at, value);
}

static void put_bytes(struct writing *writing, const char *text, size_t size)
{
    if (writing->blob && size > 0) memcpy(writing->blob + writing->text_at + writing->text_used, text, size);
    writing->text_used += size;
}

/* Workers run elsewhere: relative paths are made absolute here. */
static stoker_status put_text(struct writing *writing, size_t at, const char *text, size_t length, bool is_path)
{
    bool relative = is_path && (length == 0 || text[0] != '/');
    size_t whole = length + (relative ? strlen(writing->folder) + 1 : 0);
    if (whole > PATH_BYTES_MAX)
        return stk_fail(writing->err, STOKER_ERR_INVALID_ARGUMENT, "'%.80s...' has %zu bytes, expected at most %u",
                        text, whole, PATH_BYTES_MAX);
    put(writing, at, writing->text_used, 8);
    if (relative) {
        put_bytes(writing, writing->folder, strlen(writing->folder));
        put_bytes(writing, "/", 1);
    }
    put_bytes(writing, text, length);
    put_bytes(writing, "", 1);
    return STOKER_OK;
}

static stoker_status put_array(struct writing *writing, size_t at, const stoker_index_array *array)
{
    size_t size = 0, place = (size_t)stk_align_up(writing->array_used, ARRAY_ALIGNMENT), end = 0;
    if (!stk_mul_size((size_t)array->rows, array->columns * stk_index_dtype_size(array->dtype), &size) ||
        !stk_add_size(place, size, &end) || end > SIZE_MAX / 2)
        return stk_fail(writing->err, STOKER_ERR_LIMIT, "an index of %" PRIu64 " rows is too large", array->rows);
    put(writing, at, array->dtype, 4);
    put(writing, at + 4, array->columns, 4);
    put(writing, at + 8, array->rows, 8);
    put(writing, at + 16, place, 8);
    if (writing->blob && size > 0) memcpy(writing->blob + writing->array_at + place, array->data, size);
    writing->array_used = end;
    return STOKER_OK;
}

static stoker_status put_set(struct writing *writing, size_t at, const stoker_index_cache *cache,
                             const stoker_index_array *arrays, int count)
{
    if (cache->folder) {
        STK_TRY(put_text(writing, at, cache->folder, strlen(cache->folder), true));
        return put_text(writing, at + 8, cache->stem, strlen(cache->stem), false);
    }
    put(writing, at, IN_BLOB, 8);
    for (int i = 0; i < count; i++) STK_TRY(put_array(writing, at + 16 + 24 * (size_t)i, &arrays[i]));
    return STOKER_OK;
}

static stoker_status put_files(struct writing *writing, size_t at, const stoker_dataset *dataset)
{
    stoker_dataset_facts facts;
    stoker_dataset_options options;
    const char *path;
    stk_dataset_opened(dataset, &path, &options);
    if (options.access != STOKER_DATASET_MMAP && options.access != STOKER_DATASET_FILE)
        return stk_fail(writing->err, STOKER_ERR_UNSUPPORTED,
                        "'%s' is in object storage, which native workers do not read", path);
    stoker_dataset_get_facts(dataset, &facts);
    put(writing, at + 4, options.access, 4);
    put(writing, at + 8, options.multimodal ? MULTIMODAL : 0, 4);
    put(writing, at + 12, (uint32_t)options.dtype_code, 4);
    put(writing, at + 24, options.document_entries, 8);
    put(writing, at + 32, options.sequences, 8);
    put(writing, at + 40, (uint32_t)options.open_retries, 4);
    put(writing, at + 48, options.retry_delay_ns, 8);
    put(writing, at + 72, facts.sequences, 8);
    put(writing, at + 80, facts.bin_bytes, 8);
    return put_text(writing, at + 16, path, strlen(path) - strlen(".bin"), true);
}

static stoker_status put_dataset(struct writing *writing, size_t at, stoker_gpt_dataset *gpt)
{
    stoker_index_array arrays[STK_TOKEN_SET_ARRAYS];
    put(writing, at, gpt->mock ? KIND_MOCK : KIND_FILES, 4);
    if (gpt->mock) {
        put(writing, at + 56, (uint64_t)gpt->mock->vocabulary, 8);
        put(writing, at + 64, (uint64_t)gpt->mock->eod, 8);
    } else {
        STK_TRY(put_files(writing, at, gpt->dataset));
    }
    STK_TRY(put_text(writing, at + 88, gpt->split, strlen(gpt->split), false));
    if (!gpt->cache.folder) STK_TRY(stoker_gpt_dataset_arrays(gpt, &arrays[0], &arrays[1], &arrays[2], writing->err));
    return put_set(writing, at + SET_IN_DATASET, &gpt->cache, arrays, STK_TOKEN_SET_ARRAYS);
}

static stoker_status put_blend(struct writing *writing, stoker_blend_index *blend)
{
    stoker_index_array arrays[2];
    const stoker_index_cache *cache = stk_blend_cache(blend);
    if (!cache->folder) STK_TRY(stoker_blend_index_arrays(blend, &arrays[0], &arrays[1], NULL, writing->err));
    return put_set(writing, BLEND_AT, cache, arrays, 2);
}

static stoker_status put_all(struct writing *writing, const stoker_token_spec *spec)
{
    writing->text_used = writing->array_used = 0;
    if (spec->blend) STK_TRY(put_blend(writing, spec->blend));
    for (uint32_t i = 0; i < spec->dataset_count; i++)
        STK_TRY(put_dataset(writing, DATASETS_AT + (size_t)DATASET_BYTES * i, spec->datasets[i]));
    return STOKER_OK;
}

static void put_head(const struct writing *writing, const stoker_token_spec *spec)
{
    const stoker_gpt_form *form = spec->form;
    const struct stk_gpt_request *request = &spec->datasets[0]->request;
    uint32_t flags = (request->extra_token ? EXTRA : 0u) | (form->reset_position_ids ? RESET_POSITIONS : 0u) |
                     (form->reset_attention_mask ? RESET_ATTENTION : 0u) | (form->eod_mask_loss ? EOD_MASK : 0u) |
                     (form->attention_mask ? ATTENTION : 0u) | (form->documents ? DOCUMENTS : 0u) |
                     (spec->blend ? BLEND : 0u);
    put(writing, 16, spec->count, 8);
    put(writing, 24, request->sequence_length, 8);
    put(writing, 32, (uint64_t)form->pad, 8);
    put(writing, 40, (uint64_t)form->eod, 8);
    put(writing, 48, flags, 4);
    put(writing, 52, spec->dataset_count, 4);
    put(writing, 56, writing->text_used, 8);
    put(writing, 64, writing->array_used, 8);
}

static stoker_status check_spec(const stoker_token_spec *spec, stoker_error *err)
{
    if (!spec || spec->struct_size != sizeof *spec)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the spec has %u bytes, this library knows %zu",
                        spec ? spec->struct_size : 0, sizeof *spec);
    if (!spec->datasets || !spec->form || spec->form->struct_size != sizeof *spec->form)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "datasets and a form must be given");
    if (spec->form->documents && spec->form->attention_mask)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "an attention mask and cu_seqlens exclude each other");
    if (spec->dataset_count < 1 || spec->dataset_count > STK_BLEND_DATASETS_MAX ||
        (!spec->blend && spec->dataset_count != 1))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u datasets, expected %s", spec->dataset_count,
                        spec->blend ? "1 to 32766" : "1 without a blend");
    const struct stk_gpt_request *first = &spec->datasets[0]->request;
    for (uint32_t i = 1; i < spec->dataset_count; i++)
        if (spec->datasets[i]->request.sequence_length != first->sequence_length ||
            spec->datasets[i]->request.extra_token != first->extra_token)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "dataset %u has another sequence length than dataset 0",
                            i);
    return STOKER_OK;
}

stoker_status stk_token_blob_create(const stoker_token_spec *spec, int *out_fd, stoker_error *err)
{
    STK_TRY(check_spec(spec, err));
    struct writing writing = {.err = err};
    if (!getcwd(writing.folder, sizeof writing.folder))
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read the name of the working directory");
    STK_TRY(put_all(&writing, spec)); /* counts */
    writing.text_at = DATASETS_AT + (size_t)DATASET_BYTES * spec->dataset_count;
    writing.array_at = (size_t)stk_align_up(writing.text_at + writing.text_used, ARRAY_ALIGNMENT);
    size_t size = 0;
    if (!stk_add_size(writing.array_at, writing.array_used, &size))
        return stk_fail(err, STOKER_ERR_LIMIT, "the indexes of %u datasets are too large", spec->dataset_count);
    writing.blob = calloc(1, size);
    if (!writing.blob) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a source of %zu bytes", size);
    stk_source_put_header(writing.blob, MAGIC, VERSION, size);
    stoker_status status = put_all(&writing, spec);
    put_head(&writing, spec);
    if (status == STOKER_OK) status = stk_shmem_blob_create(writing.blob, size, out_fd, err);
    free(writing.blob);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- reading */

struct parts {
    const uint8_t *blob;
    size_t text_at, text_size, array_at, array_size;
    stoker_error *err;
};

static stoker_status check_text(const struct parts *parts, size_t at, bool is_path)
{
    uint64_t offset = stk_blob_get64(parts->blob + at);
    if (offset >= parts->text_size)
        return stk_fail(parts->err, STOKER_ERR_CORRUPT,
                        "source blob: text offset at %zu is %" PRIu64 ", expected below %zu", at, offset,
                        parts->text_size);
    const uint8_t *text = parts->blob + parts->text_at + offset;
    if (is_path && text[0] != '/')
        return stk_fail(parts->err, STOKER_ERR_CORRUPT,
                        "source blob: the path at text offset %" PRIu64 " is not absolute", offset);
    if (strlen((const char *)text) > PATH_BYTES_MAX) /* the text part ends with a zero */
        return stk_fail(parts->err, STOKER_ERR_CORRUPT, "source blob: the text at text offset %" PRIu64 " is too long",
                        offset);
    return STOKER_OK;
}

static stoker_status check_set(const struct parts *parts, size_t at, int count)
{
    if (stk_blob_get64(parts->blob + at) != IN_BLOB) {
        STK_TRY(check_text(parts, at, true));
        STK_TRY(check_text(parts, at + 8, false));
        const char *stem = (const char *)parts->blob + parts->text_at + stk_blob_get64(parts->blob + at + 8);
        if (stem[0] && !strchr(stem, '/')) return STOKER_OK;
        return stk_fail(parts->err, STOKER_ERR_CORRUPT, "source blob: the stem at offset %zu is no file name", at + 8);
    }
    for (int i = 0; i < count; i++) {
        size_t here = at + 16 + 24 * (size_t)i, size = 0, end = 0;
        stoker_index_dtype dtype = (stoker_index_dtype)stk_blob_get32(parts->blob + here);
        uint32_t columns = stk_blob_get32(parts->blob + here + 4);
        uint64_t rows = stk_blob_get64(parts->blob + here + 8), offset = stk_blob_get64(parts->blob + here + 16);
        size_t row = columns == 1 || columns == 2 ? columns * stk_index_dtype_size(dtype) : 0;
        if (row == 0 || offset % ARRAY_ALIGNMENT != 0 || !stk_mul_size((size_t)rows, row, &size) ||
            !stk_add_size((size_t)offset, size, &end) || end > parts->array_size)
            return stk_fail(parts->err, STOKER_ERR_CORRUPT,
                            "source blob: the array at offset %zu has %" PRIu64 " rows at %" PRIu64 " of %zu bytes",
                            here, rows, offset, parts->array_size);
    }
    return STOKER_OK;
}

static stoker_status check_dataset(const struct parts *parts, size_t at)
{
    const uint8_t *from = parts->blob + at;
    uint32_t kind = stk_blob_get32(from), access = stk_blob_get32(from + 4), dtype = stk_blob_get32(from + 12);
    if (kind != KIND_FILES && kind != KIND_MOCK)
        return stk_fail(parts->err, STOKER_ERR_CORRUPT, "source blob: kind at offset %zu is %u, expected 1 or 2", at,
                        kind);
    if (kind == KIND_FILES) STK_TRY(check_text(parts, at + 16, true));
    if (access > STOKER_DATASET_FILE || stk_blob_get32(from + 8) > MULTIMODAL || dtype > STOKER_TOKEN_UINT16)
        return stk_fail(parts->err, STOKER_ERR_CORRUPT, "source blob: options at offset %zu are %u, %u, %u", at + 4,
                        access, stk_blob_get32(from + 8), dtype);
    if (kind == KIND_MOCK && (int64_t)stk_blob_get64(from + 56) < 1)
        return stk_fail(parts->err, STOKER_ERR_CORRUPT, "source blob: vocabulary at offset %zu is %" PRId64, at + 56,
                        (int64_t)stk_blob_get64(from + 56));
    STK_TRY(check_text(parts, at + 88, false));
    return check_set(parts, at + SET_IN_DATASET, STK_TOKEN_SET_ARRAYS);
}

static stoker_status check_head(const uint8_t *blob, stoker_error *err)
{
    uint64_t length = stk_blob_get64(blob + 24), count = stk_blob_get64(blob + 16);
    uint32_t flags = stk_blob_get32(blob + 48), datasets = stk_blob_get32(blob + 52);
    if (length < 1 || length > STK_SEQUENCE_LENGTH_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: sequence length at offset 24 is %" PRIu64, length);
    if (count > INT64_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: count at offset 16 is %" PRIu64, count);
    if (flags > ALL_FLAGS || ((flags & ATTENTION) && (flags & DOCUMENTS)))
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: flags at offset 48 are %#x", flags);
    if (datasets < 1 || datasets > STK_BLEND_DATASETS_MAX || (datasets > 1 && !(flags & BLEND)))
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: number of datasets at offset 52 is %u", datasets);
    return STOKER_OK;
}

/* Where the parts are; false if they do not fill the blob. */
static bool find_parts(const uint8_t *blob, size_t size, struct parts *out)
{
    size_t table = (size_t)DATASET_BYTES * stk_blob_get32(blob + 52), end = 0;
    out->blob = blob;
    out->text_at = DATASETS_AT + table;
    out->text_size = (size_t)stk_blob_get64(blob + 56);
    out->array_size = (size_t)stk_blob_get64(blob + 64);
    if (!stk_add_size(out->text_at, out->text_size, &end) || end > SIZE_MAX - ARRAY_ALIGNMENT) return false;
    out->array_at = (size_t)stk_align_up(end, ARRAY_ALIGNMENT);
    return stk_add_size(out->array_at, out->array_size, &end) && end == size && out->text_size > 0;
}

stoker_status stk_token_blob_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    STK_TRY(stk_source_check_header(blob, size, MAGIC, VERSION, err));
    if (size < DATASETS_AT)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes, expected at least %u", size, DATASETS_AT);
    STK_TRY(check_head(blob, err));
    struct parts parts = {.err = err};
    if (!find_parts(blob, size, &parts) || blob[parts.text_at + parts.text_size - 1] != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "source blob: %u datasets, %" PRIu64 " bytes of texts and %" PRIu64
                        " of arrays do not fill %zu bytes, or the texts have no end",
                        stk_blob_get32(blob + 52), stk_blob_get64(blob + 56), stk_blob_get64(blob + 64), size);
    if (stk_blob_get32(blob + 48) & BLEND) STK_TRY(check_set(&parts, BLEND_AT, 2));
    for (uint32_t i = 0; i < stk_blob_get32(blob + 52); i++)
        STK_TRY(check_dataset(&parts, DATASETS_AT + (size_t)DATASET_BYTES * i));
    return STOKER_OK;
}

static void get_set(const struct parts *parts, size_t at, int count, struct stk_token_set *out)
{
    const char *text = (const char *)parts->blob + parts->text_at;
    *out = (struct stk_token_set){0};
    if (stk_blob_get64(parts->blob + at) != IN_BLOB) {
        out->folder = text + stk_blob_get64(parts->blob + at);
        out->stem = text + stk_blob_get64(parts->blob + at + 8);
        return;
    }
    for (int i = 0; i < count; i++) {
        const uint8_t *from = parts->blob + at + 16 + 24 * (size_t)i;
        out->arrays[i] =
            (stoker_index_array){parts->blob + parts->array_at + stk_blob_get64(from + 16), stk_blob_get64(from + 8),
                                 stk_blob_get32(from + 4), (stoker_index_dtype)stk_blob_get32(from)};
    }
}

void stk_token_blob_head(const uint8_t *blob, struct stk_token_head *out, struct stk_token_set *out_blend)
{
    struct parts parts = {0};
    uint32_t flags = stk_blob_get32(blob + 48);
    STK_ASSERT(find_parts(blob, (size_t)stk_blob_get64(blob + 8), &parts));
    *out = (struct stk_token_head){.count = stk_blob_get64(blob + 16),
                                   .sequence_length = stk_blob_get64(blob + 24),
                                   .no_extra_token = !(flags & EXTRA),
                                   .is_blend = (flags & BLEND) != 0,
                                   .datasets = stk_blob_get32(blob + 52),
                                   .form = STOKER_GPT_FORM_INIT};
    out->form.pad = (int64_t)stk_blob_get64(blob + 32);
    out->form.eod = (int64_t)stk_blob_get64(blob + 40);
    out->form.reset_position_ids = (flags & RESET_POSITIONS) != 0;
    out->form.reset_attention_mask = (flags & RESET_ATTENTION) != 0;
    out->form.eod_mask_loss = (flags & EOD_MASK) != 0;
    out->form.attention_mask = (flags & ATTENTION) != 0;
    out->form.documents = (flags & DOCUMENTS) != 0;
    if (out->is_blend) get_set(&parts, BLEND_AT, 2, out_blend);
}

void stk_token_blob_dataset(const uint8_t *blob, uint32_t number, struct stk_token_dataset *out)
{
    struct parts parts = {0};
    STK_ASSERT(find_parts(blob, (size_t)stk_blob_get64(blob + 8), &parts));
    STK_ASSERT(number < stk_blob_get32(blob + 52));
    const size_t at = DATASETS_AT + (size_t)DATASET_BYTES * number;
    const uint8_t *from = blob + at;
    const char *text = (const char *)blob + parts.text_at;
    *out = (struct stk_token_dataset){.is_mock = stk_blob_get32(from) == KIND_MOCK,
                                      .vocabulary = (int64_t)stk_blob_get64(from + 56),
                                      .eod = (int64_t)stk_blob_get64(from + 64),
                                      .sequences = stk_blob_get64(from + 72),
                                      .bin_bytes = stk_blob_get64(from + 80),
                                      .split = text + stk_blob_get64(from + 88),
                                      .options = STOKER_DATASET_OPTIONS_INIT};
    if (!out->is_mock) out->prefix = text + stk_blob_get64(from + 16);
    out->options.access = (stoker_dataset_access)stk_blob_get32(from + 4);
    out->options.multimodal = (stk_blob_get32(from + 8) & MULTIMODAL) != 0;
    out->options.dtype_code = (int)stk_blob_get32(from + 12);
    out->options.document_entries = stk_blob_get64(from + 24);
    out->options.sequences = stk_blob_get64(from + 32);
    out->options.open_retries = (int)stk_blob_get32(from + 40);
    out->options.retry_delay_ns = stk_blob_get64(from + 48);
    get_set(&parts, at + SET_IN_DATASET, STK_TOKEN_SET_ARRAYS, &out->set);
}
