/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/builder_internal.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "tests/support/allocations.h"
#include "tokens/builder_fixture.h"

ssize_t __real_pwrite64(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
static int write_error, writes_until_error;

ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    if (write_error && writes_until_error-- == 0) {
        writes_until_error = 0;
        if (size > 10) return __real_pwrite64(fd, data, 10, offset); /* a part fits, then nothing */
        errno = write_error;
        return -1;
    }
    return __real_pwrite64(fd, data, write_error ? size < 10 ? size : 10 : size, offset);
}

int __wrap_fsync(int fd) { return __real_fsync(fd); }

int __wrap_rename(const char *from, const char *to) { return __real_rename(from, to); }

static stoker_elements int64s(const int64_t *values, uint64_t count)
{
    return (stoker_elements){values, count, STOKER_TOKEN_INT64};
}

static void add_three(stoker_dataset_builder *builder)
{
    int64_t tokens[13];
    for (int i = 0; i < 13; i++) tokens[i] = fixture_tokens[i];
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(tokens, 5), 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(tokens + 5, 1), 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_end_document(builder, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(tokens + 6, 7), 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_end_document(builder, NULL), STOKER_OK);
}

static void test_items_and_documents(void **state)
{
    (void)state;
    stoker_dataset_builder *builder = new_builder("a", STOKER_TOKEN_UINT16, false, false);
    add_three(builder);
    finish(builder, "a");
    expect_files("a", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(fixture_entries(), 2);
}

static void test_documents_of_sequences_with_modes(void **state)
{
    (void)state;
    static const int32_t two[] = {2, 4}, none[] = {0}, all[] = {2, 4, 0, 3};
    static const int8_t modes[] = {1, -2}, all_modes[] = {1, -2, 0, 5};
    static const int64_t tokens[] = {674, 50, 864, 825, 507, 881}, documents[] = {0, 2, 2, 3, 4, 4};
    static const int32_t data[] = {674, 50, 864, 825, 507, 881, 1, 2, 3};
    static const int64_t more[] = {1, 2, 3};
    stoker_dataset_builder *builder = new_builder("m", 0, true, false); /* int32 is the default */
    assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(tokens, 6), two, 2, modes, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(NULL, 0), NULL, 0, NULL, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(NULL, 0), none, 1, NULL, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(more, 3), 5, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_end_document(builder, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_end_document(builder, NULL), STOKER_OK);
    finish(builder, "m");
    struct fixture_index index = {STOKER_TOKEN_INT32, 4, 6, all, NULL, documents, all_modes};
    expect_files("m", &index, data, sizeof data);
}

static void test_nothing_added(void **state)
{
    (void)state;
    static const int64_t zero[] = {0};
    struct fixture_index index = {STOKER_TOKEN_INT32, 0, 1, NULL, NULL, zero, NULL};
    finish(new_builder("e", 0, false, false), "e");
    expect_files("e", &index, "", 0);
}

static void test_values_that_do_not_fit_name_document_and_position(void **state)
{
    (void)state;
    static const int64_t bad[] = {1, 2, 65536};
    static const int32_t lengths[] = {3};
    static const float nan_at_one[] = {1, 0.0F / 0.0F};
    stoker_error err = {0};
    stoker_dataset_builder *builder = new_builder("v", STOKER_TOKEN_UINT16, false, false);
    add_three(builder);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(bad, 3), 0, &err), STOKER_ERR_LIMIT);
    assert_string_equal(err.message, "token 65536 at position 2 of document 2 does not fit uint16 (0 to 65535)");
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(bad, 2), 0, &err), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(bad, 3), 0, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "position 4 of document 2"));
    assert_int_equal(stoker_dataset_builder_end_document(builder, &err), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(bad, 3), lengths, 1, NULL, &err),
                     STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "position 2 of document 3"));
    stoker_elements floats = {nan_at_one, 2, STOKER_TOKEN_FLOAT32};
    assert_int_equal(stoker_dataset_builder_add_item(builder, floats, 0, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "nan at position 1 of document 3"));
    finish(builder, "v"); /* none of it is there */
    static const int32_t all[] = {5, 1, 7, 2};
    static const int64_t documents[] = {0, 2, 3, 4};
    uint16_t data[15];
    memcpy(data, fixture_tokens, sizeof fixture_tokens);
    data[13] = 1, data[14] = 2;
    struct fixture_index index = {STOKER_TOKEN_UINT16, 4, 4, all, NULL, documents, NULL};
    expect_files("v", &index, data, sizeof data);
}

