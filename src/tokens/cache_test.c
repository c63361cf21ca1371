/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved sets of arrays: loaded when whole, built by one of many, mended when damaged, never half-written. The program
 * wraps posix_fallocate(), pwrite() and fsync() to play a full or broken disk.
 */
#include "tokens/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "sys/leftover.h"
#include "sys/publish.h"
#include "tests/support/allocations.h"
#include "tests/support/unit.h"

/* ---------------------------------------------------------------------------------------------------- a broken disk */

static int fail_reserve, fail_write, fail_sync; /* which call from now on fails; 0: none */

int __real_posix_fallocate64(int fd, off_t offset, off_t size);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t size);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t size)
{
    if (fail_reserve > 0 && --fail_reserve == 0) return ENOSPC;
    return __real_posix_fallocate64(fd, offset, size);
}

ssize_t __real_pwrite64(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    if (fail_write > 0 && --fail_write == 0) {
        errno = ENOSPC;
        return -1;
    }
    return __real_pwrite64(fd, data, size, offset);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    if (fail_sync > 0 && --fail_sync == 0) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

/* ------------------------------------------------------------------------------------------------------------ a set */

enum { ROWS = 1000, LARGE_ROWS = 40000 };

struct made {
    uint64_t rows;
    int built, fails;
    const char *count_in;   /* file that each build grows by a byte */
    void (*in_build)(void); /* called in the middle */
};

static stoker_status build(void *user, void *const *data, const struct stk_cache_site *site, stoker_error *err)
{
    struct made *made = user;
    (void)err;
    int32_t *first = data[0];
    int64_t *second = data[1];
    if (made->count_in) {
        int fd = open(made->count_in, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd < 0 || write(fd, "x", 1) != 1) abort();
        (void)close(fd);
    }
    for (uint64_t i = 0; i < made->rows; i++) first[i] = (int32_t)i;
    site->settled(site, 0, 0, made->rows * sizeof *first, true);
    site->settled(site, 0, 0, made->rows * sizeof *first, false); /* it must be there all the same */
    if (made->in_build) made->in_build();
    for (uint64_t i = 0; i < 2 * made->rows; i++) second[i] = (int64_t)(3 * i);
    if (made->rows) site->settled(site, 1, 8, made->rows * sizeof *second, false);
    made->built++;
    if (!made->fails) return STOKER_OK;
    if (err) err->status = STOKER_ERR_INVALID_ARGUMENT;
    return STOKER_ERR_INVALID_ARGUMENT;
}

static stoker_status check(void *user, const struct stk_npy *arrays, stoker_error *err)
{
    (void)user;
    const int32_t *first = arrays[0].array.data;
    if (arrays[0].array.rows == 0 || first[0] == 0) return STOKER_OK;
    if (err) (void)snprintf(err->message, sizeof err->message, "first row is %d", first[0]);
    return STOKER_ERR_CORRUPT;
}

static struct stk_cache_plan plan_of(struct made *made)
{
    return (struct stk_cache_plan){
        .count = 2,
        .known = true,
        .arrays = {{"one", STOKER_INDEX_INT32, made->rows, 1}, {"two", STOKER_INDEX_INT64, made->rows, 2}},
        .user = made,
        .build = build,
        .check = check};
}

struct place {
    char root[64], folder[96], one[160], two[160], description[160], lock[160];
    stoker_index_cache cache;
};

static void make_place(struct place *place)
{
    (void)snprintf(place->root, sizeof place->root, "/tmp/stoker-cache-XXXXXX");
    assert_non_null(mkdtemp(place->root));
    (void)snprintf(place->folder, sizeof place->folder, "%s/deep/er", place->root);
    (void)snprintf(place->one, sizeof place->one, "%s/stem-one.npy", place->folder);
    (void)snprintf(place->two, sizeof place->two, "%s/stem-two.npy", place->folder);
    (void)snprintf(place->description, sizeof place->description, "%s/stem-description.txt", place->folder);
    (void)snprintf(place->lock, sizeof place->lock, "%s/.stem.lock", place->folder);
    place->cache = (stoker_index_cache){place->folder, "stem", "what it is", 0, 1, 0};
}

static int count_files(const char *folder, bool remove)
{
    int count = 0;
    DIR *entries = opendir(folder);
    if (!entries) return 0;
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        count++;
        if (remove) assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(closedir(entries), 0);
    return count;
}

static void drop_place(struct place *place)
{
    char middle[96];
    (void)snprintf(middle, sizeof middle, "%s/deep", place->root);
    (void)chmod(place->folder, 0700);
    (void)count_files(place->folder, true);
    (void)rmdir(place->folder);
    (void)rmdir(middle);
    (void)count_files(place->root, true);
    assert_int_equal(rmdir(place->root), 0);
}

static stoker_status open_set(const struct place *place, struct made *made, bool *out_built, stoker_error *err)
{
    struct stk_npy arrays[2] = {{{0}, NULL, 0, false}};
    struct stk_cache_plan plan = plan_of(made);
    stoker_status status = stk_cache_open(&place->cache, &plan, arrays, out_built, err);
    if (status != STOKER_OK) return status;
    assert_int_equal(arrays[0].array.rows, made->rows);
    assert_int_equal(arrays[1].array.columns, 2);
    for (uint64_t i = 0; i < made->rows; i++) {
        assert_int_equal(((const int32_t *)arrays[0].array.data)[i], i);
        assert_int_equal(((const int64_t *)arrays[1].array.data)[2 * i], 6 * i);
    }
    stk_npy_close(&arrays[0]);
    stk_npy_close(&arrays[1]);
    return status;
}

static void expect(const struct place *place, struct made *made, bool built)
{
    stoker_error err = {0};
    bool got = !built;
    stoker_status status = open_set(place, made, &got, &err);
    if (status != STOKER_OK) fail_msg("%s: %s", err.context, err.message);
    assert_int_equal(got, built);
}

/* ------------------------------------------------------------------------------------------------------------ tests */

static void test_built_once_then_loaded(void **state)
{
    (void)state;
    struct place place;
    struct stat facts;
    make_place(&place);
    for (uint64_t rows = 0; rows <= LARGE_ROWS; rows = rows ? rows * 40 : ROWS) {
        struct made made = {.rows = rows};
        expect(&place, &made, true);
        expect(&place, &made, false);
        assert_int_equal(made.built, 1);
        assert_int_equal(stat(place.one, &facts), 0);
        assert_int_equal(facts.st_size, 128 + 4 * rows);
        assert_int_equal(stat(place.two, &facts), 0);
        assert_int_equal(facts.st_size, 128 + 16 * rows);
        assert_int_equal(stat(place.description, &facts), 0);
        assert_int_equal(facts.st_size, 10);
        assert_int_equal(count_files(place.folder, true), 4);
    }
    drop_place(&place);
}

static void test_memory_without_a_folder(void **state)
{
    (void)state;
    struct place place = {.cache = {0}};
    struct made small = {.rows = 10}, large = {.rows = LARGE_ROWS}, failing = {.rows = LARGE_ROWS, .fails = 1};
    bool built;
    expect(&place, &small, true);
    expect(&place, &large, true);
    assert_int_equal(open_set(&place, &failing, &built, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

static void damage(const char *path, off_t at, const char *bytes)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    if (bytes)
        assert_int_equal(pwrite(fd, bytes, strlen(bytes), at), strlen(bytes));
    else
        assert_int_equal(ftruncate(fd, at), 0);
    assert_int_equal(close(fd), 0);
}

static void test_damaged_sets_are_built_again(void **state)
{
    (void)state;
    struct place place;
    struct made made = {.rows = ROWS}, other = {.rows = ROWS + 1};
    make_place(&place);
    expect(&place, &made, true);
    damage(place.one, 4000, NULL); /* cut */
    expect(&place, &made, true);
    damage(place.two, 200000, NULL); /* grown */
    expect(&place, &made, true);
    damage(place.two, 0, NULL);
    expect(&place, &made, true);
    damage(place.one, 10, "[");
    expect(&place, &made, true);
    damage(place.one, 128, "\x01");
    expect(&place, &made, true);
    damage(place.description, 3, NULL);
    expect(&place, &made, true);
    const char *const paths[] = {place.one, place.two, place.description};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(unlink(paths[i]), 0);
        expect(&place, &made, true);
    }
    expect(&place, &other, true); /* the plan says another shape */
    expect(&place, &other, false);
    drop_place(&place);
}

static void test_parts_of_killed_builders_are_removed(void **state)
{
    (void)state;
    struct place place;
    struct made made = {.rows = ROWS};
    make_place(&place);
    expect(&place, &made, true);
    char *part = stk_leftover_name(place.two, STK_ENDING_PART), *other = stk_leftover_name("x/y", STK_ENDING_PART);
    char foreign[256];
    assert_non_null(part);
    assert_non_null(other);
    (void)snprintf(foreign, sizeof foreign, "%s/%s", place.folder, other + 2);
    (void)close(open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    (void)close(open(foreign, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    expect(&place, &made, false); /* whoever only loads looks for nothing */
    assert_int_equal(access(part, F_OK), 0);
    assert_int_equal(unlink(place.one), 0);
    expect(&place, &made, true);
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(access(foreign, F_OK), 0);
    free(part);
    free(other);
    drop_place(&place);
}

static void test_assumed_hits_look_for_nothing(void **state)
{
    (void)state;
    struct place place;
    struct made made = {.rows = ROWS};
    bool built = false;
    stoker_error err;
    make_place(&place);
    place.cache.assume_hit = 1;
    assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "stem-one.npy"));
    place.cache.assume_hit = 0;
    expect(&place, &made, true);
    place.cache.assume_hit = 1;
    assert_int_equal(unlink(place.description), 0);
    expect(&place, &made, false);
    damage(place.one, 4000, NULL);
    assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.context, "stem-one.npy"));
    assert_int_equal(made.built, 1);
    drop_place(&place);
}

static void test_stems_are_names(void **state)
{
    (void)state;
    struct place place;
    struct made made = {.rows = 1};
    bool built;
    stoker_error err;
    make_place(&place);
    static const char *const bad[] = {NULL, "", "a/b"};
    for (int i = 0; i < 3; i++) {
        place.cache.stem = bad[i];
        assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_INVALID_ARGUMENT);
    }
    drop_place(&place);
}

