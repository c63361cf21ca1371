/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/shmem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "tests/support/unit.h"

#define MIB ((size_t)1 << 20)

static uint64_t blocks_of(int fd)
{
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    return (uint64_t)info.st_blocks * 512;
}

/* `ulimit -f` holds for shared memory, too: an error that names it, where the signal is ignored. */
static void test_limit_of_file_sizes_is_named(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = -1;
        stoker_error err = {0};
        const struct rlimit limit = {MIB, MIB};
        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
        stoker_status status = stk_shmem_create(NULL, 4 * MIB, &fd, &err);
        _exit(status == STOKER_ERR_LIMIT && strstr(err.message, "ulimit -f") ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_no_free_descriptor_is_named_with_the_limit(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {0, before.rlim_max};
    stoker_error err = {0}, directory_err = {0};
    int fd = -1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    stoker_status status = stk_shmem_create(NULL, 4096, &fd, &err);
    stoker_status directory_status = stk_shmem_create("/tmp", 4096, &fd, &directory_err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, STOKER_ERR_LIMIT);
    assert_non_null(strstr(err.message, "ulimit -n, now 0,"));
    assert_int_equal(directory_status, STOKER_ERR_LIMIT);
    assert_string_equal(directory_err.message, err.message);
}

static void test_segment_is_reserved_and_sealed(void **state)
{
    (void)state;
    int fd = -1;
    stoker_error err = {0};
    assert_int_equal(stk_shmem_create(NULL, 70 * MIB, &fd, &err), STOKER_OK); /* two steps */
    assert_true(blocks_of(fd) >= 70 * MIB);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_int_equal(ftruncate(fd, 80 * (off_t)MIB), -1);
    char *one = NULL, *two = NULL;
    assert_int_equal(stk_shmem_map(fd, 70 * MIB, 1, (void **)&one, &err), STOKER_OK);
    assert_int_equal(stk_shmem_map(fd, 70 * MIB, 0, (void **)&two, &err), STOKER_OK);
    one[70 * MIB - 1] = 'x';
    assert_int_equal(two[70 * MIB - 1], 'x');
    assert_int_equal(stk_shmem_punch(fd, 70 * MIB, &err), STOKER_OK);
    assert_int_equal(blocks_of(fd), 0);
    assert_int_equal(two[70 * MIB - 1], 0); /* a late touch is no SIGBUS */
    assert_int_equal(close(fd), 0);
    stk_shmem_unmap(one, 70 * MIB);
    stk_shmem_unmap(two, 70 * MIB);
    stk_shmem_unmap(NULL, 0);
    assert_int_equal(err.status, STOKER_OK);
}

static void test_a_forked_child_has_no_mapping(void **state)
{
    (void)state;
    int fd = -1;
    char *kept = NULL, *shared = NULL;
    assert_int_equal(stk_shmem_create(NULL, MIB, &fd, NULL), STOKER_OK);
    assert_int_equal(stk_shmem_map(fd, MIB, 1, (void **)&kept, NULL), STOKER_OK);
    assert_int_equal(stk_shmem_map(fd, MIB, 0, (void **)&shared, NULL), STOKER_OK);
    pid_t child = fork();
    if (child == 0) {
        unsigned char page;
        _exit(mincore(shared, 4096, &page) == 0 && mincore(kept, 4096, &page) != 0 && errno == ENOMEM ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    stk_shmem_unmap(kept, MIB);
    stk_shmem_unmap(shared, MIB);
    assert_int_equal(close(fd), 0);
}

static void test_map_refuses_what_could_be_cut(void **state)
{
    (void)state;
    stoker_error err = {0};
    void *address = NULL;
    int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)MIB), 0);
    assert_int_equal(stk_shmem_map(fd, MIB, 0, &address, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "sealed"));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(stk_shmem_map(fd, 2 * MIB, 0, &address, &err), STOKER_ERR_MISMATCH);
    assert_int_equal(stk_shmem_map(fd, MIB / 2, 0, &address, &err), STOKER_ERR_MISMATCH);
    assert_null(address);
    assert_int_equal(close(fd), 0);
    assert_int_equal(stk_shmem_map(-1, MIB, 0, &address, &err), STOKER_ERR_IO);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(stk_shmem_map(ends[0], MIB, 0, &address, &err), STOKER_ERR_MISMATCH);
    (void)close(ends[0]), (void)close(ends[1]);
}

static unsigned entries_of(const char *path)
{
    unsigned count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while (readdir(directory)) count++;
    (void)closedir(directory);
    return count;
}

static void test_segment_in_a_directory_leaves_nothing(void **state)
{
    (void)state;
    const char *parents[] = {"/tmp", "/dev/shm", "/proc/self/cwd"};
    for (unsigned i = 0; i < 3; i++) {
        char path[64];
        stoker_error err = {0};
        int fd = -1;
        char *bytes = NULL;
        (void)snprintf(path, sizeof path, "%s/stk-shm-XXXXXX", parents[i]);
        if (access(parents[i], W_OK) != 0) continue;
        assert_non_null(mkdtemp(path));
        assert_int_equal(stk_shmem_create(path, 2 * MIB, &fd, &err), STOKER_OK);
        assert_true(blocks_of(fd) >= 2 * MIB);
        assert_int_equal(entries_of(path), 2); /* . and .. */
        assert_int_equal(stk_shmem_map(fd, 2 * MIB, 1, (void **)&bytes, &err), STOKER_OK);
        bytes[2 * MIB - 1] = 1;
        assert_int_equal(stk_shmem_punch(fd, 2 * MIB, &err), STOKER_OK);
        assert_int_equal(bytes[2 * MIB - 1], 0);
        stk_shmem_unmap(bytes, 2 * MIB);
        assert_int_equal(close(fd), 0);
        assert_int_equal(rmdir(path), 0);
    }
}

static void test_errors_name_needs_and_places(void **state)
{
    (void)state;
    int fd = -1;
    stoker_error err = {0};
    assert_int_equal(stk_shmem_create(NULL, (size_t)1 << 50, &fd, &err), STOKER_ERR_NO_MEMORY);
    assert_non_null(strstr(err.message, "needed"));
    assert_non_null(strstr(err.message, "available"));
    assert_non_null(strstr(err.message, "max_bytes"));
    assert_int_equal(stk_shmem_create(NULL, SIZE_MAX, &fd, &err), STOKER_ERR_LIMIT);
    assert_int_equal(stk_shmem_create("/nonexistent/x", MIB, &fd, &err), STOKER_ERR_IO); /* no fault of a sample */
    assert_non_null(strstr(err.message, "/nonexistent/x"));
    assert_int_equal(stk_shmem_create("/tmp", (size_t)1 << 60, &fd, &err) < 0, 1);
    assert_int_equal(fd, -1);
}

static void test_blob_cannot_change(void **state)
{
    (void)state;
    stoker_error err = {0};
    int fd = -1;
    const void *data = NULL;
    size_t size = 0;
    char text[] = "a pickled dataset";
    assert_int_equal(stk_shmem_blob_create(text, sizeof text, &fd, &err), STOKER_OK);
    assert_int_equal(write(fd, "y", 1), -1);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_int_equal(stk_shmem_blob_map(fd, &data, &size, &err), STOKER_OK);
    assert_int_equal(close(fd), 0);
    assert_int_equal(size, sizeof text);
    assert_memory_equal(data, text, size);
    stk_shmem_blob_unmap(data, size);

    assert_int_equal(stk_shmem_blob_create(NULL, 0, &fd, &err), STOKER_OK);
    assert_int_equal(stk_shmem_blob_map(fd, &data, &size, &err), STOKER_OK);
    assert_int_equal(size, 0);
    assert_non_null(data);
    stk_shmem_blob_unmap(data, size);
    assert_int_equal(close(fd), 0);

    assert_int_equal(stk_shmem_create(NULL, MIB, &fd, &err), STOKER_OK);
    assert_int_equal(stk_shmem_blob_map(fd, &data, &size, &err), STOKER_ERR_MISMATCH); /* its bytes can change */
    assert_int_equal(close(fd), 0);
    assert_int_equal(stk_shmem_blob_map(-1, &data, &size, &err), STOKER_ERR_MISMATCH);
}

/* A memory cgroup below our own, v1 or v2; false if this machine or user permits none. */
static bool make_group(uint64_t limit, char *out, size_t size)
{
    char line[512], base[1024] = "", path[1200];
    const char *limit_name = "memory.max";
    FILE *file = fopen("/proc/self/cgroup", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *group = strrchr(line, ':');
        if (strstr(line, ":memory:") || strstr(line, ",memory:") || strstr(line, ":memory,")) {
            (void)snprintf(base, sizeof base, "/sys/fs/cgroup/memory%s", group + 1);
            limit_name = "memory.limit_in_bytes";
            break;
        }
        if (strncmp(line, "0::", 3) == 0) (void)snprintf(base, sizeof base, "/sys/fs/cgroup%s", group + 1);
    }
    (void)fclose(file);
    (void)snprintf(out, size, "%s/stk-a3-%d", base, (int)getpid());
    if (mkdir(out, 0700) != 0) return false;
    (void)snprintf(path, sizeof path, "%s/%s", out, limit_name);
    file = fopen(path, "r+"); /* absent where the memory controller is not handed down */
    bool made = file && fprintf(file, "%llu", (unsigned long long)limit) > 0;
    if (file && fclose(file) != 0) made = false;
    if (!made) (void)rmdir(out);
    return made;
}

static bool enter_group(const char *group)
{
    char path[1200];
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *file = fopen(path, "w");
    if (!file) return false;
    bool entered = fprintf(file, "%d", (int)getpid()) > 0;
    return fclose(file) == 0 && entered;
}

/* In the child: reserves first, then second; 0 if the first status is as expected and the second is a refusal. */
static int reserve_twice(const char *group, size_t first, stoker_status expected, size_t second)
{
    int fd = -1;
    stoker_error err = {0};
    if (!enter_group(group)) return 2;
    if (first && stk_shmem_create(NULL, first, &fd, &err) != expected) return 3;
    if (stk_shmem_create(NULL, second, &fd, &err) != STOKER_ERR_NO_MEMORY) return 4;
    return strstr(err.message, group) && strstr(err.message, "MiB available") ? 0 : 5;
}

static void expect_refusal(uint64_t limit, size_t first, size_t second)
{
    char group[1100];
    if (!make_group(limit, group, sizeof group)) {
        STK_SKIP("no memory cgroup can be made here");
    }
    pid_t child = fork();
    if (child == 0) _exit(reserve_twice(group, first, STOKER_OK, second));
    int status = 0;
    pid_t ended = waitpid(child, &status, 0);
    int removed = rmdir(group);
    assert_int_equal(ended, child);
    assert_false(WIFSIGNALED(status)); /* the kernel's answer would be SIGKILL */
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(removed, 0);
}

static void test_a3_reservation_above_a_cgroup_is_an_error(void **state)
{
    (void)state;
    expect_refusal(64 * MIB, 0, 256 * MIB);
}

static void test_a3_second_reservation_counts_the_first(void **state)
{
    (void)state;
    expect_refusal(384 * MIB, 192 * MIB, 192 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_of_file_sizes_is_named),
        cmocka_unit_test(test_no_free_descriptor_is_named_with_the_limit),
        cmocka_unit_test(test_segment_is_reserved_and_sealed),
        cmocka_unit_test(test_a_forked_child_has_no_mapping),
        cmocka_unit_test(test_map_refuses_what_could_be_cut),
        cmocka_unit_test(test_segment_in_a_directory_leaves_nothing),
        cmocka_unit_test(test_errors_name_needs_and_places),
        cmocka_unit_test(test_blob_cannot_change),
        cmocka_unit_test(test_a3_reservation_above_a_cgroup_is_an_error),
        cmocka_unit_test(test_a3_second_reservation_counts_the_first),
    };
    return stk_run_tests(tests);
}
