/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout of PREFIX.idx: see format.h.
 *
 * The check of the values is one pass without branches over each array, which the compiler turns into vector code: the
 * sign bit of a word collects what is wrong. Only when it is set does a second pass look for the place.
 */
#include "tokens/format.h"

#include "base/error.h"

/* "MMIDIDX" and two zero bytes; magic, version and type of the header, then the two counts. */
static const uint8_t magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
enum { VERSION_AT = 9, TYPE_AT = 17, SEQUENCES_AT = 18, ENTRIES_AT = 26 };

size_t stoker_token_dtype_size(int code)
{
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 8, 4, 2};
    return code >= 0 && code < (int)sizeof sizes ? sizes[code] : 0;
}

static uint64_t load64(const uint8_t *data)
{
    uint64_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

stoker_status stk_index_header_decode(const uint8_t *data, uint64_t size, const char *path,
                                      struct stk_index_layout *out_layout, stoker_error *err)
{
    if (size < sizeof magic || memcmp(data, magic, sizeof magic) != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "'%s': offset 0: magic is not that of an index file (MMIDIDX); the file has %llu bytes", path,
                        (unsigned long long)size);
    if (size < STK_INDEX_HEADER_BYTES)
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s': the file ends at byte %llu, inside its header of %d bytes",
                        path, (unsigned long long)size, STK_INDEX_HEADER_BYTES);
    uint64_t version = load64(data + VERSION_AT);
    if (version == __builtin_bswap64(STK_INDEX_VERSION))
        return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                        "'%s': offset %d: version %d is stored big-endian; the format is little-endian", path,
                        VERSION_AT, STK_INDEX_VERSION);
    if (version != STK_INDEX_VERSION)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "'%s': offset %d: version is %llu, only %d is known", path,
                        VERSION_AT, (unsigned long long)version, STK_INDEX_VERSION);
    if (stoker_token_dtype_size(data[TYPE_AT]) == 0)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "'%s': offset %d: element type is %d, known are 1 to 8", path,
                        TYPE_AT, data[TYPE_AT]);
    out_layout->dtype_code = data[TYPE_AT];
    out_layout->sequences = load64(data + SEQUENCES_AT);
    out_layout->document_entries = load64(data + ENTRIES_AT);
    return STOKER_OK;
}

void stk_index_header_encode(const struct stk_index_layout *layout, uint8_t out[STK_INDEX_HEADER_BYTES])
{
    uint64_t version = STK_INDEX_VERSION;
    memcpy(out, magic, sizeof magic);
    memcpy(out + VERSION_AT, &version, sizeof version);
    out[TYPE_AT] = (uint8_t)layout->dtype_code;
    memcpy(out + SEQUENCES_AT, &layout->sequences, sizeof layout->sequences);
    memcpy(out + ENTRIES_AT, &layout->document_entries, sizeof layout->document_entries);
}

/* Takes `count` elements of `size` bytes at *at; false if they pass the end of the file. */
static bool take(uint64_t *at, uint64_t count, uint64_t size, uint64_t file_size)
{
    uint64_t bytes, end;
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(*at, bytes, &end) || end > file_size)
        return false;
    *at = end;
    return true;
}

stoker_status stk_index_place(struct stk_index_layout *layout, uint64_t file_size, const char *path, stoker_error *err)
{
    const struct {
        const char *name;
        uint64_t count, element_bytes, *place;
    } arrays[] = {
        {"sequence lengths", layout->sequences, sizeof(int32_t), &layout->lengths_at},
        {"sequence offsets", layout->sequences, sizeof(int64_t), &layout->offsets_at},
        {"document index", layout->document_entries, sizeof(int64_t), &layout->documents_at},
        {"sequence modes", layout->multimodal ? layout->sequences : 0, sizeof(int8_t), &layout->modes_at},
    };
    uint64_t at = STK_INDEX_HEADER_BYTES;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        *arrays[i].place = at;
        if (!take(&at, arrays[i].count, arrays[i].element_bytes, file_size))
            return stk_fail(
                err, STOKER_ERR_CORRUPT,
                "'%s': %s: %llu elements of %llu bytes from offset %llu pass the end of the file (%llu bytes)", path,
                arrays[i].name, (unsigned long long)arrays[i].count, (unsigned long long)arrays[i].element_bytes,
                (unsigned long long)at, (unsigned long long)file_size);
    }
    layout->end = at;
    if (layout->document_entries == 0)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "'%s': offset %d: the document index has no entry, at least one (0) is expected", path,
                        ENTRIES_AT);
    return STOKER_OK;
}

