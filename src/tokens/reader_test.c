/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/reader_internal.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "sys/thread.h"
#include "tests/support/allocations.h"
#include "tokens/files_fixture.h"

static stoker_dataset_options options_of(stoker_dataset_access access, bool unchecked)
{
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    options.access = access;
    options.unchecked = unchecked;
    options.open_retries = -1;
    return options;
}

static stoker_dataset *open_three(stoker_dataset_access access, bool unchecked)
{
    stoker_dataset_options options = options_of(access, unchecked);
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    const char *prefix = fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_OK);
    assert_int_equal(err.status, STOKER_OK);
    return dataset;
}

static void expect_run(const stoker_dataset *dataset, stoker_dataset_run run, uint64_t first_token)
{
    uint16_t own[13];
    int64_t whole[13];
    assert_int_equal(stoker_dataset_read(dataset, run, own, NULL), STOKER_OK);
    assert_memory_equal(own, fixture_tokens + first_token, run.count * sizeof own[0]);
    assert_int_equal(stoker_dataset_read_int64(dataset, run, whole, NULL), STOKER_OK);
    for (uint64_t i = 0; i < run.count; i++) assert_int_equal(whole[i], fixture_tokens[first_token + i]);
}

/* Every way to open. */
#define FOR_EACH_WAY(access, unchecked)                                                                                \
    for (int access = STOKER_DATASET_MMAP; access <= STOKER_DATASET_FILE; access++)                                    \
        for (int unchecked = 0; unchecked < 2; unchecked++)

static void test_reads_are_those_of_the_reference(void **state)
{
    (void)state;
    FOR_EACH_WAY(access, unchecked)
    {
        stoker_dataset *dataset = open_three((stoker_dataset_access)access, unchecked != 0);
        stoker_dataset_facts facts;
        stoker_dataset_get_facts(dataset, &facts);
        assert_int_equal(facts.sequences, 3);
        assert_int_equal(facts.document_entries, 3);
        assert_int_equal(facts.dtype_code, 8);
        assert_int_equal(facts.bin_bytes, unchecked ? 0 : 26);
        assert_memory_equal(facts.lengths, fixture_lengths, sizeof fixture_lengths);
        assert_memory_equal(facts.documents, fixture_documents, sizeof fixture_documents);
        assert_null(facts.modes);
        expect_run(dataset, (stoker_dataset_run){0, 0, 5}, 0);
        expect_run(dataset, (stoker_dataset_run){0, 2, 2}, 2);
        expect_run(dataset, (stoker_dataset_run){2, 0, 7}, 6);
        expect_run(dataset, (stoker_dataset_run){2, 7, 0}, 12);
        expect_run(dataset, (stoker_dataset_run){0, 4, 3}, 4); /* on into the next sequences, as the reference */
        expect_run(dataset, (stoker_dataset_run){0, 0, 13}, 0);
        stoker_dataset_get_facts(dataset, &facts);
        assert_int_equal(facts.bin != NULL, access == STOKER_DATASET_MMAP);
        stoker_dataset_close(dataset);
    }
}

static void test_reads_past_the_end_are_errors(void **state)
{
    (void)state;
    static const stoker_dataset_run runs[] = {
        {2, 0, 8},
        {2, 8, 0},
        {0, 14, 1},
        {0, 0, UINT64_MAX},
        {0, UINT64_MAX, 1},
        {2, 1, UINT64_MAX / 2},
        {1, UINT64_MAX / 2, 2},
    };
    FOR_EACH_WAY(access, unchecked)
    {
        stoker_dataset *dataset = open_three((stoker_dataset_access)access, unchecked != 0);
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            if (runs[i].count == 0 && access == STOKER_DATASET_FILE && unchecked) continue; /* nothing is read at all */
            uint16_t own[16];
            int64_t whole[16];
            stoker_error err = {0};
            assert_int_equal(stoker_dataset_read(dataset, runs[i], own, &err), STOKER_ERR_CORRUPT);
            assert_non_null(strstr(err.message, "three.bin"));
            assert_int_equal(stoker_dataset_read_int64(dataset, runs[i], whole, &err), STOKER_ERR_CORRUPT);
        }
        stoker_error err = {0};
        uint16_t none;
        assert_int_equal(stoker_dataset_read(dataset, (stoker_dataset_run){3, 0, 0}, &none, &err),
                         STOKER_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "sequence 3"));
        stoker_dataset_close(dataset);
    }
}

