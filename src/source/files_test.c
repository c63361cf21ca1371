/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files as blobs: what is refused, and what a changed file is.
 */
#include "source/files.h"

#include <stdio.h>

#include "source/source_fixture.h"

static const struct stk_files_kind kind = {0x54534554u, 3, STK_FILES_FORM_BYTES};

static struct stk_files open_list(const char *const *paths, size_t count, const void **out_blob, size_t *out_size)
{
    const stoker_path_list list = {.paths = paths, .count = count};
    uint8_t form[STK_FILES_FORM_BYTES];
    struct stk_files files;
    stoker_error err;
    int fd = -1;
    memset(form, 7, sizeof form);
    assert_int_equal(stk_files_create(&kind, form, &list, &fd, &err), STOKER_OK);
    assert_int_equal(stk_shmem_blob_map(fd, out_blob, out_size, &err), STOKER_OK);
    (void)close(fd); /* memory, not a file */
    assert_int_equal(stk_files_check(&kind, *out_blob, *out_size, &files, &err), STOKER_OK);
    return files;
}

static void test_files_lists_paths_and_form(void **state)
{
    (void)state;
    const char *paths[] = {"/a b/\xc3\xa9.jpg", "relative.png", "/c\n\"d\".gif"};
    const void *blob = NULL;
    size_t size = 0;
    struct stk_files files = open_list(paths, 3, &blob, &size);
    assert_int_equal(files.count, 3);
    assert_int_equal(files.blob[STK_FILES_FORM_AT], 7);
    assert_int_equal(files.blob[STK_FILES_FORM_AT + STK_FILES_FORM_BYTES - 1], 7);
    stoker_descriptor descriptor = {.ndim = 3};
    stk_files_describe(&files, 0, &descriptor);
    assert_string_equal(descriptor.path, paths[0]);
    assert_int_equal(descriptor.ndim, 3); /* the rest is the caller's */
    stk_files_describe(&files, 1, &descriptor);
    assert_int_equal(descriptor.path[0], '/');
    assert_non_null(strstr(descriptor.path, "/relative.png"));
    stk_files_describe(&files, 2, &descriptor);
    assert_string_equal(descriptor.path, paths[2]);
    assert_int_equal(descriptor.id, 2);
    stk_shmem_blob_unmap(blob, size);
}

static void test_files_check_refuses_every_cut(void **state)
{
    (void)state;
    const char *paths[] = {"/a", "/b/c"};
    const void *blob = NULL;
    size_t size = 0;
    struct stk_files files = open_list(paths, 2, &blob, &size);
    stoker_error err;
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, blob, cut);
        if (cut >= STK_BLOB_HEADER_BYTES) stk_blob_put64(copy + 8, cut);
        assert_int_equal(stk_files_check(&kind, copy, cut, &files, &err), STOKER_ERR_CORRUPT);
        free(copy);
    }
    const struct stk_files_kind other = {kind.magic, 4, STK_FILES_FORM_BYTES};
    assert_int_equal(stk_files_check(&other, blob, size, &files, &err), STOKER_ERR_UNSUPPORTED);
    stk_shmem_blob_unmap(blob, size);
}

static void test_files_changed_file_is_a_mismatch(void **state)
{
    (void)state;
    stoker_error err;
    const stoker_descriptor sample = {.bytes = 10, .mtime_ns = 5}, missing = {0};
    struct stk_file file = {.fd = -1, .size = 10, .mtime_ns = 5};
    assert_int_equal(stk_files_check_facts(&sample, &file, &err), STOKER_OK);
    file.mtime_ns = 6;
    assert_int_equal(stk_files_check_facts(&sample, &file, &err), STOKER_ERR_MISMATCH);
    file.size = 11;
    assert_int_equal(stk_files_check_facts(&sample, &file, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "11 bytes, it had 10"));
    assert_int_equal(stk_files_check_facts(&missing, &file, &err), STOKER_OK); /* it came later */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_lists_paths_and_form),
        cmocka_unit_test(test_files_check_refuses_every_cut),
        cmocka_unit_test(test_files_changed_file_is_a_mismatch),
    };
    return stk_run_tests(tests);
}
