/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "sys/shmem.h"
#include "tests/support/unit.h"

#define MIB (UINT64_C(1) << 20)

static char root[64], proc[80], groups[80];

/* Writes text to root/path, making the folders on the way. */
static void put(const char *path, const char *text)
{
    char full[256];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_number(const char *path, uint64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu\n", (unsigned long long)number);
    put(path, text);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/stk-room-XXXXXX");
    assert_non_null(mkdtemp(root));
    (void)snprintf(proc, sizeof proc, "%s/proc", root);
    (void)snprintf(groups, sizeof groups, "%s/cg", root);
    put("proc/meminfo", "MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable:   1048576 kB\nBuffers: 4 kB\n");
    return 0;
}

static int unlink_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(root, unlink_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* OK for exactly `room` bytes beyond the margin, NO_MEMORY for one more. */
static void expect_room(uint64_t room, const char *word)
{
    stoker_error err = {0};
    assert_int_equal(stk_memory_room(room, proc, groups, &err), STOKER_OK);
    assert_int_equal(err.status, STOKER_OK);
    assert_int_equal(stk_memory_room(room + 1, proc, groups, &err), STOKER_ERR_NO_MEMORY);
    assert_non_null(strstr(err.message, word));
    assert_non_null(strstr(err.message, "lower max_bytes"));
}

static void test_machine_without_groups(void **state)
{
    (void)state;
    expect_room(1024 * MIB - STK_MEMORY_MARGIN_BYTES, "on this machine");
    put("proc/self/cgroup", "0::/\n");
    expect_room(1024 * MIB - STK_MEMORY_MARGIN_BYTES, "on this machine");
}

static void test_v1_smallest_on_the_path(void **state)
{
    (void)state;
    put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n");
    put_number("cg/memory/memory.limit_in_bytes", 9223372036854771712u);
    put_number("cg/memory/memory.usage_in_bytes", 5000 * MIB);
    put_number("cg/memory/a/memory.limit_in_bytes", 300 * MIB);
    put_number("cg/memory/a/memory.usage_in_bytes", 100 * MIB);
    put("cg/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
    put_number("cg/memory/a/b/memory.limit_in_bytes", 400 * MIB);
    put_number("cg/memory/a/b/memory.usage_in_bytes", 10 * MIB);
    expect_room(210 * MIB - STK_MEMORY_MARGIN_BYTES, "raise memory.limit_in_bytes of");
    put_number("cg/memory/a/b/memory.limit_in_bytes", 90 * MIB);
    expect_room(80 * MIB - STK_MEMORY_MARGIN_BYTES, "/memory/a/b'");
}

static void test_v2_max_and_high(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/job/step\n");
    put("cg/job/memory.max", "max\n");
    put_number("cg/job/memory.high", 200 * MIB);
    put_number("cg/job/memory.current", 50 * MIB);
    put("cg/job/memory.stat", "anon 1\ninactive_file 5242880\n");
    put_number("cg/job/step/memory.max", 250 * MIB);
    put("cg/job/step/memory.high", "max\n");
    put_number("cg/job/step/memory.current", 20 * MIB);
    expect_room(155 * MIB - STK_MEMORY_MARGIN_BYTES, "raise memory.high of");
    put_number("cg/job/step/memory.max", 120 * MIB);
    expect_room(100 * MIB - STK_MEMORY_MARGIN_BYTES, "/job/step'");
}

static void test_v2_beside_v1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "4:memory:/\n0::/x\n");
    put_number("cg/unified/x/memory.max", 100 * MIB);
    put_number("cg/unified/x/memory.current", 10 * MIB);
    expect_room(90 * MIB - STK_MEMORY_MARGIN_BYTES, "/unified/x'");
}

static void test_container_that_sees_its_own_subtree(void **state)
{
    (void)state;
    put("proc/self/cgroup", "4:memory:/docker/0123\n");
    put_number("cg/memory/memory.limit_in_bytes", 128 * MIB);
    put_number("cg/memory/memory.usage_in_bytes", 8 * MIB);
    expect_room(120 * MIB - STK_MEMORY_MARGIN_BYTES, "/cg/memory'");
    put("proc/self/cgroup", "4:memory:/../../other\n");
    expect_room(120 * MIB - STK_MEMORY_MARGIN_BYTES, "/cg/memory'");
}

static void test_use_above_limit_is_no_room(void **state)
{
    (void)state;
    stoker_error err = {0};
    put("proc/self/cgroup", "0::/x\n");
    put_number("cg/x/memory.max", 100 * MIB);
    put_number("cg/x/memory.current", 101 * MIB);
    assert_int_equal(stk_memory_room(0, proc, groups, &err), STOKER_ERR_NO_MEMORY);
    assert_non_null(strstr(err.message, "0.0 MiB available"));
}

static void test_broken_files_are_passed_over(void **state)
{
    (void)state;
    put("proc/self/cgroup", "\n4\n4:memory\n4:memory:relative\n::\n4:memory:/a\n");
    put("cg/memory/a/memory.limit_in_bytes", "many\n");
    put("cg/memory/a/memory.usage_in_bytes", "");
    expect_room(1024 * MIB - STK_MEMORY_MARGIN_BYTES, "on this machine");
}

static void test_this_machine(void **state)
{
    (void)state;
    stoker_error err = {0};
    assert_int_equal(stk_memory_room(4096, NULL, NULL, &err), STOKER_OK);
    assert_int_equal(stk_memory_room(UINT64_C(1) << 50, NULL, NULL, &err), STOKER_ERR_NO_MEMORY);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_machine_without_groups),
        CASE(test_v1_smallest_on_the_path),
        CASE(test_v2_max_and_high),
        CASE(test_v2_beside_v1),
        CASE(test_container_that_sees_its_own_subtree),
        CASE(test_use_above_limit_is_no_room),
        CASE(test_broken_files_are_passed_over),
        CASE(test_this_machine),
    };
    return stk_run_tests(tests);
}
