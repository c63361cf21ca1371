/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over headers: every kind of header that programs write, and every way in which one can be wrong.
 */
#include "store/tar.h"

#include "store/tar_fixture.h"

struct seen {
    char names[8][128];
    uint64_t offsets[8], sizes[8];
    size_t count;
    size_t stop_at;
};

static stoker_status see(void *user, const struct stk_tar_member *member, stoker_error *err)
{
    struct seen *seen = user;
    (void)err;
    if (seen->count == seen->stop_at) return STOKER_ERR_CANCELED;
    assert_true(seen->count < 8);
    assert_int_equal(strlen(member->name), member->name_size);
    (void)snprintf(seen->names[seen->count], 128, "%s", member->name);
    seen->offsets[seen->count] = member->offset;
    seen->sizes[seen->count++] = member->size;
    return STOKER_OK;
}

static stoker_status walk(const struct archive *archive, struct seen *seen, stoker_error *err)
{
    struct stk_file file = archive_open(archive);
    *seen = (struct seen){.stop_at = 8};
    stoker_status status = stk_tar_walk(&file, see, seen, err);
    stk_file_close(&file);
    return status;
}

static struct archive archive; /* too large for a stack */

static void test_members_are_found_where_their_bytes_lie(void **state)
{
    (void)state;
    struct seen seen;
    stoker_error err;
    archive.size = 0;
    archive_add(&archive, "./a/", '5', "");
    archive_add(&archive, "./a/1.txt", '0', "hello");
    archive_add(&archive, "old", 0, "x");
    archive_add(&archive, "folder/", 0, "");
    archive_add(&archive, "empty.bin", '7', "");
    archive_sum(archive_header(&archive, "link", '2', 77)); /* a size of what it points to, and no data */
    archive_add(&archive, "last", '0', "zz");
    archive_end(&archive);
    assert_int_equal(walk(&archive, &seen, &err), STOKER_OK);
    assert_int_equal(seen.count, 4);
    const char *names[] = {"a/1.txt", "old", "empty.bin", "last"}, *texts[] = {"hello", "x", "", "zz"};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(seen.names[i], names[i]);
        assert_int_equal(seen.sizes[i], strlen(texts[i]));
        assert_memory_equal(archive.data + seen.offsets[i], texts[i], seen.sizes[i]);
    }
    /* Without its end, or with one block of it. */
    archive.size -= 512;
    assert_int_equal(walk(&archive, &seen, &err), STOKER_OK);
    archive.size -= 512;
    assert_int_equal(walk(&archive, &seen, &err), STOKER_OK);
    assert_int_equal(seen.count, 4);
}

static void test_long_names_of_every_format(void **state)
{
    (void)state;
    struct seen seen;
    stoker_error err;
    char name[121], record[160];
    memset(name, 'n', 120);
    name[120] = 0;
    archive.size = 0;
    archive_add(&archive, "././@LongLink", 'L', name);
    archive_add(&archive, "cut", '0', "1");
    (void)snprintf(record, sizeof record, "130 path=%s\n", name);
    assert_int_equal(strlen(record), 130);
    archive_add(&archive, "pax", 'x', record);
    archive_add(&archive, "cut", '0', "2");
    uint8_t *header = archive_header(&archive, "name", '0', 0);
    memcpy(header + 345, "some/prefix", 11);
    archive_sum(header);
    header = archive_header(&archive, "gnu", '0', 0); /* GNU's own format has times where POSIX has the prefix */
    memcpy(header + 257, "ustar  ", 8);
    memcpy(header + 345, "12345670123", 11);
    archive_sum(header);
    archive_end(&archive);
    assert_int_equal(walk(&archive, &seen, &err), STOKER_OK);
    assert_int_equal(seen.count, 4);
    assert_string_equal(seen.names[0], name);
    assert_string_equal(seen.names[1], name);
    assert_string_equal(seen.names[2], "some/prefix/name");
    assert_string_equal(seen.names[3], "gnu");
    assert_memory_equal(archive.data + seen.offsets[1], "2", 1);
}

