/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over a tar archive: see tar.h. Every number comes from outside: it is read within its field, and compared
 * with the size of the archive before it is used.
 */
#include "store/tar.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"

enum {
    BLOCK_BYTES = 512,
    NAME_AT = 0,
    NAME_BYTES = 100,
    SIZE_AT = 124,
    SIZE_BYTES = 12,
    SUM_AT = 148,
    SUM_BYTES = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_BYTES = 155,
    WINDOW_BYTES = 256 << 10,
    FAR_BYTES = 4 << 10,
    EXTENDED_BYTES_MAX = 1 << 20 /* of a pax header; real ones have a few hundred bytes */
};

struct walk {
    const struct stk_file *file;
    stk_tar_fn member_fn;
    void *user;
    uint64_t at; /* of the next header */
    uint8_t *window;
    uint64_t window_at;
    size_t window_size;
    /* what extended headers say of the next member */
    char *name; /* room for STK_TAR_NAME_BYTES_MAX and a zero */
    size_t name_size;
    bool named, sized;
    uint64_t size;
};

/* ------------------------------------------------------------------------------------------------------------ bytes */

/* `size` bytes at `offset`, at most a window. NULL with *err set. */
static const uint8_t *look(struct walk *walk, uint64_t offset, size_t size, stoker_error *err)
{
    if (offset < walk->window_at || offset + size > walk->window_at + walk->window_size) {
        /* Behind a large member only the header is wanted: its neighbour will be far away, too. */
        bool near = offset <= walk->window_at + walk->window_size + WINDOW_BYTES;
        walk->window_at = offset;
        walk->window_size = 0;
        if (stk_file_read(walk->file, offset, walk->window, near ? WINDOW_BYTES : FAR_BYTES, &walk->window_size, err) <
            0)
            return NULL;
        if (walk->window_size < size) {
            (void)stk_fail(err, STOKER_ERR_CORRUPT, "the archive ends at byte %llu, inside the %zu bytes at %llu",
                           (unsigned long long)(offset + walk->window_size), size, (unsigned long long)offset);
            return NULL;
        }
    }
    return walk->window + (offset - walk->window_at);
}

/* An octal field, or GNU's binary one (first bit set). False: neither, or no 63-bit number. */
static bool read_number(const uint8_t *field, size_t size, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;
    if (field[0] & 0x80) {
        if (field[0] != 0x80) return false; /* negative, or above 2^88 */
        for (i = 1; i < size; i++) {
            if (value >> 55) return false;
            value = value << 8 | field[i];
        }
        *out = value;
        return true;
    }
    while (i < size && field[i] == ' ') i++;
    size_t digits = i;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) value = value << 3 | (uint64_t)(field[i] - '0');
    if (i == digits) return false;
    for (; i < size; i++)
        if (field[i] != ' ' && field[i] != 0) return false;
    *out = value;
    return true;
}

/* Sums of the bytes of a header, with spaces for the sum itself. Some old programs added signed bytes. */
static bool sum_is_right(const uint8_t *header)
{
    uint64_t expected;
    int64_t plain = 0, with_sign = 0;
    for (int i = 0; i < BLOCK_BYTES; i++) {
        uint8_t byte = i >= SUM_AT && i < SUM_AT + SUM_BYTES ? ' ' : header[i];
        plain += byte;
        with_sign += (int8_t)byte;
    }
    return read_number(header + SUM_AT, SUM_BYTES, &expected) &&
           ((int64_t)expected == plain || (int64_t)expected == with_sign);
}

static bool is_zero(const uint8_t *block)
{
    for (int i = 0; i < BLOCK_BYTES; i++)
        if (block[i]) return false;
    return true;
}

