/* SPDX-License-Identifier: Apache-2.0
 *
 * Members by name and by sample, names that stand twice, and the bytes of an index: what was written is read again, and
 * no damage of it is ever taken.
 */
#include "store/tar_index.h"

#include "store/tar_fixture.h"
#include "tests/support/allocations.h"

static struct archive archive;

static void fill(void)
{
    archive.size = 0;
    archive_add(&archive, "b/2.txt", '0', "two");
    archive_add(&archive, "a.txt", '0', "A");
    archive_add(&archive, "a-b.jpg", '0', "AB");
    archive_add(&archive, "b/2.cls", '0', "2");
    archive_add(&archive, "a.jpg", '0', "J");
    archive_add(&archive, "lone", '0', "");
    archive_end(&archive);
}

static struct stk_tar_index *build(bool last, stoker_status expected, stoker_error *err)
{
    struct stk_file file = archive_open(&archive);
    struct stk_tar_index *index = NULL;
    assert_int_equal(stk_tar_index_build(&file, last, &index, err), expected);
    stk_file_close(&file);
    return index;
}

static const char *name_at(const struct stk_tar_index *index, uint32_t entry)
{
    return index->text + index->entries[entry].name_offset;
}

static void check(const struct stk_tar_index *index)
{
    static const char *const names[] = {"b/2.txt", "a.txt", "a-b.jpg", "b/2.cls", "a.jpg", "lone"};
    static const uint32_t samples[] = {0, 1, 2, 0, 1, 3};
    assert_int_equal(index->count, 6);
    assert_int_equal(index->sample_count, 4);
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(name_at(index, i), names[i]);
        assert_int_equal(index->entries[i].sample, samples[i]);
        assert_int_equal(stk_tar_index_find(index, names[i], strlen(names[i])), i);
    }
    assert_int_equal(index->sample_size[1], 2);
    assert_string_equal(name_at(index, index->sorted[index->sample_first[1]]), "a.jpg");
    assert_string_equal(name_at(index, index->sorted[index->sample_first[1] + 1]), "a.txt");
    assert_string_equal(name_at(index, index->sorted[index->sample_first[0]]), "b/2.cls");
    static const char *const absent[] = {"", "a", "a.tx", "a.txtt", "z", "b/2"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_int_equal(stk_tar_index_find(index, absent[i], strlen(absent[i])), UINT32_MAX);
}

static void test_members_are_found_by_name_and_sample(void **state)
{
    (void)state;
    stoker_error err;
    fill();
    struct stk_tar_index *index = build(false, STOKER_OK, &err), *copy = NULL;
    check(index);
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(stk_tar_index_encode(index, &data, &size, &err), STOKER_OK);
    assert_int_equal(stk_tar_index_decode(data, size, &copy, &err), STOKER_OK);
    check(copy);
    assert_int_equal(copy->archive_bytes, archive.size);
    assert_true(copy->archive_mtime_ns == index->archive_mtime_ns);
    free(data);
    stk_tar_index_destroy(copy);
    stk_tar_index_destroy(index);
}

static void test_a_name_that_stands_twice_is_an_error_or_the_last_counts(void **state)
{
    (void)state;
    stoker_error err;
    archive.size = 0;
    archive_add(&archive, "0.jpg", '0', "first");
    archive_add(&archive, "0.txt", '0', "t");
    archive_add(&archive, "0.jpg", '0', "second");
    archive_add(&archive, "0.jpg", '0', "third");
    archive_end(&archive);
    (void)build(false, STOKER_ERR_CORRUPT, &err);
    assert_string_equal(err.message, "the member '0.jpg' stands twice: its data are at byte 512 and at byte 2560");
    struct stk_tar_index *index = build(true, STOKER_OK, &err);
    assert_int_equal(index->count, 2);
    assert_int_equal(index->dropped, 2);
    assert_string_equal(name_at(index, 0), "0.txt");
    assert_string_equal(name_at(index, 1), "0.jpg");
    assert_memory_equal(archive.data + index->entries[1].offset, "third", 5);
    assert_int_equal(index->sample_count, 1);
    stk_tar_index_destroy(index);
}

static void test_an_archive_without_members_has_none(void **state)
{
    (void)state;
    stoker_error err;
    archive.size = 0;
    archive_end(&archive);
    struct stk_tar_index *index = build(true, STOKER_OK, &err), *copy = NULL;
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(index->count + index->sample_count, 0);
    assert_int_equal(stk_tar_index_find(index, "a", 1), UINT32_MAX);
    assert_int_equal(stk_tar_index_encode(index, &data, &size, &err), STOKER_OK);
    assert_int_equal(size, 64);
    assert_int_equal(stk_tar_index_decode(data, size, &copy, &err), STOKER_OK);
    free(data);
    stk_tar_index_destroy(copy);
    stk_tar_index_destroy(index);
}

static void test_no_damage_of_an_index_is_taken(void **state)
{
    (void)state;
    stoker_error err;
    fill();
    struct stk_tar_index *index = build(false, STOKER_OK, &err), *copy = NULL;
    uint8_t *data = NULL;
    size_t size = 0;
    assert_int_equal(stk_tar_index_encode(index, &data, &size, &err), STOKER_OK);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1);
        assert_non_null(exact);
        memcpy(exact, data, cut);
        assert_true(stk_tar_index_decode(exact, cut, &copy, &err) < 0);
        free(exact);
    }
    for (size_t at = 0; at < size; at++) {
        data[at] ^= 0x10;
        assert_true(stk_tar_index_decode(data, size, &copy, &err) < 0);
        data[at] ^= 0x10;
    }
    free(data);
    stk_tar_index_destroy(index);
}

static void fault_each_allocation_of_an_index(void **state)
{
    (void)state;
    stoker_error err;
    fill();
    struct stk_file file = archive_open(&archive);
    for (uint64_t n = 1;; n++) {
        struct stk_tar_index *index = NULL, *copy = NULL;
        uint8_t *data = NULL;
        size_t size = 0;
        allocations_fail(n);
        stoker_status status = stk_tar_index_build(&file, true, &index, &err);
        if (status >= 0) status = stk_tar_index_encode(index, &data, &size, &err);
        if (status >= 0) status = stk_tar_index_decode(data, size, &copy, &err);
        bool failed = allocations_failed();
        allocations_fail(0);
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        free(data);
        stk_tar_index_destroy(copy);
        stk_tar_index_destroy(index);
        if (!failed) break;
    }
    stk_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_found_by_name_and_sample),
        cmocka_unit_test(test_a_name_that_stands_twice_is_an_error_or_the_last_counts),
        cmocka_unit_test(test_an_archive_without_members_has_none),
        cmocka_unit_test(test_no_damage_of_an_index_is_taken),
        cmocka_unit_test(fault_each_allocation_of_an_index),
    };
    return stk_run_tests(tests);
}