static void test_sizes_of_pax_and_gnu(void **state)
{
    (void)state;
    struct seen seen;
    stoker_error err;
    archive.size = 0;
    archive_add(&archive, "pax", 'x', "9 size=3\n20 comment=nothing=\n");
    archive_sum(archive_header(&archive, "a", '0', 0)); /* what a program writes that cannot fit the field */
    archive_data(&archive, "abc", 3);
    uint8_t *header = archive_header(&archive, "b", '0', 0);
    memset(header + 124, 0, 12);
    header[124] = 0x80, header[135] = 2;
    archive_sum(header);
    archive_data(&archive, "de", 2);
    archive_end(&archive);
    assert_int_equal(walk(&archive, &seen, &err), STOKER_OK);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.sizes[0], 3);
    assert_int_equal(seen.sizes[1], 2);
    assert_memory_equal(archive.data + seen.offsets[1], "de", 2);
}

static void refuse(stoker_status status, const char *said)
{
    struct seen seen;
    stoker_error err;
    memset(&err, 0, sizeof err);
    assert_int_equal(walk(&archive, &seen, &err), status);
    if (!strstr(err.message, said)) fail_msg("'%s' does not say '%s'", err.message, said);
}

static void begin(void)
{
    archive.size = 0;
    archive_add(&archive, "good", '0', "x");
}

static void test_what_cannot_be_read_is_refused_with_its_place(void **state)
{
    (void)state;
    archive.size = 0;
    refuse(STOKER_ERR_CORRUPT, "the archive is empty");
    begin();
    archive_add(&archive, "cut", '0', "yy");
    archive.size -= 511;
    refuse(STOKER_ERR_CORRUPT,
           "the archive is cut: the member at byte 1024 has 2 bytes, the archive ends at byte 1537");
    archive.size = 1024 + 100;
    refuse(STOKER_ERR_CORRUPT, "the archive ends at byte 1124, inside the 512 bytes at 1024");
    begin();
    archive_add(&archive, "next", '0', "y");
    archive.data[1024] ^= 1;
    refuse(STOKER_ERR_CORRUPT, "the header at byte 1024 has a wrong sum");
    archive.data[1024] ^= 1;
    archive.data[0] ^= 1;
    refuse(STOKER_ERR_CORRUPT, "no tar archive");
    begin();
    archive_add(&archive, "s", 'S', "y");
    refuse(STOKER_ERR_UNSUPPORTED, "a sparse member at byte 1024");
    begin();
    archive_add(&archive, "s", 'x', "22 GNU.sparse.major=1\n");
    archive_add(&archive, "s", '0', "y");
    refuse(STOKER_ERR_UNSUPPORTED, "a sparse member at byte 1024");
    begin();
    archive_add(&archive, "", '0', "y");
    refuse(STOKER_ERR_CORRUPT, "a name of 0 bytes at byte 1024");
    begin();
    archive_add(&archive, "p", 'x', "11 path=xy\n");
    archive_end(&archive);
    refuse(STOKER_ERR_CORRUPT, "ends after an extended header");
    begin();
    uint8_t *header = archive_header(&archive, "n", '0', 0);
    memcpy(header + 124, "00000000009", 12);
    archive_sum(header);
    refuse(STOKER_ERR_CORRUPT, "the header at byte 1024 has no size");
    begin();
    header = archive_header(&archive, "n", '0', 0);
    memset(header + 124, 0xff, 12);
    archive_sum(header);
    refuse(STOKER_ERR_CORRUPT, "the header at byte 1024 has no size");
    header[124] = 0x80;
    archive_sum(header);
    refuse(STOKER_ERR_CORRUPT, "the header at byte 1024 has no size");
}

static void test_damaged_pax_records_are_refused(void **state)
{
    (void)state;
    static const char *const records[] = {"x",
                                          "9 path=x",
                                          "99 path=xy\n",
                                          "3 \n",
                                          "12 pathxxxx\n",
                                          "0 path=xy\n",
                                          "99999999999999999999999 path=x\n",
                                          "12 path=xyz",
                                          "11 size=ab\n",
                                          "30 size=123456789012345678901\n",
                                          "8 path=\n"};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        begin();
        archive_add(&archive, "p", 'x', records[i]);
        archive_add(&archive, "n", '0', "y");
        refuse(STOKER_ERR_CORRUPT, "at byte 1024");
    }
}

