/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of a tar archive: see tar_index.h.
 *
 * Order by (key, extension) serves three ends: names that stand twice become neighbours, samples become runs, and a
 * name is found by halving.
 */
#include "store/tar_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

#define MAGIC 0x584b5453u /* "STKX" in a dump */
#define VERSION 1u
enum { HEADER_BYTES = 64, ENTRY_BYTES = 24, CHECKSUM_AT = 56 };
#define MEMBERS_MAX (UINT32_MAX - 1)

/* ------------------------------------------------------------------------------------------------------------ bytes */

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

/* FNV-1a. Finds what a disk or a copy did; nobody has to be kept from making one that fits. */
static uint64_t checksum(const uint8_t *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        if (i < CHECKSUM_AT || i >= HEADER_BYTES) hash = (hash ^ data[i]) * 0x100000001b3u;
    return hash;
}

/* ------------------------------------------------------------------------------------------------------------ order */

static int compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    if (order != 0) return order;
    return a_size < b_size ? -1 : a_size > b_size;
}

struct name {
    const char *text;
    size_t size, key_size;
};

static int compare_names(const struct name *a, const struct name *b)
{
    int order = compare_bytes(a->text, a->key_size, b->text, b->key_size);
    if (order != 0) return order;
    return compare_bytes(a->text + a->key_size, a->size - a->key_size, b->text + b->key_size, b->size - b->key_size);
}

static struct name name_of(const struct stk_tar_index *index, uint32_t entry)
{
    const struct stk_tar_entry *e = &index->entries[entry];
    return (struct name){index->text + e->name_offset, e->name_size, e->key_size};
}

/* Merge sort: qsort() has no place for the texts. Equal names keep their order, so that the later stands last. */
static void sort(const struct stk_tar_index *index, uint32_t *values, uint32_t *spare, size_t count)
{
    if (count < 2) return;
    size_t half = count / 2, left = 0, right = half, used = 0;
    sort(index, values, spare, half);
    sort(index, values + half, spare, count - half);
    struct name last = name_of(index, values[half - 1]), first = name_of(index, values[half]);
    if (compare_names(&last, &first) <= 0) return; /* archives are mostly in order */
    memcpy(spare, values, half * sizeof *values);
    while (left < half && right < count) {
        struct name a = name_of(index, spare[left]), b = name_of(index, values[right]);
        values[used++] = compare_names(&a, &b) <= 0 ? spare[left++] : values[right++];
    }
    memcpy(values + used, spare + left, (half - left) * sizeof *values);
}

static stoker_status make_order(struct stk_tar_index *index, stoker_error *err)
{
    size_t count = index->count ? index->count : 1;
    uint32_t *spare = calloc(count, sizeof *spare);
    index->sorted = calloc(count, sizeof *index->sorted);
    if (!spare || !index->sorted) {
        free(spare);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index of %u members", index->count);
    }
    for (uint32_t i = 0; i < index->count; i++) index->sorted[i] = i;
    sort(index, index->sorted, spare, index->count);
    free(spare);
    return STOKER_OK;
}

/* Position in `sorted` of the first of two neighbours with one name, from `from` on; count if there are none. */
static uint32_t next_twin(const struct stk_tar_index *index, uint32_t from)
{
    for (uint32_t i = from; i + 1 < index->count; i++) {
        struct name a = name_of(index, index->sorted[i]), b = name_of(index, index->sorted[i + 1]);
        if (compare_names(&a, &b) == 0) return i;
    }
    return index->count;
}