struct stk_index_view stk_index_view_of(const struct stk_index_layout *layout, const uint8_t *file)
{
    return (struct stk_index_view){
        .lengths = file + layout->lengths_at,
        .offsets = file + layout->offsets_at,
        .documents = file + layout->documents_at,
        .modes = layout->multimodal ? file + layout->modes_at : NULL,
        .sequences = layout->sequences,
        .document_entries = layout->document_entries,
        .element_bytes = stoker_token_dtype_size(layout->dtype_code),
    };
}

/* --------------------------------------------------------------------------------------------------------- values */

/* Sign bit: a length or an offset is negative, or a sequence passes `limit`. With 0 <= offset <= limit, taking up to
 * 2^34 more cannot wrap, and where that does not hold one of the first three terms has its sign bit already. */
static uint64_t sequences_fault(const struct stk_index_view *view, uint64_t limit)
{
    uint64_t fault = 0;
    uint64_t element_bytes = view->element_bytes;
    for (uint64_t i = 0; i < view->sequences; i++) {
        int64_t length = stk_index_length(view, i);
        uint64_t offset = (uint64_t)stk_index_offset(view, i);
        uint64_t rest = limit - offset;
        fault |= (uint64_t)length | offset | rest | (rest - (uint64_t)length * element_bytes);
    }
    return fault >> 63;
}

/* Nonzero: an offset is not the running sum. Lengths are known to be good. */
static uint64_t running_fault(const struct stk_index_view *view)
{
    uint64_t fault = 0, sum = 0;
    for (uint64_t i = 0; i < view->sequences; i++) {
        fault |= (uint64_t)stk_index_offset(view, i) ^ sum;
        sum += (uint64_t)stk_index_length(view, i) * view->element_bytes;
    }
    return fault;
}

static uint64_t documents_fault(const struct stk_index_view *view)
{
    uint64_t fault = 0;
    for (uint64_t i = 1; i < view->document_entries; i++) {
        uint64_t before = (uint64_t)stk_index_document(view, i - 1), entry = (uint64_t)stk_index_document(view, i);
        fault |= before | entry | (entry - before);
    }
    return fault >> 63;
}

static uint64_t place_in(const struct stk_index_view *view, const uint8_t *array, uint64_t index, uint64_t size)
{
    return STK_INDEX_HEADER_BYTES + (uint64_t)(array - view->lengths) + index * size;
}

static stoker_status name_sequence(const struct stk_index_view *view, const struct stk_index_bounds *bounds,
                                   uint64_t *out_sequence, stoker_error *err)
{
    for (uint64_t i = 0; i < view->sequences; i++) {
        int64_t length = stk_index_length(view, i), offset = stk_index_offset(view, i);
        unsigned long long number = i, at = place_in(view, view->lengths, i, sizeof(int32_t));
        unsigned long long offset_at = place_in(view, view->offsets, i, sizeof(int64_t));
        if (length >= 0 && offset >= 0 && (uint64_t)offset <= bounds->bin_bytes &&
            (uint64_t)length * view->element_bytes <= bounds->bin_bytes - (uint64_t)offset)
            continue;
        if (out_sequence) *out_sequence = i;
        if (length < 0)
            return stk_fail(err, STOKER_ERR_CORRUPT, "'%s': offset %llu: length of sequence %llu is %lld, below 0",
                            bounds->idx_path, at, number, (long long)length);
        if (offset < 0)
            return stk_fail(err, STOKER_ERR_CORRUPT, "'%s': offset %llu: offset of sequence %llu is %lld, below 0",
                            bounds->idx_path, offset_at, number, (long long)offset);
        if ((uint64_t)offset > bounds->bin_bytes)
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "'%s': offset %llu: offset of sequence %llu is %lld, past the end of '%s' (%llu bytes)",
                            bounds->idx_path, offset_at, number, (long long)offset, bounds->bin_path,
                            (unsigned long long)bounds->bin_bytes);
        return stk_fail(
            err, STOKER_ERR_CORRUPT,
            "'%s' ends at byte %llu, inside sequence %llu (offset %lld, %lld elements of %zu bytes, as '%s' "
            "says at offset %llu)",
            bounds->bin_path, (unsigned long long)bounds->bin_bytes, number, (long long)offset, (long long)length,
            view->element_bytes, bounds->idx_path, at);
    }
    return STOKER_OK;
}

