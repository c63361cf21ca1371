/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar archives for tests, member by member, in memory; and as a file that is opened.
 */
#ifndef STK_STORE_TAR_FIXTURE_H
#define STK_STORE_TAR_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/file.h"
#include "tests/support/unit.h"

struct archive {
    uint8_t data[64 << 10];
    size_t size;
};

static inline void archive_octal(uint8_t *at, int digits, uint64_t value)
{
    for (at[digits] = 0; digits > 0; value >>= 3) at[--digits] = (uint8_t)('0' + (value & 7));
}

static inline uint8_t *archive_header(struct archive *archive, const char *name, char type, uint64_t size)
{
    uint8_t *header = archive->data + archive->size;
    assert_true(archive->size + 512 <= sizeof archive->data);
    memset(header, 0, 512);
    memcpy(header, name, strnlen(name, 100));
    memcpy(header + 100,
           "0000644\0"
           "0000000\0"
           "0000000\0",
           24);
    archive_octal(header + 124, 11, size);
    archive_octal(header + 136, 11, 0);
    header[156] = (uint8_t)type;
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    archive->size += 512;
    return header;
}

/* After the last change of a header. */
static inline void archive_sum(uint8_t *header)
{
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += header[i];
    archive_octal(header + 148, 6, sum);
}

static inline void archive_data(struct archive *archive, const void *data, size_t size)
{
    size_t whole = (size + 511) / 512 * 512;
    assert_true(archive->size + whole <= sizeof archive->data);
    memset(archive->data + archive->size, 0, whole);
    memcpy(archive->data + archive->size, data, size);
    archive->size += whole;
}

static inline void archive_add(struct archive *archive, const char *name, char type, const char *text)
{
    archive_sum(archive_header(archive, name, type, strlen(text)));
    archive_data(archive, text, strlen(text));
}

static inline void archive_end(struct archive *archive)
{
    assert_true(archive->size + 1024 <= sizeof archive->data);
    memset(archive->data + archive->size, 0, 1024);
    archive->size += 1024;
}

static inline void archive_write(const struct archive *archive, const char *path)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(archive->data, 1, archive->size, out), archive->size);
    assert_int_equal(fclose(out), 0);
}

static inline struct stk_file archive_open(const struct archive *archive)
{
    char path[] = "/tmp/stoker-tar-XXXXXX";
    struct stk_file file;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    archive_write(archive, path);
    assert_int_equal(stk_file_open(path, &file, NULL), STOKER_OK);
    assert_int_equal(unlink(path), 0);
    return file;
}

#endif