/* Runs of one key in `sorted`, numbered in the order of their first entries. */
static stoker_status make_samples(struct stk_tar_index *index, stoker_error *err)
{
    size_t count = index->count ? index->count : 1;
    uint32_t *run_of = calloc(count, sizeof *run_of); /* by the lowest entry of each run: where it begins, plus 1 */
    index->sample_first = calloc(count, sizeof *index->sample_first);
    index->sample_size = calloc(count, sizeof *index->sample_size);
    if (!run_of || !index->sample_first || !index->sample_size) {
        free(run_of);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index of %u members", index->count);
    }
    for (uint32_t i = 0, end; i < index->count; i = end) {
        struct name key = name_of(index, index->sorted[i]);
        uint32_t lowest = index->sorted[i];
        for (end = i + 1; end < index->count; end++) {
            struct name other = name_of(index, index->sorted[end]);
            if (compare_bytes(key.text, key.key_size, other.text, other.key_size) != 0) break;
            if (index->sorted[end] < lowest) lowest = index->sorted[end];
        }
        run_of[lowest] = i + 1;
    }
    for (uint32_t entry = 0; entry < index->count; entry++) {
        if (run_of[entry] == 0) continue;
        uint32_t sample = index->sample_count++, at = run_of[entry] - 1;
        struct name key = name_of(index, index->sorted[at]);
        index->sample_first[sample] = at;
        for (; at < index->count; at++) {
            struct name other = name_of(index, index->sorted[at]);
            if (compare_bytes(key.text, key.key_size, other.text, other.key_size) != 0) break;
            index->entries[index->sorted[at]].sample = sample;
            index->sample_size[sample]++;
        }
    }
    free(run_of);
    return STOKER_OK;
}