static stoker_status name_document(const struct stk_index_view *view, const struct stk_index_bounds *bounds,
                                   stoker_error *err)
{
    int64_t before = 0;
    for (uint64_t i = 0; i < view->document_entries; i++) {
        int64_t entry = stk_index_document(view, i);
        unsigned long long at = place_in(view, view->documents, i, sizeof(int64_t));
        if (i == 0 && entry != 0)
            return stk_fail(err, STOKER_ERR_CORRUPT, "'%s': offset %llu: document index begins with %lld, not with 0",
                            bounds->idx_path, at, (long long)entry);
        if (entry < before)
            return stk_fail(
                err, STOKER_ERR_CORRUPT,
                "'%s': offset %llu: entry %llu of the document index is %lld, below the entry before (%lld)",
                bounds->idx_path, at, (unsigned long long)i, (long long)entry, (long long)before);
        before = entry;
    }
    if ((uint64_t)before == view->sequences) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_CORRUPT,
                    "'%s': offset %llu: document index ends with %lld, but there are %llu sequences", bounds->idx_path,
                    (unsigned long long)place_in(view, view->documents, view->document_entries - 1, sizeof(int64_t)),
                    (long long)before, (unsigned long long)view->sequences);
}

/* The offsets are not the running sum, or the sum is not the size of the .bin file. */
static stoker_status name_inexact(const struct stk_index_view *view, const struct stk_index_bounds *bounds,
                                  uint64_t *out_sequence, stoker_error *err)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < view->sequences; i++) {
        int64_t offset = stk_index_offset(view, i);
        if ((uint64_t)offset != sum) {
            if (out_sequence) *out_sequence = i;
            return stk_fail(
                err, STOKER_ERR_CORRUPT,
                "'%s': offset %llu: offset of sequence %llu is %lld, but the sequences before it end at %llu",
                bounds->idx_path, (unsigned long long)place_in(view, view->offsets, i, sizeof(int64_t)),
                (unsigned long long)i, (long long)offset, (unsigned long long)sum);
        }
        sum += (uint64_t)stk_index_length(view, i) * view->element_bytes;
    }
    if (sum == bounds->bin_bytes) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_CORRUPT, "'%s' has %llu bytes, but the sequences end at %llu", bounds->bin_path,
                    (unsigned long long)bounds->bin_bytes, (unsigned long long)sum);
}

stoker_status stk_index_check(const struct stk_index_view *view, const struct stk_index_bounds *bounds,
                              uint64_t *out_sequence, stoker_error *err)
{
    uint64_t last = view->document_entries - 1;
    if (out_sequence) *out_sequence = UINT64_MAX;
    if (sequences_fault(view, bounds->bin_bytes) != 0) return name_sequence(view, bounds, out_sequence, err);
    if (stk_index_document(view, 0) != 0 || (uint64_t)stk_index_document(view, last) != view->sequences ||
        documents_fault(view) != 0)
        return name_document(view, bounds, err);
    if (bounds->exact) {
        uint64_t end = 0;
        if (view->sequences > 0)
            end = (uint64_t)stk_index_offset(view, view->sequences - 1) +
                  (uint64_t)stk_index_length(view, view->sequences - 1) * view->element_bytes;
        if (end != bounds->bin_bytes || running_fault(view) != 0) return name_inexact(view, bounds, out_sequence, err);
    }
    return STOKER_OK;
}
