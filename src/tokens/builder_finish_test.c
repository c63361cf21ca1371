/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/builder_internal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/leftover.h"
#include "tokens/builder_fixture.h"

ssize_t __real_pwrite64(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
static int write_fails_at, fsync_fails_at, rename_fails_at; /* the n-th call from now on, 0: none */

ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    if (write_fails_at > 0 && --write_fails_at == 0) return errno = ENOSPC, -1;
    return __real_pwrite64(fd, data, size, offset);
}

int __wrap_fsync(int fd)
{
    if (fsync_fails_at > 0 && --fsync_fails_at == 0) return errno = EIO, -1;
    return __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    if (rename_fails_at > 0 && --rename_fails_at == 0) return errno = EIO, -1;
    return __real_rename(from, to);
}

static stoker_dataset_builder *builder_of_three(const char *name)
{
    static const int32_t first[] = {5, 1}, second[] = {7};
    stoker_dataset_builder *builder = new_builder(name, STOKER_TOKEN_UINT16, false, false);
    stoker_elements one = {fixture_tokens, 6, STOKER_TOKEN_UINT16}, two = {fixture_tokens + 6, 7, STOKER_TOKEN_UINT16};
    assert_int_equal(stoker_dataset_builder_add_document(builder, one, first, 2, NULL, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_document(builder, two, second, 1, NULL, NULL), STOKER_OK);
    return builder;
}

static void test_a_dataset_takes_the_place_of_another(void **state)
{
    (void)state;
    static const int64_t zero[] = {0};
    struct fixture_index empty = {STOKER_TOKEN_INT32, 0, 1, NULL, NULL, zero, NULL};
    (void)fixture_write("a", &empty, "", 0);
    stoker_dataset *old = NULL;
    assert_int_equal(stoker_dataset_open(in_folder("a"), NULL, &old, NULL), STOKER_OK);
    finish(builder_of_three("a"), "a");
    expect_files("a", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(fixture_entries(), 2);
    assert_int_equal(stoker_dataset_verify(old, NULL, NULL), STOKER_OK); /* who has it open keeps what it was */
    stoker_dataset_close(old);
}

static void test_an_unsynced_dataset_waits_for_no_disk(void **state)
{
    (void)state;
    static const int32_t lengths[] = {5, 1, 7};
    stoker_dataset_builder_options options = STOKER_DATASET_BUILDER_OPTIONS_INIT;
    stoker_dataset_builder *builder = NULL;
    stoker_elements all = {fixture_tokens, 13, STOKER_TOKEN_UINT16};
    options.dtype_code = STOKER_TOKEN_UINT16;
    options.unsynced = 1;
    fsync_fails_at = 1; /* none is called */
    assert_int_equal(stoker_dataset_builder_create(in_folder("quick.bin"), &options, &builder, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_add_document(builder, all, lengths, 3, NULL, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_finalize(builder, in_folder("quick.idx"), NULL), STOKER_OK);
    assert_int_equal(fsync_fails_at, 1);
    fsync_fails_at = 0;
    stoker_dataset_builder_destroy(builder);
    stoker_dataset *dataset = NULL;
    assert_int_equal(stoker_dataset_open(in_folder("quick"), NULL, &dataset, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_verify(dataset, NULL, NULL), STOKER_OK);
    stoker_dataset_close(dataset);
}

static void test_sequences_without_a_document_are_refused(void **state)
{
    (void)state;
    stoker_error err = {0};
    stoker_dataset_builder *builder = builder_of_three("t");
    stoker_elements one = {fixture_tokens, 1, STOKER_TOKEN_UINT16};
    for (int i = 0; i < 2; i++) assert_int_equal(stoker_dataset_builder_add_item(builder, one, 0, NULL), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_finalize(builder, in_folder("t.idx"), &err), STOKER_ERR_WRONG_STATE);
    assert_non_null(strstr(err.message, "2 sequences"));
    assert_int_equal(stoker_dataset_builder_end_document(builder, &err), STOKER_OK); /* the way out */
    assert_int_equal(stoker_dataset_builder_finalize(builder, in_folder("t.idx"), &err), STOKER_OK);
    assert_int_equal(stoker_dataset_builder_end_document(builder, &err), STOKER_ERR_WRONG_STATE);
    assert_int_equal(stoker_dataset_builder_add_item(builder, one, 0, &err), STOKER_ERR_WRONG_STATE);
    assert_int_equal(stoker_dataset_builder_add_index(builder, in_folder("t"), &err), STOKER_ERR_WRONG_STATE);
    assert_int_equal(stoker_dataset_builder_finalize(builder, in_folder("t.idx"), &err), STOKER_ERR_WRONG_STATE);
    stoker_dataset_builder_destroy(builder);
}

static void test_names_that_cannot_be(void **state)
{
    (void)state;
    stoker_error err = {0};
    stoker_dataset_builder *builder = builder_of_three("x");
    assert_int_equal(stoker_dataset_builder_finalize(builder, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataset_builder_finalize(builder, builder->bin.path, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataset_builder_finalize(builder, in_folder("no/x.idx"), &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(fixture_entries(), 0);
    assert_int_equal(mkdir(in_folder("d"), 0700), 0); /* a folder keeps its name, whichever of the two it has */
    assert_int_equal(mkdir(in_folder("d/in"), 0700), 0);
    assert_int_equal(stoker_dataset_builder_finalize(builder, in_folder("d"), &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "a folder has this name"));
    assert_int_equal(mkdir(builder->bin.path, 0700), 0); /* since the builder was made */
    assert_int_equal(stoker_dataset_builder_finalize(builder, in_folder("x.idx"), &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(rmdir(builder->bin.path), 0);
    assert_int_equal(rmdir(in_folder("d/in")), 0);
    assert_int_equal(rmdir(in_folder("d")), 0);
    assert_int_equal(fixture_entries(), 0);
    finish(builder, "x");
    expect_files("x", &fixture_three, fixture_tokens, sizeof fixture_tokens);
}

/* Whatever fails, on both sides of it stands a whole dataset or none: the old one if there was one. */
static void expect_old_or_new(int *fault, bool old_there)
{
    static const int64_t zero[] = {0};
    struct fixture_index empty = {STOKER_TOKEN_INT32, 0, 1, NULL, NULL, zero, NULL};
    int failures = 0;
    for (int n = 1; n < 30; n++) {
        stoker_error err = {0};
        (void)unlink(in_folder("f.idx"));
        (void)unlink(in_folder("f.bin"));
        if (old_there) (void)fixture_write("f", &empty, "", 0);
        stoker_dataset_builder *builder = builder_of_three("f");
        *fault = n;
        stoker_status status = stoker_dataset_builder_finalize(builder, in_folder("f.idx"), &err);
        bool reached = *fault == 0;
        *fault = 0;
        stoker_dataset_builder_destroy(builder);
        if (status == STOKER_OK) {
            assert_false(reached && failures == 0);
            expect_files("f", &fixture_three, fixture_tokens, sizeof fixture_tokens);
            if (!reached) break;
            continue; /* a fault that changes nothing */
        }
        failures++;
        assert_true(err.message[0] != 0);
        assert_int_equal(fixture_entries(), old_there ? 2 : 0);
        if (old_there) expect_files("f", &empty, "", 0);
    }
    assert_true(failures >= (fault == &rename_fails_at && !old_there ? 0 : 2));
}

/* What a builder that was killed in the middle of finalize leaves. */
static void leave(const char *name, const char *ending)
{
    char *path = stk_leftover_name(in_folder(name), ending);
    assert_non_null(path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    free(path);
}

static void test_leftovers_of_killed_builders_are_removed(void **state)
{
    (void)state;
    leave("k.bin", STK_ENDING_PART);
    leave("k.idx", STK_ENDING_PART);
    leave("k.bin", STK_ENDING_OLD);
    leave("k.idx", STK_ENDING_OLD);
    leave("other.bin", STK_ENDING_OLD);
    stoker_dataset_builder *builder = builder_of_three("k");
    assert_int_equal(fixture_entries(), 4); /* old data stay as long as there is nothing new */
    finish(builder, "k");
    assert_int_equal(fixture_entries(), 3);
    expect_files("k", &fixture_three, fixture_tokens, sizeof fixture_tokens);
}

static void test_a_forked_child_cannot_write(void **state)
{
    (void)state;
    stoker_dataset_builder *builder = builder_of_three("p");
    pid_t child = fork();
    if (child == 0) {
        const stoker_elements one = {fixture_tokens, 1, STOKER_TOKEN_UINT8};
        bool refused = stoker_dataset_builder_add_item(builder, one, 0, NULL) == STOKER_ERR_WRONG_STATE &&
                       stoker_dataset_builder_finalize(builder, in_folder("p.idx"), NULL) == STOKER_ERR_WRONG_STATE;
        stoker_dataset_builder_destroy(builder);
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    finish(builder, "p");
    expect_files("p", &fixture_three, fixture_tokens, sizeof fixture_tokens);
    assert_int_equal(fixture_entries(), 2);
}

static void test_fault_writes(void **state)
{
    (void)state;
    expect_old_or_new(&write_fails_at, false);
    expect_old_or_new(&write_fails_at, true);
}

static void test_fault_syncs(void **state)
{
    (void)state;
    expect_old_or_new(&fsync_fails_at, false);
    expect_old_or_new(&fsync_fails_at, true);
}

static void test_fault_renames(void **state)
{
    (void)state;
    expect_old_or_new(&rename_fails_at, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_a_dataset_takes_the_place_of_another),
        FIXTURE_TEST(test_an_unsynced_dataset_waits_for_no_disk),
        FIXTURE_TEST(test_sequences_without_a_document_are_refused),
        FIXTURE_TEST(test_names_that_cannot_be),
        FIXTURE_TEST(test_leftovers_of_killed_builders_are_removed),
        FIXTURE_TEST(test_a_forked_child_cannot_write),
        FIXTURE_TEST(test_fault_writes),
        FIXTURE_TEST(test_fault_syncs),
        FIXTURE_TEST(test_fault_renames),
    };
    return stk_run_tests(tests);
}
