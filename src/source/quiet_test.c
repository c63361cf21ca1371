/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's libraries have no terminal. FFmpeg's own logging is called by its name, because nothing of FFmpeg may be
 * included here.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "source/source.h"
#include "tests/support/unit.h"

void av_log(void *object, int level, const char *format, ...);

/* Bytes on stderr when a library says something of no file. */
static long say(void)
{
    char path[] = "/tmp/stoker-quiet-XXXXXX";
    int fd = mkstemp(path), saved = dup(STDERR_FILENO);
    assert_true(fd >= 0 && saved >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    av_log(NULL, 16 /* an error */, "what nobody asked for\n");
    assert_int_equal(fflush(stderr), 0);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(saved), 0);
    long size = (long)lseek(fd, 0, SEEK_END);
    assert_int_equal(close(fd), 0);
    return size;
}

static void test_libraries_are_quiet_once_the_process_is_ours(void **state)
{
    (void)state;
    assert_true(say() > 0); /* a rank may have other users of the library: they are left alone */
    stk_source_own_process();
    assert_int_equal(say(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_libraries_are_quiet_once_the_process_is_ours)};
    return stk_run_tests(tests);
}
