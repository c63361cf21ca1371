/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists with addresses: they stay as they are, their options travel, and damaged ones are refused.
 */
#include "source/remote.h"

#include "base/error.h"
#include "source/source_fixture.h"
#include "sys/shmem.h"

static const struct stk_files_kind kind = {0x54534554u, 3, STK_FILES_FORM_BYTES};

static const uint8_t *make(const stoker_path_list *list, size_t *out_size)
{
    static const uint8_t form[STK_FILES_FORM_BYTES] = {0};
    const void *blob = NULL;
    stoker_error err = {0};
    int fd = -1;
    assert_int_equal(stk_files_create(&kind, form, list, &fd, &err), STOKER_OK);
    assert_int_equal(stk_shmem_blob_map(fd, &blob, out_size, &err), STOKER_OK);
    (void)close(fd);
    return blob;
}

static void test_addresses_and_their_options_travel(void **state)
{
    (void)state;
    const char *const paths[] = {"/a.mp4", "s3://bucket/b.mp4", "s3://bucket/s.tar::c.mp4"};
    const stoker_path_part parts[3] = {{0}, {0}, {.offset = 512, .bytes = 9, .mtime_ns = 7, .shard_bytes = 17}};
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    options.access_key_id = "key", options.secret_access_key = "secret", options.endpoint = "http://host:1";
    options.path_style = -1, options.retries = -2, options.stall_timeout_ns = 1u << 31;
    const stoker_path_list list = {.paths = paths, .count = 3, .parts = parts, .object = &options};
    struct stk_files files;
    stoker_descriptor d;
    stoker_error err = {0};
    size_t size = 0;
    const uint8_t *blob = make(&list, &size);
    assert_int_equal(stk_files_check(&kind, blob, size, &files, &err), STOKER_OK);
    assert_true(files.remote);
    assert_string_equal(files.object.access_key_id, "key");
    assert_string_equal(files.object.secret_access_key, "secret");
    assert_string_equal(files.object.endpoint, "http://host:1");
    assert_null(files.object.region);
    assert_int_equal(files.object.path_style, -1);
    assert_int_equal(files.object.retries, -2);
    assert_int_equal(files.object.stall_timeout_ns, 1u << 31);
    stk_files_describe(&files, 1, &d);
    assert_string_equal(d.path, "s3://bucket/b.mp4"); /* behind no folder */
    assert_int_equal(d.bytes, 0);
    stk_files_describe(&files, 2, &d);
    assert_int_equal(d.bytes, 9);
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    for (size_t i = STK_FILES_FORM_AT + STK_FILES_FORM_BYTES; i < size; i++) { /* no byte of it can do harm */
        memcpy(copy, blob, size);
        copy[i] ^= 0xff;
        stoker_status status = stk_files_check(&kind, copy, size, &files, &err);
        assert_true(status == STOKER_OK || status == STOKER_ERR_CORRUPT);
    }
    free(copy);
    stk_shmem_blob_unmap(blob, size);
}

static void test_lists_of_files_need_no_network(void **state)
{
    (void)state;
    const char *const paths[] = {"/a.mp4"};
    const stoker_path_list list = {.paths = paths, .count = 1};
    struct stk_files files;
    stoker_error err = {0};
    size_t size = 0;
    const uint8_t *blob = make(&list, &size);
    assert_int_equal(stk_files_check(&kind, blob, size, &files, &err), STOKER_OK);
    assert_false(files.remote);
    stk_shmem_blob_unmap(blob, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_and_their_options_travel),
        cmocka_unit_test(test_lists_of_files_need_no_network),
    };
    return stk_run_tests(tests);
}
