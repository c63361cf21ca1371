/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges over a path: open per read, tries with doubling delay, the end of the file.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/range_internal.h"
#include "tests/support/unit.h"

static char folder[64];

struct waits {
    uint64_t delays_ns[8];
    unsigned count;
    const char *appears; /* made at the wait of this number */
    unsigned at;
};

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fputs(text, out) >= 0, 1);
    assert_int_equal(fclose(out), 0);
}

static void count_wait(void *user, uint64_t delay_ns)
{
    struct waits *waits = user;
    assert_true(waits->count < 8);
    waits->delays_ns[waits->count++] = delay_ns;
    if (waits->appears && waits->count == waits->at) write_file(waits->appears, "late bytes");
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-path-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *list = opendir("/proc/self/fd");
    assert_non_null(list);
    while (readdir(list)) count++;
    (void)closedir(list); /* it was only read */
    return count;
}

static void test_path_opens_for_each_read(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/ten", folder);
    struct stk_range *range = NULL;
    struct stk_range_retry retry = {0, 0};
    stoker_error err = {0};
    unsigned before = open_descriptors();
    assert_int_equal(stk_range_open_path(path, retry, &range, &err), STOKER_OK); /* not there yet, and not looked at */
    write_file(path, "0123456789");
    char got[8] = {0};
    uint64_t size = 0;
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_OK);
    assert_int_equal(size, 10);
    assert_int_equal(stk_range_read(range, 3, 4, got, &err), STOKER_OK);
    assert_memory_equal(got, "3456", 4);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(stk_range_read(range, 8, 4, got, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "ends before byte 12"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stk_range_read(range, 3, 4, got, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(stk_range_size(range, &size, &err), STOKER_ERR_NOT_FOUND);
    stk_range_close(range);
}

static void test_path_tries_again_with_doubling_delay(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/absent", folder);
    struct stk_range *range = NULL;
    struct stk_range_retry retry = {3, UINT64_C(10000000000)};
    stoker_error err = {0};
    struct waits waits = {0};
    assert_int_equal(stk_range_open_path(path, retry, &range, &err), STOKER_OK);
    range->wait = (struct stk_range_wait){count_wait, &waits};
    char got[4];
    assert_int_equal(stk_range_read(range, 0, 4, got, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(waits.count, 3);
    assert_true(waits.delays_ns[0] == UINT64_C(10000000000));
    assert_true(waits.delays_ns[1] == UINT64_C(20000000000));
    assert_true(waits.delays_ns[2] == UINT64_C(40000000000));
    assert_non_null(strstr(err.context, "tried 4 times"));

    waits = (struct waits){.appears = path, .at = 2};
    assert_int_equal(stk_range_read(range, 0, 4, got, &err), STOKER_OK);
    assert_memory_equal(got, "late", 4);
    assert_int_equal(waits.count, 2);

    waits = (struct waits){0};
    assert_int_equal(stk_range_read(range, 8, 4, got, &err), STOKER_ERR_CORRUPT); /* the end is an answer */
    assert_int_equal(waits.count, 0);
    assert_int_equal(unlink(path), 0);
    stk_range_close(range);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_opens_for_each_read),
        cmocka_unit_test(test_path_tries_again_with_doubling_delay),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