static void test_a_process_that_may_not_build(void **state)
{
    (void)state;
    struct place place;
    struct made made = {.rows = ROWS};
    struct stk_file_lock *held = NULL;
    bool built;
    stoker_error err;
    make_place(&place);
    place.cache.may_build = 0;
    assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "may not build"));
    assert_int_equal(count_files(place.root, false), 0); /* nothing was written */
    assert_int_equal(stk_make_folders(place.folder, &err), STOKER_OK);
    assert_int_equal(stk_file_lock_acquire(place.lock, 0, &held, &err), STOKER_OK);
    place.cache.wait_ns = 20000000; /* a builder that does not end in time */
    assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, ".stem.lock"));
    place.cache.may_build = 1;
    assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_TIMEOUT);
    stk_file_lock_release(held);
    place.cache.may_build = 0;
    place.cache.wait_ns = 0;
    assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_NOT_FOUND);
    place.cache.may_build = 1;
    expect(&place, &made, true);
    place.cache.may_build = 0;
    expect(&place, &made, false);
    drop_place(&place);
}

static int begun[2]; /* a pipe: a byte comes when the build is in its middle */

static void hang(void)
{
    if (write(begun[1], "x", 1) != 1) abort();
    for (;;) (void)pause();
}

static pid_t start(const struct place *place, struct made *made)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    stoker_error err = {0};
    bool built;
    stoker_status status = open_set(place, made, &built, &err);
    if (status != STOKER_OK) (void)fprintf(stderr, "%s: %s\n", err.context, err.message);
    _exit(status == STOKER_OK ? 0 : 1);
}

