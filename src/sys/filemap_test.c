/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as memory: what is written through a mapping is in the file, and a file that cannot grow is an error.
 */
#include "sys/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

static int temporary(void)
{
    char path[] = "/tmp/stoker-filemap-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static void test_written_bytes_are_in_the_file(void **state)
{
    (void)state;
    stoker_error err;
    void *data = NULL;
    const void *again = NULL;
    int fd = temporary();
    const size_t size = ((size_t)4 << 20) + 5;
    assert_int_equal(stk_filemap_create(fd, size, &data, &err), STOKER_OK);
    memcpy((char *)data + size - 5, "right", 5);
    stk_filemap_seal(data, size);
    char read[5];
    assert_int_equal(pread(fd, read, 5, (off_t)size - 5), 5);
    assert_memory_equal(read, "right", 5);
    assert_int_equal(stk_filemap_read(fd, size, &again, &err), STOKER_OK);
    assert_int_equal(close(fd), 0);
    assert_memory_equal((const char *)again + size - 5, "right", 5);
    stk_filemap_close(again, size);
    stk_filemap_close(data, size);
    stk_filemap_close(NULL, 0);
}

static long resident_pages(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    return strtol(strchr(text, ' '), NULL, 10);
}

static void test_forgotten_pages_leave_the_process_not_the_file(void **state)
{
    (void)state;
    stoker_error err;
    void *data = NULL;
    int fd = temporary();
    const size_t size = (size_t)32 << 20;
    const long pages = (long)(size / 4096);
    assert_int_equal(stk_filemap_create(fd, size, &data, &err), STOKER_OK);
    memset(data, 7, size);
    long before = resident_pages();
    stk_filemap_forget((char *)data + 100, size - 200); /* the pages at both ends stay */
    assert_true(resident_pages() < before - pages + 64);
    for (size_t i = 0; i < size; i++)
        if (((char *)data)[i] != 7) fail_msg("byte %zu is lost", i);
    stk_filemap_forget(data, 1); /* less than a page: nothing */
    stk_filemap_forget((char *)data + 1, 4096);
    stk_filemap_close(data, size);
    assert_int_equal(close(fd), 0);
}

static void test_sealed_pages_cannot_be_written(void **state)
{
    (void)state;
    stoker_error err;
    void *data = NULL;
    assert_int_equal(stk_filemap_memory(4096, &data, &err), STOKER_OK);
    assert_int_equal(((char *)data)[4095], 0);
    ((char *)data)[0] = 1;
    stk_filemap_seal(data, 4096);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        ((volatile char *)data)[0] = 2;
        _exit(0);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    stk_filemap_close(data, 4096);
}

static void test_a_hint_changes_no_byte(void **state)
{
    (void)state;
    size_t size = (size_t)9 << 20;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    bytes[1] = 3;
    stk_filemap_hint_huge(bytes + 1, size - 1);
    stk_filemap_hint_huge(bytes, 1);
    stk_filemap_hint_huge(bytes, 0);
    assert_int_equal(bytes[1], 3);
    bytes[size - 1] = 4;
    assert_int_equal(bytes[size - 1], 4);
    free(bytes);
}

static void test_failures_are_errors_of_the_call(void **state)
{
    (void)state;
    stoker_error err = {0};
    void *data = NULL;
    const void *read = NULL;
    int fd = temporary();
    const struct rlimit small = {8192, RLIM_INFINITY};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    stoker_status status = stk_filemap_create(fd, 1 << 20, &data, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, STOKER_ERR_IO);
    assert_int_equal(err.os_error, EFBIG);
    assert_null(data);
    assert_int_equal(stk_filemap_create(fd, SIZE_MAX, &data, &err), STOKER_ERR_IO);
    assert_int_equal(close(fd), 0);
    assert_int_equal(stk_filemap_create(fd, 4096, &data, &err), STOKER_ERR_IO);
    assert_int_equal(stk_filemap_read(fd, 4096, &read, &err), STOKER_ERR_IO);
    assert_int_equal(stk_filemap_memory(SIZE_MAX / 2, &data, &err), STOKER_ERR_NO_MEMORY);
    assert_non_null(strstr(err.message, "no memory for"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_bytes_are_in_the_file),
        cmocka_unit_test(test_forgotten_pages_leave_the_process_not_the_file),
        cmocka_unit_test(test_sealed_pages_cannot_be_written),
        cmocka_unit_test(test_a_hint_changes_no_byte),
        cmocka_unit_test(test_failures_are_errors_of_the_call),
    };
    return stk_run_tests(tests);
}
