/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sources: how to start the template, and what they refuse.
 */
#include "source/source_fixture.h"

static void test_process_source_travels(void **state)
{
    (void)state;
    const char *argv[] = {"/usr/bin/python3", "-m", "x", "", NULL}, *envp[] = {"A=1", NULL};
    stoker_process_spec spec = {argv, envp, "/tmp", "payload", 7, 42};
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_OK);
    struct stoker_source *copy = reopen(source);
    struct stk_process_source view;
    assert_int_equal(stk_source_process(copy, &view, &err), STOKER_OK);
    assert_string_equal(view.argv[2], "x");
    assert_string_equal(view.argv[3], "");
    assert_null(view.argv[4]);
    assert_string_equal(view.envp[0], "A=1");
    assert_null(view.envp[1]);
    assert_string_equal(view.cwd, "/tmp");
    const void *payload = NULL;
    size_t size = 0;
    assert_int_equal(stk_shmem_blob_map(view.payload_fd, &payload, &size, &err), STOKER_OK);
    assert_int_equal(size, 7);
    assert_memory_equal(payload, "payload", 7);
    stk_shmem_blob_unmap(payload, size);
    assert_int_equal(stoker_source_count(copy), 42);
    stoker_descriptor d;
    uint8_t byte;
    assert_int_equal(stoker_source_describe(copy, 0, &d, &err), STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_source_materialise(copy, 0, &byte, &err), STOKER_ERR_UNSUPPORTED);
    stoker_source_close(copy);
    stoker_source_close(source);

    spec.argv = NULL;
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    const char *nothing[] = {NULL};
    spec.argv = nothing;
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
}

static void test_damaged_process_blobs_are_refused(void **state)
{
    (void)state;
    const char *argv[] = {"a", "b", NULL}, *envp[] = {"c=d", NULL};
    const stoker_process_spec spec = {argv, envp, NULL, "p", 1, 0};
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_OK);
    damage(source, stk_process_source_check);
    stoker_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_source_travels),
        cmocka_unit_test(test_damaged_process_blobs_are_refused),
    };
    return stk_run_tests(tests);
}
