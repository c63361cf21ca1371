/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/builder_internal.h"

#include "base/error.h"
#include "tests/support/allocations.h"
#include "tokens/builder_fixture.h"

ssize_t __real_pwrite64(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

static int write_error;

ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    if (write_error) return errno = write_error, -1;
    return __real_pwrite64(fd, data, size, offset);
}

int __wrap_fsync(int fd) { return __real_fsync(fd); }

int __wrap_rename(const char *from, const char *to) { return __real_rename(from, to); }

static void test_merge_mixed_with_writes(void **state)
{
    (void)state;
    static const int64_t more[] = {17142, 46624}, documents[] = {0, 2, 3, 4, 6, 7};
    static const int32_t two[] = {2}, lengths[] = {5, 1, 7, 2, 5, 1, 7};
    uint16_t data[28];
    memcpy(data, fixture_tokens, 26);
    data[13] = 17142, data[14] = 46624;
    memcpy(data + 15, fixture_tokens, 26);
    const char *prefix = fixture_write("in", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    stoker_dataset_builder *builder = new_builder("out", STOKER_TOKEN_UINT16, false, false);
    stoker_elements elements = {more, 2, STOKER_TOKEN_INT64};
    assert_int_equal(stoker_dataset_builder_add_index(builder, prefix, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_document(builder, elements, two, 1, NULL, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_index(builder, in_folder("in"), NULL), STOKER_OK);
    finish(builder, "out");
    struct fixture_index index = {STOKER_TOKEN_UINT16, 7, 6, lengths, NULL, documents, NULL};
    expect_files("out", &index, data, sizeof data);
}

static void test_merge_of_many_documents_and_modes(void **state)
{
    (void)state;
    enum { COUNT = 9000 }; /* more than a step of the copy */
    static int32_t lengths[2 * COUNT];
    static int64_t documents[2 * COUNT + 1];
    static int8_t modes[2 * COUNT];
    static uint8_t data[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++)
        lengths[i] = 1, documents[i + 1] = i + 1, modes[i] = (int8_t)(i % COUNT % 100), data[i] = (uint8_t)(i % COUNT);
    struct fixture_index one = {STOKER_TOKEN_UINT8, COUNT, COUNT + 1, lengths, NULL, documents, modes};
    struct fixture_index two = {STOKER_TOKEN_UINT8, 2 * COUNT, 2 * COUNT + 1, lengths, NULL, documents, modes};
    (void)fixture_write("in", &one, data, COUNT);
    stoker_dataset_builder *builder = new_builder("out", STOKER_TOKEN_UINT8, true, false);
    assert_int_equal(stoker_dataset_builder_add_index(builder, in_folder("in"), NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_index(builder, in_folder("in"), NULL), STOKER_OK);
    finish(builder, "out");
    expect_files("out", &two, data, sizeof data);
}

static void expect_refusal(const char *prefix, stoker_status status, const char *text)
{
    stoker_error err = {0};
    stoker_dataset_builder *builder = new_builder("out", STOKER_TOKEN_UINT16, false, false);
    (void)fixture_write("good", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(stoker_dataset_builder_add_index(builder, in_folder("good"), &err), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_index(builder, prefix, &err), status);
    assert_non_null(strstr(err.message, text));
    finish(builder, "out"); /* as before the call */
    expect_files("out", &fixture_three, fixture_tokens, sizeof fixture_tokens);
}

static void test_merge_refuses_what_would_be_garbage(void **state)
{
    (void)state;
    static const int64_t offsets[] = {16, 0, 2};
    struct fixture_index index = fixture_three;
    index.dtype_code = STOKER_TOKEN_INT16;
    expect_refusal(fixture_write("type", &index, fixture_tokens, 26), STOKER_ERR_MISMATCH, "type int16");
    index = fixture_three;
    index.offsets = offsets;
    expect_refusal(fixture_write("order", &index, fixture_tokens, 26), STOKER_ERR_CORRUPT, "sequence 0");
    expect_refusal(fixture_write("short", &fixture_three, fixture_tokens, 25), STOKER_ERR_CORRUPT, "ends at byte 25");
    static const uint16_t longer[14];
    expect_refusal(fixture_write("long", &fixture_three, longer, 28), STOKER_ERR_CORRUPT, "has 28 bytes");
    expect_refusal(in_folder("none"), STOKER_ERR_NOT_FOUND, "none.idx");
}

static void test_fault_each_allocation_fails_cleanly(void **state)
{
    (void)state;
    int failed = 1, rounds = 0;
    (void)fixture_write("in", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    for (uint64_t n = 1; failed; n++, rounds++) {
        stoker_error err = {0};
        stoker_dataset_builder *builder = new_builder("out", STOKER_TOKEN_UINT16, false, false);
        allocations_fail(n);
        stoker_status status = stoker_dataset_builder_add_index(builder, in_folder("in"), &err);
        failed = allocations_failed();
        allocations_fail(0);
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        assert_int_equal(builder->lengths.count, failed ? 0 : 3);
        stoker_dataset_builder_destroy(builder);
    }
    assert_true(rounds >= 6);
}

static void test_fault_names_the_file_that_is_at_fault(void **state)
{
    (void)state;
    const char *prefix = fixture_write("in", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    const int errors[] = {ENOSPC, EDQUOT, EIO};
    for (int i = 0; i < 3; i++) {
        stoker_error err = {0};
        char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
        stoker_dataset_builder *builder = new_builder("out", STOKER_TOKEN_UINT16, false, false);
        write_error = errors[i];
        stoker_status status = stoker_dataset_builder_add_index(builder, prefix, &err);
        write_error = 0;
        assert_int_equal(status, i < 2 ? STOKER_ERR_NO_SPACE : STOKER_ERR_IO);
        stk_error_text(&err, text, sizeof text);
        assert_non_null(strstr(text, "/out.bin: cannot copy 26 bytes"));
        assert_int_equal(strstr(text, "/in.bin") != NULL, i == 2); /* an I/O error may be of both */
        stoker_dataset_builder_destroy(builder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_merge_mixed_with_writes),
        FIXTURE_TEST(test_merge_of_many_documents_and_modes),
        FIXTURE_TEST(test_merge_refuses_what_would_be_garbage),
        FIXTURE_TEST(test_fault_each_allocation_fails_cleanly),
        FIXTURE_TEST(test_fault_names_the_file_that_is_at_fault),
    };
    return stk_run_tests(tests);
}
