/* SPDX-License-Identifier: Apache-2.0
 *
 * Index arrays as .npy files: see npy.h. The header is a Python dictionary of three entries in any order; what NumPy
 * would evaluate is parsed here by hand, and anything unexpected is an error with its offset.
 */
#include "tokens/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "store/file.h"
#include "sys/filemap.h"
#include "tokens/reader_internal.h"

#define PREFIX_BYTES 10u /* magic (6), version (2), length of the text (2) */
#define SHOWN_BYTES 24   /* of a value in a message */

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

struct dtype_name {
    stoker_index_dtype dtype;
    const char *text;
    size_t size;
};
static const struct dtype_name dtypes[] = {
    {STOKER_INDEX_INT16, "<i2", 2},
    {STOKER_INDEX_INT32, "<i4", 4},
    {STOKER_INDEX_UINT32, "<u4", 4},
    {STOKER_INDEX_INT64, "<i8", 8},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

size_t stk_index_dtype_size(stoker_index_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].size;
    return 0;
}

const char *stk_index_dtype_text(stoker_index_dtype dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].text;
    return "?";
}

/* ---------------------------------------------------------------------------------------------------------- parsing */

struct text {
    const uint8_t *bytes; /* of the file */
    size_t at, end;
    stoker_error *err;
};

static stoker_status refuse(const struct text *text, const char *field, const char *expected)
{
    size_t left = text->end - text->at;
    int shown = (int)(left < SHOWN_BYTES ? left : SHOWN_BYTES);
    return stk_fail(text->err, STOKER_ERR_CORRUPT, "%s at offset %zu is '%.*s', expected %s", field, text->at, shown,
                    (const char *)text->bytes + text->at, expected);
}

static void skip_blanks(struct text *text)
{
    while (text->at < text->end && (text->bytes[text->at] == ' ' || text->bytes[text->at] == '\n')) text->at++;
}

static bool accept(struct text *text, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(text);
    if (text->end - text->at < length || memcmp(text->bytes + text->at, word, length) != 0) return false;
    text->at += length;
    return true;
}

static stoker_status parse_dtype(struct text *text, struct stk_npy_header *out)
{
    for (size_t i = 0; i < DTYPES; i++) {
        char quoted[8];
        for (const char *quote = "'\""; *quote; quote++) {
            (void)snprintf(quoted, sizeof quoted, "%c%s%c", *quote, dtypes[i].text, *quote);
            if (!accept(text, quoted)) continue;
            out->dtype = dtypes[i].dtype;
            return STOKER_OK;
        }
    }
    return refuse(text, "descr", "'<i2', '<i4', '<u4' or '<i8'");
}

static stoker_status parse_order(struct text *text)
{
    return accept(text, "False") ? STOKER_OK : refuse(text, "fortran_order", "False");
}

static stoker_status parse_number(struct text *text, uint64_t *out)
{
    uint64_t value = 0;
    skip_blanks(text);
    size_t first = text->at;
    for (; text->at < text->end && text->bytes[text->at] >= '0' && text->bytes[text->at] <= '9'; text->at++)
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(text->bytes[text->at] - '0'), &value))
            return refuse(text, "shape", "a size below 2^64");
    if (text->at == first) return refuse(text, "shape", "a number");
    *out = value;
    return STOKER_OK;
}

static stoker_status parse_shape(struct text *text, struct stk_npy_header *out)
{
    uint64_t columns = 1;
    if (!accept(text, "(")) return refuse(text, "shape", "(ROWS,) or (ROWS, 2)");
    STK_TRY(parse_number(text, &out->rows));
    if (!accept(text, ",")) return refuse(text, "shape", "','");
    if (!accept(text, ")")) {
        STK_TRY(parse_number(text, &columns));
        if (columns != 2)
            return stk_fail(text->err, STOKER_ERR_CORRUPT,
                            "shape before offset %zu has %" PRIu64 " columns, expected 2", text->at, columns);
        (void)accept(text, ",");
        if (!accept(text, ")")) return refuse(text, "shape", "')'");
    }
    out->columns = (uint32_t)columns;
    return STOKER_OK;
}

static stoker_status parse_entries(struct text *text, struct stk_npy_header *out)
{
    static const char *const keys[] = {"'descr':", "'fortran_order':", "'shape':"};
    unsigned seen = 0;
    if (!accept(text, "{")) return refuse(text, "header", "'{'");
    while (!accept(text, "}")) {
        unsigned key = 0;
        while (key < 3 && !accept(text, keys[key])) key++;
        if (key == 3 || (seen >> key & 1u))
            return refuse(text, "header", "'descr':, 'fortran_order': or 'shape':, once each");
        seen |= 1u << key;
        if (key == 0) STK_TRY(parse_dtype(text, out));
        if (key == 1) STK_TRY(parse_order(text));
        if (key == 2) STK_TRY(parse_shape(text, out));
        if (accept(text, ",")) continue;
        if (!accept(text, "}")) return refuse(text, "header", "',' or '}'");
        break;
    }
    skip_blanks(text);
    if (text->at != text->end) return refuse(text, "header", "blanks up to its end");
    if (seen != 7)
        return stk_fail(text->err, STOKER_ERR_CORRUPT, "header up to offset %zu has no %.*s", text->at,
                        (int)strlen(keys[seen & 1u ? (seen & 2u ? 2 : 1) : 0]) - 1,
                        keys[seen & 1u ? (seen & 2u ? 2 : 1) : 0]);
    return STOKER_OK;
}

