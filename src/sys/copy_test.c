/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/support/unit.h"

/* The program is linked with --wrap for these: file systems that share blocks, and ways that are refused, are made
 * here. */
ssize_t __real_copy_file_range(int from, off_t *in, int to, off_t *out, size_t size, unsigned flags);
ssize_t __wrap_copy_file_range(int from, off_t *in, int to, off_t *out, size_t size, unsigned flags);
void *__real_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_fstatfs64(int fd, struct statfs *out);
int __wrap_fstatfs64(int fd, struct statfs *out);
int __real_fallocate64(int fd, int mode, off_t offset, off_t size);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t size);
static int range_error, map_error, reserve_error;
static unsigned range_calls, map_calls;
static size_t moved_at_most;
static bool shares;

static ssize_t refuse(int os_error)
{
    if (os_error == -1) return 0;
    errno = os_error;
    return -1;
}

ssize_t __wrap_copy_file_range(int from, off_t *in, int to, off_t *out, size_t size, unsigned flags)
{
    range_calls++;
    if (range_error) return refuse(range_error);
    return __real_copy_file_range(from, in, to, out, size < moved_at_most ? size : moved_at_most, flags);
}

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    map_calls += fd >= 0;
    if (fd < 0 || !map_error) return __real_mmap64(address, size, protection, flags, fd, offset);
    errno = map_error;
    return MAP_FAILED;
}

int __wrap_fstatfs64(int fd, struct statfs *out)
{
    int result = __real_fstatfs64(fd, out);
    out->f_type = shares ? 0x58465342 : 0xef53;
    return result;
}

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t size)
{
    if (!reserve_error) return __real_fallocate64(fd, mode, offset, size);
    errno = reserve_error;
    return -1;
}

enum { SIZE = 3000000 };
static uint8_t bytes[SIZE], copied[SIZE + 7];

static int new_file(void)
{
    char path[] = "/tmp/stk-copy-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static void expect_copy(void)
{
    int from = new_file(), to = new_file();
    stoker_error err = {0};
    for (int i = 0; i < SIZE; i++) bytes[i] = (uint8_t)(i * 31 + i / 977);
    assert_int_equal(write(from, bytes, SIZE), SIZE);
    assert_int_equal(write(to, "1234567....", 11), 11);
    assert_int_equal(stk_copy_bytes(from, to, 7, SIZE, true, NULL, &err), STOKER_OK);
    assert_int_equal(err.status, STOKER_OK);
    assert_int_equal(pread(to, copied, sizeof copied, 0), sizeof copied);
    assert_memory_equal(copied, "1234567", 7);
    assert_memory_equal(copied + 7, bytes, SIZE);
    assert_int_equal(stk_copy_bytes(from, to, 3, 0, true, NULL, &err), STOKER_OK);
    assert_int_equal(stk_copy_bytes(from, to, 0, SIZE + 1, true, NULL, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "ends at byte 3000000"));
    assert_int_equal(stk_copy_bytes(from, to, INT64_MAX, 2, true, NULL, &err), STOKER_ERR_LIMIT);
    (void)close(from), (void)close(to);
}

static int reset(void **state)
{
    (void)state;
    range_error = map_error = reserve_error = 0;
    range_calls = map_calls = 0;
    shares = true;
    moved_at_most = SIZE;
    return 0;
}

static void test_copy_in_parts(void **state)
{
    (void)state;
    moved_at_most = 700001;
    expect_copy();
    assert_true(range_calls >= 5);
    assert_int_equal(map_calls, 0);
}

static void test_where_no_blocks_are_shared(void **state)
{
    static const int strange[] = {0, EOPNOTSUPP, EINTR, EFBIG};
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        (void)reset(state);
        shares = false;
        reserve_error = strange[i];
        expect_copy();
        assert_int_equal(range_calls, 0);
        assert_true(map_calls >= 1);
    }
}

/* The file is not seen to be longer than what was copied. */
static void test_reserving_does_not_lengthen(void **state)
{
    (void)state;
    int from = new_file(), to = new_file();
    stoker_error err = {0};
    shares = false;
    assert_int_equal(write(from, "abc", 3), 3);
    assert_int_equal(stk_copy_bytes(from, to, 0, 1000000, false, NULL, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(lseek(to, 0, SEEK_END), 3);
    (void)close(from), (void)close(to);
}

static void test_each_way_takes_over(void **state)
{
    static const int refusals[] = {ENOSYS, EXDEV, EINVAL, EOPNOTSUPP, EPERM, -1};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        for (int second = 0; second < 2; second++) {
            (void)reset(state);
            range_error = refusals[i];
            map_error = second ? ENODEV : 0;
            expect_copy();
            assert_true(range_calls >= 1 && map_calls >= 1);
        }
}

static void test_faults_are_not_retried_elsewhere(void **state)
{
    static const int faults[] = {ENOSPC, EDQUOT, EIO};
    int from = new_file(), to = new_file();
    assert_int_equal(write(from, "abc", 3), 3);
    for (size_t i = 0; i < 3; i++) {
        (void)reset(state);
        stoker_error err = {0};
        range_error = faults[i];
        assert_int_equal(stk_copy_bytes(from, to, 0, 3, true, NULL, &err), i < 2 ? STOKER_ERR_NO_SPACE : STOKER_ERR_IO);
        assert_int_equal(err.os_error, faults[i]);
        assert_int_equal(map_calls, 0);
    }
    for (size_t i = 0; i < 2; i++) {
        (void)reset(state);
        stoker_error err = {0};
        shares = false;
        reserve_error = faults[i];
        assert_int_equal(stk_copy_bytes(from, to, 0, 3, true, NULL, &err), STOKER_ERR_NO_SPACE);
        assert_int_equal(err.os_error, faults[i]);
        assert_int_equal(map_calls, 0);
    }
    (void)close(from), (void)close(to);
}

static void test_a_copy_can_be_stopped(void **state)
{
    (void)state;
    static atomic_bool stop;
    char from_name[] = "/tmp/stk-copy-XXXXXX", to_name[] = "/tmp/stk-copy-XXXXXX";
    int from = mkstemp(from_name), to = mkstemp(to_name);
    stoker_error err = {0};
    assert_true(from >= 0 && to >= 0);
    assert_int_equal(pwrite(from, "abc", 3, 0), 3);
    atomic_store(&stop, true);
    assert_int_equal(stk_copy_bytes(from, to, 0, 3, true, &stop, &err), STOKER_ERR_CANCELED);
    assert_int_equal(lseek(to, 0, SEEK_END), 0);
    atomic_store(&stop, false);
    assert_int_equal(stk_copy_bytes(from, to, 0, 3, true, &stop, &err), STOKER_OK);
    (void)close(from);
    (void)close(to);
    (void)unlink(from_name);
    (void)unlink(to_name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_copy_can_be_stopped),
        cmocka_unit_test_setup(test_copy_in_parts, reset),
        cmocka_unit_test_setup(test_where_no_blocks_are_shared, reset),
        cmocka_unit_test_setup(test_reserving_does_not_lengthen, reset),
        cmocka_unit_test_setup(test_each_way_takes_over, reset),
        cmocka_unit_test_setup(test_faults_are_not_retried_elsewhere, reset),
    };
    return stk_run_tests(tests);
}