static int wait_status(pid_t child)
{
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return ended;
}

static void test_one_of_eight_builds(void **state)
{
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        struct place place;
        struct stat facts;
        char count[80];
        pid_t children[8];
        make_place(&place);
        (void)snprintf(count, sizeof count, "%s/count", place.root);
        struct made made = {.rows = turn % 2 ? LARGE_ROWS : ROWS, .count_in = count};
        for (int i = 0; i < 8; i++) children[i] = start(&place, &made);
        for (int i = 0; i < 8; i++) assert_int_equal(wait_status(children[i]), 0);
        assert_int_equal(stat(count, &facts), 0);
        assert_int_equal(facts.st_size, 1);
        expect(&place, &made, false);
        assert_int_equal(count_files(place.folder, false), 4);
        drop_place(&place);
    }
}

static void test_a_killed_builder_is_followed_by_the_next(void **state)
{
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        struct place place;
        char byte;
        make_place(&place);
        assert_int_equal(pipe(begun), 0);
        struct made stuck = {.rows = LARGE_ROWS, .in_build = hang}, made = {.rows = LARGE_ROWS};
        pid_t builder = start(&place, &stuck);
        assert_int_equal(read(begun[0], &byte, 1), 1);
        pid_t next = start(&place, &made); /* waits on the lock, or comes after it */
        assert_int_equal(kill(builder, SIGKILL), 0);
        assert_true(WIFSIGNALED(wait_status(builder)));
        assert_int_equal(wait_status(next), 0);
        expect(&place, &made, false);
        assert_int_equal(count_files(place.folder, false), 4); /* no temporary file is left */
        assert_int_equal(close(begun[0]), 0);
        assert_int_equal(close(begun[1]), 0);
        drop_place(&place);
    }
}