stoker_status stk_npy_parse(const uint8_t *bytes, size_t size, uint64_t file_bytes, struct stk_npy_header *out,
                            stoker_error *err)
{
    struct stk_npy_header header = {0};
    if (size < PREFIX_BYTES)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the file has %" PRIu64 " bytes, the header alone has at least %u",
                        file_bytes, PREFIX_BYTES);
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "magic at offset 0 is not that of a .npy file");
    if (bytes[6] != 1 || bytes[7] != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "version at offset 6 is %u.%u, expected 1.0", bytes[6], bytes[7]);
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    header.data_at = PREFIX_BYTES + length;
    if (header.data_at > size)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "header length at offset 8 is %zu, which ends after the file of %" PRIu64 " bytes", length,
                        file_bytes);
    if (header.data_at % 16 != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "header length at offset 8 is %zu, expected data at a multiple of 16 bytes", length);
    struct text text = {bytes, PREFIX_BYTES, (size_t)header.data_at, err};
    STK_TRY(parse_entries(&text, &header));
    size_t data_bytes = 0;
    if (!stk_mul_size((size_t)header.rows, header.columns * stk_index_dtype_size(header.dtype), &data_bytes) ||
        file_bytes - header.data_at != data_bytes)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "shape (%" PRIu64 ", %u) of %s does not fill the file: %" PRIu64
                        " bytes follow the header at offset %" PRIu64,
                        header.rows, header.columns, stk_index_dtype_text(header.dtype), file_bytes - header.data_at,
                        header.data_at);
    header.data_bytes = data_bytes;
    *out = header;
    return STOKER_OK;
}

void stk_npy_encode(stoker_index_dtype dtype, uint64_t rows, uint32_t columns, uint8_t out[STK_NPY_HEADER_BYTES])
{
    char shape[48];
    char *text = (char *)out + PREFIX_BYTES;
    const size_t room = STK_NPY_HEADER_BYTES - PREFIX_BYTES;
    STK_ASSERT(stk_index_dtype_size(dtype) > 0);
    STK_ASSERT(columns == 1 || columns == 2);
    memcpy(out, magic, sizeof magic);
    out[6] = 1, out[7] = 0;
    out[8] = (uint8_t)room, out[9] = 0;
    (void)snprintf(shape, sizeof shape, columns == 1 ? "%" PRIu64 "," : "%" PRIu64 ", %u", rows, columns);
    int used = snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                        stk_index_dtype_text(dtype), shape);
    STK_ASSERT(used > 0 && (size_t)used < room);
    memset(text + used, ' ', room - (size_t)used - 1);
    text[room - 1] = '\n';
}

/* ---------------------------------------------------------------------------------------------------------- opening */

static stoker_status read_exactly(const struct stk_file *file, uint64_t offset, void *out, size_t size,
                                  stoker_error *err)
{
    size_t got = 0;
    STK_TRY(stk_file_read(file, offset, out, size, &got, err));
    if (got != size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the file ends at offset %" PRIu64 ", expected %" PRIu64, offset + got,
                        file->size);
    return STOKER_OK;
}

static stoker_status read_header(const struct stk_file *file, struct stk_npy_header *out, stoker_error *err)
{
    uint8_t usual[STK_NPY_HEADER_BYTES];
    size_t size = file->size < sizeof usual ? (size_t)file->size : sizeof usual;
    STK_TRY(read_exactly(file, 0, usual, size, err));
    size_t whole = size < PREFIX_BYTES ? size : PREFIX_BYTES + ((size_t)usual[8] | (size_t)usual[9] << 8);
    if (whole <= size || whole > file->size) return stk_npy_parse(usual, size, file->size, out, err);
    uint8_t *text = malloc(whole); /* at most 64 KiB: its length has two bytes */
    if (!text) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a header of %zu bytes", whole);
    stoker_status status = read_exactly(file, 0, text, whole, err);
    if (status == STOKER_OK) status = stk_npy_parse(text, whole, file->size, out, err);
    free(text);
    return status;
}

static stoker_status load(const struct stk_file *file, const struct stk_npy_header *header, struct stk_npy *out,
                          stoker_error *err)
{
    size_t size = (size_t)header->data_bytes;
    bool counted = size > STK_NPY_READ_BYTES_MAX && stk_maps_take();
    if (counted || size > STK_NPY_FALLBACK_BYTES_MAX) {
        const void *base = NULL;
        size_t whole = (size_t)file->size;
        stoker_status status = stk_filemap_read(file->fd, whole, &base, err);
        if (status == STOKER_OK) {
            *out = (struct stk_npy){.base = (void *)(uintptr_t)base, .base_size = whole, .counted = counted};
            out->array.data = (const uint8_t *)base + header->data_at;
            return STOKER_OK;
        }
        if (counted) stk_maps_give();
        if (status != STOKER_ERR_LIMIT || size > STK_NPY_FALLBACK_BYTES_MAX) return status;
    }
    void *data = malloc(size ? size : 1);
    if (!data) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu bytes", size);
    stoker_status status = read_exactly(file, header->data_at, data, size, err);
    if (status < 0) {
        free(data);
        return status;
    }
    *out = (struct stk_npy){.base = data};
    out->array.data = data;
    return STOKER_OK;
}

stoker_status stk_npy_open(const char *path, struct stk_npy *out, stoker_error *err)
{
    struct stk_file file;
    struct stk_npy_header header;
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = read_header(&file, &header, err);
    if (status == STOKER_OK) status = load(&file, &header, out, err);
    stk_file_close(&file);
    if (status < 0) {
        stk_error_context(err, "%s", path);
        return status;
    }
    out->array.rows = header.rows;
    out->array.columns = header.columns;
    out->array.dtype = header.dtype;
    return STOKER_OK;
}

void stk_npy_close(struct stk_npy *npy)
{
    if (npy->counted) stk_maps_give();
    if (npy->base_size)
        stk_filemap_close(npy->base, npy->base_size);
    else
        free(npy->base);
    *npy = (struct stk_npy){0};
}