uint32_t stk_tar_index_find(const struct stk_tar_index *index, const char *name, size_t name_size)
{
    bool has_extension;
    struct name wanted = {name, name_size, stk_tar_key_size(name, name_size, &has_extension)};
    uint32_t low = 0, high = index->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct name here = name_of(index, index->sorted[middle]);
        if (compare_names(&here, &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == index->count) return UINT32_MAX;
    struct name here = name_of(index, index->sorted[low]);
    return compare_names(&here, &wanted) == 0 ? index->sorted[low] : UINT32_MAX;
}

/* ------------------------------------------------------------------------------------------------------------ build */

struct builder {
    struct stk_tar_index *index;
    size_t entries_cap, text_cap;
};

static stoker_status reserve(void **array, size_t *capacity, size_t needed, size_t element, stoker_error *err)
{
    if (needed <= *capacity) return STOKER_OK;
    size_t wanted = *capacity ? *capacity * 2 : 1024, bytes;
    if (wanted < needed) wanted = needed;
    void *larger = stk_mul_size(wanted, element, &bytes) ? realloc(*array, bytes) : NULL;
    if (!larger) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index of %zu members", wanted);
    *array = larger;
    *capacity = wanted;
    return STOKER_OK;
}

static stoker_status add_member(void *user, const struct stk_tar_member *member, stoker_error *err)
{
    struct builder *builder = user;
    struct stk_tar_index *index = builder->index;
    bool has_extension;
    if (index->count >= MEMBERS_MAX) return stk_fail(err, STOKER_ERR_LIMIT, "more than %u members", MEMBERS_MAX);
    STK_TRY(reserve((void **)&index->entries, &builder->entries_cap, (size_t)index->count + 1, sizeof *index->entries,
                    err));
    STK_TRY(
        reserve((void **)&index->text, &builder->text_cap, (size_t)index->text_size + member->name_size + 1, 1, err));
    memcpy(index->text + index->text_size, member->name, member->name_size);
    index->text[index->text_size + member->name_size] = 0;
    index->entries[index->count++] = (struct stk_tar_entry){
        member->offset,
        member->size,
        index->text_size,
        (uint32_t)member->name_size,
        (uint32_t)stk_tar_key_size(member->name, member->name_size, &has_extension),
        0,
    };
    index->text_size += member->name_size + 1;
    return STOKER_OK;
}

/* Leaves out the entries of which `dead` is set, and their names. */
static void compact(struct stk_tar_index *index, const uint8_t *dead)
{
    uint32_t kept = 0;
    uint64_t text_size = 0;
    for (uint32_t i = 0; i < index->count; i++) {
        struct stk_tar_entry entry = index->entries[i];
        if (dead[i]) continue;
        memmove(index->text + text_size, index->text + entry.name_offset, (size_t)entry.name_size + 1);
        entry.name_offset = text_size;
        text_size += entry.name_size + 1u;
        index->entries[kept++] = entry;
    }
    index->dropped += index->count - kept;
    index->count = kept;
    index->text_size = text_size;
}

static stoker_status drop_twins(struct stk_tar_index *index, stoker_error *err)
{
    uint32_t at = next_twin(index, 0);
    if (at == index->count) return STOKER_OK;
    uint8_t *dead = calloc(index->count, 1);
    if (!dead) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index of %u members", index->count);
    for (; at < index->count; at = next_twin(index, at + 1)) dead[index->sorted[at]] = 1;
    compact(index, dead);
    free(dead);
    free(index->sorted);
    index->sorted = NULL;
    return make_order(index, err);
}

static stoker_status finish_build(struct stk_tar_index *index, bool last, stoker_error *err)
{
    STK_TRY(make_order(index, err));
    if (last) {
        STK_TRY(drop_twins(index, err));
    } else {
        uint32_t twin = next_twin(index, 0);
        if (twin < index->count) {
            const struct stk_tar_entry *a = &index->entries[index->sorted[twin]];
            const struct stk_tar_entry *b = &index->entries[index->sorted[twin + 1]];
            return stk_fail(err, STOKER_ERR_CORRUPT,
                            "the member '%s' stands twice: its data are at byte %llu and at byte %llu",
                            index->text + a->name_offset, (unsigned long long)a->offset, (unsigned long long)b->offset);
        }
    }
    return make_samples(index, err);
}

stoker_status stk_tar_index_build(const struct stk_file *file, bool last, struct stk_tar_index **out_index,
                                  stoker_error *err)
{
    struct builder builder = {.index = calloc(1, sizeof(struct stk_tar_index))};
    if (!builder.index) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index");
    builder.index->archive_bytes = file->size;
    builder.index->archive_mtime_ns = file->mtime_ns;
    stoker_status status = stk_tar_walk(file, add_member, &builder, err);
    if (status >= 0) status = finish_build(builder.index, last, err);
    if (status < 0) {
        stk_tar_index_destroy(builder.index);
        return status;
    }
    *out_index = builder.index;
    return STOKER_OK;
}

void stk_tar_index_destroy(struct stk_tar_index *index)
{
    if (!index) return;
    free(index->entries);
    free(index->text);
    free(index->sorted);
    free(index->sample_first);
    free(index->sample_size);
    free(index);
}

/* ------------------------------------------------------------------------------------------------------------- file */

stoker_status stk_tar_index_encode(const struct stk_tar_index *index, uint8_t **out_data, size_t *out_size,
                                   stoker_error *err)
{
    size_t table = (size_t)index->count * ENTRY_BYTES, size = HEADER_BYTES + table + (size_t)index->text_size;
    uint8_t *data = calloc(1, size);
    if (!data) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index of %u members", index->count);
    put(data, MAGIC, 4);
    put(data + 4, VERSION, 4);
    put(data + 8, size, 8);
    put(data + 16, index->archive_bytes, 8);
    put(data + 24, (uint64_t)index->archive_mtime_ns, 8);
    put(data + 32, index->count, 8);
    put(data + 40, index->text_size, 8);
    put(data + 48, index->dropped, 8);
    for (uint32_t i = 0; i < index->count; i++) {
        uint8_t *entry = data + HEADER_BYTES + (size_t)i * ENTRY_BYTES;
        put(entry, index->entries[i].offset, 8);
        put(entry + 8, index->entries[i].size, 8);
        put(entry + 16, index->entries[i].name_offset, 8);
    }
    if (index->text_size > 0) memcpy(data + HEADER_BYTES + table, index->text, (size_t)index->text_size);
    put(data + CHECKSUM_AT, checksum(data, size), 8);
    *out_data = data;
    *out_size = size;
    return STOKER_OK;
}

static stoker_status check_header(const uint8_t *data, size_t size, stoker_error *err)
{
    if (size < HEADER_BYTES)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: %zu bytes, the header alone has %d", size, HEADER_BYTES);
    if (get(data, 4) != MAGIC)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: magic at offset 0 is %#llx, expected %#x",
                        (unsigned long long)get(data, 4), MAGIC);
    if (get(data + 4, 4) != VERSION)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "shard index: version %llu, expected %u",
                        (unsigned long long)get(data + 4, 4), VERSION);
    if (get(data + 8, 8) != size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: size at offset 8 is %llu, the file has %zu bytes",
                        (unsigned long long)get(data + 8, 8), size);
    uint64_t count = get(data + 32, 8), text_size = get(data + 40, 8);
    if (count > MEMBERS_MAX || text_size > size || count * ENTRY_BYTES + text_size + HEADER_BYTES != size)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "shard index: %llu members at offset 32 and %llu bytes of names do not fill %zu bytes",
                        (unsigned long long)count, (unsigned long long)text_size, size);
    if (get(data + CHECKSUM_AT, 8) != checksum(data, size))
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: the checksum at offset %d is wrong", CHECKSUM_AT);
    return STOKER_OK;
}