static void test_every_type_is_read(void **state)
{
    (void)state;
    for (int code = 1; code <= 8; code++) FOR_EACH_WAY(access, unchecked)
        {
            static const int32_t lengths[] = {3};
            static const int64_t documents[] = {0, 1};
            static const uint8_t ones[] = {1, 1, 1}, signs[] = {0xFF, 2, 3};
            static const int16_t shorts[] = {-1, 2, 3};
            static const int32_t ints[] = {-1, 2, 3};
            static const int64_t longs[] = {-1, 2, 3};
            static const double reals[] = {-1.5, 2.5, 3};
            static const float singles[] = {-1.5F, 2.5F, 3};
            static const uint16_t unsigneds[] = {65535, 2, 3};
            const void *const data[] = {NULL, ones, signs, shorts, ints, longs, reals, singles, unsigneds};
            static const int64_t first[] = {0, 1, -1, -1, -1, -1, -1, -1, 65535};
            struct fixture_index index = {code, 1, 2, lengths, NULL, documents, NULL};
            stoker_dataset_options options = options_of((stoker_dataset_access)access, unchecked != 0);
            stoker_dataset *dataset = NULL;
            size_t size = stoker_token_dtype_size(code) * 3;
            const char *prefix = fixture_write("t", &index, data[code], size);
            assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, NULL), STOKER_OK);
            uint8_t own[24];
            int64_t whole[3];
            assert_int_equal(stoker_dataset_read(dataset, (stoker_dataset_run){0, 0, 3}, own, NULL), STOKER_OK);
            assert_memory_equal(own, data[code], size);
            assert_int_equal(stoker_dataset_read_int64(dataset, (stoker_dataset_run){0, 0, 3}, whole, NULL), STOKER_OK);
            assert_int_equal(whole[0], first[code]);
            assert_int_equal(whole[2], code == 1 ? 1 : 3);
            stoker_dataset_close(dataset);
        }
}

static void test_offsets_are_read_as_stored(void **state)
{
    (void)state;
    static const int64_t offsets[] = {16, 0, 2};
    struct fixture_index index = fixture_three;
    index.offsets = offsets;
    stoker_dataset *dataset = NULL;
    uint64_t sequence = 7;
    stoker_error err = {0};
    const char *prefix = fixture_write("s", &index, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(stoker_dataset_open(prefix, NULL, &dataset, &err), STOKER_OK);
    expect_run(dataset, (stoker_dataset_run){0, 0, 5}, 8);
    expect_run(dataset, (stoker_dataset_run){1, 0, 1}, 0);
    assert_int_equal(stoker_dataset_verify(dataset, &sequence, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(sequence, 0);
    stoker_dataset_close(dataset);
}

static void test_modes_and_counts_that_are_given(void **state)
{
    (void)state;
    static const int8_t modes[] = {0, -3, 5};
    struct fixture_index index = fixture_three;
    index.modes = modes;
    stoker_dataset_options options = options_of(STOKER_DATASET_MMAP, true);
    stoker_dataset *dataset = NULL;
    stoker_dataset_facts facts;
    stoker_error err = {0};
    const char *prefix = fixture_write("m", &index, fixture_tokens, sizeof fixture_tokens);
    char path[300];
    (void)snprintf(path, sizeof path, "%s.idx", prefix);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "garbage where the header was....", 32, 0), 32);
    (void)close(fd);
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_CORRUPT);
    options.sequences = 3;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.document_entries = 3;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.dtype_code = 8;
    options.multimodal = 1;
    for (int unchecked = 0; unchecked < 2; unchecked++) {
        options.unchecked = unchecked;
        assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_OK);
        stoker_dataset_get_facts(dataset, &facts);
        assert_memory_equal(facts.modes, modes, 3);
        expect_run(dataset, (stoker_dataset_run){2, 0, 7}, 6);
        stoker_dataset_close(dataset);
    }
    options.sequences = UINT64_C(1) << 62;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_CORRUPT);
}

static void test_unchecked_looks_at_the_data_when_it_is_read(void **state)
{
    (void)state;
    stoker_dataset_options options = options_of(STOKER_DATASET_MMAP, true);
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    static const int64_t offsets[] = {0, -2, INT64_MAX};
    struct fixture_index index = fixture_three;
    index.offsets = offsets;
    const char *prefix = fixture_write("u", &index, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(unlink(in_folder("u.bin")), 0);
    uint16_t token;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_OK);
    assert_int_equal(stoker_dataset_read(dataset, (stoker_dataset_run){0, 0, 1}, &token, &err), STOKER_ERR_NOT_FOUND);
    write_bytes(in_folder("u.bin"), fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(stoker_dataset_read(dataset, (stoker_dataset_run){0, 0, 1}, &token, &err), STOKER_OK);
    assert_int_equal(stoker_dataset_read(dataset, (stoker_dataset_run){1, 1, 1}, &token, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stoker_dataset_read(dataset, (stoker_dataset_run){2, 0, 1}, &token, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "sequence 2"));
    stoker_dataset_close(dataset);
    options.unchecked = 0;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "sequence 1"));
}