/* Names what a compressed archive is: it has no place that could be read alone. */
static stoker_status check_plain(const struct walk *walk, stoker_error *err)
{
    static const struct {
        const char *name;
        uint8_t bytes[4];
        size_t size;
    } compressed[] = {
        {"gzip", {0x1f, 0x8b}, 2},     {"zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4}, {"xz", {0xfd, '7', 'z', 'X'}, 4},
        {"bzip2", {'B', 'Z', 'h'}, 3}, {"zip", {'P', 'K', 3, 4}, 4},
    };
    uint8_t first[4] = {0};
    size_t got = 0;
    if (walk->file->size == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "the archive is empty (0 bytes)");
    STK_TRY(stk_file_read(walk->file, 0, first, sizeof first, &got, err));
    for (size_t i = 0; i < sizeof compressed / sizeof compressed[0]; i++)
        if (memcmp(first, compressed[i].bytes, compressed[i].size) == 0)
            return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the archive is compressed (%s), expected a plain tar archive",
                            compressed[i].name);
    return STOKER_OK;
}

static stoker_status bad_header(const struct walk *walk, stoker_error *err)
{
    if (walk->at == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "no tar archive: the first header has a wrong sum");
    return stk_fail(err, STOKER_ERR_CORRUPT, "the header at byte %llu has a wrong sum", (unsigned long long)walk->at);
}

/* --------------------------------------------------------------------------------------------------------- extended */

static stoker_status set_name(struct walk *walk, const uint8_t *text, size_t size, stoker_error *err)
{
    if (size == 0 || size > STK_TAR_NAME_BYTES_MAX || memchr(text, 0, size))
        return stk_fail(err, STOKER_ERR_CORRUPT, "a name of %zu bytes at byte %llu, expected 1 to %u without a zero",
                        size, (unsigned long long)walk->at, STK_TAR_NAME_BYTES_MAX);
    memcpy(walk->name, text, size);
    walk->name_size = size;
    walk->named = true;
    return STOKER_OK;
}

static bool key_is(const uint8_t *key, size_t size, const char *name)
{
    return strlen(name) == size && memcmp(key, name, size) == 0;
}

static stoker_status take_record(struct walk *walk, const uint8_t *key, size_t key_size, const uint8_t *value,
                                 size_t value_size, stoker_error *err)
{
    static const char sparse[] = "GNU.sparse.";
    if (key_size >= sizeof sparse - 1 && memcmp(key, sparse, sizeof sparse - 1) == 0)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "a sparse member at byte %llu: its bytes do not lie in a row",
                        (unsigned long long)walk->at);
    if (key_is(key, key_size, "path")) return set_name(walk, value, value_size, err);
    if (!key_is(key, key_size, "size")) return STOKER_OK;
    uint64_t size = 0;
    for (size_t i = 0; i < value_size; i++) {
        if (value[i] < '0' || value[i] > '9' || size > INT64_MAX / 10 - 1 || value_size > 19)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the size in the pax header at byte %llu is no number",
                            (unsigned long long)walk->at);
        size = size * 10 + (uint64_t)(value[i] - '0');
    }
    walk->sized = value_size > 0; /* an empty value takes back what was said before */
    walk->size = size;
    return STOKER_OK;
}

/* Records "LENGTH KEY=VALUE\n", the length being that of all of it. */
static stoker_status take_records(struct walk *walk, const uint8_t *data, size_t size, stoker_error *err)
{
    size_t at = 0;
    while (at < size) {
        size_t length = 0, digits = at;
        while (digits < size && data[digits] >= '0' && data[digits] <= '9' && length <= EXTENDED_BYTES_MAX)
            length = length * 10 + (size_t)(data[digits++] - '0');
        const uint8_t *end = data + at + length;
        const uint8_t *key = data + digits + 1;
        if (digits == at || digits >= size || data[digits] != ' ' || length > size - at || length < digits - at + 4 ||
            end[-1] != '\n')
            return stk_fail(err, STOKER_ERR_CORRUPT, "the pax header at byte %llu is damaged",
                            (unsigned long long)walk->at);
        const uint8_t *equals = memchr(key, '=', (size_t)(end - key));
        if (!equals)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the pax header at byte %llu has a record without '='",
                            (unsigned long long)walk->at);
        STK_TRY(take_record(walk, key, (size_t)(equals - key), equals + 1, (size_t)(end - 1 - (equals + 1)), err));
        at += length;
    }
    return STOKER_OK;
}

