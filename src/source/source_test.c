/* SPDX-License-Identifier: Apache-2.0
 *
 * The table in front of the kinds: unknown kinds, foreign blobs, and arguments that no kind gets to see.
 */
#include "source/source_fixture.h"

static void test_open_refuses_foreign_blobs_and_kinds(void **state)
{
    (void)state;
    struct stoker_source *source = NULL;
    stoker_error err;
    int fd = -1;
    static const char text[] = "no blob at all, but long enough";
    assert_int_equal(stk_shmem_blob_create(text, sizeof text, &fd, &err), STOKER_OK);
    assert_int_equal(stk_source_open_blob(STK_SOURCE_MEDIA, fd, -1, &source, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stk_shmem_blob_create(text, sizeof text, &fd, &err), STOKER_OK);
    assert_int_equal(stk_source_open_blob(STK_SOURCE_PROCESS, fd, -1, &source, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stk_shmem_blob_create(text, sizeof text, &fd, &err), STOKER_OK);
    assert_int_equal(stk_source_open_blob((enum stk_source_kind)99, fd, -1, &source, &err), STOKER_ERR_UNSUPPORTED);
    assert_null(source);
}

static void test_arguments_are_checked_first(void **state)
{
    (void)state;
    stoker_descriptor descriptor;
    stoker_error err;
    uint8_t byte;
    assert_int_equal(stoker_source_count(NULL), 0);
    assert_int_equal(stoker_source_describe(NULL, 0, &descriptor, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_source_materialise(NULL, 0, &byte, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_source_create_video(NULL, NULL, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_source_create_process(NULL, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_source_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_refuses_foreign_blobs_and_kinds),
        cmocka_unit_test(test_arguments_are_checked_first),
    };
    return stk_run_tests(tests);
}