static void test_compressed_archives_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes;
    } kinds[] = {{"gzip", "\x1f\x8b"},
                 {"zstd", "\x28\xb5\x2f\xfd"},
                 {"xz", "\xfd"
                        "7zXZ"},
                 {"bzip2", "BZh9"},
                 {"zip", "PK\3\4"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        memset(archive.data, 'x', 1024);
        memcpy(archive.data, kinds[i].bytes, strlen(kinds[i].bytes));
        archive.size = 1024;
        refuse(STOKER_ERR_UNSUPPORTED, kinds[i].name);
        archive.size = 20; /* less than a header */
        refuse(STOKER_ERR_UNSUPPORTED, kinds[i].name);
    }
}

static void test_a_failure_of_the_caller_ends_the_walk(void **state)
{
    (void)state;
    begin();
    archive_add(&archive, "next", '0', "y");
    struct seen seen = {.stop_at = 1};
    struct stk_file file = archive_open(&archive);
    assert_int_equal(stk_tar_walk(&file, see, &seen, NULL), STOKER_ERR_CANCELED);
    assert_int_equal(seen.count, 1);
    stk_file_close(&file);
}

/* An archive of the same size and time may have taken the place of the one that was walked. */
static void test_a_member_is_expected_where_it_was(void **state)
{
    (void)state;
    begin();
    const uint64_t at = archive.size + 512;
    archive_add(&archive, "./next", '0', "yes");
    const struct stk_tar_member right = {at, 3, "next", 4},
                                cases[] = {{at, 3, "text", 4},     {at, 2, "next", 4}, {at + 512, 3, "next", 4},
                                           {at + 1, 3, "next", 4}, {3, 3, "next", 4},  {at + (1 << 20), 3, "next", 4}};
    struct stk_file file = archive_open(&archive);
    assert_int_equal(stk_tar_expect(&file, &right, NULL), STOKER_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stoker_error err = {0};
        assert_int_equal(stk_tar_expect(&file, &cases[i], &err), STOKER_ERR_MISMATCH);
    }
    stk_file_close(&file);
}

static void test_members_behind_a_large_one_are_found(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-tar-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct stk_file file;
    struct seen seen = {.stop_at = 8};
    uint64_t at = 0;
    for (int i = 0; i < 3; i++) { /* data are a hole: nothing reads them */
        archive.size = 0;
        archive_sum(archive_header(&archive, i == 0 ? "a" : i == 1 ? "b" : "c", '0', 3000000));
        assert_int_equal(pwrite(fd, archive.data, 512, (off_t)at), 512);
        at += 512 + 3000320;
    }
    assert_int_equal(ftruncate(fd, (off_t)at), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(stk_file_open(path, &file, NULL), STOKER_OK);
    assert_int_equal(stk_tar_walk(&file, see, &seen, NULL), STOKER_OK);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.offsets[2], 2 * (512 + 3000320) + 512);
    stk_file_close(&file);
    assert_int_equal(unlink(path), 0);
}

static void test_keys_end_at_the_first_dot_of_the_last_part(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t size;
        bool has;
    } cases[] = {{"a.jpg", 1, true},     {"a.b/c.left.jpg", 5, true}, {"a.b/c", 5, false},
                 {".hidden.x", 7, true}, {"d/.hidden", 9, false},     {"a.", 1, true},
                 {"d/", 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool has = !cases[i].has;
        assert_int_equal(stk_tar_key_size(cases[i].name, strlen(cases[i].name), &has), cases[i].size);
        assert_int_equal(has, cases[i].has);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_found_where_their_bytes_lie),
        cmocka_unit_test(test_long_names_of_every_format),
        cmocka_unit_test(test_sizes_of_pax_and_gnu),
        cmocka_unit_test(test_what_cannot_be_read_is_refused_with_its_place),
        cmocka_unit_test(test_damaged_pax_records_are_refused),
        cmocka_unit_test(test_compressed_archives_are_named),
        cmocka_unit_test(test_a_failure_of_the_caller_ends_the_walk),
        cmocka_unit_test(test_a_member_is_expected_where_it_was),
        cmocka_unit_test(test_members_behind_a_large_one_are_found),
        cmocka_unit_test(test_keys_end_at_the_first_dot_of_the_last_part),
    };
    return stk_run_tests(tests);
}