static stoker_status take_extended(struct walk *walk, uint8_t type, uint64_t data_at, uint64_t size, stoker_error *err)
{
    if (size > EXTENDED_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "an extended header of %llu bytes at byte %llu, expected at most %d",
                        (unsigned long long)size, (unsigned long long)walk->at, EXTENDED_BYTES_MAX);
    uint8_t *data = malloc((size_t)size + 1);
    size_t got = 0;
    if (!data) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an extended header");
    stoker_status status = stk_file_read(walk->file, data_at, data, (size_t)size, &got, err);
    if (status >= 0 && got < size)
        status = stk_fail(err, STOKER_ERR_CORRUPT, "the archive ends inside the header at byte %llu",
                          (unsigned long long)walk->at);
    if (status >= 0 && type == 'x') status = take_records(walk, data, (size_t)size, err);
    if (status >= 0 && type == 'L') {
        data[size] = 0;
        status = set_name(walk, data, strlen((const char *)data), err);
    }
    free(data);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- members */

static size_t field_size(const uint8_t *field, size_t size)
{
    const uint8_t *end = memchr(field, 0, size);
    return end ? (size_t)(end - field) : size;
}

static stoker_status name_from_header(struct walk *walk, const uint8_t *header, stoker_error *err)
{
    uint8_t text[PREFIX_BYTES + 1 + NAME_BYTES];
    size_t used = 0, name_size = field_size(header + NAME_AT, NAME_BYTES);
    /* Only POSIX has the prefix; GNU's own format, "ustar  ", has times there. */
    if (memcmp(header + MAGIC_AT, "ustar\0", 6) == 0) {
        used = field_size(header + PREFIX_AT, PREFIX_BYTES);
        memcpy(text, header + PREFIX_AT, used);
        if (used > 0) text[used++] = '/';
    }
    memcpy(text + used, header + NAME_AT, name_size);
    return set_name(walk, text, used + name_size, err);
}

static stoker_status give_member(struct walk *walk, uint64_t data_at, uint64_t size, stoker_error *err)
{
    struct stk_tar_member member = {data_at, size, walk->name, walk->name_size};
    while (member.name_size > 2 && member.name[0] == '.' && member.name[1] == '/') {
        member.name += 2, member.name_size -= 2;
        while (member.name_size > 1 && member.name[0] == '/') member.name++, member.name_size--;
    }
    walk->name[walk->name_size] = 0;
    return walk->member_fn(walk->user, &member, err);
}

/* A long or foreign name stands in an extended header, and in the plain one cut or rewritten. */
static bool name_may_be(const uint8_t *header, const struct stk_tar_member *member)
{
    const uint8_t *name = header + NAME_AT;
    size_t size = field_size(name, NAME_BYTES);
    if (header[PREFIX_AT] != 0 || size == NAME_BYTES || member->name_size >= NAME_BYTES) return true;
    for (size_t i = 0; i < member->name_size; i++)
        if ((uint8_t)member->name[i] < ' ' || (uint8_t)member->name[i] > '~') return true;
    while (size > 2 && name[0] == '.' && name[1] == '/') {
        name += 2, size -= 2;
        while (size > 1 && name[0] == '/') name++, size--;
    }
    return size == member->name_size && memcmp(name, member->name, size) == 0;
}

stoker_status stk_tar_expect(const struct stk_file *file, const struct stk_tar_member *member, stoker_error *err)
{
    uint8_t header[BLOCK_BYTES];
    size_t got = 0;
    uint64_t size = 0;
    if (member->offset < BLOCK_BYTES)
        return stk_fail(err, STOKER_ERR_MISMATCH, "no member of an archive lies at byte %llu",
                        (unsigned long long)member->offset);
    STK_TRY(stk_file_read(file, member->offset - BLOCK_BYTES, header, sizeof header, &got, err));
    /* Above 8 GiB the size may stand in an extended header. */
    bool sized = got == BLOCK_BYTES && sum_is_right(header) && read_number(header + SIZE_AT, SIZE_BYTES, &size) &&
                 (size == member->size || member->size >> 33 != 0);
    if (sized && name_may_be(header, member)) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_MISMATCH,
                    "the shard was changed: '%.*s' of %llu bytes is not at byte %llu any more, where it was listed",
                    (int)member->name_size, member->name, (unsigned long long)member->size,
                    (unsigned long long)member->offset);
}