static void test_empty_files_work(void **state)
{
    (void)state;
    static const int32_t lengths[] = {0, 0};
    static const int64_t zero[] = {0}, documents[] = {0, 2};
    struct fixture_index nothing = {4, 0, 1, NULL, NULL, zero, NULL},
                         empties = {4, 2, 2, lengths, NULL, documents, NULL};
    FOR_EACH_WAY(access, unchecked)
    {
        stoker_dataset_options options = options_of((stoker_dataset_access)access, unchecked != 0);
        stoker_dataset *dataset = NULL;
        int64_t none = 7;
        const char *prefix = fixture_write("e", &nothing, "", 0);
        assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, NULL), STOKER_OK);
        assert_int_equal(stoker_dataset_verify(dataset, NULL, NULL), STOKER_OK);
        stoker_dataset_close(dataset);
        prefix = fixture_write("z", &empties, "", 0);
        assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, NULL), STOKER_OK);
        assert_int_equal(stoker_dataset_read_int64(dataset, (stoker_dataset_run){1, 0, 0}, &none, NULL), STOKER_OK);
        assert_int_equal(none, 7);
        assert_int_equal(stoker_dataset_verify(dataset, NULL, NULL), STOKER_OK);
        stoker_dataset_close(dataset);
    }
}

static void test_a_cut_data_file_is_found_at_the_opening(void **state)
{
    (void)state;
    for (int access = STOKER_DATASET_MMAP; access <= STOKER_DATASET_FILE; access++) {
        stoker_dataset_options options = options_of((stoker_dataset_access)access, false);
        stoker_dataset *dataset = NULL;
        stoker_error err = {0};
        const char *prefix = fixture_write("c", &fixture_three, fixture_tokens, sizeof fixture_tokens - 1);
        assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_CORRUPT);
        assert_non_null(strstr(err.message, "ends at byte 25, inside sequence 2"));
        assert_null(dataset);
    }
}