static void test_wrapping_when_asked_for(void **state)
{
    (void)state;
    static const int64_t values[] = {255, 256, 300, -1, 511}, documents[] = {0, 1};
    static const uint8_t data[] = {255, 0, 44, 255, 255};
    static const int32_t lengths[] = {5};
    stoker_dataset_builder *builder = new_builder("w", STOKER_TOKEN_UINT8, false, true);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(values, 5), 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_end_document(builder, NULL), STOKER_OK);
    finish(builder, "w");
    struct fixture_index index = {STOKER_TOKEN_UINT8, 1, 2, lengths, NULL, documents, NULL};
    expect_files("w", &index, data, sizeof data);
}

static void test_arguments_are_checked(void **state)
{
    (void)state;
    static const int64_t tokens[] = {1, 2, 3};
    static const int32_t short_by_one[] = {2}, negative[] = {-1, 4};
    stoker_error err = {0};
    stoker_dataset_builder *builder = new_builder("c", 0, false, false);
    stoker_elements wrong_type = {tokens, 3, 9}, no_data = {NULL, 3, 5}, huge = {tokens, UINT64_MAX / 2, 5};
    stoker_elements long_item = {tokens, (uint64_t)INT32_MAX + 1, 1};
    assert_int_equal(stoker_dataset_builder_add_item(builder, wrong_type, 0, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataset_builder_add_item(builder, no_data, 0, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataset_builder_add_item(builder, huge, 0, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataset_builder_add_item(builder, long_item, 0, &err), STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "2147483648 elements"));
    assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(tokens, 3), short_by_one, 1, NULL, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sum up to 2, but there are 3"));
    assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(tokens, 3), negative, 2, NULL, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(tokens, 3), NULL, 1, NULL, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataset_builder_add_item(NULL, int64s(tokens, 3), 0, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_dataset_builder_destroy(builder);
    stoker_dataset_builder_destroy(NULL);

    stoker_dataset_builder_options options = STOKER_DATASET_BUILDER_OPTIONS_INIT;
    assert_int_equal(stoker_dataset_builder_create("/nonexistent/x.bin", &options, &builder, &err),
                     STOKER_ERR_NOT_FOUND);
    options.dtype_code = 9;
    assert_int_equal(stoker_dataset_builder_create(in_folder("x.bin"), &options, &builder, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    options.dtype_code = 0, options.range = (stoker_token_range)7;
    assert_int_equal(stoker_dataset_builder_create(in_folder("x.bin"), &options, &builder, &err),
                     STOKER_ERR_INVALID_ARGUMENT);
    options.struct_size = 4;
    assert_int_equal(stoker_dataset_builder_create(in_folder("x.bin"), &options, &builder, &err),
                     STOKER_ERR_UNSUPPORTED);
    assert_int_equal(fixture_entries(), 0);
}

static void test_data_larger_than_the_buffer(void **state)
{
    (void)state;
    enum { COUNT = STK_TOKEN_BUFFER_BYTES / 2 + 4321 };
    int64_t *wide = malloc(COUNT * sizeof *wide);
    uint16_t *narrow = malloc(COUNT * sizeof *narrow);
    assert_non_null(wide);
    assert_non_null(narrow);
    for (int i = 0; i < COUNT; i++) wide[i] = narrow[i] = (uint16_t)(i * 7);
    stoker_dataset_builder *builder = new_builder("l", STOKER_TOKEN_UINT16, false, false);
    stoker_error err = {0};
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(wide, 11), 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(wide, COUNT), 0, NULL), STOKER_OK);
    /* After a part of it went to the file it turns out not to fit. */
    wide[COUNT - 1] = -1;
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(wide, COUNT), 0, &err), STOKER_ERR_LIMIT);
    /* The type of the file goes there without a copy. */
    stoker_elements same = {narrow, COUNT, STOKER_TOKEN_UINT16};
    assert_int_equal(stoker_dataset_builder_add_item(builder, same, 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(wide, 3), 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_end_document(builder, NULL), STOKER_OK);
    finish(builder, "l");
    stoker_dataset *dataset = NULL;
    assert_int_equal(stoker_dataset_open(in_folder("l"), NULL, &dataset, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_verify(dataset, NULL, NULL), STOKER_OK);
    stoker_dataset_facts facts;
    stoker_dataset_get_facts(dataset, &facts);
    assert_int_equal(facts.sequences, 4);
    const uint8_t *data = facts.bin;
    assert_memory_equal(data, narrow, 22);
    assert_memory_equal(data + 22, narrow, COUNT * 2);
    assert_memory_equal(data + 22 + COUNT * 2, narrow, COUNT * 2);
    assert_memory_equal(data + 22 + COUNT * 4, narrow, 6);
    stoker_dataset_close(dataset);
    free(wide);
    free(narrow);
}

static void test_a_builder_that_is_dropped_or_killed_leaves_nothing(void **state)
{
    (void)state;
    stoker_dataset_builder *builder = new_builder("d", 0, false, false);
    stoker_dataset_builder_destroy(builder);
    assert_int_equal(fixture_entries(), 0);
    pid_t child = fork();
    if (child == 0) {
        builder = new_builder("d", STOKER_TOKEN_UINT16, false, false);
        add_three(builder);
        unsigned named = fixture_entries();
        if (named > 0) _exit(77); /* no O_TMPFILE here */
        (void)raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) STK_SKIP("no O_TMPFILE here");
    assert_true(WIFSIGNALED(status));
    assert_int_equal(fixture_entries(), 0);
}

/* 31 million documents of one sequence: 12 bytes each are 355 MiB. */
static void test_a_tiny_document_costs_twelve_bytes(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    static const int64_t token[] = {7};
    static const int32_t one[] = {1};
    stoker_dataset_builder *builder = new_builder("t", 0, false, false);
    uint64_t before = allocations_count();
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(stoker_dataset_builder_add_document(builder, int64s(token, 1), one, 1, NULL, NULL), STOKER_OK);
    size_t chunks = builder->lengths.chunk_count + builder->documents.chunk_count + builder->modes.chunk_count;
    assert_true(chunks * STK_TOKEN_CHUNK_BYTES <= (size_t)COUNT * 12 + 2 * STK_TOKEN_CHUNK_BYTES);
    assert_true(allocations_count() - before <= 2 * chunks);
    stoker_dataset_builder_destroy(builder);
}

static void test_fault_each_allocation_fails_cleanly(void **state)
{
    (void)state;
    int failed = 1, rounds = 0;
    for (uint64_t n = 1; failed; n++, rounds++) {
        stoker_dataset_builder *builder = NULL;
        stoker_error err = {0};
        static const int64_t tokens[] = {1, 2};
        static const int32_t lengths[] = {1, 1};
        char bin_path[300], idx_path[300];
        (void)snprintf(bin_path, sizeof bin_path, "%s", in_folder("f.bin"));
        (void)snprintf(idx_path, sizeof idx_path, "%s", in_folder("f.idx"));
        stoker_dataset_builder_options options = STOKER_DATASET_BUILDER_OPTIONS_INIT;
        options.multimodal = 1;
        allocations_fail(n);
        stoker_status status = stoker_dataset_builder_create(bin_path, &options, &builder, &err);
        if (status == STOKER_OK)
            status = stoker_dataset_builder_add_document(builder, int64s(tokens, 2), lengths, 2, NULL, &err);
        if (status == STOKER_OK) status = stoker_dataset_builder_add_item(builder, int64s(tokens, 2), 0, &err);
        if (status == STOKER_OK) status = stoker_dataset_builder_end_document(builder, &err);
        if (status == STOKER_OK) status = stoker_dataset_builder_finalize(builder, idx_path, &err);
        failed = allocations_failed();
        allocations_fail(0);
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        stoker_dataset_builder_destroy(builder);
        assert_int_equal(fixture_entries(), failed ? 0 : 2);
    }
    assert_true(rounds >= 8);
}

static void test_fault_a_full_disk_keeps_what_was_added(void **state)
{
    (void)state;
    enum { COUNT = STK_TOKEN_BUFFER_BYTES / 2 };
    static int64_t zeros[COUNT];
    stoker_dataset_builder *builder = new_builder("n", STOKER_TOKEN_UINT16, false, false);
    stoker_error err = {0};
    add_three(builder);
    for (int after = 0; after < 3; after++) {
        write_error = ENOSPC, writes_until_error = after;
        assert_int_equal(stoker_dataset_builder_add_item(builder, int64s(zeros, COUNT), 0, &err), STOKER_ERR_NO_SPACE);
        write_error = 0;
    }
    assert_int_equal(builder->lengths.count, 3);
    finish(builder, "n");
    expect_files("n", &fixture_three, fixture_tokens, sizeof fixture_tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_items_and_documents),
        FIXTURE_TEST(test_documents_of_sequences_with_modes),
        FIXTURE_TEST(test_nothing_added),
        FIXTURE_TEST(test_values_that_do_not_fit_name_document_and_position),
        FIXTURE_TEST(test_wrapping_when_asked_for),
        FIXTURE_TEST(test_arguments_are_checked),
        FIXTURE_TEST(test_data_larger_than_the_buffer),
        FIXTURE_TEST(test_a_builder_that_is_dropped_or_killed_leaves_nothing),
        FIXTURE_TEST(test_a_tiny_document_costs_twelve_bytes),
        FIXTURE_TEST(test_fault_each_allocation_fails_cleanly),
        FIXTURE_TEST(test_fault_a_full_disk_keeps_what_was_added),
    };
    return stk_run_tests(tests);
}