static stoker_status take_header(struct walk *walk, const uint8_t *header, stoker_error *err)
{
    uint8_t type = header[TYPE_AT];
    uint64_t size = 0, data_at = walk->at + BLOCK_BYTES;
    bool extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    bool regular = type == '0' || type == 0 || type == '7';
    if (!sum_is_right(header)) return bad_header(walk, err);
    if (!read_number(header + SIZE_AT, SIZE_BYTES, &size))
        return stk_fail(err, STOKER_ERR_CORRUPT, "the header at byte %llu has no size", (unsigned long long)walk->at);
    if (type == 'S')
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "a sparse member at byte %llu: its bytes do not lie in a row",
                        (unsigned long long)walk->at);
    if (!extended && walk->sized) size = walk->size;
    /* Links, folders and devices have no data; a size in their header is that of what they point to. */
    if (type >= '1' && type <= '6') size = 0;
    if (size > walk->file->size || data_at > walk->file->size - size)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "the archive is cut: the member at byte %llu has %llu bytes, the archive ends at byte %llu",
                        (unsigned long long)walk->at, (unsigned long long)size, (unsigned long long)walk->file->size);
    if (extended) {
        STK_TRY(take_extended(walk, type, data_at, size, err));
    } else {
        if (!walk->named) STK_TRY(name_from_header(walk, header, err));
        /* Before POSIX, a folder was a file whose name ends with a slash. */
        if (regular && walk->name[walk->name_size - 1] != '/') STK_TRY(give_member(walk, data_at, size, err));
        walk->named = walk->sized = false;
    }
    walk->at = data_at + (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    return STOKER_OK;
}

static stoker_status take_headers(struct walk *walk, stoker_error *err)
{
    STK_TRY(check_plain(walk, err));
    /* Two blocks of zeros end an archive; one, or the end of the file in their place, is common and does no harm. */
    while (walk->at < walk->file->size) {
        const uint8_t *header = look(walk, walk->at, BLOCK_BYTES, err);
        if (!header) return err ? err->status : STOKER_ERR_CORRUPT;
        if (is_zero(header)) break;
        STK_TRY(take_header(walk, header, err));
    }
    if (walk->named || walk->sized)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the archive ends after an extended header, at byte %llu",
                        (unsigned long long)walk->at);
    return STOKER_OK;
}

stoker_status stk_tar_walk(const struct stk_file *file, stk_tar_fn member_fn, void *user, stoker_error *err)
{
    stoker_error fault = {0}; /* look() needs a place for the status */
    struct walk walk = {.file = file, .member_fn = member_fn, .user = user};
    walk.window = malloc(WINDOW_BYTES);
    walk.name = malloc(STK_TAR_NAME_BYTES_MAX + 1);
    stoker_status status = walk.window && walk.name ? take_headers(&walk, &fault)
                                                    : stk_fail(&fault, STOKER_ERR_NO_MEMORY, "no memory for a window");
    free(walk.window);
    free(walk.name);
    if (status < 0 && err) *err = fault;
    return status;
}

size_t stk_tar_key_size(const char *name, size_t name_size, bool *out_has_extension)
{
    size_t start = name_size;
    while (start > 0 && name[start - 1] != '/') start--;
    const char *dot = start < name_size ? memchr(name + start + 1, '.', name_size - start - 1) : NULL;
    *out_has_extension = dot != NULL;
    return dot ? (size_t)(dot - name) : name_size;
}