static void test_options_and_missing_files(void **state)
{
    (void)state;
    stoker_dataset_options options = options_of(STOKER_DATASET_MMAP, false);
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    assert_int_equal(stoker_dataset_open(in_folder("no"), &options, &dataset, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no.idx"));
    const char *prefix = fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(unlink(in_folder("three.bin")), 0);
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "three.bin"));
    options.access = STOKER_DATASET_FILE;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_NOT_FOUND);
    options.access = (stoker_dataset_access)9;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.struct_size += 8;
    assert_int_equal(stoker_dataset_open(prefix, &options, &dataset, &err), STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_dataset_open(NULL, NULL, &dataset, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(mkdir(in_folder("d.idx"), 0700), 0);
    assert_int_equal(stoker_dataset_open(in_folder("d"), NULL, &dataset, &err), STOKER_ERR_UNSUPPORTED);
    stoker_dataset_close(NULL);
    assert_null(dataset);
}

static void test_verify_names_the_fault(void **state)
{
    (void)state;
    FOR_EACH_WAY(access, unchecked)
    {
        stoker_dataset *dataset = open_three((stoker_dataset_access)access, unchecked != 0);
        uint64_t sequence = 5;
        stoker_error err = {0};
        assert_int_equal(stoker_dataset_verify(dataset, &sequence, &err), STOKER_OK);
        assert_int_equal(sequence, 5);
        stoker_dataset_close(dataset);
    }
    stoker_dataset *dataset = NULL;
    uint64_t sequence = 5;
    stoker_error err = {0};
    static const uint16_t longer[14];
    assert_int_equal(
        stoker_dataset_open(fixture_write("l", &fixture_three, longer, sizeof longer), NULL, &dataset, &err),
        STOKER_OK);
    assert_int_equal(stoker_dataset_verify(dataset, &sequence, &err), STOKER_ERR_CORRUPT);
    assert_true(sequence == UINT64_MAX);
    assert_non_null(strstr(err.message, "has 28 bytes, but the sequences end at 26"));
    stoker_dataset_close(dataset);
}

static void test_references_keep_it_open(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_three(STOKER_DATASET_MMAP, false);
    assert_ptr_equal(stoker_dataset_ref(dataset), dataset);
    stoker_dataset_close(dataset);
    expect_run(dataset, (stoker_dataset_run){2, 0, 7}, 6);
    stoker_dataset_close(dataset);
}

static void test_a_forked_child_reads_on(void **state)
{
    (void)state;
    FOR_EACH_WAY(access, unchecked)
    {
        stoker_dataset *dataset = open_three((stoker_dataset_access)access, unchecked != 0);
        pid_t child = fork();
        if (child == 0) {
            int64_t tokens[7];
            bool good = stoker_dataset_read_int64(dataset, (stoker_dataset_run){2, 0, 7}, tokens, NULL) == STOKER_OK &&
                        tokens[6] == fixture_tokens[12];
            stoker_dataset_close(dataset);
            _exit(good ? 0 : 1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        expect_run(dataset, (stoker_dataset_run){2, 0, 7}, 6);
        stoker_dataset_close(dataset);
    }
}

enum { THREADS = 4, ROUNDS = 200 };

static void read_much(void *argument)
{
    stoker_dataset *dataset = argument;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t tokens[13] = {0};
        if (stoker_dataset_read_int64(dataset, (stoker_dataset_run){0, 0, 13}, tokens, NULL) != STOKER_OK ||
            tokens[12] != fixture_tokens[12])
            abort();
    }
    stoker_dataset_close(dataset);
}

static void test_threads_open_the_data_together(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        stoker_dataset *dataset = open_three(round % 2 ? STOKER_DATASET_FILE : STOKER_DATASET_MMAP, true);
        struct stk_thread *threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(stk_thread_start("reader", read_much, stoker_dataset_ref(dataset), &threads[i], NULL),
                             STOKER_OK);
        for (int i = 0; i < THREADS; i++) stk_thread_join(threads[i]);
        stoker_dataset_close(dataset);
    }
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* 32,766 is the most that a blend may have; 10,000 is what users have. A small index costs no mapping. */
static void test_many_datasets_with_few_descriptors(void **state)
{
    (void)state;
    enum { MANY = 32766 };
    struct rlimit old, few = {256, 256};
    stoker_dataset **datasets = calloc(MANY, sizeof *datasets);
    assert_non_null(datasets);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    unsigned before = open_descriptors();
    const char *prefix = fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    for (int i = 0; i < MANY; i++) {
        stoker_error err = {0};
        stoker_dataset_options options = options_of(STOKER_DATASET_MMAP, i % 2 == 1);
        assert_int_equal(stoker_dataset_open(prefix, &options, &datasets[i], &err), STOKER_OK);
    }
    for (int i = 0; i < MANY; i++) expect_run(datasets[i], (stoker_dataset_run){2, 0, 7}, 6);
    assert_int_equal(open_descriptors(), before);
    for (int i = 0; i < MANY; i++) stoker_dataset_close(datasets[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    free(datasets);
}

static void test_fault_each_allocation_fails_cleanly(void **state)
{
    (void)state;
    const char *prefix = fixture_write("three", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    FOR_EACH_WAY(access, unchecked)
    {
        stoker_dataset_options options = options_of((stoker_dataset_access)access, unchecked != 0);
        int failed = 1, rounds = 0;
        for (uint64_t n = 1; failed; n++, rounds++) {
            stoker_dataset *dataset = NULL;
            stoker_error err = {0};
            uint16_t tokens[7];
            allocations_fail(n);
            stoker_status status = stoker_dataset_open(prefix, &options, &dataset, &err);
            if (status == STOKER_OK) status = stoker_dataset_read(dataset, (stoker_dataset_run){2, 0, 7}, tokens, &err);
            failed = allocations_failed();
            allocations_fail(0);
            assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
            assert_int_equal(err.message[0] != 0, failed);
            stoker_dataset_close(dataset);
        }
        assert_true(rounds >= 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_reads_are_those_of_the_reference),
        FIXTURE_TEST(test_reads_past_the_end_are_errors),
        FIXTURE_TEST(test_every_type_is_read),
        FIXTURE_TEST(test_offsets_are_read_as_stored),
        FIXTURE_TEST(test_modes_and_counts_that_are_given),
        FIXTURE_TEST(test_unchecked_looks_at_the_data_when_it_is_read),
        FIXTURE_TEST(test_empty_files_work),
        FIXTURE_TEST(test_a_cut_data_file_is_found_at_the_opening),
        FIXTURE_TEST(test_options_and_missing_files),
        FIXTURE_TEST(test_verify_names_the_fault),
        FIXTURE_TEST(test_references_keep_it_open),
        FIXTURE_TEST(test_a_forked_child_reads_on),
        FIXTURE_TEST(test_threads_open_the_data_together),
        FIXTURE_TEST(test_many_datasets_with_few_descriptors),
        FIXTURE_TEST(test_fault_each_allocation_fails_cleanly),
    };
    return stk_run_tests(tests);
}
