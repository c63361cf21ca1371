/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for tar shards and for their index files. An input that begins as index files do goes to their parser,
 * with its checksum put right, so that damage gets past it; all others are walked as archives. What is accepted is used
 * to its last member.
 */
#include <string.h>

#include "store/range.h"
#include "store/tar_index.h"
#include "tests/fuzz/fuzz.h"

#define INDEX_MAGIC "STKX"
enum { CHECKSUM_AT = 56, HEADER_BYTES = 64 };

static void put_checksum(uint8_t *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        if (i < CHECKSUM_AT || i >= HEADER_BYTES) hash = (hash ^ data[i]) * 0x100000001b3u;
    for (int i = 0; i < 8; i++) data[CHECKSUM_AT + i] = (uint8_t)(hash >> (8 * i));
}

static void use(const struct stk_tar_index *index)
{
    uint64_t members = 0;
    for (uint32_t i = 0; i < index->count; i++) {
        const struct stk_tar_entry *entry = &index->entries[i];
        const char *name = index->text + entry->name_offset;
        STK_FUZZ_CHECK(entry->size <= index->archive_bytes && entry->offset <= index->archive_bytes - entry->size);
        STK_FUZZ_CHECK(strlen(name) == entry->name_size && entry->key_size <= entry->name_size);
        STK_FUZZ_CHECK(entry->sample < index->sample_count);
        STK_FUZZ_CHECK(stk_tar_index_find(index, name, entry->name_size) == i);
    }
    for (uint32_t i = 0; i < index->sample_count; i++) {
        STK_FUZZ_CHECK(index->sample_size[i] > 0);
        for (uint32_t k = 0; k < index->sample_size[i]; k++)
            STK_FUZZ_CHECK(index->entries[index->sorted[index->sample_first[i] + k]].sample == i);
        members += index->sample_size[i];
    }
    STK_FUZZ_CHECK(members == index->count);
}

/* What was built is written, and read again as it was. */
static void repeat(const struct stk_tar_index *index)
{
    uint8_t *data = NULL;
    size_t size = 0;
    struct stk_tar_index *copy = NULL;
    STK_FUZZ_CHECK(stk_tar_index_encode(index, &data, &size, NULL) == STOKER_OK);
    STK_FUZZ_CHECK(stk_tar_index_decode(data, size, &copy, NULL) == STOKER_OK);
    STK_FUZZ_CHECK(copy->count == index->count && copy->text_size == index->text_size);
    STK_FUZZ_CHECK(copy->sample_count == index->sample_count && copy->dropped == index->dropped);
    stk_tar_index_destroy(copy);
    free(data);
}

struct bytes {
    const uint8_t *data;
    size_t size;
};

static stoker_status size_of(void *user, const char *url, uint64_t *out_size, stoker_error *err)
{
    (void)url, (void)err;
    *out_size = ((const struct bytes *)user)->size;
    return STOKER_OK;
}

static stoker_status read_of(void *user, const char *url, uint64_t offset, size_t size, void *out, stoker_error *err)
{
    const struct bytes *bytes = user;
    (void)url, (void)err;
    STK_FUZZ_CHECK(offset <= bytes->size && size <= bytes->size - offset);
    memcpy(out, bytes->data + offset, size);
    return STOKER_OK;
}

static stoker_status parse(const uint8_t *data, size_t size, struct stk_tar_index **out_index, stoker_error *err)
{
    if (size >= HEADER_BYTES && memcmp(data, INDEX_MAGIC, 4) == 0) {
        uint8_t *copy = malloc(size);
        STK_FUZZ_CHECK(copy);
        memcpy(copy, data, size);
        put_checksum(copy, size);
        stoker_status status = stk_tar_index_decode(copy, size, out_index, err);
        free(copy);
        return status;
    }
    struct bytes bytes = {data, size};
    struct stk_file file = {.fd = -1, .size = size};
    const stoker_range_ops ops = {.user = &bytes, .size = size_of, .read = read_of};
    STK_FUZZ_CHECK(stk_range_open_user(&ops, "msc://input", &file.range, err) == STOKER_OK);
    stoker_status status = stk_tar_index_build(&file, true, out_index, err);
    stk_file_close(&file);
    return status;
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err = {0};
    struct stk_tar_index *index = NULL;
    stoker_status status = parse(data, size, &index, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
        STK_FUZZ_CHECK(err.message[0] != 0);
        return 0;
    }
    use(index);
    repeat(index);
    stk_tar_index_destroy(index);
    return 1;
}