static stoker_status decode_entry(struct stk_tar_index *index, const uint8_t *data, uint32_t i, uint64_t *name_offset,
                                  stoker_error *err)
{
    size_t at = HEADER_BYTES + (size_t)i * ENTRY_BYTES;
    struct stk_tar_entry entry = {get(data + at, 8), get(data + at + 8, 8), get(data + at + 16, 8), 0, 0, 0};
    bool has_extension;
    if (entry.size > index->archive_bytes || entry.offset > index->archive_bytes - entry.size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: member %u at offset %zu ends after the archive", i, at);
    if (entry.name_offset != *name_offset || entry.name_offset >= index->text_size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: name offset at %zu is %llu, expected %llu below %llu",
                        at + 16, (unsigned long long)entry.name_offset, (unsigned long long)*name_offset,
                        (unsigned long long)index->text_size);
    const char *name = index->text + entry.name_offset;
    const char *end = memchr(name, 0, (size_t)(index->text_size - entry.name_offset));
    size_t name_size = end ? (size_t)(end - name) : 0;
    if (name_size == 0 || name_size > STK_TAR_NAME_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: the name of member %u has no end within 1 to %u bytes",
                        i, STK_TAR_NAME_BYTES_MAX);
    entry.name_size = (uint32_t)name_size;
    entry.key_size = (uint32_t)stk_tar_key_size(name, name_size, &has_extension);
    index->entries[i] = entry;
    *name_offset += name_size + 1;
    return STOKER_OK;
}

static stoker_status decode_entries(struct stk_tar_index *index, const uint8_t *data, stoker_error *err)
{
    uint64_t name_offset = 0;
    for (uint32_t i = 0; i < index->count; i++) STK_TRY(decode_entry(index, data, i, &name_offset, err));
    if (name_offset != index->text_size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: the names end at %llu, the text at %llu",
                        (unsigned long long)name_offset, (unsigned long long)index->text_size);
    STK_TRY(make_order(index, err));
    uint32_t twin = next_twin(index, 0);
    if (twin < index->count)
        return stk_fail(err, STOKER_ERR_CORRUPT, "shard index: two members have the name '%s'",
                        index->text + index->entries[index->sorted[twin]].name_offset);
    return make_samples(index, err);
}

stoker_status stk_tar_index_decode(const uint8_t *data, size_t size, struct stk_tar_index **out_index,
                                   stoker_error *err)
{
    STK_TRY(check_header(data, size, err));
    struct stk_tar_index *index = calloc(1, sizeof *index);
    if (!index) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index");
    index->archive_bytes = get(data + 16, 8);
    index->archive_mtime_ns = (int64_t)get(data + 24, 8);
    index->count = (uint32_t)get(data + 32, 8);
    index->text_size = get(data + 40, 8);
    index->dropped = get(data + 48, 8);
    index->entries = calloc((size_t)index->count + 1, sizeof *index->entries);
    index->text = malloc((size_t)index->text_size + 1);
    stoker_status status = STOKER_OK;
    if (!index->entries || !index->text) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an index of %u members", index->count);
    } else {
        memcpy(index->text, data + HEADER_BYTES + (size_t)index->count * ENTRY_BYTES, (size_t)index->text_size);
        status = decode_entries(index, data, err);
    }
    if (status < 0) {
        stk_tar_index_destroy(index);
        return status;
    }
    *out_index = index;
    return STOKER_OK;
}
