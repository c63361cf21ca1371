/* SPDX-License-Identifier: Apache-2.0
 *
 * Downloads: all bytes, folders made, and nothing there after a failure.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "store/file.h"
#include "store/range_fixture.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-download-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void expect_download(uint64_t size, unsigned ways)
{
    char path[128], parent[128];
    (void)snprintf(parent, sizeof parent, "%s/a", folder);
    (void)snprintf(path, sizeof path, "%s/a/x", folder);
    struct fake_range *fake = fake_open(size, ways);
    stoker_error err = {0};
    assert_int_equal(stk_range_download(&fake->head, path, &err), STOKER_OK);
    stk_range_close(&fake->head);

    struct stk_file file;
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_OK);
    assert_true(file.size == size);
    uint8_t *got = malloc((size_t)size + 1);
    size_t read = 0;
    assert_non_null(got);
    assert_int_equal(stk_file_read(&file, 0, got, (size_t)size, &read, &err), STOKER_OK);
    for (size_t i = 0; i < size; i += i < 1000 ? 1 : 1009) assert_int_equal(got[i], fake_byte(i));
    free(got);
    stk_file_close(&file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(parent), 0); /* empty: nothing else was left */
}

static void test_download_copies_every_byte(void **state)
{
    (void)state;
    expect_download(0, 8);
    expect_download(1, 8);
    expect_download(STK_RANGE_PART_BYTES, 8);
    expect_download(STK_RANGE_PART_BYTES * 2 + 5, 8);
    expect_download(STK_RANGE_PART_BYTES + 5, 1);
}

static void test_download_leaves_nothing_after_a_failure(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/x", folder);
    struct fake_range *fake = fake_open(STK_RANGE_PART_BYTES * 2 + 5, 8);
    stoker_error err = {0};
    fake->fails_at = STK_RANGE_PART_BYTES * 2 + 1;
    assert_int_equal(stk_range_download(&fake->head, path, &err), STOKER_ERR_IO);
    assert_int_equal(access(path, F_OK), -1);
    fake->fails_at = UINT64_MAX;
    fake->empty_at = STK_RANGE_PART_BYTES; /* it ends earlier than its size says */
    assert_int_equal(stk_range_download(&fake->head, path, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(access(path, F_OK), -1);
    stk_range_close(&fake->head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_download_copies_every_byte),
        cmocka_unit_test(test_download_leaves_nothing_after_a_failure),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