/* Root may write anywhere, so a child takes another user's place. */
static void test_read_only_folder(void **state)
{
    (void)state;
    struct place place;
    struct made made = {.rows = ROWS};
    make_place(&place);
    expect(&place, &made, true);
    assert_int_equal(unlink(place.lock), 0);
    assert_int_equal(chmod(place.root, 0755), 0);
    assert_int_equal(chmod(place.folder, 0555), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool built = true;
        stoker_error err = {0};
        if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
        if (open_set(&place, &made, &built, &err) != STOKER_OK || built) _exit(1);
        struct made other = {.rows = ROWS + 1};
        if (open_set(&place, &other, &built, &err) != STOKER_ERR_IO) _exit(2);
        if (!strstr(err.message, "is not writable") || !strstr(err.message, place.folder)) _exit(3);
        if (open_set(&place, &other, &built, NULL) != STOKER_ERR_IO) _exit(4);
        _exit(0);
    }
    int ended = wait_status(child);
    assert_int_equal(count_files(place.folder, false), 3);
    drop_place(&place);
    assert_int_equal(ended, 0);
}

static void test_full_disk_leaves_nothing(void **state)
{
    (void)state;
    struct place place;
    struct made made = {.rows = ROWS}, failing = {.rows = ROWS, .fails = 1};
    bool built;
    stoker_error err;
    make_place(&place);
    for (int n = 1; n <= 2; n++) {
        fail_reserve = n;
        assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_NO_SPACE);
        assert_int_equal(count_files(place.folder, false), 1); /* the lock */
    }
    assert_int_equal(made.built, 0);
    fail_write = 1;
    assert_int_equal(open_set(&place, &made, &built, &err), STOKER_ERR_NO_SPACE);
    fail_write = 0;
    assert_int_equal(count_files(place.folder, false), 1);
    assert_int_equal(open_set(&place, &failing, &built, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(count_files(place.folder, false), 1);
    drop_place(&place);
}

static void test_fault_disk_that_cannot_sync(void **state)
{
    (void)state;
    int failed = 0;
    for (int n = 1; n < 20; n++) {
        struct place place;
        struct made made = {.rows = ROWS};
        bool built;
        stoker_error err;
        make_place(&place);
        fail_sync = n;
        stoker_status status = open_set(&place, &made, &built, &err);
        bool reached = fail_sync == 0;
        fail_sync = 0;
        assert_int_equal(status, reached ? STOKER_ERR_IO : STOKER_OK);
        failed += reached;
        expect(&place, &made, reached); /* what had appeared was whole; the rest is built */
        drop_place(&place);
        if (!reached) break;
    }
    assert_int_equal(failed, 4); /* each of the three files, and their folder once */
}

static void test_fault_each_allocation(void **state)
{
    (void)state;
    bool reached = true;
    for (uint64_t n = 1; reached; n++) {
        struct place place;
        struct made made = {.rows = ROWS};
        bool built;
        stoker_error err = {0};
        make_place(&place);
        allocations_fail(n);
        stoker_status status = open_set(&place, &made, &built, &err);
        reached = allocations_failed();
        allocations_fail(0);
        if (status != STOKER_OK) {
            assert_true(reached);
            assert_true(status == STOKER_ERR_NO_MEMORY || status == STOKER_ERR_IO);
            assert_true(err.message[0] != 0);
        }
        stoker_index_cache copy;
        allocations_fail(n);
        status = stk_cache_copy(&place.cache, &copy, &err);
        allocations_fail(0);
        if (n <= 3)
            assert_int_equal(status, STOKER_ERR_NO_MEMORY);
        else
            assert_string_equal(copy.stem, "stem");
        stk_cache_drop(&copy);
        struct made again = {.rows = ROWS};
        assert_int_equal(open_set(&place, &again, &built, &err), STOKER_OK);
        drop_place(&place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_once_then_loaded),
        cmocka_unit_test(test_memory_without_a_folder),
        cmocka_unit_test(test_damaged_sets_are_built_again),
        cmocka_unit_test(test_parts_of_killed_builders_are_removed),
        cmocka_unit_test(test_assumed_hits_look_for_nothing),
        cmocka_unit_test(test_stems_are_names),
        cmocka_unit_test(test_a_process_that_may_not_build),
        cmocka_unit_test(test_one_of_eight_builds),
        cmocka_unit_test(test_a_killed_builder_is_followed_by_the_next),
        cmocka_unit_test(test_read_only_folder),
        cmocka_unit_test(test_full_disk_leaves_nothing),
        cmocka_unit_test(test_fault_disk_that_cannot_sync),
        cmocka_unit_test(test_fault_each_allocation),
    };
    return stk_run_tests(tests);
}
