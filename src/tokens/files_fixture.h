/* SPDX-License-Identifier: Apache-2.0
 *
 * Files for the tests of token data: a private folder, and .idx and .bin files made byte by byte, without the code
 * under test.
 */
#ifndef STK_TOKENS_FILES_FIXTURE_H
#define STK_TOKENS_FILES_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/unit.h"

static char fixture_folder[64];

static inline int fixture_setup(void **state)
{
    (void)state;
    (void)snprintf(fixture_folder, sizeof fixture_folder, "/tmp/stk-tokens-XXXXXX");
    return mkdtemp(fixture_folder) ? 0 : -1;
}

static inline int fixture_remove(const char *folder)
{
    DIR *directory = opendir(folder);
    if (!directory) return -1;
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char path[600];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path) continue;
        if (unlink(path) != 0) (void)fixture_remove(path);
    }
    (void)closedir(directory);
    return rmdir(folder);
}

static inline int fixture_teardown(void **state)
{
    (void)state;
    return fixture_remove(fixture_folder);
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* A path in the folder; four may be in use at once. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", fixture_folder, name);
    return path;
}

static inline unsigned fixture_entries(void)
{
    unsigned count = 0;
    DIR *directory = opendir(fixture_folder);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(directory);
    return count;
}

static inline void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline uint8_t *read_bytes(const char *path, size_t *out_size)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *out_size = fread(data, 1, sizeof data, file);
    assert_int_equal(fclose(file), 0);
    return data;
}

/* An index file in the making; offsets NULL: the running sum. */
struct fixture_index {
    int dtype_code;
    uint64_t sequences, entries;
    const int32_t *lengths;
    const int64_t *offsets, *documents;
    const int8_t *modes;
};

static inline size_t fixture_put(uint8_t *out, size_t at, const void *data, size_t size)
{
    if (size > 0) memcpy(out + at, data, size);
    return at + size;
}

/* The bytes of an index file; gives the size. */
static inline size_t fixture_encode(const struct fixture_index *index, uint8_t *out)
{
    static const size_t sizes[] = {0, 1, 1, 2, 4, 8, 8, 4, 2};
    uint64_t version = 1;
    uint8_t code = (uint8_t)index->dtype_code;
    size_t at = fixture_put(out, 0, "MMIDIDX\0", 9);
    at = fixture_put(out, at, &version, 8);
    at = fixture_put(out, at, &code, 1);
    at = fixture_put(out, at, &index->sequences, 8);
    at = fixture_put(out, at, &index->entries, 8);
    at = fixture_put(out, at, index->lengths, 4 * index->sequences);
    int64_t sum = 0;
    for (uint64_t i = 0; i < index->sequences; i++) {
        at = fixture_put(out, at, index->offsets ? &index->offsets[i] : &sum, 8);
        sum += index->lengths[i] * (int64_t)sizes[index->dtype_code];
    }
    at = fixture_put(out, at, index->documents, 8 * index->entries);
    return fixture_put(out, at, index->modes, index->modes ? index->sequences : 0);
}

/* PREFIX.idx and PREFIX.bin in the folder. */
static inline const char *fixture_write(const char *name, const struct fixture_index *index, const void *bin,
                                        size_t bin_size)
{
    static uint8_t data[1 << 20];
    char path[300];
    const char *prefix = in_folder(name);
    (void)snprintf(path, sizeof path, "%s.idx", prefix);
    write_bytes(path, data, fixture_encode(index, data));
    (void)snprintf(path, sizeof path, "%s.bin", prefix);
    write_bytes(path, bin, bin_size);
    return prefix;
}

/* Three sequences of 5, 1 and 7 tokens in two documents, uint16, as in the golden files. */
static const uint16_t fixture_tokens[13] = {47687, 43041, 8,     11834, 56754, 35431, 13278,
                                            25368, 17689, 35454, 49771, 60480, 56473};
static const int32_t fixture_lengths[3] = {5, 1, 7};
static const int64_t fixture_documents[3] = {0, 2, 3};
static const struct fixture_index fixture_three = {8, 3, 3, fixture_lengths, NULL, fixture_documents, NULL};

#endif
